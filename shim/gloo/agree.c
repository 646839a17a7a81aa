/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement of the ranks of a context. docs/agreement.md describes the protocol and why no two
 * ranks decide differently about a call; tests/model/gloo_agreement.pml is a model of this file.
 *
 * Ranks may enter the first all-reduce at any time, and some may lack the shim. So, after its
 * patience (less than a second per process), a rank waits for another rank only if that one is
 * known to have the shim and must enter the call, as gloo itself would wait for it. Until then
 * calls are passed through while the messages of the agreement travel. If a sum, or a data-movement
 * collective that waits for all ranks, is complete on one rank, all ranks have begun it, so their
 * earlier messages have been sent. Any other call may be complete on one rank before another begins
 * it, so it counts as pending until the agreement ends. */
#include "shim/gloo/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/core/clock.h"
#include "shim/core/greeting.h"
#include "shim/core/log.h"
#include "shim/gloo/mail.h"
#include "shim/report/file.h"
#include "shim/gloo/transport.h"

/* Total seconds that a process waits for ranks that may lack the shim: PATIENCE in first calls, for
 * ranks to enter them, and GRACE after these calls, for messages that may still arrive. A context
 * whose ranks agree gives its seconds back. */
#define PATIENCE_SECONDS 0.7
#define GRACE_SECONDS 0.2
#define PATIENCE_PART 0.1 /* maximum share of the first call's own time limit */
/* A rank that has not answered after this many passed-through calls is taken to lack the shim. */
#define CALLS_MAX 1000
#define TAGS_MAX (CALLS_MAX + 256)
/* Maximum number of marks (functions and tags of pending calls) in a message. While there are more,
 * the agreement does not proceed. */
#define MARKS_MAX 256
#define TERMS_MAX ((uint64_t)64 << 20) /* bytes */

/* Slots of the messages. Older versions use the numbers between. */
enum { HELLO = 0, PRESENCE = 1, WORDS = 8, TERMS };
#define SLOT(message) (CSHIM_GLOO_SLOT_AGREEMENT | (uint64_t)(message))

/* Names calls: the first `count` calls of a function with this tag, which all ranks pass through.
 */
struct mark {
    uint32_t tag;
    uint16_t function;
    uint16_t count;
};

/* Message of the agreement, from a rank to rank 0 or from rank 0 to all. */
struct word {
    uint8_t kind; /* first byte, never 0: its arrival is polled */
    uint8_t unused[3];
    uint32_t mark_count;
    uint64_t terms_bytes;
    struct mark marks[MARKS_MAX];
};
enum kind {
    PASSING = 1, /* the sender has stopped waiting and passes calls through */
    PROPOSAL,    /* all ranks have the shim; marks: pending calls of rank 0 */
    READY,       /* the sender waits in each further call; marks: its pending calls */
    NATIVE,      /* rank 0 passes through the call that the mark names */
    COMPRESS,    /* calls are compressed, except those that the marks name; the terms follow */
    NEVER,       /* no call is compressed */
};

/* Header of the terms that rank 0 sends. It is followed by an int for each rank (the lowest rank of
 * its node), by the policy's text, and by the choices of an earlier job. */
struct terms {
    uint64_t observe; /* 2: calls are recorded (COMPSHIM=observe); else 1 */
    uint64_t has_learned;
    uint64_t learned_length;
    char source[CSHIM_PATH_MAX];
    char job[CSHIM_JOB_MAX];
};

/* Counts of the calls of one function with one tag. Such calls follow each other, so a count names
 * the same calls on all ranks. */
struct use {
    uint32_t tag;
    uint16_t function;
    uint16_t begun;
    uint16_t ended;  /* number of calls known to have begun on all ranks */
    uint16_t native; /* number of calls known to be passed through on all ranks */
};

struct peer {
    struct cshim_greeting greeting;
    struct cshim_gloo_inbox hello, words;
    struct word word;
    bool has_greeted, passes, is_ready;
};

