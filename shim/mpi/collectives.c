/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a call: describe it, plan it, run the plan, count it; or pass it on. And what the
 * front gets of this engine. */
#include "shim/mpi/collectives.h"

#include "shim/core/clock.h"
#include "shim/mpi/measured.h"
#include "shim/mpi/nonblocking.h"
#include "shim/mpi/writable.h"
#include "shim/mpi/device.h"
#include "shim/mpi/observe.h"
#include "shim/mpi/requests.h"

/* What every call pays for, also one that is passed through: made for each collective apart. */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define APART __attribute__((noinline))

/* Compresses a call. Returns false, with nothing done but what all ranks did, if it is to be passed
 * through after all, with the reason counted; else sets *status. */
static APART bool compress(const struct cshim_arguments *arguments, struct cshim_call *call,
                           uint64_t count, const struct cshim_rule *rule,
                           struct cshim_measured *measured, int *status)
{
    struct cshim_comm *state = NULL;
    struct cshim_plan plan = {0};
    bool on_device = false;
    *status = cshim_comm_find(arguments->comm, &state);
    if (*status == MPI_SUCCESS)
        *status = cshim_nonblocking_prepare(arguments->comm, state);
    if (*status != MPI_SUCCESS)
        return true;
    call->instead =
        cshim_tolerance_codec(&state->host.watch, cshim_rule_index(cshim_job.policy, rule),
                              rule->codec, call->dtype, count);
    plan.reason = state->reason;
    if (plan.reason == CSHIM_REASON_COMPRESS)
        *status = cshim_mpi_device_check(arguments, &on_device);
    if (*status != MPI_SUCCESS)
        return true;
    if (on_device)
        plan.reason = CSHIM_REASON_DEVICE_BUFFER;
    if (plan.reason == CSHIM_REASON_COMPRESS)
        *status = cshim_measured_choose(state, call, rule, arguments->comm, measured);
    if (*status != MPI_SUCCESS)
        return true;
    const bool is_chosen = measured->class != NULL;
    if (is_chosen && measured->candidate == CSHIM_CANDIDATE_NATIVE)
        plan.reason = CSHIM_REASON_NO_GAIN;
    else if (plan.reason == CSHIM_REASON_COMPRESS && is_chosen)
        plan = cshim_measured_plan(state, call, count, measured);
    else if (plan.reason == CSHIM_REASON_COMPRESS)
        plan = cshim_measured_plan_by(state, call, count, rule, CSHIM_ALGORITHM_AUTO);
    if (plan.reason != CSHIM_REASON_COMPRESS) {
        cshim_count_pass(plan.reason, arguments->comm);
        if (is_chosen && measured->candidate != CSHIM_CANDIDATE_NATIVE)
            measured->class = NULL; /* the algorithm cannot make this call of the class */
        else if (is_chosen)
            cshim_native_remember(arguments, measured->class);
        measured->began = cshim_seconds();
        return false;
    }
    if (plan.schedule->staged)
        *status = cshim_comm_prepare_levels(state);
    if (*status != MPI_SUCCESS)
        return true;
    struct cshim_exchange exchange = cshim_exchange_of(arguments, &plan, state);
    state->told = false;
    double seconds = 0;
    *status = cshim_call_run(&exchange, &seconds);
    if (is_chosen && *status == MPI_SUCCESS)
        cshim_class_end(measured->class, measured->candidate, seconds);
    if (*status != MPI_SUCCESS && !state->told)
        PMPI_Comm_call_errhandler(arguments->comm, *status);
    return true;
}

static APART void observe(const struct cshim_arguments *arguments, enum cshim_reason reason,
                          struct cshim_observed_call *observed)
{
    struct cshim_call call = {0};
    reason = reason == CSHIM_REASON_COMPRESS ? CSHIM_REASON_DISABLED : reason;
    cshim_count_pass(reason, arguments->comm);
    if (cshim_describe_observed(arguments, &call))
        cshim_observe_begin(observed, &call, arguments->comm, reason);
}

/* One call of the program. */
struct call {
    bool done; /* it was compressed; else the caller hands it to the library */
    int status;
    struct cshim_observed_call observed; /* a call that goes to the library */
    struct cshim_measured measured;
};

/* Nothing is done yet, and nothing observed. */
static ALWAYS_INLINE void clear(struct call *call)
{
    call->done = false;
    call->observed.comm = MPI_COMM_NULL;
    call->measured.class = NULL;
}

