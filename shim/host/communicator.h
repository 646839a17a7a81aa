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

#endif
