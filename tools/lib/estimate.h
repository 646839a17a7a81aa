/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates how long a compressed call takes, from the rate of a link or from measurements of the
 * exchange.
 *
 * Pure. The model is a line: a time for every call, and a time for each byte that a rank sends. */
#ifndef TOOL_ESTIMATE_H
#define TOOL_ESTIMATE_H

#include <stddef.h>

#include "shim/core/plan.h"

/* One measurement of the shim's exchange. */
struct estimate_point {
    enum cshim_codec_id codec;
    uint64_t bytes_wire; /* sent by all ranks */
    double seconds;
};

struct estimate_basis {
    double link;    /* bytes per second of a node's link, each way; 0: take the points */
    uint32_t ranks; /* of the measurements */
    size_t count;
    const struct estimate_point *points; /* two for each codec that was measured */
};

/* Reads a rate, "1Gbit", "25Gbit/s", "200Mbit" or "12.5GB/s", in bytes per second. Returns false if
 * the text is none. */
bool estimate_parse_rate(const char *text, double *bytes_per_second);

/* Seconds of a call on `nodes` nodes that its plan compresses. NAN if there is nothing to estimate
 * it from: a link needs several nodes, and points have to be of the plan's codec (those of raw
 * stand for fp32). */
double estimate_seconds(const struct estimate_basis *basis, const struct cshim_plan *plan,
                        uint32_t nodes);

#endif
