/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/figures.h"

#include <math.h>

void cshim_figure_insert(float *sorted, unsigned count, float seconds)
{
    for (; count > 0 && sorted[count - 1] > seconds; count--)
        sorted[count] = sorted[count - 1];
    sorted[count] = seconds;
}

struct cshim_figure cshim_figure_of(const float *sorted, unsigned count, float steady)
{
    const float median = sorted[(count - 1) / 2], seconds = fmaxf(median, steady);
    const float longer = median > 0 ? seconds / median : 1;
    return (struct cshim_figure){
        .seconds = seconds,
        .low = fminf(longer * sorted[count / 4], seconds),
        .high = fmaxf(longer * sorted[count - 1 - count / 4], seconds),
    };
}

void cshim_figures_add(struct cshim_figures *figures, unsigned candidate, float seconds)
{
    figures->latest[candidate][figures->samples[candidate]++ % CSHIM_FIGURES_LATEST] = seconds;
}

void cshim_figures_update(struct cshim_figures *figures, unsigned candidates,
                          const float steady[CSHIM_CANDIDATES_MAX])
{
    for (unsigned i = 0; i < candidates; i++) {
        const uint32_t samples = figures->samples[i];
        const unsigned count = samples < CSHIM_FIGURES_LATEST ? samples : CSHIM_FIGURES_LATEST;
        float sorted[CSHIM_FIGURES_LATEST];
        for (unsigned k = 0; k < count; k++)
            cshim_figure_insert(sorted, k, figures->latest[i][k]);
        figures->of[i] =
            count > 0 ? cshim_figure_of(sorted, count, steady[i]) : (struct cshim_figure){0, 0, 0};
    }
}