struct cshim_gloo_agreement {
    struct cshim_gloo_mail mail, presences;
    int rank, ranks;
    enum { OPEN, ACCEPTING, SETTLED } state; /* ACCEPTING: a thread is applying the terms */
    double began;                            /* start of the first call */
    double patience_ends;
    double spoiled;        /* seconds that this context has added to patience_spent */
    bool is_proposed;      /* rank 0 has said PROPOSAL */
    bool is_decided;       /* rank 0 has said COMPRESS */
    bool passes, is_ready; /* this rank has said PASSING, READY */
    bool has_asked, has_warned;
    struct cshim_offer offer; /* rank 0's policy and choices; unused on other ranks */
    struct terms *terms;
    uint64_t terms_bytes;
    struct cshim_greeting own;
    uint8_t here;      /* the byte of a presence message: 1 */
    uint8_t *presence; /* byte received from each lower rank, by rank; NULL: none is expected */
    struct cshim_gloo_inbox *presence_inboxes;
    unsigned calls; /* number of passed-through calls that have begun */
    size_t use_count;
    struct use uses[TAGS_MAX];
    struct peer peers[]; /* on rank 0: all ranks, by rank; elsewhere: rank 0 only */
};

/* Microseconds that this process has waited for ranks that may lack the shim, except in contexts
 * whose ranks have agreed; atomic. */
static int64_t patience_spent;

static struct peer *first_peer(struct cshim_gloo_agreement *agreement)
{
    return agreement->peers + (agreement->rank == 0);
}

static struct peer *end_of_peers(struct cshim_gloo_agreement *agreement)
{
    return agreement->peers + (agreement->rank == 0 ? agreement->ranks : 1);
}

/* Calls ---------------------------------------------------------------------------------------- */

/* Returns the counts of the calls of a function with a tag. Adds an entry if there is none and
 * `adds`. Returns NULL if there is none, or no room for one. */
static struct use *find_use(struct cshim_gloo_agreement *agreement, unsigned function, uint32_t tag,
                            bool adds)
{
    for (size_t i = agreement->use_count; i-- > 0;)
        if (agreement->uses[i].tag == tag && agreement->uses[i].function == function)
            return &agreement->uses[i];
    if (!adds || agreement->use_count == TAGS_MAX)
        return NULL;
    struct use *use = &agreement->uses[agreement->use_count++];
    *use = (struct use){.tag = tag, .function = (uint16_t)function};
    return use;
}

/* Lists in `word` the passed-through calls that are known to have begun on some rank, but perhaps
 * not on all. Returns false if the message has no room for them. */
static bool list_marks(const struct cshim_gloo_agreement *agreement, struct word *word)
{
    word->mark_count = 0;
    for (size_t i = 0; i < agreement->use_count; i++) {
        const struct use *use = &agreement->uses[i];
        const uint16_t count = use->begun > use->native ? use->begun : use->native;
        if (count <= use->ended)
            continue;
        if (word->mark_count == MARKS_MAX)
            return false;
        word->marks[word->mark_count++] = (struct mark){use->tag, use->function, count};
    }
    return true;
}

static void take_marks(struct cshim_gloo_agreement *agreement, const struct word *word)
{
    for (uint32_t i = 0; i < word->mark_count && i < MARKS_MAX; i++) {
        const struct mark *mark = &word->marks[i];
        struct use *use = find_use(agreement, mark->function, mark->tag, true);
        if (use == NULL)
            agreement->mail.is_broken = true;
        else if (mark->count > use->native)
            use->native = mark->count;
    }
}

/* Returns true if a call that this rank has not begun is known to be passed through. */
static bool has_marks_left(const struct cshim_gloo_agreement *agreement)
{
    for (size_t i = 0; i < agreement->use_count; i++)
        if (agreement->uses[i].native > agreement->uses[i].begun)
            return true;
    return false;
}

/* Ends the agreement: later calls skip it. */
static void set_agreed(struct cshim_gloo_context *context)
{
    __atomic_store_n(&context->has_agreed, true, __ATOMIC_RELEASE);
}

/* Words ---------------------------------------------------------------------------------------- */

