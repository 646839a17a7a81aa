/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/sample.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/arithmetic.h"
#include "shim/nccl/background.h"
#include "shim/nccl/timeline.h"
#include "shim/nccl/workspace.h"

/* Rank 0's host memory for one sampled call:
 *
 *     | block of each rank: a factor, then elements | elements of the result |
 *
 * Slots belong to the workspace rather than the communicator, because copies of an aborted
 * communicator may still arrive after the next communicator has acquired the workspace. Only one
 * thread at a time acquires slots; any thread may release them. */
struct cshim_sample_slot {
    atomic_bool in_use; /* held by a call in progress or by its timeline */
    uint8_t *memory;
    CUevent copied; /* recorded after the copies of the latest call */
    struct cshim_nccl_sample sample;
};
#define RESULT_BYTES (CSHIM_SAMPLE_MAX * sizeof(double))
#define SLOT_BYTES (CSHIM_SAMPLE_GATHERED_BYTES + RESULT_BYTES)

/* Before the call ------------------------------------------------------------------------------ */
/* Decides whether a call is sampled, and fills in call->sample if so. If the collective adds
 * nothing, rank 0 compares only its own elements, so nothing is gathered. Broadcasts whose root is
 * not rank 0 are not sampled. */
static void choose_sample(struct cshim_nccl_call *call)
{
    struct cshim_nccl_comm *comm = call->comm;
    const struct cshim_plan *plan = &call->plan;
    const bool is_sum = cshim_shapes[plan->collective].adds;
    const uint32_t ranks = (uint32_t)comm->ranks, compared = is_sum ? ranks : 1;
    const uint64_t block = cshim_sample_block_bytes(ranks);
    const uint32_t number = ++comm->calls_by_rule[cshim_rule_index(comm->job->policy, plan->rule)];
    const uint32_t length = cshim_sample_block_elements(ranks, plan->dtype, call->count);
    if (!cshim_is_sampled(number) || comm->sampled == CSHIM_SAMPLES_OF_GROUP || length == 0 ||
        plan->root != 0)
        return;
    call->sample = (struct cshim_nccl_sample){
        .length = length,
        .ranks = compared,
        .is_scaled = is_sum && call->op >= ncclNumOps,
        .is_average = plan->op == CSHIM_AVG,
        .dtype = plan->dtype,
        .block = block,
        .bytes_wire = compared * (compared - 1) * block,
        .first = cshim_sample_place(call->count, length, number),
        .memory = call->workspace->memory + CSHIM_NCCL_SCRATCH_LIMIT +
                  comm->sampled++ * CSHIM_SAMPLE_GATHERED_BYTES,
    };
}

static CUdeviceptr own_block(const struct cshim_nccl_call *call)
{
    return call->sample.memory + (uint64_t)call->comm->rank * call->sample.block;
}

/* Writes this rank's PreMulSum factor to its block, in the type of the elements. */
static CUresult write_factor(const struct cshim_nccl_call *call)
{
    const enum cshim_dtype dtype = call->plan.dtype;
    const float factor = (float)call->premul.factor;
    uint32_t words[2] = {0};
    CUresult result = CUDA_SUCCESS;
    if (call->premul.factor_at != NULL)
        return cshim_cuda.MemcpyAsync(own_block(call),
                                      (CUdeviceptr)(uintptr_t)call->premul.factor_at,
                                      cshim_dtype_bytes(dtype), call->comm->runs_on);
    if (dtype == CSHIM_FLOAT64)
        memcpy(words, &call->premul.factor, sizeof words);
    else
        cshim_decode(CSHIM_CODEC_FP32, dtype, &factor, 1, words);
    for (uint32_t i = 0; i < 2 && result == CUDA_SUCCESS; i++)
        result = cshim_cuda.MemsetD32Async(own_block(call) + i * sizeof *words, words[i], 1,
                                           call->comm->runs_on);
    return result;
}

