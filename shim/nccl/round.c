/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/round.h"

#include <stdlib.h>

/* A round under way. */
struct round {
    struct cshim_segment *segments;
    size_t count;
    size_t room;
};

static bool add(struct round *round, const struct cshim_segment *segment)
{
    if (round->count == round->room) {
        const size_t room = round->room == 0 ? 8 : 2 * round->room;
        void *grown = realloc(round->segments, room * sizeof *round->segments);
        if (grown == NULL)
            return false;
        round->segments = grown;
        round->room = room;
    }
    round->segments[round->count++] = *segment;
    return true;
}

static CUresult push(const struct cshim_nccl_comm *comm)
{
    return comm->cuda.CtxPushCurrent(comm->context);
}

static void pop(const struct cshim_nccl_comm *comm)
{
    comm->cuda.CtxPopCurrent(NULL);
}

/* Memory that earlier segments of the round have taken of their communicator's workspace. */
static uint64_t taken(const struct cshim_nccl_call *calls, size_t count,
                      const struct cshim_nccl_comm *comm)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (calls[i].comm == comm && calls[i].in_round)
            bytes += cshim_segment_memory(&calls[i]);
    }
    return bytes;
}

/* Whether a call before this one on the same communicator has segments to come: those go first. */
static bool is_behind(const struct cshim_nccl_call *calls, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        const uint64_t next = calls[i].segments_done + (calls[i].in_round ? 1 : 0);
        if (calls[i].comm == calls[index].comm && next < calls[i].plan.segments)
            return true;
    }
    return false;
}

/* Chooses the round's segments: of each communicator, the next one of its first unfinished call,
 * and those of calls behind that as long as the workspace has room. The same on all ranks. */
static ncclResult_t fill(struct round *round, struct cshim_nccl_call *calls, size_t count)
{
    round->count = 0;
    for (size_t i = 0; i < count; i++)
        calls[i].in_round = false;
    for (size_t i = 0; i < count; i++) {
        struct cshim_nccl_call *call = &calls[i];
        struct cshim_segment segments[2];
        if (call->segments_done == call->plan.segments || is_behind(calls, i))
            continue;
        const uint64_t used = taken(calls, i, call->comm);
        if (used > 0 && used + cshim_segment_memory(call) > CSHIM_WORKSPACE_BYTES)
            continue;
        uint8_t *memory = (uint8_t *)(uintptr_t)call->workspace->memory;
        const size_t made = cshim_segment_make(call, memory + used, segments);
        for (size_t part = 0; part < made; part++) {
            if (!add(round, &segments[part]))
                return ncclSystemError;
        }
        call->in_round = true;
    }
    return ncclSuccess;
}

/* Whether a segment is the round's first on its communicator and stream. */
static bool is_first(const struct round *round, size_t index)
{
    const struct cshim_nccl_call *call = round->segments[index].call;
    for (size_t i = 0; i < index; i++) {
        const struct cshim_nccl_call *before = round->segments[i].call;
        if (before->comm == call->comm && before->stream == call->stream)
            return false;
    }
    return true;
}

/* In the communicator's context: stream 0 is that of the current one. */
static CUresult acquire_one(const struct cshim_nccl_call *call)
{
    CUresult result = push(call->comm);
    if (result != CUDA_SUCCESS)
        return result;
    result = cshim_workspace_await(call);
    pop(call->comm);
    return result;
}

/* The workspaces are free when their last rounds are done, on whatever stream those were. */
static ncclResult_t acquire(const struct round *round)
{
    ncclResult_t status = ncclSuccess;
    for (size_t i = 0; i < round->count && status == ncclSuccess; i++) {
        const struct cshim_nccl_call *call = round->segments[i].call;
        if (is_first(round, i))
            status = cshim_nccl_check(call->comm, acquire_one(call), "waiting for the workspace");
    }
    return status;
}

