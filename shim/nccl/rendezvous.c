/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "codecs/scalar.h"
#include "shim/core/clock.h"
#include "shim/nccl/rendezvous_wire.h"

/* Time limit of HELLO, all attempts together. */
#define HELLO_SECONDS 10.0
/* Time limits of READY: all attempts together, and each attempt. The server decides sooner, unless
 * its process has ended or is stopped. */
#define READY_SECONDS 60.0
#define ATTEMPT_SECONDS (CSHIM_READY_SECONDS + 5.0)
/* Time limit of each request in the first compressed call (WAIT: a little more for each rank).
 * Longer than the server's delay before it answers. */
#define COME_SECONDS 3.0
/* Pause between attempts. */
#define PAUSE_SECONDS 0.2
/* Interval at which a waiting rank checks whether it was stopped. */
#define LOOK_SECONDS 0.05

/* Offset of the tag in an id. */
#define TAG_OFFSET (CSHIM_ID_BYTES - sizeof(struct cshim_tag))

struct cshim_member {
    struct cshim_tag tag;
    struct cshim_request request;
    struct cshim_tag own; /* address of this process; family 0: unknown */
    int socket;           /* -1: no connection */
    bool is_asked;        /* the latest request was sent, and its reply is still to be received */
    bool may_be_heard;    /* bytes of READY were sent, so the decision may count on this rank */
    bool is_stopped;      /* cshim_rendezvous_stop() was called; atomic */
};

static void explain_errno(char *why, const char *what)
{
    snprintf(why, CSHIM_RENDEZVOUS_WHY_MAX, "%s: %s", what, strerror(errno));
}

static void set_address(struct cshim_tag *tag, const union cshim_address *address)
{
    tag->family = address->any.sa_family;
    if (tag->family == AF_INET)
        memcpy(tag->address, &address->four.sin_addr, sizeof address->four.sin_addr);
    else
        memcpy(tag->address, &address->six.sin6_addr, sizeof address->six.sin6_addr);
}

/* Sets the tag's address, without the port, to that of NCCL's own bootstrap, which all ranks can
 * reach. The id has it as a sockaddr, after eight bytes of magic in all but the oldest versions.
 * Returns false if there is none. */
static bool find_nccls_address(const uint8_t id[CSHIM_ID_BYTES], struct cshim_tag *tag)
{
    static const size_t offsets[] = {8, 0};
    union cshim_address address = {0};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        memcpy(&address, id + offsets[i], sizeof address.six);
        const bool four = address.any.sa_family == AF_INET && address.four.sin_port != 0 &&
                          address.four.sin_addr.s_addr != htonl(INADDR_ANY);
        const bool six = address.any.sa_family == AF_INET6 && address.six.sin6_port != 0 &&
                         !IN6_IS_ADDR_UNSPECIFIED(&address.six.sin6_addr);
        if (!four && !six)
            continue;
        set_address(tag, &address);
        return true;
    }
    return false;
}

/* Sets the tag's address to the IPv4 address of any interface that is up, except loopback. Returns
 * false and sets errno if there is none. */
static bool find_any_address(struct cshim_tag *tag)
{
    struct ifaddrs *interfaces;
    if (getifaddrs(&interfaces) != 0)
        return false;
    const struct ifaddrs *one = interfaces;
    while (one != NULL && (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET ||
                           (one->ifa_flags & (IFF_UP | IFF_LOOPBACK)) != IFF_UP))
        one = one->ifa_next;
    if (one != NULL)
        set_address(tag, (const union cshim_address *)one->ifa_addr);
    freeifaddrs(interfaces);
    errno = one != NULL ? 0 : EADDRNOTAVAIL;
    return one != NULL;
}

