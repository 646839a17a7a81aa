/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/premul.h"

#include <stdlib.h>

#include "codecs/scalar.h"

struct operation {
    ncclRedOp_t op;
    ncclComm_t comm;
    struct cshim_premul premul;
    struct operation *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards operations */
static struct operation *operations;

/* The value of one element on the host. */
static double read_scalar(const void *scalar, ncclDataType_t datatype)
{
    uint16_t half;
    float single = 1;
    double value = 1;
    switch (datatype) {
    case ncclFloat64:
        memcpy(&value, scalar, sizeof value);
        return value;
    case ncclFloat32:
        memcpy(&single, scalar, sizeof single);
        return single;
    case ncclFloat16:
        memcpy(&half, scalar, sizeof half);
        return cshim_fp16_decode(half, 0);
    case ncclBfloat16:
        memcpy(&half, scalar, sizeof half);
        return cshim_bits_float((uint32_t)half << 16);
    default:
        return 1;
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
    struct operation *made = calloc(1, sizeof *made);
    if (made == NULL) /* the other ranks have made theirs: this one cannot go on without */
        return ncclSystemError;
    made->op = *op;
    made->comm = comm;
    if (residence == ncclScalarHostImmediate)
        made->premul.factor = read_scalar(scalar, datatype);
    else
        made->premul = (struct cshim_premul){.factor = 1, .factor_at = scalar};
    made->premul.datatype = datatype;
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
