/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of a context's machine: rank 0 measures the link to the first rank of another node, and
 * that to the next rank of its own node. */
#include <unistd.h>

#include "shim/core/log.h"
#include "shim/gloo/context.h"

/* The first rank but 0 that shares its node, or does not; -1 if there is none. */
static int find_rank(const struct cshim_layout *layout, int ranks, bool shares)
{
    for (int rank = 1; rank < ranks; rank++)
        if ((layout->node_of[rank] == layout->node_of[0]) == shares)
            return rank;
    return -1;
}

/* All ranks take a call for it, because these are counted. */
struct cshim_machine cshim_gloo_measure_machine(struct cshim_gloo_context *context,
                                                const struct cshim_gloo_arguments *arguments,
                                                void **exception)
{
    const struct cshim_communicator *host = &context->host;
    struct cshim_link_facts facts[2] = {{.latency = 0}, {.latency = 0}};
    struct cshim_gloo_call *call = cshim_gloo_call_take(context, arguments);
    if (call == NULL || (call->host.scratch = cshim_scratch_take()) == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "no memory to measure the machine");
        _exit(1); /* the other ranks wait for this one */
    }
    for (int inside = 0; inside < 2; inside++) {
        const int other = find_rank(&host->layout, host->ranks, inside);
        if (other > 0 && (host->rank == 0 || host->rank == other))
            facts[inside] = cshim_measure_link(&call->host, host->rank == 0 ? other : 0,
                                               host->rank == 0, false, call->host.scratch);
    }
    struct cshim_machine machine = cshim_measured_links(CSHIM_NATIVE_GLOO, &facts[0], &facts[1]);
    machine.cores = cshim_measure_cores(host->layout.local_ranks);
    cshim_gloo_transport_end(call);
    *exception = call->exception;
    if (*exception == NULL) /* else gloo may still write there */
        cshim_scratch_give(call->host.scratch);
    cshim_gloo_call_give(context, call);
    return machine;
}
