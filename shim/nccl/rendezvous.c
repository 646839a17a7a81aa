/* SPDX-License-Identifier: Apache-2.0 */
/* The member's side, and the address in the id. */
#include "shim/nccl/rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/nccl/rendezvous_wire.h"

/* Hello: nobody waits longer for a connection and its answer. Ready: the server answers sooner,
 * unless its process is gone or stopped; each connection is given up before the next is tried. */
#define HELLO_SECONDS 10.0
#define READY_SECONDS 60.0
#define ATTEMPT_SECONDS (CSHIM_READY_SECONDS + 5.0)
/* In the first call: beyond what the server waits itself. */
#define COME_SECONDS 3.0
#define PAUSE_SECONDS 0.2

struct cshim_member {
    struct cshim_tag tag;
    struct cshim_request request;
    int socket;        /* or -1 */
    bool may_be_heard; /* some of "ready" has been sent: the decision may count on this rank */
    bool asked;        /* who is absent: the answer is on its way */
};

static void explain(char *why, const char *what)
{
    snprintf(why, CSHIM_RENDEZVOUS_WHY_MAX, "%s: %s", what, strerror(errno));
}

/* The place for an address at the end of the id: nothing else may be there. */
static struct cshim_tag *find_tag(uint8_t id[CSHIM_ID_BYTES], bool want_empty)
{
    struct cshim_tag *tag = (struct cshim_tag *)&id[CSHIM_ID_BYTES - sizeof(struct cshim_tag)];
    static const struct cshim_tag empty;
    if (want_empty)
        return memcmp(tag, &empty, sizeof empty) == 0 ? tag : NULL;
    return tag->magic == CSHIM_TAG_MAGIC ? tag : NULL;
}

/* The address at which NCCL itself waits for the ranks: it lies in the id as a sockaddr, behind
 * eight bytes of magic in all but the oldest versions. Any other that is up will do instead. */
static bool choose_address(const uint8_t id[CSHIM_ID_BYTES], struct cshim_tag *tag)
{
    static const size_t places[] = {8, 0};
    union cshim_address address = {0};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        memcpy(&address, id + places[i], sizeof address.six);
        const bool four = address.any.sa_family == AF_INET && address.four.sin_port != 0 &&
                          address.four.sin_addr.s_addr != htonl(INADDR_ANY);
        const bool six = address.any.sa_family == AF_INET6 && address.six.sin6_port != 0 &&
                         !IN6_IS_ADDR_UNSPECIFIED(&address.six.sin6_addr);
        if (four || six) {
            cshim_tag_set_address(tag, &address);
            return true;
        }
    }
    struct ifaddrs *interfaces;
    bool found = false;
    if (getifaddrs(&interfaces) != 0)
        return false;
    for (struct ifaddrs *one = interfaces; one != NULL && !found; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET ||
            (one->ifa_flags & (IFF_UP | IFF_LOOPBACK)) != IFF_UP)
            continue;
        memcpy(&address.four, one->ifa_addr, sizeof address.four);
        cshim_tag_set_address(tag, &address);
        found = true;
    }
    freeifaddrs(interfaces);
    return found;
}

bool cshim_rendezvous_serve(uint8_t id[CSHIM_ID_BYTES], const struct cshim_offer *offer,
                            char why[CSHIM_RENDEZVOUS_WHY_MAX])
{
    struct cshim_tag *place = find_tag(id, true);
    struct cshim_tag tag = {.magic = CSHIM_TAG_MAGIC};
    if (place == NULL) {
        snprintf(why, CSHIM_RENDEZVOUS_WHY_MAX, "this NCCL's unique id has no room left");
        return false;
    }
    if (getenv("NCCL_COMM_ID") != NULL) {
        snprintf(why, CSHIM_RENDEZVOUS_WHY_MAX,
                 "with NCCL_COMM_ID every rank makes the id for itself");
        return false;
    }
    if (!choose_address(id, &tag) ||
        getrandom(&tag.nonce, sizeof tag.nonce, 0) != sizeof tag.nonce) {
        explain(why, "no address to meet at");
        return false;
    }
    if (!cshim_rendezvous_start_server(&tag, offer)) {
        explain(why, "cannot wait for the other ranks");
        return false;
    }
    memcpy(place, &tag, sizeof tag);
    return true;
}

