/* SPDX-License-Identifier: Apache-2.0 */
/* Tracks the MPI or NCCL calls that a thread is in. Calls that the library or a tool makes within
 * one are passed through, except a tool's call on behalf of the program and MPI's functions that
 * take requests. A call within one from the object that made the outermost call (the program, in an
 * error handler) counts as a new outermost call, and so do calls after a longjmp() out of the
 * handler. A wrapper calls cshim_enter() before the call that it makes and cshim_leave() after it,
 * with a struct cshim_frame on its stack. */
#ifndef CSHIM_NESTING_H
#define CSHIM_NESTING_H

#include "shim/front/resolve.h"

/* State of a thread. */
struct cshim_nesting {
    int depth;                     /* number of nested calls, from the outermost call on */
    struct cshim_frame *outermost; /* frame of the outermost call */
    const void *caller;            /* return address of the outermost call */
    struct cshim_handed *handed;   /* the outermost call, if a tool may make it; else NULL */
};

/* A call, in the stack frame of its wrapper. */
struct cshim_frame {
    const volatile void *volatile self; /* its own address, until the call returns */
    struct cshim_nesting outside;       /* state before the call */
};

/* Returns true if the thread seems to have left its outermost call without returning: an error
 * handler of the program may jump out of it, or throw. Then the stack no longer reaches that call's
 * frame, or other frames have usually overwritten the frame. The address sanitizer must not report
 * the access to it. */
__attribute__((no_sanitize_address)) static inline bool
cshim_is_left(const struct cshim_nesting *nesting, const struct cshim_frame *here)
{
    const struct cshim_frame *outermost = nesting->outermost;
    return (uintptr_t)outermost <= (uintptr_t)here || outermost->self != outermost;
}

/* Enters a call; `caller` is its return address. */
static inline void cshim_enter(struct cshim_nesting *nesting, struct cshim_frame *frame,
                               const void *caller)
{
    if (__builtin_expect(nesting->depth > 0, 0) && cshim_is_left(nesting, frame))
        nesting->depth = 0;
    frame->outside = *nesting;
    if (__builtin_expect(nesting->depth > 0, 0) && cshim_same_caller(nesting->caller, caller))
        nesting->depth = 0;
    if (nesting->depth++ == 0) {
        nesting->outermost = frame;
        nesting->caller = caller;
        nesting->handed = NULL;
    }
    frame->self = frame;
}

/* Leaves the call that cshim_enter() has entered. */
static inline void cshim_leave(struct cshim_nesting *nesting, struct cshim_frame *frame)
{
    *nesting = frame->outside;
    frame->self = NULL;
}

#endif
