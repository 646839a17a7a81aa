/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/choose.h"

#include <stdlib.h>

#include "shim/core/clock.h"
#include "shim/nccl/background.h"
#include "shim/nccl/measure.h"

/* Time after which a wait for an answer is logged; again after 5 times, 25 times ... as long. */
#define WARN_SECONDS 60.0

/* The events around a sampled call; NULL: not recorded. */
struct sample_events {
    CUevent begin, end;
};

/* State of a class's next decision. */
struct deciding {
    uint32_t decisions; /* number of decisions made before */
    uint32_t calls;     /* number of calls since the decision fell due */
    bool has_asked;     /* the question about the next window is open */
    struct sample_events events[CSHIM_CHOICE_SAMPLES_MAX];
};

struct cshim_choosing {
    struct cshim_tag tag; /* magic 0: no durations are collected, so no candidates are tried */
    struct cshim_asker *asker;
    struct cshim_class *classes;
    struct deciding deciding[CSHIM_CLASSES_MAX]; /* by index in `classes` */
};

bool cshim_choosing_make(struct cshim_nccl_comm *comm)
{
    struct cshim_class *classes = NULL;
    if (!cshim_classes_reserve(&classes, comm->job->policy, CSHIM_NCCL))
        return false;
    if (classes == NULL)
        return true;
    comm->choosing = calloc(1, sizeof *comm->choosing);
    if (comm->choosing == NULL) {
        free(classes);
        return false;
    }
    comm->choosing->classes = classes;
    return true;
}

struct cshim_tag cshim_choosing_collect(struct cshim_nccl_comm *comm)
{
    struct cshim_tag tag = {0};
    if (comm->choosing != NULL && comm->rank == 0 && comm->job->learned == NULL &&
        cshim_durations_collect(&comm->reached_at, (uint32_t)comm->ranks, &tag))
        comm->choosing->tag = tag;
    return tag;
}

/* A rank without memory for an asker never sends durations; then nothing is decided on any rank. */
void cshim_choosing_meet(struct cshim_nccl_comm *comm, const struct cshim_tag *tag)
{
    if (comm->choosing == NULL || tag->magic == 0)
        return;
    comm->choosing->tag = *tag;
    comm->choosing->asker = cshim_asker_make(tag, (uint32_t)comm->rank, (uint32_t)comm->ranks);
}

static void give_events(struct cshim_nccl_comm *comm, struct sample_events *events)
{
    if (events->begin != NULL)
        cshim_measure_give_event(comm, events->begin);
    if (events->end != NULL)
        cshim_measure_give_event(comm, events->end);
    *events = (struct sample_events){NULL, NULL};
}

void cshim_choosing_free(struct cshim_nccl_comm *comm)
{
    struct cshim_choosing *choosing = comm->choosing;
    if (choosing == NULL)
        return;
    for (unsigned i = 0; i < CSHIM_CLASSES_MAX; i++)
        for (unsigned j = 0; j < CSHIM_CHOICE_SAMPLES_MAX; j++)
            give_events(comm, &choosing->deciding[i].events[j]);
    if (comm->rank == 0 && choosing->tag.magic != 0)
        cshim_durations_end(&choosing->tag);
    cshim_asker_free(choosing->asker);
    free(choosing->classes);
    free(choosing);
    comm->choosing = NULL;
}

static struct cshim_ledger *ledger_of(const struct cshim_nccl_comm *comm)
{
    return comm->rank == 0 ? &comm->job->ledger : NULL;
}

/* Reads the durations of a class's samples. Returns false, without reading any, if one of the
 * sampled calls has not completed. */
static bool read_samples(struct cshim_nccl_comm *comm, struct cshim_class *class,
                         struct deciding *deciding)
{
    struct cshim_choice *choice = &class->choice;
    for (unsigned i = 0; i < choice->samples; i++)
        if (deciding->events[i].end != NULL &&
            cshim_device_query(deciding->events[i].end, NULL) == CUDA_ERROR_NOT_READY)
            return false;
    for (unsigned i = 0; i < choice->samples; i++) {
        struct sample_events *events = &deciding->events[i];
        double seconds;
        if (events->begin != NULL && events->end != NULL &&
            cshim_measure_elapsed(events->begin, events->end, &seconds))
            choice->seconds[i] = (float)seconds;
        give_events(comm, events);
    }
    return true;
}

