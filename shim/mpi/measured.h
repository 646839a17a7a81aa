/* SPDX-License-Identifier: Apache-2.0 */
/* Decides how a blocking call is made: by its rule, or by a candidate of its class
 * (shim/report/classes.h). For each call, once its rule is known:
 *
 *     cshim_measured_choose(state, &call, rule, comm, &measured);
 *     ... plan by cshim_measured_plan(), without a class by cshim_measured_plan_by(), or let the
 *         library make the call ...
 *
 * All ranks must make the same calls. Calls on one communicator must not be concurrent. */
#ifndef CSHIM_MPI_MEASURED_H
#define CSHIM_MPI_MEASURED_H

#include "shim/report/classes.h"
#include "shim/mpi/communicator.h"
#include "shim/mpi/describe.h"

/* Measurement of one call. */
struct cshim_measured {
    struct cshim_class *class; /* class of the call; NULL: its rule alone decides */
    unsigned candidate;
    double began; /* start of a native call (cshim_seconds()) */
};

/* Plans a call that `rule` compresses. An all-reduce is planned with `algorithm` (AUTO: with the
 * one that is used without measurements), or gets the cached plan of an equal call on this
 * communicator. Other collectives ignore `algorithm`. */
struct cshim_plan cshim_measured_plan_by(struct cshim_comm *state, const struct cshim_call *call,
                                         uint64_t count, const struct cshim_rule *rule,
                                         enum cshim_algorithm algorithm);

/* Chooses the candidate of a call. Sets class and candidate of `measured`, with the class NULL if
 * the call has none. If a decision of the class is due, the ranks first agree on the longest
 * duration of each sampled call (collective). A sampled call begins with a barrier. Returns an MPI
 * error. */
int cshim_measured_choose(struct cshim_comm *state, const struct cshim_call *call,
                          const struct cshim_rule *rule, MPI_Comm comm,
                          struct cshim_measured *measured);

/* Plans a measured call with its candidate's algorithm and codec; stores a codec other than the
 * rule's in call->instead. */
struct cshim_plan cshim_measured_plan(struct cshim_comm *state, struct cshim_call *call,
                                      uint64_t count, const struct cshim_measured *measured);

/* An all-reduce of this thread that its class has made native. Later equal calls skip the policy,
 * unless cshim_choice_passes() refuses. Predefined types and operations only, because their handles
 * never change meaning. */
struct cshim_native {
    MPI_Comm comm;
    MPI_Datatype datatype;
    MPI_Op op;
    uint64_t count;
    uint32_t generation; /* cshim_comm_generation() at that call */
    struct cshim_choice *choice;
};
#define CSHIM_NATIVES 4u
extern __thread struct cshim_native cshim_natives[CSHIM_NATIVES];
/* Smallest number of elements of a cached call of any thread. If two threads lower it at once, the
 * larger value may remain; smaller calls are then not recognised until cached again. Atomic. */
extern uint64_t cshim_natives_from;

/* Returns the cache entry for a call. */
static inline __attribute__((always_inline)) struct cshim_native *
cshim_native_of(const struct cshim_arguments *arguments)
{
    return &cshim_natives[arguments->count / 16 % CSHIM_NATIVES];
}

/* Caches an all-reduce that its class has made native, so that cshim_native_passes() recognises it.
 * Does nothing if each call needs more checks: with max_rel_error, recording or a trace, if buffers
 * may be on a GPU, and for types other than MPI_FLOAT and MPI_DOUBLE. */
void cshim_native_remember(const struct cshim_arguments *arguments, struct cshim_class *class);

/* Returns true if the call equals a cached native one, and cshim_choice_passes() has begun it; then
 * it is passed through. Otherwise changes nothing. */
static inline __attribute__((always_inline)) bool
cshim_native_passes(const struct cshim_arguments *arguments)
{
    if (arguments->count < __atomic_load_n(&cshim_natives_from, __ATOMIC_RELAXED))
        return false;
    const struct cshim_native *native = cshim_native_of(arguments);
    return arguments->collective == CSHIM_ALLREDUCE && native->choice != NULL &&
           native->comm == arguments->comm && native->count == arguments->count &&
           native->datatype == arguments->datatype && native->op == arguments->op &&
           native->generation == cshim_comm_generation() && cshim_choice_passes(native->choice);
}

#endif