/* Streams that shared a workspace wait for each other in turn, so that the event stands for all. */
static CUresult release_one(const struct cshim_nccl_call *call)
{
    const struct cshim_cuda *cuda = &call->comm->cuda;
    CUresult result = push(call->comm);
    if (result != CUDA_SUCCESS)
        return result;
    if (call->workspace->used)
        result = cuda->StreamWaitEvent(call->stream, call->workspace->idle, CU_EVENT_WAIT_DEFAULT);
    if (result == CUDA_SUCCESS)
        result = cuda->EventRecord(call->workspace->idle, call->stream);
    pop(call->comm);
    return result;
}

static ncclResult_t release(const struct round *round)
{
    for (size_t i = 0; i < round->count; i++) {
        const struct cshim_nccl_call *call = round->segments[i].call;
        if (is_first(round, i))
            call->workspace->used = false;
    }
    for (size_t i = 0; i < round->count; i++) {
        const struct cshim_nccl_call *call = round->segments[i].call;
        if (!is_first(round, i))
            continue;
        const ncclResult_t status =
            cshim_nccl_check(call->comm, release_one(call), "freeing the workspace");
        if (status != ncclSuccess)
            return status;
        call->workspace->used = true;
    }
    return ncclSuccess;
}

static ncclResult_t launch_all(const struct round *round, enum cshim_step step)
{
    ncclResult_t status = ncclSuccess;
    for (size_t i = 0; i < round->count && status == ncclSuccess; i++) {
        const struct cshim_nccl_comm *comm = round->segments[i].call->comm;
        status = cshim_nccl_check(comm, push(comm), "entering the communicator's context");
        if (status != ncclSuccess)
            break;
        status = cshim_step_enqueue(&round->segments[i], step);
        pop(comm);
    }
    return status;
}

static ncclResult_t send_all(const struct round *round, enum cshim_step step)
{
    ncclResult_t status = cshim_nccl.real->GroupStart();
    if (status != ncclSuccess)
        return status;
    for (size_t i = 0; i < round->count && status == ncclSuccess; i++)
        status = cshim_step_enqueue(&round->segments[i], step);
    const ncclResult_t ended = cshim_nccl.real->GroupEnd();
    return status == ncclSuccess ? ended : status;
}

static bool has_step(const struct round *round, enum cshim_step step)
{
    bool has = false;
    for (size_t i = 0; i < round->count; i++)
        has = has || cshim_schedule_has(round->segments[i].schedule, step);
    return has;
}

/* Another thread may abort a communicator at any time: then its handle is not used any more. */
static bool is_aborted(const struct round *round)
{
    bool aborted = false;
    for (size_t i = 0; i < round->count; i++)
        aborted = aborted || cshim_nccl_is_aborted(round->segments[i].call->comm);
    return aborted;
}

static ncclResult_t run(const struct round *round)
{
    ncclResult_t status = acquire(round);
    cshim_timing_round(round->segments, round->count);
    for (enum cshim_step step = 0; step < CSHIM_STEPS && status == ncclSuccess; step++) {
        if (!has_step(round, step))
            continue;
        if (is_aborted(round))
            return ncclSystemError;
        status = cshim_step_phase(step) == CSHIM_PHASE_EXCHANGE ? send_all(round, step)
                                                                : launch_all(round, step);
        cshim_timing_step(round->segments, round->count, step);
    }
    return status == ncclSuccess ? release(round) : status;
}

/* A message that was not the expected one was seen by a kernel some time ago: the ranks have made
 * different calls, and their results are wrong since. */
static ncclResult_t look_for_fault(const struct cshim_nccl_comm *comm)
{
    const volatile uint32_t *fault = comm->workspace->fault;
    char text[CSHIM_MISMATCH_MAX];
    uint32_t words[CSHIM_KERNEL_HEADER_WORDS];
    if (fault[0] != CSHIM_KERNEL_FAULT_WRITTEN)
        return ncclSuccess;
    for (size_t i = 0; i < CSHIM_KERNEL_HEADER_WORDS; i++)
        words[i] = fault[2 + i];
    cshim_header_describe(words, text);
    cshim_log(CSHIM_LOG_ERROR,
              "ranks of a communicator of %d do not make the same NCCL calls: rank %d, at its "
              "compressed call %u or before, got as piece %u: %s",
              comm->ranks, comm->rank, comm->sequence, fault[1], text);
    return ncclInternalError;
}

