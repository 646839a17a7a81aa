/* SPDX-License-Identifier: Apache-2.0 */
/* How long a compressed call takes, from the rate of a link or from measurements of the exchange.
 *
 * Pure. The model is a line: so much for any call, and so much per byte that a rank sends. */
#ifndef TOOL_ESTIMATE_H
#define TOOL_ESTIMATE_H

#include <stddef.h>

#include "shim/core/plan.h"

/* One measurement of the shim's exchange. */
struct estimate_point {
    enum cshim_codec_id codec;
    uint64_t bytes_wire; /* of all ranks */
    double seconds;
};

struct estimate_basis {
    double link;    /* bytes per second of a node's link, each way; 0: from the points */
    uint32_t ranks; /* of the measurements */
    size_t count;
    const struct estimate_point *points; /* two for each codec that was measured */
};

/* "1Gbit", "25Gbit/s", "200Mbit", "12.5GB/s": bytes per second. Returns false if it is no rate. */
bool estimate_parse_rate(const char *text, double *bytes_per_second);

/* Seconds of a call whose plan compresses it, on `nodes` nodes. NAN where there is nothing to go
 * by: a link joins several nodes, points have to be of the plan's codec (raw's stand for fp32). */
double estimate_seconds(const struct estimate_basis *basis, const struct cshim_plan *plan,
                        uint32_t nodes);

#endif
