/* SPDX-License-Identifier: Apache-2.0 */
/* Computes a lower bound of the time that a node's link needs for the bytes of a call, both for the
 * native call and for the compressed one.
 *
 * Model: links are full duplex, and nodes have equal numbers of ranks. Processors, latency and
 * framing are ignored, so the bound is no prediction. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shim/core/plan_bytes.h"
#include "shim/core/schedule.h"
#include "tools/explain/explain.h"
#include "tools/lib/tool.h"

/* Reads a rate, "1Gbit", "25Gbit/s", "200Mbit" or "12.5GB/s", in bytes per second. Returns false if
 * the text is no rate. */
static bool parse_rate(const char *text, double *bytes_per_second)
{
    static const char prefixes[] = "kmgt";
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || !isfinite(value) || value <= 0)
        return false;
    while (*end == ' ')
        end++;
    const char *prefix = *end != '\0' ? strchr(prefixes, tolower((unsigned char)*end)) : NULL;
    if (prefix == NULL)
        return false;
    const double unit = pow(1000, (double)(prefix - prefixes) + 1);
    end++;
    const bool is_bits = *end == 'b' || strncasecmp(end, "bit", 3) == 0;
    if (!is_bits && *end != 'B')
        return false;
    end += strncasecmp(end, "bit", 3) == 0 ? 3 : 1;
    *bytes_per_second = value * (is_bits ? unit / 8 : unit);
    return *end == '\0' || strcasecmp(end, "/s") == 0 || strcasecmp(end, "ps") == 0;
}

struct explain_link explain_link(const char *rate)
{
    struct explain_link link = {.rate = rate};
    if (rate != NULL && !parse_rate(rate, &link.bytes_per_second))
        tool_misuse("--link: '%s' is not a rate (such as 1Gbit, 200Mbit or 12.5GB)", rate);
    return link;
}

/* Returns the bytes that the busiest node has to send or receive by an algorithm that sends the
 * fewest: for an all-reduce a ring of nodes, or recursive halving and doubling. */
static double native_bytes(const struct cshim_call *call)
{
    const double bytes = (double)call->bytes, nodes = call->nodes;
    const double others = (nodes - 1) / nodes;
    switch (call->collective) {
    case CSHIM_REDUCE:
    case CSHIM_BROADCAST:
        return bytes; /* to the root's node, or from it */
    case CSHIM_ALLTOALL:
        return call->ranks / nodes * others * bytes;
    default:
        return cshim_shapes[call->collective].ring_passes * others * bytes;
    }
}

/* Returns the bytes of a segment that the busiest peer of an all-reduce receives, divided by the
 * mean over all peers. Usually above 1 if there are fewer chunks than peers; 1 without chunks. */
static double crowding(const struct cshim_plan *plan)
{
    double mean = 1;
    if (plan->schedule->division != CSHIM_CHUNKS || plan->schedule->compile == NULL)
        return 1;
    const uint64_t elements = plan->count < plan->segment ? plan->count : plan->segment;
    return cshim_plan_busiest(plan, elements, &mean) / mean;
}

/* Returns the bytes that the busiest node sends or receives by the plan. A root's node is the
 * busiest. Without chunks, all messages begin or end at the root. With chunks, the root exchanges
 * each chunk once in addition to the others' traffic: one of peers + 1 equal shares of all bytes is
 * the root's, and the rest is spread over the nodes. */
static double planned_bytes(const struct cshim_plan *plan, const struct cshim_call *call)
{
    const double bytes = (double)plan->bytes_network, nodes = call->nodes;
    const bool has_root = plan->collective == CSHIM_REDUCE || plan->collective == CSHIM_BROADCAST;
    if (!has_root) /* with fewer chunks than peers, owners are busier */
        return bytes / nodes * (plan->peers == call->nodes ? crowding(plan) : 1);
    if (plan->library->has_own_broadcast) /* each node sends the message at most once */
        return bytes / (nodes - 1);
    if (plan->schedule->division == CSHIM_WHOLE)
        return bytes;
    const double roots = bytes / ((double)plan->peers + 1);
    return roots + (bytes - roots) / nodes;
}

struct explain_limit explain_limit(const struct explain_answer *answer,
                                   const struct explain_link *link)
{
    const struct cshim_call *call = &answer->call;
    struct explain_limit limit = {0, 0};
    if (link->rate == NULL || call->nodes < 2)
        return limit;
    limit.native = native_bytes(call) / link->bytes_per_second;
    limit.chosen = answer->plan.reason == CSHIM_REASON_COMPRESS
                       ? planned_bytes(&answer->plan, call) / link->bytes_per_second
                       : limit.native;
    return limit;
}

json_t *explain_limit_json(const struct explain_limit *limit, const struct explain_link *link)
{
    if (!(limit->native > 0))
        return json_null();
    return json_pack("{sf sf sf}", "bytes_per_second", link->bytes_per_second, "native",
                     limit->native, "policy", limit->chosen);
}
