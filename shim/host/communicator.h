/* SPDX-License-Identifier: Apache-2.0 */
/* What the runner keeps for the compressed calls of one communicator.
 *
 * An engine embeds this in what it knows of a communicator of its library. Calls on a communicator
 * come one at a time, so that nothing here has a lock. Where the library allows several at once,
 * the engine has one of these for each call under way. */
#ifndef CSHIM_HOST_COMMUNICATOR_H
#define CSHIM_HOST_COMMUNICATOR_H

#include "shim/core/layout.h"
#include "shim/core/tolerance.h"
#include "shim/report/job.h"
#include "shim/host/transport.h"

/* What rounding took from the elements of a buffer; zeros at first. */
struct cshim_residual {
    const void *buffer;
    uint64_t count;
    enum cshim_dtype dtype;
    uint64_t bytes; /* of memory, against the policy's limit */
    uint32_t
        used; /* the latest call that took it, of those that took residuals of its communicator */
    bool in_use; /* by a call under way */
    /* By kind of message and place in the buffer: from what this rank encoded of its own, and from
     * the sums it encoded as their owner, in a grid also from those of its row. */
    float *kept[CSHIM_MESSAGES];
    struct cshim_residual *next;
};

struct cshim_communicator {
    const struct cshim_transport *transport;
    struct cshim_job *job;
    struct cshim_communicator *whole; /* the one that has the residuals; NULL: this one */
    int rank;
    int ranks;
    struct cshim_layout layout;

    uint32_t number;         /* of the process's communicators that have had memory, from 0 */
    uint32_t sequence;       /* compressed calls so far */
    uint32_t *calls_by_rule; /* compressed calls per rule, to choose samples by */
    struct cshim_tolerance watch;
    const struct cshim_learned *learned; /* choices of an earlier job; NULL: calls are measured */
    struct cshim_class *classes; /* CSHIM_CLASSES_MAX; NULL where all rules say worth = always */
    struct cshim_residual *residuals; /* the latest used first */
    uint32_t residuals_taken;         /* by all calls */
    uint8_t *scratch;                 /* of the call under way */
    /* Where each rank's block begins and the last ends: ranks + 1 elements; the same of the blocks
     * that an all-to-all sends. */
    uint64_t *block_begins, *sent_begins;
    const void **parts; /* of a chunk, from each rank */
    int *share_lengths; /* of each local rank's share of a segment, in elements, ... */
    int *share_begins;  /* ... and where it begins; of blocks, where each node's does in the own */
};

/* Takes the memory that compressed calls need besides their scratch, for a communicator with rank,
 * ranks and layout. Returns false without memory; free it in either case. */
bool cshim_communicator_reserve(struct cshim_communicator *communicator);
/* Frees the memory, the residuals and the layout. */
void cshim_communicator_free(struct cshim_communicator *communicator);

/* Behind the scratch that other processes may read: what the ranks of a node tell each other. */
#define CSHIM_SCRATCH_INSIDE ((uint64_t)4 << 20)
#define CSHIM_SCRATCH_SHARED (CSHIM_SCRATCH_LIMIT + CSHIM_SCRATCH_INSIDE)

/* scratch.c: the scratch of calls under way: pieces of CSHIM_SCRATCH_LIMIT bytes of address space,
 * of which a process keeps as many as it has had calls under way at once. Their pages stay.
 * Thread-safe. */

/* Address space of zeros whose pages are taken as they are used; NULL without memory. */
void *cshim_scratch_map(size_t bytes);
/* Makes the first piece, if there is none yet: a process with one call at a time needs no other.
 * Returns false without memory. */
bool cshim_scratch_reserve(void);
/* Makes the first piece of a System V segment of CSHIM_SCRATCH_SHARED bytes that other processes of
 * the same user can attach, and writes the token into it. Returns the segment's number; -1 where
 * the system has none. Called before the functions below. */
int cshim_scratch_share(uint64_t token);
/* Attaches another process's piece to read it. Returns NULL if there is none with this number and
 * token: another container may give the number to another segment. */
const uint8_t *cshim_scratch_attach(int segment, uint64_t token);
void cshim_scratch_detach(const uint8_t *memory);
/* Has it be like any other piece: nobody reads it. */
void cshim_scratch_unshare(void);
bool cshim_scratch_is_shared(const uint8_t *scratch);
/* Takes a piece. Where there is no memory for another one, the message says so, and it returns
 * NULL: the caller ends the job. */
uint8_t *cshim_scratch_take(void);
/* Gives it back, once nothing writes to it any more. NULL is ignored. */
void cshim_scratch_give(uint8_t *scratch);
/* In a child of fork: a thread that it does not have may have held the lock. */
void cshim_scratch_abandon(void);

#endif
