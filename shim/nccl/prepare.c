/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/prepare.h"

#include <stdlib.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/nccl/background.h"
#include "shim/nccl/choose.h"
#include "shim/nccl/feedback.h"
#include "shim/nccl/measure.h"
#include "shim/nccl/nvlink.h"
#include "shim/nccl/workspace.h"
#include "shim/report/process.h"

/* While a rank waits in NCCL for the others, it asks the rendezvous for missing or lost ranks every
 * ASK_SECONDS. A rank that waits, there or at the rendezvous, logs the missing ones after
 * WARN_SECONDS, then at growing intervals. There is no time limit, because natively ranks wait for
 * each other as long as the program lets them. */
#define ASK_SECONDS 2.0
#define WARN_SECONDS 60.0

/* Estimates of the device memory that NCCL allocates for its own buffers: for the messages between
 * two ranks (by its three protocols), and for a communicator (buffers for each of its dozens of
 * channels). */
#define CONNECTION_BYTES ((uint64_t)10 << 20)
#define COMMUNICATOR_BYTES ((uint64_t)256 << 20)

/* State of a rank that all ranks of a communicator exchange. */
struct rank_state {
    uint64_t host;   /* node, as cshim_nvlink_node identifies it */
    uint64_t reason; /* CSHIM_REASON_COMPRESS, or why this rank cannot compress */
    uint64_t began;  /* time zero of the rank's traces (cshim_job_origin); 0: no trace */
    uint64_t left;   /* free device memory in bytes */
    struct cshim_tag collected_at; /* rank 0 sets it: the tag with which ranks send durations */
};

/* Memory for the exchange, on the host and on the device: this rank's state, followed by those of
 * all ranks. Pooled (item.size: number of ranks), as most preparations run one after the other. */
struct cshim_state_exchange {
    struct cshim_pool_item item;
    CUstream stream;
    CUdeviceptr memory;
    struct rank_state states[];
};
static struct cshim_pool_item *unused_exchanges;

/* Returns an exchange from the pool or a new one; NULL on an error, and the reason in `why`. */
static struct cshim_state_exchange *acquire_exchange(struct cshim_nccl_comm *comm,
                                                     char why[CSHIM_CUDA_WHY_MAX])
{
    const size_t bytes = ((size_t)comm->ranks + 1) * sizeof(struct rank_state);
    if (!cshim_device_open(comm, why))
        return NULL;
    struct cshim_state_exchange *exchange =
        cshim_pool_take(&unused_exchanges, comm->device, (uint64_t)comm->ranks);
    if (exchange != NULL)
        return exchange;
    exchange = calloc(1, sizeof *exchange + bytes);
    if (exchange == NULL) {
        snprintf(why, CSHIM_CUDA_WHY_MAX, "no memory");
        return NULL;
    }
    exchange->item =
        (struct cshim_pool_item){.device = comm->device, .size = (uint64_t)comm->ranks};
    CSHIM_SCOPE scope = cshim_device_enter(comm);
    CUresult result = scope.result;
    if (result == CUDA_SUCCESS)
        result = cshim_cuda.StreamCreate(&exchange->stream, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS &&
        (result = cshim_cuda.MemAlloc(&exchange->memory, bytes)) == CUDA_SUCCESS)
        return exchange;
    cshim_cuda_explain("memory for the ranks' states", result, why);
    if (exchange->stream != NULL)
        cshim_cuda.StreamDestroy(exchange->stream);
    free(exchange);
    return NULL;
}

void cshim_prepare_reserve(struct cshim_nccl_comm *comm, char why[CSHIM_CUDA_WHY_MAX])
{
    struct cshim_state_exchange *exchange = acquire_exchange(comm, why);
    if (exchange != NULL)
        cshim_pool_give(&unused_exchanges, &exchange->item);
}

/* Loads the kernels and allocates what compressed calls need. A failure is this rank's alone, so it
 * is returned as a reason for the exchange rather than as an error. */
