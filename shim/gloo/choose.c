/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/choose.h"

#include <math.h>
#include <stdlib.h>

#include "shim/core/clock.h"
#include "shim/core/log.h"
#include "shim/gloo/mail.h"
#include "shim/report/classes.h"

struct cshim_gloo_class {
    struct cshim_class class; /* only rank 0's choice learns; other ranks follow `draw` */
    struct cshim_draw draw;
    uint32_t stream; /* 0: calls are numbered by their tags; else all have the tag `stream` - 1, and
                        are numbered by a count */
    struct cshim_gloo_class *next;
};

/* Message types. A decision: TIMINGS to rank 0, STAGE from it. A barrier: HERE to rank 0, GO from
 * it. */
enum { TIMINGS, STAGE, HERE, GO };

static void lack_memory(const struct cshim_gloo_arguments *arguments, void **exception)
{
    cshim_log(CSHIM_LOG_ERROR, "no memory for a class of calls of gloo");
    *exception = cshim_gloo_exception("no memory for a class of calls of gloo");
    cshim_gloo_break(arguments->context); /* the other ranks wait in the call */
}

/* Returns a number for a call, equal on all ranks, and its stream. Most programs give each call a
 * tag of its own, or many calls one tag. So a call is numbered by its tag, except further calls
 * with one tag below CSHIM_GLOO_TAGS, which are numbered by a count. The caller holds the lock. */
static uint64_t number_call(struct cshim_gloo_context *context, uint32_t tag, uint32_t *stream)
{
    const uint32_t before = tag < CSHIM_GLOO_TAGS ? context->chosen_by_tag[tag]++ : 0;
    *stream = before == 0 ? 0 : tag + 1;
    return before == 0 ? tag : before;
}

/* Finds or adds the class of a call. The caller holds the lock. Returns NULL if no algorithm can
 * make the smallest call of the class, or without memory, which sets *exception. */
static struct cshim_gloo_class *find_class(struct cshim_gloo_context *context,
                                           const struct cshim_gloo_arguments *arguments,
                                           const struct cshim_rule *rule,
                                           const struct cshim_call *call, uint32_t stream,
                                           void **exception)
{
    const struct cshim_learned_choice key = cshim_learned_key(rule, call);
    struct cshim_gloo_class *class = context->classes;
    while (class != NULL &&
           !(class->stream == stream && cshim_class_has(&class->class, rule, call->op, &key)))
        class = class->next;
    if (class != NULL)
        return class;
    class = calloc(1, sizeof *class);
    if (class == NULL) {
        lack_memory(arguments, exception);
        return NULL;
    }
    if (!cshim_class_start(&class->class, context->host.learned, rule, call)) {
        free(class);
        return NULL;
    }
    cshim_draw_init(&class->draw, class->class.choice.best);
    class->stream = stream;
    class->next = context->classes;
    context->classes = class;
    return class;
}

/* Waits until a call's candidate is known. The caller holds the lock, which is released during the
 * wait. Returns false if a decision has failed. */
static bool await_decision(struct cshim_gloo_context *context, const struct cshim_gloo_class *class,
                           uint64_t number)
{
    while (!context->has_failed && !cshim_draw_may_begin(&class->draw, number))
        pthread_cond_wait(&context->decided, &context->choosing);
    return !context->has_failed;
}

/* Notes that a candidate's algorithm cannot make a call of its class: if the call is timed, records
 * an infinite duration. */
static void note_refusal(struct cshim_gloo_context *context, struct cshim_gloo_class *class,
                         const struct cshim_gloo_chosen *chosen)
{
    pthread_mutex_lock(&context->choosing);
    if (class->class.choice.phase != CSHIM_CHOICE_FIXED)
        cshim_draw_end(&class->draw, chosen->number, chosen->drawn.candidate, INFINITY);
    pthread_mutex_unlock(&context->choosing);
}

/* An exchange with rank 0: each rank sends rank 0 a message, and rank 0 sends all ranks an answer.
 */
struct talk {
    struct cshim_gloo_mail mail;
    struct cshim_gloo_inbox *inboxes; /* on rank 0: by rank; elsewhere: one */
    size_t bytes, answer_bytes;
    void *messages; /* on rank 0: those of all ranks; elsewhere: this rank's */
    void *answer;
};

