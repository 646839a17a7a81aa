/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/measure.h"

#include <stdlib.h>

#include "shim/core/clock.h"
#include "shim/nccl/sample.h"
#include "shim/nccl/trace.h"

/* Maximum number of marks that a batch adds: one for each step. */
#define MARKS_OF_BATCH CSHIM_STEPS
/* CUDA returns the time between two events as a float, which loses precision as it grows. After
 * this many seconds a later event becomes the base. */
#define BASE_SECONDS 1.0
#define CLOCK_ATTEMPTS 4

void cshim_measure_pass(const struct cshim_nccl_comm *comm, enum cshim_reason reason)
{
    if (comm->counted == NULL)
        return;
    cshim_ledger_pass(&comm->counted->ledger, reason);
    cshim_job_touch(comm->counted);
}

void cshim_measure_observe(const struct cshim_nccl_call *call)
{
    if (call->comm->rank != 0)
        return;
    const struct cshim_call properties = cshim_call_facts(call);
    const struct cshim_kind kind = cshim_kind_of(&properties);
    cshim_observed_add(call->comm->job->observed, &kind);
    cshim_job_touch(call->comm->job);
}

/* Counts a compressed call and its bytes in the ledger, at rank 0 only; cshim_measure_collect adds
 * its duration. */
static void count_call(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    const struct cshim_row figures = {
        .calls = 1,
        .bytes_in = call->plan.count * cshim_dtype_bytes(call->plan.dtype),
        .bytes_wire = call->plan.bytes_wire + call->sample.bytes_wire,
        .bytes_network = call->plan.bytes_network,
        .bytes_native = call->plan.bytes_native,
    };
    if (call->plan.reason != CSHIM_REASON_COMPRESS || comm->rank != 0)
        return;
    cshim_ledger_add(&comm->job->ledger, &call->plan, &figures);
    cshim_job_touch(comm->job);
}

