/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement of the ranks of a context. docs/agreement.md describes the protocol and why no two
 * ranks decide differently about a call; tests/model/gloo_agreement.pml is a model of this file.
 *
 * Ranks may enter their first call at any time, and some may lack the shim. So, after its
 * patience (less than a second per process), a rank waits in a call only for a rank that is known
 * to have the shim and must enter the call, as gloo itself would wait for it. Other calls are
 * passed through while the messages of the agreement travel. If a sum, or a data-movement
 * collective that waits for all ranks, is complete on one rank, all ranks have begun it, so their
 * earlier messages have been sent. Any other call may be complete on one rank before another begins
 * it, so it counts as pending until the agreement ends. */
#include "shim/gloo/agree.h"

#include <stdlib.h>

#include "policy/list.h"
#include "shim/core/clock.h"
#include "shim/core/log.h"
#include "shim/report/process.h"
#include "shim/gloo/absent.h"
#include "shim/gloo/terms.h"
#include "shim/gloo/uses.h"

/* Slots of the messages; absent.c has number 1. Numbers from 2 to 7 are those of older versions. */
#define SLOT(number) (CSHIM_GLOO_SLOT_AGREEMENT | (uint64_t)(number))
enum { HELLO = 0, WORDS = 8, TERMS };

/* States of a rank, in their order: a rank only goes forward. SILENT is the state of a rank from
 * which no message has come. */
enum state {
    SILENT,
    WAITING,      /* in its first call: waits for a moment, because others may enter it, too */
    HAS_PASSED,   /* has stopped waiting, and passes its calls through */
    IS_CROWDED,   /* would be ready, but has more pending calls than a message can name */
    HAS_PROPOSED, /* rank 0: waits until all are ready; passes through while another rank does */
    IS_READY,     /* waits for rank 0 in each call that is not known to be passed through */
    HAS_DECIDED,  /* its next call that is not known to be passed through applies the terms */
    ACCEPTING,    /* a thread applies the terms; calls not known to be passed through wait for it */
    SETTLED,      /* applies the policy to calls that are not known to be passed through */
};

/* Message of the agreement, from a rank to rank 0 or from rank 0 to all. */
struct word {
    uint8_t kind; /* first byte, never 0: its arrival is polled */
    uint8_t unused[3];
    uint32_t mark_count;
    uint64_t terms_bytes;
    struct cshim_gloo_mark marks[CSHIM_GLOO_MARKS_MAX];
};
enum kind {
    PASSING = 1, /* the sender has stopped waiting and passes calls through */
    PROPOSAL,    /* all ranks have the shim; marks: pending calls of rank 0 */
    READY,       /* the sender waits in further calls (IS_READY); marks: its pending calls */
    NATIVE,      /* rank 0 passes through the call that the mark names */
    COMPRESS,    /* the policy applies, except to calls that the marks name; the terms follow */
    NEVER,       /* no call is compressed; the agreement ends */
    KINDS,
};
/* States that sender and receiver enter by a message. SILENT: the rank keeps its state. */
static const struct {
    enum state sender, receiver;
} transitions[KINDS] = {
    [PASSING] = {.sender = HAS_PASSED},
    [PROPOSAL] = {.sender = HAS_PROPOSED, .receiver = IS_CROWDED}, /* and then IS_READY */
    [READY] = {.sender = IS_READY},
    [COMPRESS] = {.sender = ACCEPTING, .receiver = HAS_DECIDED},
};

/* Decisions about the next call. CONCLUDE: apply first the terms, then the policy. */
enum way { UNDECIDED, PASS, POLICY, CONCLUDE };

struct peer {
    enum state state; /* as known to this rank */
    struct cshim_gloo_inbox hello, words;
    struct word word;
};

struct cshim_gloo_agreement {
    struct cshim_gloo_mail mail;
    int rank, ranks;
    enum state state;
    double began; /* start of the first call */
    double patience_ends;
    bool has_asked;           /* ask_absent() was called */
    struct cshim_offer offer; /* rank 0's policy and choices; unused on other ranks */
    struct cshim_gloo_terms *terms;
    uint64_t terms_bytes;
    struct cshim_greeting *greetings; /* this rank's; on rank 0: those of all ranks */
    struct cshim_gloo_absent absent;
    unsigned calls; /* number of passed-through calls that have begun */
    struct cshim_gloo_uses uses;
    struct peer peers[]; /* on rank 0: all ranks, by rank; elsewhere: rank 0 only */
};

static struct peer *first_peer(struct cshim_gloo_agreement *agreement)
{
    return agreement->peers + (agreement->rank == 0);
}

static struct peer *end_of_peers(struct cshim_gloo_agreement *agreement)
{
    return agreement->peers + (agreement->rank == 0 ? agreement->ranks : 1);
}

