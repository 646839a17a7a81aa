/* SPDX-License-Identifier: Apache-2.0 */
/* What the compressed calls of a communicator need, made at the first one: kernels on the device,
 * memory, and what the ranks tell each other through NCCL itself, now that all are known to have
 * the shim. Waits for the other ranks as NCCL's own first call does, and for the GPU.
 *
 * What the telling itself needs is reserved when the communicator is made, while a rank without it
 * can still say so: from then on only CUDA or NCCL itself can fail, or a process end. Then the
 * others are told by way of the rendezvous. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shim/nccl/prepare.h"

/* Others that have not come are asked for after so long, and named again and again. There is no
 * limit: natively ranks wait for each other as long as the program lets them. */
#define ASK_SECONDS 2.0
#define WARN_SECONDS 60.0

/* One communicator's preparation under way. */
struct preparation {
    struct cshim_nccl_comm *state;
    struct cshim_reserve *reserve;
};

ncclResult_t cshim_nccl_check(const struct cshim_nccl_comm *state, CUresult result,
                              const char *what)
{
    char why[CSHIM_CUDA_WHY_MAX];
    if (result == CUDA_SUCCESS)
        return ncclSuccess;
    cshim_cuda_explain(&state->cuda, what, result, why, sizeof why);
    cshim_log(CSHIM_LOG_ERROR, "%s", why);
    return ncclUnhandledCudaError;
}

uint64_t cshim_nccl_host(void)
{
    char text[256] = "";
    const char *given = getenv("NCCL_HOSTID");
    if (given != NULL && *given != '\0') {
        snprintf(text, sizeof text, "%s", given);
    } else {
        FILE *stream = fopen("/proc/sys/kernel/random/boot_id", "re");
        if (stream == NULL || fgets(text, sizeof text, stream) == NULL)
            gethostname(text, sizeof text - 1);
        if (stream != NULL)
            fclose(stream);
    }
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *at = text; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    return hash;
}

static bool open_cuda(struct cshim_nccl_comm *state, char *why, size_t size)
{
    struct cshim_cuda *cuda = &state->cuda;
    int processors = 0;
    CUdevice device;
    if (state->context != NULL)
        return true;
    if (!cshim_cuda_open(cuda, why, size))
        return false;
    CUresult result = cuda->DeviceGet(&device, state->device);
    if (result == CUDA_SUCCESS)
        result =
            cuda->DeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    if (result == CUDA_SUCCESS)
        result = cuda->DevicePrimaryCtxRetain(&state->context, device);
    if (result != CUDA_SUCCESS) {
        state->context = NULL;
        cshim_cuda_explain(cuda, "the communicator's device", result, why, size);
        return false;
    }
    state->processors = (uint32_t)processors;
    return true;
}

struct cshim_scope cshim_nccl_enter(const struct cshim_nccl_comm *state)
{
    struct cshim_scope scope = {.mode = CU_STREAM_CAPTURE_MODE_RELAXED};
    scope.result = state->cuda.CtxPushCurrent(state->context);
    if (scope.result == CUDA_SUCCESS)
        scope.relaxed = state->cuda.ThreadExchangeStreamCaptureMode(&scope.mode) == CUDA_SUCCESS;
    return scope;
}

void cshim_nccl_leave(const struct cshim_nccl_comm *state, struct cshim_scope *scope)
{
    if (scope->relaxed)
        state->cuda.ThreadExchangeStreamCaptureMode(&scope->mode);
    if (scope->result == CUDA_SUCCESS)
        state->cuda.CtxPopCurrent(NULL);
}

bool cshim_nccl_comm_reserve(struct cshim_nccl_comm *state, char *why, size_t size)
{
    if (!open_cuda(state, why, size))
        return false;
    struct cshim_reserve *reserve = cshim_reserve_take(state, why, size);
    if (reserve != NULL)
        cshim_reserve_give(reserve);
    return reserve != NULL;
}

/* What fails here fails for this rank only, which says so to the others. */
static enum cshim_reason make_ready(struct cshim_nccl_comm *state, char *why, size_t size)
{
    if (!cshim_kernels_load(&state->cuda, state->context, why, size))
        return CSHIM_REASON_NO_KERNELS;
    const CUresult result = state->cuda.StreamCreate(&state->stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
        cshim_cuda_explain(&state->cuda, "a stream", result, why, size);
        return CSHIM_REASON_NO_MEMORY;
    }
    state->calls_by_rule = calloc(state->job->policy->rule_count, sizeof *state->calls_by_rule);
    if (state->calls_by_rule == NULL) {
        snprintf(why, size, "no memory for a communicator");
        return CSHIM_REASON_NO_MEMORY;
    }
    state->workspace = cshim_workspace_take(state, why, size);
    return state->workspace != NULL ? CSHIM_REASON_COMPRESS : CSHIM_REASON_NO_MEMORY;
}

