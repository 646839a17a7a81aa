/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/communicator.h"

#include <stdlib.h>

#include "shim/host/exchange.h"
#include "shim/host/feedback.h"

bool cshim_communicator_reserve(struct cshim_communicator *communicator)
{
    static uint32_t reserved;
    const size_t ranks = (size_t)communicator->ranks;
    const size_t local_ranks = (size_t)communicator->layout.local_ranks;
    communicator->residuals = cshim_feedback_none;
    if (communicator->whole == NULL)
        communicator->number = __atomic_fetch_add(&reserved, 1, __ATOMIC_RELAXED);
    communicator->calls_by_rule =
        calloc(communicator->job->policy->rule_count, sizeof *communicator->calls_by_rule);
    communicator->block_begins = calloc(2 * (ranks + 1), sizeof *communicator->block_begins);
    communicator->sent_begins = communicator->block_begins + ranks + 1;
    communicator->inputs = calloc(ranks, sizeof *communicator->inputs);
    communicator->share_begins = calloc(2 * local_ranks, sizeof *communicator->share_begins);
    communicator->share_lengths = communicator->share_begins + local_ranks;
    communicator->chunk_begins = calloc(ranks, sizeof *communicator->chunk_begins);
    return communicator->calls_by_rule != NULL && communicator->block_begins != NULL &&
           communicator->inputs != NULL && communicator->share_begins != NULL &&
           communicator->chunk_begins != NULL;
}

void cshim_communicator_free(struct cshim_communicator *communicator)
{
    cshim_residuals_free(&communicator->residuals);
    cshim_layout_free(&communicator->layout);
    cshim_lists_free(&communicator->lists);
    free(communicator->classes);
    free(communicator->chunk_begins);
    free(communicator->share_begins);
    free((void *)communicator->inputs);
    free(communicator->block_begins);
    free(communicator->calls_by_rule);
}