/* Asks whether the decision is in force from the next window on. */
static void ask(struct cshim_choosing *choosing, uint32_t index)
{
    const struct cshim_choice *choice = &choosing->classes[index].choice;
    struct deciding *deciding = &choosing->deciding[index];
    struct cshim_ask ask = {
        .class = index,
        .decision = deciding->decisions,
        .window = deciding->calls / CSHIM_WINDOW + 1,
        .samples = choice->samples,
    };
    memcpy(ask.seconds, choice->seconds, sizeof ask.seconds);
    cshim_asker_ask(choosing->asker, &ask);
    deciding->has_asked = true;
}

/* Waits for the answer to a class's question. A thread of rank 0's process answers at once, so this
 * does not wait for calls of other ranks. */
static ncclResult_t await_answer(struct cshim_nccl_comm *comm, uint32_t index,
                                 struct cshim_answer *answer)
{
    struct cshim_asker *asker = comm->choosing->asker;
    const double began = cshim_seconds();
    double warn = WARN_SECONDS;
    enum cshim_asked asked;
    for (bool waits = false; (asked = cshim_asker_take(asker, index, answer)) == CSHIM_ASKED_OPEN;
         waits = true) {
        const ncclResult_t state = cshim_nccl_state(comm);
        if (state != ncclSuccess && state != ncclInProgress)
            return state;
        if (!waits && comm->rank == 0)
            __atomic_add_fetch(&comm->job->host_waits, 1, __ATOMIC_RELAXED);
        cshim_asker_wait(asker, 1);
        if (cshim_seconds() - began > warn) {
            cshim_log(CSHIM_LOG_WARN, "rank %d of %d has waited %.0f s for rank 0's process",
                      comm->rank, comm->ranks, warn);
            warn *= 5;
        }
    }
    if (asked == CSHIM_ASKED_ANSWERED)
        return ncclSuccess;
    cshim_log(CSHIM_LOG_ERROR, "rank %d of %d cannot choose as the others do: rank 0 has ended",
              comm->rank, comm->ranks);
    return ncclRemoteError;
}

/* Decides about a class by the agreed durations. They are the report's, too: a rank's own contain
 * waiting for the other ranks. */
static void decide_class(struct cshim_nccl_comm *comm, struct cshim_class *class,
                         struct deciding *deciding, const struct cshim_answer *answer)
{
    memcpy(class->choice.seconds, answer->seconds, sizeof answer->seconds);
    memcpy(class->choice.own, answer->seconds, sizeof answer->seconds);
    cshim_class_decide(class, ledger_of(comm));
    deciding->decisions++;
    deciding->calls = 0;
    if (comm->rank == 0)
        __atomic_add_fetch(&comm->job->decisions, 1, __ATOMIC_RELAXED);
}

/* Advances a decision that is due, before each call of the class. At the beginning of a window,
 * takes the answer about this window, if this rank has asked. If the decision is in force, decides;
 * otherwise asks about the next window, once the samples' durations are known. */
static ncclResult_t advance_decision(struct cshim_nccl_comm *comm, uint32_t index)
{
    struct cshim_choosing *choosing = comm->choosing;
    struct cshim_class *class = &choosing->classes[index];
    struct deciding *deciding = &choosing->deciding[index];
    struct cshim_answer answer;
    if (choosing->asker == NULL)
        return ncclSuccess;
    if (deciding->calls % CSHIM_WINDOW != 0) {
        cshim_asker_advance(choosing->asker);
        return ncclSuccess;
    }
    const bool is_known = deciding->has_asked; /* the samples' durations were read */
    if (deciding->has_asked) {
        const ncclResult_t status = await_answer(comm, index, &answer);
        if (status != ncclSuccess)
            return status;
        deciding->has_asked = false;
        if (answer.is_in_force) {
            decide_class(comm, class, deciding, &answer);
            return ncclSuccess;
        }
    }
    if (is_known || read_samples(comm, class, deciding))
        ask(choosing, index);
    return ncclSuccess;
}

