/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/job.h"

struct cshim_mpi_job cshim_mpi;

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