static ALWAYS_INLINE void pass(struct call *call, const struct cshim_arguments *arguments,
                               enum cshim_reason reason)
{
    if (__builtin_expect(cshim_mpi.is_watched, 0))
        observe(arguments, reason, &call->observed);
    else
        cshim_count_pass(reason, arguments->comm);
}

/* Compresses a call if the policy wants that. */
static ALWAYS_INLINE void consider(struct call *call, const struct cshim_arguments *arguments)
{
    const struct cshim_rule *rule;
    struct cshim_call facts;
    uint64_t count;
    if (cshim_native_passes(arguments)) {
        cshim_count_pass(CSHIM_REASON_NO_GAIN, arguments->comm);
        return;
    }
    enum cshim_reason reason = cshim_describe_call(arguments, &facts, &count);
    if (reason == CSHIM_REASON_COMPRESS) {
        reason = cshim_plan_reason(cshim_job.policy, &facts, count, &rule);
        if (reason != CSHIM_REASON_COMPRESS)
            cshim_count_weight(reason, &facts, arguments->comm);
    }
    if (reason == CSHIM_REASON_COMPRESS && cshim_job.observed == NULL)
        call->done = compress(arguments, &facts, count, rule, &call->measured, &call->status);
    else
        pass(call, arguments, reason);
}

/* What is wrong with a call that is refused the library will say. */
static ALWAYS_INLINE void begin(struct call *call, const struct cshim_arguments *arguments)
{
    clear(call);
    if (!cshim_describe_refused(arguments))
        consider(call, arguments);
}

static ALWAYS_INLINE void begin_reduction(struct call *call, enum cshim_collective collective,
                                          CSHIM_REDUCTION(MPI_Count), int root, MPI_Comm comm)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(collective, sendbuf, recvbuf, count, datatype, op, comm);
    arguments.root = root;
    begin(call, &arguments);
}

/* What is wrong with counts that are no array the library will say. */
static ALWAYS_INLINE void begin_scatter(struct call *call, const void *sendbuf, void *recvbuf,
                                        const void *recvcounts, MPI_Datatype datatype, MPI_Op op,
                                        MPI_Comm comm, bool large)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_REDUCE_SCATTER, sendbuf, recvbuf, 0, datatype, op, comm);
    arguments.recvcounts = recvcounts;
    arguments.large = large;
    clear(call);
    if (recvcounts != NULL)
        begin(call, &arguments);
}

/* Has the ranks of a call that moves elements agree on the reason not to compress it, if any rank
 * has one; CSHIM_REASON_DTYPE where they give and take elements of different types. MPI lets ranks
 * describe the same elements by different types and by absolute addresses, so that no rank knows it
 * of the others. Returns false, with nothing asked, where the call is not compressed in any case:
 * that follows from its bytes and its communicator, which are the same on all ranks.
 *
 * The bytes of an all-to-all with counts are not: its ranks agree on the largest block, too, which
 * becomes the count; of bytes where elements are not plain. */
static bool agree_on_elements(struct cshim_arguments *arguments, enum cshim_reason *reason)
{
    enum { REASON, BYTES, DTYPE, OTHER_DTYPE, FACTS };
    const bool by_counts = arguments->sendcounts != NULL, observes = cshim_job.observed != NULL;
    const enum cshim_dtype dtype = cshim_describe_datatype(arguments->datatype);
    struct cshim_comm *state;
    uint64_t own[FACTS], most[FACTS];
    int inter = 0, ranks = 1, bytes = 0;
    PMPI_Comm_test_inter(arguments->comm, &inter);
    PMPI_Comm_size(arguments->comm, &ranks);
    PMPI_Type_size(arguments->datatype, &bytes);
    const bool is_one = cshim_shapes[arguments->collective].has_blocks && !arguments->recvcounts;
    const int blocks = is_one ? ranks : 1;
    own[REASON] = *reason;
    own[BYTES] = arguments->count * (uint64_t)bytes;
    own[DTYPE] = dtype;
    own[OTHER_DTYPE] = CSHIM_DTYPE_OTHER - (uint64_t)dtype;
    if (inter || ranks == 1 ||
        (!by_counts &&
         (observes || own[BYTES] * (uint64_t)blocks <
                          cshim_policy_smallest(cshim_job.policy, arguments->collective))))
        return false;
    if (cshim_comm_find(arguments->comm, &state) != MPI_SUCCESS ||
        (!observes && cshim_nonblocking_prepare(arguments->comm, state) != MPI_SUCCESS) ||
        state->reason != CSHIM_REASON_COMPRESS)
        return false;
    const int status =
        cshim_mpi.real->MPI_Allreduce(own, most, FACTS, MPI_UINT64_T, MPI_MAX, arguments->comm);
    *reason = status == MPI_SUCCESS ? (enum cshim_reason)most[REASON] : CSHIM_REASON_NOT_AGREED;
    if (*reason == CSHIM_REASON_COMPRESS && most[DTYPE] + most[OTHER_DTYPE] != CSHIM_DTYPE_OTHER)
        *reason = CSHIM_REASON_DTYPE;
    if (by_counts && *reason == CSHIM_REASON_COMPRESS) {
        arguments->count = most[BYTES] / (uint64_t)bytes;
    } else if (by_counts) {
        arguments->count = most[BYTES];
        arguments->datatype = MPI_BYTE;
    }
    return true;
}

