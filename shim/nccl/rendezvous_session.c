/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "policy/list.h"
#include "shim/nccl/rendezvous_wire.h"

/* Memory of all sessions above which old ones are forgotten (drop_oldest). */
#define REMEMBERED_BYTES ((size_t)16 << 20)
/* A rank whose connection breaks in the first compressed call is lost unless it reconnects within
 * this time. */
#define BACK_SECONDS 5.0

#define RANKS_MAX (1u << 20)
#define RANKS_NAMED 4

/* Stages that each rank reaches in this order: it has sent HELLO; it has sent READY, because NCCL
 * has made its communicator; it has come to its first compressed call. */
enum stage { NONE, HELLO, READY, CAME, STAGES };

/* State of a rank. */
struct rank_entry {
    enum stage stage;    /* latest stage that the rank has reached */
    bool waits;          /* the rank's latest request is WAIT: it is in its first compressed call */
    uint64_t connection; /* number of its latest connection */
    double broken; /* time at which the connection broke while `waits` was true; 0: not broken */
    bool lost;     /* it has not reconnected within BACK_SECONDS */
    struct cshim_hello hello;
    char machine[CSHIM_MACHINE_MAX];
    char *failure; /* why the rank is unable or has failed, or NULL */
};

struct session {
    uint64_t nonce;
    struct cshim_kept_offer *offer;
    uint32_t ranks; /* 0: no rank has sent HELLO */
    struct rank_entry *entries;
    uint32_t reached[STAGES]; /* number of ranks that have reached each stage but NONE */
    bool trouble;    /* a rank is unable or has failed, or its connection broke (`broken`) */
    double deadline; /* time limit of the decision; 0: no rank has sent READY */
    bool heard;      /* a request has arrived since decide_session() last looked */
    bool decided;
    struct cshim_reply reply;
    struct session *next; /* older */
};

static struct session *sessions;
static size_t remembered; /* bytes of all sessions */

static size_t bytes_of(const struct session *session)
{
    return sizeof *session + session->ranks * sizeof *session->entries;
}

static void drop_session(struct session **link)
{
    struct session *session = *link;
    *link = session->next;
    remembered -= bytes_of(session);
    for (uint32_t rank = 0; rank < session->ranks; rank++)
        free(session->entries[rank].failure);
    free(session->entries);
    free(session);
}

/* Forgets the oldest session that is decided or has no HELLO so far: no rank waits for its
 * decision. If there is none, forgets the oldest session. Never forgets `kept`; returns false if
 * there is no other. */
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
        drop_session(idle);
    return idle != NULL;
}

static void reserve_memory(size_t bytes, const struct session *kept)
{
    remembered += bytes;
    while (remembered > REMEMBERED_BYTES && drop_oldest(kept))
        ;
}

bool cshim_session_add(uint64_t nonce, struct cshim_kept_offer *offer)
{
    struct session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return false;
    session->nonce = nonce;
    session->offer = offer;
    session->next = sessions;
    sessions = session;
    reserve_memory(sizeof *session, session);
    return true;
}

/* Returns the session of a nonce, or NULL if it was forgotten or never existed. */
static struct session *find_session(uint64_t nonce)
{
    struct session *session = sessions;
    while (session != NULL && session->nonce != nonce)
        session = session->next;
    return session;
}

/* Returns the session of a request, or NULL. The first request of a communicator that has grown
 * from another adds its session, with the offer of the other one. */
static struct session *find_or_grow(const struct cshim_request *request)
{
    struct session *session = find_session(request->nonce);
    const struct session *parent =
        session == NULL && request->parent != 0 ? find_session(request->parent) : NULL;
    if (parent != NULL && cshim_session_add(request->nonce, parent->offer))
        session = find_session(request->nonce);
    return session;
}

/* Returns true for a HELLO of a rank that is ready already, in a communicator that has grown from
 * another. The sender is another process, which joins by the id of an earlier communicator that has
 * grown from the same parent. */
static bool is_of_another(const struct session *session, const struct cshim_request *request)
{
    return request->parent != 0 && request->kind == CSHIM_REQUEST_HELLO &&
           request->hello.rank < session->ranks &&
           session->entries[request->hello.rank].stage >= READY;
}

/* Counts that a rank has reached a stage and those before it, if it had not. */
static void reach(struct session *session, struct rank_entry *entry, enum stage stage)
{
    while (entry->stage < stage)
        session->reached[++entry->stage]++;
}

