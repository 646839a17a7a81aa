/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking collectives: describe the call, plan it, run the plan and count it, or pass it through
 * to the MPI library. Also defines the table of functions that this engine gives the front. */
#include "shim/core/clock.h"
#include "shim/host/writable.h"
#include "shim/mpi/describe.h"
#include "shim/mpi/nonblocking.h"
#include "shim/mpi/device.h"
#include "shim/mpi/observe.h"
#include "shim/mpi/requests.h"
#include "shim/mpi/spawn.h"
#include "shim/report/classes.h"

/* ALWAYS_INLINE: the path of every blocking reduction, also if it is passed through; inlined so
 * that the compiler specialises it for each collective. COLD: kept out of that path. */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define COLD __attribute__((noinline))

#define SCATTERED(type)                                                                            \
    const void *sendbuf, void *recvbuf, const type recvcounts[], MPI_Datatype datatype, MPI_Op op
#define SCATTERED_A sendbuf, recvbuf, recvcounts, datatype, op

/* State of one call of the program. */
struct call {
    bool done; /* compressed, or failed with `status`; otherwise the caller calls the MPI library */
    int status;
    struct cshim_observed_call observed; /* a call to the MPI library that is recorded or traced */
    struct cshim_class *class; /* class whose candidate the call takes; NULL: its rule decides */
    unsigned candidate;
    double began; /* class: start of a native call (cshim_seconds()) */
};

/* Initialises a call that is neither done nor recorded. */
static ALWAYS_INLINE void clear_call(struct call *call)
{
    call->done = false;
    call->observed.comm = MPI_COMM_NULL;
    call->class = NULL;
}

/* An all-reduce of this thread that its class has made native. Later equal calls skip the policy,
 * unless cshim_choice_passes() refuses. Predefined types and operations only, because their handles
 * never change meaning. */
struct native {
    MPI_Comm comm;
    MPI_Datatype datatype;
    MPI_Op op;
    uint64_t count;
    uint32_t generation;       /* cshim_comm_generation() at that call */
    struct cshim_class *class; /* NULL: unused entry */
};
static __thread struct native natives[4];
/* Smallest number of elements of a cached call of any thread. If two threads lower it at once, the
 * larger value may remain; smaller calls are then not recognised until cached again. Atomic. */
static uint64_t natives_from = UINT64_MAX;

/* Returns the cache entry for a call. */
static ALWAYS_INLINE struct native *native_of(const struct cshim_arguments *arguments)
{
    return &natives[arguments->count / 16 % (sizeof natives / sizeof *natives)];
}

/* Returns true if the call equals a cached native one, and cshim_choice_passes() has begun it; then
 * it is counted in its class, and passed through. Otherwise changes nothing. */
static ALWAYS_INLINE bool passes_as_native(const struct cshim_arguments *arguments)
{
    if (arguments->count < __atomic_load_n(&natives_from, __ATOMIC_RELAXED))
        return false;
    const struct native *native = native_of(arguments);
    const bool passes = arguments->collective == CSHIM_ALLREDUCE && native->class != NULL &&
                        native->comm == arguments->comm && native->count == arguments->count &&
                        native->datatype == arguments->datatype && native->op == arguments->op &&
                        native->generation == cshim_comm_generation() &&
                        cshim_choice_passes(&native->class->choice);
    if (passes)
        native->class->untimed++;
    return passes;
}

/* Caches an all-reduce that its class has made native, so that passes_as_native() recognises it.
 * Does nothing if each call needs more checks: with max_rel_error, recording or a trace, if buffers
 * may be on a GPU, and for types other than MPI_FLOAT and MPI_DOUBLE. */
static void remember_native(const struct cshim_arguments *arguments, struct cshim_class *class)
{
    if (arguments->collective != CSHIM_ALLREDUCE ||
        (arguments->datatype != MPI_FLOAT && arguments->datatype != MPI_DOUBLE) ||
        class->rule->max_rel_error > 0 || cshim_mpi.devices || cshim_mpi.is_watched)
        return;
    *native_of(arguments) =
        (struct native){arguments->comm,  arguments->datatype,     arguments->op,
                        arguments->count, cshim_comm_generation(), class};
    if (arguments->count < __atomic_load_n(&natives_from, __ATOMIC_RELAXED))
        __atomic_store_n(&natives_from, arguments->count, __ATOMIC_RELAXED);
}

