/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a call's arguments, read from gloo's options, to the properties that rules and plans
 * use, and to the exchange that the runner executes.
 *
 * The options of data-movement collectives have the size of an element but not its type. A lossless
 * codec needs no type; for any other the rule names it by `dtype`. */
#ifndef CSHIM_GLOO_DESCRIBE_H
#define CSHIM_GLOO_DESCRIBE_H

#include "shim/gloo/context.h"

/* Describes a call of an agreed context, and finds its rule. Returns CSHIM_REASON_COMPRESS if the
 * rule compresses it, otherwise the reason; the same on all ranks, except after an error or if
 * calls are only recorded (COMPSHIM=observe). In a data-movement collective the ranks may
 * communicate, and errors are stored in *exception. In gloo::alltoallv sets arguments->elements, as
 * if all blocks were as long as the longest. */
enum cshim_reason cshim_gloo_describe(const struct cshim_gloo_context *context,
                                      struct cshim_gloo_arguments *arguments,
                                      struct cshim_call *call, const struct cshim_rule **rule,
                                      void **exception);

/* Returns the exchange of a planned call, ready for cshim_call_run(). First adds up this
 * rank's input buffers of an all-reduce, or copies the root's input of a broadcast to its output.
 * An exception is stored in the call. */
struct cshim_exchange cshim_gloo_exchange_of(struct cshim_gloo_call *call,
                                             const struct cshim_plan *plan);

#endif