/* Sends a message to rank 0; on rank 0, to all other ranks. */
static void say(struct cshim_gloo_agreement *agreement, enum kind kind, struct word *word)
{
    const int first = agreement->rank == 0 ? 1 : 0,
              end = agreement->rank == 0 ? agreement->ranks : 1;
    word->kind = (uint8_t)kind;
    cshim_gloo_mail_send(&agreement->mail, SLOT(WORDS), first, end, word,
                         offsetof(struct word, marks) + word->mark_count * sizeof *word->marks);
}

static void expect_word(struct cshim_gloo_agreement *agreement, struct peer *peer)
{
    cshim_gloo_mail_expect(&agreement->mail, &peer->words, (int)(peer - agreement->peers),
                           SLOT(WORDS), &peer->word, sizeof peer->word,
                           offsetof(struct word, kind));
}

/* Applies a peer's message, and expects the next one. */
static void hear(struct cshim_gloo_context *context, struct peer *peer)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    const struct word word = peer->word;
    take_marks(agreement, &word);
    peer->passes |= word.kind == PASSING;
    peer->is_ready |= word.kind == READY;
    agreement->is_proposed |= word.kind == PROPOSAL;
    agreement->is_decided |= word.kind == COMPRESS;
    agreement->terms_bytes = word.terms_bytes;
    if (word.kind == NEVER)
        set_agreed(context);
    if (word.kind != COMPRESS && word.kind != NEVER) /* COMPRESS and NEVER are the last messages */
        expect_word(agreement, peer);
}

static bool have_all(struct cshim_gloo_agreement *agreement, size_t member)
{
    for (struct peer *peer = first_peer(agreement); peer < end_of_peers(agreement); peer++)
        if (!*(const bool *)((const char *)peer + member))
            return false;
    return true;
}
#define HAVE_ALL(agreement, member) have_all(agreement, offsetof(struct peer, member))

/* Ends the agreement on rank 0 by NEVER, which it sends to all ranks: nothing is compressed. */
static void say_never(struct cshim_gloo_context *context)
{
    say(context->agreement, NEVER, &(struct word){.mark_count = 0});
    set_agreed(context);
}

/* Compares all ranks' greetings, on rank 0. If they fit, proposes to compress, once a message has
 * room for the marks; otherwise warns and ends the agreement. */
static void propose(struct cshim_gloo_context *context)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    struct word word = {.terms_bytes = 0};
    char others[700] = "";
    for (int rank = 1; rank < agreement->ranks; rank++)
        cshim_greeting_fits(&agreement->own, &agreement->peers[rank].greeting, rank, others,
                            sizeof others);
    if (others[0] != '\0') {
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed: not all ranks have this shim: %s; start all with the "
                  "same LD_PRELOAD and COMPSHIM",
                  others);
        say_never(context);
    } else if (list_marks(agreement, &word)) {
        say(agreement, PROPOSAL, &word);
        agreement->is_proposed = true;
    }
}

/* Applies the messages that have arrived, and answers them. Does not wait for others. */
static void listen(struct cshim_gloo_context *context, int64_t timeout)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    struct cshim_gloo_mail *mail = &agreement->mail;
    struct word word = {.terms_bytes = 0};
    for (struct peer *peer = first_peer(agreement); peer < end_of_peers(agreement); peer++) {
        if (cshim_gloo_mail_has_come(mail, &peer->hello, timeout)) {
            peer->has_greeted = true;
            expect_word(agreement, peer);
        }
        while (cshim_gloo_mail_has_come(mail, &peer->words, timeout))
            hear(context, peer);
    }
    if (context->has_agreed || agreement->is_decided)
        return;
    if (agreement->rank == 0 && !agreement->is_proposed && HAVE_ALL(agreement, has_greeted))
        propose(context);
    if (agreement->rank != 0 && agreement->is_proposed && !agreement->is_ready &&
        list_marks(agreement, &word)) {
        say(agreement, READY, &word);
        agreement->is_ready = true;
    }
}

