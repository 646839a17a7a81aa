/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement of a context: propose, acknowledge, commit, as MPI's ranks do it
 * (shim/mpi/agree.c).
 *
 * gloo announces a message before it sends it, and nothing is sent that nobody asks for. So a rank
 * may speak to one that lacks the shim. A rank that has stopped waiting never acknowledges, so a
 * late rank 0 cannot count it in. Messages that may still come have their memory until gloo has
 * freed the context.
 *
 * A time limit of gloo's own breaks the context's connections. So waits that may find nobody are
 * ended by another thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/core/greeting.h"
#include "shim/core/log.h"
#include "shim/gloo/context.h"
#include "shim/report/report.h"

#define WAIT_SECONDS 10.0
#define WAIT_MORE 1.2 /* times that, for an answer of rank 0, which may wait so long itself */
#define PRESENCE_SECONDS 0.5

/* The messages; their slots count up. */
enum word { HELLO, PRESENCE, PROPOSAL, ACKNOWLEDGEMENT, DECISION, TERMS, WORDS };

struct decision {
    uint32_t on;
    uint32_t observe;
    uint64_t terms_bytes; /* a machine for each rank, then the policy's text */
    char source[CSHIM_PATH_MAX];
    char job[CSHIM_JOB_MAX];
};

/* What a rank sends and receives: at rank 0 a row for each other rank, else one row. */
struct cshim_gloo_agreement {
    const struct cshim_gloo_arguments *arguments;
    int rank, ranks;
    struct cshim_gloo_buffer *sent[WORDS], *received[WORDS];
    unsigned receiving[WORDS]; /* messages that have not come */
    bool is_broken;            /* gloo has thrown: the program's own call will find the same */
    struct cshim_greeting *greetings; /* by rank; else the own one */
    uint32_t presence, presence_sent, proposal, acknowledgement, *acknowledgements;
    struct decision decision;
    uint8_t *terms;
};

/* Ends a wait ---------------------------------------------------------------------------------- */

/* A thread that ends a wait for a buffer's messages when its time is over. */
struct limit {
    struct cshim_gloo_buffer *buffer;
    struct timespec until;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    bool is_stopped;
    pthread_t thread;
};

static void *watch(void *argument)
{
    struct limit *limit = argument;
    int status = 0;
    pthread_mutex_lock(&limit->lock);
    while (!limit->is_stopped && status == 0)
        status = pthread_cond_timedwait(&limit->stopped, &limit->lock, &limit->until);
    const bool is_over = !limit->is_stopped;
    pthread_mutex_unlock(&limit->lock);
    if (is_over)
        cshim_gloo_abort_receive(limit->buffer);
    return NULL;
}

