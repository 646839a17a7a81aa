/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement of a context: propose, acknowledge, commit, as MPI's ranks do it
 * (shim/mpi/agree.c).
 *
 * gloo announces a message before it sends it, and nothing is sent that nobody asks for. So a rank
 * may speak to one that lacks the shim. A rank that has stopped waiting never acknowledges, so a
 * late rank 0 cannot count it in. Messages that may still come have their memory until gloo has
 * freed the context.
 *
 * A time limit of gloo's own breaks the context's connections. So where a rank may find nobody, it
 * looks at the memory of a message, and waits once the message has begun to come.
 *
 * Where rank 0 lacks the shim, one of the others says so: each tells the ranks above it that it is
 * there, and is silent if a rank below it has told so. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/core/greeting.h"
#include "shim/core/log.h"
#include "shim/gloo/context.h"
#include "shim/report/report.h"

#define WAIT_SECONDS 10.0
#define WAIT_MORE 1.2     /* times that, for an answer of rank 0, which may wait so long itself */
#define PRESENCE_PART 0.1 /* of that, after which ranks begin to tell that they are there */
#define PRESENCE_SECONDS 0.5

/* The messages; their slots count up. */
enum word { HELLO, PRESENCE, PROPOSAL, ACKNOWLEDGEMENT, DECISION, TERMS, FACTS, WORDS };

/* The first byte of a message up to the acknowledgement is not 0; of a hello that of the version.
 */
enum answer { NO = 1, YES = 2 };

struct decision {
    uint32_t on;
    uint32_t observe;
    uint64_t terms_bytes; /* for each rank an int, the lowest rank of its node; the policy's text */
    char source[CSHIM_PATH_MAX];
    char job[CSHIM_JOB_MAX];
};

/* Messages of one word that are received, one behind the other. */
struct incoming {
    struct cshim_gloo_buffer *buffer;
    const uint8_t *first;
    size_t bytes;   /* of each */
    unsigned count; /* zero: none is received */
    unsigned come;  /* so many are complete */
};

struct cshim_gloo_agreement {
    struct cshim_gloo_context *context;
    const struct cshim_gloo_arguments *arguments;
    cshim_gloo_measuring *measuring;
    int rank, ranks;
    struct cshim_gloo_buffer *sent[WORDS];
    struct incoming received[WORDS];
    bool is_broken;         /* gloo has thrown: the program's own call will find the same */
    uint8_t proposal, here; /* here is always YES */
    struct decision decision;
    void *terms;
    uint8_t *answers; /* by rank: at rank 0 acknowledgements, elsewhere presences */
    struct cshim_greeting greetings[]; /* at rank 0 by rank; else the own one. answers lie behind */
};

/* Messages ------------------------------------------------------------------------------------- */

/* Notes whether gloo has thrown, and drops the exception. */
static bool check(struct cshim_gloo_agreement *agreement, void *exception)
{
    if (exception == NULL)
        return true;
    cshim_gloo_drop(exception);
    agreement->is_broken = true;
    return false;
}

static void send(struct cshim_gloo_agreement *agreement, enum word word, int to, void *message,
                 size_t bytes)
{
    struct cshim_gloo_buffer **buffer = &agreement->sent[word];
    void *exception = NULL;
    if (agreement->is_broken)
        return;
    if (*buffer == NULL)
        *buffer = cshim_gloo_buffer_make(agreement->arguments->context, message, bytes, &exception);
    if (*buffer != NULL)
        cshim_gloo_send(*buffer, to, CSHIM_GLOO_SLOT_AGREEMENT | word, 0, bytes, &exception);
    check(agreement, exception);
}

/* Starts to receive a message of every rank from `from` to before `end`. */
static void receive(struct cshim_gloo_agreement *agreement, enum word word, int from, int end,
                    void *messages, size_t bytes)
{
    struct incoming *incoming = &agreement->received[word];
    void *exception = NULL;
    if (agreement->is_broken)
        return;
    cshim_gloo_buffer_free(incoming->buffer);
    *incoming = (struct incoming){.first = messages, .bytes = bytes};
    incoming->buffer = cshim_gloo_buffer_make(agreement->arguments->context, messages,
                                              bytes * (size_t)(end - from), &exception);
    for (; from < end && exception == NULL; from++)
        if (cshim_gloo_receive(incoming->buffer, from, CSHIM_GLOO_SLOT_AGREEMENT | word,
                               bytes * incoming->count, bytes, &exception) == 0)
            incoming->count++;
    check(agreement, exception);
}