/* Chooses the candidate of a call that has a class. If a decision of the class is due, the ranks
 * first agree on the longest duration of each sampled call (collective). A sampled call begins with
 * a barrier. Returns an MPI error. */
static int choose_candidate(struct call *call, struct cshim_comm *state, MPI_Comm comm)
{
    struct cshim_choice *choice = &call->class->choice;
    int status = MPI_SUCCESS;
    if (cshim_choice_is_due(choice))
        status = cshim_mpi.real->MPI_Allreduce(MPI_IN_PLACE, choice->seconds, (int)choice->samples,
                                               MPI_FLOAT, MPI_MAX, comm);
    if (status != MPI_SUCCESS)
        return status;
    if (cshim_choice_is_due(choice))
        cshim_class_decide(call->class, cshim_communicator_ledger(&state->host));
    call->candidate = cshim_choice_begin(choice);
    return choice->is_sampled ? PMPI_Barrier(comm) : MPI_SUCCESS;
}

/* Plans a call that `rule` compresses: by the candidate of its class, if it has one, and otherwise
 * by the rule alone. Prepares the communicator. Sets `plan`, whose reason is then equal on all
 * ranks, and call->class and call->candidate. Returns an MPI error. */
static int plan_call(struct call *call, const struct cshim_arguments *arguments,
                     struct cshim_call *described, uint64_t count, const struct cshim_rule *rule,
                     struct cshim_comm *state, struct cshim_plan *plan)
{
    bool on_device = false;
    int status = cshim_nonblocking_prepare(arguments->comm, state);
    if (status == MPI_SUCCESS && state->reason == CSHIM_REASON_COMPRESS && cshim_mpi.devices)
        status = cshim_mpi_device_check(arguments, &on_device);
    if (status != MPI_SUCCESS)
        return status;
    plan->reason = on_device ? CSHIM_REASON_DEVICE_BUFFER : state->reason;
    if (plan->reason != CSHIM_REASON_COMPRESS)
        return status;
    if (rule->max_rel_error > 0)
        described->instead =
            cshim_tolerance_codec(&state->host.tolerance, cshim_rule_index(cshim_job.policy, rule),
                                  rule->codec, described->dtype, count);
    if (cshim_class_is_for(rule, described))
        call->class = cshim_class_find(state->host.classes, state->host.learned, rule, described);
    if (call->class == NULL) {
        *plan = cshim_comm_plan(state, CSHIM_ALGORITHM_AUTO, rule, described, count);
        return status;
    }
    status = choose_candidate(call, state, arguments->comm);
    if (status != MPI_SUCCESS)
        return status;
    if (call->candidate == CSHIM_CANDIDATE_NATIVE) {
        plan->reason = CSHIM_REASON_NO_GAIN;
        remember_native(arguments, call->class);
        call->began = cshim_seconds();
        return status;
    }
    cshim_class_set_instead(call->class, call->candidate, described);
    *plan =
        cshim_comm_plan(state, call->class->algorithms[call->candidate], rule, described, count);
    if (plan->reason != CSHIM_REASON_COMPRESS)
        call->class = NULL; /* the chosen algorithm cannot make this call */
    return status;
}

/* Makes what a staged plan needs in addition. Sets plan->reason if that cannot be made. Returns an
 * MPI error. */
static int prepare_levels(struct call *call, struct cshim_comm *state, struct cshim_plan *plan)
{
    const int status = cshim_comm_prepare_levels(state);
    if (state->lacks_levels) {
        plan->reason = CSHIM_REASON_NO_MEMORY;
        call->class = NULL;
    }
    return status;
}

/* Makes a call by its plan. Sets call->status, and calls the program's error handler for an error
 * that the library has not reported to it. */
