/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the bytes that the ranks of a call send. Pure and thread-safe. */
#ifndef CSHIM_PLAN_BYTES_H
#define CSHIM_PLAN_BYTES_H

#include "shim/core/plan.h"

static inline uint64_t cshim_divide_up(uint64_t value, uint64_t by)
{
    return value / by + (value % by != 0);
}

/* Multiplies bytes; the product saturates at UINT64_MAX. */
static inline uint64_t cshim_multiply(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Returns the number of chunks of a share or, in a grid, of pieces of all its chunks; 1 if shares
 * are not divided (CSHIM_WHOLE). */
uint64_t cshim_plan_pieces(const struct cshim_plan *plan);

/* Sets the byte counts of a plan that is cut into segments: bytes_wire, the bytes that all ranks
 * send (each message counts as often as it is sent); bytes_network, those that leave a node; and
 * bytes_native. Intra-node reductions and gathers are counted with the least bytes that they need,
 * messages of packed codecs with the most. */
void cshim_plan_count_bytes(struct cshim_plan *plan, const struct cshim_call *call);

/* Returns the bytes that the busiest peer of an all-reduce receives in a segment of `elements`
 * elements, and in *mean the mean over all peers. A peer receives from its row the contributions to
 * its column's chunks, from its column the row sums of its own pieces, and finally the sums of all
 * chunks.
 * Doubles hold byte counts below 2^53 exactly, so that the returned value does not depend on
 * rounding. */
double cshim_plan_busiest(const struct cshim_plan *plan, uint64_t elements, double *mean);

#endif
