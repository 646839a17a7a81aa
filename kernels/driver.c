/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/driver.h"

#include <dlfcn.h>
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

bool cshim_cuda_open(struct cshim_cuda *cuda, char *why, size_t size)
{
    memset(cuda, 0, sizeof *cuda);
    void *library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
    if (library == NULL) {
        snprintf(why, size, "no libcuda.so.1 is loaded in this process");
        return false;
    }
    PFN_cuGetProcAddress_v12000 get_address = NULL;
    void *symbol = dlsym(library, "cuGetProcAddress_v2");
    dlclose(library); /* the process keeps it: this gives back the reference that dlopen took */
    if (symbol == NULL) {
        snprintf(why, size, "the CUDA driver is older than " OLDEST_VERSION);
        return false;
    }
    memcpy(&get_address, &symbol, sizeof symbol);
#define REQUIRE(name, version)                                                                     \
    if (!find(get_address, "cu" #name, version, &cuda->name)) {                                    \
        snprintf(why, size,                                                                        \
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

void cshim_cuda_explain(const struct cshim_cuda *cuda, const char *what, CUresult error, char *why,
                        size_t size)
{
    const char *name = NULL, *description = NULL;
    if (cuda->GetErrorName(error, &name) != CUDA_SUCCESS || name == NULL)
        name = "unknown error";
    if (cuda->GetErrorString(error, &description) != CUDA_SUCCESS || description == NULL)
        description = "no description";
    snprintf(why, size, "%s: %s (%s)", what, name, description);
}