static void run_plan(struct call *call, const struct cshim_arguments *arguments,
                     const struct cshim_plan *plan, struct cshim_comm *state)
{
    double seconds = 0;
    struct cshim_exchange exchange = cshim_exchange_of(arguments, plan, state);
    state->error_reported = false;
    call->status = cshim_call_run(&exchange, &seconds);
    if (call->class != NULL && call->status == MPI_SUCCESS)
        cshim_class_end(call->class, call->candidate, seconds);
    if (call->status != MPI_SUCCESS && !state->error_reported)
        PMPI_Comm_call_errhandler(arguments->comm, call->status);
}

/* Compresses a call that `rule` compresses, and sets call->done and call->status; also if MPI
 * reports an error. Otherwise returns the reason for which the call is to be passed through. Unless
 * MPI reports an error, the outcome is the same on all ranks. */
static COLD enum cshim_reason compress(struct call *call, const struct cshim_arguments *arguments,
                                       struct cshim_call *described, uint64_t count,
                                       const struct cshim_rule *rule)
{
    struct cshim_comm *state;
    struct cshim_plan plan = {.reason = CSHIM_REASON_COMPRESS};
    call->status = cshim_comm_find(arguments->comm, &state);
    if (call->status == MPI_SUCCESS) {
        /* After an error, the program's error handler may free the communicator. */
        cshim_comm_hold(state);
        call->status = plan_call(call, arguments, described, count, rule, state, &plan);
        if (call->status == MPI_SUCCESS && plan.reason == CSHIM_REASON_COMPRESS &&
            plan.schedule->staged)
            call->status = prepare_levels(call, state, &plan);
        if (call->status == MPI_SUCCESS && plan.reason == CSHIM_REASON_COMPRESS)
            run_plan(call, arguments, &plan, state);
        cshim_comm_release(state);
    }
    call->done = call->status != MPI_SUCCESS || plan.reason == CSHIM_REASON_COMPRESS;
    return plan.reason;
}

/* Counts a call that is passed through, and begins to record or trace it. With COMPSHIM=observe, a
 * call that the policy would compress is passed through, too. */
static COLD void observe_call(const struct cshim_arguments *arguments, enum cshim_reason reason,
                              struct cshim_observed_call *observed)
{
    struct cshim_call call = {0};
    reason = reason == CSHIM_REASON_COMPRESS ? CSHIM_REASON_DISABLED : reason;
    cshim_count_pass(reason, arguments->comm);
    if (cshim_describe_observed(arguments, &call))
        cshim_observe_begin(observed, &call, arguments->comm, reason);
}

/* Counts a call that is passed through, and records it if calls are recorded or traced. */
static ALWAYS_INLINE void pass_call(struct call *call, const struct cshim_arguments *arguments,
                                    enum cshim_reason reason)
{
    if (__builtin_expect(cshim_mpi.is_watched, 0))
        observe_call(arguments, reason, &call->observed);
    else
        cshim_count_pass(reason, arguments->comm);
}

/* Compresses a call, or counts the reason for which it is passed through. */
static ALWAYS_INLINE void consider_call(struct call *call, const struct cshim_arguments *arguments)
{
    const struct cshim_rule *rule;
    struct cshim_call described;
    uint64_t count;
    if (passes_as_native(arguments)) {
        cshim_count_pass(CSHIM_REASON_NO_GAIN, arguments->comm);
        return;
    }
    enum cshim_reason reason = cshim_describe_call(arguments, &described, &count);
    if (reason == CSHIM_REASON_COMPRESS) {
        reason = cshim_plan_reason(cshim_job.policy, &described, count, &rule);
        if (reason != CSHIM_REASON_COMPRESS)
            cshim_count_weight(reason, &described, arguments->comm);
        else if (cshim_job.observed == NULL)
            reason = compress(call, arguments, &described, count, rule);
    }
    if (!call->done)
        pass_call(call, arguments, reason);
}

/* Begins a call. If the library may refuse its arguments, the call is passed through, so that the
 * library reports the error. */
