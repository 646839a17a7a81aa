/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the rendezvous: what lies in the id, and the messages. A request and its reply have
 * one length each; all ranks have the same version, which the hello carries, or stay native: the
 * structures travel as they are. */
#ifndef CSHIM_NCCL_RENDEZVOUS_WIRE_H
#define CSHIM_NCCL_RENDEZVOUS_WIRE_H

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "shim/nccl/rendezvous.h"

#define CSHIM_TAG_MAGIC 0x6e687363u     /* "cshn" */
#define CSHIM_REQUEST_MAGIC 0x71687363u /* "cshq" */
#define CSHIM_WIRE_POLICY_MAX (1u << 20)
#define CSHIM_MACHINE_MAX 64

/* At the end of an id. */
struct cshim_tag {
    uint32_t magic;
    uint16_t family;
    uint16_t port; /* in network order, as the address */
    uint8_t address[16];
    uint64_t nonce; /* only those who have the id may join */
};

enum cshim_request_kind {
    CSHIM_REQUEST_HELLO, /* answered at once */
    CSHIM_REQUEST_READY, /* answered with the decision */
    CSHIM_REQUEST_WAIT,  /* answered with who is absent, as soon as all are here or one is lost */
    CSHIM_REQUEST_DONE,  /* not answered */
    CSHIM_REQUEST_KINDS,
};

struct cshim_request {
    uint32_t magic;
    uint32_t kind;
    uint64_t nonce;
    struct cshim_hello hello;
    char machine[CSHIM_MACHINE_MAX];    /* for messages */
    char why[CSHIM_RENDEZVOUS_WHY_MAX]; /* ready: unable; done: failed; or empty */
};

struct cshim_reply {
    uint32_t on;
    uint32_t observe;
    uint32_t nodes;
    uint32_t absence; /* enum cshim_absence */
    uint32_t speaker; /* off: the rank that tells the user */
    uint32_t length;  /* of the policy's text, which follows if on */
    char text[1024];  /* on: the policy's source; else why */
};

union cshim_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* The address without the port. */
static inline void cshim_tag_set_address(struct cshim_tag *tag, const union cshim_address *address)
{
    tag->family = address->any.sa_family;
    if (tag->family == AF_INET)
        memcpy(tag->address, &address->four.sin_addr, sizeof address->four.sin_addr);
    else
        memcpy(tag->address, &address->six.sin6_addr, sizeof address->six.sin6_addr);
}

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

/* rendezvous_server.c: answers for the tag's nonce at its address, whose port it sets. Returns
 * false, with errno set, if that cannot be. */
bool cshim_rendezvous_start_server(struct cshim_tag *tag, const struct cshim_offer *offer);

/* rendezvous_session.c: what the ranks of one id have said. No sockets; the caller locks. */
struct cshim_session;

/* The offer stays the caller's and is not copied. NULL: no memory. */
struct cshim_session *cshim_session_add(uint64_t nonce, const struct cshim_offer *offer);
struct cshim_session *cshim_session_find(uint64_t nonce);
/* Takes in what a rank says, at a time in seconds. Returns false if that makes no sense. */
bool cshim_session_hear(struct cshim_session *session, const struct cshim_request *request,
                        double now);
/* The connection on which a rank waits has broken. */
void cshim_session_break(struct cshim_session *session, uint32_t rank, double now);
/* Decides, if it is time. Returns whether it is decided; the reply is for all ranks. */
bool cshim_session_decide(struct cshim_session *session, double now, struct cshim_reply *reply);
/* When it is decided at the latest. */
double cshim_session_deadline(const struct cshim_session *session);
/* For a rank that waits in the first call, since `since`. Returns whether it is to be answered. */
bool cshim_session_absent(const struct cshim_session *session, double since, double now,
                          struct cshim_reply *reply);
double cshim_session_patience(const struct cshim_session *session); /* seconds of such a wait */
/* The policy of a session that is on. */
const struct cshim_offer *cshim_session_offer(const struct cshim_session *session);

#endif