/* Checks whether the expected messages can still arrive; if not, marks the mail as broken. */
static void look(struct cshim_gloo_agreement *agreement)
{
    for (struct peer *peer = first_peer(agreement); peer < end_of_peers(agreement); peer++) {
        cshim_gloo_mail_look(&agreement->mail, &peer->hello);
        cshim_gloo_mail_look(&agreement->mail, &peer->words);
    }
}

/* The beginning and the end -------------------------------------------------------------------- */

/* Returns the seconds that this process may still wait for ranks that may lack the shim; at most
 * `most`. */
static double patience_left(double most)
{
    const double left = PATIENCE_SECONDS + GRACE_SECONDS -
                        1e-6 * (double)__atomic_load_n(&patience_spent, __ATOMIC_RELAXED);
    return left < most ? left : most;
}

static void spend_patience(struct cshim_gloo_agreement *agreement, double seconds)
{
    agreement->spoiled += seconds;
    __atomic_fetch_add(&patience_spent, (int64_t)(seconds * 1e6), __ATOMIC_RELAXED);
}

/* Begins the agreement at the first call of the context. Returns false without memory; other ranks
 * then get no answer from this one. */
static bool open_agreement(struct cshim_gloo_context *context,
                           const struct cshim_gloo_arguments *arguments)
{
    const size_t peers = arguments->rank == 0 ? (size_t)arguments->ranks : 1;
    struct cshim_gloo_agreement *agreement =
        calloc(1, sizeof *agreement + peers * sizeof *agreement->peers);
    if (agreement == NULL)
        return false;
    context->agreement = agreement;
    agreement->mail.context = agreement->presences.context = arguments->context;
    agreement->rank = arguments->rank;
    agreement->ranks = arguments->ranks;
    agreement->own = cshim_greeting_make();
    agreement->here = 1;
    if (agreement->rank == 0)
        cshim_job_load(&agreement->offer);
    for (struct peer *peer = first_peer(agreement); peer < end_of_peers(agreement); peer++)
        if (agreement->rank == 0)
            cshim_gloo_mail_expect(&agreement->mail, &peer->hello, (int)(peer - agreement->peers),
                                   SLOT(HELLO), &peer->greeting, sizeof peer->greeting,
                                   offsetof(struct cshim_greeting, version));
        else
            expect_word(agreement, peer);
    if (agreement->rank != 0)
        cshim_gloo_mail_send(&agreement->mail, SLOT(HELLO), 0, 1, &agreement->own,
                             sizeof agreement->own);
    const double part = PATIENCE_PART * 1e-3 * (double)arguments->timeout;
    agreement->began = cshim_seconds();
    agreement->patience_ends =
        agreement->began +
        patience_left(part > 0 && part < PATIENCE_SECONDS ? part : PATIENCE_SECONDS);
    return true;
}

void cshim_gloo_agreement_free(struct cshim_gloo_agreement *agreement)
{
    if (agreement == NULL)
        return;
    for (struct peer *peer = first_peer(agreement); peer < end_of_peers(agreement); peer++) {
        cshim_gloo_inbox_free(&peer->hello);
        cshim_gloo_inbox_free(&peer->words);
    }
    for (int rank = 1; agreement->presence_inboxes != NULL && rank < agreement->rank; rank++)
        cshim_gloo_inbox_free(&agreement->presence_inboxes[rank]);
    cshim_gloo_mail_free(&agreement->mail);
    cshim_gloo_mail_free(&agreement->presences);
    free(agreement->presence_inboxes);
    free(agreement->presence);
    cshim_offer_free(&agreement->offer);
    free(agreement->terms);
    free(agreement);
}

/* Closes the context's connections, because other ranks may wait for this one. gloo's calls then
 * fail on all ranks. */
static void break_off(struct cshim_gloo_context *context)
{
    cshim_gloo_break(context->context);
    set_agreed(context);
}

/* The agreed terms ---------------------------------------------------------------------------- */

/* Writes the terms: the node of each rank, the policy and the learned choices. Returns false
 * without memory, or if they exceed TERMS_MAX. */
