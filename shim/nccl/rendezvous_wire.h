/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the rendezvous: what lies in the id, and the messages. All ranks have the same
 * version, which the hello carries, or stay native: the structures travel as they are. */
#ifndef CSHIM_NCCL_RENDEZVOUS_WIRE_H
#define CSHIM_NCCL_RENDEZVOUS_WIRE_H

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "shim/nccl/rendezvous.h"

#define CSHIM_TAG_MAGIC 0x6d687363u /* "cshm" */
#define CSHIM_WIRE_ASK 'd'
#define CSHIM_WIRE_POLICY_MAX (1u << 20)

/* At the end of an id. */
struct cshim_tag {
    uint32_t magic;
    uint16_t family;
    uint16_t port; /* in network order, as the address */
    uint8_t address[16];
    uint64_t nonce; /* only those who have the id may join */
};

struct cshim_wire_hello {
    uint64_t nonce;
    struct cshim_hello hello;
};

struct cshim_wire_answer {
    uint32_t on;
    uint32_t observe;
    uint32_t nodes;
    uint32_t length; /* of the policy's text, which follows if on */
    char text[1024]; /* on: the policy's source; off: why */
};

union cshim_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* The address without the port. */
static inline bool cshim_tag_set_address(struct cshim_tag *tag, const union cshim_address *address)
{
    tag->family = address->any.sa_family;
    if (tag->family == AF_INET)
        memcpy(tag->address, &address->four.sin_addr, sizeof address->four.sin_addr);
    else
        memcpy(tag->address, &address->six.sin6_addr, sizeof address->six.sin6_addr);
    return true;
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

/* rendezvous_server.c: listens at the tag's address, whose port it sets, in a thread of its own.
 * Returns false, with errno set, if that cannot be. */
bool cshim_rendezvous_start_server(struct cshim_tag *tag, const struct cshim_offer *offer);

#endif