bool cshim_rendezvous_serve(uint8_t id[CSHIM_ID_BYTES], const struct cshim_offer *offer,
                            char why[CSHIM_RENDEZVOUS_WHY_MAX])
{
    static const struct cshim_tag empty;
    struct cshim_tag tag = {.magic = CSHIM_TAG_MAGIC};
    if (memcmp(id + TAG_OFFSET, &empty, sizeof empty) != 0) {
        snprintf(why, CSHIM_RENDEZVOUS_WHY_MAX, "this NCCL's unique id has no room left");
        return false;
    }
    if (getenv("NCCL_COMM_ID") != NULL) {
        snprintf(why, CSHIM_RENDEZVOUS_WHY_MAX,
                 "with NCCL_COMM_ID every rank makes the id for itself");
        return false;
    }
    if ((!find_nccls_address(id, &tag) && !find_any_address(&tag)) ||
        getrandom(&tag.nonce, sizeof tag.nonce, 0) != sizeof tag.nonce) {
        explain_errno(why, "no address to meet at");
        return false;
    }
    if (!cshim_rendezvous_start_server(&tag, offer)) {
        explain_errno(why, "cannot wait for the other ranks");
        return false;
    }
    memcpy(id + TAG_OFFSET, &tag, sizeof tag);
    return true;
}

bool cshim_rendezvous_grow(const struct cshim_member *member, uint64_t number,
                           uint8_t id[CSHIM_ID_BYTES])
{
    static const struct cshim_tag empty;
    struct cshim_tag tag = member->tag;
    if (memcmp(id + TAG_OFFSET, &empty, sizeof empty) != 0)
        return false;
    tag.parent = tag.nonce;
    tag.nonce = cshim_mix(tag.parent + (number + 1) * CSHIM_GOLDEN);
    memcpy(id + TAG_OFFSET, &tag, sizeof tag);
    return true;
}

/* Returns true if the member has sent nothing later than READY; only then may it be stopped. */
static bool may_stop(const struct cshim_member *member)
{
    return member->request.kind <= CSHIM_REQUEST_READY;
}

/* Returns true if the member waits for a decision that cshim_rendezvous_stop() has made useless. */
static bool is_stopped(const struct cshim_member *member)
{
    return may_stop(member) && __atomic_load_n(&member->is_stopped, __ATOMIC_RELAXED);
}

/* Waits until the member's socket can be read or written. Returns false and sets errno on an error,
 * after the deadline (ETIMEDOUT), or if the member is stopped (ECANCELED). */
static bool wait_for(const struct cshim_member *member, short events, double deadline)
{
    struct pollfd polled = {.fd = member->socket, .events = events};
    int ready = 0;
    while (ready <= 0) {
        const double left = deadline - cshim_seconds();
        const double pause = may_stop(member) && left > LOOK_SECONDS ? LOOK_SECONDS : left;
        errno = is_stopped(member) ? ECANCELED : ETIMEDOUT;
        if (left <= 0 || errno == ECANCELED)
            return false;
        ready = poll(&polled, 1, (int)(1000 * pause) + 1);
        if (ready < 0 && errno != EINTR)
            return false;
    }
    return true;
}

/* Sets member->own to the address of this end of the connection. */
static void note_own_address(struct cshim_member *member)
{
    union cshim_address address = {0};
    socklen_t size = sizeof address;
    if (getsockname(member->socket, &address.any, &size) == 0)
        set_address(&member->own, &address);
}

void cshim_rendezvous_find_own_address(const struct cshim_member *member, struct cshim_tag *tag)
{
    *tag = member->own;
}

static void close_member(struct cshim_member *member)
{
    const int saved = errno;
    if (member->socket >= 0)
        close(member->socket);
    member->socket = -1;
    member->is_asked = false;
    errno = saved;
}

static bool connect_until(struct cshim_member *member, double deadline)
{
    int error = 0;
    socklen_t size = sizeof error;
    close_member(member);
    member->socket = cshim_tag_connect(&member->tag);
    if (member->socket < 0)
        return false;
    if ((errno == EINPROGRESS || errno == EINTR) && wait_for(member, POLLOUT, deadline)) {
        getsockopt(member->socket, SOL_SOCKET, SO_ERROR, &error, &size);
        errno = error;
    }
    if (errno == 0)
        note_own_address(member);
    else
        close_member(member);
    return member->socket >= 0;
}

