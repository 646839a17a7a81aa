/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: libraries of kernels, and launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "tests/nccl/standin/cuda_internal.h"

/* Fat binary that nvcc writes: a header, followed by an entry for each architecture. */
#define IMAGE_MAGIC 0xba55ed50u

struct image {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* bytes of the entries */
};

enum entry_kind { ENTRY_PTX = 1, ENTRY_BINARY = 2 };

struct image_entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t unused[3];
    uint32_t architecture; /* for example 90 for sm_90 */
};

struct CUlib_st {
    uint32_t magic;
    const uint8_t *code;
    size_t bytes;
};

struct CUkern_st {
    uint32_t magic;
    CUlibrary library;
    const char *name;
    uint32_t parameter_bytes;
    uint32_t loaded; /* bit mask of devices */
};

/* A kernel in a context, loaded or not. */
struct CUfunc_st {
    uint32_t magic;
    CUkernel kernel;
    CUcontext context;
};

/* Returns CUDA_SUCCESS if an entry runs on the device: machine code of the same major architecture,
 * or PTX, neither of a newer one. */
static CUresult check_image(const uint8_t *code, size_t *bytes)
{
    struct image image;
    memcpy(&image, code, sizeof image);
    if (image.magic != IMAGE_MAGIC || image.header_bytes < sizeof image)
        return CUDA_ERROR_INVALID_IMAGE;
    const uint32_t device = (uint32_t)standin_setting("STANDIN_SM", 90);
    bool runs = false;
    uint64_t at = 0;
    while (at + sizeof(struct image_entry) <= image.bytes) {
        struct image_entry entry;
        memcpy(&entry, code + image.header_bytes + at, sizeof entry);
        if ((entry.kind != ENTRY_PTX && entry.kind != ENTRY_BINARY) ||
            entry.header_bytes < sizeof entry)
            return CUDA_ERROR_INVALID_IMAGE;
        runs = runs || (entry.architecture <= device &&
                        (entry.kind == ENTRY_PTX || entry.architecture / 10 == device / 10));
        at += entry.header_bytes + entry.bytes;
    }
    if (at != image.bytes)
        return CUDA_ERROR_INVALID_IMAGE;
    *bytes = image.header_bytes + image.bytes;
    return runs ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

STANDIN_EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code,
                                          CUjit_option *jit_options, void **jit_values,
                                          unsigned int jit_count, CUlibraryOption *options,
                                          void **values, unsigned int count)
{
    STANDIN_ENTER();
    (void)jit_options, (void)jit_values, (void)options, (void)values;
    STANDIN_CHECK(standin_unsafe());
    if (library == NULL || code == NULL || jit_count != 0 || count != 0)
        return CUDA_ERROR_INVALID_VALUE;
    size_t bytes = 0;
    CUresult status = check_image(code, &bytes);
    if (status != CUDA_SUCCESS)
        return status;
    *library = standin_zeros(sizeof **library);
    **library = (struct CUlib_st){STANDIN_LIBRARY, code, bytes};
    return CUDA_SUCCESS;
}

/* Returns true if an uncompressed image lacks the name of a kernel. */
static bool image_lacks(CUlibrary library, const char *name)
{
    return memmem(library->code, library->bytes, "cshim_", 6) != NULL &&
           memmem(library->code, library->bytes, name, strlen(name)) == NULL;
}

STANDIN_EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    STANDIN_ENTER();
    if (library == NULL || library->magic != STANDIN_LIBRARY)
        return CUDA_ERROR_INVALID_HANDLE;
    const uint32_t bytes = standin_kernel_parameter_bytes(name);
    if (bytes == 0 || image_lacks(library, name))
        return CUDA_ERROR_NOT_FOUND;
    *kernel = standin_zeros(sizeof **kernel);
    **kernel = (struct CUkern_st){STANDIN_KERNEL, library, strdup(name), bytes, 0};
    return CUDA_SUCCESS;
}

static bool is_kernel(CUkernel kernel)
{
    return kernel != NULL && kernel->magic == STANDIN_KERNEL;
}

/* Loads a kernel. Its first load on a device waits for all work of the context, as the real driver
 * may: if another kernel runs there and waits for the host, this call never returns. */
static CUresult load(CUkernel kernel, CUcontext context)
{
    CUresult status = CUDA_SUCCESS;
    pthread_mutex_lock(&standin_lock);
    if ((kernel->loaded >> context->device & 1u) == 0)
        status = standin_context_wait(context);
    if (status == CUDA_SUCCESS)
        kernel->loaded |= 1u << context->device;
    pthread_mutex_unlock(&standin_lock);
    return status;
}

STANDIN_EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    STANDIN_ENTER();
    CUcontext context;
    STANDIN_CHECK(standin_current_state(&context));
    if (!is_kernel(kernel) || kernel->library->magic != STANDIN_LIBRARY)
        return CUDA_ERROR_INVALID_HANDLE;
    *function = standin_zeros(sizeof **function);
    **function = (struct CUfunc_st){STANDIN_FUNCTION, kernel, context};
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuFuncLoad(CUfunction function)
{
    STANDIN_ENTER();
    if (function == NULL || function->magic != STANDIN_FUNCTION)
        return CUDA_ERROR_INVALID_HANDLE;
    const CUresult status = standin_unsafe();
    return status == CUDA_SUCCESS ? load(function->kernel, function->context) : status;
}

/* Launches ------------------------------------------------------------------------------------- */
struct kernel_launch {
    const char *name;
    int device;
    max_align_t parameters[];
};

static CUresult run_launch(void *payload, uint64_t ticket)
{
    const struct kernel_launch *launch = payload;
    (void)ticket;
    standin_spend(0.1, 0);
    return standin_kernel_run(launch->name, launch->device, launch->parameters);
}

static CUresult launch(CUkernel kernel, CUstream stream, void **parameters)
{
    if (kernel->library->magic != STANDIN_LIBRARY)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((kernel->loaded >> stream->context->device & 1u) == 0) {
        fprintf(stderr, "standin libcuda: %s is loaded by its first launch\n", kernel->name);
        if (stream->capture != NULL) {
            pthread_mutex_lock(&standin_lock);
            standin_capture_invalidate(stream->capture);
            pthread_mutex_unlock(&standin_lock);
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
        const CUresult status = load(kernel, stream->context);
        if (status != CUDA_SUCCESS)
            return status;
    }
    struct kernel_launch *launch = standin_zeros(sizeof *launch + kernel->parameter_bytes);
    launch->name = kernel->name;
    launch->device = stream->context->device;
    memcpy(launch->parameters, parameters[0], kernel->parameter_bytes);
    return standin_enqueue(stream, standin_op_new(kernel->name, run_launch, free, launch));
}

STANDIN_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x,
                                       unsigned int grid_y, unsigned int grid_z,
                                       unsigned int block_x, unsigned int block_y,
                                       unsigned int block_z, unsigned int shared_bytes,
                                       CUstream handle, void **parameters, void **extra)
{
    STANDIN_ENTER();
    CUstream stream;
    if (function == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    STANDIN_CHECK(standin_stream_of(handle, &stream));
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x != CSHIM_KERNEL_THREADS ||
        block_y != 1 || block_z != 1 || shared_bytes != 0 || parameters == NULL || extra != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    /* The handle may be a CUkernel; then the stream determines the context. */
    if (is_kernel((CUkernel)function))
        return launch((CUkernel)function, stream, parameters);
    if (function->magic != STANDIN_FUNCTION || function->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    return launch(function->kernel, stream, parameters);
}