static ALWAYS_INLINE void begin_call(struct call *call, const struct cshim_arguments *arguments)
{
    clear_call(call);
    if (!cshim_describe_refused(arguments))
        consider_call(call, arguments);
}

static ALWAYS_INLINE void begin_reduction(struct call *call, enum cshim_collective collective,
                                          CSHIM_REDUCTION(MPI_Count), int root, MPI_Comm comm)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(collective, sendbuf, recvbuf, count, datatype, op, comm);
    arguments.root = root;
    begin_call(call, &arguments);
}

/* Begins a reduce_scatter with counts. If `recvcounts` is NULL the call is passed through, so that
 * the library reports the error. */
static ALWAYS_INLINE void begin_scatter(struct call *call, const void *sendbuf, void *recvbuf,
                                        const void *recvcounts, MPI_Datatype datatype, MPI_Op op,
                                        MPI_Comm comm, bool large)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_REDUCE_SCATTER, sendbuf, recvbuf, 0, datatype, op, comm);
    arguments.recvcounts = recvcounts;
    arguments.large = large;
    clear_call(call);
    if (recvcounts != NULL)
        begin_call(call, &arguments);
}

/* Lets the ranks of a data-movement collective agree on a reason not to compress it. MPI lets ranks
 * describe the same elements by different types and by absolute addresses, so a rank may have a
 * reason that the others cannot know. Sets CSHIM_REASON_DTYPE if the ranks have different element
 * types.
 *
 * Sets *agreed to false, without this exchange, if the communicator already excludes compression
 * or, except in an all-to-all with counts, if the call's size or COMPSHIM=observe does: these are
 * equal on all ranks.
 *
 * The sizes of an all-to-all with counts differ between ranks: its ranks also agree on the largest
 * block, which becomes `arguments->count`; in bytes, with MPI_BYTE, if they agree on a reason.
 * Returns an MPI error. */
static int agree_on_elements(struct cshim_arguments *arguments, enum cshim_reason *reason,
                             bool *agreed)
{
    enum { REASON, BYTES, DTYPE, OTHER_DTYPE, VALUES };
    const bool by_counts = arguments->sendcounts != NULL, observes = cshim_job.observed != NULL;
    const enum cshim_dtype dtype = cshim_describe_datatype(arguments->datatype);
    struct cshim_comm *state;
    uint64_t own[VALUES], most[VALUES] = {0};
    int inter = 0, ranks = 1, bytes = 0;
    PMPI_Comm_test_inter(arguments->comm, &inter);
    PMPI_Comm_size(arguments->comm, &ranks);
    PMPI_Type_size(arguments->datatype, &bytes);
    *agreed = false;
    const bool is_one = cshim_shapes[arguments->collective].has_blocks && !arguments->recvcounts;
    const int blocks = is_one ? ranks : 1;
    own[REASON] = *reason;
    own[BYTES] = arguments->count * (uint64_t)bytes;
    own[DTYPE] = dtype;
    own[OTHER_DTYPE] = CSHIM_DTYPE_OTHER - (uint64_t)dtype;
    if (inter || ranks == 1 ||
        (!by_counts && (observes || own[BYTES] * (uint64_t)blocks <
                                        cshim_policy_smallest(cshim_job.policy, CSHIM_MPI,
                                                              arguments->collective))))
        return MPI_SUCCESS;
    int status = cshim_comm_find(arguments->comm, &state);
    if (status == MPI_SUCCESS && !observes)
        status = cshim_nonblocking_prepare(arguments->comm, state);
    if (status != MPI_SUCCESS || state->reason != CSHIM_REASON_COMPRESS)
        return status;
    status =
        cshim_mpi.real->MPI_Allreduce(own, most, VALUES, MPI_UINT64_T, MPI_MAX, arguments->comm);
    if (status != MPI_SUCCESS)
        return status;
    *agreed = true;
    *reason = (enum cshim_reason)most[REASON];
    if (*reason == CSHIM_REASON_COMPRESS && most[DTYPE] + most[OTHER_DTYPE] != CSHIM_DTYPE_OTHER)
        *reason = CSHIM_REASON_DTYPE;
    if (by_counts && *reason == CSHIM_REASON_COMPRESS) {
        arguments->count = most[BYTES] / (uint64_t)bytes;
    } else if (by_counts) {
        arguments->count = most[BYTES];
        arguments->datatype = MPI_BYTE;
    }
    return status;
}