/* Copies this rank's factor and elements to its block. The elements have the same indices as those
 * that rank 0 compares in its result. */
static ncclResult_t write_block(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    const size_t element = cshim_dtype_bytes(call->plan.dtype);
    const CUdeviceptr from = (CUdeviceptr)(uintptr_t)call->send + call->sample.first * element;
    CSHIM_SCOPE scope = cshim_device_enter(comm);
    CUresult result = scope.result;
    if (result == CUDA_SUCCESS && call->sample.is_scaled)
        result = write_factor(call);
    if (result == CUDA_SUCCESS)
        result = cshim_cuda.MemcpyAsync(own_block(call) + CSHIM_SAMPLE_FACTOR_BYTES, from,
                                        call->sample.length * element, call->comm->runs_on);
    return cshim_device_check(result, "sampling a call");
}

/* Gathers the blocks of all ranks, for each sampled call that adds, in one NCCL group. */
static ncclResult_t gather_blocks(const struct cshim_nccl_call *calls, size_t count)
{
    ncclResult_t status = cshim_nccl.real->GroupStart();
    if (status != ncclSuccess)
        return status;
    for (size_t i = 0; i < count && status == ncclSuccess; i++) {
        const struct cshim_nccl_call *call = &calls[i];
        if (call->sample.ranks <= 1)
            continue;
        status = ncclSystemError;
        if (call->comm->stopped == ncclSuccess)
            status = cshim_nccl.real->AllGather(
                (const void *)(uintptr_t)own_block(call), (void *)(uintptr_t)call->sample.memory,
                call->sample.block, ncclUint8, call->comm->comm, call->comm->runs_on);
    }
    return cshim_nccl_end_group(status);
}

bool cshim_sample_has_happened(const struct cshim_sample_slot *slot)
{
    return cshim_device_query(slot->copied, NULL) == CUDA_SUCCESS;
}

