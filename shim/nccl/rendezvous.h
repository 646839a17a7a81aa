/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all ranks of a new NCCL communicator have the shim and can use it, and rank 0's policy
 * for them: told beside NCCL, before it is relied on.
 *
 * NCCL uses the first bytes of an ncclUniqueId only; the rest is zero and goes round with it. There
 * the process that makes the id leaves an address of its own. Every rank with the shim says hello
 * there before it calls the real ncclCommInitRank, and after it that it is ready. As that call
 * returns on no rank before all have made it, who has not said hello when the first one is ready
 * has no shim; and the decision is "on" only when all are ready. It never changes: a rank whose
 * connection breaks asks again. A rank without the shim is never sent anything.
 *
 * How long ranks take to come to ncclCommInitRank does not matter. Of those that have come out of
 * it, one that is not ready CSHIM_READY_SECONDS after the first is lost, and nobody compresses.
 *
 * Sockets only: knows nothing of NCCL's or CUDA's functions. Thread-safe, but for calls with the
 * same member. */
#ifndef CSHIM_NCCL_RENDEZVOUS_H
#define CSHIM_NCCL_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CSHIM_ID_BYTES 128u
#define CSHIM_RENDEZVOUS_WHY_MAX 256
#define CSHIM_READY_SECONDS 20

/* What the ranks must agree in. */
struct cshim_hello {
    uint64_t version; /* of library and codec table */
    uint64_t host;    /* the same on ranks of one machine only */
    uint32_t ranks;
    uint32_t rank;
    uint32_t nonblocking; /* the communicator is not waited for: such a one is not compressed */
    uint32_t reserved;
};

/* Leaves an address in a fresh id, and answers there for as long as the process lives: one thread
 * and one socket serve all its ids. Returns false, and why, if the id has no room or no thread can
 * be had; the communicator is native then. */
struct cshim_offer {
    const char *text; /* the policy's; copied */
    size_t length;
    const char *source; /* its name */
    bool observe;       /* calls are written down and not compressed */
};
bool cshim_rendezvous_serve(uint8_t id[CSHIM_ID_BYTES], const struct cshim_offer *offer,
                            char why[CSHIM_RENDEZVOUS_WHY_MAX]);

/* This rank's end of a rendezvous. Holds a connection while it is ready and not decided, and in
 * the first call. */
struct cshim_member;

/* Says hello. Does not wait for other ranks. Returns NULL, and why, if the id carries no address or
 * nobody answers there: then no rank compresses. */
struct cshim_member *cshim_rendezvous_join(const uint8_t id[CSHIM_ID_BYTES],
                                           const struct cshim_hello *hello,
                                           char why[CSHIM_RENDEZVOUS_WHY_MAX]);

/* The real call has succeeded. unable: why this rank cannot compress, or NULL. Does not wait for
 * other ranks: a thread that makes several communicators is ready for all before it asks. */
void cshim_rendezvous_ready(struct cshim_member *member, const char *unable);

/* The decision, and the policy of the process that made the id. */
struct cshim_decision {
    bool known; /* false: the other ranks may have been told either; why says what failed */
    bool on;
    bool observe;
    uint32_t nodes;                     /* that hold the ranks */
    uint32_t speaker;                   /* if off: the rank that tells the user, for all */
    char why[CSHIM_RENDEZVOUS_WHY_MAX]; /* if off */
    char *text;                         /* the caller frees; NULL if off */
    size_t length;
    char source[1024];
};

/* Waits for the decision, a minute at most. */
struct cshim_decision cshim_rendezvous_decide(struct cshim_member *member);

/* For the first call of a communicator that is on, before the ranks meet in NCCL itself, which
 * would not say for whom it waits. Advice only: where nobody answers, they meet unadvised. */
enum cshim_absence {
    CSHIM_ALL_HERE,
    CSHIM_RANKS_MISSING, /* why names those that have not come yet */
    CSHIM_RANK_LOST,     /* why names a rank that came and failed, or whose process has ended */
    CSHIM_NO_ANSWER,
};
/* This rank has come. Does not wait for others: a thread that is to meet the ranks of several
 * communicators comes to all before it waits. */
void cshim_rendezvous_come(struct cshim_member *member);
/* Waits for the others: a second or some more with many ranks, then says who is missing. May be
 * called again, also after all were here: one of them may be lost since. */
enum cshim_absence cshim_rendezvous_wait(struct cshim_member *member,
                                         char why[CSHIM_RENDEZVOUS_WHY_MAX]);
/* This rank has met the others. failure: why it cannot, for those that wait, or NULL. */
void cshim_rendezvous_done(struct cshim_member *member, const char *failure);

/* Frees a member; NULL is none. */
void cshim_rendezvous_leave(struct cshim_member *member);

/* For the child after a fork: the sockets are the parent's. Before and after: nobody holds a lock
 * meanwhile. */
void cshim_rendezvous_before_fork(void);
void cshim_rendezvous_after_fork(bool child);

#endif