/* Events --------------------------------------------------------------------------------------- */
CUevent cshim_measure_take_event(struct cshim_nccl_comm *comm)
{
    struct cshim_measurement *measurement = &comm->measurement;
    CUevent event = NULL;
    CSHIM_SCOPE scope = cshim_device_enter(comm);
    pthread_mutex_lock(&measurement->lock);
    if (measurement->free_count > 0)
        event = measurement->free[--measurement->free_count];
    else if (measurement->made < CSHIM_EVENTS && scope.result == CUDA_SUCCESS &&
             cshim_cuda.EventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
        measurement->made++;
    pthread_mutex_unlock(&measurement->lock);
    return event;
}

void cshim_measure_give_event(struct cshim_nccl_comm *comm, CUevent event)
{
    struct cshim_measurement *measurement = &comm->measurement;
    pthread_mutex_lock(&measurement->lock);
    measurement->free[measurement->free_count++] = event;
    pthread_mutex_unlock(&measurement->lock);
}

bool cshim_measure_elapsed(CUevent from, CUevent to, double *seconds)
{
    float milliseconds = 0;
    const bool is_known = cshim_cuda.EventElapsedTime(&milliseconds, from, to) == CUDA_SUCCESS;
    *seconds = 1e-3 * (double)milliseconds;
    return is_known;
}

/* Ends an interval: records an event after all work enqueued so far. Without an event the timeline
 * is broken, and its calls have no durations. */
static void add_mark(struct cshim_timeline *timeline)
{
    CUevent event = timeline->is_broken ? NULL : cshim_measure_take_event(timeline->comm);
    CSHIM_SCOPE scope = cshim_device_enter(timeline->comm);
    if (event != NULL)
        cshim_timeline_mark(timeline, event);
    timeline->is_broken = event == NULL || scope.result != CUDA_SUCCESS ||
                          cshim_cuda.EventRecord(event, timeline->stream) != CUDA_SUCCESS;
}

/* Frees a timeline, and releases its events and slots. The caller holds the lock or is the last
 * user. */
static void free_timeline(struct cshim_measurement *measurement, struct cshim_timeline *timeline)
{
    for (size_t i = 0; i < timeline->mark_count; i++)
        measurement->free[measurement->free_count++] = timeline->marks[i].event;
    for (size_t i = 0; i < timeline->call_count; i++)
        cshim_sample_give(timeline->calls[i].slot);
    free(timeline);
}

/* Timelines of calls in progress --------------------------------------------------------------- */
/* Returns true if a trace or a report needs the call's duration. Captured calls are not measured,
 * because their events would become part of the graph. */
static bool is_measured(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    return call->plan.reason == CSHIM_REASON_COMPRESS && call->capture_id == 0 &&
           (comm->job->trace != NULL || (comm->rank == 0 && comm->job->wanted != NULL));
}

static void add_call(struct cshim_timeline *timeline, struct cshim_nccl_call *call)
{
    timeline->overlaps = timeline->overlaps || call->comm->kernels != timeline->stream;
    call->timed = &timeline->calls[timeline->call_count++];
    *call->timed = (struct cshim_timed_call){
        .plan = call->plan,
        .sequence = call->sequence,
        .job = call->comm->job,
        .is_counted = call->comm->rank == 0 && call->comm->job->wanted != NULL,
    };
}

/* Makes a timeline for all compressed calls on the stream of `first`, the first call to measure.
 * Returns NULL without memory. */
static struct cshim_timeline *make_timeline(struct cshim_nccl_call *calls, size_t call_count,
                                            const struct cshim_nccl_call *first)
{
    size_t segments = 0;
    for (size_t i = 0; i < call_count; i++)
        segments += calls[i].plan.segments;
    const size_t shares = segments * MARKS_OF_BATCH;
    struct cshim_timeline *timeline = cshim_timeline_make(
        shares < CSHIM_EVENTS ? shares + 2 : CSHIM_EVENTS, shares + call_count, call_count);
    if (timeline == NULL)
        return NULL;
    timeline->comm = first->comm;
    timeline->stream = first->comm->runs_on;
    for (size_t i = 0; i < call_count; i++)
        if (calls[i].plan.reason == CSHIM_REASON_COMPRESS &&
            calls[i].comm->runs_on == timeline->stream &&
            calls[i].comm->context == first->comm->context)
            add_call(timeline, &calls[i]);
    return timeline;
}

ncclResult_t cshim_measure_begin(struct cshim_nccl_call *calls, size_t call_count,
                                 struct cshim_timeline **end)
{
    const ncclResult_t status = cshim_sample_begin(calls, call_count);
    for (size_t i = 0; i < call_count && status == ncclSuccess; i++) {
        if (calls[i].timed == NULL && is_measured(&calls[i]))
            *end = make_timeline(calls, call_count, &calls[i]);
        if (*end != NULL) {
            (*end)->enqueued = cshim_seconds();
            add_mark(*end);
            end = &(*end)->next;
        }
    }
    return status;
}

void cshim_measure_step(struct cshim_timeline *timelines, const struct cshim_nccl_segment *segments,
                        size_t segment_count, enum cshim_step step, bool waited)
{
    const bool is_kernel = cshim_step_phase(step) != CSHIM_PHASE_EXCHANGE;
    for (struct cshim_timeline *timeline = timelines; timeline != NULL; timeline = timeline->next)
        for (size_t i = 0; i < timeline->call_count; i++)
            timeline->calls[i].batch_bytes = 0;
    for (size_t i = 0; i < segment_count; i++) {
        const struct cshim_nccl_call *call = segments[i].call;
        if (call->timed == NULL)
            continue;
        call->timed->batch_bytes += segments[i].result * cshim_dtype_bytes(call->plan.dtype);
        call->timed->steps |= segments[i].steps;
    }
    for (struct cshim_timeline *timeline = timelines; timeline != NULL; timeline = timeline->next)
        if (waited == (is_kernel && timeline->overlaps) && cshim_timeline_share(timeline, step))
            add_mark(timeline);
}

/* Adds a finished timeline to those that cshim_measure_collect reads; frees it if is_good is
 * false. */
static void queue_timeline(struct cshim_timeline *timeline, bool is_good)
{
    struct cshim_measurement *measurement = &timeline->comm->measurement;
    if (timeline->overlaps && (cshim_timeline_share(timeline, CSHIM_STEP_DECODE) ||
                               cshim_timeline_share(timeline, CSHIM_STEP_SUM)))
        add_mark(timeline); /* after the last kernels, for which the stream has waited */
    timeline->next = NULL;
    pthread_mutex_lock(&measurement->lock);
    if (is_good) {
        *(measurement->first == NULL ? &measurement->first : &measurement->last->next) = timeline;
        measurement->last = timeline;
    } else {
        free_timeline(measurement, timeline);
    }
    pthread_mutex_unlock(&measurement->lock);
}

void cshim_measure_end(struct cshim_timeline *timelines, struct cshim_nccl_call *calls,
                       size_t call_count, bool is_good)
{
    for (size_t i = 0; i < call_count; i++) {
        if (is_good)
            count_call(&calls[i]);
        if (calls[i].sample.slot != NULL)
            cshim_sample_end(&calls[i], is_good && calls[i].timed != NULL);
    }
    for (struct cshim_timeline *timeline = timelines, *next; timeline != NULL; timeline = next) {
        next = timeline->next;
        queue_timeline(timeline, is_good);
    }
}

/* Reading -------------------------------------------------------------------------------------- */
static bool read_times(const struct cshim_timeline *timeline)
{
    bool are_known = !timeline->is_broken;
    for (size_t i = 1; i < timeline->mark_count && are_known; i++)
        are_known = cshim_measure_elapsed(timeline->marks[0].event, timeline->marks[i].event,
                                          &timeline->marks[i].time);
    return are_known;
}

/* Sets *began to the host time at which a timeline began. Returns false if that is unknown. The GPU
 * cannot have begun before the host enqueued the timeline, nor ended after the host saw it
 * completed. Corrects the offset between the two clocks (base_at) to fit both bounds. */
static bool find_begin(struct cshim_measurement *measurement, struct cshim_timeline *timeline,
                       double *began)
{
    struct cshim_mark *last = &timeline->marks[timeline->mark_count - 1];
    const double now = cshim_seconds();
    double since;
    if (measurement->base == NULL ||
        !cshim_measure_elapsed(measurement->base, timeline->marks[0].event, &since))
        return false;
    *began = measurement->base_at + since;
    if (*began + last->time > now)
        *began = now - last->time;
    if (*began < timeline->enqueued)
        *began = timeline->enqueued;
    measurement->base_at = *began - since;
    if (since > BASE_SECONDS) {
        const CUevent base = measurement->base;
        measurement->base = last->event;
        measurement->base_at = *began + last->time;
        last->event = base;
    }
    return true;
}

static void read_timeline(struct cshim_measurement *measurement, struct cshim_timeline *timeline)
{
    const bool is_timed = read_times(timeline);
    double began;
    if (is_timed)
        cshim_timeline_add_up(timeline);
    for (size_t i = 0; i < timeline->call_count; i++) {
        struct cshim_timed_call *call = &timeline->calls[i];
        if (call->slot != NULL)
            cshim_sample_compare(call->slot, &call->figures);
        if (!call->is_counted || (!is_timed && call->slot == NULL))
            continue;
        cshim_ledger_add(&call->job->ledger, &call->plan, &call->figures);
        cshim_job_touch(call->job);
    }
    if (is_timed && timeline->comm->job->trace != NULL && find_begin(measurement, timeline, &began))
        cshim_nccl_trace_add(timeline, began);
}

static bool has_completed(const struct cshim_timeline *timeline)
{
    bool has =
        timeline->is_broken ||
        cshim_device_query(timeline->marks[timeline->mark_count - 1].event, NULL) == CUDA_SUCCESS;
    for (size_t i = 0; i < timeline->call_count && has; i++) {
        const struct cshim_sample_slot *slot = timeline->calls[i].slot;
        has = slot == NULL || cshim_sample_has_happened(slot);
    }
    return has;
}

/* Reads timelines in the order of the calls, up to the first that has not completed: later ones, on
 * other streams, may have completed, but are read later. */
void cshim_measure_collect(struct cshim_nccl_comm *comm)
{
    struct cshim_measurement *measurement = &comm->measurement;
    pthread_mutex_lock(&measurement->lock);
    for (struct cshim_timeline *timeline;
         (timeline = measurement->first) != NULL && has_completed(timeline);) {
        measurement->first = timeline->next;
        read_timeline(measurement, timeline);
        free_timeline(measurement, timeline);
    }
    pthread_mutex_unlock(&measurement->lock);
}

/* Setup and cleanup ---------------------------------------------------------------------------- */
/* Relates the GPU's clock to the host's: records the base event, and takes the host time just
 * before it, the earliest at which the event can have occurred. find_begin corrects that later. The
 * last attempt counts, because the first ones include CUDA's warm-up. */
static void tie_clocks(struct cshim_nccl_comm *comm)
{
    const CUevent event = cshim_measure_take_event(comm);
    bool is_seen = event != NULL;
    for (unsigned i = 0; i < CLOCK_ATTEMPTS && is_seen; i++) {
        comm->measurement.base_at = cshim_seconds();
        is_seen = cshim_cuda.EventRecord(event, comm->stream) == CUDA_SUCCESS &&
                  cshim_cuda.EventSynchronize(event) == CUDA_SUCCESS;
    }
    if (is_seen)
        comm->measurement.base = event;
    else if (event != NULL)
        comm->measurement.free[comm->measurement.free_count++] = event;
}

void cshim_measure_make(struct cshim_nccl_comm *comm)
{
    if (comm->job->trace != NULL)
        tie_clocks(comm);
    cshim_sample_make(comm);
}

void cshim_measure_free(struct cshim_nccl_comm *comm)
{
    struct cshim_measurement *measurement = &comm->measurement;
    for (struct cshim_timeline *timeline; (timeline = measurement->first) != NULL;) {
        measurement->first = timeline->next;
        free_timeline(measurement, timeline);
    }
    if (measurement->base != NULL)
        cshim_cuda.EventDestroy(measurement->base);
    for (size_t i = 0; i < measurement->free_count; i++)
        cshim_cuda.EventDestroy(measurement->free[i]);
}