/* Decides not to compress. The lowest rank that waits for the decision will log the reason; if none
 * waits yet, the lowest that has sent HELLO. */
static void decide_off(struct session *session)
{
    session->decided = true;
    session->reply.speaker = session->ranks;
    for (uint32_t rank = session->ranks; rank-- > 0;)
        if (session->entries[rank].stage >= (session->reached[READY] > 0 ? READY : HELLO))
            session->reply.speaker = rank;
}

/* Records the hello of a request. The first rank determines the number of ranks; if another rank
 * has a different number, the decision is "off", unless there is one already. Returns NULL in that
 * case, if the hello is invalid, and without memory. */
static struct rank_entry *record_hello(struct session *session, const struct cshim_request *request)
{
    const struct cshim_hello *hello = &request->hello;
    if (hello->ranks == 0 || hello->ranks > RANKS_MAX || hello->rank >= hello->ranks)
        return NULL;
    if (session->ranks == 0) {
        session->entries = calloc(hello->ranks, sizeof *session->entries);
        if (session->entries == NULL)
            return NULL;
        session->ranks = hello->ranks;
        reserve_memory(hello->ranks * sizeof *session->entries, session);
    }
    if (hello->ranks != session->ranks) {
        if (session->decided)
            return NULL;
        snprintf(session->reply.text, sizeof session->reply.text,
                 "rank %u on %.*s is of %u ranks, others are of %u", hello->rank,
                 CSHIM_MACHINE_MAX - 1, request->machine, hello->ranks, session->ranks);
        decide_off(session);
        return NULL;
    }
    struct rank_entry *entry = &session->entries[hello->rank];
    reach(session, entry, HELLO);
    entry->hello = *hello;
    memcpy(entry->machine, request->machine, sizeof entry->machine - 1);
    return entry;
}

bool cshim_session_hear(const struct cshim_request *request, uint64_t connection, double now)
{
    struct session *session = find_or_grow(request);
    if (session == NULL || is_of_another(session, request))
        return false;
    struct rank_entry *entry = record_hello(session, request);
    if (entry == NULL)
        return session->decided && !session->reply.on;
    entry->waits = request->kind == CSHIM_REQUEST_WAIT;
    if (entry->waits)
        reach(session, entry, CAME);
    else if (request->kind == CSHIM_REQUEST_READY)
        reach(session, entry, READY);
    if (session->reached[READY] > 0 && session->deadline <= 0)
        session->deadline = now + CSHIM_READY_SECONDS;
    if (entry->connection < connection)
        entry->connection = connection;
    entry->broken = 0;
    session->heard = true;
    if (request->why[0] != '\0' && entry->failure == NULL)
        entry->failure = strndup(request->why, sizeof request->why - 1);
    session->trouble = session->trouble || entry->failure != NULL;
    return true;
}

void cshim_session_break(const struct cshim_request *request, uint64_t connection, double now)
{
    struct session *session = find_session(request->nonce);
    const uint32_t rank = request->hello.rank;
    if (session == NULL || rank >= session->ranks || !session->entries[rank].waits ||
        session->entries[rank].connection != connection)
        return;
    session->entries[rank].broken = now;
    session->trouble = true;
}

/* Possible faults of a rank. `lacks` is the stage that a rank with the fault has not reached; NONE:
 * the fault has another cause. The first three make the decision "off" as soon as a rank waits for
 * it, NOT_READY at the deadline. NOT_COME is for replies to WAIT. */
enum fault { MISSING, OTHER_VERSION, UNABLE, NOT_READY, NOT_COME };
static const struct {
    enum stage lacks;
    const char *text;
} faults[] = {
    [MISSING] = {HELLO, "without compshim: is LD_PRELOAD set on every host?"},
    [OTHER_VERSION] = {NONE, "with another version of compshim"},
    [UNABLE] = {NONE, "cannot compress: "},
    [NOT_READY] = {READY, "did not come out of ncclCommInitRank with the others: has the process "
                          "ended, or been stopped?"},
    [NOT_COME] = {CAME, "not there yet"},
};

static bool has_fault(const struct rank_entry *entry, enum fault fault, uint64_t version)
{
    if (fault == OTHER_VERSION)
        return entry->hello.version != version;
    return fault == UNABLE ? entry->failure != NULL : entry->stage < faults[fault].lacks;
}

/* Writes the first few ranks that have a fault, and the fault: "rank 1 on node7, 3 on node9 not
 * there yet". The version of the lowest rank that is here counts as the right one. Returns false if
 * no rank has the fault. */
