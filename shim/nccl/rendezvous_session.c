/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of an id have said, and what is decided for them. */
#include <stdio.h>
#include <stdlib.h>

#include "shim/nccl/rendezvous_wire.h"

/* What is remembered of all ids, at most: of older ones first those that are not in use are
 * forgotten. */
#define REMEMBERED_BYTES ((size_t)16 << 20)
/* A rank whose connection broke comes back within this, or its process has ended. */
#define BACK_SECONDS 5.0

#define RANKS_MAX (1u << 20)
#define RANKS_NAMED 4

struct place {
    bool here; /* has said hello */
    bool ready;
    bool came;     /* to the first call, ... */
    bool waits;    /* ... and is in it */
    double broken; /* since when its connection has been, while it waits; 0: it is not */
    uint64_t version;
    uint64_t host;
    uint32_t nonblocking;
    char machine[CSHIM_MACHINE_MAX];
    char *failure; /* why it is unable or failed, or NULL */
};

struct cshim_session {
    uint64_t nonce;
    const struct cshim_offer *offer;
    uint32_t ranks; /* 0: nobody has said hello */
    struct place *places;
    uint32_t ready;
    uint32_t came;
    bool trouble;    /* a rank has failed, or its connection is broken */
    double deadline; /* of the decision; 0: none */
    bool heard;      /* something since it was last looked at */
    bool decided;
    struct cshim_reply reply;
    struct cshim_session *next; /* older */
};

static struct cshim_session *sessions;
static size_t remembered; /* bytes */

static size_t bytes_of(const struct cshim_session *session)
{
    return sizeof *session + session->ranks * sizeof *session->places;
}

/* Ranks have come, and not all have their decision. */
static bool is_in_use(const struct cshim_session *session)
{
    return session->ranks > 0 && !session->decided;
}

static void drop(struct cshim_session **link)
{
    struct cshim_session *session = *link;
    *link = session->next;
    remembered -= bytes_of(session);
    for (uint32_t rank = 0; rank < session->ranks; rank++)
        free(session->places[rank].failure);
    free(session->places);
    free(session);
}

/* Forgets the oldest session that is not in use, or else the oldest, but for `kept`. */
static bool drop_oldest(const struct cshim_session *kept)
{
    struct cshim_session **oldest = NULL, **idle = NULL;
    for (struct cshim_session **link = &sessions; *link != NULL; link = &(*link)->next) {
        if (*link == kept)
            continue;
        oldest = link;
        if (!is_in_use(*link))
            idle = link;
    }
    if (idle == NULL)
        idle = oldest;
    if (idle != NULL)
        drop(idle);
    return idle != NULL;
}

static void remember(size_t bytes, const struct cshim_session *kept)
{
    remembered += bytes;
    while (remembered > REMEMBERED_BYTES && drop_oldest(kept))
        ;
}

struct cshim_session *cshim_session_add(uint64_t nonce, const struct cshim_offer *offer)
{
    struct cshim_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return NULL;
    session->nonce = nonce;
    session->offer = offer;
    session->next = sessions;
    sessions = session;
    remember(sizeof *session, session);
    return session;
}

struct cshim_session *cshim_session_find(uint64_t nonce)
{
    struct cshim_session *session = sessions;
    while (session != NULL && session->nonce != nonce)
        session = session->next;
    return session;
}

const struct cshim_offer *cshim_session_offer(const struct cshim_session *session)
{
    return session->offer;
}

double cshim_session_deadline(const struct cshim_session *session)
{
    return session->deadline;
}

/* The first rank that waits for the decision; before any does, the first that has said hello. */
static uint32_t find_speaker(const struct cshim_session *session)
{
    uint32_t here = session->ranks;
    for (uint32_t rank = session->ranks; rank-- > 0;)
        if (session->places[rank].here && (session->ready == 0 || session->places[rank].ready))
            here = rank;
    return here;
}

static void decide_off(struct cshim_session *session)
{
    session->decided = true;
    session->reply.on = 0;
    session->reply.speaker = find_speaker(session);
}

/* Takes in who a rank is. The first one says how many there are; one that says otherwise is not in
 * the same job. */
