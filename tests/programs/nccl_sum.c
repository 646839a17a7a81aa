/* SPDX-License-Identifier: Apache-2.0 */
/* One all-reduce by NCCL, in a form that compiler options select:
 *
 *   -DLIBRARY            a library that exports nccl_sum, which returns whether the sum was right
 *   -DUSES="lib.so"      a program that opens that library RTLD_LOCAL, as Python opens extensions
 *   -DFETCHES            a program that opens NCCL by dlopen and looks its functions up by dlsym
 *   (none)               a program linked to NCCL */
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <unistd.h>

#ifdef FETCHES
static void *fetch(const char *name)
{
    static void *library;
    if (library == NULL)
        library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    void *address = library != NULL ? dlsym(library, name) : NULL;
    if (address == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(3);
    }
    return address;
}

#define FETCHED(name) ((__typeof__(name) *)fetch(#name))
#define ncclGetErrorString FETCHED(ncclGetErrorString)
#define ncclGetUniqueId FETCHED(ncclGetUniqueId)
#define ncclCommInitRank FETCHED(ncclCommInitRank)
#define ncclCommDestroy FETCHED(ncclCommDestroy)
#define ncclAllReduce FETCHED(ncclAllReduce)
#endif

#ifdef USES
static int sum(void)
{
    void *library = dlopen(USES, RTLD_NOW | RTLD_LOCAL);
    int (*nccl_sum)(void) = NULL;
    if (library != NULL)
        *(void **)&nccl_sum = dlsym(library, "nccl_sum");
    if (nccl_sum == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(3);
    }
    return nccl_sum();
}
#else
#include "tests/nccl/cases.h"

static int sum(void)
{
    enum { COUNT = 70001 };
    struct gpu_world world = gpu_join();
    float *data = device_part(world.rank, 1, COUNT);
    NCCL(ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, world.comm, world.stream));
    CUDA(cuStreamSynchronize(world.stream));
    want_sum(data, world.ranks, 1, COUNT, "the sum");
    gpu_leave(&world);
    return failures == 0;
}
#endif

#ifdef LIBRARY
int nccl_sum(void);
int nccl_sum(void)
{
    return sum();
}
#else
int main(void)
{
    return !sum();
}
#endif
