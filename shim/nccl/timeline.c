/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/timeline.h"

#include <stdlib.h>

enum cshim_phase cshim_step_phase(enum cshim_step step)
{
    if (step == CSHIM_STEP_ENCODE || step == CSHIM_STEP_NARROW)
        return CSHIM_PHASE_ENCODE;
    return step == CSHIM_STEP_SUM || step == CSHIM_STEP_DECODE ? CSHIM_PHASE_DECODE
                                                               : CSHIM_PHASE_EXCHANGE;
}

/* Returns the step that executes an operation; CSHIM_STEPS if the operation needs no step of its
 * own. */
static enum cshim_step step_of(const struct cshim_operation *operation)
{
    switch ((enum cshim_operation_kind)operation->kind) {
    case CSHIM_OPERATION_NODE_REDUCE:
        return CSHIM_STEP_REDUCE_INSIDE;
    case CSHIM_OPERATION_ENCODE:
        return CSHIM_STEP_ENCODE;
    case CSHIM_OPERATION_RECEIVE:
    case CSHIM_OPERATION_SEND:
        return operation->message == CSHIM_MESSAGE_PARTS ? CSHIM_STEP_EXCHANGE : CSHIM_STEP_COLLECT;
    case CSHIM_OPERATION_REDUCE:
        return CSHIM_STEP_SUM;
    case CSHIM_OPERATION_DECODE:
        return CSHIM_STEP_DECODE;
    case CSHIM_OPERATION_NODE_GATHER:
        return CSHIM_STEP_GATHER_INSIDE;
    default:
        return CSHIM_STEPS;
    }
}

uint16_t cshim_steps_of(const struct cshim_operations *operations)
{
    unsigned steps = 0;
    for (unsigned i = 0; i < operations->count; i++)
        steps |= 1u << step_of(&operations->list[i]);
    return (uint16_t)(steps & ((1u << CSHIM_STEPS) - 1));
}

struct cshim_timeline *cshim_timeline_make(size_t marks, size_t shares, size_t calls)
{
    struct cshim_timeline *timeline =
        calloc(1, sizeof *timeline + calls * sizeof *timeline->calls +
                      marks * sizeof *timeline->marks + shares * sizeof *timeline->shares);
    if (timeline == NULL)
        return NULL;
    timeline->calls = (struct cshim_timed_call *)(timeline + 1);
    timeline->marks = (struct cshim_mark *)(timeline->calls + calls);
    timeline->shares = (struct cshim_share *)(timeline->marks + marks);
    return timeline;
}

bool cshim_timeline_share(struct cshim_timeline *timeline, enum cshim_step step)
{
    const size_t before = timeline->share_count;
    for (size_t i = 0; i < timeline->call_count; i++) {
        const struct cshim_timed_call *call = &timeline->calls[i];
        if (call->batch_bytes > 0 && (call->steps >> step & 1) != 0)
            timeline->shares[timeline->share_count++] =
                (struct cshim_share){.call = (uint32_t)i, .step = step, .bytes = call->batch_bytes};
    }
    return timeline->share_count > before;
}

void cshim_timeline_mark(struct cshim_timeline *timeline, struct CUevent_st *event)
{
    timeline->marks[timeline->mark_count++] =
        (struct cshim_mark){.event = event, .shares = timeline->share_count};
}

static void add_share(struct cshim_timeline *timeline, const struct cshim_share *share)
{
    struct cshim_timed_call *call = &timeline->calls[share->call];
    struct cshim_row *figures = &call->figures;
    if (figures->seconds <= 0)
        call->begin = share->begin;
    call->end = share->begin + share->seconds;
    figures->seconds += share->seconds;
    figures->seconds_of[cshim_step_phase(share->step)] += share->seconds;
}

void cshim_timeline_add_up(struct cshim_timeline *timeline)
{
    for (size_t i = 1; i < timeline->mark_count; i++) {
        const struct cshim_mark *mark = &timeline->marks[i];
        const double seconds = mark->time > mark[-1].time ? mark->time - mark[-1].time : 0;
        double begin = mark[-1].time;
        uint64_t bytes = 0;
        for (size_t j = mark[-1].shares; j < mark->shares; j++)
            bytes += timeline->shares[j].bytes;
        for (size_t j = mark[-1].shares; j < mark->shares; j++) {
            struct cshim_share *share = &timeline->shares[j];
            share->begin = begin;
            share->seconds = seconds * (double)share->bytes / (double)bytes;
            begin += share->seconds;
            add_share(timeline, share);
        }
    }
}
