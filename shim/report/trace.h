/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline of a job: what each rank did when, as JSON trace events, which Perfetto opens.
 *
 * Pure: no MPI, no CUDA. Memory is bounded: once CSHIM_TRACE_EVENTS are kept, later ones are only
 * counted. */
#ifndef CSHIM_TRACE_H
#define CSHIM_TRACE_H

#include <stdio.h>

#include "shim/core/output.h"
#include "shim/core/plan.h"

#define CSHIM_TRACE_EVENTS ((size_t)1 << 18)

/* Events other than the phases of a compressed call (enum cshim_phase), which come first. */
enum cshim_trace_kind {
    CSHIM_TRACE_CALL = CSHIM_PHASES,
    CSHIM_TRACE_PENDING, /* a nonblocking call, from its beginning to its end */
    CSHIM_TRACE_PASSED,  /* a call that the library got as it was */
};

/* Events travel between ranks as bytes. */
struct cshim_trace_event {
    double begin;   /* seconds of the job's clock */
    double seconds; /* its length */
    uint64_t bytes; /* of the caller's buffer */
    uint32_t call;  /* number of the compressed call on its communicator */
    uint16_t rule;  /* index */
    uint8_t kind;
    uint8_t collective;
    uint8_t codec;
    uint8_t algorithm;
    uint8_t reason; /* why it was passed through */
    uint8_t thread; /* of the rank, by their first events; those above 255 are taken as one */
};

/* Made by calloc, so that pages are taken as events come. */
struct cshim_trace {
    size_t count; /* added so far, atomic; beyond CSHIM_TRACE_EVENTS they are not kept */
    struct cshim_trace_event events[CSHIM_TRACE_EVENTS];
};

/* Adds an event; its thread is filled in if it has none. Thread-safe, allocates nothing. */
void cshim_trace_add(struct cshim_trace *trace, struct cshim_trace_event event);

/* Events that are kept. */
size_t cshim_trace_kept(const struct cshim_trace *trace);

/* Offset of a rank's clock from rank 0's: at two times of the rank's clock, the seconds to add. */
struct cshim_trace_clock {
    double at[2];
    double offset[2];
};
/* A time of the rank by rank 0's clock. */
double cshim_trace_align(const struct cshim_trace_clock *clock, double time);

/* Writes the file in the order: begin; for each rank its name, those of threads if they have any,
 * then its events in any pieces; end. Times of events are seconds of the job's clock. */
struct cshim_trace_file {
    FILE *stream;
    struct cshim_output output;        /* of the stream, where cshim_trace_open opened it */
    double origin;                     /* the time that is the file's zero */
    const struct cshim_policy *policy; /* rules by index */
    uint64_t dropped;
    uint64_t pending; /* nonblocking calls so far: each has a number */
    bool has_events;
};
void cshim_trace_begin(struct cshim_trace_file *file);
void cshim_trace_rank(struct cshim_trace_file *file, int rank, const char *host);
void cshim_trace_thread(struct cshim_trace_file *file, int rank, unsigned thread, const char *name);
void cshim_trace_events(struct cshim_trace_file *file, int rank,
                        const struct cshim_trace_event *events, size_t count);
void cshim_trace_end(struct cshim_trace_file *file);

/* file.c: opens a file and begins it, ends and closes it. What goes wrong is logged; then open
 * returns false, and close does nothing. */
bool cshim_trace_open(struct cshim_trace_file *file, const char *path);
void cshim_trace_close(struct cshim_trace_file *file, const char *path);

#endif
