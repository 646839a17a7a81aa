/* SPDX-License-Identifier: Apache-2.0 */
/* Interface between the front, which exports the symbols of gloo, and the gloo engine, which
 * exports only cshim_gloo_engine. Neither needs a header of gloo: options are passed as addresses.
 */
#ifndef CSHIM_GLOO_ENGINE_H
#define CSHIM_GLOO_ENGINE_H

#include <stdbool.h>

#include "gloo_engine.h"
#include "shim/report/ledger.h"

/* A collective of gloo: takes its options and may throw. */
typedef void (*cshim_gloo_function)(const void *options);

#define CSHIM_GLOO_ENGINE_ABI 3
#define CSHIM_GLOO_ENGINE_SYMBOL "cshim_gloo_engine"

struct cshim_gloo_engine {
    unsigned abi; /* CSHIM_GLOO_ENGINE_ABI */
    /* Called before the first call, and before the first call in a child of fork(). `allreduce` is
     * gloo's own function. `is_beside`: another engine is open in this process, too, and may write
     * its own report. */
    void (*start)(cshim_gloo_function allreduce, bool is_beside);
    /* Called instead of a collective, from any thread; `real` is gloo's own function. Throws gloo's
     * exceptions. */
    void (*make)(enum cshim_gloo_index function, cshim_gloo_function real, const void *options);
    /* Counts a call, with its bytes, before the front passes it through. `function`: number of the
     * function in the ledger (cshim_ledger_count). */
    void (*count)(unsigned function, const void *options);
    /* Counts an all-reduce that the front passes through without reading its options. */
    void (*count_unread)(enum cshim_reason reason);
};

#endif
