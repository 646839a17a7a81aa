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
#include <unistd.h>

#include "shim/nccl/rendezvous_wire.h"

/* Nobody waits longer than this for a connection, and for an answer: the server always answers
 * sooner, unless its process is gone. */
#define CONNECT_MILLISECONDS 10000
#define ANSWER_MILLISECONDS 60000

struct cshim_member {
    int socket;
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
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        union cshim_address address = {0};
        memcpy(&address, id + places[i], sizeof address.six);
        if (address.any.sa_family == AF_INET && address.four.sin_port != 0 &&
            address.four.sin_addr.s_addr != htonl(INADDR_ANY))
            return cshim_tag_set_address(tag, &address);
        if (address.any.sa_family == AF_INET6 && address.six.sin6_port != 0 &&
            !IN6_IS_ADDR_UNSPECIFIED(&address.six.sin6_addr))
            return cshim_tag_set_address(tag, &address);
    }
    struct ifaddrs *interfaces;
    bool found = false;
    if (getifaddrs(&interfaces) != 0)
        return false;
    for (struct ifaddrs *one = interfaces; one != NULL && !found; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET ||
            (one->ifa_flags & (IFF_UP | IFF_LOOPBACK)) != IFF_UP)
            continue;
        union cshim_address address = {0};
        memcpy(&address.four, one->ifa_addr, sizeof address.four);
        found = cshim_tag_set_address(tag, &address);
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

/* Connects within the time limit; the socket stays in blocking mode, with that as its limit. */
static int connect_to(const struct cshim_tag *tag)
{
    union cshim_address address;
    const socklen_t size = cshim_tag_get_address(tag, &address);
    const int connection = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0)
        return -1;
    const struct timeval limit = {.tv_sec = CONNECT_MILLISECONDS / 1000};
    const int one = 1;
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(connection, &address.any, size) == 0)
        return connection;
    const int saved = errno;
    close(connection);
    errno = saved;
    return -1;
}

static bool receive(int connection, void *data, size_t bytes)
{
    const struct timeval limit = {.tv_sec = ANSWER_MILLISECONDS / 1000};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    while (bytes > 0) {
        const ssize_t got = recv(connection, data, bytes, MSG_WAITALL);
        if (got == 0)
            errno = ECONNRESET;
        if (got <= 0 && errno != EINTR)
            return false;
        if (got > 0) {
            data = (char *)data + got;
            bytes -= (size_t)got;
        }
    }
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
    struct cshim_member *member = malloc(sizeof *member);
    if (member == NULL) {
        snprintf(why, CSHIM_RENDEZVOUS_WHY_MAX, "no memory");
        return NULL;
    }
    const struct cshim_wire_hello message = {.nonce = tag->nonce, .hello = *hello};
    member->socket = connect_to(tag);
    if (member->socket < 0 ||
        send(member->socket, &message, sizeof message, MSG_NOSIGNAL) != sizeof message) {
        explain(why, "cannot reach the process that made the unique id");
        cshim_rendezvous_leave(member);
        return NULL;
    }
    return member;
}

struct cshim_decision cshim_rendezvous_decide(struct cshim_member *member)
{
    struct cshim_decision decision = {0};
    struct cshim_wire_answer answer;
    const uint8_t ask = CSHIM_WIRE_ASK;
    if (send(member->socket, &ask, 1, MSG_NOSIGNAL) != 1 ||
        !receive(member->socket, &answer, sizeof answer)) {
        explain(decision.why, "no answer from the process that made the unique id");
    } else if (!answer.on) {
        decision.known = true;
        memcpy(decision.why, answer.text, sizeof decision.why);
        decision.why[sizeof decision.why - 1] = '\0';
    } else {
        answer.text[sizeof answer.text - 1] = '\0';
        snprintf(decision.source, sizeof decision.source, "%s", answer.text);
        decision.observe = answer.observe != 0;
        decision.nodes = answer.nodes;
        decision.length = answer.length;
        decision.text = answer.length < CSHIM_WIRE_POLICY_MAX ? malloc(answer.length + 1) : NULL;
        if (decision.text != NULL && receive(member->socket, decision.text, answer.length)) {
            decision.text[answer.length] = '\0';
            decision.known = decision.on = true;
        } else {
            explain(decision.why, "the policy did not arrive");
            free(decision.text);
            decision.text = NULL;
        }
    }
    cshim_rendezvous_leave(member);
    return decision;
}

void cshim_rendezvous_leave(struct cshim_member *member)
{
    if (member->socket >= 0)
        close(member->socket);
    free(member);
}
