/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the operations of a call (shim/core/operation.h). */
#include <err.h>
#include <inttypes.h>
#include <stdlib.h>

#include "shim/core/compiler.h"
#include "tools/explain/explain.h"
#include "tools/lib/tool.h"

/* Makes the layout of rank 0, with the ranks spread evenly over the nodes. */
static struct cshim_layout even_layout(const struct cshim_call *call)
{
    struct cshim_layout layout;
    int *nodes = calloc(call->ranks, sizeof *nodes);
    for (uint32_t rank = 0; nodes != NULL && rank < call->ranks; rank++)
        nodes[rank] = (int)((uint64_t)rank * call->nodes / call->ranks);
    if (nodes == NULL || !cshim_layout_make(&layout, nodes, (int)call->ranks, (int)call->nodes, 0))
        errx(TOOL_SYSTEM, "no memory");
    free(nodes);
    return layout;
}

/* Prints the operations of rank 0 for the first segment. */
static void print_first_segment(const struct explain_answer *answer)
{
    const struct cshim_plan *plan = &answer->plan;
    struct cshim_layout layout = even_layout(&answer->call);
    struct cshim_operations operations = {0};
    char text[CSHIM_OPERATION_TEXT_MAX];
    struct cshim_role role = {.plan = plan, .layout = &layout};
    cshim_role_find(&role);
    const struct cshim_segment segment = cshim_segment_at(&role, 0);
    if (!cshim_compile(&operations, &segment))
        errx(TOOL_SYSTEM, "no memory");
    for (unsigned i = 0; i < operations.count; i++)
        printf("  %s\n", cshim_operation_text(&operations.list[i], text));
    cshim_operations_free(&operations);
    cshim_layout_free(&layout);
}

void explain_print_operations(const struct explain_answer *answer)
{
    const struct cshim_plan *plan = &answer->plan;
    if (plan->reason != CSHIM_REASON_COMPRESS)
        printf("operations: none, the library makes the call\n");
    else if (plan->algorithm == CSHIM_ALGORITHM_CAST)
        printf("operations: none, the library adds the downcast elements\n");
    else if (cshim_capabilities[answer->call.library].on_device)
        printf("operations: not shown for NCCL, whose engine has kernels for whole steps\n");
    else {
        printf("operations of rank 0 for the first of %" PRIu64
               " segments (pipeline depth, operation):\n",
               plan->segments);
        print_first_segment(answer);
    }
}
