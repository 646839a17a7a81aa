/* SPDX-License-Identifier: Apache-2.0 */
/* How long compressed calls and their steps take on the GPU, by events that are read once they have
 * happened: nothing waits for them. Calls of graphs are not timed. */
#include <stdlib.h>

#include "shim/nccl/round.h"

/* Events of a communicator. While all are under way, what comes is not divided or not timed. */
#define EVENTS 1024
/* A round has a mark for each step, and one for waiting. */
#define MARKS_OF_ROUND (CSHIM_STEPS + 1)
/* After so many seconds a later event is what times are counted from: CUDA tells them as floats. */
#define BASE_SECONDS 1.0
#define TIES 4

struct cshim_timing {
    pthread_mutex_t lock;    /* guards all of it: another thread may abort the communicator */
    struct cshim_lap *first; /* under way, in the order of the calls */
    struct cshim_lap *last;
    CUevent base; /* what happened at base_at of the host's clock, or NULL; for traces */
    double base_at;
    size_t made;
    size_t free_count;
    CUevent free[EVENTS];
};

static bool push(const struct cshim_nccl_comm *comm)
{
    return comm->cuda.CtxPushCurrent(comm->context) == CUDA_SUCCESS;
}

static void pop(const struct cshim_nccl_comm *comm)
{
    comm->cuda.CtxPopCurrent(NULL);
}

/* The communicator's context is current. */
static CUevent take_event(struct cshim_nccl_comm *comm)
{
    struct cshim_timing *timing = comm->timing;
    CUevent event = NULL;
    pthread_mutex_lock(&timing->lock);
    if (timing->free_count > 0)
        event = timing->free[--timing->free_count];
    else if (timing->made < EVENTS &&
             comm->cuda.EventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
        timing->made++;
    pthread_mutex_unlock(&timing->lock);
    return event;
}

/* The lock is held. */
static void free_lap(struct cshim_timing *timing, struct cshim_lap *lap)
{
    for (size_t i = 0; i < lap->mark_count; i++)
        timing->free[timing->free_count++] = lap->marks[i].event;
    if (lap->reserve != NULL)
        timing->free[timing->free_count++] = lap->reserve;
    free(lap);
}

/* Laps
 * ------------------------------------------------------------------------------------------*/
/* Whether anybody wants to know. Events of a capture would be part of the graph. */
static bool is_timed(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    return call->plan.reason == CSHIM_REASON_COMPRESS && call->capture_id == 0 &&
           comm->timing != NULL &&
           (comm->job->trace != NULL || (comm->rank == 0 && comm->job->is_timed));
}

static bool is_beside(const struct cshim_nccl_call *call, const struct cshim_nccl_call *other)
{
    return call->plan.reason == CSHIM_REASON_COMPRESS && call->stream == other->stream &&
           call->comm->context == other->comm->context;
}

/* A lap of the calls on one stream, of which this is the first. It has events for its beginning and
 * its end from the first. */
static struct cshim_lap *make_lap(const struct cshim_nccl_call *calls, size_t count,
                                  const struct cshim_nccl_call *first)
{
    struct cshim_nccl_comm *comm = first->comm;
    size_t turns = 0, parts = 0;
    for (size_t i = 0; i < count; i++) {
        turns += is_beside(&calls[i], first) ? calls[i].plan.segments : 0;
        parts += is_beside(&calls[i], first) ? 1 : 0;
    }
    const size_t marks = turns < EVENTS / MARKS_OF_ROUND ? turns * MARKS_OF_ROUND + 1 : EVENTS;
    struct cshim_lap *lap = cshim_lap_make(marks, turns, parts);
    if (lap == NULL)
        return NULL;
    lap->comm = comm;
    lap->stream = first->stream;
    if (push(comm)) {
        lap->marks[0].event = take_event(comm);
        lap->mark_count = lap->marks[0].event != NULL;
        lap->reserve = lap->mark_count > 0 ? take_event(comm) : NULL;
        pop(comm);
    }
    if (lap->reserve != NULL)
        return lap;
    pthread_mutex_lock(&comm->timing->lock);
    free_lap(comm->timing, lap);
    pthread_mutex_unlock(&comm->timing->lock);
    return NULL;
}

static void add_part(struct cshim_lap *lap, struct cshim_nccl_call *call)
{
    call->lap = lap;
    call->part = (uint32_t)lap->part_count;
    lap->parts[lap->part_count++] = (struct cshim_lap_part){
        .plan = call->plan,
        .sequence = call->sequence,
        .bytes = cshim_nccl_elements(call) * cshim_dtype_bytes(call->plan.dtype),
        .job = call->comm->job,
        .is_counted = call->comm->rank == 0 && call->comm->job->is_timed,
    };
}

void cshim_timing_begin(struct cshim_nccl_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (calls[i].lap != NULL || !is_timed(&calls[i]))
            continue;
        struct cshim_lap *lap = make_lap(calls, count, &calls[i]);
        for (size_t j = 0; j < count && lap != NULL; j++) {
            if (is_beside(&calls[j], &calls[i]))
                add_part(lap, &calls[j]);
        }
    }
}

