/* SPDX-License-Identifier: Apache-2.0 */
/* The sampled error of a report: for some calls a few elements are also summed in float64 and
 * compared with the compressed result. All engines use these functions to select calls and
 * elements, and to compute the error. Pure, thread-safe, allocates nothing. */
#ifndef CSHIM_SAMPLE_H
#define CSHIM_SAMPLE_H

#include "codecs/codec.h"
#include "shim/core/row.h"

/* Calls that may be sampled: numbers 1 to 16 of each rule and communicator (gloo: of each context),
 * then each multiple of 1021. Because 1021 is prime, each tensor of a program that cycles through
 * fewer than 1021 tensors is sampled. Up to CSHIM_SAMPLE_MAX elements of such a call are
 * sampled. */
#define CSHIM_SAMPLE_MAX 128u
#define CSHIM_SAMPLES_AT_FIRST 16u
#define CSHIM_SAMPLES_EVERY 1021u
static inline bool cshim_is_sampled(uint32_t call)
{
    return call <= CSHIM_SAMPLES_AT_FIRST || call % CSHIM_SAMPLES_EVERY == 0;
}

/* Returns the bytes of the block that NCCL gathers from each rank to sample a reduction: a factor,
 * followed by elements. The block is shorter if there are many ranks; 0: too many ranks, nothing is
 * sampled. The bytes do not depend on the call, so that sampling does not hide that ranks make
 * different calls. */
#define CSHIM_SAMPLE_GATHERED_BYTES ((uint64_t)64 << 10)
#define CSHIM_SAMPLE_FACTOR_BYTES ((uint64_t)8)
uint64_t cshim_sample_block_bytes(uint32_t ranks);
/* Returns the number of sampled elements in a block, if a rank's result has `count` elements. */
uint32_t cshim_sample_block_elements(uint32_t ranks, enum cshim_dtype dtype, uint64_t count);

/* Returns the index of the first of `length` sampled elements out of `count`. It depends on the
 * call's number, so that samples come from all parts of the result. */
uint64_t cshim_sample_place(uint64_t count, uint32_t length, uint32_t call);

/* Widens `length` elements to float64; exact for every dtype. */
void cshim_sample_widen(enum cshim_dtype dtype, const void *from, uint32_t length, double *to);

/* Adds the errors of results to a call's figures. Leaves out elements whose error or exact sum has
 * a square that is not finite. */
void cshim_sample_add(struct cshim_row *figures, const double *results, const double *sums,
                      uint32_t length);

#endif
