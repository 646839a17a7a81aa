/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the rendezvous: the tag in the id, the messages, and the parts of the server. All
 * requests have one length, and all replies another; the packed offer follows a reply to READY that
 * is "on". Structs are sent as they lie in memory: ranks compress only if all have the same
 * version, which HELLO carries. */
#ifndef CSHIM_NCCL_RENDEZVOUS_WIRE_H
#define CSHIM_NCCL_RENDEZVOUS_WIRE_H

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "shim/nccl/rendezvous.h"

#define CSHIM_TAG_MAGIC 0x6e687363u     /* "cshn" */
#define CSHIM_REQUEST_MAGIC 0x71687363u /* "cshq" */
#define CSHIM_MACHINE_MAX 64

enum cshim_request_kind {
    CSHIM_REQUEST_HELLO, /* answered at once */
    CSHIM_REQUEST_READY, /* answered with the decision */
    CSHIM_REQUEST_WAIT,  /* answered when all have sent it or one is lost, or after about 1 s */
    CSHIM_REQUEST_DONE,  /* not answered */
    CSHIM_REQUEST_ASK,   /* answered at once: rendezvous_durations.c */
    CSHIM_REQUEST_KINDS,
};

struct cshim_request {
    uint32_t magic;
    uint32_t kind;
    uint64_t nonce, parent; /* nonce and parent of the tag */
    struct cshim_hello hello;
    union {
        struct {
            char machine[CSHIM_MACHINE_MAX];    /* host name, for messages */
            char why[CSHIM_RENDEZVOUS_WHY_MAX]; /* READY: why unable; DONE: why failed; or empty */
        };
        struct cshim_ask ask;
    };
};

struct cshim_reply {
    uint32_t on;
    uint32_t nodes;
    uint32_t absence;     /* reply to WAIT: enum cshim_absence */
    uint32_t speaker;     /* off: the rank that logs the reason */
    uint64_t offer_bytes; /* on: bytes of the packed offer, which follows */
    union {
        char text[1024]; /* off, or reply to WAIT: the reason */
        struct cshim_answer answer;
    };
};

union cshim_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* Copies the tag's address and port to *address. Returns the size of the socket address. */
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

/* Begins a connection to the tag's address. Returns its socket, which the caller closes; less than
 * 0 if none can be made. Sets errno: 0 if it is connected, EINPROGRESS or EINTR while it is being
 * connected, or the error. */
static inline int cshim_tag_connect(const struct cshim_tag *tag)
{
    union cshim_address address;
    const socklen_t size = cshim_tag_get_address(tag, &address);
    const int one = 1;
    const int connection =
        socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection < 0)
        return connection;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(connection, &address.any, size) == 0)
        errno = 0;
    return connection;
}

/* Sends or receives, without waiting, bytes from `data` + *done on, and adds their number to *done.
 * CSHIM_GONE: the connection is closed or broken, and errno has the error. */
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

/* An offer as it is sent. Never freed. */
struct cshim_kept_offer {
    struct cshim_kept_offer *next;
    uint64_t bytes;
    char packed[];
};

/* rendezvous_server.c: lets the server listen at the tag's address, and adds a session for the
 * tag's nonce. Sets the tag's port. Returns false and sets errno on an error. Thread-safe. */
bool cshim_rendezvous_start_server(struct cshim_tag *tag, const struct cshim_offer *offer);

/* rendezvous_durations.c: collects the durations that the ranks of a communicator send, and answers
 * them (rendezvous_durations.h). Uses no sockets; the caller holds the server's lock. */

/* Starts the collection of a communicator, named by `nonce`. Returns false without memory. */
bool cshim_collection_add(uint64_t nonce, uint32_t ranks);
void cshim_collection_drop(uint64_t nonce);
/* Answers a request of the type CSHIM_REQUEST_ASK. */
void cshim_collection_answer(const struct cshim_request *request, struct cshim_answer *answer);

/* rendezvous_session.c: a session for each id, with the requests of its ranks and the decision for
 * them. Uses no sockets. Times are those of cshim_seconds. Not thread-safe; the server's lock
 * guards all sessions. */

/* Adds a session for a nonce. Returns false without memory. */
bool cshim_session_add(uint64_t nonce, struct cshim_kept_offer *offer);
/* Applies a rank's request. `connection` is the number of its connection; later ones have higher
 * numbers. Returns false if the request is not applied and gets no reply: its session is not
 * remembered; another process sends HELLO for a rank that is ready, in a communicator that has
 * grown; or the request is invalid (or memory is lacking) and the decision is not "off". */
bool cshim_session_hear(const struct cshim_request *request, uint64_t connection, double now);
/* Records the end of a connection whose last request was `request`. Ignored unless the rank's
 * latest request was WAIT, and this is the rank's latest connection. */
void cshim_session_break(const struct cshim_request *request, uint64_t connection, double now);
/* Makes the reply to a request that was received at time `since`; *offer is the offer that follows
 * the reply, or NULL. Returns 0 if the reply is made, the time at which to call this again
 * if it is not due yet, or less than 0 if the session is not remembered. */
double cshim_session_answer(const struct cshim_request *request, double since, double now,
                            struct cshim_reply *reply, struct cshim_kept_offer **offer);

#endif
