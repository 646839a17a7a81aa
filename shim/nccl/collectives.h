/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives that the front exports, with NCCL's contract. */
#ifndef CSHIM_NCCL_COLLECTIVES_H
#define CSHIM_NCCL_COLLECTIVES_H

#include "shim/nccl/group.h"

/* ncclAllReduce */
ncclResult_t cshim_nccl_all_reduce(const void *send, void *receive, size_t count,
                                   ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                   cudaStream_t stream);
/* ncclReduceScatter */
ncclResult_t cshim_nccl_reduce_scatter(const void *send, void *receive, size_t count,
                                       ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                       cudaStream_t stream);
/* ncclAllGather */
ncclResult_t cshim_nccl_all_gather(const void *send, void *receive, size_t count,
                                   ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);

#endif