/* Returns true if all peers have reached a state. */
static bool have_all(struct cshim_gloo_agreement *agreement, enum state state)
{
    for (struct peer *peer = first_peer(agreement); peer < end_of_peers(agreement); peer++)
        if (peer->state < state)
            return false;
    return true;
}

/* Returns true if a peer may have passed a call through already, and wait for this rank in it. */
static bool has_one_passed(struct cshim_gloo_agreement *agreement)
{
    for (struct peer *peer = first_peer(agreement); peer < end_of_peers(agreement); peer++)
        if (peer->state == HAS_PASSED)
            return true;
    return false;
}

/* Ends the agreement: later calls skip it. */
static void set_agreed(struct cshim_gloo_context *context)
{
    __atomic_store_n(&context->has_agreed, true, __ATOMIC_RELEASE);
}

/* Messages ------------------------------------------------------------------------------------- */

static void advance(enum state *state, enum state to)
{
    if (*state < to)
        *state = to;
}

/* Sends a message to rank 0; on rank 0, to all other ranks. */
static void say(struct cshim_gloo_agreement *agreement, enum kind kind, struct word *word)
{
    const int first = agreement->rank == 0 ? 1 : 0,
              end = agreement->rank == 0 ? agreement->ranks : 1;
    word->kind = (uint8_t)kind;
    cshim_gloo_mail_send(&agreement->mail, SLOT(WORDS), first, end, word,
                         offsetof(struct word, marks) + word->mark_count * sizeof *word->marks);
    advance(&agreement->state, transitions[kind].sender);
}

/* Sends a message with all pending calls. If it has no room for them, sends nothing and returns
 * false. */
static bool say_with_marks(struct cshim_gloo_agreement *agreement, enum kind kind)
{
    struct word word = {.terms_bytes = agreement->terms_bytes};
    if (!cshim_gloo_uses_list(&agreement->uses, word.marks, &word.mark_count))
        return false;
    say(agreement, kind, &word);
    return true;
}

/* Sends NEVER from rank 0 to all ranks, and ends the agreement: nothing is compressed. */
static void say_never(struct cshim_gloo_context *context)
{
    say(context->agreement, NEVER, &(struct word){.mark_count = 0});
    set_agreed(context);
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
    const struct word *word = &peer->word;
    if (!cshim_gloo_uses_add(&agreement->uses, word->marks, word->mark_count))
        agreement->mail.is_broken = true;
    agreement->terms_bytes = word->terms_bytes;
    if (word->kind < KINDS) {
        advance(&peer->state, transitions[word->kind].sender);
        advance(&agreement->state, transitions[word->kind].receiver);
    }
    if (word->kind == PROPOSAL)
        say_with_marks(agreement, READY);
    if (word->kind == NEVER)
        set_agreed(context);
    else if (word->kind != COMPRESS) /* COMPRESS and NEVER are the last messages */
        expect_word(agreement, peer);
}

/* Compares all ranks' greetings, on rank 0. If they fit, proposes to compress, once a message has
 * room for the marks; otherwise warns and ends the agreement. */
static void propose(struct cshim_gloo_context *context)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    const struct cshim_greeting *greetings = agreement->greetings;
    char others[700] = "";
    for (int rank = 1; rank < agreement->ranks; rank++)
        cshim_greeting_fits(&greetings[0], &greetings[rank], rank, others, sizeof others);
    if (others[0] == '\0') {
        say_with_marks(agreement, PROPOSAL);
        return;
    }
    cshim_log(CSHIM_LOG_WARN,
              "nothing is compressed: not all ranks have this shim: %s; start all with the "
              "same LD_PRELOAD and COMPSHIM",
              others);
    say_never(context);
}

/* Applies the messages that have arrived, and answers them. Does not wait for further messages. */
static void listen(struct cshim_gloo_context *context, int64_t timeout)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    struct cshim_gloo_mail *mail = &agreement->mail;
    for (struct peer *peer = first_peer(agreement); peer < end_of_peers(agreement); peer++) {
        if (cshim_gloo_mail_has_come(mail, &peer->hello, timeout)) {
            advance(&peer->state, WAITING);
            /* A live buffer keeps the context's connections open. */
            cshim_gloo_inbox_free(&peer->hello);
            expect_word(agreement, peer);
        }
        while (cshim_gloo_mail_has_come(mail, &peer->words, timeout))
            hear(context, peer);
    }
    if (context->has_agreed)
        return;
    if (agreement->rank == 0 && agreement->state < HAS_PROPOSED && have_all(agreement, WAITING))
        propose(context);
    if (agreement->state == IS_CROWDED)
        say_with_marks(agreement, READY);
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

/* Begins the agreement at the first call of the context. Returns false without memory; other ranks
 * then get no answer from this one. */
