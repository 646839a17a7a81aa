/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of a job: the calls of each rank with their times, as JSON trace events for Perfetto.
 *
 * Calls neither MPI nor CUDA. Memory is bounded: once CSHIM_TRACE_EVENTS are kept, later events are
 * only counted. */
#ifndef CSHIM_TRACE_H
#define CSHIM_TRACE_H

#include <stdio.h>

#include "shim/core/output.h"
#include "shim/core/plan.h"
#include "shim/core/row.h"

#define CSHIM_TRACE_EVENTS ((size_t)1 << 18)

/* Types of events, numbered after the phases of a compressed call (enum cshim_phase). */
enum cshim_trace_kind {
    CSHIM_TRACE_CALL = CSHIM_PHASES,
    CSHIM_TRACE_PENDING, /* a call that others may overlap, from begin to end */
    CSHIM_TRACE_PASSED,  /* a call that was passed through */
};

/* Events travel between ranks as bytes. */
struct cshim_trace_event {
    double begin;   /* begin, by cshim_seconds(); shim/mpi/trace.c converts it at the end */
    double seconds; /* duration */
    uint64_t bytes; /* size of the caller's buffer */
    uint32_t call;  /* number of the compressed call, as in its messages (shim/core/header.h) */
    uint16_t rule;  /* index of the rule in the policy */
    uint8_t kind;
    uint8_t collective;
    uint8_t codec;
    uint8_t algorithm;
    uint8_t reason; /* why the call was passed through */
    uint8_t thread; /* thread of the rank (NCCL: lane, see shim/nccl/trace.c), in the order of first
                       events; threads from 255 on share that number; 0: not yet set */
};

/* Allocated by calloc, so that pages are used only as events are added. */
struct cshim_trace {
    size_t count; /* number of events added, atomic; those beyond CSHIM_TRACE_EVENTS are not kept */
    struct cshim_trace_event events[CSHIM_TRACE_EVENTS];
};

/* Adds an event; sets its thread if it has none. Thread-safe, allocates nothing. */
void cshim_trace_add(struct cshim_trace *trace, struct cshim_trace_event event);

/* Returns the number of events kept. */
size_t cshim_trace_kept(const struct cshim_trace *trace);

/* Offset of rank 0's clock from a rank's clock: seconds to add to the rank's time to get rank 0's,
 * at two times `at` of the rank's clock. */
struct cshim_trace_clock {
    double at[2];
    double offset[2];
};
/* Converts a time of the rank's clock to rank 0's. */
double cshim_trace_align(const struct cshim_trace_clock *clock, double time);

/* State of writing a trace file. Call in this order: begin; for each rank its name, the names of
 * its threads if there are any, then its events in any number of pieces; end. The events' times and
 * `origin` are seconds of one clock. */
struct cshim_trace_file {
    FILE *stream;
    struct cshim_output output;        /* output of the stream, if cshim_trace_open opened it */
    double origin;                     /* time zero of the file */
    const struct cshim_policy *policy; /* policy whose rules the events name by index */
    uint64_t dropped;
    uint64_t pending; /* number of CSHIM_TRACE_PENDING calls written, which numbers them */
    bool has_events;
};
void cshim_trace_begin(struct cshim_trace_file *file);
void cshim_trace_rank(struct cshim_trace_file *file, int rank, const char *host);
void cshim_trace_thread(struct cshim_trace_file *file, int rank, unsigned thread, const char *name);
void cshim_trace_events(struct cshim_trace_file *file, int rank,
                        const struct cshim_trace_event *events, size_t count);
void cshim_trace_end(struct cshim_trace_file *file);

#endif
