/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a call: describe it, plan it, run the plan, count it; or pass it on. */
#include "shim/mpi/internal.h"

/* What every call pays for, also one that is passed on: made for each collective apart. */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define APART __attribute__((noinline))

void cshim_count_pass(enum cshim_reason reason, MPI_Comm comm)
{
    int rank = cshim_job.rank;
    if (reason == CSHIM_REASON_SINGLE_RANK)
        rank = 0;
    else if (comm != MPI_COMM_WORLD)
        PMPI_Comm_rank(comm, &rank);
    if (rank == 0)
        cshim_ledger_pass(&cshim_job.ledger, reason);
}

/* The elements of the whole whose sums come to this rank. Of a reduce_scatter, where each rank's
 * lie as well. */
static struct cshim_range find_result(const struct cshim_arguments *arguments,
                                      const struct cshim_plan *plan, struct cshim_comm *state)
{
    uint64_t *begins = state->block_begins;
    if (arguments->collective == CSHIM_REDUCE)
        return (struct cshim_range){0, arguments->root == state->rank ? plan->count : 0};
    if (arguments->collective == CSHIM_ALLREDUCE)
        return (struct cshim_range){0, plan->count};
    for (int i = 0; i < state->ranks; i++)
        begins[i + 1] =
            begins[i] + (arguments->recvcounts != NULL ? (uint64_t)cshim_recvcount(arguments, i)
                                                       : arguments->count);
    return (struct cshim_range){begins[state->rank], begins[state->rank + 1] - begins[state->rank]};
}

struct cshim_exchange cshim_exchange_of(const struct cshim_arguments *arguments,
                                        const struct cshim_plan *plan, struct cshim_comm *state)
{
    return (struct cshim_exchange){
        .comm = state,
        .plan = plan,
        .input = arguments->sendbuf == MPI_IN_PLACE ? arguments->recvbuf : arguments->sendbuf,
        .output = arguments->recvbuf,
        .result = find_result(arguments, plan, state),
        .element_bytes = cshim_dtype_bytes(plan->dtype),
        .nonblocking = arguments->nonblocking,
        .began = cshim_job.trace != NULL ? cshim_seconds() : 0,
    };
}

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
        call->instead = cshim_watch_codec(&state->watch, (size_t)(rule - cshim_job.policy->rules),
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

/* Whether this rank is the one that a reduce goes to. */
static bool is_root(const struct cshim_arguments *arguments)
{
    int rank = cshim_job.rank;
    if (arguments->comm != MPI_COMM_WORLD)
        PMPI_Comm_rank(arguments->comm, &rank);
    return rank == arguments->root;
}

static ALWAYS_INLINE bool is_refused(const struct cshim_arguments *arguments)
{
    const void *send = arguments->sendbuf, *receive = arguments->recvbuf;
    if (arguments->comm == MPI_COMM_NULL || arguments->datatype == MPI_DATATYPE_NULL ||
        arguments->op == MPI_OP_NULL || (int64_t)arguments->count < 0)
        return true;
    if (arguments->collective == CSHIM_REDUCE && !is_root(arguments))
        return arguments->count > 0 && (send == NULL || send == MPI_IN_PLACE);
    if (receive == MPI_IN_PLACE)
        return true;
    if (arguments->recvcounts != NULL) /* some results may be empty, and have no buffer */
        return send == NULL || send == receive;
    return arguments->count > 0 && (send == NULL || receive == NULL || send == receive);
}

bool cshim_is_refused(const struct cshim_arguments *arguments)
{
    return is_refused(arguments);
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
    __atomic_sub_fetch(&cshim_job.wanted, 1, __ATOMIC_RELAXED);
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
    if (is_refused(arguments))
        return false;
    if (__builtin_expect(__atomic_load_n(&cshim_job.wanted, __ATOMIC_RELAXED) > 0, 0))
        prepare_wanted(arguments->comm);
    enum cshim_reason reason = cshim_describe_call(arguments, &call, &count);
    if (reason == CSHIM_REASON_COMPRESS)
        reason = cshim_plan_reason(cshim_job.policy, &call, count, &rule);
    if (reason == CSHIM_REASON_COMPRESS && cshim_job.observed == NULL)
        return compress(arguments, &call, count, rule, status);
    if (__builtin_expect(cshim_job.is_watched, 0))
        observe(arguments, reason, observation);
    else
        cshim_count_pass(reason, arguments->comm);
    return false;
}

/* The library's own function for a call, with counts as the program gave them. */
static ALWAYS_INLINE int pass_on(const struct cshim_arguments *arguments)
{
    const struct cshim_mpi_real *real = cshim_job.real;
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
        return cshim_job.real->MPI_Reduce_scatter(CSHIM_SCATTERED_A, comm);
    return reduce_scatter(CSHIM_SCATTERED_A, comm, false);
}

int cshim_reduce_scatter_c(CSHIM_SCATTERED(MPI_Count), MPI_Comm comm)
{
    if (recvcounts == NULL)
        return cshim_job.real->MPI_Reduce_scatter_c(CSHIM_SCATTERED_A, comm);
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
