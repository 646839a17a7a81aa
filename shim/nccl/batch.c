/* SPDX-License-Identifier: Apache-2.0 */
/* Runs compressed calls in batches of segments that fit the workspaces. The messages of all
 * segments of a batch go in one group of NCCL for each step. That saves launches, and a thread that
 * drives several devices would wait for itself otherwise.
 *
 * Up to four batches are under way, each in a part of the workspace. In each turn one is begun, and
 * those before it take their next steps: while NCCL moves messages of some on the calls' stream,
 * kernels work on others' on the communicator's own, or the graph's. A step waits for the one
 * before it in its batch, by an event, and for what is before it on its stream.
 * docs/architecture.md draws that. */
#include <stdlib.h>

#include "shim/core/header.h"
#include "shim/nccl/choose.h"
#include "shim/nccl/measure.h"

struct batch {
    struct cshim_segment *segments; /* room for two of each call */
    size_t count;
    enum cshim_step latest; /* step */
};

/* Calls of a group that run. */
struct run {
    struct cshim_nccl_call *calls;
    size_t count;
    struct batch batches[CSHIM_SEGMENTS_IN_FLIGHT];
    struct cshim_timeline *timelines; /* of all calls */
};

static bool is_compressed(const struct cshim_nccl_call *call)
{
    return call->plan.reason == CSHIM_REASON_COMPRESS;
}

/* Choosing segments ---------------------------------------------------------------------------- */
/* Chooses the segments of a batch: of each communicator the next one of its first unfinished call,
 * and those of later calls as long as there is room. All ranks choose alike. */
static void choose(struct run *run, size_t slot)
{
    struct batch *batch = &run->batches[slot];
    batch->count = 0;
    for (size_t i = 0; i < run->count; i++) {
        struct cshim_nccl_call *call = &run->calls[i];
        uint64_t used = 0;      /* of the batch's memory, by earlier calls on the communicator */
        bool is_behind = false; /* one of these has more segments to come: those go first */
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
        batch->count += cshim_segment_make(call, memory + used, batch->segments + batch->count);
        call->segments_done++;
    }
}

/* The streams ---------------------------------------------------------------------------------- */
static bool overlaps(const struct cshim_nccl_comm *comm)
{
    return comm->kernels != comm->runs_on;
}

/* Has a stream wait for what another has got so far. */
static CUresult follow(CUstream behind, CUstream ahead, CUevent event)
{
    const CUresult result = cshim_cuda.EventRecord(event, ahead);
    return result != CUDA_SUCCESS
               ? result
               : cshim_cuda.StreamWaitEvent(behind, event, CU_EVENT_WAIT_DEFAULT);
}

/* The streams of a call wait for the last group in its workspace, and for what the program's stream
 * has got. */
static CUresult enter(const struct cshim_nccl_call *call)
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

/* The program's stream, and the next group in the workspace, wait for a call. */
static CUresult leave(const struct cshim_nccl_call *call)
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

/* Where several calls follow each other on one communicator and stream, once for all. */
static ncclResult_t for_all(const struct run *run, CUresult (*act)(const struct cshim_nccl_call *))
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

/* Records the events behind a step of a batch; or, if it `waits`, has the stream of this step wait
 * for those of the step before. */
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

/* Enqueues a step of all segments. What NCCL exchanges goes in one group. */
static ncclResult_t enqueue(const struct batch *batch, enum cshim_step step)
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

/* Another thread may abort a communicator at any time. Then its handle may not be used any more:
 * each step looks before it begins. */
static ncclResult_t take_step(struct run *run, size_t slot, enum cshim_step step)
{
    struct batch *batch = &run->batches[slot];
    bool has = false, aborted = false;
    for (size_t i = 0; i < batch->count; i++) {
        has = has || cshim_schedule_has(batch->segments[i].schedule, step);
        aborted = aborted || batch->segments[i].call->comm->aborted;
    }
    if (!has)
        return ncclSuccess;
    if (aborted)
        return ncclSystemError;
    ncclResult_t status = ncclSuccess;
    if (is_kernel(batch->latest) != is_kernel(step)) {
        status = order(run, slot, step, true);
        cshim_measure_step(run->timelines, batch->segments, batch->count, batch->latest, true);
    }
    batch->latest = step;
    if (status == ncclSuccess)
        status = enqueue(batch, step);
    cshim_measure_step(run->timelines, batch->segments, batch->count, step, false);
    return status == ncclSuccess ? order(run, slot, step, false) : status;
}