/* Prepares the communicators that are new to compressed calls, all at once. */
static ncclResult_t prepare(const struct cshim_nccl_call *calls, size_t count)
{
    struct cshim_nccl_comm **comms = calloc(count, sizeof(struct cshim_nccl_comm *));
    size_t fresh = 0;
    if (comms == NULL)
        return ncclSystemError;
    for (size_t i = 0; i < count; i++) {
        size_t known = 0;
        while (known < fresh && comms[known] != calls[i].comm)
            known++;
        if (!calls[i].comm->prepared && known == fresh)
            comms[fresh++] = calls[i].comm;
    }
    const ncclResult_t status = fresh > 0 ? cshim_nccl_comm_prepare(comms, fresh) : ncclSuccess;
    free(comms);
    return status;
}

/* Plans the calls; those that are not worth it after all are made natively, together. */
static ncclResult_t plan(struct cshim_nccl_call *calls, size_t count)
{
    ncclResult_t status = cshim_nccl.real->GroupStart();
    for (size_t i = 0; i < count && status == ncclSuccess; i++) {
        struct cshim_nccl_call *call = &calls[i];
        struct cshim_nccl_comm *comm = call->comm;
        const struct cshim_call facts = cshim_nccl_facts(call);
        if (comm->reason == CSHIM_REASON_COMPRESS)
            call->plan = cshim_plan_call(comm->job->policy, &facts, cshim_nccl_elements(call));
        else
            call->plan.reason = comm->reason;
        if (call->plan.reason != CSHIM_REASON_COMPRESS) {
            cshim_nccl_count_pass(comm, call->plan.reason);
            status = cshim_nccl_natively(call);
            continue;
        }
        cshim_timing_collect(comm);
        cshim_sampling_collect(comm);
        call->sequence = ++comm->sequence;
        call->workspace = call->capture_id != 0 ? cshim_capture_workspace(call) : comm->workspace;
        if (call->plan.rule->error_feedback)
            call->residual = cshim_feedback_find(call);
        status = call->workspace != NULL ? look_for_fault(comm) : ncclUnhandledCudaError;
    }
    const ncclResult_t ended = cshim_nccl.real->GroupEnd();
    return status == ncclSuccess ? ended : status;
}

static void count_call(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    const uint64_t element = cshim_dtype_bytes(call->plan.dtype);
    const struct cshim_row figures = {
        .calls = 1,
        .bytes_in = cshim_nccl_elements(call) * element,
        .bytes_wire = call->plan.bytes_wire + cshim_sampling_bytes_wire(call),
        .bytes_network = call->plan.bytes_network,
        .bytes_native = call->plan.bytes_native,
    };
    if (comm->rank != 0)
        return;
    cshim_ledger_add(&comm->job->ledger, &call->plan, &figures);
    comm->job->due = true;
}

ncclResult_t cshim_rounds_run(struct cshim_nccl_call *calls, size_t count)
{
    struct round round = {0};
    ncclResult_t status = prepare(calls, count);
    if (status == ncclSuccess)
        status = plan(calls, count);
    if (status == ncclSuccess)
        status = cshim_sampling_begin(calls, count);
    if (status == ncclSuccess)
        cshim_timing_begin(calls, count);
    while (status == ncclSuccess) {
        status = fill(&round, calls, count);
        if (status != ncclSuccess || round.count == 0)
            break;
        status = run(&round);
        for (size_t i = 0; i < count; i++)
            calls[i].segments_done += calls[i].in_round ? 1 : 0;
    }
    for (size_t i = 0; i < count && status == ncclSuccess; i++) {
        if (calls[i].plan.reason == CSHIM_REASON_COMPRESS)
            count_call(&calls[i]);
    }
    cshim_timing_end(calls, count, status == ncclSuccess);
    cshim_sampling_end(calls, count, status == ncclSuccess);
    free(round.segments);
    return status;
}