/* How many messages have come or begun to come. */
static unsigned begun(const struct incoming *incoming, enum word word)
{
    const size_t place = word == HELLO ? offsetof(struct cshim_greeting, version) : 0;
    unsigned begun = 0;
    for (unsigned i = 0; i < incoming->count; i++)
        begun +=
            __atomic_load_n(&incoming->first[i * incoming->bytes + place], __ATOMIC_RELAXED) != 0;
    return begun;
}

/* Waits for one more message, which is sure to come. */
static bool take(struct cshim_gloo_agreement *agreement, enum word word)
{
    void *exception = NULL;
    if (agreement->is_broken)
        return false;
    cshim_gloo_wait_received(agreement->received[word].buffer, agreement->arguments->timeout,
                             &exception);
    agreement->received[word].come++;
    return check(agreement, exception);
}

/* Waits until so many messages have come, so many seconds at most. Returns whether they have. */
static bool wait_for(struct cshim_gloo_agreement *agreement, enum word word, unsigned count,
                     double seconds)
{
    const double began = cshim_seconds();
    const struct incoming *incoming = &agreement->received[word];
    void *exception = NULL;
    while (!agreement->is_broken && incoming->come < count) {
        if (incoming->come < begun(incoming, word)) {
            take(agreement, word);
            continue;
        }
        const double waited = cshim_seconds() - began;
        if (waited > seconds)
            return false;
        cshim_gloo_look(incoming->buffer, &exception);
        if (check(agreement, exception))
            cshim_pause(waited);
    }
    return !agreement->is_broken;
}

/* Sends a message to all ranks that have said hello. gloo does not tell which have. */
static void send_to_all(struct cshim_gloo_agreement *agreement, enum word word, void *message,
                        size_t bytes)
{
    unsigned count = 0;
    void *exception = NULL;
    for (int to = 1; to < agreement->ranks; to++) {
        if (agreement->greetings[to].version[0] == '\0')
            continue;
        send(agreement, word, to, message, bytes);
        count++;
    }
    for (; count > 0 && !agreement->is_broken; count--) {
        cshim_gloo_wait_sent(agreement->sent[word], agreement->arguments->timeout, &exception);
        check(agreement, exception);
    }
}

/* How long to wait for ranks that may lack the shim: never long beside the call's own limit. */
static double patience(const struct cshim_gloo_agreement *agreement)
{
    const double limit = 0.25e-3 * (double)agreement->arguments->timeout;
    return limit > 0 && limit < WAIT_SECONDS ? limit : WAIT_SECONDS;
}

/* The two sides ------------------------------------------------------------------------------- */

/* Waits for the hellos, and answers those that have come. */
static bool collect_hellos(struct cshim_gloo_agreement *agreement)
{
    char missing[700] = "";
    receive(agreement, HELLO, 1, agreement->ranks, agreement->greetings + 1,
            sizeof(struct cshim_greeting));
    wait_for(agreement, HELLO, (unsigned)agreement->ranks - 1, patience(agreement));
    if (agreement->is_broken)
        return false;
    bool all = true;
    for (int rank = 1; rank < agreement->ranks; rank++)
        all &= cshim_greeting_fits(agreement->greetings, &agreement->greetings[rank], rank, missing,
                                   sizeof missing);
    if (!all)
        cshim_log(
            CSHIM_LOG_WARN,
            "nothing is compressed: not all ranks have this shim: %s; start all with the same "
            "LD_PRELOAD and COMPSHIM",
            missing);
    agreement->proposal = all ? YES : NO;
    send_to_all(agreement, PROPOSAL, &agreement->proposal, 1);
    return all;
}

/* Waits for the acknowledgements, and decides. */
static bool collect_acknowledgements(struct cshim_gloo_agreement *agreement)
{
    receive(agreement, ACKNOWLEDGEMENT, 1, agreement->ranks, agreement->answers, 1);
    const bool all =
        wait_for(agreement, ACKNOWLEDGEMENT, (unsigned)agreement->ranks - 1, patience(agreement));
    if (!all && !agreement->is_broken)
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed: a rank stopped waiting for the agreement");
    return all;
}

/* Puts the terms together: where each rank is, and the policy. */
static bool write_terms(struct cshim_gloo_agreement *agreement, const struct cshim_offer *offer)
{
    const struct cshim_greeting *greetings = agreement->greetings;
    struct decision *decision = &agreement->decision;
    decision->observe = offer->observe;
    decision->terms_bytes = (size_t)agreement->ranks * sizeof(int) + offer->length;
    memcpy(decision->source, offer->source, sizeof decision->source);
    int *nodes = agreement->terms = malloc(decision->terms_bytes);
    if (nodes == NULL)
        return false;
    for (int rank = 0; rank < agreement->ranks; rank++) {
        nodes[rank] = 0;
        while (greetings[nodes[rank]].machine != greetings[rank].machine)
            nodes[rank]++;
    }
    memcpy(nodes + agreement->ranks, offer->text, offer->length);
    return true;
}

