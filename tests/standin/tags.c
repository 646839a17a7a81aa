/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded after the shim, makes MPI report 4000 as its largest tag (the standard requires at
 * least 32767), so that tags are soon reused. */
#include <dlfcn.h>
#include <mpi.h>
#include <stddef.h>

__attribute__((visibility("default"))) int PMPI_Comm_get_attr(MPI_Comm comm, int key, void *value,
                                                              int *found)
{
    static int largest = 4000;
    int (*real)(MPI_Comm, int, void *, int *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Comm_get_attr");
    const int status = real(comm, key, value, found);
    if (key == MPI_TAG_UB && status == MPI_SUCCESS && *found)
        *(int **)value = &largest;
    return status;
}
