/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous: how the ranks of a new NCCL communicator find out whether all of them have the
 * shim and can use it, and how they get rank 0's policy. They must know before they rely on it, so
 * they talk beside NCCL.
 *
 * NCCL uses only the first bytes of an ncclUniqueId; the rest is zero and travels with it. The
 * process that makes the id leaves an address of its own there. Every rank that has the shim says
 * hello there before it calls the real ncclCommInitRank, and that it is ready afterwards.
 *
 * ncclCommInitRank returns on no rank before all ranks have called it. So a rank that has not said
 * hello when the first one is ready does not have the shim. The decision is "on" only when all
 * ranks are ready. It never changes: a rank whose connection breaks asks again. A rank without the
 * shim is never sent anything.
 *
 * How long ranks take to come to ncclCommInitRank does not matter. After that, a rank that is not
 * ready CSHIM_READY_SECONDS after the first one is lost, and nobody compresses.
 *
 * Sockets only: no function of NCCL or CUDA is called. Thread-safe, but for calls with the same
 * member. */
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

/* What the ranks must agree in. */
struct cshim_hello {
    uint64_t version; /* of library and codec table */
    uint64_t host;    /* the same on ranks of one machine only */
    uint32_t ranks;
    uint32_t rank;
};

/* Leaves an address in a fresh id, and answers there as long as the process lives: one thread and
 * one socket serve all its ids; a forked child has neither. The offer is copied. Returns false, and
 * why, if the id has no room or there can be no server; then the communicator stays native. */
bool cshim_rendezvous_serve(uint8_t id[CSHIM_ID_BYTES], const struct cshim_offer *offer,
                            char why[CSHIM_RENDEZVOUS_WHY_MAX]);

/* This rank's end of a rendezvous. It holds a connection between ready and the decision, and in the
 * first call. */
struct cshim_member;

/* Says hello. Does not wait for other ranks. Returns NULL, and why, if the id carries no address or
 * nobody answers there: then no rank compresses. */
struct cshim_member *cshim_rendezvous_join(const uint8_t id[CSHIM_ID_BYTES],
                                           const struct cshim_hello *hello,
                                           char why[CSHIM_RENDEZVOUS_WHY_MAX]);

/* Sets the address of this process, as the other ranks can reach it. Its family is 0 if it is not
 * known. */
void cshim_rendezvous_find_own_address(const struct cshim_member *member, struct cshim_tag *tag);

/* Leaves in an id where the ranks of a communicator meet that grows from the member's: the id for
 * the ranks that are new, or for this rank, to join by. The ranks of the old one have no id, but
 * come to the same place, as `number`, how many have grown from it before, is the same on them all.
 * The server of the old one answers there, with its policy. Returns false if the id has no room. */
bool cshim_rendezvous_grow(const struct cshim_member *member, uint64_t number,
                           uint8_t id[CSHIM_ID_BYTES]);

/* The real call has succeeded. `unable` tells why this rank cannot compress, or is NULL. Does
 * not wait for other ranks: a thread that makes several communicators is ready for all before it
 * waits. */
void cshim_rendezvous_ready(struct cshim_member *member, const char *unable);

/* The decision, and the policy of the process that made the id. */
struct cshim_decision {
    bool known; /* false: it is not known what the other ranks were told; `why` says what failed */
    bool on;
    uint32_t nodes;                     /* that hold the ranks */
    uint32_t speaker;                   /* if off: the rank that tells the user, for all */
    char why[CSHIM_RENDEZVOUS_WHY_MAX]; /* if off */
    struct cshim_offer offer;           /* the caller frees the text, which is NULL if off */
};

/* Waits for the decision, a minute at most. */
struct cshim_decision cshim_rendezvous_decide(struct cshim_member *member);

/* The first call of a communicator that is on. The ranks meet here before they meet in NCCL itself,
 * which would not say for whom it waits. Where nobody answers, they go on without. */
enum cshim_absence {
    CSHIM_ALL_HERE,
    CSHIM_RANKS_MISSING, /* `why` names those that have not come yet */
    CSHIM_RANK_LOST,     /* `why` names a rank that came and failed, or whose process has ended */
    CSHIM_NO_ANSWER,
};
/* This rank has come. Does not wait for others: a thread that is to meet the ranks of several
 * communicators comes to all before it waits. */
void cshim_rendezvous_come(struct cshim_member *member);
/* Waits for the others, and tells after a second, or some more with many ranks, which are missing.
 * May be called again, also after all were here: one of them may be lost since then. */
enum cshim_absence cshim_rendezvous_wait(struct cshim_member *member,
                                         char why[CSHIM_RENDEZVOUS_WHY_MAX]);
/* This rank has met the others, or cannot: `failure` tells those that wait why, or is NULL. */
void cshim_rendezvous_done(struct cshim_member *member, const char *failure);

/* Frees a member; NULL is none. */
void cshim_rendezvous_leave(struct cshim_member *member);

#endif
