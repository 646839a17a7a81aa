/* SPDX-License-Identifier: Apache-2.0 */
/* max_rel_error: the encoder's own error, measured on a sample of each call, and the more precise
 * codec that a kind of tensor moves to when it is too large. Pure: the same calls with the same
 * errors lead to the same codecs on every rank. */
#ifndef CSHIM_TOLERANCE_H
#define CSHIM_TOLERANCE_H

#include "shim/core/plan.h"

#define CSHIM_WATCH_SLOTS 1024u

/* Codecs by kind of tensor (rule, dtype and count) on one communicator; CSHIM_CODEC_NONE: the
 * rule's own. Kinds may share a slot: then the one is as precise as the other has to be. */
struct cshim_tolerance {
    uint8_t codec[CSHIM_WATCH_SLOTS];
};

/* The codec to use instead of `own`, the rule's, or CSHIM_CODEC_NONE: never a less precise one, nor
 * one that does not carry the dtype, whoever it was that moved the slot. */
enum cshim_codec_id cshim_tolerance_codec(const struct cshim_tolerance *watch, size_t rule,
                                          enum cshim_codec_id own, enum cshim_dtype dtype,
                                          uint64_t count);

/* Moves a kind to the next more precise codec than the plan's: the least precise of those that are
 * better and carry the dtype, raw at last. Returns it. */
enum cshim_codec_id cshim_tolerance_move(struct cshim_tolerance *watch, size_t rule,
                                         const struct cshim_plan *plan);

/* The relative L2 error of encoding 16 grains of `count` elements, spread evenly (all of them where
 * they are fewer); elements that are not finite are left out. 0 for nothing. Allocates nothing. */
float cshim_tolerance_measure(const struct cshim_plan *plan, const void *input, uint64_t count);

#endif