static bool agree_as_root(struct cshim_gloo_agreement *agreement)
{
    struct cshim_offer offer;
    cshim_job_load(&offer);
    const bool on = collect_hellos(agreement) && collect_acknowledgements(agreement) &&
                    write_terms(agreement, &offer);
    agreement->decision.on = on;
    cshim_report_make_job(agreement->decision.job);
    if (agreement->proposal == YES) /* a rank that is only late waits for it, too */
        send_to_all(agreement, DECISION, &agreement->decision, sizeof agreement->decision);
    if (on)
        send_to_all(agreement, TERMS, agreement->terms, agreement->decision.terms_bytes);
    free(offer.text);
    return on && !agreement->is_broken;
}

/* Waits for the proposal. That rank 0 lacks the shim is said by the lowest rank that has it. */
static bool await_proposal(struct cshim_gloo_agreement *agreement)
{
    const double seconds = WAIT_MORE * patience(agreement);
    if (wait_for(agreement, PROPOSAL, 1, PRESENCE_PART * seconds))
        return true;
    for (int to = agreement->rank + 1; to < agreement->ranks; to++)
        send(agreement, PRESENCE, to, &agreement->here, 1);
    if (wait_for(agreement, PROPOSAL, 1, (1 - PRESENCE_PART) * seconds))
        return true;
    if (agreement->rank > 1) {
        receive(agreement, PRESENCE, 1, agreement->rank, agreement->answers, 1);
        if (wait_for(agreement, PRESENCE, 1, PRESENCE_SECONDS))
            return false;
    }
    if (!agreement->is_broken)
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed: not all ranks have this shim: rank 0 does not answer "
                  "rank %d; start all with the same LD_PRELOAD and COMPSHIM",
                  agreement->rank);
    return false;
}

static bool agree_as_other(struct cshim_gloo_agreement *agreement)
{
    receive(agreement, DECISION, 0, 1, &agreement->decision, sizeof agreement->decision);
    receive(agreement, PROPOSAL, 0, 1, &agreement->proposal, 1);
    send(agreement, HELLO, 0, agreement->greetings, sizeof *agreement->greetings);
    if (!await_proposal(agreement) || agreement->proposal != YES)
        return false;
    send(agreement, ACKNOWLEDGEMENT, 0, &agreement->here, 1);
    if (!take(agreement, DECISION) || !agreement->decision.on)
        return false;
    agreement->terms = malloc(agreement->decision.terms_bytes);
    if (agreement->terms == NULL) { /* rank 0 and the others count on this rank */
        cshim_log(CSHIM_LOG_ERROR, "no memory for the policy");
        _exit(1);
    }
    receive(agreement, TERMS, 0, 1, agreement->terms, agreement->decision.terms_bytes);
    return take(agreement, TERMS);
}

/* What has been agreed ------------------------------------------------------------------------- */

static bool find_levels(struct cshim_gloo_context *context)
{
    const struct cshim_layout *layout = &context->host.layout;
    const size_t local_ranks = (size_t)layout->local_ranks;
    context->inside = calloc(local_ranks + layout->nodes, sizeof *context->inside);
    if (context->inside == NULL)
        return false;
    context->across = context->inside + local_ranks;
    cshim_layout_levels(layout, context->host.ranks, context->inside, context->across);
    return true;
}

/* Takes the terms. A rank that has no memory for them cannot go on: the others compress. */
static void accept(struct cshim_gloo_context *context, struct cshim_gloo_agreement *agreement)
{
    const int *nodes = agreement->terms;
    const struct decision *decision = &agreement->decision;
    struct cshim_communicator *host = &context->host;
    struct cshim_offer offer = {.text = (char *)agreement->terms + sizeof(int[host->ranks]),
                                .length = decision->terms_bytes - sizeof(int[host->ranks]),
                                .observe = decision->observe != 0};
    memcpy(offer.source, decision->source, sizeof offer.source);
    cshim_report_set_job(decision->job);
    host->transport = &cshim_gloo_transport;
    host->job = cshim_job_find(&offer);
    if (host->job == NULL ||
        !cshim_layout_make(&host->layout, nodes, host->ranks, host->ranks, host->rank) ||
        !find_levels(context) || !cshim_communicator_reserve(host)) {
        cshim_log(CSHIM_LOG_ERROR, "no memory for a context of gloo");
        _exit(1);
    }
    cshim_job_grow(host->job, host->rank == 0, host->ranks, host->layout.nodes);
    context->reason = CSHIM_REASON_COMPRESS;
    cshim_log(CSHIM_LOG_INFO, "on: policy %s, codecs in %s", offer.source,
              cshim_simd_name(cshim_simd_level()));
}

