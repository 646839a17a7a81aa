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

/* Each macro NAME(Count, Displacement) lists the parameters of a collective. Count and Displacement
 * are int or, for functions whose names end in _c, MPI_Count and MPI_Aint. NAME_A lists the
 * matching arguments. */
#define REDUCTION(Count, Displacement) CSHIM_REDUCTION(Count), MPI_Comm comm
#define REDUCTION_A CSHIM_REDUCTION_A, comm
#define ROOTED(Count, Displacement) CSHIM_REDUCTION(Count), int root, MPI_Comm comm
#define ROOTED_A CSHIM_REDUCTION_A, root, comm
#define SCATTERED(Count, Displacement)                                                             \
    const void *sendbuf, void *recvbuf, const Count *recvcounts, MPI_Datatype datatype, MPI_Op op, \
        MPI_Comm comm
#define SCATTERED_A sendbuf, recvbuf, recvcounts, datatype, op, comm
#define BLOCKS(Count, Displacement)                                                                \
    const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount,   \
        MPI_Datatype recvtype, MPI_Comm comm
#define BLOCKS_A sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm
#define ALLGATHERV(Count, Displacement)                                                            \
    const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf,                    \
        const Count *recvcounts, const Displacement *rdispls, MPI_Datatype recvtype, MPI_Comm comm
#define ALLGATHERV_A sendbuf, sendcount, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm
#define ALLTOALLV(Count, Displacement)                                                             \
    const void *sendbuf, const Count *sendcounts, const Displacement *sdispls,                     \
        MPI_Datatype sendtype, void *recvbuf, const Count *recvcounts,                             \
        const Displacement *rdispls, MPI_Datatype recvtype, MPI_Comm comm
#define ALLTOALLV_A                                                                                \
    sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm
#define BROADCAST(Count, Displacement)                                                             \
    void *buffer, Count count, MPI_Datatype datatype, int root, MPI_Comm comm
#define BROADCAST_A buffer, count, datatype, root, comm

/* State of one call of the program. */
struct collective_call {
    struct cshim_outcome outcome;
    struct cshim_observation observation; /* a call to the MPI library that is recorded or traced */
};

/* Initialises a call that is neither done nor recorded. */
static ALWAYS_INLINE void clear_collective(struct collective_call *call)
{
    call->outcome.done = false;
    call->outcome.class = NULL;
    call->observation.job = NULL;
}

/* Counts a call that is passed through, and begins to record or trace it. With COMPSHIM=observe, a
 * call that the policy would compress is passed through, too. */
static COLD void observe_call(const struct cshim_arguments *arguments, enum cshim_reason reason,
                              struct cshim_observation *observation)
{
    struct cshim_call call = {0};
    reason = reason == CSHIM_REASON_COMPRESS ? CSHIM_REASON_DISABLED : reason;
    cshim_count_pass(reason, arguments->comm);
    if (cshim_describe_any(arguments, &call))
        cshim_observe_begin(observation, &call, arguments->comm, reason);
}

/* Counts a call that is passed through, and records it if calls are recorded or traced. */
static ALWAYS_INLINE void pass_collective(struct collective_call *call,
                                          const struct cshim_arguments *arguments,
                                          enum cshim_reason reason)
{
    if (__builtin_expect(cshim_mpi.is_watched, 0))
        observe_call(arguments, reason, &call->observation);
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
                                          ROOTED(MPI_Count, MPI_Aint))
{
    struct cshim_arguments arguments =
        cshim_arguments_of(collective, sendbuf, recvbuf, count, datatype, op, comm);
    arguments.root = root;
    begin_collective(call, &arguments);
}

/* Begins a reduce_scatter with counts. If `recvcounts` is NULL the call is passed through, so that
 * the library reports the error. */
static ALWAYS_INLINE void begin_scatter(struct collective_call *call, SCATTERED(void, void),
                                        bool large)
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
                         enum cshim_mpi_counted function, BLOCKS(MPI_Count, MPI_Aint))
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
static void begin_broadcast(struct collective_call *call, BROADCAST(MPI_Count, MPI_Aint))
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
    if (call->observation.job != NULL)
        cshim_observation_end(&call->observation);
    return status;
}