static enum cshim_reason allocate_resources(struct cshim_nccl_comm *comm,
                                            char why[CSHIM_CUDA_WHY_MAX])
{
    if (!cshim_kernels_load(why))
        return CSHIM_REASON_NO_KERNELS;
    const CUresult result =
        cshim_cuda.StreamCreateWithPriority(&comm->stream, CU_STREAM_NON_BLOCKING, comm->priority);
    if (result != CUDA_SUCCESS) {
        cshim_cuda_explain("a stream", result, why);
        return CSHIM_REASON_NO_MEMORY;
    }
    comm->calls_by_rule = calloc(comm->job->policy->rule_count, sizeof *comm->calls_by_rule);
    if (comm->calls_by_rule == NULL || !cshim_choosing_make(comm)) {
        snprintf(why, CSHIM_CUDA_WHY_MAX, "no memory for a communicator");
        return CSHIM_REASON_NO_MEMORY;
    }
    comm->workspace = cshim_workspace_take(comm, CSHIM_WORKSPACE_BYTES, why);
    return comm->workspace != NULL ? CSHIM_REASON_COMPRESS : CSHIM_REASON_NO_MEMORY;
}

/* Copies this rank's state to the device; if `compress` is true, allocates its resources first. */
static ncclResult_t begin_exchange(struct cshim_nccl_comm *comm, bool compress)
{
    char why[CSHIM_CUDA_WHY_MAX] = "";
    struct cshim_state_exchange *exchange = acquire_exchange(comm, why);
    if (exchange == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "%s", why);
        return ncclUnhandledCudaError;
    }
    comm->exchange = exchange;
    CSHIM_SCOPE scope = cshim_device_enter(comm);
    exchange->states[0].host = cshim_nvlink_node();
    exchange->states[0].began = cshim_job_origin(0);
    exchange->states[0].reason = CSHIM_REASON_COMPRESS;
    if (scope.result != CUDA_SUCCESS) {
        exchange->states[0].reason = CSHIM_REASON_NO_MEMORY;
        cshim_cuda_explain("a context", scope.result, why);
    } else if (compress) {
        exchange->states[0].reason = allocate_resources(comm, why);
    }
    exchange->states[0].collected_at = cshim_choosing_collect(comm);
    size_t left = SIZE_MAX, all;
    if (scope.result == CUDA_SUCCESS)
        cshim_cuda.MemGetInfo(&left, &all);
    exchange->states[0].left = left;
    if (exchange->states[0].reason != CSHIM_REASON_COMPRESS)
        cshim_log(CSHIM_LOG_WARN, "rank %d of a communicator cannot compress: %s", comm->rank, why);
    const CUresult result =
        cshim_cuda.MemcpyAsync(exchange->memory, (CUdeviceptr)(uintptr_t)exchange->states,
                               sizeof *exchange->states, exchange->stream);
    return cshim_device_check(result, "copying this rank's state");
}

/* All-gathers the states of all ranks, in one NCCL group for all communicators. */
static ncclResult_t gather_states(struct cshim_nccl_comm **comms, size_t count)
{
    ncclResult_t status = cshim_nccl.real->GroupStart();
    for (size_t i = 0; i < count && status == ncclSuccess; i++) {
        const struct cshim_state_exchange *exchange = comms[i]->exchange;
        const void *own = (const void *)(uintptr_t)exchange->memory;
        void *all = (void *)(uintptr_t)(exchange->memory + sizeof(struct rank_state));
        status = cshim_nccl.real->AllGather(own, all, sizeof(struct rank_state), ncclUint8,
                                            comms[i]->comm, exchange->stream);
    }
    return cshim_nccl_end_group(status);
}

/* Returns an error if the communicator has failed or was stopped. */
static ncclResult_t look_for_failure(struct cshim_nccl_comm *comm)
{
    const ncclResult_t state = cshim_nccl_state(comm);
    return state == ncclInProgress ? ncclSuccess : state;
}

/* Asks the rendezvous whether ranks are missing, and sets *missing. If `waited` seconds exceed
 * *warn, logs the wait and its reason, and raises *warn. Returns ncclRemoteError if a rank has
 * failed or is lost. */
