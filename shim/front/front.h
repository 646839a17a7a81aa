/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions that the files of the front share. */
#ifndef CSHIM_FRONT_H
#define CSHIM_FRONT_H

#define CSHIM_EXPORT __attribute__((visibility("default")))

/* Value that a wrapper of MPI returns if no real function is found or there is no memory. This is
 * MPI_ERR_OTHER in Open MPI, and another error class in MPICH. */
#define CSHIM_MPI_ERR_OTHER 16

#endif