/* Returns the status of a begun call: the engine's if it is done, otherwise that of `by_library`,
 * which is evaluated only then. */
#define ENDED(call, by_library)                                                                    \
    ((call).outcome.done ? (call).outcome.status : end_collective(&(call), by_library))

/* Defines a function that replaces the library's `NAME`. `parameters` and `arguments` are in
 * parentheses. `begin` begins `call`, and may use `large`. */
#define REPLACE(name, NAME, parameters, arguments, begin, is_large)                                \
    static int name parameters                                                                     \
    {                                                                                              \
        enum { large = is_large };                                                                 \
        struct collective_call call;                                                               \
        begin;                                                                                     \
        return ENDED(call, cshim_mpi.real->NAME arguments);                                        \
    }
/* Defines the functions that replace `NAME` and NAME_c. `PARAMETERS` is one of the macros above.
 * `begin` begins `call`; `large` is true in NAME_c. */
#define COLLECTIVE(name, NAME, PARAMETERS, begin)                                                  \
    REPLACE(name, NAME, (PARAMETERS(int, int)), (PARAMETERS##_A), begin, false)                    \
    REPLACE(name##_c, NAME##_c, (PARAMETERS(MPI_Count, MPI_Aint)), (PARAMETERS##_A), begin, true)

COLLECTIVE(allreduce, MPI_Allreduce, REDUCTION,
           begin_reduction(&call, CSHIM_ALLREDUCE, CSHIM_REDUCTION_A, 0, comm))
COLLECTIVE(reduce_to_root, MPI_Reduce, ROOTED, begin_reduction(&call, CSHIM_REDUCE, ROOTED_A))
COLLECTIVE(reduce_scatter_block, MPI_Reduce_scatter_block, REDUCTION,
           begin_reduction(&call, CSHIM_REDUCE_SCATTER, CSHIM_REDUCTION_A, 0, comm))
COLLECTIVE(reduce_scatter, MPI_Reduce_scatter, SCATTERED, begin_scatter(&call, SCATTERED_A, large))
COLLECTIVE(allgather, MPI_Allgather, BLOCKS,
           begin_blocks(&call, CSHIM_ALLGATHER, CSHIM_COUNTED_MPI_Allgather, BLOCKS_A))
COLLECTIVE(allgatherv, MPI_Allgatherv, ALLGATHERV, begin_allgatherv(&call, ALLGATHERV_A, large))
COLLECTIVE(alltoall, MPI_Alltoall, BLOCKS,
           begin_blocks(&call, CSHIM_ALLTOALL, CSHIM_COUNTED_MPI_Alltoall, BLOCKS_A))
COLLECTIVE(alltoallv, MPI_Alltoallv, ALLTOALLV, begin_alltoallv(&call, ALLTOALLV_A, large))
COLLECTIVE(broadcast, MPI_Bcast, BROADCAST, begin_broadcast(&call, BROADCAST_A))

static void count_tool(MPI_Comm comm)
{
    cshim_count_pass(CSHIM_REASON_TOOL, comm);
}

#define BOTH(name, NAME) .NAME = name, .NAME##_c = name##_c
__attribute__((visibility("default"))) const struct cshim_mpi_engine cshim_mpi_engine = {
    .abi = CSHIM_ENGINE_ABI,
    .start = cshim_mpi_start,
    .functions =
        {
            BOTH(allreduce, MPI_Allreduce),
            BOTH(reduce_to_root, MPI_Reduce),
            BOTH(reduce_scatter, MPI_Reduce_scatter),
            BOTH(reduce_scatter_block, MPI_Reduce_scatter_block),
            BOTH(allgather, MPI_Allgather),
            BOTH(allgatherv, MPI_Allgatherv),
            BOTH(alltoall, MPI_Alltoall),
            BOTH(alltoallv, MPI_Alltoallv),
            BOTH(broadcast, MPI_Bcast),
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