static bool open_agreement(struct cshim_gloo_context *context,
                           const struct cshim_gloo_arguments *arguments)
{
    const size_t peers = arguments->rank == 0 ? (size_t)arguments->ranks : 1;
    struct cshim_gloo_agreement *agreement =
        calloc(1, sizeof *agreement + peers * sizeof *agreement->peers);
    struct cshim_greeting *greetings = calloc(peers, sizeof *greetings);
    if (agreement == NULL || greetings == NULL) {
        free(agreement);
        free(greetings);
        return false;
    }
    context->agreement = agreement;
    agreement->mail.context = agreement->absent.mail.context = arguments->context;
    agreement->rank = arguments->rank;
    agreement->ranks = arguments->ranks;
    agreement->state = WAITING;
    agreement->greetings = greetings;
    greetings[0] = cshim_greeting_make();
    if (agreement->rank == 0)
        cshim_job_load(&agreement->offer);
    else
        expect_word(agreement, agreement->peers);
    for (int rank = 1; agreement->rank == 0 && rank < agreement->ranks; rank++)
        cshim_gloo_mail_expect(&agreement->mail, &agreement->peers[rank].hello, rank, SLOT(HELLO),
                               &greetings[rank], sizeof *greetings,
                               offsetof(struct cshim_greeting, version));
    if (agreement->rank != 0)
        cshim_gloo_mail_send(&agreement->mail, SLOT(HELLO), 0, 1, greetings, sizeof *greetings);
    agreement->began = cshim_seconds();
    agreement->patience_ends = agreement->began + cshim_gloo_patience(arguments->timeout);
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
    cshim_gloo_mail_free(&agreement->mail);
    cshim_gloo_absent_free(&agreement->absent, agreement->rank);
    cshim_offer_free(&agreement->offer);
    free(agreement->greetings);
    free(agreement->terms);
    free(agreement);
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
    agreement->terms = cshim_gloo_terms_make(&agreement->offer, agreement->greetings,
                                             agreement->ranks, &agreement->terms_bytes);
    if (agreement->terms == NULL || !say_with_marks(agreement, COMPRESS))
        lack_memory(agreement);
    else
        cshim_gloo_mail_send(&agreement->mail, SLOT(TERMS), 1, agreement->ranks, agreement->terms,
                             agreement->terms_bytes);
}

/* Applies the terms, after receiving them on ranks other than 0. Called without the lock, so that
 * passed-through calls of other threads continue. If this fails on a rank, all ranks' calls fail.
 */
static void conclude(struct cshim_gloo_context *context, int64_t timeout)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    struct cshim_gloo_mail *mail = &agreement->mail;
    if (agreement->rank != 0)
        agreement->terms = cshim_gloo_terms_receive(mail, SLOT(TERMS), agreement->terms_bytes,
                                                    agreement->ranks, timeout);
    if (mail->is_broken)
        return;
    if (agreement->terms == NULL ||
        !cshim_gloo_terms_apply(agreement->terms, agreement->terms_bytes, context))
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
    if (!cshim_gloo_uses_have_unbegun(&agreement->uses))
        set_agreed(context);
    if (agreement->absent.has_warned)
        cshim_log(CSHIM_LOG_WARN, "all ranks have answered: calls are compressed from here on");
    cshim_gloo_patience_spend(&agreement->absent, -agreement->absent.spent);
}

/* Ranks that do not answer --------------------------------------------------------------------- */

/* Warns which ranks have not answered. `calls`: number of calls after which the agreement is given
 * up; 0: it continues. */
static void warn_of_absent(struct cshim_gloo_agreement *agreement, unsigned calls)
{
    char absent[700] = "";
    for (struct peer *peer = first_peer(agreement); peer < end_of_peers(agreement); peer++)
        if (agreement->rank != 0 || peer->state == SILENT)
            cshim_list_add(absent, sizeof absent, ", ", "rank %d", (int)(peer - agreement->peers));
    cshim_gloo_absent_warn(&agreement->absent, agreement->rank, absent, calls);
}

/* Returns true if this rank need not warn: the agreement has ended or failed, all ranks have
 * answered (on rank 0), rank 0 has answered, or a lower rank warns. */
static bool is_answered(struct cshim_gloo_context *context)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    return context->has_agreed || agreement->state > HAS_PASSED || agreement->mail.is_broken ||
           have_all(agreement, WAITING) ||
           cshim_gloo_presence_has_come(&agreement->absent, agreement->rank);
}

/* Warns of ranks that have not answered after the first call, in which all ranks with the shim have
 * sent a message. First waits a short time for these messages. The caller holds the lock, which is
 * released during the wait. */
