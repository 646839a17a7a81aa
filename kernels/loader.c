/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/loader.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* kernels/binary.S */
extern const unsigned char cshim_kernels_binary[] __attribute__((visibility("hidden")));

/* A process has one copy of the kernels. They are written once, under the lock; launches come after
 * the load that they need, and only read. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUlibrary library;
static CUkernel kernels[CSHIM_KERNEL_OPERATION_COUNT];

/* Loads the library, and finds the kernel of each operation, which is the same for all of its
 * codecs. */
static bool load_library(const struct cshim_cuda *cuda, char *why, size_t size)
{
    const char *what = "the driver does not take the kernels";
    CUlibrary loaded = NULL;
    if (library != NULL)
        return true;
    CUresult error =
        cuda->LibraryLoadData(&loaded, cshim_kernels_binary, NULL, NULL, 0, NULL, NULL, 0);
    for (int i = 0; i < CSHIM_KERNEL_OPERATION_COUNT && error == CUDA_SUCCESS; i++) {
        what = cshim_kernel_name((enum cshim_kernel_operation)i, CSHIM_CODEC_FP32);
        error = cuda->LibraryGetKernel(&kernels[i], loaded, what);
    }
    if (error == CUDA_SUCCESS) {
        library = loaded;
        return true;
    }
    cshim_cuda_explain(cuda, what, error, why, size);
    memset(kernels, 0, sizeof kernels);
    if (loaded != NULL)
        cuda->LibraryUnload(loaded);
    return false;
}

/* Loads every kernel onto the device of the current context. The first launch would do so too, but
 * could wait for a collective that waits for us. */
static bool load_all(const struct cshim_cuda *cuda, char *why, size_t size)
{
    for (int i = 0; i < CSHIM_KERNEL_OPERATION_COUNT; i++) {
        CUfunction function = NULL;
        CUresult error = cuda->KernelGetFunction(&function, kernels[i]);
        if (error == CUDA_SUCCESS && cuda->FuncLoad != NULL)
            error = cuda->FuncLoad(function);
        if (error != CUDA_SUCCESS) {
            cshim_cuda_explain(cuda, "the device does not take the kernels", error, why, size);
            return false;
        }
    }
    return true;
}

bool cshim_kernels_load(const struct cshim_cuda *cuda, char *why, size_t size)
{
    pthread_mutex_lock(&lock);
    const bool loaded = load_library(cuda, why, size) && load_all(cuda, why, size);
    pthread_mutex_unlock(&lock);
    return loaded;
}

/* Every structure begins with the codec. The driver copies it, takes a kernel for a function, and
 * finds the context by the stream. */
CUresult cshim_kernel_launch(const struct cshim_cuda *cuda, enum cshim_kernel_operation operation,
                             enum cshim_codec_id codec, CUstream stream, uint32_t blocks,
                             void *parameters)
{
    if (cshim_kernel_name(operation, codec) == NULL || kernels[operation] == NULL)
        return CUDA_ERROR_NOT_FOUND;
    *(uint32_t *)parameters = (uint32_t)codec;
    return cuda->LaunchKernel((CUfunction)kernels[operation], blocks, 1, 1, CSHIM_KERNEL_THREADS, 1,
                              1, 0, stream, &parameters, NULL);
}
