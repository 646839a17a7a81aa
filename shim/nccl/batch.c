/* SPDX-License-Identifier: Apache-2.0 */
/* Runs compressed calls in batches of segments that fit the workspaces. The messages of all
 * segments of a batch go in one group of NCCL for each step. That saves launches, and a thread that
 * drives several devices would wait for itself otherwise. */
#include <stdlib.h>

#include "shim/core/header.h"
#include "shim/nccl/describe.h"
#include "shim/nccl/measure.h"

struct batch {
    struct cshim_segment *segments; /* room for two of each call */
    size_t count;
    struct cshim_timeline *timelines; /* of all calls */
};

/* Choosing segments ---------------------------------------------------------------------------- */
/* Chooses the segments of a batch: of each communicator the next one of its first unfinished call,
 * and those of later calls as long as the workspace has room. All ranks choose alike. */
static void choose(struct batch *batch, struct cshim_nccl_call *calls, size_t count)
{
    batch->count = 0;
    for (size_t i = 0; i < count; i++) {
        struct cshim_nccl_call *call = &calls[i];
        uint64_t used = 0;      /* of the workspace, by earlier calls on the same communicator */
        bool is_behind = false; /* one of these has more segments to come: those go first */
        for (const struct cshim_nccl_call *before = calls; before < call; before++) {
            if (before->comm != call->comm)
                continue;
            used += before->in_batch ? before->plan.slot_bytes : 0;
            is_behind = is_behind ||
                        before->segments_done + (before->in_batch ? 1 : 0) < before->plan.segments;
        }
        call->in_batch = call->segments_done < call->plan.segments && !is_behind &&
                         (used == 0 || used + call->plan.slot_bytes <= CSHIM_WORKSPACE_BYTES);
        if (!call->in_batch)
            continue;
        uint8_t *memory = (uint8_t *)(uintptr_t)call->workspace->memory;
        batch->count += cshim_segment_make(call, memory + used, batch->segments + batch->count);
    }
}

/* Running them --------------------------------------------------------------------------------- */
/* Has each stream of the batch wait for the last batch in its workspace; or, if it `releases` the
 * workspace, the next batch wait for this one. Streams that shared a workspace wait for each other
 * in turn then, so that the event stands for all. */
static ncclResult_t order(const struct batch *batch, bool releases)
{
    ncclResult_t status = ncclSuccess;
    for (size_t i = 0; i < batch->count && status == ncclSuccess; i++) {
        const struct cshim_nccl_call *call = batch->segments[i].call;
        const struct cshim_nccl_call *before = i > 0 ? batch->segments[i - 1].call : NULL;
        if (before != NULL && before->workspace == call->workspace &&
            before->stream == call->stream)
            continue;
        CSHIM_SCOPE scope = cshim_device_enter(call->comm);
        CUresult result = scope.result;
        if (result == CUDA_SUCCESS)
            result = cshim_workspace_await(call->workspace, call->stream);
        if (result == CUDA_SUCCESS && releases)
            result = cshim_cuda.EventRecord(call->workspace->idle, call->stream);
        if (releases && scope.result == CUDA_SUCCESS)
            call->workspace->used = result == CUDA_SUCCESS;
        status = cshim_device_check(result, releases ? "freeing the workspace"
                                                     : "waiting for the workspace");
    }
    return status;
}

/* Enqueues a step of all segments. What NCCL exchanges goes in one group. */
static ncclResult_t enqueue(const struct batch *batch, enum cshim_step step)
{
    const bool is_group = cshim_step_phase(step) == CSHIM_PHASE_EXCHANGE;
    ncclResult_t status = is_group ? cshim_nccl.real->GroupStart() : ncclSuccess;
    if (status != ncclSuccess)
        return status;
    for (size_t i = 0; i < batch->count && status == ncclSuccess; i++) {
        CSHIM_SCOPE scope = cshim_device_enter(batch->segments[i].call->comm);
        status = cshim_device_check(scope.result, "entering the communicator's context");
        if (status == ncclSuccess)
            status = cshim_step_enqueue(&batch->segments[i], step);
    }
    return is_group ? cshim_nccl_end_group(status) : status;
}

