/* SPDX-License-Identifier: Apache-2.0 */
/* The sampled error (shim/core/sample.h). Before a sampled call a few elements of all ranks are
 * copied and gathered by NCCL; rank 0 has them copied to its host, and its result's behind the
 * call. They are compared once the last copy has happened, which nothing waits for.
 *
 * Whether a call is sampled is the same on all ranks, whose memory for it is part of the workspace.
 * What rank 0 needs beyond that is its own business: without, it gathers and compares nothing. */
#include "shim/core/sample.h"

#include <stdlib.h>
#include <string.h>

#include "shim/nccl/internal.h"

enum state {
    FREE,
    FILLED,    /* copies are under way */
    FORGOTTEN, /* the same, but nobody wants to know any more */
    LOST       /* it is not known when they end */
};

/* A call's blocks on rank 0's host, then its result's elements. */
struct slot {
    enum state state;
    uint8_t *memory;
    CUevent copied;
    struct cshim_plan plan;
    struct cshim_nccl_sample sample;
    bool is_average;
    struct cshim_nccl_job *job;
};
#define RESULT_BYTES (CSHIM_SAMPLE_MAX * sizeof(double))
#define SLOT_BYTES (CSHIM_SAMPLE_GATHERED_BYTES + RESULT_BYTES)

/* A workspace's, from communicator to communicator: copies of an aborted one may come late. */
struct cshim_samples {
    pthread_mutex_t lock; /* guards the slots: another thread may abort the communicator */
    struct slot slots[CSHIM_SAMPLES_OF_GROUP];
};

/* Asked in a mode in which that does not break another thread's capture. */
static bool has_happened(const struct cshim_nccl_comm *comm, CUevent event)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    comm->cuda.ThreadExchangeStreamCaptureMode(&mode);
    const bool happened = comm->cuda.EventQuery(event) == CUDA_SUCCESS;
    comm->cuda.ThreadExchangeStreamCaptureMode(&mode);
    return happened;
}

/* Before the call
 * -----------------------------------------------------------------------------------------*/
/* Decides whether a call is sampled, by what is equal on all ranks. Of an all-gather rank 0's own
 * block is compared, which it has as the others have it: nothing is to be gathered. */
static void choose(struct cshim_nccl_call *call)
{
    struct cshim_nccl_comm *comm = call->comm;
    const struct cshim_plan *plan = &call->plan;
    const bool is_sum = call->collective != CSHIM_ALLGATHER;
    const uint32_t ranks = (uint32_t)comm->ranks;
    const uint32_t number = ++comm->calls_by_rule[plan->rule - comm->job->policy->rules];
    const uint32_t length = cshim_sample_block_elements(ranks, plan->dtype, call->count);
    if (!cshim_is_sampled(number) || comm->sampled == CSHIM_SAMPLES_OF_GROUP || length == 0)
        return;
    call->sample = (struct cshim_nccl_sample){
        .length = length,
        .ranks = is_sum ? ranks : 1,
        .is_scaled = is_sum && call->op >= ncclNumOps,
        .block = cshim_sample_block_bytes(ranks),
        .first = cshim_sample_place(call->count, length, number),
        .memory = call->workspace->memory + CSHIM_WORKSPACE_BYTES +
                  comm->sampled++ * CSHIM_SAMPLE_GATHERED_BYTES,
    };
}

/* Whether this rank's elements are compared. */
static bool has_part(const struct cshim_nccl_call *call)
{
    return (uint32_t)call->comm->rank < call->sample.ranks;
}

static CUdeviceptr own_block(const struct cshim_nccl_call *call)
{
    return call->sample.memory + (uint64_t)call->comm->rank * call->sample.block;
}

/* The factor of this rank, in the type of the elements. */
static CUresult write_factor(const struct cshim_nccl_call *call)
{
    const struct cshim_cuda *cuda = &call->comm->cuda;
    const enum cshim_dtype dtype = call->plan.dtype;
    const float factor = (float)call->factor;
    uint32_t words[2] = {0};
    CUresult result = CUDA_SUCCESS;
    if (call->factor_at != NULL)
        return cuda->MemcpyAsync(own_block(call), (CUdeviceptr)(uintptr_t)call->factor_at,
                                 cshim_dtype_bytes(dtype), call->stream);
    if (dtype == CSHIM_FLOAT64)
        memcpy(words, &call->factor, sizeof words);
    else
        cshim_decode(CSHIM_CODEC_FP32, dtype, &factor, 1, words);
    for (uint32_t i = 0; i < 2 && result == CUDA_SUCCESS; i++)
        result =
            cuda->MemsetD32Async(own_block(call) + i * sizeof *words, words[i], 1, call->stream);
    return result;
}

