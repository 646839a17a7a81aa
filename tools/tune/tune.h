/* SPDX-License-Identifier: Apache-2.0 */
/* compshim tune: measures the all-reduces of a machine or cluster, and writes a policy for it. */
#ifndef TOOL_TUNE_H
#define TOOL_TUNE_H

#include "shim/core/plan.h"

#define TUNE_WAYS_MAX 32u
#define TUNE_SIZES_MAX 32u

/* A codec and an algorithm for a call. */
struct tune_way {
    enum cshim_codec_id codec;
    enum cshim_algorithm algorithm; /* never AUTO */
};

/* Seconds of an all-reduce of float32 on the slowest rank: the median call of the best round. */
struct tune_size {
    uint64_t bytes;
    double native;
    double ways[TUNE_WAYS_MAX]; /* NAN: not measured */
};

/* All measurements that a policy is made of. */
struct tune_measured {
    uint32_t ranks;
    uint32_t nodes;
    size_t way_count;
    struct tune_way ways[TUNE_WAYS_MAX];
    size_t size_count;
    struct tune_size sizes[TUNE_SIZES_MAX]; /* from the smallest up */
};

#define TUNE_NATIVE SIZE_MAX

/* decide.c: pure, the same measurements give the same policy.
 *
 * Chooses a way for each size, or TUNE_NATIVE. A way may be chosen if its expected error is at most
 * max_rel_error and it was at least 5 % faster than the native call. Among the ways within 5 % of
 * the fastest, the one of the next larger size is chosen, else the most precise. Where only one
 * size in a row would gain and the next larger one is native, it is native, too. */
void tune_choose(const struct tune_measured *measured, double max_rel_error,
                 size_t choices[TUNE_SIZES_MAX]);
/* The expected relative L2 error of a way's result, for normally distributed data. */
double tune_error(const struct tune_way *way, uint32_t ranks);
/* The choices as a policy, with what was measured as comments. */
char *tune_policy(const struct tune_measured *measured, double max_rel_error);

/* measure.c: whether tune measures an algorithm with a codec on so many ranks and nodes. */
bool tune_is_measured(const struct tune_measured *measured, enum cshim_codec_id codec,
                      enum cshim_algorithm algorithm);
/* Runs the benchmark by `launcher` (a command to which the program is added) in every
 * way for about `seconds`, with files in a folder beside `output` that is removed at the end. The
 * caller has set the bytes of the sizes; the rest of *measured is filled in. The largest sizes are
 * left out if they would take too long. Exits, with a message, if a run fails or is interrupted. */
void tune_measure(char *const *launcher, double seconds, const char *output,
                  struct tune_measured *measured);

#endif
