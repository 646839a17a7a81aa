/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for cuBLAS (runtime.h). */
#include <cblas.h>
#include <cublas_v2.h>
#include <stdlib.h>

#include "tests/nccl/runtime/runtime.h"

struct cublasContext {
    CUstream stream;
};

/* A column-major matrix, with columns `stride` elements apart. */
struct operand {
    const float *values;
    int rows, columns, stride;
    cublasOperation_t operation;
};

/* result = alpha * op(left) * op(right) + beta * result; a vector is a matrix of one column. */
struct product {
    int device;
    struct operand left, right, result;
    int inner;
    float alpha, beta;
};

static float *access_operand(const struct product *product, const struct operand *operand,
                             bool write)
{
    size_t count = (size_t)operand->stride * (size_t)(operand->columns - 1) + (size_t)operand->rows;
    return standin_driver.memory(product->device, operand->values, count * sizeof(float), write,
                                 "cublasSgemm");
}

static CBLAS_TRANSPOSE transpose(cublasOperation_t operation)
{
    return operation == CUBLAS_OP_N ? CblasNoTrans : CblasTrans;
}

static CUresult run(void *payload, uint64_t ticket)
{
    const struct product *product = payload;
    const float *left = access_operand(product, &product->left, false);
    const float *right = access_operand(product, &product->right, false);
    float *result = access_operand(product, &product->result, true);
    (void)ticket;
    if (left == NULL || right == NULL || result == NULL)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    cblas_sgemm(CblasColMajor, transpose(product->left.operation),
                transpose(product->right.operation), product->result.rows, product->result.columns,
                product->inner, product->alpha, left, product->left.stride, right,
                product->right.stride, product->beta, result, product->result.stride);
    return CUDA_SUCCESS;
}

static cublasStatus_t start(cublasHandle_t handle, struct product product)
{
    const struct operand *operands[] = {&product.left, &product.right, &product.result};
    for (int i = 0; i < 3; i++)
        if (operands[i]->rows < 1 || operands[i]->columns < 1 ||
            operands[i]->stride < operands[i]->rows)
            return CUBLAS_STATUS_INVALID_VALUE;
    CUcontext context = standin_driver.stream_context(handle->stream);
    struct product *payload = context != NULL ? malloc(sizeof *payload) : NULL;
    if (payload == NULL)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *payload = product;
    payload->device = standin_driver.device_of(context);
    struct standin_op *op = standin_driver.op_new("cublasSgemm", run, free, payload);
    return standin_driver.enqueue(handle->stream, context, op) == CUDA_SUCCESS
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}

STANDIN_EXPORT cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
    *handle = calloc(1, sizeof **handle);
    return *handle != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

STANDIN_EXPORT cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

STANDIN_EXPORT const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_INVALID_VALUE ? "an invalid value" : "stand-in's error";
}

STANDIN_EXPORT cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t left_operation,
                                          cublasOperation_t right_operation, int rows, int columns,
                                          int inner, const float *alpha, const float *left,
                                          int left_stride, const float *right, int right_stride,
                                          const float *beta, float *result, int result_stride)
{
    bool left_plain = left_operation == CUBLAS_OP_N, right_plain = right_operation == CUBLAS_OP_N;
    return start(
        handle,
        (struct product){.left = {left, left_plain ? rows : inner, left_plain ? inner : rows,
                                  left_stride, left_operation},
                         .right = {right, right_plain ? inner : columns,
                                   right_plain ? columns : inner, right_stride, right_operation},
                         .result = {result, rows, columns, result_stride, CUBLAS_OP_N},
                         .inner = inner,
                         .alpha = *alpha,
                         .beta = *beta});
}

/* Supports only vectors whose elements are adjacent. */
STANDIN_EXPORT cublasStatus_t cublasSgemv(cublasHandle_t handle, cublasOperation_t operation,
                                          int rows, int columns, const float *alpha,
                                          const float *matrix, int stride, const float *vector,
                                          int vector_step, const float *beta, float *result,
                                          int result_step)
{
    int results = operation == CUBLAS_OP_N ? rows : columns;
    int inner = operation == CUBLAS_OP_N ? columns : rows;
    if (vector_step != 1 || result_step != 1)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return start(handle, (struct product){.left = {matrix, rows, columns, stride, operation},
                                          .right = {vector, inner, 1, inner, CUBLAS_OP_N},
                                          .result = {result, results, 1, results, CUBLAS_OP_N},
                                          .inner = inner,
                                          .alpha = *alpha,
                                          .beta = *beta});
}