static void tell(void *of, struct cshim_facts *facts)
{
    struct cshim_gloo_agreement *agreement = of;
    if (agreement->rank == 0) {
        send_to_all(agreement, FACTS, facts, sizeof *facts);
    } else {
        receive(agreement, FACTS, 0, 1, facts, sizeof *facts);
        take(agreement, FACTS);
    }
}

static void measure(void *of, struct cshim_machine *machine)
{
    struct cshim_gloo_agreement *agreement = of;
    void *exception = NULL;
    agreement->measuring(agreement->context, agreement->arguments, machine, &exception);
    check(agreement, exception);
}

static void find_facts(struct cshim_gloo_context *context, struct cshim_gloo_agreement *agreement)
{
    static const struct cshim_facts_ways ways = {.tell = tell, .measure = measure};
    char message[CSHIM_MESSAGE_MAX];
    if (!cshim_facts_find(&context->facts, &ways, agreement, agreement->rank, context->host.job,
                          CSHIM_GLOO, context->host.layout.nodes, message)) {
        cshim_log(CSHIM_LOG_ERROR, "%s", message);
        _exit(1); /* before any work */
    }
    if (context->facts.origin != CSHIM_FACTS_NONE)
        cshim_job_keep_machine(context->host.job, &context->facts.machine);
}

void cshim_gloo_agreement_free(struct cshim_gloo_agreement *agreement)
{
    if (agreement == NULL)
        return;
    for (unsigned word = 0; word < WORDS; word++) {
        cshim_gloo_buffer_free(agreement->sent[word]);
        cshim_gloo_buffer_free(agreement->received[word].buffer);
    }
    free(agreement->terms);
    free(agreement);
}

static struct cshim_gloo_agreement *make_agreement(struct cshim_gloo_context *context,
                                                   const struct cshim_gloo_arguments *arguments)
{
    struct cshim_gloo_agreement *agreement;
    const size_t ranks = (size_t)arguments->ranks, greetings = arguments->rank == 0 ? ranks : 1;
    agreement = calloc(1, sizeof *agreement + greetings * sizeof *agreement->greetings + ranks);
    if (agreement == NULL)
        return NULL;
    agreement->context = context;
    agreement->arguments = arguments;
    agreement->rank = arguments->rank;
    agreement->ranks = arguments->ranks;
    agreement->here = YES;
    agreement->answers = (uint8_t *)(agreement->greetings + greetings);
    agreement->greetings[0] = cshim_greeting_make();
    return agreement;
}

/* Of an agreement that is made nothing can come any more: all ranks have answered rank 0, and none
 * of them asks who else is there. Nor can anything where the connections are closed. */
static void agree(struct cshim_gloo_context *context, const struct cshim_gloo_arguments *arguments,
                  cshim_gloo_measuring *measuring)
{
    struct cshim_gloo_agreement *agreement = make_agreement(context, arguments);
    if (agreement == NULL) /* the other ranks stop waiting by themselves */
        return;
    agreement->measuring = measuring;
    const bool on = arguments->rank == 0 ? agree_as_root(agreement) : agree_as_other(agreement);
    if (on) {
        accept(context, agreement);
        find_facts(context, agreement);
    }
    if (agreement->is_broken) /* the others may compress, and wait for this rank */
        cshim_gloo_break(arguments->context);
    if (on || agreement->is_broken)
        cshim_gloo_agreement_free(agreement);
    else
        context->unfinished = agreement;
}

int64_t cshim_gloo_agree(struct cshim_gloo_context *context,
                         const struct cshim_gloo_arguments *arguments,
                         cshim_gloo_measuring *measuring)
{
    const double began = cshim_seconds();
    if (__atomic_load_n(&context->has_agreed, __ATOMIC_ACQUIRE))
        return 0;
    pthread_mutex_lock(&context->agreeing);
    if (!context->has_agreed && arguments->ranks > 1)
        agree(context, arguments, measuring);
    __atomic_store_n(&context->has_agreed, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&context->agreeing);
    return context->reason == CSHIM_REASON_COMPRESS ? 0
                                                    : (int64_t)(1e3 * (cshim_seconds() - began));
}
