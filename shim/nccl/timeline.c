/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/timeline.h"

#include <stdlib.h>

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
        if (call->batch_bytes > 0 && cshim_schedule_has(call->plan.schedule, step))
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
    double *const phases[CSHIM_PHASES] = {
        [CSHIM_PHASE_ENCODE] = &figures->seconds_encode,
        [CSHIM_PHASE_EXCHANGE] = &figures->seconds_exchange,
        [CSHIM_PHASE_DECODE] = &figures->seconds_decode,
    };
    if (figures->seconds <= 0)
        call->begin = share->begin;
    call->end = share->begin + share->seconds;
    figures->seconds += share->seconds;
    *phases[cshim_step_phase(share->step)] += share->seconds;
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