/* Sends or receives all bytes on the member's connection. On an error or after the deadline closes
 * the connection, sets errno and returns false. */
static bool transfer(struct cshim_member *member, bool sends, void *data, size_t bytes,
                     double deadline)
{
    enum cshim_moved moved;
    size_t done = 0;
    while ((moved = cshim_move(member->socket, sends, data, bytes, &done)) == CSHIM_MOVED_SOME &&
           wait_for(member, sends ? POLLOUT : POLLIN, deadline))
        ;
    if (sends && done > 0 && member->request.kind == CSHIM_REQUEST_READY)
        member->may_be_heard = true;
    if (moved != CSHIM_MOVED_ALL)
        close_member(member);
    return moved == CSHIM_MOVED_ALL;
}

/* Sends the member's request as type `kind`, on its connection or a new one. */
static bool send_until(struct cshim_member *member, enum cshim_request_kind kind, double deadline)
{
    member->request.kind = kind;
    member->is_asked = (member->socket >= 0 || connect_until(member, deadline)) &&
                       transfer(member, true, &member->request, sizeof member->request, deadline);
    return member->is_asked;
}

/* Receives the offer that follows a reply; the caller frees it. Returns false and sets errno if it
 * does not come or is too long, or cannot be unpacked, or there is no memory. */
static bool receive_offer(struct cshim_member *member, uint64_t bytes, double deadline,
                          struct cshim_offer *offer)
{
    errno = EMSGSIZE;
    void *packed = bytes <= CSHIM_OFFER_PACKED_MAX ? malloc(bytes) : NULL;
    const bool has_come = packed != NULL && transfer(member, false, packed, bytes, deadline);
    const bool is_right = has_come && cshim_offer_unpack(offer, packed, bytes);
    free(packed);
    if (has_come && !is_right)
        errno = EBADMSG;
    return is_right;
}

/* Sends a request, unless it was sent already, and receives its reply. If the reply is "on" and
 * `offer` is not NULL, also receives the offer that follows; the caller frees it. Returns false on
 * an error. */
static bool request_reply(struct cshim_member *member, enum cshim_request_kind kind,
                          double deadline, struct cshim_reply *reply, struct cshim_offer *offer)
{
    if ((!member->is_asked && !send_until(member, kind, deadline)) ||
        !transfer(member, false, reply, sizeof *reply, deadline))
        return false;
    member->is_asked = false;
    reply->text[sizeof reply->text - 1] = '\0';
    if (!reply->on || offer == NULL)
        return true;
    if (receive_offer(member, reply->offer_bytes, deadline, offer))
        return true;
    close_member(member); /* the rest of the reply is unread */
    return false;
}

/* Like request_reply, but repeats the request after errors for up to `seconds`, because the server
 * may have had no room for the connection. Gives up if the connection is refused, because the
 * server's process has ended, and if the member is stopped. Closes the connection after success. */
static bool request_with_retries(struct cshim_member *member, enum cshim_request_kind kind,
                                 double seconds, struct cshim_reply *reply,
                                 struct cshim_offer *offer)
{
    const double deadline = cshim_seconds() + seconds;
    for (;;) {
        const double attempt = cshim_seconds() + ATTEMPT_SECONDS;
        if (request_reply(member, kind, attempt < deadline ? attempt : deadline, reply, offer))
            break;
        if (errno == ECONNREFUSED || is_stopped(member) ||
            cshim_seconds() + PAUSE_SECONDS > deadline)
            return false;
        poll(NULL, 0, (int)(1000 * PAUSE_SECONDS));
    }
    close_member(member);
    return true;
}

