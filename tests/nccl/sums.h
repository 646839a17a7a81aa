/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by tests whose data tests/sums.h makes: NCCL's element type, and the operation of sums. */
#ifndef NCCL_SUMS_H
#define NCCL_SUMS_H

#include "tests/nccl/gpu.h"
#include "tests/sums.h"

static inline ncclDataType_t datatype(void)
{
    return sums_dtype == CSHIM_FLOAT64    ? ncclFloat64
           : sums_dtype == CSHIM_FLOAT16  ? ncclFloat16
           : sums_dtype == CSHIM_BFLOAT16 ? ncclBfloat16
                                          : ncclFloat32;
}

/* Returns the operation of a name: sum, avg, scaled (ncclRedOpCreatePreMulSum with a factor of each
 * rank, on the host) or device (on the device, in memory that lives as long as the process). */
static inline ncclRedOp_t make_op(const struct gpu_world *world, const char *name)
{
    unsigned char scalar[sizeof(double)], *device = NULL;
    ncclRedOp_t op = ncclSum;
    if (strcmp(name, "avg") == 0) {
        op = ncclAvg;
        sums_factor = 1.0 / world->ranks;
    } else if (strcmp(name, "scaled") == 0 || strcmp(name, "device") == 0) {
        sums_scaled = 1;
        store(scalar, 0, sums_scalar(world->rank));
        if (strcmp(name, "device") == 0) {
            device = gpu_allocate(sizeof(double));
            gpu_write(device, scalar, cshim_dtype_bytes(sums_dtype));
        }
        NCCL(ncclRedOpCreatePreMulSum(&op, device != NULL ? device : scalar, datatype(),
                                      device != NULL ? ncclScalarDevice : ncclScalarHostImmediate,
                                      world->comm));
    } else if (strcmp(name, "sum") != 0) {
        fprintf(stderr, "no such operation: %s\n", name);
        exit(2);
    }
    return op;
}

#endif
