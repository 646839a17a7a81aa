/* SPDX-License-Identifier: Apache-2.0 */
/* compshim tune: measures the all-reduces of a machine or cluster, and writes a policy for it. */
#ifndef TOOL_TUNE_H
#define TOOL_TUNE_H

#include "shim/core/plan.h"

#define TUNE_WAYS_MAX 32u
#define TUNE_SIZES_MAX 32u

/* A way to make a call. */
struct tune_way {
    enum cshim_codec_id codec;
    enum cshim_algorithm algorithm; /* never AUTO */
};

/* Seconds of an all-reduce of float32, the slowest rank's: the median call of the best round. */
struct tune_size {
    uint64_t bytes;
    double native;
    double ways[TUNE_WAYS_MAX]; /* NAN: not measured */
};

/* All that a policy is decided by. */
struct tune_measured {
    uint32_t ranks;
    uint32_t nodes;
    size_t way_count;
    struct tune_way ways[TUNE_WAYS_MAX];
    size_t size_count;
    struct tune_size sizes[TUNE_SIZES_MAX]; /* from the smallest up */
};

#define TUNE_NATIVE SIZE_MAX

/* tune_decide.c, pure: the same measurements give the same policy.
 *
 * Chooses a way for each size, or TUNE_NATIVE: of those whose expected error is at most
 * max_rel_error and that measured at least 5 % faster than native the fastest; of those within 5 %
 * of it that of the next larger size, else the most precise. A size alone, with a larger one next
 * to it that goes natively, goes natively, too. */
void tune_choose(const struct tune_measured *measured, double max_rel_error,
                 size_t choices[TUNE_SIZES_MAX]);
/* The expected relative L2 error of a way's result, for normally distributed data. */
double tune_error(const struct tune_way *way, uint32_t ranks);
/* The choices as a policy, with what was measured as comments; the caller frees it. */
char *tune_policy(const struct tune_measured *measured, double max_rel_error);

/* tune_file.c: measurements as JSON. Reading exits if the file is none. */
void tune_save(const struct tune_measured *measured, const char *path);
void tune_load(const char *path, struct tune_measured *measured);

/* tune_measure.c: runs the benchmark by `launcher` (a command to which the program is added) in
 * every way for about `seconds`, with files in `folder`. Fills all but the sizes' bytes, which the
 * caller has set; leaves the largest out if they would take too long. What failed has been told. */
enum tune_end { TUNE_DONE, TUNE_STOPPED, TUNE_FAILED };
enum tune_end tune_measure(char *const *launcher, double seconds, const char *folder,
                           struct tune_measured *measured);

#endif
