/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how a call of an agreed context is made: by gloo, or compressed with one of the possible
 * algorithms. A call with a class (cshim_class_is_for) is made as an earlier job has learned, or as
 * the measured durations of the class's calls decide (shim/gloo/draw.h). */
#ifndef CSHIM_GLOO_CHOOSE_H
#define CSHIM_GLOO_CHOOSE_H

#include "shim/gloo/context.h"
#include "shim/gloo/draw.h"

/* A call, and its candidate if it has a class. Owns nothing, so an exception of gloo may skip
 * cshim_gloo_chosen_end(). */
struct cshim_gloo_chosen {
    struct cshim_gloo_class *class; /* class that counts the call; NULL: none */
    uint64_t number;
    struct cshim_draw_call drawn;
    double began;
};

/* Chooses the candidate of a call that `rule` compresses, and plans the call with it. May wait for
 * a decision of the ranks, and waits for all ranks before a timed call. The plan's reason is
 * CSHIM_REASON_NO_GAIN if the candidate is gloo's own function. Stores errors in *exception.
 * Thread-safe, as is cshim_gloo_chosen_end(). */
struct cshim_plan cshim_gloo_choose(struct cshim_gloo_context *context,
                                    const struct cshim_gloo_arguments *arguments,
                                    const struct cshim_rule *rule, struct cshim_call *call,
                                    struct cshim_gloo_chosen *chosen, void **exception);

/* Ends a call of a class after it was made: records its duration. If the ranks decide in this call,
 * exchanges their timings and the decision. */
void cshim_gloo_chosen_end(struct cshim_gloo_context *context,
                           const struct cshim_gloo_arguments *arguments,
                           const struct cshim_gloo_chosen *chosen, void **exception);

/* Frees the classes of a context. */
void cshim_gloo_classes_free(struct cshim_gloo_context *context);

#endif