/* Returns true if this rank is the root of a broadcast with a lossy codec, and is not known to be
 * allowed to write its buffer: the root would have to store the rounded elements that all others
 * get. */
static COLD bool has_read_only_root(const struct cshim_arguments *arguments)
{
    const struct cshim_rule *rule;
    struct cshim_call described;
    uint64_t count;
    if (arguments->collective != CSHIM_BROADCAST || !cshim_describe_is_root(arguments) ||
        cshim_describe_call(arguments, &described, &count) != CSHIM_REASON_COMPRESS ||
        cshim_plan_reason(cshim_job.policy, &described, count, &rule) != CSHIM_REASON_COMPRESS)
        return false;
    return !cshim_plan_leaves_root(rule->codec) &&
           !cshim_is_writable(arguments->recvbuf, described.bytes);
}

/* Begins a data-movement collective. If no rule names the collective, only counts the call, as
 * `function`. The operation in `arguments` is MPI_SUM, as plans of data movement expect.
 * `are_alike`: on this rank, sent and received elements have one type and, except in an alltoallv,
 * a sent block is as long as the block received for it (both hold in place and in a broadcast); and
 * blocks of different lengths are contiguous in rank order. */
static COLD void begin_data_movement(struct call *call, struct cshim_arguments *arguments,
                                     bool are_alike, enum cshim_mpi_counted function)
{
    clear_call(call);
    /* A rank that receives nothing may pass no receive type, but takes part in agree_on_elements():
     * the others wait for it there. */
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
    enum cshim_reason reason = CSHIM_REASON_COMPRESS;
    if (!are_alike || cshim_describe_datatype(arguments->datatype) == CSHIM_DTYPE_OTHER ||
        cshim_describe_refused(arguments))
        reason = CSHIM_REASON_DTYPE;
    else if (has_read_only_root(arguments))
        reason = CSHIM_REASON_READ_ONLY;
    bool agreed;
    call->status = agree_on_elements(arguments, &reason, &agreed);
    call->done = call->status != MPI_SUCCESS;
    if (call->done)
        return;
    if (!agreed || reason == CSHIM_REASON_COMPRESS)
        consider_call(call, arguments);
    else
        pass_call(call, arguments, reason);
}

/* Begins an all-gather or an all-to-all with blocks of equal length. */
static void begin_blocks(struct call *call, enum cshim_collective collective,
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

/* Returns true if the blocks that are not empty are contiguous in rank order; the answer may differ
 * between ranks, because each passes its own displacements. Raises *largest to the largest count,
 * and sets *all to the sum of the counts. */
static bool are_contiguous(const struct cshim_arguments *arguments, const void *counts,
                           const void *displacements, int ranks, uint64_t *largest, uint64_t *all)
{
    bool contiguous = true;
    int64_t total = 0;
    for (int i = 0; i < ranks; i++) {
        const int64_t count = cshim_count_at(arguments, counts, i);
        const int64_t begin = arguments->large ? ((const MPI_Aint *)displacements)[i]
                                               : ((const int *)displacements)[i];
        contiguous &= count == 0 || (count > 0 && begin == total);
        total += count;
        if (count > (int64_t)*largest)
            *largest = (uint64_t)count;
    }
    *all = (uint64_t)total;
    return contiguous;
}

/* Begins an all-gather whose blocks may differ in length. All ranks pass the same lengths. */
static void begin_allgatherv(struct call *call, const void *sendbuf, MPI_Count sendcount,
                             MPI_Datatype sendtype, void *recvbuf, const void *recvcounts,
                             const void *displacements, MPI_Datatype recvtype, MPI_Comm comm,
                             bool large)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_ALLGATHER, sendbuf, recvbuf, 0, recvtype, MPI_SUM, comm);
    uint64_t largest = 0;
    int inter = 0, ranks = 0, rank = 0;
    clear_call(call);
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
    bool are_alike = !inter && are_contiguous(&arguments, recvcounts, displacements, ranks,
                                              &largest, &arguments.count);
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
static void begin_alltoallv(struct call *call, ALLTOALLV(void, void), bool large)
{
    const bool in_place = sendbuf == MPI_IN_PLACE;
    struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_ALLTOALL, sendbuf, recvbuf, 0, recvtype, MPI_SUM, comm);
    uint64_t all;
    int inter = 0, ranks = 0;
    clear_call(call);
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
        !inter && are_contiguous(&arguments, recvcounts, rdispls, ranks, &arguments.count, &all) &
                      are_contiguous(&arguments, arguments.sendcounts, in_place ? rdispls : sdispls,
                                     ranks, &arguments.count, &all) &
                      (in_place || sendtype == recvtype);
    begin_data_movement(call, &arguments, are_alike, CSHIM_COUNTED_MPI_Alltoallv);
}