static struct place *welcome(struct cshim_session *session, const struct cshim_request *request)
{
    const struct cshim_hello *hello = &request->hello;
    if (hello->ranks == 0 || hello->ranks > RANKS_MAX || hello->rank >= hello->ranks)
        return NULL;
    if (session->ranks == 0) {
        session->places = calloc(hello->ranks, sizeof *session->places);
        if (session->places == NULL)
            return NULL;
        session->ranks = hello->ranks;
        remember(hello->ranks * sizeof *session->places, session);
    }
    if (hello->ranks != session->ranks) {
        snprintf(session->reply.text, sizeof session->reply.text,
                 "rank %u on %.*s is of %u ranks, others are of %u", hello->rank,
                 CSHIM_MACHINE_MAX - 1, request->machine, hello->ranks, session->ranks);
        decide_off(session);
        return NULL;
    }
    struct place *place = &session->places[hello->rank];
    place->here = true;
    place->version = hello->version;
    place->host = hello->host;
    place->nonblocking = hello->nonblocking;
    memcpy(place->machine, request->machine, sizeof place->machine);
    place->machine[sizeof place->machine - 1] = '\0';
    return place;
}

static void set_failure(struct place *place, const struct cshim_request *request)
{
    if (request->why[0] == '\0' || place->failure != NULL)
        return;
    place->failure = strndup(request->why, sizeof request->why - 1);
}

bool cshim_session_hear(struct cshim_session *session, const struct cshim_request *request,
                        double now)
{
    struct place *place = welcome(session, request);
    if (place == NULL)
        return session->decided;
    if (request->kind == CSHIM_REQUEST_READY && !place->ready) {
        place->ready = true;
        session->ready++;
        if (session->deadline <= 0)
            session->deadline = now + CSHIM_READY_SECONDS;
    }
    place->waits = request->kind == CSHIM_REQUEST_WAIT;
    if (place->waits && !place->came) {
        place->came = true;
        session->came++;
    }
    place->broken = 0;
    session->heard = true;
    set_failure(place, request);
    session->trouble = session->trouble || place->failure != NULL;
    return true;
}

void cshim_session_break(struct cshim_session *session, uint32_t rank, double now)
{
    if (rank >= session->ranks || !session->places[rank].waits)
        return;
    session->places[rank].broken = now;
    session->trouble = true;
}

/* Writes "rank 1 on node7, 3 on node9 TEXT" of the places that `is_odd`, the first few of them; a
 * rank that has not said hello is on no known machine. Returns how many there are. */
static unsigned name_ranks(const struct cshim_session *session, const char *text,
                           bool (*is_odd)(const struct place *, const struct place *), char *why,
                           size_t size)
{
    const struct place *first = session->places;
    unsigned odd = 0;
    size_t length = 0;
    while (!first->here)
        first++;
    for (uint32_t rank = 0; rank < session->ranks; rank++) {
        const struct place *place = &session->places[rank];
        if (!is_odd(first, place))
            continue;
        if (odd++ < RANKS_NAMED && length < size)
            length += (size_t)snprintf(why + length, size - length, "%s%u%s%.32s",
                                       odd > 1 ? ", " : "rank ", rank, place->here ? " on " : "",
                                       place->machine);
    }
    if (odd > RANKS_NAMED && length < size)
        length += (size_t)snprintf(why + length, size - length, ", ... (%u)", odd);
    if (odd > 0 && length < size)
        snprintf(why + length, size - length, " %s", text);
    return odd;
}

static bool is_missing(const struct place *first, const struct place *place)
{
    (void)first;
    return !place->here;
}

static bool is_other(const struct place *first, const struct place *place)
{
    return place->version != first->version;
}

static bool is_nonblocking(const struct place *first, const struct place *place)
{
    (void)first;
    return place->nonblocking != 0;
}

static bool is_unable(const struct place *first, const struct place *place)
{
    (void)first;
    return place->failure != NULL;
}

static bool is_not_ready(const struct place *first, const struct place *place)
{
    (void)first;
    return !place->ready;
}

static bool has_not_come(const struct place *first, const struct place *place)
{
    (void)first;
    return !place->came;
}