/* Up to the exchange. */
static ncclResult_t begin(struct preparation *preparation, struct cshim_nccl_comm *state)
{
    char why[CSHIM_CUDA_WHY_MAX] = "";
    preparation->state = state;
    if (open_cuda(state, why, sizeof why))
        preparation->reserve = cshim_reserve_take(state, why, sizeof why);
    if (preparation->reserve == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "%s", why);
        return ncclUnhandledCudaError;
    }
    struct cshim_reserve *reserve = preparation->reserve;
    struct cshim_scope scope = cshim_nccl_enter(state);
    reserve->facts[0].host = cshim_nccl_host();
    reserve->facts[0].began = cshim_nccl_trace_align(0);
    reserve->facts[0].reason =
        scope.result == CUDA_SUCCESS ? make_ready(state, why, sizeof why) : CSHIM_REASON_NO_MEMORY;
    if (reserve->facts[0].reason != CSHIM_REASON_COMPRESS)
        cshim_log(CSHIM_LOG_WARN, "rank %d of a communicator cannot compress: %s", state->rank,
                  why);
    const ncclResult_t status = cshim_nccl_check(
        state,
        state->cuda.MemcpyAsync(reserve->memory, (CUdeviceptr)(uintptr_t)reserve->facts,
                                sizeof *reserve->facts, reserve->stream),
        "copying this rank's facts");
    cshim_nccl_leave(state, &scope);
    return status;
}

static ncclResult_t exchange(struct preparation *preparations, size_t count)
{
    ncclResult_t status = cshim_nccl.real->GroupStart();
    for (size_t i = 0; i < count && status == ncclSuccess; i++) {
        const struct preparation *one = &preparations[i];
        const struct cshim_reserve *reserve = one->reserve;
        const void *own = (const void *)(uintptr_t)reserve->memory;
        void *all = (void *)(uintptr_t)(reserve->memory + sizeof(struct cshim_facts));
        status = cshim_nccl.real->AllGather(own, all, sizeof(struct cshim_facts), ncclUint8,
                                            one->state->comm, reserve->stream);
    }
    const ncclResult_t ended = cshim_nccl.real->GroupEnd();
    return status == ncclSuccess ? ended : status;
}

/* Whether the communicator has failed or been aborted meanwhile. */
static ncclResult_t look(struct cshim_nccl_comm *state)
{
    ncclResult_t failure = ncclSuccess;
    pthread_mutex_lock(&state->asking);
    ncclResult_t status = ncclSystemError;
    if (!cshim_nccl_is_aborted(state))
        status = cshim_nccl.real->CommGetAsyncError(state->comm, &failure);
    pthread_mutex_unlock(&state->asking);
    if (status != ncclSuccess)
        return status;
    return failure == ncclInProgress ? ncclSuccess : failure;
}

/* Asks for the ranks that are missing, and warns of them now and then. */
static ncclResult_t ask(const struct cshim_nccl_comm *state, double waited, double *warn,
                        bool *missing)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX] = "not all of them are there";
    const enum cshim_absence absence =
        state->member != NULL ? cshim_rendezvous_wait(state->member, why) : CSHIM_NO_ANSWER;
    *missing = absence == CSHIM_RANKS_MISSING;
    if (absence == CSHIM_RANK_LOST) {
        cshim_log(CSHIM_LOG_ERROR,
                  "the first compressed call of a communicator of %d ranks cannot be made: %s",
                  state->ranks, why);
        return ncclRemoteError;
    }
    if (waited > *warn) {
        cshim_log(CSHIM_LOG_WARN,
                  "rank %d has waited %.0f s in the first compressed call of a communicator of %d "
                  "ranks: %s",
                  state->rank, waited, state->ranks,
                  *missing ? why : "the others are in it, or cannot be asked for");
        *warn = 5 * waited;
    }
    return ncclSuccess;
}