/* Returns the candidate of the next call of a class. */
static unsigned take_candidate(struct cshim_choosing *choosing, uint32_t index)
{
    struct cshim_choice *choice = &choosing->classes[index].choice;
    if (!cshim_choice_is_due(choice))
        return cshim_choice_begin(choice);
    choosing->deciding[index].calls++;
    choice->is_sampled = false;
    return choice->best;
}

/* Plans a call by the next candidate of its class. */
static ncclResult_t choose_in_class(struct cshim_nccl_call *call, struct cshim_class *class,
                                    const struct cshim_call *facts)
{
    struct cshim_choosing *choosing = call->comm->choosing;
    const uint32_t index = (uint32_t)(class - choosing->classes);
    if (cshim_choice_is_due(&class->choice)) {
        const ncclResult_t status = advance_decision(call->comm, index);
        if (status != ncclSuccess)
            return status;
    }
    const unsigned candidate = take_candidate(choosing, index);
    call->plan = cshim_class_plan_candidate(class, candidate, facts, cshim_call_elements(call));
    if (call->plan.reason == CSHIM_REASON_COMPRESS || candidate == CSHIM_CANDIDATE_NATIVE)
        call->chosen = (struct cshim_chosen){
            .class = class, .candidate = candidate, .is_sampled = class->choice.is_sampled};
    return ncclSuccess;
}

ncclResult_t cshim_choose(struct cshim_nccl_call *call, bool is_alone)
{
    const struct cshim_choosing *choosing = call->comm->choosing;
    const struct cshim_job *job = call->comm->job;
    const struct cshim_call facts = cshim_call_facts(call);
    const uint64_t count = cshim_call_elements(call);
    const struct cshim_rule *rule;
    struct cshim_class *class = NULL;
    call->plan.reason = cshim_plan_reason(job->policy, &facts, count, &rule);
    if (call->plan.reason != CSHIM_REASON_COMPRESS)
        return ncclSuccess;
    if (choosing == NULL || !cshim_class_is_for(rule, &facts)) {
        call->plan = cshim_plan_call(job->policy, &facts, count);
        return ncclSuccess;
    }
    if (is_alone && call->capture_id == 0 && (job->learned != NULL || choosing->tag.magic != 0))
        class = cshim_class_find(choosing->classes, job->learned, rule, &facts);
    if (class != NULL)
        return choose_in_class(call, class, &facts);
    call->plan =
        cshim_class_plan(choosing->classes, job->learned, job->policy, rule, &facts, count);
    return ncclSuccess;
}

void cshim_choose_mark(const struct cshim_nccl_call *call, bool is_end)
{
    struct cshim_nccl_comm *comm = call->comm;
    struct cshim_choosing *choosing = comm->choosing;
    if (!call->chosen.is_sampled)
        return;
    const uint32_t index = (uint32_t)(call->chosen.class - choosing->classes);
    struct sample_events *events =
        &choosing->deciding[index].events[call->chosen.class->choice.samples - 1];
    CUevent event = cshim_measure_take_event(comm);
    if (event == NULL)
        return;
    CSHIM_SCOPE scope = cshim_device_enter(comm);
    if (scope.result == CUDA_SUCCESS && cshim_cuda.EventRecord(event, call->stream) == CUDA_SUCCESS)
        *(is_end ? &events->end : &events->begin) = event;
    else
        cshim_measure_give_event(comm, event);
}

void cshim_choose_count(const struct cshim_nccl_call *call)
{
    struct cshim_class *class = call->chosen.class;
    struct cshim_ledger *ledger = ledger_of(call->comm);
    if (class == NULL || ledger == NULL)
        return;
    cshim_class_add(class, call->chosen.candidate, 0);
    cshim_class_count(class, ledger);
}
