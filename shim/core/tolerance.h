/* SPDX-License-Identifier: Apache-2.0 */
/* Adaptive precision (max_rel_error): measures the error of encoding on a sample of each call; if
 * it is too large, later calls of the same class of tensors use a more precise codec. Pure: the
 * same calls with the same errors lead to the same codecs on every rank. */
#ifndef CSHIM_TOLERANCE_H
#define CSHIM_TOLERANCE_H

#include "shim/core/plan.h"

#define CSHIM_WATCH_SLOTS 1024u

/* Codec of each class of tensors (rule, dtype and count) on one communicator, in a hash table;
 * CSHIM_CODEC_NONE: the rule's. Classes of one dtype may collide: each then uses the entry's codec
 * if cshim_tolerance_codec() allows. Classes of different dtypes never collide, because not every
 * codec encodes both dtypes. */
struct cshim_tolerance {
    uint8_t codec[CSHIM_DTYPE_COUNT][CSHIM_WATCH_SLOTS];
};

/* Returns the codec to use instead of the rule's codec `own`, or CSHIM_CODEC_NONE. Never returns a
 * less precise one, even if another class has changed the entry. */
enum cshim_codec_id cshim_tolerance_codec(const struct cshim_tolerance *tolerance, size_t rule,
                                          enum cshim_codec_id own, enum cshim_dtype dtype,
                                          uint64_t count);

/* Sets the codec of the plan's class to the next more precise one that encodes the dtype, and is
 * neither packed nor a format of OCP or NVIDIA; the most precise is raw. Returns it. */
enum cshim_codec_id cshim_tolerance_change(struct cshim_tolerance *tolerance, size_t rule,
                                           const struct cshim_plan *plan);

/* Returns the relative L2 error of encoding, with rounding to nearest and no residual, 16 grains
 * that are spread evenly over `count` elements (all elements if there are fewer grains). Ignores
 * elements that are not finite. Returns 0 for exact codecs, and if all finite elements of these
 * grains are 0. Allocates nothing. */
float cshim_tolerance_measure(const struct cshim_plan *plan, const void *input, uint64_t count);

#endif