/* Returns true if this rank is the root of a broadcast whose codec rounds, from memory that it may
 * only read. Such a root cannot keep what all others get. */
static APART bool gives_constant_memory(const struct cshim_arguments *arguments)
{
    const struct cshim_rule *rule;
    struct cshim_call facts;
    uint64_t count;
    if (arguments->collective != CSHIM_BROADCAST || !cshim_describe_is_root(arguments) ||
        cshim_describe_call(arguments, &facts, &count) != CSHIM_REASON_COMPRESS ||
        cshim_plan_reason(cshim_job.policy, &facts, count, &rule) != CSHIM_REASON_COMPRESS)
        return false;
    return !cshim_plan_leaves_root(rule->codec) &&
           !cshim_is_writable(arguments->recvbuf, facts.bytes);
}

/* A call that moves elements is looked at where a rule names it; else it is counted as `function`.
 * It passes for a sum. `are_alike`: this rank gives elements of the type and number that it takes,
 * or only does one of both. */
static APART void begin_move(struct call *call, struct cshim_arguments *arguments, bool are_alike,
                             enum cshim_mpi_counted function)
{
    clear(call);
    if (arguments->comm != MPI_COMM_NULL && arguments->datatype == MPI_DATATYPE_NULL &&
        arguments->sendcounts != NULL) { /* the other ranks ask this one, which may give nothing */
        arguments->datatype = MPI_BYTE;
        are_alike = false;
    }
    if (arguments->comm == MPI_COMM_NULL || arguments->datatype == MPI_DATATYPE_NULL ||
        (int64_t)arguments->count < 0)
        return; /* the library will say what is wrong */
    if (!cshim_policy_names(cshim_job.policy, CSHIM_MPI, arguments->collective)) {
        cshim_count_other(function, arguments->recvbuf, (cshim_count)arguments->count,
                          arguments->datatype, arguments->comm);
        return;
    }
    cshim_describe_complex(arguments);
    enum cshim_reason reason = CSHIM_REASON_COMPRESS;
    if (!are_alike || cshim_describe_datatype(arguments->datatype) == CSHIM_DTYPE_OTHER ||
        cshim_describe_refused(arguments))
        reason = CSHIM_REASON_DTYPE;
    else if (gives_constant_memory(arguments))
        reason = CSHIM_REASON_READ_ONLY;
    if (!agree_on_elements(arguments, &reason) || reason == CSHIM_REASON_COMPRESS)
        consider(call, arguments);
    else
        pass(call, arguments, reason);
}

/* An all-gather or an all-to-all: a block for each rank. */
static void begin_blocks(struct call *call, enum cshim_collective collective,
                         enum cshim_mpi_counted function, const void *sendbuf, MPI_Count sendcount,
                         MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount,
                         MPI_Datatype recvtype, MPI_Comm comm)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(collective, sendbuf, recvbuf, recvcount, recvtype, MPI_SUM, comm);
    begin_move(call, &arguments,
               sendbuf == MPI_IN_PLACE || (sendtype == recvtype && sendcount == recvcount),
               function);
}

/* Whether blocks follow each other: where they lie is each rank's own choice. Finds the largest and
 * the elements of all. */
