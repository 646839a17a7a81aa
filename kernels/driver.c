/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The first version with libraries of kernels and with cuGetProcAddress_v2. */
#define OLDEST_VERSION "12.0"

/* Looks one function up. The driver's pointers go through memcpy: ISO C has no cast from an object
 * pointer to a function's. */
static bool find(PFN_cuGetProcAddress_v12000 get_address, const char *name, int version,
                 void *member)
{
    void *address = NULL;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const CUresult error =
        get_address(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
    if (error != CUDA_SUCCESS || found != CU_GET_PROC_ADDRESS_SUCCESS)
        address = NULL;
    memcpy(member, &address, sizeof address);
    return address != NULL;
}

bool cshim_cuda_open(struct cshim_cuda *cuda, char why[CSHIM_CUDA_WHY_MAX])
{
    memset(cuda, 0, sizeof *cuda);
    void *library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
    if (library == NULL) {
        snprintf(why, CSHIM_CUDA_WHY_MAX, "no libcuda.so.1 is loaded in this process");
        return false;
    }
    PFN_cuGetProcAddress_v12000 get_address = NULL;
    void *symbol = dlsym(library, "cuGetProcAddress_v2");
    dlclose(library); /* the process keeps it: this gives back the reference that dlopen took */
    if (symbol == NULL) {
        snprintf(why, CSHIM_CUDA_WHY_MAX, "the CUDA driver is older than " OLDEST_VERSION);
        return false;
    }
    memcpy(&get_address, &symbol, sizeof symbol);
#define REQUIRE(name, version)                                                                     \
    if (!find(get_address, "cu" #name, version, &cuda->name)) {                                    \
        snprintf(why, CSHIM_CUDA_WHY_MAX,                                                          \
                 "the CUDA driver has no cu" #name "; it has to be " OLDEST_VERSION " or newer");  \
        return false;                                                                              \
    }
#define WISH(name, version) find(get_address, "cu" #name, version, &cuda->name);
    CSHIM_CUDA_REQUIRED(REQUIRE)
    CSHIM_CUDA_OPTIONAL(WISH)
#undef REQUIRE
#undef WISH
    return true;
}

void cshim_cuda_explain(const struct cshim_cuda *cuda, const char *what, CUresult error,
                        char why[CSHIM_CUDA_WHY_MAX])
{
    const char *name = NULL, *description = NULL;
    if (cuda->GetErrorName(error, &name) != CUDA_SUCCESS || name == NULL)
        name = "unknown error";
    if (cuda->GetErrorString(error, &description) != CUDA_SUCCESS || description == NULL)
        description = "no description";
    snprintf(why, CSHIM_CUDA_WHY_MAX, "%s: %s (%s)", what, name, description);
}

/* kernels/binary.S */
extern const unsigned char cshim_kernels_binary[] __attribute__((visibility("hidden")));

/* A process has one copy of the kernels. They are written once, under the lock; launches come after
 * the load that they need, and only read. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUlibrary library;
static CUkernel kernels[CSHIM_KERNEL_OPERATION_COUNT];

/* Loads the library, and finds the kernel of each operation, which is the same for all of its
 * codecs. */
static bool load_library(const struct cshim_cuda *cuda, char why[CSHIM_CUDA_WHY_MAX])
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
    cshim_cuda_explain(cuda, what, error, why);
    memset(kernels, 0, sizeof kernels);
    if (loaded != NULL)
        cuda->LibraryUnload(loaded);
    return false;
}

/* Loads every kernel onto the device of the current context. The first launch would do so too, but
 * could wait for a collective that waits for us. */
static bool load_all(const struct cshim_cuda *cuda, char why[CSHIM_CUDA_WHY_MAX])
{
    for (int i = 0; i < CSHIM_KERNEL_OPERATION_COUNT; i++) {
        CUfunction function = NULL;
        CUresult error = cuda->KernelGetFunction(&function, kernels[i]);
        if (error == CUDA_SUCCESS && cuda->FuncLoad != NULL)
            error = cuda->FuncLoad(function);
        if (error != CUDA_SUCCESS) {
            cshim_cuda_explain(cuda, "the device does not take the kernels", error, why);
            return false;
        }
    }
    return true;
}

bool cshim_kernels_load(const struct cshim_cuda *cuda, char why[CSHIM_CUDA_WHY_MAX])
{
    pthread_mutex_lock(&lock);
    const bool loaded = load_library(cuda, why) && load_all(cuda, why);
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
