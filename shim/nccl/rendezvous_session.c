/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "shim/nccl/rendezvous_wire.h"

/* All sessions take so much memory at most. Beyond it, old ones are forgotten, those that are not
 * in use first. */
#define REMEMBERED_BYTES ((size_t)16 << 20)
/* A rank whose connection has broken comes back within this, or its process has ended. */
#define BACK_SECONDS 5.0

#define RANKS_MAX (1u << 20)
#define RANKS_NAMED 4

/* What is known of a rank. */
struct place {
    bool here;           /* it has said hello */
    bool ready;          /* ncclCommInitRank has returned there */
    bool came;           /* to the first call, ... */
    bool waits;          /* ... and is in it */
    uint64_t connection; /* the number of its latest one */
    double broken; /* since when its connection has been broken while it waits; 0: it is not */
    bool lost;     /* it has been broken for so long that the others are told */
    struct cshim_hello hello;
    char machine[CSHIM_MACHINE_MAX];
    char *failure; /* why it is unable or has failed, or NULL */
};

struct session {
    uint64_t nonce;
    const struct cshim_offer *offer;
    uint32_t ranks; /* 0: no rank has said hello */
    struct place *places;
    uint32_t ready;
    uint32_t came;
    bool trouble;    /* a rank has failed, or its connection has broken */
    double deadline; /* of the decision; 0: none */
    bool heard;      /* something new, since it was last tried to decide */
    bool decided;
    struct cshim_reply reply;
    struct session *next; /* older */
};

static struct session *sessions;
static size_t remembered; /* bytes */

static size_t bytes_of(const struct session *session)
{
    return sizeof *session + session->ranks * sizeof *session->places;
}

static void drop(struct session **link)
{
    struct session *session = *link;
    *link = session->next;
    remembered -= bytes_of(session);
    for (uint32_t rank = 0; rank < session->ranks; rank++)
        free(session->places[rank].failure);
    free(session->places);
    free(session);
}

/* Forgets the oldest session whose ranks do not wait for a decision, or else the oldest, but never
 * `kept`. */
static bool drop_oldest(const struct session *kept)
{
    struct session **oldest = NULL, **idle = NULL;
    for (struct session **link = &sessions; *link != NULL; link = &(*link)->next) {
        if (*link == kept)
            continue;
        oldest = link;
        if ((*link)->ranks == 0 || (*link)->decided)
            idle = link;
    }
    if (idle == NULL)
        idle = oldest;
    if (idle != NULL)
        drop(idle);
    return idle != NULL;
}

static void remember(size_t bytes, const struct session *kept)
{
    remembered += bytes;
    while (remembered > REMEMBERED_BYTES && drop_oldest(kept))
        ;
}

bool cshim_session_add(uint64_t nonce, const struct cshim_offer *offer)
{
    struct session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return false;
    session->nonce = nonce;
    session->offer = offer;
    session->next = sessions;
    sessions = session;
    remember(sizeof *session, session);
    return true;
}

/* Returns NULL if it was forgotten or never there. */
static struct session *find(uint64_t nonce)
{
    struct session *session = sessions;
    while (session != NULL && session->nonce != nonce)
        session = session->next;
    return session;
}

/* The session of a communicator that grows begins with the first of its ranks that says hello. */
static struct session *find_or_grow(const struct cshim_request *request)
{
    struct session *session = find(request->nonce);
    const struct session *parent =
        session == NULL && request->parent != 0 ? find(request->parent) : NULL;
    if (parent != NULL && cshim_session_add(request->nonce, parent->offer))
        session = find(request->nonce);
    return session;
}

/* Whether a hello is of another process than the rank's: of one that joins by an id that had been
 * made before another communicator grew. */
static bool is_of_another(const struct session *session, const struct cshim_request *request)
{
    return request->parent != 0 && request->kind == CSHIM_REQUEST_HELLO &&
           request->hello.rank < session->ranks && session->places[request->hello.rank].ready;
}

/* The first rank that waits for the decision tells the user; before any does, the first that has
 * said hello. */
static void decide_off(struct session *session)
{
    session->decided = true;
    session->reply.on = 0; /* it was on, if a rank of another communicator comes afterwards */
    session->reply.speaker = session->ranks;
    for (uint32_t rank = session->ranks; rank-- > 0;)
        if (session->places[rank].here && (session->ready == 0 || session->places[rank].ready))
            session->reply.speaker = rank;
}

/* Takes in who a rank is. The first one says how many ranks there are. A rank that says otherwise
 * is not in the same job. */
static struct place *welcome(struct session *session, const struct cshim_request *request)
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
    place->hello = *hello;
    memcpy(place->machine, request->machine, sizeof place->machine - 1);
    return place;
}

bool cshim_session_hear(const struct cshim_request *request, uint64_t connection, double now)
{
    struct session *session = find_or_grow(request);
    if (session == NULL || is_of_another(session, request))
        return false;
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
    if (place->connection < connection)
        place->connection = connection;
    place->broken = 0;
    session->heard = true;
    if (request->why[0] != '\0' && place->failure == NULL)
        place->failure = strndup(request->why, sizeof request->why - 1);
    session->trouble = session->trouble || place->failure != NULL;
    return true;
}

void cshim_session_break(const struct cshim_request *request, uint64_t connection, double now)
{
    struct session *session = find(request->nonce);
    const uint32_t rank = request->hello.rank;
    if (session == NULL || rank >= session->ranks || !session->places[rank].waits ||
        session->places[rank].connection != connection)
        return;
    session->places[rank].broken = now;
    session->trouble = true;
}

