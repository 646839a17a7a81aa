/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the rendezvous: what lies in the id, and the messages. A request and its reply have
 * one length each. They travel as the structures are: all ranks have the same version, which the
 * hello carries, or stay native. */
#ifndef CSHIM_NCCL_RENDEZVOUS_WIRE_H
#define CSHIM_NCCL_RENDEZVOUS_WIRE_H

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "shim/nccl/rendezvous.h"

#define CSHIM_TAG_MAGIC 0x6e687363u     /* "cshn" */
#define CSHIM_REQUEST_MAGIC 0x71687363u /* "cshq" */
#define CSHIM_WIRE_POLICY_MAX (1u << 20)
#define CSHIM_MACHINE_MAX 64

enum cshim_request_kind {
    CSHIM_REQUEST_HELLO, /* answered at once */
    CSHIM_REQUEST_READY, /* answered with the decision */
    CSHIM_REQUEST_WAIT,  /* answered when all ranks have come or one is lost, or after a while */
    CSHIM_REQUEST_DONE,  /* not answered */
    CSHIM_REQUEST_ASK,   /* answered at once: rendezvous_durations.c */
    CSHIM_REQUEST_KINDS,
};

struct cshim_request {
    uint32_t magic;
    uint32_t kind;
    uint64_t nonce, parent; /* as in the tag */
    struct cshim_hello hello;
    union {
        struct {
            char machine[CSHIM_MACHINE_MAX];    /* for messages */
            char why[CSHIM_RENDEZVOUS_WHY_MAX]; /* READY: unable; DONE: failed; or empty */
        };
        struct cshim_ask ask;
    };
};

struct cshim_reply {
    uint32_t on;
    uint32_t observe;
    uint32_t nodes;
    uint32_t absence; /* enum cshim_absence */
    uint32_t speaker; /* off: the rank that tells the user */
    uint32_t length;  /* of the policy's text, which follows if on */
    uint32_t has_learned;
    uint32_t learned_length; /* of the choices of an earlier job, which follow the policy */
    union {
        char text[1024]; /* on: the policy's source; else why */
        struct cshim_answer answer;
    };
};

union cshim_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* The tag's address and port. Returns its size. */
static inline socklen_t cshim_tag_get_address(const struct cshim_tag *tag,
                                              union cshim_address *address)
{
    memset(address, 0, sizeof *address);
    address->any.sa_family = tag->family;
    if (tag->family == AF_INET) {
        address->four.sin_port = tag->port;
        memcpy(&address->four.sin_addr, tag->address, sizeof address->four.sin_addr);
        return sizeof address->four;
    }
    address->six.sin6_port = tag->port;
    memcpy(&address->six.sin6_addr, tag->address, sizeof address->six.sin6_addr);
    return sizeof address->six;
}

/* Sends or receives as much of some bytes as goes without waiting, of which *done are done. The
 * error of a connection that is gone is in errno. */
enum cshim_moved { CSHIM_MOVED_ALL, CSHIM_MOVED_SOME, CSHIM_GONE };
static inline enum cshim_moved cshim_move(int connection, bool sends, void *data, size_t bytes,
                                          size_t *done)
{
    while (*done < bytes) {
        char *place = (char *)data + *done;
        const ssize_t moved =
            sends ? send(connection, place, bytes - *done, MSG_NOSIGNAL | MSG_DONTWAIT)
                  : recv(connection, place, bytes - *done, MSG_DONTWAIT);
        if (moved < 0 && (errno == EAGAIN || errno == EINTR))
            return CSHIM_MOVED_SOME;
        if (moved == 0)
            errno = ECONNRESET;
        if (moved <= 0)
            return CSHIM_GONE;
        *done += (size_t)moved;
    }
    return CSHIM_MOVED_ALL;
}

/* rendezvous_server.c: answers for the tag's nonce. The first tag's address is where this process
 * listens; the tag gets that address and its port. Returns false, with errno set, if that cannot
 * be. */
bool cshim_rendezvous_start_server(struct cshim_tag *tag, const struct cshim_offer *offer);

/* rendezvous_durations.c: the durations that the ranks of a communicator have sent, and the answers
 * to them (rendezvous_durations.h). No sockets; the caller locks. */

/* Begins with a nonce. Returns false without memory. */
bool cshim_collection_add(uint64_t nonce, uint32_t ranks);
void cshim_collection_drop(uint64_t nonce);
/* Answers a request of the kind CSHIM_REQUEST_ASK. */
void cshim_collection_answer(const struct cshim_request *request, struct cshim_answer *answer);

/* rendezvous_session.c: what the ranks of one id have said, and what is decided for them. No
 * sockets; times are those of cshim_seconds; the caller locks. */

/* Begins with a nonce. The offer stays the caller's and is not copied. Returns false without
 * memory. */
bool cshim_session_add(uint64_t nonce, const struct cshim_offer *offer);
/* Takes in what a rank says on a connection; later ones have higher numbers. Returns false if that
 * makes no sense, or if what was said with its nonce is forgotten. */
bool cshim_session_hear(const struct cshim_request *request, uint64_t connection, double now);
/* The connection has ended on which a rank has last made a request. What ends a former one does not
 * matter. */
void cshim_session_break(const struct cshim_request *request, uint64_t connection, double now);
/* The reply to a request that was heard at `since`, and the offer whose text follows it, or NULL.
 * Returns 0 if there is one, else the time at which there will be one at the latest; less than 0 if
 * there never will be. */
double cshim_session_answer(const struct cshim_request *request, double since, double now,
                            struct cshim_reply *reply, const struct cshim_offer **offer);

#endif
