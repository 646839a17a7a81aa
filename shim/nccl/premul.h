/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that ncclRedOpCreatePreMulSum makes: sums whose elements are first multiplied by a
 * scalar of each rank. NCCL uses the handles of destroyed operations again. All functions are
 * thread-safe. */
#ifndef CSHIM_NCCL_PREMUL_H
#define CSHIM_NCCL_PREMUL_H

#include "shim/nccl/job.h"

/* The planner's name of an element type. */
enum cshim_dtype cshim_nccl_dtype(ncclDataType_t datatype);

struct cshim_premul {
    double factor;
    const void *factor_at;   /* on the device; NULL: `factor` is the scalar */
    ncclDataType_t datatype; /* of the calls: NCCL refuses others */
};

/* ncclRedOpCreatePreMulSum. */
ncclResult_t cshim_premul_create(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                 ncclScalarResidence_t residence, ncclComm_t comm);

/* Returns false if the operation was not made by ncclRedOpCreatePreMulSum. `premul` may be NULL. */
bool cshim_premul_find(ncclRedOp_t op, ncclComm_t comm, struct cshim_premul *premul);

/* ncclRedOpDestroy, at once. */
ncclResult_t cshim_premul_destroy(ncclRedOp_t op, ncclComm_t comm);

/* The communicator ends, and its operations with it. */
void cshim_premul_forget(ncclComm_t comm);

#endif