static bool follow_each_other(const struct cshim_arguments *arguments, const void *counts,
                              const void *displacements, int ranks, uint64_t *largest,
                              uint64_t *all)
{
    bool follow = true;
    int64_t total = 0;
    for (int i = 0; i < ranks; i++) {
        const int64_t count = cshim_count_at(arguments, counts, i);
        const int64_t begin = arguments->large ? ((const MPI_Aint *)displacements)[i]
                                               : ((const int *)displacements)[i];
        follow &= count == 0 || (count > 0 && begin == total);
        total += count;
        if (count > (int64_t)*largest)
            *largest = (uint64_t)count;
    }
    *all = (uint64_t)total;
    return follow;
}

/* An all-gather whose blocks differ in length. The lengths are the same on all ranks. */
static void begin_gather(struct call *call, const void *sendbuf, MPI_Count sendcount,
                         MPI_Datatype sendtype, void *recvbuf, const void *recvcounts,
                         const void *displacements, MPI_Datatype recvtype, MPI_Comm comm,
                         bool large)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_ALLGATHER, sendbuf, recvbuf, 0, recvtype, MPI_SUM, comm);
    uint64_t largest = 0;
    int inter = 0, ranks = 0, rank = 0;
    clear(call);
    if (comm == MPI_COMM_NULL || recvcounts == NULL || displacements == NULL)
        return; /* the library will say what is wrong */
    if (!cshim_policy_names(cshim_job.policy, CSHIM_MPI, CSHIM_ALLGATHER)) {
        cshim_count_other(CSHIM_COUNTED_MPI_Allgatherv, sendbuf, sendcount, sendtype, comm);
        return;
    }
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_size(comm, &ranks);
    PMPI_Comm_rank(comm, &rank);
    arguments.recvcounts = recvcounts;
    arguments.large = large;
    bool are_alike = !inter && follow_each_other(&arguments, recvcounts, displacements, ranks,
                                                 &largest, &arguments.count);
    if (are_alike && sendbuf != MPI_IN_PLACE)
        are_alike = sendtype == recvtype && sendcount == cshim_recvcount(&arguments, rank);
    begin_move(call, &arguments, are_alike, CSHIM_COUNTED_MPI_Allgatherv);
}

/* The parameters of an all-to-all whose blocks differ in length, and the same as arguments. */
#define EXCHANGED(Count, Place)                                                                    \
    const void *sendbuf, const Count *sendcounts, const Place *sdispls, MPI_Datatype sendtype,     \
        void *recvbuf, const Count *recvcounts, const Place *rdispls, MPI_Datatype recvtype,       \
        MPI_Comm comm
#define EXCHANGED_A                                                                                \
    sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm

/* In place, what is sent lies where it is replaced by what comes. */
static void begin_exchange(struct call *call, EXCHANGED(void, void), bool large)
{
    const bool in_place = sendbuf == MPI_IN_PLACE;
    struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_ALLTOALL, sendbuf, recvbuf, 0, recvtype, MPI_SUM, comm);
    uint64_t all;
    int inter = 0, ranks = 0;
    clear(call);
    if (comm == MPI_COMM_NULL || recvcounts == NULL || rdispls == NULL ||
        (!in_place && (sendcounts == NULL || sdispls == NULL)))
        return; /* the library will say what is wrong */
    if (!cshim_policy_names(cshim_job.policy, CSHIM_MPI, CSHIM_ALLTOALL)) {
        cshim_count_other(CSHIM_COUNTED_MPI_Alltoallv, NULL, 0, MPI_DATATYPE_NULL, comm);
        return;
    }
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_size(comm, &ranks);
    arguments.recvcounts = recvcounts;
    arguments.sendcounts = in_place ? recvcounts : sendcounts;
    arguments.large = large;
    const bool are_alike =
        !inter &&
        follow_each_other(&arguments, recvcounts, rdispls, ranks, &arguments.count, &all) &
            follow_each_other(&arguments, arguments.sendcounts, in_place ? rdispls : sdispls, ranks,
                              &arguments.count, &all) &
            (in_place || sendtype == recvtype);
    begin_move(call, &arguments, are_alike, CSHIM_COUNTED_MPI_Alltoallv);
}

/* The buffer of a broadcast is the root's input and everybody's output. */
static void begin_broadcast(struct call *call, void *buffer, MPI_Count count, MPI_Datatype datatype,
                            int root, MPI_Comm comm)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_BROADCAST, MPI_IN_PLACE, buffer, count, datatype, MPI_SUM, comm);
    arguments.root = root;
    begin_move(call, &arguments, true, CSHIM_COUNTED_MPI_Bcast);
}