/* Records an event as the lap's next mark. */
static void record(struct cshim_lap *lap, CUevent event, uint32_t round, enum cshim_step step)
{
    const struct cshim_nccl_comm *comm = lap->comm;
    lap->marks[lap->mark_count++] =
        (struct cshim_lap_mark){.event = event, .round = round, .step = step};
    if (!push(comm)) {
        lap->is_broken = true;
        return;
    }
    if (comm->cuda.EventRecord(event, lap->stream) != CUDA_SUCCESS)
        lap->is_broken = true;
    pop(comm);
}

static void mark(struct cshim_lap *lap, enum cshim_step step)
{
    if (lap->is_short)
        return;
    CUevent event = NULL;
    if (push(lap->comm)) {
        event = take_event(lap->comm);
        pop(lap->comm);
    }
    lap->is_short = event == NULL;
    if (event != NULL)
        record(lap, event, lap->rounds - 1, step);
}

/* Whether a segment is the round's first of its lap. */
static bool is_first(const struct cshim_segment *segments, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (segments[i].call->lap == segments[index].call->lap)
            return false;
    }
    return segments[index].call->lap != NULL;
}

static void begin_round(struct cshim_lap *lap)
{
    lap->rounds++;
    if (lap->rounds > 1) {
        mark(lap, CSHIM_STEPS);
        return;
    }
    lap->enqueued = cshim_seconds();
    lap->mark_count = 0;
    record(lap, lap->marks[0].event, 0, CSHIM_STEPS);
}

void cshim_timing_round(const struct cshim_segment *segments, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct cshim_nccl_call *call = segments[i].call;
        struct cshim_lap *lap = call->lap;
        if (lap == NULL)
            continue;
        if (is_first(segments, i))
            begin_round(lap);
        const uint64_t bytes = cshim_segment_bytes(&segments[i]);
        if (i > 0 && segments[i - 1].call == call) /* what hierarchical leaves over */
            lap->turns[lap->turn_count - 1].bytes += bytes;
        else
            lap->turns[lap->turn_count++] = (struct cshim_lap_turn){
                .round = lap->rounds - 1, .part = call->part, .bytes = bytes};
    }
}

void cshim_timing_step(const struct cshim_segment *segments, size_t count, enum cshim_step step)
{
    for (size_t i = 0; i < count; i++) {
        bool wanted = false;
        if (!is_first(segments, i))
            continue;
        for (size_t j = i; j < count && !wanted; j++)
            wanted = segments[j].call->lap == segments[i].call->lap &&
                     cshim_schedule_has(segments[j].call->plan.schedule, step);
        if (wanted)
            mark(segments[i].call->lap, step);
    }
}

/* A lap that is kept is complete. */
static void end_lap(struct cshim_lap *lap, bool is_kept)
{
    struct cshim_timing *timing = lap->comm->timing;
    if (is_kept && lap->is_short) {
        record(lap, lap->reserve, lap->marks[lap->mark_count - 1].round, CSHIM_STEPS);
        lap->reserve = NULL;
    }
    pthread_mutex_lock(&timing->lock);
    if (is_kept && !lap->is_broken) {
        *(timing->first == NULL ? &timing->first : &timing->last->next) = lap;
        timing->last = lap;
    } else {
        free_lap(timing, lap);
    }
    pthread_mutex_unlock(&timing->lock);
}

void cshim_timing_end(struct cshim_nccl_call *calls, size_t count, bool is_good)
{
    for (size_t i = 0; i < count; i++) {
        struct cshim_lap *lap = calls[i].lap;
        for (size_t j = i; j < count && lap != NULL; j++) {
            if (calls[j].lap == lap)
                calls[j].lap = NULL;
        }
        if (lap != NULL)
            end_lap(lap, is_good);
    }
}

/* Reading
 * ---------------------------------------------------------------------------------------*/
static bool elapsed(const struct cshim_cuda *cuda, CUevent from, CUevent to, double *seconds)
{
    float milliseconds = 0;
    const bool is_known = cuda->EventElapsedTime(&milliseconds, from, to) == CUDA_SUCCESS;
    *seconds = 1e-3 * (double)milliseconds;
    return is_known;
}