struct cshim_member *cshim_rendezvous_join(const uint8_t id[CSHIM_ID_BYTES],
                                           const struct cshim_hello *hello,
                                           char why[CSHIM_RENDEZVOUS_WHY_MAX])
{
    struct cshim_reply reply;
    struct cshim_tag tag;
    memcpy(&tag, id + TAG_OFFSET, sizeof tag);
    if (tag.magic != CSHIM_TAG_MAGIC) {
        snprintf(why, CSHIM_RENDEZVOUS_WHY_MAX,
                 "the process that made the unique id does not have compshim, or does not "
                 "compress the communicator that grows");
        return NULL;
    }
    struct cshim_member *member = calloc(1, sizeof *member);
    if (member == NULL) {
        snprintf(why, CSHIM_RENDEZVOUS_WHY_MAX, "no memory");
        return NULL;
    }
    member->tag = tag;
    member->socket = -1;
    member->request = (struct cshim_request){
        .magic = CSHIM_REQUEST_MAGIC, .nonce = tag.nonce, .parent = tag.parent, .hello = *hello};
    gethostname(member->request.machine, sizeof member->request.machine - 1);
    if (request_with_retries(member, CSHIM_REQUEST_HELLO, HELLO_SECONDS, &reply, NULL))
        return member;
    explain_errno(why, "cannot reach the process that made the unique id");
    cshim_rendezvous_leave(member);
    return NULL;
}

void cshim_rendezvous_ready(struct cshim_member *member, const char *unable)
{
    if (unable != NULL)
        snprintf(member->request.why, sizeof member->request.why, "%s", unable);
    send_until(member, CSHIM_REQUEST_READY, cshim_seconds() + ATTEMPT_SECONDS);
}

struct cshim_decision cshim_rendezvous_decide(struct cshim_member *member)
{
    struct cshim_decision decision = {.known = true, .speaker = member->request.hello.rank};
    struct cshim_reply reply;
    if (!request_with_retries(member, CSHIM_REQUEST_READY, READY_SECONDS, &reply,
                              &decision.offer)) {
        explain_errno(decision.why, "no answer from the process that made the unique id");
        decision.known = !member->may_be_heard; /* not "on", because this rank has sent no READY */
        close_member(member);
        return decision;
    }
    decision.on = reply.on != 0;
    if (decision.on) {
        decision.nodes = reply.nodes;
    } else {
        decision.speaker = reply.speaker;
        snprintf(decision.why, sizeof decision.why, "%.*s", (int)sizeof decision.why - 1,
                 reply.text);
    }
    return decision;
}

void cshim_rendezvous_stop(struct cshim_member *member)
{
    __atomic_store_n(&member->is_stopped, true, __ATOMIC_RELAXED);
}

void cshim_rendezvous_come(struct cshim_member *member)
{
    member->request.why[0] = '\0';
    send_until(member, CSHIM_REQUEST_WAIT, cshim_seconds() + COME_SECONDS);
}

enum cshim_absence cshim_rendezvous_wait(struct cshim_member *member,
                                         char why[CSHIM_RENDEZVOUS_WHY_MAX])
{
    const double patience = COME_SECONDS + 0.01 * member->request.hello.ranks;
    struct cshim_reply reply;
    member->request.why[0] = why[0] = '\0';
    /* The second try reconnects before the server considers this rank lost. */
    for (unsigned tries = 1;
         !request_reply(member, CSHIM_REQUEST_WAIT, cshim_seconds() + patience, &reply, NULL);
         tries++)
        if (tries == 2)
            return CSHIM_NO_ANSWER;
    snprintf(why, CSHIM_RENDEZVOUS_WHY_MAX, "%.*s", CSHIM_RENDEZVOUS_WHY_MAX - 1, reply.text);
    return (enum cshim_absence)reply.absence;
}

void cshim_rendezvous_done(struct cshim_member *member, const char *failure)
{
    if (failure != NULL)
        snprintf(member->request.why, sizeof member->request.why, "%s", failure);
    /* The server closes a connection that sends before the reply to its WAIT. */
    if (member->is_asked)
        close_member(member);
    send_until(member, CSHIM_REQUEST_DONE, cshim_seconds() + COME_SECONDS);
    close_member(member);
}

void cshim_rendezvous_leave(struct cshim_member *member)
{
    if (member == NULL)
        return;
    close_member(member);
    free(member);
}