/* Ends a call that the library has made, and returns the library's status. */
static ALWAYS_INLINE int end(struct call *call, int status)
{
    if (call->observed.comm != MPI_COMM_NULL)
        cshim_observe_end(&call->observed);
    /* After an error the program's handler may have freed the communicator, and so the class. */
    if (__builtin_expect(call->measured.class != NULL, 0) && status == MPI_SUCCESS)
        cshim_class_end(call->measured.class, call->measured.candidate,
                        cshim_seconds() - call->measured.began);
    return status;
}

/* The status of a call that has begun. The library makes it if the engine has not. */
#define ENDED(call, by_library) ((call).done ? (call).status : end(&(call), by_library))

static int allreduce(CSHIM_REDUCTION(int), MPI_Comm comm)
{
    struct call call;
    begin_reduction(&call, CSHIM_ALLREDUCE, CSHIM_REDUCTION_A, 0, comm);
    return ENDED(call, cshim_mpi.real->MPI_Allreduce(CSHIM_REDUCTION_A, comm));
}

static int allreduce_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm)
{
    struct call call;
    begin_reduction(&call, CSHIM_ALLREDUCE, CSHIM_REDUCTION_A, 0, comm);
    return ENDED(call, cshim_mpi.real->MPI_Allreduce_c(CSHIM_REDUCTION_A, comm));
}

static int reduce_to_root(CSHIM_REDUCTION(int), int root, MPI_Comm comm)
{
    struct call call;
    begin_reduction(&call, CSHIM_REDUCE, CSHIM_REDUCTION_A, root, comm);
    return ENDED(call, cshim_mpi.real->MPI_Reduce(CSHIM_REDUCTION_A, root, comm));
}

static int reduce_to_root_c(CSHIM_REDUCTION(MPI_Count), int root, MPI_Comm comm)
{
    struct call call;
    begin_reduction(&call, CSHIM_REDUCE, CSHIM_REDUCTION_A, root, comm);
    return ENDED(call, cshim_mpi.real->MPI_Reduce_c(CSHIM_REDUCTION_A, root, comm));
}

static int reduce_scatter_block(CSHIM_REDUCTION(int), MPI_Comm comm)
{
    struct call call;
    begin_reduction(&call, CSHIM_REDUCE_SCATTER, CSHIM_REDUCTION_A, 0, comm);
    return ENDED(call, cshim_mpi.real->MPI_Reduce_scatter_block(CSHIM_REDUCTION_A, comm));
}

static int reduce_scatter_block_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm)
{
    struct call call;
    begin_reduction(&call, CSHIM_REDUCE_SCATTER, CSHIM_REDUCTION_A, 0, comm);
    return ENDED(call, cshim_mpi.real->MPI_Reduce_scatter_block_c(CSHIM_REDUCTION_A, comm));
}

static int reduce_scatter(CSHIM_SCATTERED(int), MPI_Comm comm)
{
    struct call call;
    begin_scatter(&call, CSHIM_SCATTERED_A, comm, false);
    return ENDED(call, cshim_mpi.real->MPI_Reduce_scatter(CSHIM_SCATTERED_A, comm));
}

static int reduce_scatter_c(CSHIM_SCATTERED(MPI_Count), MPI_Comm comm)
{
    struct call call;
    begin_scatter(&call, CSHIM_SCATTERED_A, comm, true);
    return ENDED(call, cshim_mpi.real->MPI_Reduce_scatter_c(CSHIM_SCATTERED_A, comm));
}

/* The parameters of a collective with a block for each rank, and the same as arguments. */
#define BLOCKS(Count)                                                                              \
    const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount,   \
        MPI_Datatype recvtype, MPI_Comm comm
#define BLOCKS_A sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm

static int allgather(BLOCKS(int))
{
    struct call call;
    begin_blocks(&call, CSHIM_ALLGATHER, CSHIM_COUNTED_MPI_Allgather, BLOCKS_A);
    return ENDED(call, cshim_mpi.real->MPI_Allgather(BLOCKS_A));
}

static int allgather_c(BLOCKS(MPI_Count))
{
    struct call call;
    begin_blocks(&call, CSHIM_ALLGATHER, CSHIM_COUNTED_MPI_Allgather, BLOCKS_A);
    return ENDED(call, cshim_mpi.real->MPI_Allgather_c(BLOCKS_A));
}

