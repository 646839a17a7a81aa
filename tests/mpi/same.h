/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the bits of the ranks' results. */
#ifndef SAME_H
#define SAME_H

#include <mpi.h>
#include <stdbool.h>

#include "codecs/hash.h"

/* Returns true if all ranks of the communicator have the same digest. */
static inline bool same_on_all(uint64_t digest, MPI_Comm comm)
{
    uint64_t largest, smallest;
    MPI_Allreduce(&digest, &largest, 1, MPI_UINT64_T, MPI_MAX, comm);
    MPI_Allreduce(&digest, &smallest, 1, MPI_UINT64_T, MPI_MIN, comm);
    return largest == smallest;
}

#endif
