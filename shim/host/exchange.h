/* SPDX-License-Identifier: Apache-2.0 */
/* One compressed call on host memory: a pipeline that executes the plan's schedule segment by
 * segment, with several segments in flight, so that encoding, transfer, addition and decoding
 * overlap. An engine fills the first group of struct cshim_exchange, then calls
 *
 *     cshim_exchange_run(&exchange)                blocking, or
 *     cshim_exchange_begin(&exchange);             nonblocking:
 *     cshim_exchange_advance(&exchange, &done);    until done
 *
 * mostly by way of call.h. Calls on one communicator must not be concurrent. */
#ifndef CSHIM_EXCHANGE_H
#define CSHIM_EXCHANGE_H

#include "shim/host/communicator.h"

/* A range of the call's elements. */
struct cshim_range {
    uint64_t begin;
    uint64_t length;
};

/* Returns how many elements of the range are below `length`. */
static inline size_t cshim_range_within(const struct cshim_range *range, int length)
{
    const uint64_t left = (uint64_t)length > range->begin ? (uint64_t)length - range->begin : 0;
    return left < range->length ? left : range->length;
}

/* Stages of a pipeline iteration, in their order. */
enum cshim_stage {
    CSHIM_STAGE_ENTER,
    CSHIM_STAGE_SUM,
    CSHIM_STAGE_SUM_COLUMN,
    CSHIM_STAGE_FORWARD,
    CSHIM_STAGE_LEAVE,
    CSHIM_STAGE_COUNT
};

/* Dimensions of the grid of peers. A rank exchanges messages with its row and its column; without a
 * grid all peers are one row. */
enum cshim_dimension { CSHIM_ROW, CSHIM_COLUMN, CSHIM_DIMENSIONS };
struct cshim_peer_group {
    int rank;  /* this rank's index; -1: it is not in one */
    int ranks; /* number of ranks */
};

/* One compressed call under way. The engine fills the first group, the runner the rest. */
struct cshim_exchange {
    struct cshim_communicator *communicator;
    const struct cshim_plan *plan;
    const uint8_t *input;      /* the caller's elements: the range `source` of the call */
    struct cshim_range source; /* elements that this rank contributes */
    uint8_t *output;           /* the results: the range `result` of the call */
    struct cshim_range result; /* elements that this rank receives */
    size_t element_bytes;
    bool nonblocking; /* cshim_exchange_advance() never waits, and returns after about 1 ms */
    double began;     /* start of a nonblocking call, if there is a trace */
    uint32_t number;  /* call number, equal on all ranks; 0: calls have the same order on all */

    uint32_t sequence; /* number among the communicator's compressed calls, from 1 */
    /* Row and column of this rank. Not in a row: it only helps its node. */
    struct cshim_peer_group groups[CSHIM_DIMENSIONS];
    uint32_t root;         /* peer that is, or whose node has, the plan's root */
    uint32_t first_of_row; /* first peer of this rank's row */
    uint32_t column;       /* this rank's column */
    bool is_shared;        /* ranks of a node read each other's messages (shared memory) */
    bool is_shared_inside; /* hierarchical: ranks of a node read each other's elements */
    uint32_t barriers;     /* barriers of the node so far */
    const struct cshim_segment *awaited; /* segment whose transfer is being completed, else NULL */
    unsigned awaited_transfer;           /* enum cshim_transfer of that segment */
    int failed;                          /* transport's error for a message of another call, or 0 */
    bool has_options;                    /* the encoding uses `residual` or `keys` */
    struct cshim_residual *residual;     /* NULL: no error feedback */
    uint64_t keys[CSHIM_MESSAGES];       /* random keys, by kind of message */
    float error;                         /* largest encoding error known to this rank */
    struct cshim_row figures;            /* bytes sent, and seconds of each phase */
    double mark;                         /* cshim_seconds() up to which the seconds are counted */
    uint64_t iteration;                  /* iteration at which cshim_exchange_advance() continues */
    enum cshim_stage stage;
};

/* Executes the plan's schedule and waits for it. Returns an error of the transport. */
int cshim_exchange_run(struct cshim_exchange *exchange);
/* Starts an exchange; sends nothing yet. */
void cshim_exchange_begin(struct cshim_exchange *exchange);
/* Continues an exchange; sets *done when it is complete. If it is nonblocking, returns when it
 * would have to wait, or after about 1 ms. Returns an error of the transport. */
int cshim_exchange_advance(struct cshim_exchange *exchange, bool *done);

#endif
