/* SPDX-License-Identifier: Apache-2.0 */
/* Prints figures of plans for jobs of 64 to 4096 nodes: for fp8 all-reduces by grid, or by the
 * algorithm given, the mean bytes that a node receives over the network, the bytes of the busiest
 * node and of the busiest rank, divided by the mean of all nodes or ranks, and the messages that
 * the busiest rank sends. docs/simulation.md has some rows of this table. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_CHECK(condition) assert(condition)
#include "tests/plan_properties.h"

/* Traffic of one rank, which is a peer for one share. */
struct load {
    uint64_t received; /* in bytes */
    uint64_t messages; /* number sent */
};

/* Adds each peer's traffic for one share of a segment. Overestimates the network traffic of a flat
 * all-reduce by about 1 / nodes, because it includes messages within a node. */
static void add_share(const struct cshim_plan *plan, uint32_t share, uint64_t elements,
                      struct load *loads)
{
    const bool is_whole = plan->schedule->division == CSHIM_WHOLE;
    const uint64_t others = plan->peers - 1;
    uint64_t owners = 0, sums = 0;
    for (uint32_t peer = 0; peer < plan->peers && !is_whole; peer++) {
        const uint64_t length = cshim_plan_owned(elements, plan->peers, share, peer).length;
        owners += length > 0;
        sums += message(plan, length);
    }
    for (uint32_t peer = 0; peer < plan->peers; peer++) {
        struct load *load = &loads[(uint64_t)peer * plan->shares + share];
        if (is_whole) {
            load->received += others * message(plan, elements);
            load->messages += others;
            continue;
        }
        const uint64_t length = cshim_plan_owned(elements, plan->peers, share, peer).length;
        load->received += others * message(plan, length) + sums - message(plan, length);
        load->messages += owners + (length > 0 ? others - 1 : 0);
    }
}

/* Adds the traffic for a share in a grid. */
static void add_grid_share(const struct cshim_plan *plan, uint32_t share, uint64_t elements,
                           struct load *loads)
{
    const struct cshim_grid *grid = &plan->grid;
    uint64_t *chunk = calloc(grid->columns, sizeof *chunk), all = 0;
    uint32_t chunks = 0;
    assert(chunk != NULL);
    for (uint32_t column = 0; column < grid->columns; column++) {
        for (uint32_t place = 0; place < cshim_grid_depth(grid); place++) {
            const uint64_t piece = cshim_grid_piece(grid, elements, share, column, place).length;
            if (piece == 0)
                continue;
            chunk[column] += message(plan, piece) - (chunk[column] > 0 ? CSHIM_HEADER_BYTES : 0);
            const uint32_t owner = cshim_grid_peer(grid, column, place);
            for (uint32_t row = 0; row < grid->rows; row++) {
                const uint32_t peer = cshim_grid_peer(grid, column, row);
                if (peer == owner)
                    continue;
                struct load *one = &loads[(uint64_t)peer * plan->shares + share];
                struct load *other = &loads[(uint64_t)owner * plan->shares + share];
                one->received += message(plan, piece);
                other->received += message(plan, piece);
                one->messages++;
                other->messages++;
            }
        }
        all += chunk[column];
        chunks += cshim_plan_owned(elements, grid->columns, share, column).length > 0;
    }
    for (uint32_t row = 0; row < grid->rows; row++) {
        const uint32_t first = cshim_grid_row(grid, row);
        const uint32_t others = cshim_grid_row(grid, row + 1) - first - 1;
        for (uint32_t place = 0; place <= others; place++) {
            const uint64_t own = place < grid->columns ? chunk[place] : 0;
            struct load *load = &loads[(uint64_t)(first + place) * plan->shares + share];
            load->received += own * others + all - own;
            load->messages += own > 0 ? chunks - 1 + others : chunks;
        }
    }
    free(chunk);
}

static void print_figures(const struct cshim_policy *policy, uint32_t nodes, uint32_t per_node,
                          uint64_t bytes)
{
    const struct cshim_call call = {.library = CSHIM_MPI,
                                    .collective = CSHIM_ALLREDUCE,
                                    .dtype = CSHIM_FLOAT32,
                                    .op = CSHIM_SUM,
                                    .bytes = bytes,
                                    .ranks = nodes * per_node,
                                    .nodes = nodes,
                                    .ranks_per_node = per_node};
    const struct cshim_plan plan = cshim_plan_call(policy, &call, bytes / sizeof(float));
    printf("| %u × %u | %llu KiB | ", nodes, per_node, (unsigned long long)bytes >> 10);
    if (plan.reason != CSHIM_REASON_COMPRESS) {
        printf("%s | - | - | - | - |\n", cshim_reason_name(plan.reason));
        return;
    }
    struct load *loads = calloc((size_t)plan.peers * plan.shares, sizeof *loads);
    assert(loads != NULL);
    for (uint64_t at = 0; at < plan.count; at += plan.segment) {
        const uint64_t left = plan.count - at;
        const uint64_t elements = left < plan.segment ? left : plan.segment;
        for (uint32_t share = 0; share < plan.shares; share++) {
            const uint64_t length = cshim_plan_chunk(elements, plan.shares, share).length;
            if (length > 0 && is_grid(&plan))
                add_grid_share(&plan, share, length, loads);
            else if (length > 0)
                add_share(&plan, share, length, loads);
        }
    }
    uint64_t all = 0, busiest_node = 0, busiest_rank = 0, messages = 0;
    for (uint32_t node = 0; node < plan.peers; node++) {
        uint64_t of_node = 0;
        for (uint32_t share = 0; share < plan.shares; share++) {
            const struct load *load = &loads[(uint64_t)node * plan.shares + share];
            of_node += load->received;
            busiest_rank = load->received > busiest_rank ? load->received : busiest_rank;
            messages = load->messages > messages ? load->messages : messages;
        }
        all += of_node;
        busiest_node = of_node > busiest_node ? of_node : busiest_node;
    }
    free(loads);
    const double mean_rank = (double)all / plan.ranks;
    printf("%s | %.3g MB | %.2f | %.2f | %llu |\n", cshim_algorithm_name(plan.algorithm),
           (double)all / nodes / 1e6, (double)busiest_node * plan.peers / (double)all,
           (double)busiest_rank / mean_rank, (unsigned long long)messages);
}

int main(int argc, char **argv)
{
    char text[128];
    static const uint32_t nodes[] = {64, 256, 1024, 4096}, per_node[] = {1, 8, 128};
    static const uint64_t sizes[] = {64 << 10, 1 << 20, 64 << 20};
    char problem[CSHIM_MESSAGE_MAX];
    snprintf(text, sizeof text, "[rule all]\ncodec = fp8_e4m3\nworth = always\nalgorithm = %s\n",
             argc > 1 ? argv[1] : "grid");
    struct cshim_policy *policy = cshim_policy_parse(text, strlen(text), "fp8", problem);
    assert(policy != NULL);
    printf(
        "| nodes × ranks | size | algorithm | mean bytes of a node | busiest node | busiest rank "
        "| messages of the busiest rank |\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        for (size_t k = 0; k < sizeof per_node / sizeof *per_node; k++)
            for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++)
                print_figures(policy, nodes[i], per_node[k], sizes[size]);
    cshim_policy_free(policy);
    return 0;
}
