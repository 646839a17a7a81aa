/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/exchange.h"

#include "shim/core/clock.h"
#include "shim/host/cast.h"
#include "shim/host/segment.h"
#include "shim/host/steps.h"
#include "shim/host/inside.h"

/* A segment begins; it finishes so many segments later. */
#define FINISH_LAG (CSHIM_SEGMENTS_IN_FLIGHT - 1)
/* A nonblocking exchange gives the program its processor back after so long. */
#define TURN_SECONDS 1e-3

static bool has_peers(const struct cshim_exchange *exchange)
{
    return exchange->lines[CSHIM_ROW].rank >= 0;
}

/* Whether the ranks of this node put the sums of their shares together: for a root, its node's. */
static bool gathers(const struct cshim_exchange *exchange)
{
    const struct cshim_schedule *schedule = exchange->plan->schedule;
    const uint32_t node = (uint32_t)exchange->communicator->layout.node;
    return cshim_schedule_has(schedule, CSHIM_STEP_GATHER_INSIDE) &&
           cshim_schedule_gets_sums(schedule, node, exchange->root);
}

/* All ranks of a node come to its collectives in the same order. A rank without a share does
 * nothing between them. */
static int enter(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    int status = 0;
    if (segment->stage != NULL)
        status = cshim_steps_reduce_inside(exchange, segment);
    if (status == 0 && has_peers(exchange))
        status = cshim_steps_begin(exchange, segment);
    return status;
}

static int leave(struct cshim_exchange *exchange, const struct cshim_segment *segment, bool *done)
{
    int status = 0;
    if (has_peers(exchange))
        status = cshim_steps_finish(exchange, segment, done);
    if (status == 0 && *done && gathers(exchange))
        status = cshim_steps_gather_inside(exchange, segment);
    return status;
}

/* Finds the row and the column of this rank, which is a peer, or -1. */
static void find_lines(struct cshim_exchange *exchange, int peer)
{
    const struct cshim_grid *grid = &exchange->plan->grid;
    struct cshim_line *row = &exchange->lines[CSHIM_ROW], *column = &exchange->lines[CSHIM_COLUMN];
    uint32_t number, place;
    *row = *column = (struct cshim_line){-1, 0};
    if (peer < 0)
        return;
    const bool has_column =
        cshim_grid_find(grid, (uint32_t)peer, &number, &exchange->column, &place);
    exchange->first_of_row = cshim_grid_row(grid, number);
    row->rank = peer - (int)exchange->first_of_row;
    row->ranks = (int)(cshim_grid_row(grid, number + 1) - exchange->first_of_row);
    if (has_column && grid->rows > 1)
        *column = (struct cshim_line){(int)place, (int)cshim_grid_depth(grid)};
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
    find_lines(exchange, peer);
    exchange->is_shared = communicator->transport->scratch_of != NULL && layout->local_ranks > 1 &&
                          cshim_steps_may_share(exchange->plan);
    exchange->is_shared_inside = cshim_steps_may_share_inside(exchange);
    exchange->meetings = 0;
    exchange->failed = 0;
    exchange->turn = 0;
    exchange->stage = CSHIM_STAGE_ENTER;
}

/* One stage of a turn: a segment begins, earlier ones are summed, a still earlier one finishes. */
static int take_stage(struct cshim_exchange *exchange, bool *done)
{
    static const uint64_t lags[CSHIM_STAGE_COUNT] = {0, 1, 2, 2, FINISH_LAG};
    const uint64_t turn = exchange->turn, lag = lags[exchange->stage];
    *done = true;
    if (turn == exchange->plan->segments + FINISH_LAG && exchange->plan->schedule->staged)
        return exchange->stage == CSHIM_STAGE_ENTER ? cshim_steps_close_inside(exchange) : 0;
    if (turn == exchange->plan->segments + FINISH_LAG)
        return cshim_steps_close(exchange, exchange->stage == CSHIM_STAGE_ENTER, done);
    if (turn < lag || turn - lag >= exchange->plan->segments)
        return 0;
    const struct cshim_segment segment = cshim_segment_at(exchange, turn - lag);
    if (exchange->stage == CSHIM_STAGE_ENTER)
        return enter(exchange, &segment);
    if (exchange->stage == CSHIM_STAGE_LEAVE)
        return leave(exchange, &segment, done);
    if (exchange->stage == CSHIM_STAGE_SUM)
        return has_peers(exchange) ? cshim_steps_sum(exchange, &segment, CSHIM_ROW, done) : 0;
    if (exchange->lines[CSHIM_COLUMN].rank < 0)
        return 0;
    return exchange->stage == CSHIM_STAGE_FORWARD
               ? cshim_steps_forward(exchange, &segment, done)
               : cshim_steps_sum(exchange, &segment, CSHIM_COLUMN, done);
}

int cshim_exchange_advance(struct cshim_exchange *exchange, bool *done)
{
    const uint64_t turns =
        exchange->plan->segments + FINISH_LAG + (exchange->is_shared || exchange->is_shared_inside);
    int status = 0;
    *done = true;
    if (exchange->nonblocking)
        exchange->mark = cshim_seconds(); /* since the last time the program computed */
    const double deadline = exchange->mark + TURN_SECONDS;
    while (exchange->turn < turns) {
        status = take_stage(exchange, done);
        if (status != 0 || !*done)
            return status;
        if (++exchange->stage == CSHIM_STAGE_COUNT) {
            exchange->stage = CSHIM_STAGE_ENTER;
            exchange->turn++;
        }
        if (exchange->nonblocking && cshim_seconds() > deadline) {
            *done = exchange->turn == turns;
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
