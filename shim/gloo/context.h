/* SPDX-License-Identifier: Apache-2.0 */
/* State of a gloo::Context, which is gloo's communicator. Several threads may make calls on one
 * context concurrently, in a different order on each rank. The function and the program's tag
 * identify a call among those in progress. */
#ifndef CSHIM_GLOO_CONTEXT_H
#define CSHIM_GLOO_CONTEXT_H

#include <pthread.h>

#include "shim/gloo/abi.h"
#include "shim/host/call.h"
#include "shim/host/message.h"

/* A slot is gloo's tag of a message. Its highest byte is the collective: gloo uses 1 to 8. The
 * engine uses other values, so ranks without the engine never receive its messages. */
#define CSHIM_GLOO_SLOT_CALL ((uint64_t)0xc5 << 56)
#define CSHIM_GLOO_SLOT_AGREEMENT ((uint64_t)0xc6 << 56)
#define CSHIM_GLOO_SLOT_INSIDE ((uint64_t)0xc7 << 56) /* within a node */
#define CSHIM_GLOO_SLOT_DECISION ((uint64_t)0xc8 << 56)
#define CSHIM_GLOO_SLOT_VALUES ((uint64_t)0xc9 << 56)
/* Lowest bit of the call's tag in all slots except those of the agreement. */
#define CSHIM_GLOO_TAG_SHIFT 24

/* Number of buffers of a call: one for each transfer (shim/host/message.h) of each segment in
 * flight, because a wait in gloo ends with any message of the buffer. */
#define CSHIM_GLOO_BUFFERS (CSHIM_SEGMENTS_IN_FLIGHT * CSHIM_TRANSFERS)

/* State of a compressed call. The context caches it for later calls. */
struct cshim_gloo_call {
    struct cshim_communicator host; /* first, because the transport casts its address */
    const struct cshim_gloo_arguments *arguments;
    uint32_t number; /* call number in message headers, made of the tag and a count */
    struct cshim_gloo_buffer *buffers[CSHIM_GLOO_BUFFERS]; /* each covers all of the scratch */
    unsigned pending[CSHIM_GLOO_BUFFERS]; /* number of incomplete messages of each buffer */
    void *exception;                      /* exception of gloo, or NULL */
    struct cshim_gloo_call *next;
};

/* Calls are counted by tag if their tag is less than this. Most programs give each call a tag of
 * its own, or all calls one tag. */
#define CSHIM_GLOO_TAGS 4096u

struct cshim_gloo_agreement; /* agree.h */
struct cshim_gloo_class;     /* choose.h */

struct cshim_gloo_context {
    struct cshim_communicator host; /* what all calls share: job, ranks, layout, residuals ... */
    const void *context;            /* gloo::Context */
    struct cshim_gloo_reference reference;
    pthread_mutex_t agreeing; /* guards the agreement */
    bool has_agreed;          /* atomic: the agreement has ended, and `reason` is final */
    enum cshim_reason reason; /* CSHIM_REASON_NOT_AGREED; _COMPRESS once all ranks have agreed */
    struct cshim_gloo_agreement *agreement; /* NULL: not begun */

    pthread_mutex_t choosing; /* guards the classes, chosen_by_tag and has_failed */
    pthread_cond_t decided;   /* signalled when a decision of the ranks ends */
    bool has_failed;          /* a decision has failed: no call may wait for one */
    struct cshim_gloo_class *classes;
    uint32_t chosen_by_tag[CSHIM_GLOO_TAGS]; /* number of calls with each tag, for number_call() */

    /* The lock of the list (context.c) guards the following fields. */
    /* Number of compressed calls of each function with each tag below CSHIM_GLOO_TAGS. */
    uint32_t calls_by_tag[CSHIM_GLOO_FUNCTIONS][CSHIM_GLOO_TAGS];
    unsigned users;
    struct cshim_gloo_call *idle;
    struct cshim_gloo_context *next;
};

/* Returns the state of a gloo::Context, which the caller releases, or NULL if there is none. With
 * `arguments` it adds a missing state, and returns NULL only without memory. Also frees the unused
 * states of contexts that gloo has freed. Thread-safe, as are the next three functions. */
struct cshim_gloo_context *cshim_gloo_context_find(const void *address,
                                                   const struct cshim_gloo_arguments *arguments);
void cshim_gloo_context_release(struct cshim_gloo_context *context);
/* Acquires the state of a compressed call. Returns NULL without memory. */
struct cshim_gloo_call *cshim_gloo_call_take(struct cshim_gloo_context *context,
                                             const struct cshim_gloo_arguments *arguments);
void cshim_gloo_call_give(struct cshim_gloo_context *context, struct cshim_gloo_call *call);
/* Forgets all contexts, and the runner's threads and memory, in a child of fork(): they belong to
 * the parent. */
void cshim_gloo_contexts_abandon(void);

#endif
