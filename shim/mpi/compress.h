/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a blocking call in the way that its class has chosen by measuring: compressed, or natively.
 *
 *     if (cshim_passes_as_native(&arguments)) { ... call the library ... }
 *     ... describe the call; a rule compresses it ...
 *     reason = cshim_compress(&outcome, &arguments, &described, count, rule);
 *     if (!outcome.done) {
 *         ... call the library ...
 *         cshim_end_native(&outcome, status);
 *     }
 *
 * cshim_compress() is collective over the communicator. */
#ifndef CSHIM_MPI_COMPRESS_H
#define CSHIM_MPI_COMPRESS_H

#include "shim/core/clock.h"
#include "shim/mpi/describe.h"
#include "shim/report/classes.h"

/* Result of cshim_compress(). All 0: the caller calls the MPI library, and nothing is measured. */
struct cshim_outcome {
    bool done; /* compressed, or failed with `status`; otherwise the caller calls the MPI library */
    int status;
    struct cshim_class *class; /* class whose candidate the call takes; NULL: its rule decides */
    unsigned candidate;
    double began; /* class: start of a native call (cshim_seconds()) */
};

/* An all-reduce of this thread that its class has made native. Later equal calls skip the policy,
 * unless cshim_choice_passes() refuses. Predefined types and operations only, because their handles
 * never change meaning. */
struct cshim_native {
    MPI_Comm comm;
    MPI_Datatype datatype;
    MPI_Op op;
    uint64_t count;
    uint32_t generation;       /* cshim_comm_generation() at that call */
    struct cshim_class *class; /* NULL: unused entry */
};
#define CSHIM_NATIVES 4u
extern __thread struct cshim_native cshim_natives[CSHIM_NATIVES];
/* Smallest number of elements of a cached call of any thread. If two threads lower it at once, the
 * larger value may remain; smaller calls are then not recognised until cached again. Atomic. */
extern uint64_t cshim_natives_from;

/* Returns the cache entry for a call. */
static inline struct cshim_native *cshim_native_of(const struct cshim_arguments *arguments)
{
    return &cshim_natives[arguments->count / 16 % CSHIM_NATIVES];
}

/* Returns true if the call equals a cached native one and cshim_choice_passes() has begun it. Such
 * a call is counted in its class, and passed through. Otherwise changes nothing. On the path of
 * every blocking call, so it must be fast. */
static inline bool cshim_passes_as_native(const struct cshim_arguments *arguments)
{
    if (arguments->count < __atomic_load_n(&cshim_natives_from, __ATOMIC_RELAXED))
        return false;
    const struct cshim_native *native = cshim_native_of(arguments);
    const bool passes = arguments->collective == CSHIM_ALLREDUCE && native->class != NULL &&
                        native->comm == arguments->comm && native->count == arguments->count &&
                        native->datatype == arguments->datatype && native->op == arguments->op &&
                        native->generation == cshim_comm_generation() &&
                        cshim_choice_passes(&native->class->choice);
    if (passes)
        native->class->untimed++;
    return passes;
}

/* Compresses a call that `rule` compresses. If that succeeds or MPI reports an error, sets
 * outcome->done and outcome->status. Otherwise returns the reason for which the call is to be
 * passed through. Unless MPI reports an error, the result is the same on all ranks. `described` and
 * `count` are those of cshim_describe_call(). */
enum cshim_reason cshim_compress(struct cshim_outcome *outcome,
                                 const struct cshim_arguments *arguments,
                                 struct cshim_call *described, uint64_t count,
                                 const struct cshim_rule *rule);

/* Ends a call that the MPI library has made with `status`. */
static inline void cshim_end_native(const struct cshim_outcome *outcome, int status)
{
    /* After an error, the program's error handler may have freed the communicator, and with it the
     * class. */
    if (__builtin_expect(outcome->class != NULL, 0) && status == MPI_SUCCESS)
        cshim_class_end(outcome->class, outcome->candidate, cshim_seconds() - outcome->began);
}

#endif
