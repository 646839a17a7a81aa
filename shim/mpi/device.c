/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers on a GPU, for an MPI that takes them: they are recognised and passed through, and never
 * touched.
 *
 * CUDA is asked only in a process that has it already. A rank cannot know whether the buffers of
 * another rank are on a device. So if some rank of the job may have such buffers, the ranks tell
 * each other before each compressed call, and the call is compressed only if all buffers are in
 * host memory.
 */
#include "shim/mpi/device.h"

#include <dlfcn.h>
#include <unistd.h>

/* Numbers of the CUDA driver's interface, which do not change. */
#define CUDA_MEMORY_TYPE_ATTRIBUTE 2
#define CUDA_MEMORY_TYPE_HOST 1
typedef int get_attribute(void *value, int attribute, unsigned long long pointer);

/* Finds cuPointerGetAttribute. Returns NULL as long as the process has no CUDA. */
static get_attribute *find_cuda(void)
{
    static get_attribute *found;
    get_attribute *function = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
    void *library = function == NULL ? dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY) : NULL;
    if (library == NULL)
        return function;
    function = (get_attribute *)dlsym(library, "cuPointerGetAttribute");
    __atomic_store_n(&found, function, __ATOMIC_RELEASE);
    dlclose(library);
    return function;
}

/* Asks CUDA, which returns an error for memory that it does not know. */
static bool is_on_device(get_attribute *function, const void *buffer)
{
    unsigned type = 0;
    if (buffer == NULL || buffer == MPI_IN_PLACE)
        return false;
    return function(&type, CUDA_MEMORY_TYPE_ATTRIBUTE, (uintptr_t)buffer) == 0 &&
           type != CUDA_MEMORY_TYPE_HOST;
}

/* Whether this MPI takes buffers on a GPU: it says so itself, if it is one that can. Where the
 * function has a profiled name, too, a tool may have the other. */
static bool takes_device_buffers(void)
{
    static const char *const names[] = {"PMPIX_Query_cuda_support", "MPIX_Query_cuda_support"};
    int (*function)(void) = NULL;
    void *library = cshim_mpi_library();
    for (int i = 0; i < 2 && function == NULL; i++) {
        *(void **)&function = dlsym(RTLD_DEFAULT, names[i]);
        if (function == NULL && library != NULL)
            *(void **)&function = dlsym(library, names[i]);
    }
    if (library != NULL)
        dlclose(library);
    return function == NULL || function() != 0;
}

int cshim_mpi_device_setup(void)
{
    int any = 0, own = takes_device_buffers() &&
                       (find_cuda() != NULL || access("/dev/nvidiactl", F_OK) == 0);
    const int status =
        cshim_mpi.real->MPI_Allreduce(&own, &any, 1, MPI_INT, MPI_MAX, cshim_mpi.world);
    cshim_mpi.devices = any != 0;
    return status;
}

int cshim_mpi_device_check(const struct cshim_arguments *arguments, bool *any)
{
    int own = 0, all = 0;
    *any = false;
    if (!cshim_mpi.devices)
        return MPI_SUCCESS;
    get_attribute *function = find_cuda();
    if (function != NULL)
        own = is_on_device(function, arguments->sendbuf) ||
              is_on_device(function, arguments->recvbuf);
    const int status =
        cshim_mpi.real->MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MAX, arguments->comm);
    *any = all != 0;
    return status;
}
