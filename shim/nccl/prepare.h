/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the NCCL engine: how the ranks of a communicator tell each other, at its first compressed
 * call, whether they can compress. */
#ifndef CSHIM_NCCL_PREPARE_H
#define CSHIM_NCCL_PREPARE_H

#include "shim/nccl/internal.h"

/* What a rank tells the others. */
struct cshim_facts {
    uint64_t host;
    uint64_t reason; /* CSHIM_REASON_COMPRESS, or why this rank cannot */
    uint64_t began;  /* where its trace's time begins; 0: it has none */
};

/* What telling needs, of a communicator of up to `ranks` on the device: used by one preparation
 * after the other. */
struct cshim_reserve {
    int device;
    int ranks;
    CUstream stream;
    CUdeviceptr memory;        /* of the device: one rank's facts, then those of all */
    struct cshim_facts *facts; /* the same on the host */
    struct cshim_reserve *next;
};

/* reserve.c: takes one that is free on the communicator's device, or makes one. Returns NULL, and
 * why, if it cannot be had. */
struct cshim_reserve *cshim_reserve_take(const struct cshim_nccl_comm *state, char *why,
                                         size_t size);
void cshim_reserve_give(struct cshim_reserve *reserve);

#endif
