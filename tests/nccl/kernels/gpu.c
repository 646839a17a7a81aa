/* SPDX-License-Identifier: Apache-2.0 */
/* Implements machine.h on the first GPU, with the engine's loader of the driver
 * (kernels/driver.h). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/nccl/kernels/gpu.h"
#include "tests/nccl/kernels/machine.h"

static int processors;

void gpu_check(CUresult error, const char *what)
{
    char why[CSHIM_CUDA_WHY_MAX];
    if (error == CUDA_SUCCESS)
        return;
    cshim_cuda_explain(what, error, why);
    fprintf(stderr, "%s\n", why);
    exit(1);
}

const struct cshim_cuda *gpu_cuda(void)
{
    return &cshim_cuda;
}

void machine_open(void)
{
    char why[CSHIM_CUDA_WHY_MAX];
    CUdevice device = 0;
    CUcontext context = NULL;
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == NULL || !cshim_cuda_open(why)) {
        fprintf(stderr, "no NVIDIA GPU here: libcuda.so.1 cannot be opened or used\n");
        exit(3);
    }
    if (cshim_cuda.Init(0) != CUDA_SUCCESS || cshim_cuda.DeviceGet(&device, 0) != CUDA_SUCCESS) {
        fprintf(stderr, "no NVIDIA GPU here\n");
        exit(3);
    }
    gpu_check(cshim_cuda.DevicePrimaryCtxRetain(&context, device), "opening the device");
    gpu_check(cshim_cuda.CtxPushCurrent(context), "opening the device");
    gpu_check(cshim_cuda.DeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                            device),
              "asking for the multiprocessors");
    if (!cshim_kernels_load(why)) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
}

const char *machine_name(void)
{
    return "the GPU";
}

bool machine_is_simulated(void)
{
    return false;
}

void *machine_allocate(size_t bytes)
{
    CUdeviceptr memory = 0;
    gpu_check(cshim_cuda.MemAlloc(&memory, bytes), "allocating");
    return (void *)(uintptr_t)memory;
}

void machine_bounds(void *memory, void *from, size_t bytes)
{
    (void)memory;
    (void)from;
    (void)bytes;
}

void machine_free(void *memory)
{
    gpu_check(cshim_cuda.StreamSynchronize(NULL), "the kernels");
    gpu_check(cshim_cuda.MemFree((CUdeviceptr)(uintptr_t)memory), "freeing");
}

static void copy_bytes(const void *to, const void *from, size_t bytes)
{
    gpu_check(cshim_cuda.MemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                     bytes, NULL),
              "copying");
    gpu_check(cshim_cuda.StreamSynchronize(NULL), "the kernels");
}

void machine_write(void *to, const void *from, size_t bytes)
{
    copy_bytes(to, from, bytes);
}

void machine_read(void *to, const void *from, size_t bytes)
{
    copy_bytes(to, from, bytes);
}

void machine_launch(enum cshim_kernel_operation operation, enum cshim_codec_id codec,
                    uint64_t count, void *parameters)
{
    const uint32_t blocks = cshim_kernel_blocks(operation, count, (uint32_t)processors);
    gpu_check(cshim_kernel_launch(operation, codec, NULL, blocks, parameters),
              "launching a kernel");
}
