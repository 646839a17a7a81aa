/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking collectives: describe the call, and compress it (compress.c) or pass it through to the
 * MPI library. Also defines the table of functions that this engine gives the front. */
#include "shim/mpi/compress.h"
#include "shim/mpi/movement.h"
#include "shim/mpi/observe.h"
#include "shim/mpi/requests.h"
#include "shim/mpi/spawn.h"

/* ALWAYS_INLINE: the path of every blocking reduction, also if it is passed through; inlined so
 * that the compiler specialises it for each collective. COLD: kept out of that path. */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define COLD __attribute__((noinline))

#define SCATTERED(type)                                                                            \
    const void *sendbuf, void *recvbuf, const type recvcounts[], MPI_Datatype datatype, MPI_Op op
#define SCATTERED_A sendbuf, recvbuf, recvcounts, datatype, op

/* State of one call of the program. */
struct collective_call {
    struct cshim_outcome outcome;
    struct cshim_observed_call observed; /* a call to the MPI library that is recorded or traced */
};

/* Initialises a call that is neither done nor recorded. */
static ALWAYS_INLINE void clear_collective(struct collective_call *call)
{
    call->outcome.done = false;
    call->outcome.class = NULL;
    call->observed.comm = MPI_COMM_NULL;
}

/* Counts a call that is passed through, and begins to record or trace it. With COMPSHIM=observe, a
 * call that the policy would compress is passed through, too. */
static COLD void observe_call(const struct cshim_arguments *arguments, enum cshim_reason reason,
                              struct cshim_observed_call *observed)
{
    struct cshim_call call = {0};
    reason = reason == CSHIM_REASON_COMPRESS ? CSHIM_REASON_DISABLED : reason;
    cshim_count_pass(reason, arguments->comm);
    if (cshim_describe_any(arguments, &call))
        cshim_observe_begin(observed, &call, arguments->comm, reason);
}

/* Counts a call that is passed through, and records it if calls are recorded or traced. */
static ALWAYS_INLINE void pass_collective(struct collective_call *call,
                                          const struct cshim_arguments *arguments,
                                          enum cshim_reason reason)
{
    if (__builtin_expect(cshim_mpi.is_watched, 0))
        observe_call(arguments, reason, &call->observed);
    else
        cshim_count_pass(reason, arguments->comm);
}

/* Compresses a call, or counts the reason for which it is passed through. */
static ALWAYS_INLINE void consider_collective(struct collective_call *call,
                                              const struct cshim_arguments *arguments)
{
    const struct cshim_rule *rule;
    struct cshim_call described;
    uint64_t count;
    if (cshim_passes_as_native(arguments)) {
        cshim_count_pass(CSHIM_REASON_NO_GAIN, arguments->comm);
        return;
    }
    enum cshim_reason reason = cshim_describe_call(arguments, &described, &count);
    if (reason == CSHIM_REASON_COMPRESS) {
        reason = cshim_plan_reason(cshim_job.policy, &described, count, &rule);
        if (reason != CSHIM_REASON_COMPRESS)
            cshim_count_weight(reason, &described, arguments->comm);
        else if (cshim_job.observed == NULL)
            reason = cshim_compress(&call->outcome, arguments, &described, count, rule);
    }
    if (!call->outcome.done)
        pass_collective(call, arguments, reason);
}

/* Begins a call. If the library may refuse its arguments, the call is passed through, so that the
 * library reports the error. */
static ALWAYS_INLINE void begin_collective(struct collective_call *call,
                                           const struct cshim_arguments *arguments)
{
    clear_collective(call);
    if (!cshim_describe_refused(arguments))
        consider_collective(call, arguments);
}

static ALWAYS_INLINE void begin_reduction(struct collective_call *call,
                                          enum cshim_collective collective,
                                          CSHIM_REDUCTION(MPI_Count), int root, MPI_Comm comm)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(collective, sendbuf, recvbuf, count, datatype, op, comm);
    arguments.root = root;
    begin_collective(call, &arguments);
}

/* Begins a reduce_scatter with counts. If `recvcounts` is NULL the call is passed through, so that
 * the library reports the error. */
static ALWAYS_INLINE void begin_scatter(struct collective_call *call, const void *sendbuf,
                                        void *recvbuf, const void *recvcounts,
                                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, bool large)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_REDUCE_SCATTER, sendbuf, recvbuf, 0, datatype, op, comm);
    arguments.recvcounts = recvcounts;
    arguments.large = large;
    clear_collective(call);
    if (recvcounts != NULL)
        begin_collective(call, &arguments);
}