/* When the lap began by the host's clock. It was not before the host had enqueued it, nor was its
 * end after the host saw it: so far the GPU's clock is set right. */
static bool find_begin(struct cshim_timing *timing, struct cshim_lap *lap, double *begin)
{
    struct cshim_lap_mark *last = &lap->marks[lap->mark_count - 1];
    const double now = cshim_seconds();
    double since;
    if (timing->base == NULL ||
        !elapsed(&lap->comm->cuda, timing->base, lap->marks[0].event, &since))
        return false;
    *begin = timing->base_at + since;
    if (*begin + last->time > now)
        *begin = now - last->time;
    if (*begin < lap->enqueued)
        *begin = lap->enqueued;
    timing->base_at = *begin - since;
    if (since > BASE_SECONDS) {
        const CUevent base = timing->base;
        timing->base = last->event;
        timing->base_at = *begin + last->time;
        last->event = base;
    }
    return true;
}

/* The lock is held. */
static void read_lap(struct cshim_timing *timing, struct cshim_lap *lap)
{
    const struct cshim_cuda *cuda = &lap->comm->cuda;
    double begin;
    for (size_t i = 1; i < lap->mark_count; i++) {
        if (!elapsed(cuda, lap->marks[0].event, lap->marks[i].event, &lap->marks[i].time))
            return;
    }
    cshim_lap_add_up(lap);
    for (size_t i = 0; i < lap->part_count; i++) {
        const struct cshim_lap_part *part = &lap->parts[i];
        if (!part->is_counted)
            continue;
        cshim_ledger_add(&part->job->ledger, &part->plan, &part->figures);
        part->job->due = true;
    }
    if (lap->comm->job->trace != NULL && find_begin(timing, lap, &begin))
        cshim_nccl_trace_lap(lap, begin);
}

/* To ask an event would break the captures that are under way. */
void cshim_timing_collect(struct cshim_nccl_comm *comm)
{
    const struct cshim_cuda *cuda = &comm->cuda;
    struct cshim_timing *timing = comm->timing;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (timing == NULL)
        return;
    cuda->ThreadExchangeStreamCaptureMode(&mode);
    pthread_mutex_lock(&timing->lock);
    for (struct cshim_lap *lap; (lap = timing->first) != NULL;) {
        if (cuda->EventQuery(lap->marks[lap->mark_count - 1].event) != CUDA_SUCCESS)
            break; /* nor are those behind it, but for other streams' */
        timing->first = lap->next;
        read_lap(timing, lap);
        free_lap(timing, lap);
    }
    pthread_mutex_unlock(&timing->lock);
    cuda->ThreadExchangeStreamCaptureMode(&mode);
}

/* The life of it
 * --------------------------------------------------------------------------------------*/
/* The fastest of some tries to see an event happen: it happened in the middle. */
static void tie_clocks(struct cshim_nccl_comm *comm)
{
    struct cshim_timing *timing = comm->timing;
    double best = 1e9;
    for (unsigned i = 0; i < TIES; i++) {
        const CUevent event = take_event(comm);
        const double began = cshim_seconds();
        if (event == NULL || comm->cuda.EventRecord(event, comm->stream) != CUDA_SUCCESS ||
            comm->cuda.EventSynchronize(event) != CUDA_SUCCESS)
            return;
        const double took = cshim_seconds() - began;
        const CUevent other = took < best ? timing->base : event;
        if (took < best) {
            timing->base = event;
            timing->base_at = began + took / 2;
            best = took;
        }
        if (other != NULL)
            timing->free[timing->free_count++] = other;
    }
}

void cshim_timing_make(struct cshim_nccl_comm *comm)
{
    struct cshim_timing *timing = calloc(1, sizeof *timing);
    if (timing == NULL)
        return;
    pthread_mutex_init(&timing->lock, NULL);
    comm->timing = timing;
    if (comm->job->trace != NULL)
        tie_clocks(comm);
}

void cshim_timing_free(struct cshim_nccl_comm *comm)
{
    struct cshim_timing *timing = comm->timing;
    if (timing == NULL)
        return;
    for (struct cshim_lap *lap; (lap = timing->first) != NULL;) {
        timing->first = lap->next;
        free_lap(timing, lap);
    }
    if (timing->base != NULL)
        comm->cuda.EventDestroy(timing->base);
    for (size_t i = 0; i < timing->free_count; i++)
        comm->cuda.EventDestroy(timing->free[i]);
    pthread_mutex_destroy(&timing->lock);
    free(timing);
    comm->timing = NULL;
}
