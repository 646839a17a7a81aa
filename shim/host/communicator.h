/* SPDX-License-Identifier: Apache-2.0 */
/* State of the runner for the compressed calls of one communicator.
 *
 * An engine embeds this struct in its own state of a communicator. Calls on a communicator must not
 * be concurrent, so only the residuals are guarded by a lock. If the library allows concurrent
 * calls, the engine has a struct cshim_communicator for each call under way. */
#ifndef CSHIM_HOST_COMMUNICATOR_H
#define CSHIM_HOST_COMMUNICATOR_H

#include "shim/core/compiler.h"
#include "shim/core/layout.h"
#include "shim/core/tolerance.h"
#include "shim/report/job.h"
#include "shim/report/residual.h"
#include "shim/host/transport.h"

struct cshim_communicator {
    const struct cshim_transport *transport;
    struct cshim_job *job;
    struct cshim_communicator *whole; /* communicator that has the residuals; NULL: itself */
    int rank;
    int ranks;
    struct cshim_layout layout;

    uint32_t number;         /* unique in this process, from 0; gloo: that of `whole` */
    uint32_t sequence;       /* number of compressed calls so far; gloo: unused */
    uint32_t *calls_by_rule; /* compressed calls by rule: for samples, intervals; gloo: unused */
    struct cshim_tolerance tolerance;
    const struct cshim_learned *learned; /* choices of an earlier job; NULL: calls are measured */
    struct cshim_class *classes; /* MPI: CSHIM_CLASSES_MAX entries; NULL with gloo, or if no rule's
                                    calls are measured */
    struct cshim_residuals residuals;
    uint8_t *scratch;         /* scratch of the call under way */
    struct cshim_lists lists; /* cache of compiled operations */
    /* Offset of each rank's block, and the end of the last: ranks + 1 entries. sent_begins: the
     * same for the blocks that an all-to-all sends. */
    uint64_t *block_begins, *sent_begins;
    const void **inputs; /* inputs of the operation under way */
    /* hierarchical: offset and length of each local rank's share of a segment, in elements; in a
     * reduce-scatter also the offset of each node's chunk in this rank's share. */
    int *share_begins, *share_lengths, *chunk_begins;
};

/* Allocates the arrays and sets `number` and `residuals`, after job, ranks and layout are set.
 * Returns false if there is no memory. The caller calls cshim_communicator_free() in either
 * case. */
bool cshim_communicator_reserve(struct cshim_communicator *communicator);
/* Returns the job's ledger at rank 0, which counts the calls of all ranks; NULL at other ranks. */
static inline struct cshim_ledger *
cshim_communicator_ledger(const struct cshim_communicator *communicator)
{
    return communicator->rank == 0 ? &communicator->job->ledger : NULL;
}
/* Frees the arrays, the classes, the residuals, the compiled operations and the layout. */
void cshim_communicator_free(struct cshim_communicator *communicator);

#endif