/* Begins a data-movement collective. If no rule names the collective, only counts the call, as
 * `function`. The operation in `arguments` is MPI_SUM, as plans of data movement expect.
 * `are_alike` is true if, on this rank, (1) sent and received elements have one type, (2) each sent
 * block is as long as the block received for it (not required in an alltoallv), and (3) blocks of
 * different lengths are contiguous in rank order. In-place calls and broadcasts always meet (1) and
 * (2). */
static COLD void begin_data_movement(struct collective_call *call,
                                     struct cshim_arguments *arguments, bool are_alike,
                                     enum cshim_mpi_counted function)
{
    clear_collective(call);
    /* A rank that receives nothing may pass no receive type, but takes part in
     * cshim_movement_agree(): the others wait for it there. */
    if (arguments->comm != MPI_COMM_NULL && arguments->datatype == MPI_DATATYPE_NULL &&
        arguments->sendcounts != NULL) {
        arguments->datatype = MPI_BYTE;
        are_alike = false;
    }
    if (arguments->comm == MPI_COMM_NULL || arguments->datatype == MPI_DATATYPE_NULL ||
        (int64_t)arguments->count < 0)
        return; /* the MPI library reports the error */
    if (!cshim_policy_names(cshim_job.policy, CSHIM_MPI, arguments->collective)) {
        cshim_count_other(function, arguments->recvbuf, (cshim_count)arguments->count,
                          arguments->datatype, arguments->comm);
        return;
    }
    cshim_describe_complex(arguments);
    enum cshim_reason reason = cshim_movement_reason(arguments, are_alike);
    bool agreed;
    call->outcome.status = cshim_movement_agree(arguments, &reason, &agreed);
    call->outcome.done = call->outcome.status != MPI_SUCCESS;
    if (call->outcome.done)
        return;
    if (!agreed || reason == CSHIM_REASON_COMPRESS)
        consider_collective(call, arguments);
    else
        pass_collective(call, arguments, reason);
}

/* Begins an all-gather or an all-to-all with blocks of equal length. */
static void begin_blocks(struct collective_call *call, enum cshim_collective collective,
                         enum cshim_mpi_counted function, const void *sendbuf, MPI_Count sendcount,
                         MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount,
                         MPI_Datatype recvtype, MPI_Comm comm)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(collective, sendbuf, recvbuf, recvcount, recvtype, MPI_SUM, comm);
    begin_data_movement(call, &arguments,
                        sendbuf == MPI_IN_PLACE || (sendtype == recvtype && sendcount == recvcount),
                        function);
}

/* Begins an all-gather whose blocks may differ in length. All ranks pass the same lengths. */
static void begin_allgatherv(struct collective_call *call, const void *sendbuf, MPI_Count sendcount,
                             MPI_Datatype sendtype, void *recvbuf, const void *recvcounts,
                             const void *displacements, MPI_Datatype recvtype, MPI_Comm comm,
                             bool large)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_ALLGATHER, sendbuf, recvbuf, 0, recvtype, MPI_SUM, comm);
    uint64_t largest = 0;
    int inter = 0, ranks = 0, rank = 0;
    clear_collective(call);
    if (comm == MPI_COMM_NULL || recvcounts == NULL || displacements == NULL)
        return; /* the MPI library reports the error */
    if (!cshim_policy_names(cshim_job.policy, CSHIM_MPI, CSHIM_ALLGATHER)) {
        cshim_count_other(CSHIM_COUNTED_MPI_Allgatherv, sendbuf, sendcount, sendtype, comm);
        return;
    }
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_size(comm, &ranks);
    PMPI_Comm_rank(comm, &rank);
    arguments.recvcounts = recvcounts;
    arguments.large = large;
    bool are_alike = !inter && cshim_movement_is_contiguous(&arguments, recvcounts, displacements,
                                                            ranks, &largest, &arguments.count);
    if (are_alike && sendbuf != MPI_IN_PLACE)
        are_alike =
            sendtype == recvtype && sendcount == cshim_count_at(&arguments, recvcounts, rank);
    begin_data_movement(call, &arguments, are_alike, CSHIM_COUNTED_MPI_Allgatherv);
}