/* Another thread may abort a communicator at any time. Then its handle may not be used any more:
 * each step looks before it begins. */
static ncclResult_t run(const struct batch *batch)
{
    ncclResult_t status = order(batch, false);
    cshim_measure_batch(batch->timelines, batch->segments, batch->count);
    for (enum cshim_step step = 0; step < CSHIM_STEPS && status == ncclSuccess; step++) {
        bool has = false, aborted = false;
        for (size_t i = 0; i < batch->count; i++) {
            has = has || cshim_schedule_has(batch->segments[i].schedule, step);
            aborted = aborted || batch->segments[i].call->comm->aborted;
        }
        if (!has)
            continue;
        if (aborted)
            return ncclSystemError;
        status = enqueue(batch, step);
        cshim_measure_step(batch->timelines, step);
    }
    return status == ncclSuccess ? order(batch, true) : status;
}

/* Planning the calls --------------------------------------------------------------------------- */
/* A kernel has seen a message that was not the expected one, some time ago: the ranks have made
 * different calls, and their results are wrong since then. */
static ncclResult_t look_for_fault(const struct cshim_nccl_comm *comm)
{
    const uint32_t *fault = comm->workspace->fault;
    char text[CSHIM_MISMATCH_MAX];
    if (__atomic_load_n(fault, __ATOMIC_ACQUIRE) != CSHIM_KERNEL_FAULT_WRITTEN)
        return ncclSuccess;
    cshim_header_describe(fault + 2, text);
    cshim_log(CSHIM_LOG_ERROR,
              "ranks of a communicator of %d do not make the same NCCL calls: rank %d, at its "
              "compressed call %u or before, got as piece %u: %s",
              comm->ranks, comm->rank, comm->sequence, fault[1], text);
    return ncclInternalError;
}

/* Plans a call, or makes it natively if it is not worth compressing after all. */
static ncclResult_t plan(struct cshim_nccl_call *call)
{
    struct cshim_nccl_comm *comm = call->comm;
    const struct cshim_call facts = cshim_call_facts(call);
    if (comm->reason == CSHIM_REASON_COMPRESS)
        call->plan = cshim_plan_call(comm->job->policy, &facts, cshim_call_elements(call));
    else
        call->plan.reason = comm->reason;
    if (call->plan.reason != CSHIM_REASON_COMPRESS) {
        cshim_measure_pass(comm, call->plan.reason);
        return cshim_call_natively(call);
    }
    cshim_measure_collect(comm);
    call->sequence = ++comm->sequence;
    call->workspace = comm->workspace;
    if (call->capture_id != 0)
        call->workspace = cshim_workspace_of_graph(comm, call->capture_id, call->graph);
    if (call->plan.rule->error_feedback)
        call->residual = cshim_feedback_find(call);
    return call->workspace != NULL ? look_for_fault(comm) : ncclUnhandledCudaError;
}

/* Those that are made natively go in one group. */
static ncclResult_t plan_all(struct cshim_nccl_call *calls, size_t count)
{
    ncclResult_t status = cshim_nccl.real->GroupStart();
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        status = plan(&calls[i]);
    return cshim_nccl_end_group(status);
}

ncclResult_t cshim_batches_run(struct cshim_nccl_call *calls, size_t count)
{
    struct batch batch = {.segments = malloc(2 * count * sizeof *batch.segments)};
    ncclResult_t status = batch.segments != NULL ? cshim_prepare(calls, count) : ncclSystemError;
    if (status == ncclSuccess)
        status = plan_all(calls, count);
    if (status == ncclSuccess)
        status = cshim_measure_begin(calls, count, &batch.timelines);
    while (status == ncclSuccess) {
        choose(&batch, calls, count);
        if (batch.count == 0)
            break;
        status = run(&batch);
        for (size_t i = 0; i < count; i++)
            calls[i].segments_done += calls[i].in_batch ? 1 : 0;
    }
    cshim_measure_end(batch.timelines, calls, count, status == ncclSuccess);
    free(batch.segments);
    return status;
}
