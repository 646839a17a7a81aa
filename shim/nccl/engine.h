/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between the front, which exports the symbols of NCCL and needs no NCCL header, and
 * the NCCL engine, which is built with <nccl.h> and exports only cshim_nccl_engine.
 *
 * The engine includes <nccl.h> before this file. In the front handles are pointers and enumerations
 * are ints, which is how they are passed. */
#ifndef CSHIM_ENGINE_NCCL_H
#define CSHIM_ENGINE_NCCL_H

#include <stddef.h>

#ifndef NCCL_MAJOR
typedef int ncclResult_t, ncclDataType_t, ncclRedOp_t, ncclScalarResidence_t;
typedef void *ncclComm_t, *cudaStream_t;
typedef void ncclConfig_t, ncclSimInfo_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
#endif

/* struct cshim_nccl_real: NCCL's own functions, without the nccl of their names; NULL where this
 * NCCL lacks a function. An engine calls these and never the names, which would come back to the
 * front.
 *
 * struct cshim_nccl_wrapped: the functions of the engine that take the place of NCCL's. */
#include "nccl_engine.h"

#define CSHIM_NCCL_ENGINE_ABI 3
#define CSHIM_NCCL_ENGINE_SYMBOL "cshim_nccl_engine"

struct cshim_nccl_engine {
    unsigned abi; /* CSHIM_NCCL_ENGINE_ABI */
    /* Called before the first communicator is made, and again in a child of fork. `real` stays
     * valid until the process ends. `beside_mpi`: an MPI engine is in the process too. */
    void (*start)(const struct cshim_nccl_real *real, int beside_mpi);
    /* Counts a call with a configuration, which is passed on. */
    void (*count_configured)(ncclComm_t comm);
    /* What the front calls from then on, from any thread. Each keeps the contract of the NCCL
     * function of its name. */
    struct cshim_nccl_wrapped functions;
};

#endif
