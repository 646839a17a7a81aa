/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers on a GPU, for an MPI that takes them: recognised, passed on, never touched.
 *
 * CUDA is asked only where the process has it already. Whether a rank's buffers are on a device,
 * the other ranks cannot know: where some rank of the job may have such buffers, the ranks tell
 * each other before each compressed call, and none is compressed unless all are in host memory.
 */
#include "shim/mpi/device.h"

#include <dlfcn.h>
#include <unistd.h>

/* Of the driver's API, whose numbers are fixed. */
#define CUDA_MEMORY_TYPE_ATTRIBUTE 2
#define CUDA_MEMORY_TYPE_HOST 1
typedef int get_attribute(void *value, int attribute, unsigned long long pointer);

/* NULL as long as the process has no CUDA. */
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

/* Memory that CUDA does not know of gives an error. */
static bool is_on_device(get_attribute *function, const void *buffer)
{
    unsigned type = 0;
    if (buffer == NULL || buffer == MPI_IN_PLACE)
        return false;
    return function(&type, CUDA_MEMORY_TYPE_ATTRIBUTE, (uintptr_t)buffer) == 0 &&
           type != CUDA_MEMORY_TYPE_HOST;
}

int cshim_device_setup(void)
{
    int own = find_cuda() != NULL || access("/dev/nvidiactl", F_OK) == 0, any = 0;
    const int status =
        cshim_mpi.real->MPI_Allreduce(&own, &any, 1, MPI_INT, MPI_MAX, cshim_mpi.world);
    cshim_mpi.devices = any != 0;
    return status;
}

int cshim_device_check(const struct cshim_arguments *arguments, bool *any)
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
