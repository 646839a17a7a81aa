/* SPDX-License-Identifier: Apache-2.0 */
/* State of a gloo::Context, which is gloo's communicator. Several calls may be under way on one at
 * once, by several threads, and in another order on each rank: the program's tag distinguishes
 * them. */
#ifndef CSHIM_GLOO_CONTEXT_H
#define CSHIM_GLOO_CONTEXT_H

#include <pthread.h>

#include "shim/gloo/abi.h"
#include "shim/host/call.h"
#include "shim/host/message.h"

/* Slots are gloo's names of messages. The highest byte tells its collectives apart: gloo uses 1 to
 * 8. The engine's messages have bytes of their own, so ranks without it never ask for one. */
#define CSHIM_GLOO_SLOT_CALL ((uint64_t)0xc5 << 56)
#define CSHIM_GLOO_SLOT_AGREEMENT ((uint64_t)0xc6 << 56)
#define CSHIM_GLOO_SLOT_INSIDE ((uint64_t)0xc7 << 56) /* a node */
#define CSHIM_GLOO_SLOT_DECISION ((uint64_t)0xc8 << 56)

/* The kinds of messages of all segments in flight: each has a buffer of its own, since gloo waits
 * for any message of a buffer. */
#define CSHIM_GLOO_BUFFERS (CSHIM_SEGMENTS_IN_FLIGHT * CSHIM_TRANSFERS)

/* A compressed call under way. The context keeps it for the next one. */
struct cshim_gloo_call {
    struct cshim_communicator host; /* first: the transport finds the rest by it */
    const struct cshim_gloo_context *context;
    const struct cshim_gloo_arguments *arguments;
    uint32_t number; /* follows from the tag, and from how often that has been used */
    struct cshim_gloo_buffer *buffers[CSHIM_GLOO_BUFFERS]; /* all of the call's scratch */
    unsigned pending[CSHIM_GLOO_BUFFERS];                  /* messages that are not complete */
    void *exception;                                       /* what gloo threw, or NULL */
    struct cshim_gloo_call *next;
};

/* Programs number their calls by the tag, or give all calls one tag, which is small then. Only for
 * tags below this one calls are counted. */
#define CSHIM_GLOO_TAGS 256u

struct cshim_gloo_agreement; /* agree.h */
struct cshim_gloo_class;     /* choose.h */

struct cshim_gloo_context {
    struct cshim_communicator host; /* has the residuals of all calls, rank, ranks and layout */
    const void *context;            /* gloo::Context */
    struct cshim_gloo_reference reference;
    pthread_mutex_t agreeing; /* guards the agreement */
    bool has_agreed;          /* atomic: nothing of the agreement is left, and what follows stays */
    enum cshim_reason reason; /* CSHIM_REASON_COMPRESS, or why this context never compresses */
    struct cshim_gloo_agreement *agreement; /* NULL before the first call */
    int *inside;                            /* the ranks of this node, and ... */
    int *across;                            /* ... those that have this rank's place in each node */

    pthread_mutex_t choosing;      /* guards what calls have learned, and how they are numbered */
    pthread_cond_t decided;        /* a decision of the ranks has ended */
    struct cshim_learned *learned; /* choices of an earlier job, or NULL */
    bool has_failed;               /* a decision has: no call may wait for it */
    struct cshim_gloo_class *classes;
    uint32_t chosen_by_tag[CSHIM_GLOO_TAGS]; /* calls whose class is measured */

    /* The lock of the list guards the rest. */
    uint32_t calls_by_tag[CSHIM_GLOO_TAGS]; /* that were compressed */
    unsigned users;
    struct cshim_gloo_call *idle;
    struct cshim_gloo_context *next;
};

/* Returns the state of a gloo::Context, or NULL if there is none. With the arguments of a call a
 * missing state is made, and NULL means that there is no memory. The caller releases it. States of
 * contexts that gloo has freed are freed too, with the messages that could still come. Thread-safe,
 * as the next three. */
struct cshim_gloo_context *cshim_gloo_context_find(const void *address,
                                                   const struct cshim_gloo_arguments *arguments);
void cshim_gloo_context_release(struct cshim_gloo_context *context);
/* The state for one more call of a context that compresses; NULL without memory. */
struct cshim_gloo_call *cshim_gloo_call_take(struct cshim_gloo_context *context,
                                             const struct cshim_gloo_arguments *arguments);
void cshim_gloo_call_give(struct cshim_gloo_context *context, struct cshim_gloo_call *call);
/* In a child of fork: its parent's contexts are none of its own. */
void cshim_gloo_contexts_abandon(void);

#endif