/* Asked in a mode in which that does not break another thread's capture. */
static CUresult query(const struct preparation *preparation)
{
    const struct cshim_cuda *cuda = &preparation->state->cuda;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuda->ThreadExchangeStreamCaptureMode(&mode);
    const CUresult result = cuda->StreamQuery(preparation->reserve->stream);
    cuda->ThreadExchangeStreamCaptureMode(&mode);
    return result;
}

/* Waits for the facts of all ranks. */
static ncclResult_t wait(const struct preparation *preparation)
{
    struct cshim_nccl_comm *state = preparation->state;
    const double began = cshim_seconds();
    const struct timespec pause = {.tv_nsec = 100000};
    double asked = began, warn = WARN_SECONDS;
    bool missing;
    ncclResult_t status = ncclSuccess;
    CUresult result = CUDA_SUCCESS;
    while (status == ncclSuccess && (result = query(preparation)) == CUDA_ERROR_NOT_READY) {
        nanosleep(&pause, NULL);
        status = look(state);
        if (status == ncclSuccess && cshim_seconds() - asked > ASK_SECONDS) {
            status = ask(state, cshim_seconds() - began, &warn, &missing);
            asked = cshim_seconds();
        }
    }
    if (status != ncclSuccess)
        return status;
    return cshim_nccl_check(state, result, "telling the other ranks");
}

/* Nodes are numbered by their lowest rank. */
static void place(struct cshim_nccl_comm *state, const struct cshim_facts *all)
{
    uint32_t least = UINT32_MAX, most = 0;
    state->nodes = 0; /* what the rendezvous told is counted anew */
    for (int rank = 0; rank < state->ranks; rank++) {
        uint32_t before = 0, on_node = 0;
        for (int other = 0; other < state->ranks; other++) {
            before += other < rank && all[other].host == all[rank].host;
            on_node += all[other].host == all[rank].host;
        }
        if (before > 0)
            continue;
        least = on_node < least ? on_node : least;
        most = on_node > most ? on_node : most;
        if (all[rank].host == all[state->rank].host)
            state->node = state->nodes;
        state->nodes++;
    }
    state->local_rank = 0;
    for (int rank = 0; rank < state->rank; rank++)
        state->local_rank += all[rank].host == all[state->rank].host;
    state->ranks_per_node = least == most ? least : 0;
}

static ncclResult_t finish(const struct preparation *preparation)
{
    struct cshim_nccl_comm *state = preparation->state;
    const struct cshim_reserve *reserve = preparation->reserve;
    const size_t bytes = (size_t)state->ranks * sizeof(struct cshim_facts);
    struct cshim_facts *all = reserve->facts + 1;
    struct cshim_scope scope = cshim_nccl_enter(state);
    CUresult result = state->cuda.MemcpyAsync(
        (CUdeviceptr)(uintptr_t)all, reserve->memory + sizeof *all, bytes, reserve->stream);
    if (result == CUDA_SUCCESS)
        result = state->cuda.StreamSynchronize(reserve->stream);
    cshim_nccl_leave(state, &scope);
    if (result != CUDA_SUCCESS)
        return cshim_nccl_check(state, result, "the ranks' facts");
    for (int rank = 0; rank < state->ranks; rank++) {
        if (all[rank].reason != CSHIM_REASON_COMPRESS)
            state->reason = (enum cshim_reason)all[rank].reason;
        cshim_nccl_trace_align(all[rank].began);
    }
    place(state, all);
    cshim_nccl_job_grow(state->job, state->rank == 0, state->ranks, state->nodes);
    scope = cshim_nccl_enter(state);
    cshim_timing_make(state);
    cshim_sampling_make(state);
    cshim_nccl_leave(state, &scope);
    state->prepared = true;
    return ncclSuccess;
}

static bool has_levels(const struct cshim_nccl_comm *state)
{
    return state->reason == CSHIM_REASON_COMPRESS && state->nodes > 1 &&
           state->ranks_per_node > 1 && state->ranks <= CSHIM_LEVELS_RANKS;
}

/* The communicators of `hierarchical`. All of one kind are made in one group: a thread that drives
 * several devices would wait for itself otherwise. */
static ncclResult_t split(const struct preparation *preparations, size_t count, bool inside)
{
    ncclResult_t status = cshim_nccl.real->GroupStart();
    for (size_t i = 0; i < count && status == ncclSuccess; i++) {
        struct cshim_nccl_comm *state = preparations[i].state;
        if (!has_levels(state))
            continue;
        const uint32_t color = inside ? state->node : state->local_rank;
        status = cshim_nccl.real->CommSplit(state->comm, (int)color, state->rank,
                                            inside ? &state->inside : &state->across, NULL);
    }
    const ncclResult_t ended = cshim_nccl.real->GroupEnd();
    return status == ncclSuccess ? ended : status;
}

