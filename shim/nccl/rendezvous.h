/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all ranks of a new NCCL communicator have the shim, and rank 0's policy for them: told
 * beside NCCL, before it is relied on.
 *
 * NCCL uses the first bytes of an ncclUniqueId only; the rest is zero and goes round with it. There
 * the process that makes the id leaves an address of its own. Every rank with the shim connects to
 * it before it calls the real ncclCommInitRank, and asks for the decision after. As that call
 * returns on no rank before all have made it, whoever has not connected when the first one asks has
 * no shim. A rank without the shim is never sent anything.
 *
 * Sockets only: knows nothing of NCCL's or CUDA's functions. Thread-safe. */
#ifndef CSHIM_NCCL_RENDEZVOUS_H
#define CSHIM_NCCL_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CSHIM_ID_BYTES 128u
#define CSHIM_RENDEZVOUS_WHY_MAX 256

/* What the ranks must agree in. */
struct cshim_hello {
    uint64_t version; /* of library and codec table */
    uint64_t host;    /* the same on ranks of one machine only */
    uint32_t ranks;
    uint32_t rank;
    uint32_t nonblocking; /* the communicator is not waited for: such a one is not compressed */
    uint32_t reserved;
};

/* Leaves an address in a fresh id and waits there, in a thread of its own, until all ranks have
 * their answer. Returns false, and why, if the id has no room or no thread can be had; the
 * communicator is native then. */
struct cshim_offer {
    const char *text; /* the policy's; copied */
    size_t length;
    const char *source; /* its name */
    bool observe;       /* calls are written down and not compressed */
};
bool cshim_rendezvous_serve(uint8_t id[CSHIM_ID_BYTES], const struct cshim_offer *offer,
                            char why[CSHIM_RENDEZVOUS_WHY_MAX]);

/* This rank's end of a rendezvous. */
struct cshim_member;

/* Says hello. Does not wait for other ranks. Returns NULL, and why, if the id carries no address or
 * nobody answers there: then no rank compresses. */
struct cshim_member *cshim_rendezvous_join(const uint8_t id[CSHIM_ID_BYTES],
                                           const struct cshim_hello *hello,
                                           char why[CSHIM_RENDEZVOUS_WHY_MAX]);

/* The decision, and the policy of the process that made the id. */
struct cshim_decision {
    bool known; /* false: the other ranks may have been told either; why says what failed */
    bool on;
    bool observe;
    uint32_t nodes;                     /* that hold the ranks */
    char why[CSHIM_RENDEZVOUS_WHY_MAX]; /* if off */
    char *text;                         /* the caller frees; NULL if off */
    size_t length;
    char source[1024];
};

/* Asks for the decision, once the real call has succeeded; frees the member. */
struct cshim_decision cshim_rendezvous_decide(struct cshim_member *member);

/* Frees a member that will not ask. */
void cshim_rendezvous_leave(struct cshim_member *member);

#endif
