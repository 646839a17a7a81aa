/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between the front, which exports the symbols of gloo, and the gloo engine, which
 * exports only cshim_gloo_engine. Neither needs a header of gloo: options travel as addresses. */
#ifndef CSHIM_GLOO_ENGINE_H
#define CSHIM_GLOO_ENGINE_H

#include <stdbool.h>

#include "gloo_engine.h"
#include "shim/report/ledger.h"

/* A function of gloo, which takes its options and may throw. */
typedef void (*cshim_gloo_function)(const void *options);

#define CSHIM_GLOO_ENGINE_ABI 2
#define CSHIM_GLOO_ENGINE_SYMBOL "cshim_gloo_engine"

struct cshim_gloo_engine {
    unsigned abi; /* CSHIM_GLOO_ENGINE_ABI */
    /* Called before the first call, and again in a child of fork. `allreduce` is gloo's own.
     * Another engine that is in the process too, as `is_beside` tells, reports beside this one. */
    void (*start)(cshim_gloo_function allreduce, bool is_beside);
    /* In place of gloo::allreduce, from any thread. Throws what gloo throws. */
    cshim_gloo_function allreduce;
    /* Counts a call that the front is about to pass on, with its bytes. */
    void (*count)(unsigned function, const void *options);
    /* Counts an all-reduce that the front is about to pass on without a look at it. */
    void (*count_unread)(enum cshim_reason reason);
};

#endif
