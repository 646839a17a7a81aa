/* SPDX-License-Identifier: Apache-2.0 */
/* The error that a run reports: of some calls a few elements are also summed in float64, and
 * compared with the compressed result. Here is what both engines do alike: which calls, which
 * elements, and what is told of them. Pure, thread-safe, allocates nothing. */
#ifndef CSHIM_SAMPLE_H
#define CSHIM_SAMPLE_H

#include "codecs/codec.h"
#include "shim/core/row.h"

/* The calls under a rule on a communicator: the first 16, then every 1021st: a prime, so that a
 * program whose tensors come in turns has each of them sampled. Of such a call up to
 * CSHIM_SAMPLE_MAX elements. */
#define CSHIM_SAMPLE_MAX 128u
#define CSHIM_SAMPLES_AT_FIRST 16u
#define CSHIM_SAMPLES_EVERY 1021u
static inline bool cshim_is_sampled(uint32_t call)
{
    return call <= CSHIM_SAMPLES_AT_FIRST || call % CSHIM_SAMPLES_EVERY == 0;
}

/* NCCL: a block of each of `ranks` ranks is gathered, a factor and elements behind it. It has one
 * length whatever is called, so that ranks whose calls differ find out as they would without it;
 * where ranks are many it is shorter. 0: too many, nothing is sampled. */
#define CSHIM_SAMPLE_GATHERED_BYTES ((uint64_t)64 << 10)
#define CSHIM_SAMPLE_FACTOR_BYTES ((uint64_t)8)
uint64_t cshim_sample_block_bytes(uint32_t ranks);
/* The elements in it, of `count` in a rank's result. */
uint32_t cshim_sample_block_elements(uint32_t ranks, enum cshim_dtype dtype, uint64_t count);

/* The first of `length` elements out of `count`, spread over the calls. */
uint64_t cshim_sample_place(uint64_t count, uint32_t length, uint32_t call);

/* Widens `length` elements to float64; exact for every dtype. */
void cshim_sample_widen(enum cshim_dtype dtype, const void *from, uint32_t length, double *to);

/* Adds the errors of results to a call's figures. Elements are left out if they are not finite, or
 * if a square is not. */
void cshim_sample_add(struct cshim_row *figures, const double *results, const double *sums,
                      uint32_t length);

#endif