static ncclResult_t ask_for_missing(const struct cshim_nccl_comm *comm, double waited, double *warn,
                                    bool *missing)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX] = "not all of them are there";
    const enum cshim_absence absence =
        comm->member != NULL ? cshim_rendezvous_wait(comm->member, why) : CSHIM_NO_ANSWER;
    *missing = absence == CSHIM_RANKS_MISSING;
    if (absence == CSHIM_RANK_LOST) {
        cshim_log(CSHIM_LOG_ERROR,
                  "the first compressed call of a communicator of %d ranks cannot be made: %s",
                  comm->ranks, why);
        return ncclRemoteError;
    }
    if (waited > *warn) {
        cshim_log(CSHIM_LOG_WARN,
                  "rank %d has waited %.0f s in the first compressed call of a communicator of %d "
                  "ranks: %s",
                  comm->rank, waited, comm->ranks,
                  *missing ? why : "the others are in it, or cannot be asked for");
        *warn = 5 * waited;
    }
    return ncclSuccess;
}

/* Waits until the all-gather of the states has completed on the device. If the communicator is
 * stopped meanwhile, NCCL may complete it without the states: then returns an error. */
static ncclResult_t await_states(struct cshim_nccl_comm *comm)
{
    const double began = cshim_seconds();
    double asked = began, warn = WARN_SECONDS;
    bool missing;
    ncclResult_t status = ncclSuccess;
    CUresult result = CUDA_SUCCESS;
    while (status == ncclSuccess &&
           (result = cshim_device_query(NULL, comm->exchange->stream)) == CUDA_ERROR_NOT_READY) {
        usleep(100);
        status = look_for_failure(comm);
        if (status == ncclSuccess && cshim_seconds() - asked > ASK_SECONDS) {
            status = ask_for_missing(comm, cshim_seconds() - began, &warn, &missing);
            asked = cshim_seconds();
        }
    }
    if (status == ncclSuccess)
        status = cshim_device_check(result, "exchanging the ranks' states");
    return status == ncclSuccess ? look_for_failure(comm) : status;
}

/* Computes the layout of nodes from the ranks' states. (The rendezvous only counts nodes.) */
static ncclResult_t find_nodes(struct cshim_nccl_comm *comm, const struct rank_state *all)
{
    int *first_of_node = calloc((uint32_t)comm->ranks, sizeof *first_of_node);
    for (int rank = 0; rank < comm->ranks && first_of_node != NULL; rank++)
        while (all[first_of_node[rank]].host != all[rank].host)
            first_of_node[rank]++;
    cshim_layout_free(&comm->layout);
    const bool is_made =
        first_of_node != NULL &&
        cshim_layout_make(&comm->layout, first_of_node, comm->ranks, comm->ranks, comm->rank);
    free(first_of_node);
    comm->nodes = comm->layout.nodes;
    return is_made ? ncclSuccess : ncclSystemError;
}

/* Returns true if the communicator gets `inside` and `across`, equally on all ranks. NCCL before
 * 2.18 cannot make them, because it lacks ncclCommSplit. */
static bool has_levels(const struct cshim_nccl_comm *comm)
{
    return comm->reason == CSHIM_REASON_COMPRESS && comm->nodes > 1 &&
           comm->layout.ranks_per_node > 1 &&
           comm->nodes * comm->layout.ranks_per_node == (uint32_t)comm->ranks &&
           cshim_nccl.real->CommSplit != NULL;
}

/* Stops compression on all ranks if a rank's device lacks the memory that NCCL may need for its
 * buffers: without it NCCL could fail in a later call, perhaps on that rank alone. */
static void look_for_room(struct cshim_nccl_comm *comm, const struct rank_state *all)
{
    const bool levels = has_levels(comm);
    const uint64_t peers = levels ? comm->nodes : (uint64_t)comm->ranks;
    const uint64_t need = peers * CONNECTION_BYTES + (levels ? 2 * COMMUNICATOR_BYTES : 0);
    for (int rank = 0; rank < comm->ranks; rank++) {
        if (all[rank].left >= need)
            continue;
        comm->reason = CSHIM_REASON_NO_MEMORY;
        if (rank == comm->rank)
            cshim_log(CSHIM_LOG_WARN,
                      "rank %d of a communicator cannot compress: %llu MiB of its device are left, "
                      "and NCCL may need %llu MiB for the messages",
                      rank, (unsigned long long)(all[rank].left >> 20),
                      (unsigned long long)(need >> 20));
    }
}

