/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/choose.h"

#include <math.h>
#include <stdlib.h>

#include "shim/core/clock.h"
#include "shim/core/draw.h"
#include "shim/core/log.h"
#include "shim/gloo/mail.h"
#include "shim/host/classes.h"

struct cshim_gloo_class {
    struct cshim_class class; /* its choice is rank 0's */
    struct cshim_draw draw;
    uint32_t stream; /* 0: calls that are numbered by their tags; else that tag + 1 whose calls are
                        counted */
    struct cshim_gloo_class *next;
};

#define SLOT_TAG_SHIFT 24
enum { TIMINGS, STAGE }; /* a decision's messages: to rank 0, and from there */

static void lack_memory(const struct cshim_gloo_arguments *arguments, void **exception)
{
    cshim_log(CSHIM_LOG_ERROR, "no memory for a class of calls of gloo");
    *exception = cshim_gloo_exception("no memory for a class of calls of gloo");
    cshim_gloo_break(arguments->context); /* the other ranks are in the call */
}

/* Numbers a call, equally on all ranks. Programs number their calls by the tag, or give many one
 * tag, which is small then: the first call with a tag has its number, further ones are counted. The
 * lock is held. */
static uint64_t number_call(struct cshim_gloo_context *context, uint32_t tag, uint32_t *stream)
{
    const uint32_t before = tag < CSHIM_GLOO_TAGS ? context->chosen_by_tag[tag]++ : 0;
    *stream = before == 0 ? 0 : tag + 1;
    return before == 0 ? tag : before;
}

/* Finds the class of a call, or starts it. The lock is held. Returns NULL if no algorithm can make
 * the call, or without memory, which sets *exception. */
static struct cshim_gloo_class *find_class(struct cshim_gloo_context *context,
                                           const struct cshim_gloo_arguments *arguments,
                                           const struct cshim_rule *rule,
                                           const struct cshim_call *call, uint32_t stream,
                                           void **exception)
{
    struct cshim_gloo_class *class = context->classes;
    while (class != NULL &&
           !(class->stream == stream && cshim_class_has(&class->class, rule, call)))
        class = class->next;
    if (class != NULL)
        return class;
    class = calloc(1, sizeof *class);
    if (class == NULL) {
        lack_memory(arguments, exception);
        return NULL;
    }
    if (!cshim_class_start(&class->class, &context->host, rule, call)) {
        free(class);
        return NULL;
    }
    cshim_draw_init(&class->draw, class->class.choice.best);
    class->stream = stream;
    class->next = context->classes;
    context->classes = class;
    return class;
}

/* Waits until what a call takes is known. The lock is held, but not meanwhile. Returns false if the
 * ranks that decide have lost each other. */
static bool await_decision(struct cshim_gloo_context *context, const struct cshim_gloo_class *class,
                           uint64_t number)
{
    while (!context->has_failed && !cshim_draw_may_begin(&class->draw, number))
        pthread_cond_wait(&context->decided, &context->choosing);
    return !context->has_failed;
}

/* Notes that a candidate's algorithm cannot make a call of its class: counts it as infinitely slow.
 */
static void note_refusal(struct cshim_gloo_context *context, struct cshim_gloo_class *class,
                         const struct cshim_gloo_chosen *chosen)
{
    pthread_mutex_lock(&context->choosing);
    if (class->class.choice.phase != CSHIM_CHOICE_FIXED)
        cshim_draw_end(&class->draw, chosen->number, chosen->candidate, INFINITY);
    pthread_mutex_unlock(&context->choosing);
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
    if (may_begin)
        chosen->candidate = class->class.choice.phase == CSHIM_CHOICE_FIXED
                                ? cshim_choice_begin(&class->class.choice)
                                : cshim_draw_begin(&class->draw, chosen->number, &chosen->decides);
    pthread_mutex_unlock(&context->choosing);
    if (class != NULL && !may_begin)
        *exception = cshim_gloo_exception("another call of the context has failed");
    if (class == NULL || *exception != NULL)
        return cshim_plan_call(context->host.job->policy, call, arguments->elements);
    const struct cshim_plan plan =
        cshim_class_plan_candidate(&class->class, chosen->candidate, call, arguments->elements);
    const bool is_made =
        plan.reason == CSHIM_REASON_COMPRESS || chosen->candidate == CSHIM_CANDIDATE_NATIVE;
    if (!is_made)
        note_refusal(context, class, chosen);
    chosen->class = is_made ? class : NULL;
    chosen->began = cshim_seconds();
    return plan;
}

/* A decision under way: the ranks' timings, and the stage that rank 0 sends. */
struct decision {
    struct cshim_gloo_mail mail;
    struct cshim_draw_stage stage;
    struct cshim_gloo_inbox *inboxes;
    struct cshim_draw_timings timings[]; /* at rank 0 of all ranks; elsewhere this rank's */
};

