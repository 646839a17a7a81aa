/* SPDX-License-Identifier: Apache-2.0 */
/* Interface between the front, which exports NCCL's symbols and is built without <nccl.h>, and the
 * NCCL engine, which is built with <nccl.h> and exports only cshim_nccl_engine.
 *
 * The engine includes <nccl.h> before this file. The front sees handles as pointers and
 * enumerations as ints, which is how the ABI passes them. */
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

/* Generated. struct cshim_nccl_real has NCCL's own functions, named without the prefix nccl; those
 * that this NCCL lacks are NULL. The engine calls only these: NCCL's symbols would lead back to the
 * front.
 *
 * struct cshim_nccl_wrapped has the engine's functions that replace NCCL's. */
#include "nccl_engine.h"

#define CSHIM_NCCL_ENGINE_ABI 3
#define CSHIM_NCCL_ENGINE_SYMBOL "cshim_nccl_engine"

struct cshim_nccl_engine {
    unsigned abi; /* CSHIM_NCCL_ENGINE_ABI */
    /* Called before the first id, communicator or group is made, and again in a child of fork()
     * that starts the engine. `real` stays valid until the process ends. `is_beside`: an
     * engine for MPI or gloo is in the process, too, and may write a report of its own. */
    void (*start)(const struct cshim_nccl_real *real, int is_beside);
    /* Counts a call with a configuration argument, which the front passes through. */
    void (*count_configured)(ncclComm_t comm);
    /* Called by the front after `start`, from any thread. Each has the contract of the NCCL
     * function of its name. */
    struct cshim_nccl_wrapped functions;
};

#endif
