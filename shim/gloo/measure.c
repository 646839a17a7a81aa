/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of a context's machine. What rank 0 measures counts. */
#include "shim/core/log.h"
#include "shim/gloo/context.h"

/* All ranks take a call for it, because these are counted. */
void cshim_gloo_measure_machine(struct cshim_gloo_context *context,
                                const struct cshim_gloo_arguments *arguments,
                                struct cshim_machine *machine, void **exception)
{
    const struct cshim_communicator *host = &context->host;
    struct cshim_link_facts facts[2] = {{.busy = 0}, {.busy = 0}};
    struct cshim_gloo_call *call = cshim_gloo_call_take(context, arguments);
    if (call == NULL || (call->host.scratch = cshim_scratch_take()) == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "no memory to measure the machine");
        *exception = cshim_gloo_exception("no memory to measure the machine");
        if (call != NULL)
            cshim_gloo_call_give(context, call);
        return;
    }
    for (int inside = 0; inside < 2; inside++) {
        const struct cshim_partners partners =
            cshim_layout_partners(&host->layout, host->ranks, inside);
        if (partners.count > 0)
            facts[inside] = cshim_measure_links(&call->host, &partners, inside ? 0 : machine->cores,
                                                false, call->host.scratch);
    }
    machine->native = CSHIM_NATIVE_GLOO;
    cshim_measured_links(machine, &facts[0], &facts[1]);
    cshim_gloo_transport_end(call);
    *exception = call->exception;
    if (*exception == NULL) /* else gloo may still write there */
        cshim_scratch_give(call->host.scratch);
    cshim_gloo_call_give(context, call);
}
