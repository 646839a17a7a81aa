/* SPDX-License-Identifier: Apache-2.0 */
/* Runs compressed calls in batches of segments that fit the workspaces. For each step, the messages
 * of all segments of a batch go in one NCCL group. That saves launches; and without a group a
 * thread that drives several devices would wait for itself.
 *
 * Up to four batches are in flight, each in its own part of the workspace. Each pipeline iteration
 * begins a batch, if segments are left, and takes the next steps of those before it. If a
 * communicator's calls take several batches, NCCL moves the messages of some batches on the calls'
 * stream, while kernels work on the messages of others on the communicator's stream, or the
 * graph's; a step then waits for the previous step of its batch, by an event, and for the earlier
 * work on its stream. docs/architecture.md draws the pipeline. */
#include "shim/nccl/batch.h"

#include <stdlib.h>

#include "shim/nccl/background.h"
#include "shim/nccl/choose.h"
#include "shim/nccl/feedback.h"
#include "shim/nccl/measure.h"
#include "shim/nccl/prepare.h"
#include "shim/nccl/steps.h"
#include "shim/nccl/workspace.h"

struct batch {
    struct cshim_nccl_segment *segments; /* array with room for two segments of each call */
    size_t count;
    enum cshim_step latest; /* the step that was enqueued last */
};

/* The calls of a group and their batches. */
struct run {
    struct cshim_nccl_call *calls;
    size_t count;
    struct batch batches[CSHIM_SEGMENTS_IN_FLIGHT];
    struct cshim_timeline *timelines; /* one for each stream */
};

static bool is_compressed(const struct cshim_nccl_call *call)
{
    return call->plan.reason == CSHIM_REASON_COMPRESS;
}

/* Filling batches ------------------------------------------------------------------------------ */
/* Fills a batch: for each communicator, adds the next segment of its first unfinished call. Adds
 * the next segment of each later call, too, if it fits and no call before it has segments left. All
 * ranks fill the batch alike. */
static ncclResult_t fill_batch(struct run *run, size_t slot)
{
    struct batch *batch = &run->batches[slot];
    batch->count = 0;
    for (size_t i = 0; i < run->count; i++) {
        struct cshim_nccl_call *call = &run->calls[i];
        uint64_t used = 0;      /* bytes of the batch that earlier calls of the communicator use */
        bool is_behind = false; /* an earlier call has more segments, which go first */
        for (const struct cshim_nccl_call *before = run->calls; before < call; before++) {
            if (before->comm != call->comm)
                continue;
            used += before->in_batch ? before->plan.slot_bytes : 0;
            is_behind = is_behind || before->segments_done < before->plan.segments;
        }
        call->in_batch = call->segments_done < call->plan.segments && !is_behind &&
                         used + call->plan.slot_bytes <= CSHIM_BATCH_BYTES;
        if (!call->in_batch)
            continue;
        uint8_t *memory = (uint8_t *)(uintptr_t)call->workspace->memory + slot * call->batch_bytes;
        size_t made;
        const ncclResult_t status =
            cshim_segment_make(call, memory + used, batch->segments + batch->count, &made);
        if (status != ncclSuccess)
            return status;
        batch->count += made;
        call->segments_done++;
    }
    return ncclSuccess;
}

/* The streams ---------------------------------------------------------------------------------- */
static bool overlaps(const struct cshim_nccl_comm *comm)
{
    return comm->kernels != comm->runs_on;
}

/* Makes a stream wait for the work enqueued so far on another. */
static CUresult follow(CUstream behind, CUstream ahead, CUevent event)
{
    const CUresult result = cshim_cuda.EventRecord(event, ahead);
    return result != CUDA_SUCCESS
               ? result
               : cshim_cuda.StreamWaitEvent(behind, event, CU_EVENT_WAIT_DEFAULT);
}

/* Makes a call's streams wait for the last group in its workspace, and for the work on the
 * program's stream. */
static CUresult fork_streams(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    CUresult result = cshim_workspace_await(call->workspace, comm->runs_on);
    if (result == CUDA_SUCCESS && call->stream != comm->runs_on)
        result = follow(comm->runs_on, call->stream, call->workspace->idle);
    for (size_t i = 0; i < CSHIM_SEGMENTS_IN_FLIGHT && overlaps(comm); i++)
        if (result == CUDA_SUCCESS)
            result = cshim_cuda.EventRecord(comm->workspace->steps[i], comm->runs_on);
    return result;
}