/* Without ncclCommSplit (before 2.18) there are no levels, on any rank. */
static ncclResult_t split_all(const struct preparation *preparations, size_t count)
{
    bool wanted = false;
    for (size_t i = 0; i < count; i++) {
        struct cshim_nccl_comm *state = preparations[i].state;
        if (cshim_nccl.real->CommSplit == NULL)
            state->ranks_per_node = 0;
        wanted = wanted || has_levels(state);
    }
    ncclResult_t status = ncclSuccess;
    if (wanted)
        status = split(preparations, count, true);
    if (wanted && status == ncclSuccess)
        status = split(preparations, count, false);
    return status;
}

/* Waits until all ranks of a communicator have come, or are not to be waited for here. */
static ncclResult_t gather(struct cshim_nccl_comm *state)
{
    const double began = cshim_seconds();
    double warn = WARN_SECONDS;
    ncclResult_t status = ncclSuccess;
    bool missing = state->member != NULL;
    while (missing && status == ncclSuccess) {
        status = look(state);
        if (status == ncclSuccess)
            status = ask(state, cshim_seconds() - began, &warn, &missing);
    }
    return status;
}

static ncclResult_t meet(struct preparation *preparations, size_t count)
{
    ncclResult_t status = ncclSuccess;
    for (size_t i = 0; i < count; i++) {
        if (preparations[i].state->member != NULL)
            cshim_rendezvous_come(preparations[i].state->member);
    }
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        status = gather(preparations[i].state);
    if (status == ncclSuccess)
        status = exchange(preparations, count);
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        status = wait(&preparations[i]);
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        status = finish(&preparations[i]);
    return status;
}

/* The others need not wait for a rank that has failed. One that fails because another is gone is
 * not the cause. */
static void tell(struct cshim_nccl_comm *state, ncclResult_t status)
{
    char failure[CSHIM_RENDEZVOUS_WHY_MAX];
    const bool cause = status != ncclSuccess && status != ncclRemoteError;
    if (state->member == NULL)
        return;
    snprintf(failure, sizeof failure, "it failed: %s", cshim_nccl.real->GetErrorString(status));
    cshim_rendezvous_done(state->member, cause ? failure : NULL);
}

/* After a failure the stream may hold what never ends: the reserve is not used again. */
static ncclResult_t prepare(struct cshim_nccl_comm **comms, size_t count)
{
    struct preparation *preparations = calloc(count, sizeof *preparations);
    ncclResult_t status = preparations != NULL ? ncclSuccess : ncclSystemError;
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        status = begin(&preparations[i], comms[i]);
    if (status == ncclSuccess)
        status = meet(preparations, count);
    for (size_t i = 0; i < count; i++)
        tell(comms[i], status);
    if (status == ncclSuccess)
        status = split_all(preparations, count);
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        cshim_reserve_give(preparations[i].reserve);
    free(preparations);
    return status;
}

ncclResult_t cshim_nccl_comm_prepare(struct cshim_nccl_comm **comms, size_t count)
{
    ncclResult_t status = ncclSuccess;
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        status = comms[i]->failed;
    if (status != ncclSuccess || count == 0)
        return status;
    status = prepare(comms, count);
    for (size_t i = 0; i < count; i++)
        comms[i]->failed = status;
    return status;
}

/* At the end of a process CUDA may be gone: then there is nothing to give back to it. */
void cshim_nccl_comm_unprepare(struct cshim_nccl_comm *state)
{
    struct cshim_cuda *cuda = &state->cuda;
    if (state->context == NULL)
        return;
    cshim_capture_forget(state);
    struct cshim_scope scope = cshim_nccl_enter(state);
    cshim_timing_free(state);
    cshim_sampling_leave(state);
    cshim_feedback_free(state);
    if (state->stream != NULL)
        cuda->StreamDestroy(state->stream);
    cshim_nccl_leave(state, &scope);
    if (state->workspace != NULL)
        cshim_workspace_give(state->workspace);
    free(state->calls_by_rule);
    cuda->DevicePrimaryCtxRelease((CUdevice)state->device);
}
