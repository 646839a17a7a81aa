/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's bytes: what the ranks of a call send each other by a plan that is cut already. Only
 * plan.c includes this. Pure, and thread-safe. */
#ifndef CSHIM_PLAN_BYTES_H
#define CSHIM_PLAN_BYTES_H

#include "shim/core/plan.h"

static inline uint64_t cshim_divide_up(uint64_t value, uint64_t by)
{
    return value / by + (value % by != 0);
}

/* Products of bytes stop at UINT64_MAX: a figure that large is beyond any machine. */
static inline uint64_t cshim_multiply(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* How many chunks the peers have of a share, or pieces of chunks. */
uint64_t cshim_plan_pieces(const struct cshim_plan *plan);

/* What all ranks send, each message counted as often as it is sent; and of it, what leaves a node.
 * Inside the nodes ranks add, and may gather: as the fewest bytes that messages take. */
void cshim_plan_count_bytes(struct cshim_plan *plan, const struct cshim_call *call);

/* What the busiest peer receives of so many elements, and in *mean what each does on the mean. Of a
 * row all send it their parts of the chunks that its column owns, of its column their sums of the
 * pieces that it owns itself. Then come the sums of all chunks. Bytes are whole numbers, so the sum
 * is the same however a program rounds. */
double cshim_plan_busiest(const struct cshim_plan *plan, uint64_t elements, double *mean);

#endif