/* Waits until the socket can be read or written. */
static bool wait_for(int connection, short events, double deadline)
{
    struct pollfd polled = {.fd = connection, .events = events};
    for (;;) {
        const double left = deadline - cshim_seconds();
        const int ready = left > 0 ? poll(&polled, 1, (int)(left * 1000) + 1) : 0;
        if (ready > 0)
            return true;
        if (ready == 0)
            errno = ETIMEDOUT;
        if (ready == 0 || errno != EINTR)
            return false;
    }
}

static void hang_up(struct cshim_member *member)
{
    const int saved = errno;
    if (member->socket >= 0)
        close(member->socket);
    member->socket = -1;
    errno = saved;
}

static bool connect_until(struct cshim_member *member, double deadline)
{
    union cshim_address address;
    const socklen_t size = cshim_tag_get_address(&member->tag, &address);
    const int one = 1;
    int error = 0;
    socklen_t error_size = sizeof error;
    hang_up(member);
    member->socket = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (member->socket < 0)
        return false;
    setsockopt(member->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(member->socket, &address.any, size) == 0)
        return true;
    if ((errno == EINPROGRESS || errno == EINTR) && wait_for(member->socket, POLLOUT, deadline)) {
        getsockopt(member->socket, SOL_SOCKET, SO_ERROR, &error, &error_size);
        errno = error;
        if (error == 0)
            return true;
    }
    hang_up(member);
    return false;
}

/* Sends the member's request as one of this kind; on its connection, if it has one. */
static bool send_until(struct cshim_member *member, enum cshim_request_kind kind, double deadline)
{
    member->request.kind = kind;
    if (member->socket < 0 && !connect_until(member, deadline))
        return false;
    for (size_t done = 0; done < sizeof member->request;) {
        const ssize_t sent = send(member->socket, (const char *)&member->request + done,
                                  sizeof member->request - done, MSG_NOSIGNAL);
        if (sent > 0) {
            done += (size_t)sent;
            member->may_be_heard = member->may_be_heard || kind == CSHIM_REQUEST_READY;
            continue;
        }
        if ((errno != EAGAIN && errno != EINTR) || !wait_for(member->socket, POLLOUT, deadline)) {
            hang_up(member);
            return false;
        }
    }
    return true;
}

static bool receive(struct cshim_member *member, void *data, size_t bytes, double deadline)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = recv(member->socket, (char *)data + done, bytes - done, 0);
        if (got > 0) {
            done += (size_t)got;
            continue;
        }
        if (got == 0)
            errno = ECONNRESET;
        if (got == 0 || (errno != EAGAIN && errno != EINTR) ||
            !wait_for(member->socket, POLLIN, deadline)) {
            hang_up(member);
            return false;
        }
    }
    return true;
}

static void pause_until(double deadline)
{
    const double left = deadline - cshim_seconds();
    const double seconds = left < PAUSE_SECONDS ? left : PAUSE_SECONDS;
    const struct timespec pause = {.tv_nsec = (long)(1e9 * seconds)};
    if (left > 0)
        nanosleep(&pause, NULL);
}

/* Tries again where a connection breaks: the server may have had no room for it. */
static bool say_hello(struct cshim_member *member)
{
    const double deadline = cshim_seconds() + HELLO_SECONDS;
    struct cshim_reply reply;
    for (;;) {
        if (send_until(member, CSHIM_REQUEST_HELLO, deadline) &&
            receive(member, &reply, sizeof reply, deadline))
            break;
        const int saved = errno;
        pause_until(deadline);
        errno = saved;
        if (saved == ECONNREFUSED || cshim_seconds() >= deadline)
            return false;
    }
    hang_up(member);
    return true;
}

struct cshim_member *cshim_rendezvous_join(const uint8_t id[CSHIM_ID_BYTES],
                                           const struct cshim_hello *hello,
                                           char why[CSHIM_RENDEZVOUS_WHY_MAX])
{
    uint8_t copy[CSHIM_ID_BYTES];
    memcpy(copy, id, sizeof copy);
    const struct cshim_tag *tag = find_tag(copy, false);
    if (tag == NULL) {
        snprintf(why, CSHIM_RENDEZVOUS_WHY_MAX,
                 "the process that made the unique id does not have compshim");
        return NULL;
    }
    struct cshim_member *member = calloc(1, sizeof *member);
    if (member == NULL) {
        snprintf(why, CSHIM_RENDEZVOUS_WHY_MAX, "no memory");
        return NULL;
    }
    member->tag = *tag;
    member->socket = -1;
    member->request.magic = CSHIM_REQUEST_MAGIC;
    member->request.nonce = tag->nonce;
    member->request.hello = *hello;
    gethostname(member->request.machine, sizeof member->request.machine - 1);
    if (say_hello(member))
        return member;
    explain(why, "cannot reach the process that made the unique id");
    cshim_rendezvous_leave(member);
    return NULL;
}