/* Writes this rank's block. The elements are of the same place as those of rank 0's result. */
static ncclResult_t write_block(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    const size_t element = cshim_dtype_bytes(call->plan.dtype);
    const CUdeviceptr from = (CUdeviceptr)(uintptr_t)call->send + call->sample.first * element;
    struct cshim_scope scope = cshim_nccl_enter(comm);
    CUresult result = scope.result;
    if (result == CUDA_SUCCESS)
        result = cshim_workspace_await(call);
    if (result == CUDA_SUCCESS && call->sample.is_scaled)
        result = write_factor(call);
    if (result == CUDA_SUCCESS)
        result = comm->cuda.MemcpyAsync(own_block(call) + CSHIM_SAMPLE_FACTOR_BYTES, from,
                                        call->sample.length * element, call->stream);
    cshim_nccl_leave(comm, &scope);
    return cshim_nccl_check(comm, result, "sampling a call");
}

static ncclResult_t gather(const struct cshim_nccl_call *call)
{
    const void *own = (const void *)(uintptr_t)own_block(call);
    void *all = (void *)(uintptr_t)call->sample.memory;
    if (call->sample.ranks <= 1)
        return ncclSuccess;
    if (cshim_nccl_is_aborted(call->comm))
        return ncclSystemError;
    return cshim_nccl.real->AllGather(own, all, call->sample.block, ncclUint8, call->comm->comm,
                                      call->stream);
}

static ncclResult_t gather_all(const struct cshim_nccl_call *calls, size_t count)
{
    ncclResult_t status = cshim_nccl.real->GroupStart();
    if (status != ncclSuccess)
        return status;
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        status = gather(&calls[i]);
    const ncclResult_t ended = cshim_nccl.real->GroupEnd();
    return status == ncclSuccess ? ended : status;
}

