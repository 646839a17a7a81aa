/* SPDX-License-Identifier: Apache-2.0 */
/* The reissued collective: allgather (one shot), two_shot and hierarchical, in segments of which
 * several are in flight, so that encoding, wire, reducing and decoding overlap.
 *
 * two_shot, per segment: every rank encodes one chunk for each rank and sends it there; the chunk's
 * owner decodes and adds the parts in rank order, encodes the sum once, sends it to all, and
 * decodes what it sent like everybody else. allgather: every rank sends its whole segment to all,
 * and all add the parts in rank order. hierarchical: the same as two_shot, between one rank of each
 * node, over that rank's share of the node's sum.
 *
 * A reduce is the same, but that only the root gets the sums: all send to it at once, or it
 * collects them from the owners. A reduce_scatter is the first half of two_shot, with chunks of the
 * ranks' results.
 */
#include "shim/mpi/segment.h"

/* A segment begins, is reduced this many segments later, and finishes after that. */
#define REDUCE_LAG 1u
#define FINISH_LAG (CSHIM_SEGMENTS_IN_FLIGHT - 1)

/* The stages with what hierarchical does before and after them. All ranks of a node come to its
 * collectives in the same order; a rank without share does nothing between them. */
static int enter(struct cshim_exchange *exchange, uint64_t index)
{
    const struct cshim_segment segment = cshim_segment_at(exchange, index);
    int status = MPI_SUCCESS;
    if (segment.stage != NULL)
        status = cshim_levels_reduce(exchange, &segment.whole, segment.stage);
    if (status == MPI_SUCCESS && exchange->peers != MPI_COMM_NULL)
        status = cshim_segment_begin(exchange, &segment);
    return status;
}

static int reduce(struct cshim_exchange *exchange, uint64_t index, bool *done)
{
    const struct cshim_segment segment = cshim_segment_at(exchange, index);
    if (exchange->peers == MPI_COMM_NULL)
        return MPI_SUCCESS;
    return cshim_segment_reduce(exchange, &segment, done);
}

static int leave(struct cshim_exchange *exchange, uint64_t index, bool *done)
{
    const struct cshim_segment segment = cshim_segment_at(exchange, index);
    int status = MPI_SUCCESS;
    if (exchange->peers != MPI_COMM_NULL)
        status = cshim_segment_finish(exchange, &segment, done);
    if (status == MPI_SUCCESS && *done && segment.stage != NULL)
        status = cshim_levels_gather(exchange, &segment.whole, segment.stage);
    return status;
}

static void find_peers(struct cshim_exchange *exchange)
{
    const struct cshim_comm *comm = exchange->comm;
    const bool levels = exchange->plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL;
    exchange->peers = levels ? comm->across : comm->comm;
    exchange->rank = levels ? comm->layout.node : comm->rank;
    exchange->ranks = (int)exchange->plan->peers;
}

void cshim_exchange_begin(struct cshim_exchange *exchange)
{
    find_peers(exchange);
    exchange->turn = 0;
    exchange->stage = CSHIM_STAGE_ENTER;
}

/* One stage of a turn: a segment begins, an earlier one is reduced, a still earlier one finishes.
 */
static int take_stage(struct cshim_exchange *exchange, bool *done)
{
    const uint64_t turn = exchange->turn, segments = exchange->plan->segments;
    *done = true;
    switch (exchange->stage) {
    case CSHIM_STAGE_ENTER:
        return turn < segments ? enter(exchange, turn) : MPI_SUCCESS;
    case CSHIM_STAGE_REDUCE:
        return turn >= REDUCE_LAG && turn - REDUCE_LAG < segments
                   ? reduce(exchange, turn - REDUCE_LAG, done)
                   : MPI_SUCCESS;
    case CSHIM_STAGE_LEAVE:
        return turn >= FINISH_LAG ? leave(exchange, turn - FINISH_LAG, done) : MPI_SUCCESS;
    case CSHIM_STAGE_COUNT:
        break;
    }
    return MPI_SUCCESS;
}

int cshim_exchange_advance(struct cshim_exchange *exchange, bool *done)
{
    const uint64_t turns = exchange->plan->segments + FINISH_LAG;
    int status = MPI_SUCCESS;
    *done = true;
    while (exchange->turn < turns) {
        status = take_stage(exchange, done);
        if (status != MPI_SUCCESS || !*done)
            return status;
        if (++exchange->stage == CSHIM_STAGE_COUNT) {
            exchange->stage = CSHIM_STAGE_ENTER;
            exchange->turn++;
        }
    }
    return status;
}

int cshim_exchange_run(struct cshim_exchange *exchange)
{
    bool done;
    cshim_exchange_begin(exchange);
    return cshim_exchange_advance(exchange, &done);
}
