/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/context.h"

#include <stdlib.h>

#include "shim/host/watch.h"
#include "shim/host/feedback.h"
#include "shim/gloo/agree.h"
#include "shim/gloo/transport.h"
#include "shim/host/scratch.h"
#include "shim/gloo/choose.h"

/* Guards the list and, in its entries, the fields that context.h names. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cshim_gloo_context *contexts;

static void free_call(struct cshim_gloo_call *call)
{
    cshim_communicator_free(&call->host);
    free(call);
}

static void free_context(struct cshim_gloo_context *context)
{
    for (struct cshim_gloo_call *call = context->idle, *next; call != NULL; call = next) {
        next = call->next;
        free_call(call);
    }
    cshim_gloo_agreement_free(context->agreement);
    cshim_gloo_classes_free(context);
    cshim_gloo_forget(&context->reference);
    pthread_mutex_destroy(&context->agreeing);
    pthread_mutex_destroy(&context->choosing);
    pthread_cond_destroy(&context->decided);
    cshim_communicator_free(&context->host);
    free(context);
}

/* Removes from the list the contexts that gloo has freed and no call uses, and returns them. The
 * caller holds the lock, and frees them after releasing it. */
static struct cshim_gloo_context *take_gone(void)
{
    struct cshim_gloo_context *gone = NULL;
    for (struct cshim_gloo_context **link = &contexts; *link != NULL;) {
        struct cshim_gloo_context *context = *link;
        if (context->users > 0 || !cshim_gloo_is_gone(&context->reference)) {
            link = &context->next;
            continue;
        }
        *link = context->next;
        context->next = gone;
        gone = context;
    }
    return gone;
}

/* Finds a context in the list and counts one more user of it. Returns NULL if there is none. The
 * caller holds the lock. */
static struct cshim_gloo_context *find(const void *address)
{
    struct cshim_gloo_context *context = contexts;
    while (context != NULL && context->context != address)
        context = context->next;
    if (context != NULL)
        context->users++;
    return context;
}

/* Adds a context to the list. Returns NULL without memory. The caller holds the lock. */
static struct cshim_gloo_context *add_context(const struct cshim_gloo_arguments *arguments)
{
    struct cshim_gloo_context *context = calloc(1, sizeof *context);
    if (context == NULL)
        return NULL;
    context->context = arguments->context;
    context->host.rank = arguments->rank;
    context->host.ranks = arguments->ranks;
    context->reason = CSHIM_REASON_NOT_AGREED;
    cshim_gloo_refer(&context->reference, arguments->options);
    pthread_mutex_init(&context->agreeing, NULL);
    pthread_mutex_init(&context->choosing, NULL);
    pthread_cond_init(&context->decided, NULL);
    context->users = 1;
    context->next = contexts;
    contexts = context;
    return context;
}

struct cshim_gloo_context *cshim_gloo_context_find(const void *address,
                                                   const struct cshim_gloo_arguments *arguments)
{
    pthread_mutex_lock(&lock);
    struct cshim_gloo_context *gone = take_gone();
    struct cshim_gloo_context *context = find(address);
    if (context == NULL && arguments != NULL)
        context = add_context(arguments);
    pthread_mutex_unlock(&lock);
    for (struct cshim_gloo_context *next; gone != NULL; gone = next) {
        next = gone->next;
        free_context(gone);
    }
    return context;
}

void cshim_gloo_context_release(struct cshim_gloo_context *context)
{
    pthread_mutex_lock(&lock);
    context->users--;
    pthread_mutex_unlock(&lock);
}

static struct cshim_gloo_call *make_call(struct cshim_gloo_context *context)
{
    struct cshim_gloo_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return NULL;
    const struct cshim_communicator *whole = &context->host;
    const struct cshim_layout *layout = &whole->layout;
    call->host.transport = &cshim_gloo_transport;
    call->host.job = whole->job;
    call->host.whole = &context->host;
    call->host.rank = whole->rank;
    call->host.ranks = whole->ranks;
    if (cshim_layout_make(&call->host.layout, layout->node_of, whole->ranks, (int)layout->nodes,
                          whole->rank) &&
        cshim_communicator_reserve(&call->host)) {
        call->host.number = whole->number;
        return call;
    }
    free_call(call);
    return NULL;
}

struct cshim_gloo_call *cshim_gloo_call_take(struct cshim_gloo_context *context,
                                             const struct cshim_gloo_arguments *arguments)
{
    const uint32_t tag = arguments->tag;
    uint32_t *calls_by_tag = context->calls_by_tag[arguments->function];
    pthread_mutex_lock(&lock);
    const uint32_t number = tag + (tag < CSHIM_GLOO_TAGS ? ++calls_by_tag[tag] : 1);
    struct cshim_gloo_call *call = context->idle;
    if (call != NULL)
        context->idle = call->next;
    pthread_mutex_unlock(&lock);
    if (call == NULL && (call = make_call(context)) == NULL)
        return NULL;
    call->arguments = arguments;
    call->number = number != 0 ? number : 1; /* 0 means no number */
    call->exception = NULL;
    return call;
}

void cshim_gloo_call_give(struct cshim_gloo_context *context, struct cshim_gloo_call *call)
{
    pthread_mutex_lock(&lock);
    call->next = context->idle;
    context->idle = call;
    pthread_mutex_unlock(&lock);
}

void cshim_gloo_contexts_abandon(void)
{
    cshim_watch_abandon();
    cshim_scratch_abandon();
    cshim_residuals_abandon();
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    contexts = NULL;
}
