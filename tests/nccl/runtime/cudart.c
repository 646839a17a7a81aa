/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA runtime (runtime.h). The runtime's errors have the numbers of the driver's.
 */
#include <cuda_runtime_api.h>

#include "tests/nccl/runtime/runtime.h"

enum { KERNELS_MAX = 64 };

/* Kernels that code made by nvcc has registered at the program's start. */
static struct {
    const void *function;
    const char *name;
} kernels[KERNELS_MAX];
static int kernel_count;

static _Thread_local cudaError_t last;
static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configuration;

static cudaError_t result(CUresult status)
{
    if (status != CUDA_SUCCESS)
        last = (cudaError_t)status;
    return (cudaError_t)status;
}

/* Makes the context of a device current, and creates it at the first call. With device -1, keeps
 * the current context, or takes device 0's if there is none. */
static CUresult use(int device)
{
    CUcontext context = NULL;
    CUresult status = cuInit(0);
    if (status == CUDA_SUCCESS && device < 0)
        status = cuCtxGetCurrent(&context);
    if (status != CUDA_SUCCESS || context != NULL)
        return status;
    status = cuDevicePrimaryCtxRetain(&context, device > 0 ? device : 0);
    return status == CUDA_SUCCESS ? cuCtxSetCurrent(context) : status;
}

#define IN_CONTEXT(call) (use(-1) == CUDA_SUCCESS ? result(call) : result(use(-1)))

/* Functions that nvcc's code calls ------------------------------------------------------------- */
STANDIN_EXPORT void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;
    handle = binary;
    return &handle;
}

STANDIN_EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

STANDIN_EXPORT void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

STANDIN_EXPORT void __cudaRegisterFunction(void **handle, const char *function, char *device,
                                           const char *name, int threads, uint3 *thread,
                                           uint3 *block, dim3 *blocks, dim3 *grid, int *warp)
{
    (void)handle, (void)device, (void)threads, (void)thread, (void)block, (void)blocks, (void)grid,
        (void)warp;
    if (kernel_count == KERNELS_MAX)
        return;
    kernels[kernel_count].function = function;
    kernels[kernel_count++].name = name;
}

STANDIN_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                    cudaStream_t stream)
{
    configuration.grid = grid;
    configuration.block = block;
    configuration.shared = shared;
    configuration.stream = stream;
    return 0;
}

STANDIN_EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                                      void *stream)
{
    *grid = configuration.grid;
    *block = configuration.block;
    *shared = configuration.shared;
    *(cudaStream_t *)stream = configuration.stream;
    return cudaSuccess;
}

STANDIN_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
    *kernel = (cudaKernel_t)function;
    return cudaSuccess;
}

STANDIN_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                              void **arguments, size_t shared, cudaStream_t stream)
{
    if (grid.y != 1 || grid.z != 1 || block.y != 1 || block.z != 1 || shared != 0 || grid.x == 0 ||
        block.x == 0 || block.x > 1024)
        return result(CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < kernel_count; i++)
        if (kernels[i].function == (const void *)kernel)
            return IN_CONTEXT(runtime_launch(
                kernels[i].name, (struct runtime_grid){grid.x, block.x}, arguments, stream));
    return result(CUDA_ERROR_NOT_FOUND);
}

/* Functions that the program calls ------------------------------------------------------------- */
STANDIN_EXPORT cudaError_t cudaGetLastError(void)
{
    const cudaError_t status = last;
    last = cudaSuccess;
    return status;
}

STANDIN_EXPORT const char *cudaGetErrorString(cudaError_t status)
{
    const char *text = NULL;
    return cuGetErrorString((CUresult)status, &text) == CUDA_SUCCESS ? text : "unknown error";
}

STANDIN_EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
    const CUresult status = cuInit(0);
    return result(status == CUDA_SUCCESS ? cuDeviceGetCount(count) : status);
}

STANDIN_EXPORT cudaError_t cudaSetDevice(int device)
{
    return result(use(device));
}

STANDIN_EXPORT cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    CUdeviceptr address = 0;
    const cudaError_t status = IN_CONTEXT(cuMemAlloc(&address, bytes));
    *memory = (void *)(uintptr_t)address;
    return status;
}

STANDIN_EXPORT cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return IN_CONTEXT(cuMemAllocHost(memory, bytes));
}

STANDIN_EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                           enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind;
    return IN_CONTEXT(
        cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes, stream));
}

STANDIN_EXPORT cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes,
                                           cudaStream_t stream)
{
    return IN_CONTEXT(
        cuMemsetD8Async((CUdeviceptr)(uintptr_t)memory, (unsigned char)value, bytes, stream));
}

STANDIN_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return IN_CONTEXT(cuStreamCreate(stream, flags));
}

STANDIN_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return IN_CONTEXT(cuStreamSynchronize(stream));
}

STANDIN_EXPORT cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return IN_CONTEXT(cuEventCreate(event, 0));
}

STANDIN_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return IN_CONTEXT(cuEventRecord(event, stream));
}

STANDIN_EXPORT cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin,
                                                cudaEvent_t end)
{
    return IN_CONTEXT(cuEventElapsedTime(milliseconds, begin, end));
}
