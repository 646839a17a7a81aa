/* SPDX-License-Identifier: Apache-2.0 */
/* What the compressed calls of a communicator need, made at the first one: kernels on the device,
 * memory, and what the ranks tell each other through NCCL itself, now that all are known to have
 * the shim. The only place that waits for the GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shim/nccl/internal.h"

/* So long the ranks may take to come to their first compressed call. */
#define FACTS_SECONDS 600.0

/* What a rank tells the others. */
struct facts {
    uint64_t host;
    uint64_t reason; /* CSHIM_REASON_COMPRESS, or why this rank cannot */
    uint64_t began;  /* where its trace's time begins; 0: it has none */
};

/* One communicator's preparation under way. */
struct preparation {
    struct cshim_nccl_comm *state;
    struct facts own;
    struct facts *all;  /* by rank; own and all in one allocation with the device's copy */
    CUdeviceptr device; /* own, then all */
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

/* What fails here fails for this rank only, which says so to the others. */
static enum cshim_reason make_ready(struct cshim_nccl_comm *state, char *why, size_t size)
{
    if (!cshim_kernels_load(&state->cuda, state->context, why, size))
        return CSHIM_REASON_NO_KERNELS;
    state->workspace = cshim_workspace_take(state, why, size);
    return state->workspace != NULL ? CSHIM_REASON_COMPRESS : CSHIM_REASON_NO_MEMORY;
}

/* Up to the exchange: nothing but what that needs may fail. */
static ncclResult_t begin(struct preparation *preparation, struct cshim_nccl_comm *state)
{
    char why[CSHIM_CUDA_WHY_MAX] = "";
    const size_t ranks = (size_t)state->ranks;
    preparation->state = state;
    if (!open_cuda(state, why, sizeof why)) {
        cshim_log(CSHIM_LOG_ERROR, "%s", why);
        return ncclUnhandledCudaError;
    }
    struct cshim_cuda *cuda = &state->cuda;
    cuda->CtxPushCurrent(state->context);
    preparation->own.host = cshim_nccl_host();
    preparation->own.began = cshim_nccl_trace_align(0);
    preparation->own.reason = make_ready(state, why, sizeof why);
    if (preparation->own.reason != CSHIM_REASON_COMPRESS)
        cshim_log(CSHIM_LOG_WARN, "rank %d of a communicator cannot compress: %s", state->rank,
                  why);
    preparation->all = calloc(ranks, sizeof *preparation->all);
    ncclResult_t status = preparation->all != NULL ? ncclSuccess : ncclSystemError;
    if (status == ncclSuccess)
        status = cshim_nccl_check(state, cuda->StreamCreate(&state->stream, CU_STREAM_NON_BLOCKING),
                                  "a stream");
    if (status == ncclSuccess)
        status = cshim_nccl_check(
            state, cuda->MemAlloc(&preparation->device, (ranks + 1) * sizeof(struct facts)),
            "memory for the ranks' facts");
    if (status == ncclSuccess)
        status = cshim_nccl_check(state,
                                  cuda->MemcpyAsync(preparation->device,
                                                    (CUdeviceptr)(uintptr_t)&preparation->own,
                                                    sizeof(struct facts), state->stream),
                                  "copying this rank's facts");
    cuda->CtxPopCurrent(NULL);
    return status;
}

static ncclResult_t exchange(struct preparation *preparations, size_t count)
{
    ncclResult_t status = cshim_nccl.real->GroupStart();
    for (size_t i = 0; i < count && status == ncclSuccess; i++) {
        const struct preparation *one = &preparations[i];
        const void *own = (const void *)(uintptr_t)one->device;
        void *all = (void *)(uintptr_t)(one->device + sizeof(struct facts));
        status = cshim_nccl.real->AllGather(own, all, sizeof(struct facts), ncclUint8,
                                            one->state->comm, one->state->stream);
    }
    const ncclResult_t ended = cshim_nccl.real->GroupEnd();
    return status == ncclSuccess ? ended : status;
}

/* Waits for the facts of all ranks. A communicator that fails or is aborted meanwhile ends it. */
static ncclResult_t wait(const struct preparation *preparation)
{
    const struct cshim_nccl_comm *state = preparation->state;
    const double deadline = cshim_seconds() + FACTS_SECONDS;
    const struct timespec pause = {.tv_nsec = 100000};
    CUresult result;
    while ((result = state->cuda.StreamQuery(state->stream)) == CUDA_ERROR_NOT_READY) {
        ncclResult_t failure = ncclSuccess;
        const ncclResult_t asked = cshim_nccl.real->CommGetAsyncError(state->comm, &failure);
        if (asked != ncclSuccess || (failure != ncclSuccess && failure != ncclInProgress))
            return asked != ncclSuccess ? asked : failure;
        if (cshim_seconds() > deadline) {
            cshim_log(CSHIM_LOG_ERROR,
                      "not all ranks of a communicator of %d came to its first compressed call "
                      "within %.0f s",
                      state->ranks, FACTS_SECONDS);
            return ncclSystemError;
        }
        nanosleep(&pause, NULL);
    }
    return cshim_nccl_check(state, result, "the ranks' facts");
}

/* Nodes are numbered by their lowest rank. */
static void place(struct cshim_nccl_comm *state, const struct facts *all)
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
    const size_t bytes = (size_t)state->ranks * sizeof(struct facts);
    CUresult result =
        state->cuda.MemcpyAsync((CUdeviceptr)(uintptr_t)preparation->all,
                                preparation->device + sizeof(struct facts), bytes, state->stream);
    if (result == CUDA_SUCCESS)
        result = state->cuda.StreamSynchronize(state->stream);
    if (result != CUDA_SUCCESS)
        return cshim_nccl_check(state, result, "the ranks' facts");
    for (int rank = 0; rank < state->ranks; rank++) {
        if (preparation->all[rank].reason != CSHIM_REASON_COMPRESS)
            state->reason = (enum cshim_reason)preparation->all[rank].reason;
        cshim_nccl_trace_align(preparation->all[rank].began);
    }
    place(state, preparation->all);
    cshim_nccl_job_grow(state->job, state->rank == 0, state->ranks, state->nodes);
    cshim_timing_make(state);
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

static void end(struct preparation *preparation)
{
    const struct cshim_nccl_comm *state = preparation->state;
    if (preparation->device != 0) {
        state->cuda.CtxPushCurrent(state->context);
        state->cuda.MemFree(preparation->device);
        state->cuda.CtxPopCurrent(NULL);
    }
    free(preparation->all);
}

static ncclResult_t prepare(struct cshim_nccl_comm **comms, size_t count)
{
    struct preparation *preparations = calloc(count, sizeof *preparations);
    ncclResult_t status = preparations != NULL ? ncclSuccess : ncclSystemError;
    size_t begun = 0;
    while (begun < count && status == ncclSuccess) {
        status = begin(&preparations[begun], comms[begun]);
        begun++;
    }
    if (status == ncclSuccess)
        status = exchange(preparations, count);
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        status = wait(&preparations[i]);
    for (size_t i = 0; i < count && status == ncclSuccess; i++) {
        comms[i]->cuda.CtxPushCurrent(comms[i]->context);
        status = finish(&preparations[i]);
        comms[i]->cuda.CtxPopCurrent(NULL);
    }
    if (status == ncclSuccess)
        status = split_all(preparations, count);
    for (size_t i = 0; i < begun; i++)
        end(&preparations[i]);
    free(preparations);
    return status;
}

/* What is allocated and waited for here is not captured, and must not break the captures of other
 * threads. Without CUDA the preparation fails by itself. */
ncclResult_t cshim_nccl_comm_prepare(struct cshim_nccl_comm **comms, size_t count)
{
    char why[CSHIM_CUDA_WHY_MAX];
    struct cshim_cuda cuda;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool opened = cshim_cuda_open(&cuda, why, sizeof why);
    if (opened)
        cuda.ThreadExchangeStreamCaptureMode(&mode);
    const ncclResult_t status = prepare(comms, count);
    if (opened)
        cuda.ThreadExchangeStreamCaptureMode(&mode);
    return status;
}

void cshim_nccl_comm_unprepare(struct cshim_nccl_comm *state)
{
    struct cshim_cuda *cuda = &state->cuda;
    if (state->context == NULL)
        return;
    cshim_capture_forget(state);
    cuda->CtxPushCurrent(state->context);
    cshim_timing_free(state);
    cshim_feedback_free(state);
    if (state->stream != NULL)
        cuda->StreamDestroy(state->stream);
    cuda->CtxPopCurrent(NULL);
    if (state->workspace != NULL)
        cshim_workspace_give(state->workspace);
    cuda->DevicePrimaryCtxRelease((CUdevice)state->device);
}