static int allgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                      const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                      MPI_Comm comm)
{
    struct call call;
    begin_gather(&call, sendbuf, sendcount, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
                 false);
    return ENDED(call, cshim_mpi.real->MPI_Allgatherv(sendbuf, sendcount, sendtype, recvbuf,
                                                      recvcounts, rdispls, recvtype, comm));
}

static int allgatherv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                        void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                        MPI_Datatype recvtype, MPI_Comm comm)
{
    struct call call;
    begin_gather(&call, sendbuf, sendcount, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
                 true);
    return ENDED(call, cshim_mpi.real->MPI_Allgatherv_c(sendbuf, sendcount, sendtype, recvbuf,
                                                        recvcounts, rdispls, recvtype, comm));
}

static int alltoall(BLOCKS(int))
{
    struct call call;
    begin_blocks(&call, CSHIM_ALLTOALL, CSHIM_COUNTED_MPI_Alltoall, BLOCKS_A);
    return ENDED(call, cshim_mpi.real->MPI_Alltoall(BLOCKS_A));
}

static int alltoall_c(BLOCKS(MPI_Count))
{
    struct call call;
    begin_blocks(&call, CSHIM_ALLTOALL, CSHIM_COUNTED_MPI_Alltoall, BLOCKS_A);
    return ENDED(call, cshim_mpi.real->MPI_Alltoall_c(BLOCKS_A));
}

static int alltoallv(EXCHANGED(int, int))
{
    struct call call;
    begin_exchange(&call, EXCHANGED_A, false);
    return ENDED(call, cshim_mpi.real->MPI_Alltoallv(EXCHANGED_A));
}

static int alltoallv_c(EXCHANGED(MPI_Count, MPI_Aint))
{
    struct call call;
    begin_exchange(&call, EXCHANGED_A, true);
    return ENDED(call, cshim_mpi.real->MPI_Alltoallv_c(EXCHANGED_A));
}

static int broadcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
    struct call call;
    begin_broadcast(&call, buffer, count, datatype, root, comm);
    return ENDED(call, cshim_mpi.real->MPI_Bcast(buffer, count, datatype, root, comm));
}

static int broadcast_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                       MPI_Comm comm)
{
    struct call call;
    begin_broadcast(&call, buffer, count, datatype, root, comm);
    return ENDED(call, cshim_mpi.real->MPI_Bcast_c(buffer, count, datatype, root, comm));
}

static void count_tool(MPI_Comm comm)
{
    cshim_count_pass(CSHIM_REASON_TOOL, comm);
}

__attribute__((visibility("default"))) const struct cshim_mpi_engine cshim_mpi_engine = {
    .abi = CSHIM_ENGINE_ABI,
    .start = cshim_mpi_start,
    .functions =
        {
            .MPI_Allreduce = allreduce,
            .MPI_Allreduce_c = allreduce_c,
            .MPI_Reduce = reduce_to_root,
            .MPI_Reduce_c = reduce_to_root_c,
            .MPI_Reduce_scatter = reduce_scatter,
            .MPI_Reduce_scatter_c = reduce_scatter_c,
            .MPI_Reduce_scatter_block = reduce_scatter_block,
            .MPI_Reduce_scatter_block_c = reduce_scatter_block_c,
            .MPI_Allgather = allgather,
            .MPI_Allgather_c = allgather_c,
            .MPI_Allgatherv = allgatherv,
            .MPI_Allgatherv_c = allgatherv_c,
            .MPI_Alltoall = alltoall,
            .MPI_Alltoall_c = alltoall_c,
            .MPI_Alltoallv = alltoallv,
            .MPI_Alltoallv_c = alltoallv_c,
            .MPI_Bcast = broadcast,
            .MPI_Bcast_c = broadcast_c,
            .MPI_Iallreduce = cshim_iallreduce,
            .MPI_Iallreduce_c = cshim_iallreduce_c,
            .MPI_Allreduce_init = cshim_allreduce_init,
            .MPI_Allreduce_init_c = cshim_allreduce_init_c,
            .MPIX_Allreduce_init = cshim_allreduce_init,
            .MPI_Start = cshim_start,
            .MPI_Startall = cshim_startall,
            .MPI_Request_free = cshim_request_free,
            .MPI_Cancel = cshim_cancel,
        },
    .count = cshim_count_other,
    .count_tool = count_tool,
    .finalize = cshim_mpi_finalize,
};
