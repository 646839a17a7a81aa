/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls of the library a thread is in. What the library or another tool calls from within a
 * call goes straight to the library. */
#ifndef CSHIM_NESTING_H
#define CSHIM_NESTING_H

#include <stdint.h>

/* A call, in the stack frame of its wrapper. */
struct cshim_frame {
    const volatile void *volatile self; /* its own address, until the call returns */
    int outer_depth;
};

/* Of a thread. */
struct cshim_nesting {
    int depth; /* how many calls it is in */
    const struct cshim_frame *outermost;
};

/* Whether the thread has left its outermost call without a return: an error handler of the program
 * may jump out of it, or throw. Then the stack has shrunk past that call's frame, or other frames
 * have been written over it. */
static inline int cshim_is_left(const struct cshim_nesting *nesting, const struct cshim_frame *here)
{
    const struct cshim_frame *outermost = nesting->outermost;
    return (uintptr_t)outermost <= (uintptr_t)here || outermost->self != outermost;
}

static inline void cshim_enter(struct cshim_nesting *nesting, struct cshim_frame *frame)
{
    if (__builtin_expect(nesting->depth > 0, 0) && cshim_is_left(nesting, frame))
        nesting->depth = 0;
    if (nesting->depth == 0)
        nesting->outermost = frame;
    frame->self = frame;
    frame->outer_depth = nesting->depth++;
}

static inline void cshim_leave(struct cshim_nesting *nesting, struct cshim_frame *frame)
{
    nesting->depth = frame->outer_depth;
    frame->self = 0;
}

#endif
