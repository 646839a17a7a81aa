/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/job.h"

#include <dlfcn.h>

struct cshim_mpi_job cshim_mpi;

void *cshim_mpi_library(void)
{
    Dl_info info;
    if (!dladdr((const void *)PMPI_Comm_size, &info) || info.dli_fname == NULL)
        return NULL;
    return dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
}

MPI_Datatype cshim_mpi_datatype(enum cshim_dtype dtype)
{
    switch (dtype) {
    case CSHIM_FLOAT64:
        return MPI_DOUBLE;
    case CSHIM_FLOAT16:
        return cshim_mpi_half();
    default: /* no call with another type is compressed */
        return MPI_FLOAT;
    }
}