/* Returns a free slot that has an event, or NULL. */
static struct cshim_sample_slot *acquire_slot(const struct cshim_nccl_comm *comm)
{
    for (size_t i = 0; i < CSHIM_SAMPLES_OF_GROUP; i++) {
        struct cshim_sample_slot *slot = &comm->samples[i];
        if (slot->in_use || (slot->copied != NULL && !cshim_sample_has_happened(slot)))
            continue;
        if (slot->copied == NULL &&
            cshim_cuda.EventCreate(&slot->copied, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            return NULL;
        slot->in_use = true;
        return slot;
    }
    return NULL;
}

/* Copies the blocks that rank 0 compares to its host memory, if a slot is free. */
static void copy_blocks(struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    const struct cshim_nccl_sample *sample = &call->sample;
    CSHIM_SCOPE scope = cshim_device_enter(comm);
    struct cshim_sample_slot *slot = scope.result == CUDA_SUCCESS ? acquire_slot(comm) : NULL;
    if (slot == NULL)
        return;
    if (cshim_cuda.MemcpyAsync((CUdeviceptr)(uintptr_t)slot->memory, sample->memory,
                               sample->ranks * sample->block, call->comm->runs_on) == CUDA_SUCCESS)
        call->sample.slot = slot;
    else
        slot->in_use = false;
}

ncclResult_t cshim_sample_begin(struct cshim_nccl_call *calls, size_t count)
{
    ncclResult_t status = ncclSuccess;
    bool any = false;
    for (size_t i = 0; i < count; i++)
        calls[i].comm->sampled = 0;
    for (size_t i = 0; i < count && status == ncclSuccess; i++) {
        struct cshim_nccl_call *call = &calls[i];
        if (call->plan.reason != CSHIM_REASON_COMPRESS || call->capture_id != 0)
            continue;
        choose_sample(call);
        any = any || call->sample.ranks > 1;
        if ((uint32_t)call->comm->rank < call->sample.ranks)
            status = write_block(call);
    }
    if (any && status == ncclSuccess)
        status = gather_blocks(calls, count);
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        if (calls[i].sample.length > 0 && calls[i].comm->samples != NULL)
            copy_blocks(&calls[i]);
    return status;
}

/* After the call ------------------------------------------------------------------------------- */
/* A slot whose event cannot be recorded stays in use, because nothing says when its copies end. */
void cshim_sample_end(const struct cshim_nccl_call *call, bool is_kept)
{
    struct cshim_sample_slot *slot = call->sample.slot;
    const size_t element = cshim_dtype_bytes(call->plan.dtype);
    const CUdeviceptr from = (CUdeviceptr)(uintptr_t)call->receive + call->sample.first * element;
    const CUdeviceptr to = (CUdeviceptr)(uintptr_t)slot->memory + CSHIM_SAMPLE_GATHERED_BYTES;
    CSHIM_SCOPE scope = cshim_device_enter(call->comm);
    if (scope.result == CUDA_SUCCESS && is_kept)
        is_kept = cshim_cuda.MemcpyAsync(to, from, call->sample.length * element, call->stream) ==
                  CUDA_SUCCESS;
    if (scope.result != CUDA_SUCCESS ||
        cshim_cuda.EventRecord(slot->copied, call->stream) != CUDA_SUCCESS)
        return;
    slot->sample = call->sample;
    slot->in_use = is_kept;
    if (is_kept)
        call->timed->slot = slot;
}

/* Computes the expected results in float64: the sum of the compared ranks' elements, each
 * multiplied by its rank's factor or, for an average, divided by the number of ranks. */
static void sum_blocks(const struct cshim_sample_slot *slot, double sums[CSHIM_SAMPLE_MAX])
{
    const struct cshim_nccl_sample *sample = &slot->sample;
    double values[CSHIM_SAMPLE_MAX], factor = sample->is_average ? 1.0 / sample->ranks : 1;
    memset(sums, 0, sample->length * sizeof *sums);
    for (uint32_t rank = 0; rank < sample->ranks; rank++) {
        const uint8_t *block = slot->memory + rank * sample->block;
        if (sample->is_scaled)
            cshim_sample_widen(sample->dtype, block, 1, &factor);
        cshim_sample_widen(sample->dtype, block + CSHIM_SAMPLE_FACTOR_BYTES, sample->length,
                           values);
        for (uint32_t i = 0; i < sample->length; i++)
            sums[i] += factor * values[i];
    }
}

void cshim_sample_compare(const struct cshim_sample_slot *slot, struct cshim_row *figures)
{
    double sums[CSHIM_SAMPLE_MAX], results[CSHIM_SAMPLE_MAX];
    const cshim_arithmetic saved = cshim_arithmetic_begin();
    sum_blocks(slot, sums);
    cshim_sample_widen(slot->sample.dtype, slot->memory + CSHIM_SAMPLE_GATHERED_BYTES,
                       slot->sample.length, results);
    cshim_sample_add(figures, results, sums, slot->sample.length);
    cshim_arithmetic_end(&saved);
}

void cshim_sample_give(struct cshim_sample_slot *slot)
{
    if (slot != NULL)
        slot->in_use = false;
}

void cshim_sample_make(struct cshim_nccl_comm *comm)
{
    struct cshim_workspace *workspace = comm->workspace;
    void *memory;
    if (workspace == NULL || comm->rank != 0 || comm->job->wanted == NULL)
        return;
    if (workspace->samples == NULL) {
        struct cshim_sample_slot *slots = calloc(CSHIM_SAMPLES_OF_GROUP, sizeof *slots);
        if (slots == NULL || cshim_cuda.MemHostAlloc(&memory, CSHIM_SAMPLES_OF_GROUP * SLOT_BYTES,
                                                     CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS) {
            free(slots);
            return;
        }
        for (size_t i = 0; i < CSHIM_SAMPLES_OF_GROUP; i++)
            slots[i].memory = (uint8_t *)memory + i * SLOT_BYTES;
        workspace->samples = slots;
    }
    comm->samples = workspace->samples;
}