static const struct place *first_unable(const struct cshim_session *session)
{
    const struct place *place = session->places;
    while (place->failure == NULL)
        place++;
    return place;
}

static uint32_t count_nodes(const struct cshim_session *session)
{
    uint32_t nodes = 0;
    for (uint32_t rank = 0; rank < session->ranks; rank++) {
        uint32_t before = 0;
        while (before < rank && session->places[before].host != session->places[rank].host)
            before++;
        nodes += before == rank;
    }
    return nodes;
}

/* What speaks against compression, whoever else may become ready. */
static bool finds_reason(const struct cshim_session *session, char *why, size_t size)
{
    char text[CSHIM_RENDEZVOUS_WHY_MAX];
    if (name_ranks(session, "without compshim: is LD_PRELOAD set on every host?", is_missing, why,
                   size) > 0 ||
        name_ranks(session, "with another version of compshim", is_other, why, size) > 0 ||
        name_ranks(session, "with a non-blocking communicator", is_nonblocking, why, size) > 0)
        return true;
    if (name_ranks(session, "", is_unable, why, size) == 0)
        return false;
    snprintf(text, sizeof text, "cannot compress: %.*s", CSHIM_RENDEZVOUS_WHY_MAX - 20,
             first_unable(session)->failure);
    name_ranks(session, text, is_unable, why, size);
    return true;
}

static void turn_on(struct cshim_session *session)
{
    struct cshim_reply *reply = &session->reply;
    memset(reply, 0, sizeof *reply);
    reply->on = 1;
    reply->observe = session->offer->observe;
    reply->nodes = count_nodes(session);
    reply->length = (uint32_t)session->offer->length;
    snprintf(reply->text, sizeof reply->text, "%s", session->offer->source);
    session->decided = true;
}

bool cshim_session_decide(struct cshim_session *session, double now, struct cshim_reply *reply)
{
    char *why = session->reply.text;
    const bool late = session->deadline > 0 && now >= session->deadline;
    if (!session->decided && session->ready > 0 && (session->heard || late)) {
        session->heard = false;
        if (finds_reason(session, why, CSHIM_RENDEZVOUS_WHY_MAX)) {
            decide_off(session);
        } else if (session->ready == session->ranks) {
            turn_on(session);
        } else if (late) {
            name_ranks(session,
                       "did not come out of ncclCommInitRank with the others: has the process "
                       "ended, or been stopped?",
                       is_not_ready, why, CSHIM_RENDEZVOUS_WHY_MAX);
            decide_off(session);
        }
    }
    *reply = session->reply;
    return session->decided;
}

/* The first rank that has failed or ended, or NULL. */
static const struct place *first_lost(const struct cshim_session *session, double now)
{
    for (uint32_t rank = 0; rank < session->ranks && session->trouble; rank++) {
        const struct place *place = &session->places[rank];
        if (place->failure != NULL || (place->broken > 0 && now - place->broken > BACK_SECONDS))
            return place;
    }
    return NULL;
}

double cshim_session_patience(const struct cshim_session *session)
{
    return 1.0 + 0.002 * session->ranks; /* for the thread that answers all of them */
}

bool cshim_session_absent(const struct cshim_session *session, double since, double now,
                          struct cshim_reply *reply)
{
    const struct place *lost = first_lost(session, now);
    memset(reply, 0, sizeof *reply);
    if (lost != NULL) {
        reply->absence = CSHIM_RANK_LOST;
        snprintf(reply->text, CSHIM_RENDEZVOUS_WHY_MAX, "rank %u on %s: %s",
                 (unsigned)(lost - session->places), lost->machine,
                 lost->failure != NULL ? lost->failure : "its process has ended");
        return true;
    }
    if (session->came == session->ranks) {
        reply->absence = CSHIM_ALL_HERE;
        return true;
    }
    if (now < since + cshim_session_patience(session))
        return false;
    reply->absence = CSHIM_RANKS_MISSING;
    name_ranks(session, "not there yet", has_not_come, reply->text, CSHIM_RENDEZVOUS_WHY_MAX);
    return true;
}