/* Copies all ranks' states to the host, and sets the communicator's reason and nodes from them. If
 * `compress` is true, also checks the devices' memory and prepares measuring. */
static ncclResult_t apply_states(struct cshim_nccl_comm *comm, bool compress)
{
    struct cshim_state_exchange *exchange = comm->exchange;
    const size_t bytes = (size_t)comm->ranks * sizeof(struct rank_state);
    struct rank_state *all = exchange->states + 1;
    CSHIM_SCOPE scope = cshim_device_enter(comm);
    CUresult result = cshim_cuda.MemcpyAsync(
        (CUdeviceptr)(uintptr_t)all, exchange->memory + sizeof *all, bytes, exchange->stream);
    if (result == CUDA_SUCCESS)
        result = cshim_cuda.StreamSynchronize(exchange->stream);
    if (result != CUDA_SUCCESS)
        return cshim_device_check(result, "copying the ranks' states");
    for (int rank = 0; rank < comm->ranks; rank++) {
        if (all[rank].reason != CSHIM_REASON_COMPRESS)
            comm->reason = (enum cshim_reason)all[rank].reason;
        cshim_job_origin(all[rank].began);
    }
    const ncclResult_t status = find_nodes(comm, all);
    if (compress && comm->reason == CSHIM_REASON_COMPRESS)
        look_for_room(comm, all);
    if (comm->reason != CSHIM_REASON_COMPRESS && comm->workspace != NULL) {
        cshim_workspace_give(comm->workspace);
        comm->workspace = NULL;
    }
    cshim_job_grow(comm->job, comm->rank == 0, comm->ranks, comm->nodes);
    if (compress && comm->reason == CSHIM_REASON_COMPRESS) {
        cshim_measure_make(comm);
        cshim_choosing_meet(comm, &all[0].collected_at);
    }
    return status;
}

/* Makes the communicators of hierarchical: the intra-node one, in which this rank's number is its
 * local rank, and the inter-node one, in which it is its node's index. All of one level are made in
 * one NCCL group; otherwise a thread that drives several devices would wait for itself. */
static ncclResult_t make_levels(struct cshim_nccl_comm **comms, size_t count)
{
    ncclResult_t status = ncclSuccess;
    for (int level = 0; level < 2 && status == ncclSuccess; level++) {
        const bool is_inside = level == 0;
        status = cshim_nccl.real->GroupStart();
        for (size_t i = 0; i < count && status == ncclSuccess; i++) {
            struct cshim_nccl_comm *comm = comms[i];
            if (has_levels(comm))
                status = cshim_nccl.real->CommSplit(
                    comm->comm, is_inside ? comm->layout.node : comm->layout.local_rank,
                    is_inside ? comm->layout.local_rank : comm->layout.node,
                    is_inside ? &comm->inside : &comm->across, NULL);
        }
        status = cshim_nccl_end_group(status);
    }
    return status;
}

/* Waits until all ranks of a communicator have reached their first compressed call, one is lost, or
 * the communicator has failed; does not wait if there is no rendezvous or it does not answer. */
static ncclResult_t await_ranks(struct cshim_nccl_comm *comm)
{
    const double began = cshim_seconds();
    double warn = WARN_SECONDS;
    ncclResult_t status = ncclSuccess;
    bool missing = comm->member != NULL;
    while (missing && status == ncclSuccess) {
        status = look_for_failure(comm);
        if (status == ncclSuccess)
            status = ask_for_missing(comm, cshim_seconds() - began, &warn, &missing);
    }
    return status;
}

/* Exchanges the states of all ranks. Waits for the ranks at the rendezvous first, because NCCL
 * would not report which rank it waits for. */
static ncclResult_t exchange_states(struct cshim_nccl_comm **comms, size_t count, bool compress)
{
    ncclResult_t status = ncclSuccess;
    for (size_t i = 0; i < count; i++)
        if (comms[i]->member != NULL)
            cshim_rendezvous_come(comms[i]->member);
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        comms[i]->failed = status = await_ranks(comms[i]);
    if (status == ncclSuccess)
        status = gather_states(comms, count);
    if (count == 1) /* of several, it is unknown which one has failed */
        comms[0]->failed = status;
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        comms[i]->failed = status = await_states(comms[i]);
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        comms[i]->failed = status = apply_states(comms[i], compress);
    return status;
}

