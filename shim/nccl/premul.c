/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/premul.h"

#include <stdlib.h>

#include "shim/core/sample.h"

struct operation {
    ncclRedOp_t op;
    ncclComm_t comm;
    struct cshim_premul premul;
    struct operation *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards operations */
static struct operation *operations;

enum cshim_dtype cshim_nccl_dtype(ncclDataType_t datatype)
{
    switch (datatype) {
    case ncclFloat32:
        return CSHIM_FLOAT32;
    case ncclFloat64:
        return CSHIM_FLOAT64;
    case ncclFloat16:
        return CSHIM_FLOAT16;
    case ncclBfloat16:
        return CSHIM_BFLOAT16;
    default:
        return CSHIM_DTYPE_OTHER;
    }
}

static struct operation **find(ncclRedOp_t op, ncclComm_t comm)
{
    struct operation **place = &operations;
    while (*place != NULL && ((*place)->op != op || (*place)->comm != comm))
        place = &(*place)->next;
    return place;
}

bool cshim_premul_find(ncclRedOp_t op, ncclComm_t comm, struct cshim_premul *premul)
{
    pthread_mutex_lock(&lock);
    const struct operation *operation = *find(op, comm);
    if (operation != NULL)
        *premul = operation->premul;
    pthread_mutex_unlock(&lock);
    return operation != NULL;
}

ncclResult_t cshim_premul_create(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                 ncclScalarResidence_t residence, ncclComm_t comm)
{
    const ncclResult_t status =
        cshim_nccl.real->RedOpCreatePreMulSum(op, scalar, datatype, residence, comm);
    if (status != ncclSuccess)
        return status;
    const enum cshim_dtype dtype = cshim_nccl_dtype(datatype);
    struct operation *made = calloc(1, sizeof *made);
    if (made == NULL) /* the other ranks have made theirs: this one cannot go on without */
        return ncclSystemError;
    made->op = *op;
    made->comm = comm;
    made->premul = (struct cshim_premul){.factor = 1, .datatype = datatype};
    if (residence != ncclScalarHostImmediate)
        made->premul.factor_at = scalar;
    else if (dtype != CSHIM_DTYPE_OTHER)
        cshim_sample_widen(dtype, scalar, 1, &made->premul.factor);
    pthread_mutex_lock(&lock);
    made->next = operations;
    operations = made;
    pthread_mutex_unlock(&lock);
    return status;
}

static void forget(struct operation **place)
{
    struct operation *operation = *place;
    *place = operation->next;
    free(operation);
}

ncclResult_t cshim_premul_destroy(ncclRedOp_t op, ncclComm_t comm)
{
    const ncclResult_t status = cshim_nccl.real->RedOpDestroy(op, comm);
    pthread_mutex_lock(&lock);
    struct operation **place = find(op, comm);
    if (status == ncclSuccess && *place != NULL)
        forget(place);
    pthread_mutex_unlock(&lock);
    return status;
}

void cshim_premul_forget(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    for (struct operation **place = &operations; *place != NULL;) {
        if ((*place)->comm == comm)
            forget(place);
        else
            place = &(*place)->next;
    }
    pthread_mutex_unlock(&lock);
}
