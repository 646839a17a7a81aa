/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of a context's machine. What rank 0 measures counts. */
#include <unistd.h>

#include "shim/core/log.h"
#include "shim/gloo/context.h"

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
        const int partner = cshim_layout_partner(&host->layout, host->ranks, inside);
        if (partner >= 0)
            facts[inside] = cshim_measure_link(&call->host, partner, host->rank < partner, false,
                                               call->host.scratch);
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