/* Parameters of an all-to-all whose blocks may differ in length, and the matching arguments. */
#define ALLTOALLV(Count, Displacement)                                                             \
    const void *sendbuf, const Count *sendcounts, const Displacement *sdispls,                     \
        MPI_Datatype sendtype, void *recvbuf, const Count *recvcounts,                             \
        const Displacement *rdispls, MPI_Datatype recvtype, MPI_Comm comm
#define ALLTOALLV_A                                                                                \
    sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm

/* Begins an all-to-all whose blocks may differ in length. With MPI_IN_PLACE the receive buffer,
 * counts and displacements describe the sent elements, too. */
static void begin_alltoallv(struct collective_call *call, ALLTOALLV(void, void), bool large)
{
    const bool in_place = sendbuf == MPI_IN_PLACE;
    struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_ALLTOALL, sendbuf, recvbuf, 0, recvtype, MPI_SUM, comm);
    uint64_t all;
    int inter = 0, ranks = 0;
    clear_collective(call);
    if (comm == MPI_COMM_NULL || recvcounts == NULL || rdispls == NULL ||
        (!in_place && (sendcounts == NULL || sdispls == NULL)))
        return; /* the MPI library reports the error */
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
        !inter && cshim_movement_is_contiguous(&arguments, recvcounts, rdispls, ranks,
                                               &arguments.count, &all) &
                      cshim_movement_is_contiguous(&arguments, arguments.sendcounts,
                                                   in_place ? rdispls : sdispls, ranks,
                                                   &arguments.count, &all) &
                      (in_place || sendtype == recvtype);
    begin_data_movement(call, &arguments, are_alike, CSHIM_COUNTED_MPI_Alltoallv);
}

/* Begins a broadcast: the buffer is the input of the root and the output of all ranks. */
static void begin_broadcast(struct collective_call *call, void *buffer, MPI_Count count,
                            MPI_Datatype datatype, int root, MPI_Comm comm)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_BROADCAST, MPI_IN_PLACE, buffer, count, datatype, MPI_SUM, comm);
    arguments.root = root;
    begin_data_movement(call, &arguments, true, CSHIM_COUNTED_MPI_Bcast);
}

/* Ends a call that the MPI library has made. Returns the library's status. */
static ALWAYS_INLINE int end_collective(struct collective_call *call, int status)
{
    cshim_end_native(&call->outcome, status);
    if (call->observed.comm != MPI_COMM_NULL)
        cshim_observe_end(&call->observed);
    return status;
}

/* Returns the status of a begun call: the engine's if it is done, otherwise that of `by_library`,
 * which is evaluated only then. */
#define ENDED(call, by_library)                                                                    \
    ((call).outcome.done ? (call).outcome.status : end_collective(&(call), by_library))

static int allreduce(CSHIM_REDUCTION(int), MPI_Comm comm)
{
    struct collective_call call;
    begin_reduction(&call, CSHIM_ALLREDUCE, CSHIM_REDUCTION_A, 0, comm);
    return ENDED(call, cshim_mpi.real->MPI_Allreduce(CSHIM_REDUCTION_A, comm));
}

static int allreduce_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm)
{
    struct collective_call call;
    begin_reduction(&call, CSHIM_ALLREDUCE, CSHIM_REDUCTION_A, 0, comm);
    return ENDED(call, cshim_mpi.real->MPI_Allreduce_c(CSHIM_REDUCTION_A, comm));
}

static int reduce_to_root(CSHIM_REDUCTION(int), int root, MPI_Comm comm)
{
    struct collective_call call;
    begin_reduction(&call, CSHIM_REDUCE, CSHIM_REDUCTION_A, root, comm);
    return ENDED(call, cshim_mpi.real->MPI_Reduce(CSHIM_REDUCTION_A, root, comm));
}

static int reduce_to_root_c(CSHIM_REDUCTION(MPI_Count), int root, MPI_Comm comm)
{
    struct collective_call call;
    begin_reduction(&call, CSHIM_REDUCE, CSHIM_REDUCTION_A, root, comm);
    return ENDED(call, cshim_mpi.real->MPI_Reduce_c(CSHIM_REDUCTION_A, root, comm));
}

static int reduce_scatter_block(CSHIM_REDUCTION(int), MPI_Comm comm)
{
    struct collective_call call;
    begin_reduction(&call, CSHIM_REDUCE_SCATTER, CSHIM_REDUCTION_A, 0, comm);
    return ENDED(call, cshim_mpi.real->MPI_Reduce_scatter_block(CSHIM_REDUCTION_A, comm));
}

