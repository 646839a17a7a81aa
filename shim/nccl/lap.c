/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/lap.h"

#include <stdlib.h>

struct cshim_lap *cshim_lap_make(size_t marks, size_t turns, size_t parts)
{
    struct cshim_lap *lap = calloc(1, sizeof *lap + parts * sizeof *lap->parts +
                                          marks * sizeof *lap->marks + turns * sizeof *lap->turns);
    if (lap == NULL)
        return NULL;
    lap->parts = (struct cshim_lap_part *)(lap + 1);
    lap->marks = (struct cshim_lap_mark *)(lap->parts + parts);
    lap->turns = (struct cshim_lap_turn *)(lap->marks + marks);
    return lap;
}

/* The interval that ends at a mark, and the turns among which it may be shared. */
struct interval {
    const struct cshim_lap *lap;
    double begin;
    double seconds;
    enum cshim_step step;
    size_t first;
    size_t end;
    bool shared_by_all; /* none of them had the step */
};

/* Whether a turn has a share; sets its phase. */
static bool has_share(const struct interval *interval, const struct cshim_lap_turn *turn,
                      struct cshim_lap_slice *slice)
{
    slice->part = &interval->lap->parts[turn->part];
    slice->has_phase = interval->step < CSHIM_STEPS &&
                       cshim_schedule_has(slice->part->plan.schedule, interval->step);
    if (slice->has_phase)
        slice->phase = cshim_step_phase(interval->step);
    return slice->has_phase || interval->shared_by_all;
}

static uint64_t shared_bytes(const struct interval *interval)
{
    struct cshim_lap_slice slice;
    uint64_t bytes = 0;
    for (size_t i = interval->first; i < interval->end; i++) {
        if (has_share(interval, &interval->lap->turns[i], &slice))
            bytes += interval->lap->turns[i].bytes;
    }
    return bytes;
}

static void visit_interval(struct interval *interval, cshim_lap_visitor *visitor, void *context)
{
    struct cshim_lap_slice slice = {.begin = interval->begin};
    uint64_t bytes = shared_bytes(interval);
    if (bytes == 0) {
        interval->shared_by_all = true;
        bytes = shared_bytes(interval);
    }
    for (size_t i = interval->first; i < interval->end && bytes > 0; i++) {
        const struct cshim_lap_turn *turn = &interval->lap->turns[i];
        if (!has_share(interval, turn, &slice))
            continue;
        slice.seconds = interval->seconds * (double)turn->bytes / (double)bytes;
        visitor(context, &slice);
        slice.begin += slice.seconds;
    }
}

void cshim_lap_visit(const struct cshim_lap *lap, cshim_lap_visitor *visitor, void *context)
{
    size_t first = 0;
    for (size_t i = 1; i < lap->mark_count; i++) {
        const struct cshim_lap_mark *mark = &lap->marks[i];
        struct interval interval = {
            .lap = lap,
            .begin = mark[-1].time,
            .seconds = mark->time > mark[-1].time ? mark->time - mark[-1].time : 0,
            .step = mark->step,
        };
        while (first < lap->turn_count && lap->turns[first].round < mark->round)
            first++;
        interval.first = interval.end = first;
        while (interval.end < lap->turn_count &&
               (lap->turns[interval.end].round == mark->round || i + 1 == lap->mark_count))
            interval.end++;
        visit_interval(&interval, visitor, context);
    }
}

static void add_slice(void *context, const struct cshim_lap_slice *slice)
{
    const struct cshim_lap *lap = context;
    struct cshim_lap_part *part = &lap->parts[slice->part - lap->parts];
    struct cshim_row *figures = &part->figures;
    if (figures->seconds == 0)
        part->begin = slice->begin;
    part->end = slice->begin + slice->seconds;
    figures->seconds += slice->seconds;
    if (slice->has_phase)
        *(slice->phase == CSHIM_PHASE_ENCODE     ? &figures->seconds_encode
          : slice->phase == CSHIM_PHASE_EXCHANGE ? &figures->seconds_exchange
                                                 : &figures->seconds_decode) += slice->seconds;
}

void cshim_lap_add_up(struct cshim_lap *lap)
{
    cshim_lap_visit(lap, add_slice, lap);
}