static bool write_terms(struct cshim_gloo_agreement *agreement)
{
    const struct cshim_offer *offer = &agreement->offer;
    const size_t ranks = (size_t)agreement->ranks;
    agreement->terms_bytes =
        sizeof *agreement->terms + ranks * sizeof(int) + offer->length + offer->learned_length;
    agreement->terms = calloc(1, agreement->terms_bytes);
    if (agreement->terms == NULL || agreement->terms_bytes > TERMS_MAX)
        return false;
    agreement->terms->observe = offer->observe ? 2 : 1;
    memcpy(agreement->terms->source, offer->source, sizeof agreement->terms->source);
    cshim_report_make_job(agreement->terms->job);
    int *nodes = (int *)(agreement->terms + 1);
    agreement->peers[0].greeting = agreement->own;
    for (size_t rank = 0; rank < ranks; rank++)
        while (agreement->peers[nodes[rank]].greeting.machine !=
               agreement->peers[rank].greeting.machine)
            nodes[rank]++;
    char *texts = (char *)(nodes + ranks);
    memcpy(texts, offer->text, offer->length);
    agreement->terms->has_learned = offer->learned != NULL;
    agreement->terms->learned_length = offer->learned_length;
    if (offer->learned != NULL)
        memcpy(texts + offer->length, offer->learned, offer->learned_length);
    return true;
}

/* Logs that memory is missing, and marks the mail as broken: other ranks wait for this one, so
 * calls must fail on all ranks. */
static void lack_memory(struct cshim_gloo_agreement *agreement)
{
    cshim_log(CSHIM_LOG_ERROR, "no memory for a context of gloo");
    agreement->mail.is_broken = true;
}

/* Sends COMPRESS and the terms to all ranks. The caller holds the lock, so that no call begins
 * meanwhile. */
static void say_compress(struct cshim_gloo_agreement *agreement)
{
    struct word word = {.mark_count = 0};
    if (!write_terms(agreement) || !list_marks(agreement, &word)) {
        lack_memory(agreement);
        return;
    }
    word.terms_bytes = agreement->terms_bytes;
    say(agreement, COMPRESS, &word);
    cshim_gloo_mail_send(&agreement->mail, SLOT(TERMS), 1, agreement->ranks, agreement->terms,
                         agreement->terms_bytes);
}

/* Receives the terms from rank 0; if that fails, the mail is broken. Returns false without memory,
 * or if their size is impossible. */
static bool await_terms(struct cshim_gloo_agreement *agreement, int64_t timeout)
{
    const uint64_t least = sizeof(struct terms) + (size_t)agreement->ranks * sizeof(int);
    const uint64_t bytes = agreement->terms_bytes;
    struct cshim_gloo_inbox inbox = {.buffer = NULL};
    agreement->terms = bytes >= least && bytes <= TERMS_MAX ? malloc(bytes) : NULL;
    if (agreement->terms == NULL)
        return false;
    cshim_gloo_mail_expect(&agreement->mail, &inbox, 0, SLOT(TERMS), agreement->terms, bytes, 0);
    cshim_gloo_mail_await(&agreement->mail, &inbox, timeout);
    cshim_gloo_inbox_free(&inbox);
    return true;
}

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

/* Applies the terms to the context: job, layout, transport, memory. Returns false without memory,
 * or if the policy does not parse. */
static bool accept(struct cshim_gloo_context *context)
{
    const struct cshim_gloo_agreement *agreement = context->agreement;
    const struct terms *terms = agreement->terms;
    struct cshim_communicator *host = &context->host;
    const int *nodes = (const int *)(terms + 1);
    const size_t before = sizeof *terms + (size_t)host->ranks * sizeof *nodes;
    struct cshim_offer offer = {.text = (char *)(uintptr_t)(nodes + host->ranks),
                                .length = agreement->terms_bytes - before - terms->learned_length,
                                .observe = terms->observe == 2};
    memcpy(offer.source, terms->source, sizeof offer.source);
    if (terms->has_learned) {
        offer.learned = offer.text + offer.length;
        offer.learned_length = terms->learned_length;
    }
    cshim_report_set_job(terms->job);
    host->transport = &cshim_gloo_transport;
    host->job = cshim_job_find(&offer);
    if (host->job == NULL ||
        !cshim_layout_make(&host->layout, nodes, host->ranks, host->ranks, host->rank) ||
        !find_levels(context) || !cshim_communicator_reserve(host))
        return false;
    host->learned = host->job->learned;
    cshim_job_grow(host->job, host->rank == 0, host->ranks, host->layout.nodes);
    cshim_log(CSHIM_LOG_INFO, "on: policy %s, codecs in %s", offer.source,
              cshim_simd_name(cshim_simd_level()));
    return true;
}

