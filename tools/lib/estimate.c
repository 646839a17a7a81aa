/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates of a call's time. */
#include "tools/lib/estimate.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

/* The share of a link's rate that an exchange reaches, and the time of a step of small messages.
 * Both were measured over TCP: see docs/measurements.md. */
#define LINK_SHARE 0.95
#define STEP_SECONDS 150e-6

bool estimate_parse_rate(const char *text, double *bytes_per_second)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"kbit", 125}, {"Mbit", 125e3}, {"Gbit", 125e6}, {"Tbit", 125e9},
                 {"kB", 1e3},   {"MB", 1e6},     {"GB", 1e9}};
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || !isfinite(value) || value <= 0)
        return false;
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t length = units[i].name[1] == 'B' ? 2 : 4;
        if (strncasecmp(end, units[i].name, length) != 0)
            continue;
        const char *rest = end + length;
        *bytes_per_second = value * units[i].bytes;
        return *rest == '\0' || strcasecmp(rest, "/s") == 0;
    }
    return false;
}

static double by_link(const struct estimate_basis *basis, const struct cshim_plan *plan,
                      uint32_t nodes)
{
    if (nodes < 2)
        return NAN;
    const unsigned steps = plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT ? 1 : 2;
    return steps * STEP_SECONDS + (double)plan->bytes_network / nodes / (basis->link * LINK_SHARE);
}

/* Takes the time from the line through the smallest and the largest measurement of the codec, over
 * the bytes that a rank sends. */
static double by_points(const struct estimate_basis *basis, const struct cshim_plan *plan)
{
    const enum cshim_codec_id codec =
        plan->codec == CSHIM_CODEC_FP32 ? CSHIM_CODEC_RAW : plan->codec;
    const struct estimate_point *small = NULL, *large = NULL;
    for (size_t i = 0; i < basis->count; i++) {
        const struct estimate_point *point = &basis->points[i];
        if (point->codec != codec)
            continue;
        if (small == NULL || point->bytes_wire < small->bytes_wire)
            small = point;
        if (large == NULL || point->bytes_wire > large->bytes_wire)
            large = point;
    }
    if (small == NULL || large->bytes_wire == small->bytes_wire)
        return NAN;
    const double ranks = basis->ranks;
    const double per_byte = fmax(0, (large->seconds - small->seconds) /
                                        ((double)(large->bytes_wire - small->bytes_wire) / ranks));
    const double any = fmax(0, small->seconds - per_byte * (double)small->bytes_wire / ranks);
    return any + per_byte * (double)plan->bytes_wire / plan->ranks;
}

double estimate_seconds(const struct estimate_basis *basis, const struct cshim_plan *plan,
                        uint32_t nodes)
{
    return basis->link > 0 ? by_link(basis, plan, nodes) : by_points(basis, plan);
}
