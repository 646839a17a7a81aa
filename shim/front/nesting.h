/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls of the library a thread is in. What the library or a tool calls from within a call
 * goes straight to the library, unless the tool hands the program's call on. What the program
 * itself calls there, in an error handler, is a call of its own, like those that follow a jump out
 * of the handler. */
#ifndef CSHIM_NESTING_H
#define CSHIM_NESTING_H

#include "shim/front/front.h"

/* Of a thread. */
struct cshim_nesting {
    int depth;                     /* how many calls it is in */
    struct cshim_frame *outermost; /* of these, ... */
    const void *caller;            /* ... and an address in the object that has made it */
    struct cshim_handed *handed;   /* that call, if a tool has been given it; else NULL */
};

/* A call, in the stack frame of its wrapper. */
struct cshim_frame {
    const volatile void *volatile self; /* its own address, until the call returns */
    struct cshim_nesting outside;       /* how it was before the call */
};

/* Whether the thread has left its outermost call without a return: an error handler of the program
 * may jump out of it, or throw. Then the stack has shrunk past that call's frame, or other frames
 * have been written over it, which the address sanitizer must not take for a mistake. */
__attribute__((no_sanitize_address)) static inline bool
cshim_is_left(const struct cshim_nesting *nesting, const struct cshim_frame *here)
{
    const struct cshim_frame *outermost = nesting->outermost;
    return (uintptr_t)outermost <= (uintptr_t)here || outermost->self != outermost;
}

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

static inline void cshim_leave(struct cshim_nesting *nesting, struct cshim_frame *frame)
{
    *nesting = frame->outside;
    frame->self = NULL;
}

#endif