/* Receives the terms (rank 0 has sent them) and applies them. Called without the lock, so that
 * passed-through calls of other threads continue. If this fails on a rank, all ranks' calls fail.
 */
static void conclude(struct cshim_gloo_context *context, int64_t timeout)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    struct cshim_gloo_mail *mail = &agreement->mail;
    const bool has_terms = agreement->rank == 0 || await_terms(agreement, timeout);
    if (mail->is_broken)
        return;
    if (!has_terms || !accept(context))
        lack_memory(agreement);
    cshim_gloo_mail_finish(mail, timeout);
}

/* Ends the exchange of the terms: from now on calls may be compressed, unless the mail is broken.
 */
static void settle(struct cshim_gloo_context *context)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    agreement->state = SETTLED;
    if (agreement->mail.is_broken)
        return;
    for (struct peer *peer = first_peer(agreement); peer < end_of_peers(agreement); peer++)
        cshim_gloo_inbox_free(&peer->words);
    context->reason = CSHIM_REASON_COMPRESS;
    if (!has_marks_left(agreement))
        set_agreed(context);
    if (agreement->has_warned)
        cshim_log(CSHIM_LOG_WARN, "all ranks have answered: calls are compressed from here on");
    spend_patience(agreement, -agreement->spoiled);
}

/* Ranks that do not answer --------------------------------------------------------------------- */

/* Warns which ranks have not answered. */
static void warn_of_absent(struct cshim_gloo_agreement *agreement, bool is_last_time)
{
    char absent[700] = "";
    size_t length = 0;
    for (struct peer *peer = agreement->peers; peer < end_of_peers(agreement); peer++)
        if (peer >= first_peer(agreement) && !peer->has_greeted && length + 32 < sizeof absent)
            length += (size_t)snprintf(absent + length, sizeof absent - length, "%srank %d",
                                       length > 0 ? ", " : "", (int)(peer - agreement->peers));
    if (is_last_time)
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed: no answer to rank %d in %u calls of a group from %s; "
                  "start all with the same LD_PRELOAD and COMPSHIM",
                  agreement->rank, agreement->calls, absent);
    else
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed yet: no answer to rank %d from %s; if that does not "
                  "change, start all with the same LD_PRELOAD and COMPSHIM",
                  agreement->rank, absent);
    agreement->has_warned = true;
}

/* Starts to receive presence messages: a rank that gets one leaves the warning to the lower rank
 * that sent it. */
static void expect_presences(struct cshim_gloo_agreement *agreement)
{
    const size_t ranks = (size_t)agreement->rank;
    agreement->presence = calloc(ranks, sizeof *agreement->presence);
    agreement->presence_inboxes = calloc(ranks, sizeof *agreement->presence_inboxes);
    if (agreement->presence == NULL || agreement->presence_inboxes == NULL)
        return;
    for (int rank = 1; rank < agreement->rank; rank++)
        cshim_gloo_mail_expect(&agreement->presences, &agreement->presence_inboxes[rank], rank,
                               SLOT(PRESENCE), &agreement->presence[rank], 1, 0);
}

/* Returns true if this rank need not warn: the agreement has ended or failed, all ranks have
 * answered (on rank 0), rank 0 has answered, or a lower rank warns. */
static bool is_answered(struct cshim_gloo_context *context)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    if (context->has_agreed || agreement->state != OPEN || agreement->is_proposed ||
        agreement->mail.is_broken)
        return true;
    if (agreement->rank == 0)
        return HAVE_ALL(agreement, has_greeted);
    for (int rank = 1; agreement->presence != NULL && rank < agreement->rank; rank++)
        if (__atomic_load_n(&agreement->presence[rank], __ATOMIC_RELAXED) != 0)
            return true;
    return agreement->peers[0].passes;
}

