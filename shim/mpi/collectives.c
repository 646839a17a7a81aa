/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a call: describe it, plan it, run the plan, count it; or pass it on. */
#include "shim/mpi/collectives.h"

#include "shim/mpi/device.h"
#include "shim/mpi/nonblocking.h"
#include "shim/mpi/observe.h"

/* What every call pays for, also one that is passed on: made for each collective apart. */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define APART __attribute__((noinline))

/* Compresses a call. Returns false, with nothing done but what all ranks did, if it is to be passed
 * through after all, with the reason counted; else sets *status. */
static APART bool compress(const struct cshim_arguments *arguments, struct cshim_call *call,
                           uint64_t count, const struct cshim_rule *rule, int *status)
{
    struct cshim_comm *state = NULL;
    struct cshim_plan plan = {0};
    bool on_device = false;
    *status = cshim_comm_find(arguments->comm, &state);
    if (*status == MPI_SUCCESS)
        *status = cshim_comm_prepare(arguments->comm, state);
    if (*status == MPI_SUCCESS)
        cshim_nonblocking_drain(state);
    if (*status == MPI_SUCCESS) {
        plan.reason = state->reason;
        call->instead =
            cshim_watch_codec(&state->host.watch, (size_t)(rule - cshim_job.policy->rules),
                              rule->codec, call->dtype, count);
    }
    if (*status == MPI_SUCCESS && plan.reason == CSHIM_REASON_COMPRESS)
        *status = cshim_device_check(arguments, state, &on_device);
    if (on_device)
        plan.reason = CSHIM_REASON_DEVICE_BUFFER;
    if (*status == MPI_SUCCESS && plan.reason == CSHIM_REASON_COMPRESS)
        plan = cshim_plan_call(cshim_job.policy, call, count);
    if (plan.reason != CSHIM_REASON_COMPRESS) {
        cshim_count_pass(plan.reason, arguments->comm);
        return false;
    }
    if (*status == MPI_SUCCESS) {
        struct cshim_exchange exchange = cshim_exchange_of(arguments, &plan, state);
        *status = cshim_call_run(&exchange);
    }
    if (*status != MPI_SUCCESS)
        PMPI_Comm_call_errhandler(arguments->comm, *status);
    return true;
}

/* Prepares a communicator that a nonblocking call would have liked to be: what has been called on
 * it is the same on all ranks. If that fails, so will the next that asks. */
static APART void prepare_wanted(MPI_Comm comm)
{
    struct cshim_comm *state;
    int inter = 0;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter || cshim_comm_find(comm, &state) != MPI_SUCCESS || !state->wanted)
        return;
    state->wanted = false;
    __atomic_sub_fetch(&cshim_mpi.wanted, 1, __ATOMIC_RELAXED);
    (void)cshim_comm_prepare(comm, state);
}

static APART void observe(const struct cshim_arguments *arguments, enum cshim_reason reason,
                          struct cshim_observation *observation)
{
    struct cshim_call call = {0};
    observation->reason = reason == CSHIM_REASON_COMPRESS ? CSHIM_REASON_DISABLED : reason;
    cshim_count_pass(observation->reason, arguments->comm);
    if (cshim_describe_observed(arguments, &call))
        cshim_observe_begin(observation, &call, arguments->comm);
}

/* Returns true if the call is done, with its outcome in *status; false if it is to be passed on,
 * and the observation to be ended after that. */
static ALWAYS_INLINE bool reissue(const struct cshim_arguments *arguments,
                                  struct cshim_observation *observation, int *status)
{
    const struct cshim_rule *rule;
    struct cshim_call call;
    uint64_t count;
    observation->comm = MPI_COMM_NULL;
    if (cshim_describe_refused(arguments))
        return false;
    if (__builtin_expect(__atomic_load_n(&cshim_mpi.wanted, __ATOMIC_RELAXED) > 0, 0))
        prepare_wanted(arguments->comm);
    enum cshim_reason reason = cshim_describe_call(arguments, &call, &count);
    if (reason == CSHIM_REASON_COMPRESS)
        reason = cshim_plan_reason(cshim_job.policy, &call, count, &rule);
    if (reason == CSHIM_REASON_COMPRESS && cshim_job.observed == NULL)
        return compress(arguments, &call, count, rule, status);
    if (__builtin_expect(cshim_mpi.is_watched, 0))
        observe(arguments, reason, observation);
    else
        cshim_count_pass(reason, arguments->comm);
    return false;
}