/* A slot with an event; the lock is held. */
static struct slot *take_slot(const struct cshim_nccl_comm *comm)
{
    for (size_t i = 0; i < CSHIM_SAMPLES_OF_GROUP; i++) {
        struct slot *slot = &comm->samples->slots[i];
        if (slot->state == FORGOTTEN && has_happened(comm, slot->copied))
            slot->state = FREE;
        if (slot->state != FREE)
            continue;
        if (slot->copied == NULL &&
            comm->cuda.EventCreate(&slot->copied, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            return NULL;
        slot->state = LOST; /* until it is filled */
        return slot;
    }
    return NULL;
}

/* Rank 0 has the blocks copied. The communicator's context is current. */
static void copy_blocks(struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    const struct cshim_nccl_sample *sample = &call->sample;
    pthread_mutex_lock(&comm->samples->lock);
    struct slot *slot = take_slot(comm);
    pthread_mutex_unlock(&comm->samples->lock);
    if (slot != NULL &&
        comm->cuda.MemcpyAsync((CUdeviceptr)(uintptr_t)slot->memory, sample->memory,
                               sample->ranks * sample->block, call->stream) == CUDA_SUCCESS)
        call->sample.slot = slot;
}

ncclResult_t cshim_sampling_begin(struct cshim_nccl_call *calls, size_t count)
{
    ncclResult_t status = ncclSuccess;
    bool any = false;
    for (size_t i = 0; i < count; i++)
        calls[i].comm->sampled = 0;
    for (size_t i = 0; i < count && status == ncclSuccess; i++) {
        struct cshim_nccl_call *call = &calls[i];
        if (call->plan.reason != CSHIM_REASON_COMPRESS || call->capture_id != 0)
            continue;
        choose(call);
        any = any || call->sample.ranks > 1;
        if (has_part(call))
            status = write_block(call);
    }
    if (any && status == ncclSuccess)
        status = gather_all(calls, count);
    for (size_t i = 0; i < count && status == ncclSuccess; i++) {
        const struct cshim_nccl_comm *comm = calls[i].comm;
        if (calls[i].sample.length == 0 || comm->samples == NULL)
            continue;
        struct cshim_scope scope = cshim_nccl_enter(comm);
        if (scope.result == CUDA_SUCCESS)
            copy_blocks(&calls[i]);
        cshim_nccl_leave(comm, &scope);
    }
    return status;
}

uint64_t cshim_sampling_bytes_wire(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_sample *sample = &call->sample;
    return sample->ranks > 1 ? sample->ranks * (sample->ranks - 1) * sample->block : 0;
}

/* Behind it
 * -----------------------------------------------------------------------------------------------*/
static void copy_result(const struct cshim_nccl_call *call, struct slot *slot, bool is_good)
{
    const struct cshim_cuda *cuda = &call->comm->cuda;
    const size_t element = cshim_dtype_bytes(call->plan.dtype);
    const CUdeviceptr from = (CUdeviceptr)(uintptr_t)call->receive + call->sample.first * element;
    const CUdeviceptr to = (CUdeviceptr)(uintptr_t)slot->memory + CSHIM_SAMPLE_GATHERED_BYTES;
    if (is_good)
        is_good = cuda->MemcpyAsync(to, from, call->sample.length * element, call->stream) ==
                  CUDA_SUCCESS;
    if (cuda->EventRecord(slot->copied, call->stream) != CUDA_SUCCESS)
        return;
    slot->plan = call->plan;
    slot->sample = call->sample;
    slot->is_average = call->op == ncclAvg;
    slot->job = call->comm->job;
    slot->state = is_good ? FILLED : FORGOTTEN;
}

void cshim_sampling_end(struct cshim_nccl_call *calls, size_t count, bool is_good)
{
    for (size_t i = 0; i < count; i++) {
        const struct cshim_nccl_comm *comm = calls[i].comm;
        if (calls[i].sample.slot == NULL)
            continue;
        struct cshim_scope scope = cshim_nccl_enter(comm);
        pthread_mutex_lock(&comm->samples->lock);
        if (scope.result == CUDA_SUCCESS)
            copy_result(&calls[i], calls[i].sample.slot, is_good);
        pthread_mutex_unlock(&comm->samples->lock);
        cshim_nccl_leave(comm, &scope);
    }
}

/* Reading
 * ---------------------------------------------------------------------------------------------*/
/* The sums of what all ranks told, each times its factor. */
static void add_up(const struct slot *slot, double sums[CSHIM_SAMPLE_MAX])
{
    const struct cshim_nccl_sample *sample = &slot->sample;
    const enum cshim_dtype dtype = slot->plan.dtype;
    double values[CSHIM_SAMPLE_MAX], factor = slot->is_average ? 1.0 / sample->ranks : 1;
    memset(sums, 0, sample->length * sizeof *sums);
    for (uint32_t rank = 0; rank < sample->ranks; rank++) {
        const uint8_t *block = slot->memory + rank * sample->block;
        if (sample->is_scaled)
            cshim_sample_widen(dtype, block, 1, &factor);
        cshim_sample_widen(dtype, block + CSHIM_SAMPLE_FACTOR_BYTES, sample->length, values);
        for (uint32_t i = 0; i < sample->length; i++)
            sums[i] += factor * values[i];
    }
}

static void compare(const struct slot *slot)
{
    double sums[CSHIM_SAMPLE_MAX], results[CSHIM_SAMPLE_MAX];
    struct cshim_row figures = {0};
    add_up(slot, sums);
    cshim_sample_widen(slot->plan.dtype, slot->memory + CSHIM_SAMPLE_GATHERED_BYTES,
                       slot->sample.length, results);
    cshim_sample_add(&figures, results, sums, slot->sample.length);
    cshim_ledger_add(&slot->job->ledger, &slot->plan, &figures);
    slot->job->due = true;
}

void cshim_sampling_collect(const struct cshim_nccl_comm *comm)
{
    struct cshim_samples *samples = comm->samples;
    if (samples == NULL)
        return;
    pthread_mutex_lock(&samples->lock);
    for (size_t i = 0; i < CSHIM_SAMPLES_OF_GROUP; i++) {
        struct slot *slot = &samples->slots[i];
        if (slot->state != FILLED || !has_happened(comm, slot->copied))
            continue;
        compare(slot);
        slot->state = FREE;
    }
    pthread_mutex_unlock(&samples->lock);
}

/* The life of it
 * --------------------------------------------------------------------------------------*/
static struct cshim_samples *make_samples(const struct cshim_cuda *cuda)
{
    void *memory;
    struct cshim_samples *samples = calloc(1, sizeof *samples);
    if (samples == NULL)
        return NULL;
    if (cuda->MemHostAlloc(&memory, CSHIM_SAMPLES_OF_GROUP * SLOT_BYTES,
                           CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS) {
        free(samples);
        return NULL;
    }
    pthread_mutex_init(&samples->lock, NULL);
    for (size_t i = 0; i < CSHIM_SAMPLES_OF_GROUP; i++)
        samples->slots[i].memory = (uint8_t *)memory + i * SLOT_BYTES;
    return samples;
}

void cshim_sampling_make(struct cshim_nccl_comm *comm)
{
    struct cshim_workspace *workspace = comm->workspace;
    if (workspace == NULL || comm->rank != 0 || !comm->job->is_timed)
        return;
    if (workspace->samples == NULL)
        workspace->samples = make_samples(&comm->cuda);
    comm->samples = workspace->samples;
}

void cshim_sampling_leave(struct cshim_nccl_comm *comm)
{
    for (size_t i = 0; i < CSHIM_SAMPLES_OF_GROUP && comm->samples != NULL; i++) {
        struct slot *slot = &comm->samples->slots[i];
        if (slot->state == FILLED)
            slot->state = FORGOTTEN;
    }
    comm->samples = NULL;
}