/* Warns of ranks that have not answered after the first call, in which all ranks with the shim have
 * sent a message. First waits a short time for these messages. The caller holds the lock, which is
 * released during the wait. */
static void ask_absent(struct cshim_gloo_context *context, int64_t timeout)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    const double began = cshim_seconds(), grace = patience_left(GRACE_SECONDS);
    double waited = 0;
    if (agreement->rank > 1 && !is_answered(context))
        expect_presences(agreement);
    while (!is_answered(context) && waited < grace) {
        pthread_mutex_unlock(&context->agreeing);
        cshim_pause(waited);
        pthread_mutex_lock(&context->agreeing);
        waited = cshim_seconds() - began;
        if (!context->has_agreed && agreement->state == OPEN)
            listen(context, timeout);
    }
    spend_patience(agreement, waited);
    if (!is_answered(context))
        warn_of_absent(agreement, false);
}

/* A call --------------------------------------------------------------------------------------- */

enum way { UNDECIDED, PASS, POLICY, CONCLUDE };

static enum way decide_as_root(struct cshim_gloo_agreement *agreement)
{
    struct word word;
    if (agreement->is_proposed && HAVE_ALL(agreement, is_ready))
        return list_marks(agreement, &word) ? CONCLUDE : PASS;
    /* A rank that has stopped waiting may have passed this call through already, and wait for this
     * rank in it. */
    for (struct peer *peer = first_peer(agreement); peer < end_of_peers(agreement); peer++)
        if (peer->passes && !peer->is_ready)
            return PASS;
    return agreement->is_proposed ? UNDECIDED : POLICY;
}

static enum way decide_as_other(const struct cshim_gloo_agreement *agreement)
{
    if (agreement->is_decided)
        return CONCLUDE;
    if (agreement->is_ready)
        return UNDECIDED;
    return agreement->peers[0].passes ? PASS : POLICY;
}

/* Decides about this rank's next call with a tag; UNDECIDED if it must wait for messages. */
static enum way decide(struct cshim_gloo_agreement *agreement, const struct use *use)
{
    if (use != NULL && use->begun < use->native)
        return PASS;
    if (agreement->state != OPEN)
        return agreement->state == SETTLED ? POLICY : UNDECIDED;
    const enum way way =
        agreement->rank == 0 ? decide_as_root(agreement) : decide_as_other(agreement);
    if (way != POLICY)
        return way;
    /* Some ranks may lack the shim: waits for them only as long as the patience lasts. */
    return agreement->passes || cshim_seconds() >= agreement->patience_ends ? PASS : UNDECIDED;
}

/* Begins a call that is passed through, and notifies the ranks that may wait for this rank. */
static void begin_native(struct cshim_gloo_agreement *agreement, struct use *use)
{
    struct word word = {.mark_count = 0};
    agreement->calls++;
    if (agreement->state != OPEN)
        return;
    if (agreement->rank == 0 && agreement->is_proposed) {
        word.marks[word.mark_count++] = (struct mark){use->tag, use->function, use->begun};
        say(agreement, NATIVE, &word);
    } else if (!agreement->passes && !agreement->is_ready) {
        agreement->passes = true;
        say(agreement, PASSING, &word);
        spend_patience(agreement, cshim_seconds() - agreement->began);
        if (agreement->rank != 0 && !agreement->peers[0].passes)
            cshim_gloo_mail_send(&agreement->presences, SLOT(PRESENCE), agreement->rank + 1,
                                 agreement->ranks, &agreement->here, 1);
    }
}

/* Stops the agreement after CALLS_MAX passed-through calls. Rank 0 sends NEVER, for ranks that wait
 * for it. A rank that has said READY does not stop. */
static void give_up(struct cshim_gloo_context *context)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    if (agreement->state != OPEN || agreement->is_ready || agreement->calls < CALLS_MAX)
        return;
    if (agreement->has_warned)
        warn_of_absent(agreement, true);
    if (agreement->rank == 0)
        say_never(context);
    set_agreed(context);
}

