/* SPDX-License-Identifier: Apache-2.0 */
/* Error feedback (the policy's error_feedback): stores the rounding error of each element of a
 * buffer, its residual, and adds it at the next call with that buffer.
 *
 * A residual belongs to a communicator, a buffer, its element count and its type. Each rank decides
 * alone whether it has one, because that changes only the values that it sends: a rank without
 * memory goes on without. At the next call the buffer may hold another tensor: that is harmless,
 * because codecs except topk add at most one quantization step of a residual, or two with
 * stochastic rounding. Engines provide the memory, on the host or on a device. All functions are
 * thread-safe, except abandon. */
#ifndef CSHIM_RESIDUAL_H
#define CSHIM_RESIDUAL_H

#include "policy/policy.h"

struct cshim_residual {
    const void *buffer;
    uint64_t count;
    enum cshim_dtype dtype;
    enum cshim_algorithm algorithm; /* NCCL: latest call's algorithm, which orders the values */
    uint64_t bytes;                 /* size of the memory; counts against feedback_memory */
    uint64_t memory;                /* address of the values, float32 and zero at first; 0: none */
    unsigned users;                 /* number of calls under way that use it */
    uint32_t used;                  /* value of its communicator's `acquired` at its latest call */
    bool in_graph;                  /* a CUDA graph may use it: kept as long as the communicator */
    struct cshim_residual *next;
};

/* The residuals of a communicator, most recently used first. */
struct cshim_residuals {
    /* `allocate` allocates the memory of a new residual, and returns false if there is none.
     * `release` frees it; it ignores 0. */
    bool (*allocate)(void *owner, struct cshim_residual *residual);
    void (*release)(void *owner, struct cshim_residual *residual);
    void *owner;
    bool is_exclusive; /* a call gets no residual that another call under way uses */
    struct cshim_residual *first;
    uint32_t acquired; /* number of acquisitions so far */
};

/* Returns the residual of the buffer, count and type of `wanted`, for the duration of a call. If
 * there is none and may_make is true, makes it like `wanted`; to make room, frees residuals of the
 * same buffer and residuals that were not used for a long time. Returns NULL if there is none and
 * may_make is false, if is_exclusive is true and the residual is in use, and without memory (the
 * first time with a warning that names the rule and the rank). */
struct cshim_residual *cshim_residual_acquire(struct cshim_residuals *residuals,
                                              const struct cshim_residual *wanted, bool may_make,
                                              const struct cshim_policy *policy,
                                              const struct cshim_rule *rule, int rank);
/* Ends the use of a residual. NULL is ignored. */
void cshim_residual_release(struct cshim_residual *residual);
/* Frees all residuals of a communicator. */
void cshim_residuals_free(struct cshim_residuals *residuals);
/* Resets the lock in a child of fork(): a thread that the child does not have may hold it. The
 * child's communicators must have no residuals. */
void cshim_residuals_abandon(void);

#endif