/* Makes the program's stream, and the next group in the workspace, wait for a call. */
static CUresult join_streams(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    CUresult result = CUDA_SUCCESS;
    if (overlaps(comm))
        result = follow(comm->runs_on, comm->kernels, *comm->workspace->steps);
    if (result == CUDA_SUCCESS)
        result = cshim_cuda.EventRecord(call->workspace->idle, comm->runs_on);
    call->workspace->used = result == CUDA_SUCCESS;
    if (call->stream != comm->runs_on && result == CUDA_SUCCESS)
        result = cshim_workspace_await(call->workspace, call->stream);
    return result;
}

/* Runs `act` on each compressed call. Skips a call on comm->runs_on if the previous `act` was on a
 * call of the same communicator, because repeating `act` on one stream has no effect. Continues
 * after an error, and returns the last error. */
static ncclResult_t for_all_streams(const struct run *run,
                                    CUresult (*act)(const struct cshim_nccl_call *))
{
    const struct cshim_nccl_call *latest = NULL;
    CUresult failed = CUDA_SUCCESS;
    for (size_t i = 0; i < run->count; i++) {
        const struct cshim_nccl_call *call = &run->calls[i];
        if (!is_compressed(call) ||
            (latest != NULL && latest->comm == call->comm && call->stream == call->comm->runs_on))
            continue;
        latest = call;
        CSHIM_SCOPE scope = cshim_device_enter(call->comm);
        const CUresult result = scope.result == CUDA_SUCCESS ? act(call) : scope.result;
        failed = result != CUDA_SUCCESS ? result : failed;
    }
    return cshim_device_check(failed, "ordering a group of calls");
}

/* Running -------------------------------------------------------------------------------------- */
static bool is_kernel(enum cshim_step step)
{
    return cshim_step_phase(step) != CSHIM_PHASE_EXCHANGE;
}

/* Orders the steps of a batch, for communicators whose kernels run on a stream of their own. If
 * `waits` is true, makes the stream of `step` wait for the event of the previous step; otherwise
 * records the event after `step`. */
static ncclResult_t order(const struct run *run, size_t slot, enum cshim_step step, bool waits)
{
    const struct batch *batch = &run->batches[slot];
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < batch->count && result == CUDA_SUCCESS; i++) {
        const struct cshim_nccl_comm *comm = batch->segments[i].call->comm;
        if (!overlaps(comm) || (i > 0 && comm == batch->segments[i - 1].call->comm))
            continue;
        const CUstream stream = is_kernel(step) ? comm->kernels : comm->runs_on;
        const CUevent event = comm->workspace->steps[slot];
        CSHIM_SCOPE scope = cshim_device_enter(comm);
        result = waits ? cshim_cuda.StreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT)
                       : cshim_cuda.EventRecord(event, stream);
    }
    return cshim_device_check(result, "ordering the steps of a batch");
}