/* The thread takes no signals: those are the program's. */
static bool start_limit(struct limit *limit, struct cshim_gloo_buffer *buffer, double seconds)
{
    sigset_t all, before;
    const int64_t nanoseconds = (int64_t)(seconds * 1e9);
    *limit = (struct limit){.buffer = buffer};
    clock_gettime(CLOCK_REALTIME, &limit->until);
    limit->until.tv_sec += nanoseconds / 1000000000;
    limit->until.tv_nsec += nanoseconds % 1000000000;
    limit->until.tv_sec += limit->until.tv_nsec / 1000000000;
    limit->until.tv_nsec %= 1000000000;
    pthread_mutex_init(&limit->lock, NULL);
    pthread_cond_init(&limit->stopped, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool is_started = pthread_create(&limit->thread, NULL, watch, limit) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

static void stop_limit(struct limit *limit)
{
    pthread_mutex_lock(&limit->lock);
    limit->is_stopped = true;
    pthread_cond_signal(&limit->stopped);
    pthread_mutex_unlock(&limit->lock);
    pthread_join(limit->thread, NULL);
    pthread_cond_destroy(&limit->stopped);
    pthread_mutex_destroy(&limit->lock);
}

/* Messages ------------------------------------------------------------------------------------- */

static uint64_t slot_of(enum word word)
{
    return CSHIM_GLOO_SLOT_AGREEMENT | (uint64_t)word;
}

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
        cshim_gloo_send(*buffer, to, slot_of(word), 0, bytes, &exception);
    check(agreement, exception);
}

/* Starts to receive a message of every rank from `first` to before `end`: into the row of its rank
 * at rank 0, which has a table of ranks; else into the one row. */
static void receive(struct cshim_gloo_agreement *agreement, enum word word, int first, int end,
                    void *table, size_t bytes)
{
    const bool is_table = agreement->rank == 0;
    struct cshim_gloo_buffer **buffer = &agreement->received[word];
    void *exception = NULL;
    if (agreement->is_broken)
        return;
    *buffer = cshim_gloo_buffer_make(agreement->arguments->context, table,
                                     bytes * (is_table ? (size_t)agreement->ranks : 1), &exception);
    for (int from = first; from < end && exception == NULL; from++)
        if (cshim_gloo_receive(*buffer, from, slot_of(word), is_table ? bytes * (size_t)from : 0,
                               bytes, &exception) == 0)
            agreement->receiving[word]++;
    check(agreement, exception);
}

/* Waits for one of the messages that are being received. Returns whether it has come. */
static bool wait_for_one(struct cshim_gloo_agreement *agreement, enum word word,
                         int64_t milliseconds)
{
    void *exception = NULL;
    bool has_come = false;
    if (agreement->is_broken)
        return false;
    cshim_gloo_wait_received(agreement->received[word], milliseconds, &has_come, &exception);
    agreement->receiving[word] -= has_come;
    return check(agreement, exception) && has_come;
}

/* Waits for all of them, so many seconds at most. Returns whether all have come. */
static bool wait_for_all(struct cshim_gloo_agreement *agreement, enum word word, double seconds)
{
    const int64_t beyond = (int64_t)(10000 * (seconds + 60)); /* the limit ends it before */
    struct limit limit;
    bool goes_on = true;
    if (agreement->is_broken || agreement->receiving[word] == 0)
        return !agreement->is_broken;
    if (!start_limit(&limit, agreement->received[word], seconds)) {
        cshim_log(CSHIM_LOG_WARN, "no thread can be started to agree with the other ranks");
        return false;
    }
    while (agreement->receiving[word] > 0 && goes_on)
        goes_on = wait_for_one(agreement, word, beyond);
    stop_limit(&limit);
    return goes_on;
}

static void wait_until_sent(struct cshim_gloo_agreement *agreement, enum word word, unsigned count)
{
    void *exception = NULL;
    for (unsigned i = 0; i < count && !agreement->is_broken; i++) {
        cshim_gloo_wait_sent(agreement->sent[word], agreement->arguments->timeout, &exception);
        check(agreement, exception);
    }
}

/* gloo does not tell whose messages have come. */
static bool has_greeted(const struct cshim_gloo_agreement *agreement, int rank)
{
    return agreement->greetings[rank].version[0] != '\0';
}

/* Sends a message to all ranks that have said hello. */
static void send_to_all(struct cshim_gloo_agreement *agreement, enum word word, void *message,
                        size_t bytes)
{
    unsigned count = 0;
    for (int to = 1; to < agreement->ranks; to++) {
        if (!has_greeted(agreement, to))
            continue;
        send(agreement, word, to, message, bytes);
        count++;
    }
    wait_until_sent(agreement, word, count);
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
    receive(agreement, HELLO, 1, agreement->ranks, agreement->greetings,
            sizeof(struct cshim_greeting));
    wait_for_all(agreement, HELLO, patience(agreement));
    const bool all =
        !agreement->is_broken &&
        cshim_greeting_list(agreement->greetings, agreement->ranks, missing, sizeof missing);
    if (!all && !agreement->is_broken)
        cshim_log(
            CSHIM_LOG_WARN,
            "nothing is compressed: not all ranks have this shim: %s; start all with the same "
            "LD_PRELOAD",
            missing);
    agreement->proposal = all;
    send_to_all(agreement, PROPOSAL, &agreement->proposal, sizeof agreement->proposal);
    return all;
}

/* Waits for the acknowledgements, and decides. */
static bool collect_acknowledgements(struct cshim_gloo_agreement *agreement)
{
    receive(agreement, ACKNOWLEDGEMENT, 1, agreement->ranks, agreement->acknowledgements,
            sizeof(uint32_t));
    const bool all = wait_for_all(agreement, ACKNOWLEDGEMENT, patience(agreement));
    if (!all && !agreement->is_broken)
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed: a rank stopped waiting for the agreement");
    return all;
}

/* Puts the terms together: where each rank is, and the policy. */
static bool write_terms(struct cshim_gloo_agreement *agreement, const struct cshim_offer *offer)
{
    const size_t machines = (size_t)agreement->ranks * sizeof(uint64_t);
    struct decision *decision = &agreement->decision;
    agreement->terms = malloc(machines + offer->length);
    if (agreement->terms == NULL)
        return false;
    for (int rank = 0; rank < agreement->ranks; rank++)
        memcpy(agreement->terms + (size_t)rank * sizeof(uint64_t),
               &agreement->greetings[rank].machine, sizeof(uint64_t));
    memcpy(agreement->terms + machines, offer->text, offer->length);
    decision->observe = offer->observe;
    decision->terms_bytes = machines + offer->length;
    memcpy(decision->source, offer->source, sizeof decision->source);
    return true;
}

static bool agree_as_root(struct cshim_gloo_agreement *agreement)
{
    struct cshim_offer offer;
    cshim_job_load(&offer);
    bool on = collect_hellos(agreement) && collect_acknowledgements(agreement);
    if (on)
        on = write_terms(agreement, &offer);
    agreement->decision.on = on;
    cshim_report_make_job(agreement->decision.job);
    if (agreement->proposal) /* a rank that is only late waits for it, too */
        send_to_all(agreement, DECISION, &agreement->decision, sizeof agreement->decision);
    if (on)
        send_to_all(agreement, TERMS, agreement->terms, agreement->decision.terms_bytes);
    free(offer.text);
    return on && !agreement->is_broken;
}

/* Only the lowest rank that has the shim says that rank 0 lacks it: it hears of no lower one. */
static void warn_without_root(struct cshim_gloo_agreement *agreement)
{
    if (agreement->is_broken ||
        (agreement->rank > 1 && wait_for_all(agreement, PRESENCE, PRESENCE_SECONDS)))
        return;
    cshim_log(CSHIM_LOG_WARN,
              "nothing is compressed: not all ranks have this shim: rank 0 does not answer rank "
              "%d; start all with the same LD_PRELOAD",
              agreement->rank);
}

static bool agree_as_other(struct cshim_gloo_agreement *agreement)
{
    const int rank = agreement->rank;
    receive(agreement, DECISION, 0, 1, &agreement->decision, sizeof agreement->decision);
    receive(agreement, PROPOSAL, 0, 1, &agreement->proposal, sizeof agreement->proposal);
    if (rank > 1)
        receive(agreement, PRESENCE, rank - 1, rank, &agreement->presence, sizeof(uint32_t));
    send(agreement, HELLO, 0, agreement->greetings, sizeof *agreement->greetings);
    if (rank + 1 < agreement->ranks)
        send(agreement, PRESENCE, rank + 1, &agreement->presence_sent, sizeof(uint32_t));
    if (!wait_for_all(agreement, PROPOSAL, WAIT_MORE * patience(agreement))) {
        warn_without_root(agreement);
        return false;
    }
    if (!agreement->proposal)
        return false;
    send(agreement, ACKNOWLEDGEMENT, 0, &agreement->acknowledgement, sizeof(uint32_t));
    if (!wait_for_one(agreement, DECISION, agreement->arguments->timeout) ||
        !agreement->decision.on)
        return false;
    agreement->terms = malloc(agreement->decision.terms_bytes);
    if (agreement->terms == NULL) { /* rank 0 and the others count on this rank */
        cshim_log(CSHIM_LOG_ERROR, "no memory for the policy");
        _exit(1);
    }
    receive(agreement, TERMS, 0, 1, agreement->terms, agreement->decision.terms_bytes);
    return wait_for_one(agreement, TERMS, agreement->arguments->timeout);
}

/* What has been agreed ------------------------------------------------------------------------- */

/* Numbers the machines by their lowest ranks. */
static bool make_layout(struct cshim_communicator *host, const uint8_t *terms)
{
    const size_t ranks = (size_t)host->ranks;
    uint64_t *machines = malloc(ranks * sizeof *machines);
    int *ids = malloc(ranks * sizeof *ids);
    const bool enough = machines != NULL && ids != NULL;
    if (enough)
        memcpy(machines, terms, ranks * sizeof *machines);
    for (size_t rank = 0; rank < ranks && enough; rank++) {
        ids[rank] = 0;
        while (machines[ids[rank]] != machines[rank])
            ids[rank]++;
    }
    const bool is_made =
        enough && cshim_layout_make(&host->layout, ids, host->ranks, host->ranks, host->rank);
    free(ids);
    free(machines);
    return is_made;
}

static bool find_levels(struct cshim_gloo_context *context)
{
    const struct cshim_layout *layout = &context->host.layout;
    context->inside = calloc((size_t)layout->local_ranks, sizeof *context->inside);
    context->across = calloc(layout->nodes, sizeof *context->across);
    if (context->inside == NULL || context->across == NULL)
        return false;
    cshim_layout_levels(layout, context->host.ranks, context->inside, context->across);
    return true;
}

/* Takes the terms. A rank that has no memory for them cannot go on: the others compress. */
static void accept(struct cshim_gloo_context *context, struct cshim_gloo_agreement *agreement)
{
    const size_t machines = (size_t)agreement->ranks * sizeof(uint64_t);
    const struct decision *decision = &agreement->decision;
    struct cshim_communicator *host = &context->host;
    struct cshim_offer offer = {.text = (char *)agreement->terms + machines,
                                .length = decision->terms_bytes - machines,
                                .observe = decision->observe != 0};
    memcpy(offer.source, decision->source, sizeof offer.source);
    cshim_report_set_job(decision->job);
    host->transport = &cshim_gloo_transport;
    host->job = cshim_job_find(&offer);
    if (host->job == NULL || !make_layout(host, agreement->terms) || !find_levels(context) ||
        !cshim_communicator_reserve(host)) {
        cshim_log(CSHIM_LOG_ERROR, "no memory for a context of gloo");
        _exit(1);
    }
    cshim_job_grow(host->job, host->rank == 0, host->ranks, host->layout.nodes);
    context->reason = CSHIM_REASON_COMPRESS;
    cshim_log(CSHIM_LOG_INFO, "on: policy %s, codecs in %s", offer.source,
              cshim_simd_name(cshim_simd_level()));
}

void cshim_gloo_agreement_free(struct cshim_gloo_agreement *agreement)
{
    if (agreement == NULL)
        return;
    for (unsigned word = 0; word < WORDS; word++) {
        cshim_gloo_buffer_free(agreement->sent[word]);
        cshim_gloo_buffer_free(agreement->received[word]);
    }
    free(agreement->greetings);
    free(agreement->acknowledgements);
    free(agreement->terms);
    free(agreement);
}

static struct cshim_gloo_agreement *make_agreement(const struct cshim_gloo_arguments *arguments)
{
    struct cshim_gloo_agreement *agreement = calloc(1, sizeof *agreement);
    const size_t rows = arguments->rank == 0 ? (size_t)arguments->ranks : 1;
    if (agreement == NULL)
        return NULL;
    agreement->arguments = arguments;
    agreement->rank = arguments->rank;
    agreement->ranks = arguments->ranks;
    agreement->greetings = calloc(rows, sizeof *agreement->greetings);
    agreement->acknowledgements = calloc(rows, sizeof *agreement->acknowledgements);
    if (agreement->greetings != NULL && agreement->acknowledgements != NULL) {
        agreement->greetings[0] = cshim_greeting_make();
        return agreement;
    }
    cshim_gloo_agreement_free(agreement);
    return NULL;
}

/* Waits for the messages that nobody has waited for; their receivers ask for them. */
static void finish(struct cshim_gloo_agreement *agreement)
{
    static const enum word words[] = {HELLO, PRESENCE, ACKNOWLEDGEMENT};
    for (size_t i = 0; i < sizeof words / sizeof *words && agreement->rank > 0; i++)
        wait_until_sent(agreement, words[i], agreement->sent[words[i]] != NULL);
    while (agreement->receiving[PRESENCE] > 0 && !agreement->is_broken)
        wait_for_one(agreement, PRESENCE, agreement->arguments->timeout);
}

static void agree(struct cshim_gloo_context *context, const struct cshim_gloo_arguments *arguments)
{
    struct cshim_gloo_agreement *agreement = make_agreement(arguments);
    if (agreement == NULL) /* the other ranks stop waiting by themselves */
        return;
    const bool on = arguments->rank == 0 ? agree_as_root(agreement) : agree_as_other(agreement);
    if (!on) {
        if (agreement->is_broken) /* the others may compress, and wait for this rank */
            cshim_gloo_break(arguments->context);
        context->unfinished = agreement;
        return;
    }
    accept(context, agreement);
    finish(agreement);
    cshim_gloo_agreement_free(agreement);
}

int64_t cshim_gloo_agree(struct cshim_gloo_context *context,
                         const struct cshim_gloo_arguments *arguments)
{
    const double began = cshim_seconds();
    if (__atomic_load_n(&context->has_agreed, __ATOMIC_ACQUIRE))
        return 0;
    pthread_mutex_lock(&context->agreeing);
    if (!context->has_agreed && arguments->ranks > 1)
        agree(context, arguments);
    __atomic_store_n(&context->has_agreed, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&context->agreeing);
    return context->reason == CSHIM_REASON_COMPRESS ? 0
                                                    : (int64_t)(1e3 * (cshim_seconds() - began));
}