/* How many turns after its first one a batch takes a step. */
static const uint8_t turns_before[CSHIM_STEPS] = {
    [CSHIM_STEP_ENCODE] = 1,        [CSHIM_STEP_EXCHANGE] = 1, [CSHIM_STEP_NARROW] = 2,
    [CSHIM_STEP_SUM] = 2,           [CSHIM_STEP_COLLECT] = 2,  [CSHIM_STEP_DECODE] = 3,
    [CSHIM_STEP_GATHER_INSIDE] = 3,
};

/* Begins a batch, and takes the next steps of those before it: kernels first, which wait for what
 * NCCL did in the turn before. */
static ncclResult_t turn(struct run *run, size_t number)
{
    ncclResult_t status = ncclSuccess;
    for (int pass = 0; pass < 2; pass++)
        for (enum cshim_step step = 0; step < CSHIM_STEPS && status == ncclSuccess; step++) {
            const size_t batch = number + CSHIM_SEGMENTS_IN_FLIGHT - turns_before[step];
            if (is_kernel(step) == (pass == 0))
                status = take_step(run, batch % CSHIM_SEGMENTS_IN_FLIGHT, step);
        }
    return status;
}

/* Records the events before or after the sampled calls that are compressed, or those that are not.
 */
static void mark_sampled(const struct cshim_nccl_call *calls, size_t count, bool compressed,
                         bool is_end)
{
    for (size_t i = 0; i < count; i++)
        if (is_compressed(&calls[i]) == compressed)
            cshim_choose_mark(&calls[i], is_end);
}

static ncclResult_t run_all(struct run *run)
{
    ncclResult_t status = for_all(run, enter);
    if (status == ncclSuccess)
        status = cshim_measure_begin(run->calls, run->count, &run->timelines);
    mark_sampled(run->calls, run->count, true, false);
    for (size_t number = 0; status == ncclSuccess; number++) {
        bool any = false;
        choose(run, number % CSHIM_SEGMENTS_IN_FLIGHT);
        for (size_t i = 0; i < CSHIM_SEGMENTS_IN_FLIGHT; i++)
            any = any || run->batches[i].count > 0;
        if (!any)
            break;
        status = turn(run, number);
    }
    const ncclResult_t ended = for_all(run, leave);
    mark_sampled(run->calls, run->count, true, true);
    return status != ncclSuccess ? status : ended;
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

/* Makes a call natively if it is not worth compressing after all, or prepares it. */
static ncclResult_t begin_call(struct cshim_nccl_call *call)
{
    struct cshim_nccl_comm *comm = call->comm;
    /* NCCL connects ranks when they first send to each other. In a capture not every transport can
     * do so. */
    if (is_compressed(call) && call->capture_id != 0 &&
        call->plan.schedule->parts_to != CSHIM_TO_LIBRARY && !call->plan.schedule->root_gives &&
        !comm->connected[call->plan.schedule->staged])
        call->plan.reason = CSHIM_REASON_CAPTURED;
    if (!is_compressed(call)) {
        call->plan.segments = 0; /* to run here */
        cshim_measure_pass(comm, call->plan.reason);
        return cshim_call_natively(call);
    }
    cshim_measure_collect(comm);
    call->sequence = ++comm->sequence;
    if (call->plan.rule->error_feedback && cshim_call_gives(call))
        call->residual = cshim_feedback_find(call);
    return look_for_fault(comm);
}

/* Those that are made natively go in one group. */
static ncclResult_t begin_all(struct cshim_nccl_call *calls, size_t count)
{
    mark_sampled(calls, count, false, false);
    ncclResult_t status = cshim_nccl.real->GroupStart();
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        status = begin_call(&calls[i]);
    status = cshim_nccl_end_group(status);
    mark_sampled(calls, count, false, true);
    return status;
}

/* Finds where the calls of a communicator run, of which `first` is the first in the group. NCCL has
 * their streams wait for each other: all of them run on its. The workspace has room for as many
 * batches as will be under way. */
static ncclResult_t arrange(struct cshim_nccl_call *first, const struct cshim_nccl_call *end)
{
    struct cshim_nccl_comm *comm = first->comm;
    struct cshim_workspace *workspace = comm->workspace;
    uint64_t bytes = 0, segments = 0, batches = 1;
    bool fit = true; /* in one batch */
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
    struct cshim_segment *segments =
        malloc(2 * count * CSHIM_SEGMENTS_IN_FLIGHT * sizeof *segments);
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
            status = arrange(&calls[i], calls + count);
    if (status == ncclSuccess)
        status = run_all(&run);
    cshim_measure_end(run.timelines, calls, count, status == ncclSuccess);
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
        cshim_choose_count(&calls[i]);
    free(segments);
    return status;
}