/* The library's own function for a call, with counts as the program gave them. */
static ALWAYS_INLINE int pass_on(const struct cshim_arguments *arguments)
{
    const struct cshim_mpi_real *real = cshim_mpi.real;
    const void *sendbuf = arguments->sendbuf;
    void *recvbuf = arguments->recvbuf;
    const cshim_count count = (cshim_count)arguments->count;
    const int small = (int)count; /* of a call that is not large: as it came */
    const MPI_Datatype datatype = arguments->datatype;
    const MPI_Op op = arguments->op;
    const MPI_Comm comm = arguments->comm;
    const int root = arguments->root;
    if (arguments->collective == CSHIM_ALLREDUCE)
        return arguments->large ? real->MPI_Allreduce_c(sendbuf, recvbuf, count, datatype, op, comm)
                                : real->MPI_Allreduce(sendbuf, recvbuf, small, datatype, op, comm);
    if (arguments->collective == CSHIM_REDUCE)
        return arguments->large
                   ? real->MPI_Reduce_c(sendbuf, recvbuf, count, datatype, op, root, comm)
                   : real->MPI_Reduce(sendbuf, recvbuf, small, datatype, op, root, comm);
    if (arguments->recvcounts != NULL)
        return arguments->large ? real->MPI_Reduce_scatter_c(
                                      sendbuf, recvbuf, arguments->recvcounts, datatype, op, comm)
                                : real->MPI_Reduce_scatter(sendbuf, recvbuf, arguments->recvcounts,
                                                           datatype, op, comm);
    return arguments->large
               ? real->MPI_Reduce_scatter_block_c(sendbuf, recvbuf, count, datatype, op, comm)
               : real->MPI_Reduce_scatter_block(sendbuf, recvbuf, small, datatype, op, comm);
}

static ALWAYS_INLINE int call(const struct cshim_arguments *arguments)
{
    struct cshim_observation observation;
    int status;
    if (reissue(arguments, &observation, &status))
        return status;
    status = pass_on(arguments);
    if (observation.comm != MPI_COMM_NULL)
        cshim_observe_end(&observation);
    return status;
}

/* Each of the functions with its counts as the largest type, and whether the program gave them so.
 */
static ALWAYS_INLINE int reduce_to_all(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm, bool large)
{
    const struct cshim_arguments arguments = {
        .collective = CSHIM_ALLREDUCE,
        .large = large,
        .sendbuf = sendbuf,
        .recvbuf = recvbuf,
        .count = (uint64_t)count,
        .datatype = datatype,
        .op = op,
        .comm = comm,
    };
    return call(&arguments);
}

static ALWAYS_INLINE int reduce_to_root(CSHIM_REDUCTION(MPI_Count), int root, MPI_Comm comm,
                                        bool large)
{
    const struct cshim_arguments arguments = {
        .collective = CSHIM_REDUCE,
        .large = large,
        .sendbuf = sendbuf,
        .recvbuf = recvbuf,
        .count = (uint64_t)count,
        .datatype = datatype,
        .op = op,
        .root = root,
        .comm = comm,
    };
    return call(&arguments);
}

static ALWAYS_INLINE int reduce_scatter(const void *sendbuf, void *recvbuf, const void *recvcounts,
                                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, bool large)
{
    const struct cshim_arguments arguments = {
        .collective = CSHIM_REDUCE_SCATTER,
        .large = large,
        .sendbuf = sendbuf,
        .recvbuf = recvbuf,
        .recvcounts = recvcounts,
        .datatype = datatype,
        .op = op,
        .comm = comm,
    };
    return call(&arguments);
}

static ALWAYS_INLINE int reduce_scatter_block(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm, bool large)
{
    const struct cshim_arguments arguments = {
        .collective = CSHIM_REDUCE_SCATTER,
        .large = large,
        .sendbuf = sendbuf,
        .recvbuf = recvbuf,
        .count = (uint64_t)count,
        .datatype = datatype,
        .op = op,
        .comm = comm,
    };
    return call(&arguments);
}

int cshim_allreduce(CSHIM_REDUCTION(int), MPI_Comm comm)
{
    return reduce_to_all(CSHIM_REDUCTION_A(CSHIM_AS_IS), comm, false);
}

int cshim_allreduce_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm)
{
    return reduce_to_all(CSHIM_REDUCTION_A(CSHIM_AS_IS), comm, true);
}

int cshim_reduce_to_root(CSHIM_REDUCTION(int), int root, MPI_Comm comm)
{
    return reduce_to_root(CSHIM_REDUCTION_A(CSHIM_AS_IS), root, comm, false);
}

int cshim_reduce_to_root_c(CSHIM_REDUCTION(MPI_Count), int root, MPI_Comm comm)
{
    return reduce_to_root(CSHIM_REDUCTION_A(CSHIM_AS_IS), root, comm, true);
}

int cshim_reduce_scatter(CSHIM_SCATTERED(int), MPI_Comm comm)
{
    if (recvcounts == NULL) /* what that is the library will say */
        return cshim_mpi.real->MPI_Reduce_scatter(CSHIM_SCATTERED_A, comm);
    return reduce_scatter(CSHIM_SCATTERED_A, comm, false);
}

int cshim_reduce_scatter_c(CSHIM_SCATTERED(MPI_Count), MPI_Comm comm)
{
    if (recvcounts == NULL)
        return cshim_mpi.real->MPI_Reduce_scatter_c(CSHIM_SCATTERED_A, comm);
    return reduce_scatter(CSHIM_SCATTERED_A, comm, true);
}

int cshim_reduce_scatter_block(CSHIM_REDUCTION(int), MPI_Comm comm)
{
    return reduce_scatter_block(CSHIM_REDUCTION_A(CSHIM_AS_IS), comm, false);
}

int cshim_reduce_scatter_block_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm)
{
    return reduce_scatter_block(CSHIM_REDUCTION_A(CSHIM_AS_IS), comm, true);
}