/* Allocates an exchange with rank 0. Returns NULL without memory. */
static struct talk *start_talk(const struct cshim_gloo_arguments *arguments, size_t bytes,
                               size_t answer_bytes)
{
    const size_t messages = arguments->rank == 0 ? (size_t)arguments->ranks : 1;
    const size_t inboxes_bytes = messages * sizeof(struct cshim_gloo_inbox);
    struct talk *talk = calloc(1, sizeof *talk + inboxes_bytes + messages * bytes + answer_bytes);
    if (talk == NULL)
        return NULL;
    talk->mail.context = arguments->context;
    talk->bytes = bytes;
    talk->answer_bytes = answer_bytes;
    talk->inboxes = (struct cshim_gloo_inbox *)(talk + 1);
    talk->messages = (char *)talk->inboxes + inboxes_bytes;
    talk->answer = (char *)talk->messages + messages * bytes;
    return talk;
}

static uint64_t decision_slot(const struct cshim_gloo_arguments *arguments, unsigned kind)
{
    return CSHIM_GLOO_SLOT_DECISION | (uint64_t)arguments->tag << CSHIM_GLOO_TAG_SHIFT | kind;
}

/* Sends this rank's message to rank 0; on rank 0, receives those of all ranks. */
static void tell_rank_0(struct talk *talk, const struct cshim_gloo_arguments *arguments,
                        unsigned kind)
{
    const uint64_t slot = decision_slot(arguments, kind);
    if (arguments->rank != 0) {
        cshim_gloo_mail_send(&talk->mail, slot, 0, 1, talk->messages, talk->bytes);
        return;
    }
    for (int rank = 1; rank < arguments->ranks; rank++)
        cshim_gloo_mail_expect(&talk->mail, &talk->inboxes[rank], rank, slot,
                               (char *)talk->messages + (size_t)rank * talk->bytes, talk->bytes, 0);
    for (int rank = 1; rank < arguments->ranks; rank++)
        cshim_gloo_mail_await(&talk->mail, &talk->inboxes[rank], arguments->timeout);
}

/* Receives rank 0's answer; on rank 0, sends it to all ranks. */
static void hear_rank_0(struct talk *talk, const struct cshim_gloo_arguments *arguments,
                        unsigned kind)
{
    const uint64_t slot = decision_slot(arguments, kind);
    if (arguments->rank == 0) {
        cshim_gloo_mail_send(&talk->mail, slot, 1, arguments->ranks, talk->answer,
                             talk->answer_bytes);
        return;
    }
    cshim_gloo_mail_expect(&talk->mail, &talk->inboxes[0], 0, slot, talk->answer,
                           talk->answer_bytes, 0);
    cshim_gloo_mail_await(&talk->mail, &talk->inboxes[0], arguments->timeout);
}

/* Ends an exchange with rank 0. Returns false if a connection is broken; then nothing is freed,
 * because gloo may still write to the messages. */
static bool end_talk(struct talk *talk, const struct cshim_gloo_arguments *arguments)
{
    cshim_gloo_mail_finish(&talk->mail, arguments->timeout);
    if (talk->mail.is_broken)
        return false;
    for (int i = 0; i < (arguments->rank == 0 ? arguments->ranks : 1); i++)
        cshim_gloo_inbox_free(&talk->inboxes[i]);
    free(talk);
    return true;
}

/* Waits until all ranks have begun a call. If gloo fails, closes the context's connections, so
 * that the call fails, too. Otherwise the buffers of the failed exchange, which cannot be freed,
 * would keep the connections open. */
static void meet(const struct cshim_gloo_arguments *arguments, void **exception)
{
    struct talk *talk = start_talk(arguments, 1, 1);
    if (talk == NULL) {
        lack_memory(arguments, exception);
        return;
    }
    tell_rank_0(talk, arguments, HERE);
    hear_rank_0(talk, arguments, GO);
    if (!end_talk(talk, arguments))
        cshim_gloo_break(arguments->context);
}