/* Decides about a call of a context whose ranks have not agreed. The caller holds the lock, which
 * is released during waits. Returns PASS or POLICY. */
static enum way find_way(struct cshim_gloo_context *context,
                         const struct cshim_gloo_arguments *arguments)
{
    const double began = cshim_seconds();
    struct cshim_gloo_agreement *agreement = context->agreement;
    for (;;) {
        if (agreement->state == OPEN && !context->has_agreed)
            listen(context, arguments->timeout);
        if (agreement->mail.is_broken && agreement->state != ACCEPTING && !context->has_agreed)
            break_off(context);
        if (context->has_agreed)
            return context->reason == CSHIM_REASON_COMPRESS ? POLICY : PASS;
        struct use *use =
            find_use(agreement, arguments->function, arguments->tag, agreement->state == OPEN);
        const enum way way = decide(agreement, use);
        if (use == NULL && agreement->state == OPEN) {
            agreement->mail.is_broken = true; /* other ranks may wait for this one */
            continue;
        }
        if (way == CONCLUDE) {
            agreement->state = ACCEPTING;
            if (agreement->rank == 0)
                say_compress(agreement);
            pthread_mutex_unlock(&context->agreeing);
            conclude(context, arguments->timeout);
            pthread_mutex_lock(&context->agreeing);
            settle(context);
            continue;
        }
        if (way != UNDECIDED) {
            if (use != NULL)
                use->begun++;
            if (way == PASS)
                begin_native(agreement, use);
            return way;
        }
        const double waited = cshim_seconds() - began;
        const bool is_over = arguments->timeout > 0 && waited * 1e3 > (double)arguments->timeout;
        if (agreement->state == OPEN && is_over)
            agreement->mail.is_broken = true; /* the call fails, as by gloo's own time limit */
        else if (agreement->state == OPEN)
            look(agreement);
        pthread_mutex_unlock(&context->agreeing);
        cshim_pause(waited);
        pthread_mutex_lock(&context->agreeing);
    }
}

struct cshim_gloo_verdict cshim_gloo_agree(struct cshim_gloo_context *context,
                                           const struct cshim_gloo_arguments *arguments)
{
    struct cshim_gloo_verdict verdict = {.waited = 0};
    if (arguments->ranks == 1 || __atomic_load_n(&context->has_agreed, __ATOMIC_ACQUIRE))
        return verdict;
    verdict.is_native = true;
    if (arguments->is_empty) /* no rank waits for another */
        return verdict;
    const double began = cshim_seconds();
    pthread_mutex_lock(&context->agreeing);
    if (!context->has_agreed && context->agreement == NULL && !open_agreement(context, arguments))
        set_agreed(context);
    if (!context->has_agreed)
        verdict.is_native = find_way(context, arguments) == PASS;
    else
        verdict.is_native = context->reason != CSHIM_REASON_COMPRESS;
    if (!context->has_agreed && context->agreement->state == SETTLED &&
        !has_marks_left(context->agreement))
        set_agreed(context);
    verdict.is_open = verdict.is_native && !context->has_agreed;
    pthread_mutex_unlock(&context->agreeing);
    if (verdict.is_native)
        verdict.waited = (int64_t)(1e3 * (cshim_seconds() - began));
    return verdict;
}

void cshim_gloo_agree_end(struct cshim_gloo_context *context,
                          const struct cshim_gloo_arguments *arguments)
{
    pthread_mutex_lock(&context->agreeing);
    struct cshim_gloo_agreement *agreement = context->agreement;
    struct use *use = find_use(agreement, arguments->function, arguments->tag, false);
    if (use != NULL && arguments->waits)
        use->ended = use->begun;
    if (!context->has_agreed && agreement->state == OPEN) {
        listen(context, arguments->timeout);
        if (!agreement->has_asked && arguments->waits) {
            agreement->has_asked = true;
            ask_absent(context, arguments->timeout);
        }
    }
    if (!context->has_agreed)
        give_up(context);
    pthread_mutex_unlock(&context->agreeing);
}
