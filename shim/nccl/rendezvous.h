/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous: the agreement of the ranks of a new NCCL communicator whether all of them have
 * compshim and can compress, and on the policy. They must agree before they send compressed
 * messages, so they use TCP connections of their own.
 *
 * NCCL uses only the first bytes of an ncclUniqueId; the other bytes are zero and are copied with
 * it. The process that makes the id writes its address there and answers as a server. Every rank
 * with compshim sends HELLO to it before it calls NCCL's ncclCommInitRank, and READY when NCCL has
 * made the communicator.
 *
 * ncclCommInitRank completes on no rank before all ranks have called it. So a rank that has not
 * sent HELLO when the first rank sends READY does not have compshim, or cannot reach the server.
 * The decision is "on" only when all ranks have sent READY. A rank whose connection breaks asks
 * again and gets the same decision, unless the server has forgotten the session since then. Nothing
 * is ever sent to a rank without compshim.
 *
 * Ranks may call ncclCommInitRank at any time. If a rank has not sent READY within
 * CSHIM_READY_SECONDS of the first READY, it is considered lost, and the decision is "off".
 *
 * In the first compressed call the ranks use the same server to find missing ranks.
 *
 * Uses sockets only; calls neither NCCL nor CUDA. Thread-safe, except that only one thread at a
 * time may use a member, apart from cshim_rendezvous_stop(). docs/agreement.md has the protocol. */
#ifndef CSHIM_NCCL_RENDEZVOUS_H
#define CSHIM_NCCL_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/nccl/rendezvous_durations.h"
#include "shim/report/job.h"

#define CSHIM_ID_BYTES 128u
#define CSHIM_RENDEZVOUS_WHY_MAX 256
#define CSHIM_READY_SECONDS 20

/* A rank's properties, part of each of its requests; ASK sets only `ranks` and `rank`. */
struct cshim_hello {
    uint64_t version; /* fingerprint of protocol and codecs; must be equal on all ranks */
    uint64_t host;    /* id of the node; equal on ranks of one node only */
    uint32_t ranks;
    uint32_t rank;
};

/* Writes the server's address to a new id. Starts the server if it is not running: one thread for
 * all ids, and one listening socket for each address in them, until the process ends (a forked
 * child starts its own). Copies the offer. On an error, or if NCCL_COMM_ID is set, returns false
 * and the reason in `why`; then the calls of the communicator are passed through. */
bool cshim_rendezvous_serve(uint8_t id[CSHIM_ID_BYTES], const struct cshim_offer *offer,
                            char why[CSHIM_RENDEZVOUS_WHY_MAX]);

/* A rank's side of a rendezvous. It has a connection during cshim_rendezvous_join, from
 * cshim_rendezvous_ready to cshim_rendezvous_decide, and in the first compressed call. */
struct cshim_member;

/* Makes a member and sends HELLO; does not wait for other ranks. Returns NULL, and the reason in
 * `why`, if the id has no address, the server does not answer or there is no memory: then no rank
 * compresses. */
struct cshim_member *cshim_rendezvous_join(const uint8_t id[CSHIM_ID_BYTES],
                                           const struct cshim_hello *hello,
                                           char why[CSHIM_RENDEZVOUS_WHY_MAX]);

/* Sets the tag's address to the local address of the member's latest connection, at which other
 * ranks can reach this process; family 0: unknown. */
void cshim_rendezvous_find_own_address(const struct cshim_member *member, struct cshim_tag *tag);

/* Writes the rendezvous of a communicator made by ncclCommGrow to an id: to NCCL's id, which new
 * ranks get, or to an empty id of this rank, because NCCL gives the old communicator's ranks no id.
 * Each rank writes the same, because `number`, the number of communicators that grew from the old
 * one before, is equal on all ranks of the old one. Server and policy are those of the old
 * communicator. Returns false if the id has no room. */
bool cshim_rendezvous_grow(const struct cshim_member *member, uint64_t number,
                           uint8_t id[CSHIM_ID_BYTES]);

/* Sends READY after NCCL has made the communicator. `unable` is the reason why this rank cannot
 * compress, or NULL. Does not wait for other ranks: a thread that makes several communicators calls
 * this for all of them before it waits. */
void cshim_rendezvous_ready(struct cshim_member *member, const char *unable);

/* The decision, with the policy of the process that made the id. */
struct cshim_decision {
    bool known; /* false: the other ranks' decision is unknown, because of the error in `why` */
    bool on;
    uint32_t nodes;                     /* on: number of nodes */
    uint32_t speaker;                   /* off: the rank that logs the reason for all */
    char why[CSHIM_RENDEZVOUS_WHY_MAX]; /* off: the reason */
    struct cshim_offer offer; /* on: the policy and learned choices; the caller frees it */
};

/* Waits for the decision, at most a minute. */
struct cshim_decision cshim_rendezvous_decide(struct cshim_member *member);
/* Makes a current or later cshim_rendezvous_decide() return soon, without a decision. Any thread
 * may call it. */
void cshim_rendezvous_stop(struct cshim_member *member);

/* State of the ranks in the first compressed call of a communicator. They wait for each other at
 * the rendezvous before they wait in NCCL, which would not report which rank it waits for. */
enum cshim_absence {
    CSHIM_ALL_HERE,
    CSHIM_RANKS_MISSING, /* `why` names ranks that have not made the call yet */
    CSHIM_RANK_LOST,     /* `why` names a rank that has failed in the call or disconnected */
    CSHIM_NO_ANSWER,     /* the server does not answer: the caller continues without it */
};
/* Reports that this rank makes its first compressed call. Does not wait for others: a thread that
 * prepares several communicators calls this for all of them before it waits. */
void cshim_rendezvous_come(struct cshim_member *member);
/* Waits for the other ranks: about a second, longer with many ranks, and several seconds if the
 * server does not answer. May be called again, also after CSHIM_ALL_HERE, because a rank may have
 * been lost since then. */
enum cshim_absence cshim_rendezvous_wait(struct cshim_member *member,
                                         char why[CSHIM_RENDEZVOUS_WHY_MAX]);
/* Ends this rank's part of the first compressed call. `failure` is the reason why it has failed,
 * which the waiting ranks get, or NULL. */
void cshim_rendezvous_done(struct cshim_member *member, const char *failure);

/* Closes and frees a member; NULL is allowed. */
void cshim_rendezvous_leave(struct cshim_member *member);

#endif