/* What may be wrong with a rank. The first four speak against compression, whichever ranks may
 * still become ready. */
enum fault { MISSING, OTHER_VERSION, UNABLE, NOT_READY, NOT_COME };
static const char *const faults[] = {
    [MISSING] = "without compshim: is LD_PRELOAD set on every host?",
    [OTHER_VERSION] = "with another version of compshim",
    [UNABLE] = "cannot compress: ",
    [NOT_READY] = ("did not come out of ncclCommInitRank with the others: has the process "
                   "ended, or been stopped?"),
    [NOT_COME] = "not there yet",
};

static bool has_fault(const struct place *place, enum fault fault, uint64_t version)
{
    const bool has[] = {
        [MISSING] = !place->here,          [OTHER_VERSION] = place->hello.version != version,
        [UNABLE] = place->failure != NULL, [NOT_READY] = !place->ready,
        [NOT_COME] = !place->came,
    };
    return has[fault];
}

/* Writes "rank 1 on node7, 3 on node9" of the ranks that have a fault, naming the first few of
 * them, and the fault. The first rank that is here has the right version. Returns whether there are
 * any. */
static bool name_ranks(const struct session *session, enum fault fault,
                       char why[CSHIM_RENDEZVOUS_WHY_MAX])
{
    const size_t size = CSHIM_RENDEZVOUS_WHY_MAX;
    const struct place *first = session->places;
    const char *failure = "";
    unsigned count = 0;
    size_t length = 0;
    while (!first->here)
        first++;
    for (uint32_t rank = 0; rank < session->ranks; rank++) {
        const struct place *place = &session->places[rank];
        if (!has_fault(place, fault, first->hello.version))
            continue;
        if (fault == UNABLE && count == 0)
            failure = place->failure;
        if (count++ < RANKS_NAMED && length < size)
            length += (size_t)snprintf(why + length, size - length, "%s%u%s%.32s",
                                       count > 1 ? ", " : "rank ", rank, place->here ? " on " : "",
                                       place->machine);
    }
    if (count > RANKS_NAMED && length < size)
        length += (size_t)snprintf(why + length, size - length, ", ... (%u)", count);
    if (count > 0 && length < size)
        snprintf(why + length, size - length, " %s%s", faults[fault], failure);
    return count > 0;
}

static void decide_on(struct session *session)
{
    struct cshim_reply *reply = &session->reply;
    memset(reply, 0, sizeof *reply);
    reply->on = 1;
    reply->observe = session->offer->observe;
    reply->length = (uint32_t)session->offer->length;
    reply->has_learned = session->offer->learned != NULL;
    reply->learned_length = (uint32_t)session->offer->learned_length;
    snprintf(reply->text, sizeof reply->text, "%s", session->offer->source);
    for (uint32_t rank = 0; rank < session->ranks; rank++) {
        const struct place *before = session->places;
        while (before->hello.host != session->places[rank].hello.host)
            before++;
        reply->nodes += before == &session->places[rank];
    }
    session->decided = true;
}

/* Decides, if it is time. */
static void decide(struct session *session, double now)
{
    const bool late = session->deadline > 0 && now >= session->deadline;
    if (session->decided || session->ready == 0 || (!session->heard && !late))
        return;
    session->heard = false;
    enum fault fault = MISSING;
    while (fault <= UNABLE && !name_ranks(session, fault, session->reply.text))
        fault++;
    if (fault > UNABLE && session->ready == session->ranks)
        decide_on(session);
    else if (fault <= UNABLE || (late && name_ranks(session, NOT_READY, session->reply.text)))
        decide_off(session);
}

/* The first rank that has failed or ended, or NULL. A rank that was only unreachable stays lost
 * when it comes back: others may have been told so, and it must not wait for them. */
static const struct place *first_lost(struct session *session, double now)
{
    for (uint32_t rank = 0; rank < session->ranks && session->trouble; rank++) {
        struct place *place = &session->places[rank];
        place->lost = place->lost || (place->broken > 0 && now - place->broken > BACK_SECONDS);
        if (place->failure != NULL || place->lost)
            return place;
    }
    return NULL;
}

/* Whether all ranks have come to the first call. The thread that answers needs some time for
 * many. */
static double find_absent(struct session *session, double since, double now,
                          struct cshim_reply *reply)
{
    const double due = since + 1.0 + 0.002 * session->ranks;
    const struct place *lost = first_lost(session, now);
    if (lost != NULL) {
        reply->absence = CSHIM_RANK_LOST;
        snprintf(reply->text, CSHIM_RENDEZVOUS_WHY_MAX, "rank %u on %s: %s",
                 (unsigned)(lost - session->places), lost->machine,
                 lost->failure != NULL ? lost->failure : "its process has ended");
    } else if (session->came == session->ranks) {
        reply->absence = CSHIM_ALL_HERE;
    } else if (now < due) {
        return due;
    } else {
        reply->absence = CSHIM_RANKS_MISSING;
        name_ranks(session, NOT_COME, reply->text);
    }
    return 0;
}

double cshim_session_answer(const struct cshim_request *request, double since, double now,
                            struct cshim_reply *reply, const struct cshim_offer **offer)
{
    struct session *session = find(request->nonce);
    if (session == NULL)
        return -1;
    memset(reply, 0, sizeof *reply);
    *offer = NULL;
    if (request->kind == CSHIM_REQUEST_WAIT)
        return find_absent(session, since, now, reply);
    if (request->kind == CSHIM_REQUEST_READY) {
        decide(session, now);
        if (!session->decided)
            return session->deadline;
        *reply = session->reply;
        *offer = reply->on ? session->offer : NULL;
    }
    return 0;
}
