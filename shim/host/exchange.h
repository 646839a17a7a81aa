/* SPDX-License-Identifier: Apache-2.0 */
/* One compressed call on host memory: its schedule is carried out segment by segment, of which
 * several are in flight, so that encoding, wire, adding and decoding overlap. */
#ifndef CSHIM_EXCHANGE_H
#define CSHIM_EXCHANGE_H

#include "shim/host/communicator.h"

/* Elements of a call. */
struct cshim_range {
    uint64_t begin;
    uint64_t length;
};

/* How many elements of the first `length` a range has. */
static inline size_t cshim_range_within(const struct cshim_range *range, int length)
{
    const uint64_t left = (uint64_t)length > range->begin ? (uint64_t)length - range->begin : 0;
    return left < range->length ? left : range->length;
}

/* What a turn of an exchange does, one after the other. */
enum cshim_stage {
    CSHIM_STAGE_ENTER,
    CSHIM_STAGE_SUM,
    CSHIM_STAGE_SUM_COLUMN,
    CSHIM_STAGE_FORWARD,
    CSHIM_STAGE_LEAVE,
    CSHIM_STAGE_COUNT
};

/* Peers that exchange messages with each other: this rank's row of the grid, or its column. Where
 * there is no grid all peers are one row. */
enum cshim_level { CSHIM_ROW, CSHIM_COLUMN, CSHIM_LINES };
struct cshim_line {
    int rank;  /* this rank's place in it; -1: it has none */
    int ranks; /* places */
};

/* One compressed call under way. An engine fills the first group; the rest is the runner's. */
struct cshim_exchange {
    struct cshim_communicator *communicator;
    const struct cshim_plan *plan;
    const uint8_t *input;      /* the caller's elements: those of source */
    struct cshim_range source; /* the elements of the call that this rank gives */
    uint8_t *output;           /* the results: those of result */
    struct cshim_range result; /* the elements of the call that come to this rank */
    size_t element_bytes;
    bool nonblocking; /* advance returns where it would have to wait, and in time */
    double began;     /* when a nonblocking call began, while there is a trace */
    uint32_t number;  /* of the call, the same on all ranks; 0: calls come in the same order */

    uint32_t sequence;                    /* of the communicator's compressed calls, from 1 */
    struct cshim_line lines[CSHIM_LINES]; /* no place in the row: this rank only helps its node */
    uint32_t root;                        /* peer of the plan's root */
    uint32_t first_of_row;                /* peer */
    uint32_t column;                      /* where this rank has a place */
    bool is_shared;                       /* ranks of a node read each other's messages */
    bool is_shared_inside;                /* by nodes: they read each other's elements */
    uint32_t meetings;                    /* of the node so far, for that */
    const struct cshim_segment *awaited;  /* while a transfer of it is completed: that one */
    unsigned awaited_transfer;            /* enum cshim_transfer */
    int failed;       /* the transport's error of a message that is of another call, or 0 */
    bool has_options; /* of the encoding: these two */
    struct cshim_residual *residual; /* or NULL */
    uint64_t keys[CSHIM_MESSAGES];   /* of random numbers, by kind of message */
    float error;                     /* the largest of an encoding that this rank knows of */
    struct cshim_row figures;        /* bytes sent, and seconds of the phases */
    double mark;                     /* until when these seconds are counted, by cshim_seconds */
    uint64_t turn;                   /* where advance goes on */
    enum cshim_stage stage;
};

/* Carries out the plan's schedule. Returns an error of the transport. */
int cshim_exchange_run(struct cshim_exchange *exchange);
/* The same in steps: begin sends nothing; advance goes on as far as it can within about a
 * millisecond, and says whether all is done. */
void cshim_exchange_begin(struct cshim_exchange *exchange);
int cshim_exchange_advance(struct cshim_exchange *exchange, bool *done);

#endif
