/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/exchange.h"

#include "shim/core/clock.h"
#include "shim/host/cast.h"
#include "shim/host/segment.h"
#include "shim/host/steps.h"
#include "shim/host/inside.h"

/* A segment finishes this number of iterations after it starts (pipeline depth). */
#define PIPELINE_DEPTH (CSHIM_SEGMENTS_IN_FLIGHT - 1)
/* A nonblocking exchange returns control to the program after this time. */
#define TURN_SECONDS 1e-3

/* Returns true if this rank exchanges messages with peers. */
static bool has_peers(const struct cshim_exchange *exchange)
{
    return exchange->groups[CSHIM_ROW].rank >= 0;
}

/* Returns true if the ranks of this node gather their reduced shares: for a call with a root, on
 * its node only. */
static bool gathers(const struct cshim_exchange *exchange)
{
    const struct cshim_schedule *schedule = exchange->plan->schedule;
    const uint32_t node = (uint32_t)exchange->communicator->layout.node;
    return cshim_schedule_has(schedule, CSHIM_STEP_GATHER_INSIDE) &&
           cshim_schedule_gets_sums(schedule, node, exchange->root);
}

/* Starts a segment. All ranks of a node make its collectives in the same order; a rank without a
 * share does nothing else. */
static int start_segment(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    int status = 0;
    if (segment->stage != NULL)
        status = cshim_steps_reduce_inside(exchange, segment);
    if (status == 0 && has_peers(exchange))
        status = cshim_steps_begin(exchange, segment);
    return status;
}

/* Finishes a segment. */
static int finish_segment(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          bool *done)
{
    int status = 0;
    if (has_peers(exchange))
        status = cshim_steps_finish(exchange, segment, done);
    if (status == 0 && *done && gathers(exchange))
        status = cshim_steps_gather_inside(exchange, segment);
    return status;
}

/* Finds this rank's row and column of the grid. `peer`: index among the plan's peers; -1: none. */
static void find_groups(struct cshim_exchange *exchange, int peer)
{
    const struct cshim_grid *grid = &exchange->plan->grid;
    struct cshim_peer_group *row = &exchange->groups[CSHIM_ROW],
                            *column = &exchange->groups[CSHIM_COLUMN];
    uint32_t number, place;
    *row = *column = (struct cshim_peer_group){-1, 0};
    if (peer < 0)
        return;
    const bool has_column =
        cshim_grid_find(grid, (uint32_t)peer, &number, &exchange->column, &place);
    exchange->first_of_row = cshim_grid_row(grid, number);
    row->rank = peer - (int)exchange->first_of_row;
    row->ranks = (int)(cshim_grid_row(grid, number + 1) - exchange->first_of_row);
    if (has_column && grid->rows > 1)
        *column = (struct cshim_peer_group){(int)place, (int)cshim_grid_depth(grid)};
}

/* The peers are all ranks; in hierarchical, one rank of each node. */
void cshim_exchange_begin(struct cshim_exchange *exchange)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    int peer = communicator->rank;
    exchange->root = exchange->plan->root;
    if (exchange->plan->schedule->staged) {
        peer = (uint32_t)layout->local_rank < exchange->plan->shares ? layout->node : -1;
        exchange->root = (uint32_t)layout->node_of[exchange->root];
    }
    find_groups(exchange, peer);
    exchange->is_shared = communicator->transport->scratch_of != NULL && layout->local_ranks > 1 &&
                          cshim_steps_may_share(exchange->plan);
    exchange->is_shared_inside = cshim_steps_may_share_inside(exchange);
    exchange->barriers = 0;
    exchange->failed = 0;
    exchange->iteration = 0;
    exchange->stage = CSHIM_STAGE_ENTER;
}

/* Runs one stage of a pipeline iteration: one segment starts, earlier ones are summed, a still
 * earlier one finishes. Sets *done to false if it has to be run again. */
static int run_stage(struct cshim_exchange *exchange, bool *done)
{
    static const uint64_t depths[CSHIM_STAGE_COUNT] = {0, 1, 2, 2, PIPELINE_DEPTH};
    const uint64_t iteration = exchange->iteration, depth = depths[exchange->stage];
    *done = true;
    if (iteration == exchange->plan->segments + PIPELINE_DEPTH && exchange->plan->schedule->staged)
        return exchange->stage == CSHIM_STAGE_ENTER ? cshim_steps_close_inside(exchange) : 0;
    if (iteration == exchange->plan->segments + PIPELINE_DEPTH)
        return cshim_steps_close(exchange, exchange->stage == CSHIM_STAGE_ENTER, done);
    if (iteration < depth || iteration - depth >= exchange->plan->segments)
        return 0;
    const struct cshim_segment segment = cshim_segment_at(exchange, iteration - depth);
    if (exchange->stage == CSHIM_STAGE_ENTER)
        return start_segment(exchange, &segment);
    if (exchange->stage == CSHIM_STAGE_LEAVE)
        return finish_segment(exchange, &segment, done);
    if (exchange->stage == CSHIM_STAGE_SUM)
        return has_peers(exchange) ? cshim_steps_sum(exchange, &segment, CSHIM_ROW, done) : 0;
    if (exchange->groups[CSHIM_COLUMN].rank < 0)
        return 0;
    return exchange->stage == CSHIM_STAGE_FORWARD
               ? cshim_steps_forward(exchange, &segment, done)
               : cshim_steps_sum(exchange, &segment, CSHIM_COLUMN, done);
}

int cshim_exchange_advance(struct cshim_exchange *exchange, bool *done)
{
    const uint64_t iterations = exchange->plan->segments + PIPELINE_DEPTH +
                                (exchange->is_shared || exchange->is_shared_inside);
    int status = 0;
    *done = true;
    if (exchange->nonblocking)
        exchange->mark = cshim_seconds(); /* the time since the last call was the program's */
    const double deadline = exchange->mark + TURN_SECONDS;
    while (exchange->iteration < iterations) {
        status = run_stage(exchange, done);
        if (status != 0 || !*done)
            return status;
        if (++exchange->stage == CSHIM_STAGE_COUNT) {
            exchange->stage = CSHIM_STAGE_ENTER;
            exchange->iteration++;
        }
        if (exchange->nonblocking && cshim_seconds() > deadline) {
            *done = exchange->iteration == iterations;
            return status;
        }
    }
    return status;
}

int cshim_exchange_run(struct cshim_exchange *exchange)
{
    bool done;
    exchange->mark = cshim_seconds();
    if (exchange->plan->schedule->parts_to == CSHIM_TO_LIBRARY)
        return cshim_cast_run(exchange);
    cshim_exchange_begin(exchange);
    return cshim_exchange_advance(exchange, &done);
}