static bool name_ranks(const struct session *session, enum fault fault,
                       char why[CSHIM_RENDEZVOUS_WHY_MAX])
{
    const size_t size = CSHIM_RENDEZVOUS_WHY_MAX;
    const struct rank_entry *first = session->entries;
    const char *failure = "";
    unsigned count = 0;
    why[0] = '\0';
    while (first->stage == NONE)
        first++;
    for (uint32_t rank = 0; rank < session->ranks; rank++) {
        const struct rank_entry *entry = &session->entries[rank];
        if (!has_fault(entry, fault, first->hello.version))
            continue;
        if (fault == UNABLE && count == 0)
            failure = entry->failure;
        if (count++ < RANKS_NAMED)
            cshim_list_add(why, size, ", ", "%s%u%s%.32s", count == 1 ? "rank " : "", rank,
                           entry->stage != NONE ? " on " : "", entry->machine);
    }
    if (count > RANKS_NAMED)
        cshim_list_add(why, size, ", ", "... (%u)", count);
    if (count > 0)
        cshim_list_add(why, size, " ", "%s%s", faults[fault].text, failure);
    return count > 0;
}

static void decide_on(struct session *session)
{
    struct cshim_reply *reply = &session->reply;
    memset(reply, 0, sizeof *reply);
    reply->on = 1;
    reply->offer_bytes = session->offer->bytes;
    for (uint32_t rank = 0; rank < session->ranks; rank++) {
        const struct rank_entry *before = session->entries;
        while (before->hello.host != session->entries[rank].hello.host)
            before++;
        reply->nodes += before == &session->entries[rank];
    }
    session->decided = true;
}

/* Makes the decision, once a rank waits for it and a request has arrived or the deadline has
 * passed: "off" if a rank is missing, unable or of another version, or not ready at the deadline;
 * "on" if all are ready. Otherwise leaves it open. */
static void decide_session(struct session *session, double now)
{
    const bool late = session->deadline > 0 && now >= session->deadline;
    if (session->decided || session->reached[READY] == 0 || (!session->heard && !late))
        return;
    session->heard = false;
    enum fault fault = MISSING;
    while (fault <= UNABLE && !name_ranks(session, fault, session->reply.text))
        fault++;
    if (fault > UNABLE && session->reached[READY] == session->ranks)
        decide_on(session);
    else if (fault <= UNABLE || (late && name_ranks(session, NOT_READY, session->reply.text)))
        decide_off(session);
}

/* Returns the first rank that has failed or is lost, or NULL. A lost rank stays lost even if it
 * reconnects: other ranks may know that it is lost, and will not wait for it. */
static const struct rank_entry *first_lost(struct session *session, double now)
{
    for (uint32_t rank = 0; rank < session->ranks && session->trouble; rank++) {
        struct rank_entry *entry = &session->entries[rank];
        entry->lost = entry->lost || (entry->broken > 0 && now - entry->broken > BACK_SECONDS);
        if (entry->failure != NULL || entry->lost)
            return entry;
    }
    return NULL;
}

/* Makes the reply to WAIT when it is due: when all ranks have come to the first compressed call,
 * one is lost, or about a second has passed since `since` (2 ms more for each rank, because the
 * server's thread needs time for its requests). Returns 0, or the time at which to call this
 * again. */
static double find_absent(struct session *session, double since, double now,
                          struct cshim_reply *reply)
{
    const double due = since + 1.0 + 0.002 * session->ranks;
    const struct rank_entry *lost = first_lost(session, now);
    if (lost != NULL) {
        reply->absence = CSHIM_RANK_LOST;
        snprintf(reply->text, CSHIM_RENDEZVOUS_WHY_MAX, "rank %u on %s: %s",
                 (unsigned)(lost - session->entries), lost->machine,
                 lost->failure != NULL ? lost->failure : "its process has ended");
    } else if (session->reached[CAME] == session->ranks) {
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
                            struct cshim_reply *reply, struct cshim_kept_offer **offer)
{
    struct session *session = find_session(request->nonce);
    if (session == NULL)
        return -1;
    memset(reply, 0, sizeof *reply);
    *offer = NULL;
    if (request->kind == CSHIM_REQUEST_WAIT)
        return find_absent(session, since, now, reply);
    if (request->kind == CSHIM_REQUEST_READY) {
        decide_session(session, now);
        if (!session->decided)
            return session->deadline;
        *reply = session->reply;
        *offer = reply->on ? session->offer : NULL;
    }
    return 0;
}
