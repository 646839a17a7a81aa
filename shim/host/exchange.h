/* SPDX-License-Identifier: Apache-2.0 */
/* One compressed call on host memory: executes the operations of its segments (operation.h), with
 * several segments in flight, so that encoding, transfer, addition and decoding overlap. The
 * algorithm `cast` has no operations (cast.h). An engine fills the members of struct cshim_exchange
 * up to `number`, then calls
 *
 *     cshim_exchange_run(&exchange)                blocking, or
 *     cshim_exchange_begin(&exchange);             nonblocking:
 *     cshim_exchange_advance(&exchange, &done);    until done
 *
 * usually through call.h. Calls on one communicator must not be concurrent. */
#ifndef CSHIM_EXCHANGE_H
#define CSHIM_EXCHANGE_H

#include "shim/host/communicator.h"

/* A segment in flight: a cursor into its list of operations. */
struct cshim_flight {
    struct cshim_segment segment;
    const struct cshim_operations *operations; /* points into the communicator */
    unsigned next;                             /* operation to execute next */
    unsigned slot;    /* the segment's index modulo CSHIM_SEGMENTS_IN_FLIGHT */
    uint8_t *scratch; /* messages of the segment */
    uint8_t *stage;   /* staged: the share's elements, in a reduce_scatter followed by the blocks to
                         add; else NULL */
};

/* One active compressed call. The engine fills the members up to `number`, without cshim_call_run()
 * also `sequence`; the other members must be zero, and the runner fills them. An exchange is used
 * once. */
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
    uint32_t number;  /* gloo: number of the call, equal on all ranks; MPI: 0 */

    uint32_t sequence; /* `number`, or if that is 0 the number of the compressed call, from 1 */
    struct cshim_role role;
    struct cshim_flight flights[CSHIM_SEGMENTS_IN_FLIGHT];
    bool is_shared;        /* ranks of a node may read each other's messages in place */
    bool is_shared_inside; /* staged: ranks of a node read each other's elements in shared memory */
    uint32_t barriers;     /* number of node barriers so far */
    const struct cshim_flight *awaited; /* segment that is waiting for messages, else NULL */
    int failed;                      /* result of abort() after a message of another call; or 0 */
    bool has_options;                /* the encoding has options (encoding_options) */
    struct cshim_residual *residual; /* NULL: no error feedback */
    uint64_t keys[CSHIM_MESSAGES];   /* keys of the random numbers that round, by type of message */
    float error;                     /* largest encoding error known to this rank */
    struct cshim_row figures;        /* figures of this call for the ledger */
    double mark;                     /* cshim_seconds() up to which `figures` counts time */
    uint64_t iteration; /* pipeline iteration at which cshim_exchange_advance() continues */
    unsigned age;       /* age, in iterations, of the segment with which it continues */
};

/* Sets the ranges of the elements that this rank contributes and receives. With blocks, the
 * communicator's block_begins and, in an all-to-all, its sent_begins must be set. `in_place`: an
 * all-gather's input lies in its output, so advances exchange->input to this rank's block. */
void cshim_exchange_set_ranges(struct cshim_exchange *exchange, bool in_place);
/* Executes the call and waits for it. Returns 0 or a transport error. */
int cshim_exchange_run(struct cshim_exchange *exchange);
/* Starts an exchange; sends nothing yet. */
void cshim_exchange_begin(struct cshim_exchange *exchange);
/* Continues an exchange; sets *done to whether it is complete. If it is nonblocking, returns when
 * it would have to wait, or after about 1 ms. Returns 0 or a transport error. */
int cshim_exchange_advance(struct cshim_exchange *exchange, bool *done);

#endif