static int reduce_scatter_block_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm)
{
    struct collective_call call;
    begin_reduction(&call, CSHIM_REDUCE_SCATTER, CSHIM_REDUCTION_A, 0, comm);
    return ENDED(call, cshim_mpi.real->MPI_Reduce_scatter_block_c(CSHIM_REDUCTION_A, comm));
}

static int reduce_scatter(SCATTERED(int), MPI_Comm comm)
{
    struct collective_call call;
    begin_scatter(&call, SCATTERED_A, comm, false);
    return ENDED(call, cshim_mpi.real->MPI_Reduce_scatter(SCATTERED_A, comm));
}

static int reduce_scatter_c(SCATTERED(MPI_Count), MPI_Comm comm)
{
    struct collective_call call;
    begin_scatter(&call, SCATTERED_A, comm, true);
    return ENDED(call, cshim_mpi.real->MPI_Reduce_scatter_c(SCATTERED_A, comm));
}

/* Parameters of a collective with one block of equal length for each rank, and the matching
 * arguments. */
#define BLOCKS(Count)                                                                              \
    const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount,   \
        MPI_Datatype recvtype, MPI_Comm comm
#define BLOCKS_A sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm

static int allgather(BLOCKS(int))
{
    struct collective_call call;
    begin_blocks(&call, CSHIM_ALLGATHER, CSHIM_COUNTED_MPI_Allgather, BLOCKS_A);
    return ENDED(call, cshim_mpi.real->MPI_Allgather(BLOCKS_A));
}

static int allgather_c(BLOCKS(MPI_Count))
{
    struct collective_call call;
    begin_blocks(&call, CSHIM_ALLGATHER, CSHIM_COUNTED_MPI_Allgather, BLOCKS_A);
    return ENDED(call, cshim_mpi.real->MPI_Allgather_c(BLOCKS_A));
}

static int allgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                      const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                      MPI_Comm comm)
{
    struct collective_call call;
    begin_allgatherv(&call, sendbuf, sendcount, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                     comm, false);
    return ENDED(call, cshim_mpi.real->MPI_Allgatherv(sendbuf, sendcount, sendtype, recvbuf,
                                                      recvcounts, rdispls, recvtype, comm));
}

static int allgatherv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                        void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                        MPI_Datatype recvtype, MPI_Comm comm)
{
    struct collective_call call;
    begin_allgatherv(&call, sendbuf, sendcount, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                     comm, true);
    return ENDED(call, cshim_mpi.real->MPI_Allgatherv_c(sendbuf, sendcount, sendtype, recvbuf,
                                                        recvcounts, rdispls, recvtype, comm));
}

static int alltoall(BLOCKS(int))
{
    struct collective_call call;
    begin_blocks(&call, CSHIM_ALLTOALL, CSHIM_COUNTED_MPI_Alltoall, BLOCKS_A);
    return ENDED(call, cshim_mpi.real->MPI_Alltoall(BLOCKS_A));
}

static int alltoall_c(BLOCKS(MPI_Count))
{
    struct collective_call call;
    begin_blocks(&call, CSHIM_ALLTOALL, CSHIM_COUNTED_MPI_Alltoall, BLOCKS_A);
    return ENDED(call, cshim_mpi.real->MPI_Alltoall_c(BLOCKS_A));
}

static int alltoallv(ALLTOALLV(int, int))
{
    struct collective_call call;
    begin_alltoallv(&call, ALLTOALLV_A, false);
    return ENDED(call, cshim_mpi.real->MPI_Alltoallv(ALLTOALLV_A));
}

static int alltoallv_c(ALLTOALLV(MPI_Count, MPI_Aint))
{
    struct collective_call call;
    begin_alltoallv(&call, ALLTOALLV_A, true);
    return ENDED(call, cshim_mpi.real->MPI_Alltoallv_c(ALLTOALLV_A));
}

static int broadcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
    struct collective_call call;
    begin_broadcast(&call, buffer, count, datatype, root, comm);
    return ENDED(call, cshim_mpi.real->MPI_Bcast(buffer, count, datatype, root, comm));
}

static int broadcast_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                       MPI_Comm comm)
{
    struct collective_call call;
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
            .MPI_Comm_spawn = cshim_comm_spawn,
            .MPI_Comm_spawn_multiple = cshim_comm_spawn_multiple,
            .MPI_Intercomm_merge = cshim_intercomm_merge,
        },
    .count = cshim_count_other,
    .count_tool = count_tool,
    .finalize = cshim_mpi_finalize,
};
