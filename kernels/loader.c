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

/* Finds the kernel of each operation, which is the same for all of its codecs. */
static bool find_kernels(const struct cshim_cuda *cuda, CUlibrary loaded, char *why, size_t size)
{
    for (int i = 0; i < CSHIM_KERNEL_OPERATION_COUNT; i++) {
        const char *name =
            cshim_kernel_name((enum cshim_kernel_operation)i,
                              i == CSHIM_KERNEL_LARGEST ? CSHIM_CODEC_NONE : CSHIM_CODEC_FP32);
        const CUresult error = cuda->LibraryGetKernel(&kernels[i], loaded, name);
        if (error != CUDA_SUCCESS) {
            cshim_cuda_explain(cuda, name, error, why, size);
            return false;
        }
    }
    return true;
}

static bool load_library(const struct cshim_cuda *cuda, char *why, size_t size)
{
    if (library != NULL)
        return true;
    CUlibrary loaded = NULL;
    const CUresult error =
        cuda->LibraryLoadData(&loaded, cshim_kernels_binary, NULL, NULL, 0, NULL, NULL, 0);
    if (error != CUDA_SUCCESS) {
        cshim_cuda_explain(cuda, "the driver does not take the kernels", error, why, size);
        return false;
    }
    if (!find_kernels(cuda, loaded, why, size)) {
        memset(kernels, 0, sizeof kernels);
        cuda->LibraryUnload(loaded);
        return false;
    }
    library = loaded;
    return true;
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

bool cshim_kernels_load(const struct cshim_cuda *cuda, CUcontext context, char *why, size_t size)
{
    CUresult error = cuda->CtxPushCurrent(context);
    if (error != CUDA_SUCCESS) {
        cshim_cuda_explain(cuda, "the device's context cannot be made current", error, why, size);
        return false;
    }
    /* Another thread may be capturing a stream in global mode, which would forbid loading to a
     * thread that is not in relaxed mode. */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    error = cuda->ThreadExchangeStreamCaptureMode(&mode);
    const bool exchanged = error == CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    const bool loaded = load_library(cuda, why, size) && load_all(cuda, why, size);
    pthread_mutex_unlock(&lock);
    if (exchanged)
        cuda->ThreadExchangeStreamCaptureMode(&mode);
    cuda->CtxPopCurrent(&context);
    return loaded;
}

/* Every structure begins with the codec. */
union parameters {
    uint32_t codec;
    struct cshim_kernel_encode encode;
    struct cshim_kernel_decode decode;
    struct cshim_kernel_reduce reduce;
    struct cshim_kernel_largest largest;
    struct cshim_kernel_cast cast;
};

/* Fills in the codec, and clears the options of operations without options and of lossless codecs.
 */
static void complete(enum cshim_kernel_operation operation, enum cshim_codec_id codec,
                     union parameters *parameters)
{
    const bool lossless = codec == CSHIM_CODEC_RAW || codec == CSHIM_CODEC_FP32;
    parameters->codec = (uint32_t)codec;
    if (operation == CSHIM_KERNEL_ENCODE || (operation == CSHIM_KERNEL_ENCODE_OPTIONS && lossless))
        memset(&parameters->encode.options, 0, sizeof parameters->encode.options);
    if (operation == CSHIM_KERNEL_REDUCE ||
        ((operation == CSHIM_KERNEL_REDUCE_OPTIONS || operation == CSHIM_KERNEL_REDUCE_DOUBLE) &&
         lossless))
        memset(&parameters->reduce.options, 0, sizeof parameters->reduce.options);
}

CUresult cshim_kernel_launch(const struct cshim_cuda *cuda, enum cshim_kernel_operation operation,
                             enum cshim_codec_id codec, CUstream stream, uint32_t blocks,
                             const void *parameters)
{
    if (cshim_kernel_name(operation, codec) == NULL || kernels[operation] == NULL)
        return CUDA_ERROR_NOT_FOUND;
    union parameters copy;
    memcpy(&copy, parameters, cshim_kernel_parameter_bytes(operation));
    complete(operation, codec, &copy);
    void *arguments[] = {&copy};
    /* The driver takes a kernel for a function, and finds the context by the stream. */
    return cuda->LaunchKernel((CUfunction)kernels[operation], blocks, 1, 1, CSHIM_KERNEL_THREADS, 1,
                              1, 0, stream, arguments, NULL);
}
