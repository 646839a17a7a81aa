/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* CUDA 12.0 introduced kernel libraries (cuLibrary*) and cuGetProcAddress_v2. */
#define OLDEST_VERSION "12.0"

struct cshim_cuda cshim_cuda;

/* Guards the writes to the table and to the kernels. Readers need no lock: they run after the call
 * that has filled the table or loaded the kernels. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Looks one function up. Returns false, and sets the pointer at `member` to NULL, if the driver
 * does not have it. memcpy converts the driver's pointer, because ISO C has no cast from an object
 * pointer to a function pointer. */
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

static bool fill_table(char why[CSHIM_CUDA_WHY_MAX])
{
    void *library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
    if (library == NULL) {
        snprintf(why, CSHIM_CUDA_WHY_MAX, "no libcuda.so.1 is loaded in this process");
        return false;
    }
    PFN_cuGetProcAddress_v12000 get_address = NULL;
    void *symbol = dlsym(library, "cuGetProcAddress_v2");
    dlclose(library); /* drops only the reference that dlopen took; libcuda stays loaded */
    if (symbol == NULL) {
        snprintf(why, CSHIM_CUDA_WHY_MAX, "the CUDA driver is older than " OLDEST_VERSION);
        return false;
    }
    memcpy(&get_address, &symbol, sizeof symbol);
#define REQUIRE(name, version)                                                                     \
    if (!find(get_address, "cu" #name, version, &cshim_cuda.name)) {                               \
        snprintf(why, CSHIM_CUDA_WHY_MAX,                                                          \
                 "the CUDA driver has no cu" #name "; it has to be " OLDEST_VERSION " or newer");  \
        return false;                                                                              \
    }
#define WISH(name, version) find(get_address, "cu" #name, version, &cshim_cuda.name);
    CSHIM_CUDA_REQUIRED(REQUIRE)
    CSHIM_CUDA_OPTIONAL(WISH)
#undef REQUIRE
#undef WISH
    return true;
}

bool cshim_cuda_open(char why[CSHIM_CUDA_WHY_MAX])
{
    static bool is_open;
    pthread_mutex_lock(&lock);
    is_open = is_open || fill_table(why);
    if (!is_open)
        memset(&cshim_cuda, 0, sizeof cshim_cuda);
    const bool opened = is_open;
    pthread_mutex_unlock(&lock);
    return opened;
}

void cshim_cuda_explain(const char *what, CUresult error, char why[CSHIM_CUDA_WHY_MAX])
{
    const char *name = NULL, *description = NULL;
    if (cshim_cuda.GetErrorName(error, &name) != CUDA_SUCCESS || name == NULL)
        name = "unknown error";
    if (cshim_cuda.GetErrorString(error, &description) != CUDA_SUCCESS || description == NULL)
        description = "no description";
    snprintf(why, CSHIM_CUDA_WHY_MAX, "%s: %s (%s)", what, name, description);
}

/* Defined in kernels/binary.S. */
extern const unsigned char cshim_kernels_binary[] __attribute__((visibility("hidden")));

/* One copy of the kernels serves the whole process. */
static CUlibrary library;
static CUkernel kernels[CSHIM_KERNEL_OPERATION_COUNT];

/* Gets the kernel of each operation (one for all codecs) and loads it onto the device of the
 * current context. The first launch would load it too, but that load could wait for a collective
 * that waits for this rank. */
static bool load(char why[CSHIM_CUDA_WHY_MAX])
{
    const char *what = "the driver does not take the kernels";
    CUresult error = CUDA_SUCCESS;
    if (library == NULL)
        error = cshim_cuda.LibraryLoadData(&library, cshim_kernels_binary, NULL, NULL, 0, NULL,
                                           NULL, 0);
    for (int i = 0; i < CSHIM_KERNEL_OPERATION_COUNT && error == CUDA_SUCCESS; i++) {
        CUfunction function = NULL;
        if (kernels[i] == NULL) {
            what = cshim_kernel_name((enum cshim_kernel_operation)i, CSHIM_CODEC_FP32);
            error = cshim_cuda.LibraryGetKernel(&kernels[i], library, what);
        }
        if (error != CUDA_SUCCESS)
            break;
        what = "the device does not take the kernels";
        error = cshim_cuda.KernelGetFunction(&function, kernels[i]);
        if (error == CUDA_SUCCESS && cshim_cuda.FuncLoad != NULL)
            error = cshim_cuda.FuncLoad(function);
    }
    if (error != CUDA_SUCCESS)
        cshim_cuda_explain(what, error, why);
    return error == CUDA_SUCCESS;
}

bool cshim_kernels_load(char why[CSHIM_CUDA_WHY_MAX])
{
    pthread_mutex_lock(&lock);
    const bool loaded = load(why);
    pthread_mutex_unlock(&lock);
    return loaded;
}

/* The driver copies the parameters, accepts a CUkernel as a CUfunction, and takes the context from
 * the stream. */
CUresult cshim_kernel_launch(enum cshim_kernel_operation operation, enum cshim_codec_id codec,
                             CUstream stream, uint32_t blocks, void *parameters)
{
    if (cshim_kernel_name(operation, codec) == NULL || kernels[operation] == NULL)
        return CUDA_ERROR_NOT_FOUND;
    cshim_kernel_set_codec(parameters, codec);
    return cshim_cuda.LaunchKernel((CUfunction)kernels[operation], blocks, 1, 1,
                                   CSHIM_KERNEL_THREADS, 1, 1, 0, stream, &parameters, NULL);
}
