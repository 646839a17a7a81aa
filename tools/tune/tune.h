/* SPDX-License-Identifier: Apache-2.0 */
/* compshim tune: measures the all-reduces of a machine or cluster, and writes a policy for it. A
 * `way` is a combination of codec and algorithm. */
#ifndef TOOL_TUNE_H
#define TOOL_TUNE_H

#include "shim/core/plan.h"

/* Room for every combination. */
#define TUNE_WAYS_MAX ((size_t)CSHIM_CODEC_COUNT * CSHIM_ALGORITHM_COUNT)
#define TUNE_SIZES_MAX 32u

/* Combination of a codec and an algorithm. */
struct tune_way {
    enum cshim_codec_id codec;
    enum cshim_algorithm algorithm; /* never AUTO */
};

/* Seconds of a float32 all-reduce on the slowest rank: the median call of the best round. */
struct tune_size {
    uint64_t bytes;
    double native;
    double ways[TUNE_WAYS_MAX]; /* NAN: not measured */
};

/* Measurements that a policy is made from. */
struct tune_measured {
    uint32_t ranks;
    uint32_t nodes;
    size_t way_count;
    struct tune_way ways[TUNE_WAYS_MAX];
    size_t size_count;
    struct tune_size sizes[TUNE_SIZES_MAX]; /* in ascending order */
};

#define TUNE_NATIVE SIZE_MAX

/* Chooses a way for each size, or TUNE_NATIVE (decide.c). Pure: equal arguments give equal
 * choices.
 *
 * A way may be chosen if its expected error is at most max_rel_error, and it was more than 1.05
 * times as fast as the native call (on one node: more than 1.5 times, from 1 MiB on). Among the
 * ways within 5 % of the fastest, the one of the next larger size is chosen, else the most precise.
 * A size is native, too, if the next larger one is and the next smaller one, if any, is. */
void tune_choose(const struct tune_measured *measured, double max_rel_error,
                 size_t choices[TUNE_SIZES_MAX]);
/* Returns the expected relative L2 error of a way's result, for normally distributed data. */
double tune_error(const struct tune_way *way, uint32_t ranks);
/* Returns the choices as the text of a policy, with the measurements as comments. */
char *tune_policy(const struct tune_measured *measured, double max_rel_error);

/* Returns true if tune measures an algorithm with a codec on this number of ranks and nodes
 * (measure.c). */
bool tune_is_measured(const struct tune_measured *measured, enum cshim_codec_id codec,
                      enum cshim_algorithm algorithm);
/* Runs the benchmark by `launcher` (a command to which the program is added) natively and with each
 * combination of tune_is_measured(), for about `seconds`, with files in a folder next to `output`
 * that is removed at the end. The caller has set the sizes; fills in the rest of *measured. Leaves
 * the largest sizes out if they would take too long. Exits, with a message, if a run fails or is
 * interrupted. */
void tune_measure(char *const *launcher, double seconds, const char *output,
                  struct tune_measured *measured);

#endif