void cshim_rendezvous_ready(struct cshim_member *member, const char *unable)
{
    if (unable != NULL)
        snprintf(member->request.why, sizeof member->request.why, "%s", unable);
    send_until(member, CSHIM_REQUEST_READY, cshim_seconds() + ATTEMPT_SECONDS);
}

/* The answer to "ready", on whatever connection it comes. */
static bool hear_decision(struct cshim_member *member, struct cshim_reply *reply, char **text)
{
    const double deadline = cshim_seconds() + READY_SECONDS;
    for (;;) {
        const double attempt = cshim_seconds() + ATTEMPT_SECONDS;
        const double limit = attempt < deadline ? attempt : deadline;
        *text = NULL;
        if ((member->socket >= 0 || send_until(member, CSHIM_REQUEST_READY, limit)) &&
            receive(member, reply, sizeof *reply, limit)) {
            if (!reply->on)
                return true;
            *text = reply->length < CSHIM_WIRE_POLICY_MAX ? malloc(reply->length + 1) : NULL;
            if (*text != NULL && receive(member, *text, reply->length, limit))
                return true;
            free(*text);
        }
        const int saved = errno;
        pause_until(deadline);
        errno = saved;
        /* Refused: the process is gone, and comes no more. */
        if (saved == ECONNREFUSED || cshim_seconds() >= deadline)
            return false;
    }
}

struct cshim_decision cshim_rendezvous_decide(struct cshim_member *member)
{
    struct cshim_decision decision = {0};
    struct cshim_reply reply;
    if (!hear_decision(member, &reply, &decision.text)) {
        explain(decision.why, "no answer from the process that made the unique id");
        decision.text = NULL;
        decision.known = !member->may_be_heard; /* without this rank it cannot be "on" */
        decision.speaker = member->request.hello.rank;
        hang_up(member);
        return decision;
    }
    hang_up(member);
    reply.text[sizeof reply.text - 1] = '\0';
    decision.known = true;
    decision.on = reply.on != 0;
    if (decision.on) {
        memcpy(decision.source, reply.text, sizeof decision.source);
        decision.observe = reply.observe != 0;
        decision.nodes = reply.nodes;
        decision.length = reply.length;
        decision.text[reply.length] = '\0';
    } else {
        decision.speaker = reply.speaker;
        memcpy(decision.why, reply.text, sizeof decision.why);
        decision.why[sizeof decision.why - 1] = '\0';
    }
    return decision;
}

void cshim_rendezvous_come(struct cshim_member *member)
{
    member->request.why[0] = '\0';
    member->asked = send_until(member, CSHIM_REQUEST_WAIT, cshim_seconds() + COME_SECONDS);
}

enum cshim_absence cshim_rendezvous_wait(struct cshim_member *member,
                                         char why[CSHIM_RENDEZVOUS_WHY_MAX])
{
    const double patience = COME_SECONDS + 0.01 * member->request.hello.ranks;
    struct cshim_reply reply;
    why[0] = '\0';
    if (!member->asked)
        cshim_rendezvous_come(member);
    if (!member->asked || !receive(member, &reply, sizeof reply, cshim_seconds() + patience)) {
        member->asked = false;
        return CSHIM_NO_ANSWER;
    }
    member->asked = false;
    memcpy(why, reply.text, CSHIM_RENDEZVOUS_WHY_MAX);
    why[CSHIM_RENDEZVOUS_WHY_MAX - 1] = '\0';
    return (enum cshim_absence)reply.absence;
}

void cshim_rendezvous_done(struct cshim_member *member, const char *failure)
{
    if (failure != NULL)
        snprintf(member->request.why, sizeof member->request.why, "%s", failure);
    send_until(member, CSHIM_REQUEST_DONE, cshim_seconds() + COME_SECONDS);
    hang_up(member);
}

void cshim_rendezvous_leave(struct cshim_member *member)
{
    if (member == NULL)
        return;
    hang_up(member);
    free(member);
}