/* Decides at rank 0, and takes the stage. Wakes the calls that wait for that. */
static void end_decision(struct cshim_gloo_context *context, const struct cshim_gloo_chosen *chosen,
                         struct decision *decision)
{
    struct cshim_gloo_class *class = chosen->class;
    pthread_mutex_lock(&context->choosing);
    if (context->host.rank == 0 && !decision->mail.is_broken) {
        decision->stage = cshim_draw_decide(&class->draw, &class->class.choice, chosen->number,
                                            decision->timings, (unsigned)context->host.ranks);
        cshim_class_decided(&class->class, &context->host);
    }
    if (decision->mail.is_broken)
        context->has_failed = true;
    else
        cshim_draw_take(&class->draw, &decision->stage);
    pthread_cond_broadcast(&context->decided);
    pthread_mutex_unlock(&context->choosing);
}

/* Has the ranks decide: each sends rank 0 its timings, and receives the next stage. */
static void decide(struct cshim_gloo_context *context, const struct cshim_gloo_arguments *arguments,
                   const struct cshim_gloo_chosen *chosen, struct decision *decision)
{
    struct cshim_gloo_mail *mail = &decision->mail;
    const uint64_t slot = CSHIM_GLOO_SLOT_DECISION | (uint64_t)arguments->tag << SLOT_TAG_SHIFT;
    const int ranks = arguments->ranks;
    pthread_mutex_lock(&context->choosing);
    cshim_draw_fill_timings(&chosen->class->draw, &decision->timings[0]);
    pthread_mutex_unlock(&context->choosing);
    if (arguments->rank == 0) {
        for (int rank = 1; rank < ranks; rank++)
            cshim_gloo_mail_expect(mail, &decision->inboxes[rank], rank, slot | TIMINGS,
                                   &decision->timings[rank], sizeof *decision->timings, 0);
        for (int rank = 1; rank < ranks; rank++)
            cshim_gloo_mail_await(mail, &decision->inboxes[rank], arguments->timeout);
        end_decision(context, chosen, decision);
        cshim_gloo_mail_send(mail, slot | STAGE, 1, ranks, &decision->stage,
                             sizeof decision->stage);
    } else {
        cshim_gloo_mail_expect(mail, &decision->inboxes[0], 0, slot | STAGE, &decision->stage,
                               sizeof decision->stage, 0);
        cshim_gloo_mail_send(mail, slot | TIMINGS, 0, 1, &decision->timings[0],
                             sizeof *decision->timings);
        cshim_gloo_mail_await(mail, &decision->inboxes[0], arguments->timeout);
        end_decision(context, chosen, decision);
    }
    cshim_gloo_mail_finish(mail, arguments->timeout);
}

/* Has the ranks decide in a call. After an error gloo may still write to the messages, which are
 * left behind. */
static void decide_in_call(struct cshim_gloo_context *context,
                           const struct cshim_gloo_arguments *arguments,
                           const struct cshim_gloo_chosen *chosen, void **exception)
{
    const size_t messages = arguments->rank == 0 ? (size_t)arguments->ranks : 1;
    struct decision *decision = calloc(1, sizeof *decision + messages * sizeof *decision->timings);
    if (decision != NULL)
        decision->inboxes = calloc(messages, sizeof *decision->inboxes);
    if (decision == NULL || decision->inboxes == NULL) {
        lack_memory(arguments, exception);
        free(decision);
        return;
    }
    decision->mail.context = arguments->context;
    decide(context, arguments, chosen, decision);
    if (decision->mail.is_broken) {
        cshim_gloo_break(arguments->context); /* the other ranks may wait for this one */
        *exception = cshim_gloo_exception("the ranks of a call have lost each other");
        return;
    }
    for (size_t i = 0; i < messages; i++)
        cshim_gloo_inbox_free(&decision->inboxes[i]);
    free(decision->inboxes);
    free(decision);
}

void cshim_gloo_chosen_end(struct cshim_gloo_context *context,
                           const struct cshim_gloo_arguments *arguments,
                           const struct cshim_gloo_chosen *chosen, void **exception)
{
    const double seconds = cshim_seconds() - chosen->began;
    struct cshim_gloo_class *class = chosen->class;
    pthread_mutex_lock(&context->choosing);
    if (class->class.choice.phase != CSHIM_CHOICE_FIXED)
        cshim_draw_end(&class->draw, chosen->number, chosen->candidate, seconds);
    cshim_class_add(&class->class, chosen->candidate, seconds);
    cshim_class_count(&class->class, &context->host);
    pthread_mutex_unlock(&context->choosing);
    if (chosen->decides)
        decide_in_call(context, arguments, chosen, exception);
}

void cshim_gloo_classes_free(struct cshim_gloo_context *context)
{
    while (context->classes != NULL) {
        struct cshim_gloo_class *class = context->classes;
        context->classes = class->next;
        free(class);
    }
}
