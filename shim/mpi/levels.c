/* SPDX-License-Identifier: Apache-2.0 */
/* hierarchical inside the node: the library's own reduce-scatter and all-gather, over shared
 * memory, around an exchange between the nodes of which every local rank carries its share.
 *
 * There are as many shares as ranks on the node with the fewest; ranks beyond that give their
 * elements and take the result.
 */
#include "shim/mpi/internal.h"

struct cshim_range cshim_levels_share(const struct cshim_exchange *exchange,
                                      const struct cshim_range *segment, int local_rank)
{
    struct cshim_range share = {segment->begin + segment->length, 0};
    const uint32_t shares = exchange->plan->shares;
    if ((uint32_t)local_rank >= shares)
        return share;
    cshim_plan_chunk(segment->length, shares, (uint32_t)local_rank, &share.begin, &share.length);
    share.begin += segment->begin;
    return share;
}

static void find_shares(const struct cshim_exchange *exchange, const struct cshim_range *segment)
{
    struct cshim_comm *comm = exchange->comm;
    for (int i = 0; i < comm->layout.local_ranks; i++) {
        const struct cshim_range share = cshim_levels_share(exchange, segment, i);
        comm->share_begins[i] = (int)(share.begin - segment->begin);
        comm->share_lengths[i] = (int)share.length;
    }
}

/* What a reduce-scatter or an all-gather sends at least, counted once for the node. */
static void count_bytes(struct cshim_exchange *exchange, const struct cshim_range *segment)
{
    const struct cshim_layout *layout = &exchange->comm->layout;
    if (layout->local_rank == 0)
        exchange->figures.bytes_wire +=
            (uint64_t)(layout->local_ranks - 1) * segment->length * exchange->element_bytes;
}

int cshim_levels_reduce(struct cshim_exchange *exchange, const struct cshim_range *segment,
                        uint8_t *stage)
{
    const double began = cshim_seconds();
    find_shares(exchange, segment);
    count_bytes(exchange, segment);
    const int status = cshim_job.real->MPI_Reduce_scatter(
        exchange->input + segment->begin * exchange->element_bytes, stage,
        exchange->comm->share_lengths, cshim_mpi_datatype(exchange->plan->dtype), MPI_SUM,
        exchange->comm->node);
    cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, began);
    return status;
}

int cshim_levels_gather(struct cshim_exchange *exchange, const struct cshim_range *segment,
                        const uint8_t *stage)
{
    const double began = cshim_seconds();
    const MPI_Datatype datatype = cshim_mpi_datatype(exchange->plan->dtype);
    const struct cshim_comm *comm = exchange->comm;
    find_shares(exchange, segment);
    count_bytes(exchange, segment);
    const int status = cshim_job.real->MPI_Allgatherv(
        stage, comm->share_lengths[comm->layout.local_rank], datatype,
        exchange->output + segment->begin * exchange->element_bytes, comm->share_lengths,
        comm->share_begins, datatype, comm->node);
    cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, began);
    return status;
}
