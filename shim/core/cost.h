/* SPDX-License-Identifier: Apache-2.0 */
/* What a call will take: seconds of an all-reduce, native and compressed, foretold from facts of
 * the machine.
 *
 * Pure. Only sums, products, quotients and comparisons are used, which IEEE 754 rounds in the same
 * way everywhere, so ranks on different processors foretell the same. docs/cost-model.md has the
 * formulas and their sources.
 */
#ifndef CSHIM_COST_H
#define CSHIM_COST_H

#include "shim/core/machine.h"
#include "shim/core/plan.h"

/* Seconds of the library's own all-reduce of the call's bytes. 0 if a fact for it is not known, or
 * if it is no gloo::allreduce and no blocking MPI_Allreduce. */
double cshim_cost_native(const struct cshim_machine *machine, const struct cshim_call *call);

/* Seconds of the call by the plan; 0 as above. */
double cshim_cost_plan(const struct cshim_machine *machine, const struct cshim_plan *plan,
                       const struct cshim_call *call);

#endif