/* Enqueues a step of all segments. NCCL's operations go in one NCCL group. */
static ncclResult_t enqueue_step(const struct batch *batch, enum cshim_step step)
{
    const bool is_group = !is_kernel(step);
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

/* Enqueues a step of a batch after the previous one, if a segment has the step. Another thread may
 * stop a communicator at any time; after an abort its handle may not be used. So each step checks
 * that first. */
static ncclResult_t take_step(struct run *run, size_t slot, enum cshim_step step)
{
    struct batch *batch = &run->batches[slot];
    bool has = false;
    ncclResult_t status = ncclSuccess;
    for (size_t i = 0; i < batch->count; i++) {
        has = has || (batch->segments[i].steps >> step & 1) != 0;
        if (status == ncclSuccess)
            status = (ncclResult_t)batch->segments[i].call->comm->stopped;
    }
    if (!has)
        return ncclSuccess;
    if (status != ncclSuccess)
        return status;
    if (is_kernel(batch->latest) != is_kernel(step)) {
        status = order(run, slot, step, true);
        cshim_measure_step(run->timelines, batch->segments, batch->count, batch->latest, true);
    }
    batch->latest = step;
    if (status == ncclSuccess)
        status = enqueue_step(batch, step);
    cshim_measure_step(run->timelines, batch->segments, batch->count, step, false);
    return status == ncclSuccess ? order(run, slot, step, false) : status;
}

/* Pipeline iteration in which a batch takes each step; 0: the iteration in which the batch begins
 * (REDUCE_INSIDE). */
static const uint8_t iteration_of[CSHIM_STEPS] = {
    [CSHIM_STEP_ENCODE] = 1,        [CSHIM_STEP_EXCHANGE] = 1, [CSHIM_STEP_NARROW] = 2,
    [CSHIM_STEP_SUM] = 2,           [CSHIM_STEP_COLLECT] = 2,  [CSHIM_STEP_DECODE] = 3,
    [CSHIM_STEP_GATHER_INSIDE] = 3,
};

/* Runs an iteration of the pipeline: the steps of the batch that begins, and the next steps of the
 * batches before it. Enqueues kernels first; they wait for NCCL's operations of the previous
 * iteration. */
static ncclResult_t run_iteration(struct run *run, size_t number)
{
    ncclResult_t status = ncclSuccess;
    for (int pass = 0; pass < 2; pass++)
        for (enum cshim_step step = 0; step < CSHIM_STEPS && status == ncclSuccess; step++) {
            const size_t batch = number + CSHIM_SEGMENTS_IN_FLIGHT - iteration_of[step];
            if (is_kernel(step) == (pass == 0))
                status = take_step(run, batch % CSHIM_SEGMENTS_IN_FLIGHT, step);
        }
    return status;
}

/* Records the events before or after (`is_end`) the sampled calls that are compressed or, if
 * `compressed` is false, passed through. */
static void mark_sampled(const struct cshim_nccl_call *calls, size_t count, bool compressed,
                         bool is_end)
{
    for (size_t i = 0; i < count; i++)
        if (is_compressed(&calls[i]) == compressed)
            cshim_choose_mark(&calls[i], is_end);
}

static ncclResult_t run_batches(struct run *run)
{
    ncclResult_t status = for_all_streams(run, fork_streams);
    if (status == ncclSuccess)
        status = cshim_measure_begin(run->calls, run->count, &run->timelines);
    mark_sampled(run->calls, run->count, true, false);
    for (size_t number = 0; status == ncclSuccess; number++) {
        bool any = false;
        status = fill_batch(run, number % CSHIM_SEGMENTS_IN_FLIGHT);
        for (size_t i = 0; i < CSHIM_SEGMENTS_IN_FLIGHT; i++)
            any = any || run->batches[i].count > 0;
        if (!any)
            break;
        if (status == ncclSuccess)
            status = run_iteration(run, number);
    }
    const ncclResult_t ended = for_all_streams(run, join_streams);
    mark_sampled(run->calls, run->count, true, true);
    return status != ncclSuccess ? status : ended;
}

/* Planning the calls --------------------------------------------------------------------------- */
/* Returns an error if a kernel has received an unexpected message: the ranks have made different
 * calls, and the results since then are wrong. */
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

/* Returns true if a call is the only one of its group on its communicator. */
static bool is_alone(const struct cshim_nccl_call *calls, size_t count,
                     const struct cshim_nccl_call *call)
{
    for (size_t i = 0; i < count; i++)
        if (calls[i].comm == call->comm && &calls[i] != call)
            return false;
    return true;
}

/* Plans all calls, before any is made. */
static ncclResult_t choose_all(struct cshim_nccl_call *calls, size_t count)
{
    ncclResult_t status = ncclSuccess;
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        if (calls[i].comm->reason == CSHIM_REASON_COMPRESS)
            status = cshim_choose(&calls[i], is_alone(calls, count, &calls[i]));
        else
            calls[i].plan.reason = calls[i].comm->reason;
    return status;
}

/* Returns true if a compressed call can be captured into a graph. NCCL connects ranks when they
 * first send to each other, which not every transport can do during a capture. Each launch of the
 * graph would use the same random numbers, so the errors of stochastic rounding would add up. */
static bool can_capture(const struct cshim_nccl_call *call)
{
    const struct cshim_plan *plan = &call->plan;
    const bool sends = plan->schedule->compile != NULL && call->collective != CSHIM_BROADCAST;
    const bool is_random =
        plan->rule->stochastic && plan->codec != CSHIM_CODEC_RAW && plan->codec != CSHIM_CODEC_FP32;
    return !is_random && (!sends || call->comm->connected[plan->schedule->staged]);
}

/* Prepares a call; passes it through if its plan does not compress. */
static ncclResult_t begin_batched_call(struct cshim_nccl_call *call)
{
    struct cshim_nccl_comm *comm = call->comm;
    if (is_compressed(call) && call->capture_id != 0 && !can_capture(call))
        call->plan.reason = CSHIM_REASON_CAPTURED;
    if (!is_compressed(call)) {
        call->plan.segments = 0; /* so no batch gets a segment of it */
        cshim_measure_pass(comm, call->plan.reason);
        return cshim_call_natively(call);
    }
    cshim_measure_collect(comm);
    call->sequence = ++comm->sequence;
    call->role =
        (struct cshim_role){.plan = &call->plan, .layout = &comm->layout, .rank = comm->rank};
    cshim_role_find(&call->role);
    if (call->plan.rule->error_feedback && cshim_call_gives(call))
        call->residual = cshim_feedback_find(call);
    return look_for_fault(comm);
}

/* Prepares all calls. Calls that are passed through go in one NCCL group. */
static ncclResult_t begin_all(struct cshim_nccl_call *calls, size_t count)
{
    mark_sampled(calls, count, false, false);
    ncclResult_t status = cshim_nccl.real->GroupStart();
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        status = begin_batched_call(&calls[i]);
    status = cshim_nccl_end_group(status);
    mark_sampled(calls, count, false, true);
    return status;
}

/* Sets the streams and the workspace of a communicator's calls; `first` is its first compressed
 * call in the group. All calls use the stream of `first`, because NCCL would make their streams
 * wait for each other anyway. If the calls take several batches, kernels use another stream. The
 * workspace has room for the batches that will be in flight. */
static ncclResult_t assign_streams(struct cshim_nccl_call *first, const struct cshim_nccl_call *end)
{
    struct cshim_nccl_comm *comm = first->comm;
    struct cshim_workspace *workspace = comm->workspace;
    uint64_t bytes = 0, segments = 0, batches = 1;
    bool fit = true; /* all calls fit in one batch */
    for (const struct cshim_nccl_call *call = first; call < end; call++)
        if (is_compressed(call) && call->comm == comm) {
            bytes += call->plan.slot_bytes;
            segments += call->plan.segments;
            fit = fit && call->plan.segments == 1 && bytes <= CSHIM_BATCH_BYTES;
        }
    if (!fit)
        batches = segments < CSHIM_SEGMENTS_IN_FLIGHT ? segments : CSHIM_SEGMENTS_IN_FLIGHT;
    if (bytes > CSHIM_BATCH_BYTES)
        bytes = CSHIM_BATCH_BYTES;
    if (first->capture_id != 0)
        workspace =
            cshim_workspace_of_graph(comm, first->capture_id, first->graph, bytes * batches);
    if (workspace == NULL)
        return ncclUnhandledCudaError;
    comm->runs_on = comm->kernels = first->stream;
    if (!fit)
        comm->kernels =
            first->capture_id != 0 ? cshim_workspace_stream(comm, workspace) : comm->stream;
    if (comm->kernels == NULL && !fit)
        return ncclUnhandledCudaError;
    for (struct cshim_nccl_call *call = first; call < end; call++)
        if (call->comm == comm) {
            call->workspace = workspace;
            call->batch_bytes = bytes;
        }
    return ncclSuccess;
}

ncclResult_t cshim_batches_run(struct cshim_nccl_call *calls, size_t count)
{
    const size_t room = 2 * count * CSHIM_SEGMENTS_IN_FLIGHT;
    struct cshim_nccl_segment *segments = calloc(room, sizeof *segments);
    struct run run = {.calls = calls, .count = count};
    for (size_t i = 0; i < CSHIM_SEGMENTS_IN_FLIGHT && segments != NULL; i++)
        run.batches[i].segments = segments + 2 * count * i;
    ncclResult_t status = segments != NULL ? cshim_prepare(calls, count) : ncclSystemError;
    if (status == ncclSuccess)
        status = choose_all(calls, count);
    if (status == ncclSuccess)
        status = begin_all(calls, count);
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        if (is_compressed(&calls[i]) && calls[i].workspace == NULL)
            status = assign_streams(&calls[i], calls + count);
    if (status == ncclSuccess)
        status = run_batches(&run);
    cshim_measure_end(run.timelines, calls, count, status == ncclSuccess);
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        cshim_choose_count(&calls[i]);
    for (size_t i = 0; i < count; i++)
        cshim_residual_release(calls[i].residual);
    for (size_t i = 0; i < room && segments != NULL; i++)
        cshim_operations_free(&segments[i].operations);
    free(segments);
    return status;
}
