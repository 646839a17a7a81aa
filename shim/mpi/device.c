/* SPDX-License-Identifier: Apache-2.0 */
/* Asks CUDA only in a process that has loaded it. A rank cannot know whether another rank's buffers
 * are on a GPU. So if any rank of the job may have such buffers, the ranks exchange a flag before
 * each blocking call that would be compressed, and compress it only if all buffers are in host
 * memory. All nonblocking and persistent calls of such a job are passed through. */
#include "shim/mpi/device.h"

#include <dlfcn.h>
#include <unistd.h>

/* Values of the CUDA driver API (cuda.h), which are stable. */
#define CUDA_MEMORY_TYPE_ATTRIBUTE 2
#define CUDA_MEMORY_TYPE_HOST 1
typedef int get_attribute(void *value, int attribute, unsigned long long pointer);

/* Returns cuPointerGetAttribute, or NULL as long as the process has not loaded CUDA. */
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

/* Returns true if a buffer is on a GPU. CUDA returns an error for memory that it did not allocate.
 */
static bool is_on_device(get_attribute *function, const void *buffer)
{
    unsigned type = 0;
    if (buffer == NULL || buffer == MPI_IN_PLACE)
        return false;
    return function(&type, CUDA_MEMORY_TYPE_ATTRIBUTE, (uintptr_t)buffer) == 0 &&
           type != CUDA_MEMORY_TYPE_HOST;
}

/* Returns true if this MPI accepts, or may accept, buffers on a GPU. Asks MPIX_Query_cuda_support,
 * first by its PMPIX_ name, because a tool may define the other. A library without this function
 * may accept such buffers. */
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
    /* Device files of NVIDIA GPUs: of the usual driver, of WSL 2, of a Jetson. */
    static const char *const devices[] = {"/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl"};
    bool has_device = false;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        has_device = has_device || access(devices[i], F_OK) == 0;
    return cshim_mpi_any(takes_device_buffers() && (find_cuda() != NULL || has_device),
                         &cshim_mpi.devices, cshim_mpi.world.comm);
}

int cshim_mpi_device_check(const struct cshim_arguments *arguments, bool *any)
{
    get_attribute *function = find_cuda();
    const bool own = function != NULL && (is_on_device(function, arguments->sendbuf) ||
                                          is_on_device(function, arguments->recvbuf));
    return cshim_mpi_any(own, any, arguments->comm);
}
