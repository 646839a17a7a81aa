/* SPDX-License-Identifier: Apache-2.0 */
/* The latest durations of each candidate of a class of calls (shim/core/choice.h). The report, and
 * the length of rows of native calls, go by their medians. Pure. */
#ifndef CSHIM_FIGURES_H
#define CSHIM_FIGURES_H

#include <stdint.h>

#include "policy/policy.h"

#define CSHIM_CANDIDATE_NATIVE 0u
/* Native and raw, in place of the algorithms auto and cast, and each other algorithm. */
#define CSHIM_CANDIDATES_MAX ((unsigned)CSHIM_ALGORITHM_COUNT)
/* Number of durations of each candidate that are kept. */
#define CSHIM_FIGURES_LATEST 16u

/* Median and quartiles of durations in seconds. */
struct cshim_figure {
    float seconds, low, high;
};

struct cshim_figures {
    /* Native calls in a row; samples of shorter rows are not kept, because they are less like a
     * native run. */
    unsigned longest_native_row;
    uint32_t samples[CSHIM_CANDIDATES_MAX]; /* number of durations added */
    /* The i-th duration added is at the index i % CSHIM_FIGURES_LATEST. */
    float latest[CSHIM_CANDIDATES_MAX][CSHIM_FIGURES_LATEST];
    struct cshim_figure of[CSHIM_CANDIDATES_MAX]; /* 0: not known */
};

/* Inserts a duration into `count` sorted ones, which have room for one more. */
void cshim_figure_insert(float *sorted, unsigned count, float seconds);
/* Returns median and quartiles of `count` > 0 sorted durations. Of an even number the median is the
 * lower one of the two, because disturbances only lengthen calls. If `steady` is longer than the
 * median it replaces that, and the quartiles are lengthened by the same factor. */
struct cshim_figure cshim_figure_of(const float *sorted, unsigned count, float steady);

/* Adds a duration of a candidate. */
void cshim_figures_add(struct cshim_figures *figures, unsigned candidate, float seconds);
/* Computes the figures of all candidates; `steady` has a duration of each, as for
 * cshim_figure_of(). */
void cshim_figures_update(struct cshim_figures *figures, unsigned candidates,
                          const float steady[CSHIM_CANDIDATES_MAX]);

#endif
