/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report/trace.h"

#include <math.h>

#include "policy/numbers.h"
#include "shim/report/json.h"
#include "version.h"

/* Returns the calling thread's number. Threads are numbered from 1, in the order of their first
 * events; all from the 255th on have 255. */
static uint8_t own_thread(void)
{
    static unsigned threads;
    static __thread unsigned number;
    if (number == 0)
        number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    return number < UINT8_MAX ? (uint8_t)number : UINT8_MAX;
}

void cshim_trace_add(struct cshim_trace *trace, struct cshim_trace_event event)
{
    const size_t index = __atomic_fetch_add(&trace->count, 1, __ATOMIC_RELAXED);
    if (event.thread == 0)
        event.thread = own_thread();
    if (index < CSHIM_TRACE_EVENTS)
        trace->events[index] = event;
}

size_t cshim_trace_kept(const struct cshim_trace *trace)
{
    return trace->count < CSHIM_TRACE_EVENTS ? trace->count : CSHIM_TRACE_EVENTS;
}

double cshim_trace_align(const struct cshim_trace_clock *clock, double time)
{
    const double span = clock->at[1] - clock->at[0];
    const double part = span > 0 ? (time - clock->at[0]) / span : 0;
    return time + clock->offset[0] + part * (clock->offset[1] - clock->offset[0]);
}

void cshim_trace_begin(struct cshim_trace_file *file)
{
    fprintf(file->stream, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
}

/* Writes the separator before an event: with a line break, because some readers fail on one long
 * line. */
static void separate(struct cshim_trace_file *file)
{
    fputs(file->has_events ? ",\n" : "\n", file->stream);
    file->has_events = true;
}

void cshim_trace_rank(struct cshim_trace_file *file, int rank, const char *host)
{
    char name[300];
    snprintf(name, sizeof name, "rank %d (%s)", rank, host);
    separate(file);
    fprintf(file->stream,
            "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": ", rank);
    cshim_report_string(file->stream, name);
    fprintf(file->stream,
            "}},\n{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": %d, \"args\": "
            "{\"sort_index\": %d}}",
            rank, rank);
}

void cshim_trace_thread(struct cshim_trace_file *file, int rank, unsigned thread, const char *name)
{
    separate(file);
    fprintf(file->stream,
            "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %u, \"args\": "
            "{\"name\": ",
            rank, thread);
    cshim_report_string(file->stream, name);
    fprintf(file->stream, "}}");
}

/* Writes an event's name, category and arguments. */
static void write_kind(const struct cshim_trace_file *file, const struct cshim_trace_event *event)
{
    static const char *const phases[] = {"encode", "exchange", "decode"};
    const char *collective = cshim_collective_name((enum cshim_collective)event->collective);
    const unsigned long long bytes = event->bytes;
    if (event->kind < CSHIM_PHASES) {
        fprintf(file->stream, "\"%s\", \"cat\": \"phase\", \"args\": {\"call\": %u}",
                phases[event->kind], event->call);
    } else if (event->kind == CSHIM_TRACE_PASSED) {
        fprintf(file->stream, "\"%s passed: %s\", \"cat\": \"passed\", \"args\": {\"bytes\": %llu}",
                collective, cshim_reason_name((enum cshim_reason)event->reason), bytes);
    } else {
        fprintf(file->stream,
                "\"%s %s\", \"cat\": \"compressed\", \"args\": {\"call\": %u, \"bytes\": %llu, "
                "\"algorithm\": \"%s\", \"rule\": ",
                collective, cshim_codec_name((enum cshim_codec_id)event->codec), event->call, bytes,
                cshim_algorithm_name((enum cshim_algorithm)event->algorithm));
        cshim_report_string(file->stream, event->rule < file->policy->rule_count
                                              ? file->policy->rules[event->rule].name
                                              : "?");
        fputc('}', file->stream);
    }
}

static void write_event(struct cshim_trace_file *file, int rank, const char *phase,
                        const struct cshim_trace_event *event, double time)
{
    separate(file);
    fprintf(file->stream,
            "{\"ph\": \"%s\", \"pid\": %d, \"tid\": %u, \"ts\": %.3f, \"name\": ", phase, rank,
            event->thread, (time - file->origin) * 1e6);
    write_kind(file, event);
}

/* Phases may follow each other without a gap. Viewers drop a phase that begins before the end of
 * the previous one. Rounding to nanoseconds may move a begin so far, so each phase is shortened by
 * this time at both ends. */
#define ROUNDING 1e-9

/* Writes a call that others may overlap as a begin and an end event. */
static void write_pending(struct cshim_trace_file *file, int rank,
                          const struct cshim_trace_event *event)
{
    const unsigned long long id = ++file->pending;
    write_event(file, rank, "b", event, event->begin);
    fprintf(file->stream, ", \"id\": %llu}", id);
    write_event(file, rank, "e", event, event->begin + event->seconds);
    fprintf(file->stream, ", \"id\": %llu}", id);
}

void cshim_trace_events(struct cshim_trace_file *file, int rank,
                        const struct cshim_trace_event *events, size_t count)
{
    const locale_t locale = cshim_numbers_begin();
    for (size_t i = 0; i < count; i++) {
        if (events[i].kind == CSHIM_TRACE_PENDING) {
            write_pending(file, rank, &events[i]);
            continue;
        }
        const double inset = events[i].kind < CSHIM_PHASES ? ROUNDING : 0;
        write_event(file, rank, "X", &events[i], events[i].begin + inset);
        fprintf(file->stream, ", \"dur\": %.3f}", fmax(events[i].seconds - 2 * inset, 0) * 1e6);
    }
    cshim_numbers_end(locale);
}

void cshim_trace_end(struct cshim_trace_file *file)
{
    fprintf(file->stream, "\n], \"otherData\": {\"compshim\": \"%s\", \"dropped_events\": %llu}}\n",
            CSHIM_VERSION, (unsigned long long)file->dropped);
}