static void ask_absent(struct cshim_gloo_context *context, int64_t timeout)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    const double began = cshim_seconds(), grace = cshim_gloo_grace();
    double waited = 0;
    if (agreement->rank > 1 && !is_answered(context))
        cshim_gloo_presence_expect(&agreement->absent, agreement->rank);
    while (!is_answered(context) && waited < grace) {
        pthread_mutex_unlock(&context->agreeing);
        cshim_pause(waited);
        pthread_mutex_lock(&context->agreeing);
        waited = cshim_seconds() - began;
        if (!context->has_agreed && agreement->state < ACCEPTING)
            listen(context, timeout);
    }
    cshim_gloo_patience_spend(&agreement->absent, waited);
    if (!is_answered(context))
        warn_of_absent(agreement, 0);
}

/* A call --------------------------------------------------------------------------------------- */

/* Decides about this rank's next call of a function with a tag; UNDECIDED if the call must wait for
 * messages. */
static enum way decide_way(struct cshim_gloo_agreement *agreement, const struct cshim_gloo_use *use)
{
    static const enum way ways[] = {
        [HAS_PASSED] = PASS,      [IS_CROWDED] = PASS,     [IS_READY] = UNDECIDED,
        [HAS_DECIDED] = CONCLUDE, [ACCEPTING] = UNDECIDED, [SETTLED] = POLICY,
    };
    struct word word;
    if (use != NULL && use->begun < use->native)
        return PASS;
    if (agreement->state ==
        WAITING) /* some ranks may lack the shim: waits while the patience lasts */
        return has_one_passed(agreement) || cshim_seconds() >= agreement->patience_ends ? PASS
                                                                                        : UNDECIDED;
    if (agreement->state != HAS_PROPOSED)
        return ways[agreement->state];
    if (!have_all(agreement, IS_READY))
        return has_one_passed(agreement) ? PASS : UNDECIDED;
    return cshim_gloo_uses_list(&agreement->uses, word.marks, &word.mark_count) ? CONCLUDE : PASS;
}

/* Begins a call that is passed through, and notifies the ranks that may wait for this rank. */
static void begin_native(struct cshim_gloo_agreement *agreement, const struct cshim_gloo_use *use)
{
    struct word word = {.mark_count = 0};
    agreement->calls++;
    if (agreement->state == HAS_PROPOSED) {
        word.marks[word.mark_count++] =
            (struct cshim_gloo_mark){use->tag, use->function, use->begun};
        say(agreement, NATIVE, &word);
    } else if (agreement->state == WAITING) {
        say(agreement, PASSING, &word);
        cshim_gloo_patience_spend(&agreement->absent, cshim_seconds() - agreement->began);
        if (agreement->rank != 0 && agreement->peers[0].state == SILENT)
            cshim_gloo_presence_send(&agreement->absent, agreement->rank, agreement->ranks);
    }
}

/* Stops the agreement after CSHIM_GLOO_CALLS_MAX passed-through calls: ranks that have not answered
 * are taken to lack the shim. Rank 0 sends NEVER, for ranks that wait for it. A rank that has said
 * READY does not stop. */
static void give_up(struct cshim_gloo_context *context)
{
    struct cshim_gloo_agreement *agreement = context->agreement;
    if (agreement->state >= IS_READY || agreement->calls < CSHIM_GLOO_CALLS_MAX)
        return;
    if (agreement->absent.has_warned)
        warn_of_absent(agreement, agreement->calls);
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
        if (agreement->state < ACCEPTING && !context->has_agreed)
            listen(context, arguments->timeout);
        if (agreement->state != ACCEPTING && agreement->mail.is_broken && !context->has_agreed) {
            cshim_gloo_break(context->context); /* other ranks may wait for this one */
            set_agreed(context);
        }
        if (context->has_agreed)
            return context->reason == CSHIM_REASON_COMPRESS ? POLICY : PASS;
        const bool is_open = agreement->state < ACCEPTING;
        struct cshim_gloo_use *use =
            cshim_gloo_use_find(&agreement->uses, arguments->function, arguments->tag, is_open);
        const enum way way = decide_way(agreement, use);
        if (use == NULL && is_open) {
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
                use->begun += use->begun < UINT16_MAX;
            if (way == PASS)
                begin_native(agreement, use);
            return way;
        }
        const double waited = cshim_seconds() - began;
        const bool is_over = arguments->timeout > 0 && waited * 1e3 > (double)arguments->timeout;
        if (is_open && is_over)
            agreement->mail.is_broken = true; /* the call fails, as by gloo's own time limit */
        else if (is_open)
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
        !cshim_gloo_uses_have_unbegun(&context->agreement->uses))
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
    struct cshim_gloo_use *use =
        cshim_gloo_use_find(&agreement->uses, arguments->function, arguments->tag, false);
    if (use != NULL && arguments->waits)
        use->ended = use->begun;
    if (!context->has_agreed && agreement->state < ACCEPTING) {
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