/* Reports to the rendezvous that this rank has finished and, if it has failed, why, so that the
 * others stop waiting. Does not report a failure that another rank of this communicator is known to
 * have caused (comm->failed is ncclRemoteError); does report one of another communicator in the
 * group. */
static void end_exchange(struct cshim_nccl_comm *comm, ncclResult_t status)
{
    char failure[CSHIM_RENDEZVOUS_WHY_MAX];
    const bool cause = status != ncclSuccess && comm->failed != ncclRemoteError;
    if (comm->member == NULL)
        return;
    snprintf(failure, sizeof failure, "it failed: %s", cshim_nccl.real->GetErrorString(status));
    cshim_rendezvous_done(comm->member, cause ? failure : NULL);
}

/* Exchanges the ranks' states and, if `compress` is true, prepares the communicators. After a
 * failure the exchange's stream may hold work that never completes, so the exchange does not return
 * to the pool. */
static ncclResult_t prepare_all(struct cshim_nccl_comm **comms, size_t count, bool compress)
{
    ncclResult_t status = ncclSuccess;
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        status = begin_exchange(comms[i], compress);
    if (status == ncclSuccess)
        status = exchange_states(comms, count, compress);
    for (size_t i = 0; i < count; i++)
        end_exchange(comms[i], status);
    if (status == ncclSuccess && compress)
        status = make_levels(comms, count);
    for (size_t i = 0; i < count; i++) {
        comms[i]->failed = status;
        comms[i]->prepared = compress && status == ncclSuccess;
        if (status == ncclSuccess)
            cshim_pool_give(&unused_exchanges, &comms[i]->exchange->item);
    }
    return status;
}

/* Lists, each once, the communicators of `calls` to prepare if `compress` is true, otherwise those
 * whose nodes are not known. Returns the error of a previous preparation that has failed. */
static ncclResult_t list_unprepared(const struct cshim_nccl_call *calls, size_t call_count,
                                    bool compress, struct cshim_nccl_comm **comms, size_t *count)
{
    ncclResult_t status = ncclSuccess;
    *count = 0;
    for (size_t i = 0; i < call_count && status == ncclSuccess; i++) {
        struct cshim_nccl_comm *comm = calls[i].comm;
        size_t known = 0;
        while (known < *count && comms[known] != comm)
            known++;
        if (known < *count || comm->prepared || comm->reason != CSHIM_REASON_COMPRESS ||
            (compress ? cshim_call_reason(&calls[i]) != CSHIM_REASON_COMPRESS : comm->nodes != 0))
            continue;
        comms[(*count)++] = comm;
        cshim_cuda.StreamGetPriority(calls[i].stream, &comm->priority);
        status = comm->failed;
    }
    return status;
}

ncclResult_t cshim_prepare(const struct cshim_nccl_call *calls, size_t call_count)
{
    struct cshim_nccl_comm **comms = calloc(call_count, sizeof(struct cshim_nccl_comm *));
    ncclResult_t status = comms != NULL ? ncclSuccess : ncclSystemError;
    for (int compress = 0; compress < 2 && status == ncclSuccess; compress++) {
        size_t count = 0;
        status = list_unprepared(calls, call_count, compress != 0, comms, &count);
        if (status == ncclSuccess && count > 0)
            status = prepare_all(comms, count, compress != 0);
    }
    free(comms);
    return status;
}

/* At process exit CUDA may be gone, so errors are ignored. */
void cshim_prepare_undo(struct cshim_nccl_comm *comm)
{
    if (comm->context == NULL)
        return;
    {
        CSHIM_SCOPE scope = cshim_device_enter(comm);
        cshim_choosing_free(comm);
        cshim_measure_free(comm);
        cshim_feedback_free(comm);
        if (comm->stream != NULL)
            cshim_cuda.StreamDestroy(comm->stream);
    }
    if (comm->workspace != NULL)
        cshim_workspace_give(comm->workspace);
    free(comm->calls_by_rule);
    cshim_layout_free(&comm->layout);
    cshim_cuda.DevicePrimaryCtxRelease((CUdevice)comm->device);
}
