/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libcuda, and for an MPI that accepts device buffers. "Device memory" is host memory
 * that only standin_cuda_copy and this library's MPI_Allreduce and PMPI_Allreduce can read or
 * write. */
#include <dlfcn.h>
#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define BYTES ((size_t)4 << 20)
#define MEMORY_TYPE 2
#define TYPE_DEVICE 2
#define INVALID_VALUE 1

EXPORT unsigned long standin_cuda_passed; /* number of all-reduces with device buffers */

/* Function of Open MPI and MPICH: returns true if the MPI accepts device buffers. */
EXPORT int MPIX_Query_cuda_support(void)
{
    return getenv("STANDIN_WITHOUT_CUDA") == NULL;
}

EXPORT int PMPIX_Query_cuda_support(void) __attribute__((alias("MPIX_Query_cuda_support")));

static char *memory;

static void allow(int protection)
{
    if (memory != NULL)
        mprotect(memory, BYTES, protection);
}

static int is_device(const void *pointer)
{
    const char *byte = pointer;
    return memory != NULL && byte >= memory && byte < memory + BYTES;
}

/* Returns the only piece of device memory, 4 MiB. */
EXPORT void *standin_cuda_memory(void)
{
    if (memory == NULL)
        memory = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory;
}

EXPORT void standin_cuda_copy(void *to, const void *from, size_t bytes)
{
    allow(PROT_READ | PROT_WRITE);
    memcpy(to, from, bytes);
    allow(PROT_NONE);
}

EXPORT int cuPointerGetAttribute(void *value, int attribute, unsigned long long pointer)
{
    if (attribute != MEMORY_TYPE || !is_device((const void *)(size_t)pointer))
        return INVALID_VALUE;
    *(unsigned *)value = TYPE_DEVICE;
    return 0;
}

EXPORT int PMPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                          MPI_Op op, MPI_Comm comm)
{
    int (*real)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Allreduce");
    if (is_device(sendbuf) || is_device(recvbuf))
        standin_cuda_passed++;
    allow(PROT_READ | PROT_WRITE);
    const int status = real(sendbuf, recvbuf, count, datatype, op, comm);
    allow(PROT_NONE);
    return status;
}

EXPORT int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                         MPI_Op op, MPI_Comm comm) __attribute__((alias("PMPI_Allreduce")));
