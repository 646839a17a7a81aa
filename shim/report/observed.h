/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that COMPSHIM=observe records: which calls a program makes, how often, how large, and,
 * except with NCCL, how long the library takes for them. Calls neither MPI nor CUDA. Memory is
 * bounded: once there are CSHIM_KINDS_EXACT kinds, calls of new kinds are grouped by powers of two
 * of their sizes; bytes are still summed exactly. Functions are thread-safe only where they say so.
 */
#ifndef CSHIM_OBSERVED_H
#define CSHIM_OBSERVED_H

#include <pthread.h>

#include "shim/core/plan.h"

/* Maximum number of kinds with an exact size, and of all kinds. Kinds without an exact size have a
 * size class. */
#define CSHIM_KINDS_EXACT 512u
#define CSHIM_KINDS_MAX 1024u

/* A kind: calls that differ only in their times and, if is_class, their sizes; also used for a
 * single call to add. Kinds travel between ranks as bytes. */
struct cshim_kind {
    uint8_t collective; /* enum cshim_collective */
    uint8_t dtype;      /* enum cshim_dtype, or CSHIM_DTYPE_OTHER */
    uint8_t op;         /* enum cshim_op, or CSHIM_OP_OTHER */
    uint8_t is_class; /* 1: all sizes from `bytes` to below 2 * `bytes` (`bytes` 0: only size 0) */
    uint32_t ranks;
    uint32_t nodes;
    uint32_t ranks_per_node; /* number of ranks on the node with the fewest */
    uint64_t bytes;          /* size of the call's larger buffer; if is_class, the least size */
    uint64_t calls;
    uint64_t bytes_total; /* over all calls */
    double seconds; /* time in the library; if seconds_wait is known, after all ranks have entered
                       the call; NCCL: 0 */
    double seconds_wait; /* time until the last rank has entered the call; 0: unknown */
};

/* Returns a call as a kind. */
struct cshim_kind cshim_kind_of(const struct cshim_call *call);

/* An exchange by compshim, measured on the job's ranks at the end of an observed run. */
struct cshim_probe {
    enum cshim_codec_id codec;
    enum cshim_algorithm algorithm;
    uint64_t bytes;      /* size of the float32 buffer */
    uint64_t bytes_wire; /* bytes sent by all ranks */
    double seconds;      /* duration of the median exchange */
};
#define CSHIM_PROBES_MAX 32u

struct cshim_observed {
    pthread_mutex_t lock; /* guards count, kinds and unlisted */
    size_t count;
    struct cshim_kind kinds[CSHIM_KINDS_MAX]; /* in no order until sorted */
    struct cshim_kind unlisted;               /* calls that did not fit; ranks is 0 */
    size_t probe_count;
    struct cshim_probe probes[CSHIM_PROBES_MAX];
};

/* Initializes a record without calls. */
void cshim_observed_init(struct cshim_observed *observed);

/* Adds a call, or a kind (or the unlisted calls) of another rank. Thread-safe. */
void cshim_observed_add(struct cshim_observed *observed, const struct cshim_kind *kind);

/* Sorts the kinds in the order of reports: by bytes, descending. */
void cshim_observed_sort(struct cshim_observed *observed);

#endif
