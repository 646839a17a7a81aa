/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how a call of an agreed context is made: natively, or compressed by one of the algorithms
 * that can make it, as calls of its class have learned (shim/core/draw.h). */
#ifndef CSHIM_GLOO_CHOOSE_H
#define CSHIM_GLOO_CHOOSE_H

#include "shim/core/draw.h"
#include "shim/gloo/context.h"
#include "shim/gloo/agree.h"

/* A call whose class is measured. Nothing of it needs to be undone when gloo throws. */
struct cshim_gloo_chosen {
    struct cshim_gloo_class *class; /* NULL: it is not measured */
    uint64_t number;
    struct cshim_draw_call drawn;
    double began;
};

/* Chooses the candidate of a call that `rule` compresses, and plans the call by it; waits where
 * other ranks decide, and for all ranks before a call that is timed. The plan's reason is
 * CSHIM_REASON_NO_GAIN if the call is to be made natively. Errors are an exception. Thread-safe, as
 * the next one. */
struct cshim_plan cshim_gloo_choose(struct cshim_gloo_context *context,
                                    const struct cshim_gloo_arguments *arguments,
                                    const struct cshim_rule *rule, struct cshim_call *call,
                                    struct cshim_gloo_chosen *chosen, void **exception);

/* Ends a measured call that has been made, and has the ranks decide if this is the call for it. */
void cshim_gloo_chosen_end(struct cshim_gloo_context *context,
                           const struct cshim_gloo_arguments *arguments,
                           const struct cshim_gloo_chosen *chosen, void **exception);

/* Frees what calls of a context have learned. */
void cshim_gloo_classes_free(struct cshim_gloo_context *context);

#endif
