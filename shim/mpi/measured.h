/* SPDX-License-Identifier: Apache-2.0 */
/* How a blocking call is made: by the rule, or by the candidate that its class has chosen
 * (shim/host/classes.h). For each call, once its rule is known:
 *
 *     cshim_measured_choose(state, &call, rule, comm, &measured);
 *     ... plan by cshim_measured_plan, or make the call natively ...
 *
 * All ranks make the same calls. Not thread-safe for one communicator, as its calls follow each
 * other. */
#ifndef CSHIM_MPI_MEASURED_H
#define CSHIM_MPI_MEASURED_H

#include "shim/host/classes.h"
#include "shim/mpi/communicator.h"
#include "shim/mpi/describe.h"

/* A call whose class is measured. */
struct cshim_measured {
    struct cshim_class *class; /* NULL: it is not measured */
    unsigned candidate;
    double began; /* a native call */
};

/* Plans a call by an algorithm; AUTO stands for the one that is taken where nothing was measured.
 * An all-reduce of a kind that was planned lately gets the same plan again. */
struct cshim_plan cshim_measured_plan_by(struct cshim_comm *state, const struct cshim_call *call,
                                         uint64_t count, const struct cshim_rule *rule,
                                         enum cshim_algorithm algorithm);

/* Chooses the candidate of a call that may be made in several ways; at call numbers that all ranks
 * know the ranks agree on durations first. Returns an MPI error of that. */
int cshim_measured_choose(struct cshim_comm *state, const struct cshim_call *call,
                          const struct cshim_rule *rule, MPI_Comm comm,
                          struct cshim_measured *measured);

/* Plans a measured call by its candidate. */
struct cshim_plan cshim_measured_plan(struct cshim_comm *state, struct cshim_call *call,
                                      uint64_t count, const struct cshim_measured *measured);

/* All-reduces of this thread that were native lately because their class says so: the next ones
 * take no look at the policy, unless they are timed. MPI's own types and operations only, whose
 * handles always mean the same. */
struct cshim_native {
    MPI_Comm comm;
    MPI_Datatype datatype;
    uint64_t count;
    uint32_t generation; /* of the program's communicators */
    struct cshim_choice *choice;
};
#define CSHIM_NATIVES 4u
extern __thread struct cshim_native cshim_natives[CSHIM_NATIVES];

static inline __attribute__((always_inline)) struct cshim_native *
cshim_native_of(const struct cshim_arguments *arguments)
{
    return &cshim_natives[arguments->count / 16 % CSHIM_NATIVES];
}

/* Remembers a call that was native because its class says so. */
void cshim_native_remember(const struct cshim_arguments *arguments, struct cshim_class *class);

/* Begins a call of a class that is native. Returns false, with nothing done, if it is not known to
 * be one. */
static inline __attribute__((always_inline)) bool
cshim_native_passes(const struct cshim_arguments *arguments)
{
    const struct cshim_native *native = cshim_native_of(arguments);
    return arguments->collective == CSHIM_ALLREDUCE && native->choice != NULL &&
           native->comm == arguments->comm && native->count == arguments->count &&
           native->datatype == arguments->datatype && arguments->op == MPI_SUM &&
           native->generation == cshim_comm_generation() && cshim_choice_passes(native->choice);
}

#endif