struct cshim_plan cshim_gloo_choose(struct cshim_gloo_context *context,
                                    const struct cshim_gloo_arguments *arguments,
                                    const struct cshim_rule *rule, struct cshim_call *call,
                                    struct cshim_gloo_chosen *chosen, void **exception)
{
    uint32_t stream;
    chosen->class = NULL;
    if (!cshim_class_is_for(rule, call))
        return cshim_plan_call(context->host.job->policy, call, arguments->elements);
    pthread_mutex_lock(&context->choosing);
    chosen->number = number_call(context, arguments->tag, &stream);
    struct cshim_gloo_class *class = find_class(context, arguments, rule, call, stream, exception);
    const bool may_begin = class != NULL && await_decision(context, class, chosen->number);
    if (may_begin && class->class.choice.phase == CSHIM_CHOICE_FIXED)
        chosen->drawn =
            (struct cshim_draw_call){.candidate = cshim_choice_begin(&class->class.choice)};
    else if (may_begin)
        chosen->drawn = cshim_draw_begin(&class->draw, chosen->number);
    pthread_mutex_unlock(&context->choosing);
    if (class != NULL && !may_begin)
        *exception = cshim_gloo_exception("another call of the context has failed");
    if (class == NULL || *exception != NULL)
        return cshim_plan_call(context->host.job->policy, call, arguments->elements);
    const struct cshim_plan plan = cshim_class_plan_candidate(
        &class->class, chosen->drawn.candidate, call, arguments->elements);
    const bool is_made =
        plan.reason == CSHIM_REASON_COMPRESS || chosen->drawn.candidate == CSHIM_CANDIDATE_NATIVE;
    if (!is_made)
        note_refusal(context, class, chosen);
    chosen->class = is_made ? class : NULL;
    if (is_made && chosen->drawn.is_timed)
        meet(arguments, exception);
    chosen->began = cshim_seconds();
    return plan;
}

/* Applies the next stage, which rank 0 decides here, and wakes the calls that wait for the
 * decision. These calls fail if the exchange has failed. */
static void end_decision(struct cshim_gloo_context *context, const struct cshim_gloo_chosen *chosen,
                         struct talk *talk)
{
    struct cshim_gloo_class *class = chosen->class;
    struct cshim_draw_stage *stage = talk->answer;
    pthread_mutex_lock(&context->choosing);
    if (context->host.rank == 0 && !talk->mail.is_broken) {
        *stage = cshim_draw_decide(&class->draw, &class->class.choice, chosen->number,
                                   talk->messages, (unsigned)context->host.ranks);
        cshim_class_decided(&class->class, cshim_communicator_ledger(&context->host),
                            stage->is_new);
    }
    if (talk->mail.is_broken)
        context->has_failed = true;
    else
        cshim_draw_take(&class->draw, stage);
    pthread_cond_broadcast(&context->decided);
    pthread_mutex_unlock(&context->choosing);
}

/* Lets the ranks decide: each sends rank 0 its timings and receives the next stage. */
static void decide_stage(struct cshim_gloo_context *context,
                         const struct cshim_gloo_arguments *arguments,
                         const struct cshim_gloo_chosen *chosen, void **exception)
{
    struct talk *talk =
        start_talk(arguments, sizeof(struct cshim_draw_timings), sizeof(struct cshim_draw_stage));
    if (talk == NULL) {
        lack_memory(arguments, exception);
        return;
    }
    pthread_mutex_lock(&context->choosing);
    cshim_draw_fill_timings(&chosen->class->draw, talk->messages);
    pthread_mutex_unlock(&context->choosing);
    tell_rank_0(talk, arguments, TIMINGS);
    if (arguments->rank == 0)
        end_decision(context, chosen, talk);
    hear_rank_0(talk, arguments, STAGE);
    if (arguments->rank != 0)
        end_decision(context, chosen, talk);
    if (!end_talk(talk, arguments)) {
        cshim_gloo_break(arguments->context); /* the other ranks may wait for this one */
        *exception = cshim_gloo_exception("the ranks of a call have lost each other");
    }
}

void cshim_gloo_chosen_end(struct cshim_gloo_context *context,
                           const struct cshim_gloo_arguments *arguments,
                           const struct cshim_gloo_chosen *chosen, void **exception)
{
    const double seconds = cshim_seconds() - chosen->began;
    struct cshim_gloo_class *class = chosen->class;
    pthread_mutex_lock(&context->choosing);
    if (class->class.choice.phase != CSHIM_CHOICE_FIXED)
        cshim_draw_end(&class->draw, chosen->number, chosen->drawn.candidate, seconds);
    cshim_class_add(&class->class, chosen->drawn.candidate, seconds);
    cshim_class_count(&class->class, cshim_communicator_ledger(&context->host));
    pthread_mutex_unlock(&context->choosing);
    if (chosen->drawn.decides)
        decide_stage(context, arguments, chosen, exception);
}

void cshim_gloo_classes_free(struct cshim_gloo_context *context)
{
    while (context->classes != NULL) {
        struct cshim_gloo_class *class = context->classes;
        context->classes = class->next;
        free(class);
    }
}