/* Begins a broadcast: the buffer is the input of the root and the output of all ranks. */
static void begin_broadcast(struct call *call, void *buffer, MPI_Count count, MPI_Datatype datatype,
                            int root, MPI_Comm comm)
{
    struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_BROADCAST, MPI_IN_PLACE, buffer, count, datatype, MPI_SUM, comm);
    arguments.root = root;
    begin_data_movement(call, &arguments, true, CSHIM_COUNTED_MPI_Bcast);
}

/* Ends a call that the MPI library has made. Returns the library's status. */
static ALWAYS_INLINE int end_call(struct call *call, int status)
{
    /* After an error, the program's error handler may have freed the communicator, and with it the
     * class. */
    if (__builtin_expect(call->class != NULL, 0) && status == MPI_SUCCESS)
        cshim_class_end(call->class, call->candidate, cshim_seconds() - call->began);
    if (call->observed.comm != MPI_COMM_NULL)
        cshim_observe_end(&call->observed);
    return status;
}

/* Returns the status of a begun call: the engine's if it is done, otherwise that of `by_library`,
 * which is evaluated only then. */
#define ENDED(call, by_library) ((call).done ? (call).status : end_call(&(call), by_library))

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

static int reduce_scatter(SCATTERED(int), MPI_Comm comm)
{
    struct call call;
    begin_scatter(&call, SCATTERED_A, comm, false);
    return ENDED(call, cshim_mpi.real->MPI_Reduce_scatter(SCATTERED_A, comm));
}

static int reduce_scatter_c(SCATTERED(MPI_Count), MPI_Comm comm)
{
    struct call call;
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
    begin_allgatherv(&call, sendbuf, sendcount, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                     comm, false);
    return ENDED(call, cshim_mpi.real->MPI_Allgatherv(sendbuf, sendcount, sendtype, recvbuf,
                                                      recvcounts, rdispls, recvtype, comm));
}

static int allgatherv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                        void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                        MPI_Datatype recvtype, MPI_Comm comm)
{
    struct call call;
    begin_allgatherv(&call, sendbuf, sendcount, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                     comm, true);
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

static int alltoallv(ALLTOALLV(int, int))
{
    struct call call;
    begin_alltoallv(&call, ALLTOALLV_A, false);
    return ENDED(call, cshim_mpi.real->MPI_Alltoallv(ALLTOALLV_A));
}

static int alltoallv_c(ALLTOALLV(MPI_Count, MPI_Aint))
{
    struct call call;
    begin_alltoallv(&call, ALLTOALLV_A, true);
    return ENDED(call, cshim_mpi.real->MPI_Alltoallv_c(ALLTOALLV_A));
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
            .MPI_Comm_spawn = cshim_comm_spawn,
            .MPI_Comm_spawn_multiple = cshim_comm_spawn_multiple,
            .MPI_Intercomm_merge = cshim_intercomm_merge,
        },
    .count = cshim_count_other,
    .count_tool = count_tool,
    .finalize = cshim_mpi_finalize,
};
