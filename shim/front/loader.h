/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the engine for the library of a call. Needs libc only. All functions are thread-safe and
 * reentrant. */
#ifndef CSHIM_LOADER_H
#define CSHIM_LOADER_H

#include <stdbool.h>

struct cshim_mpi_engine;
struct cshim_nccl_engine;
struct cshim_gloo_engine;

/* Open the engine for the MPI that contains `real_function`, or that the tool with this function
 * uses; for NCCL; for gloo. Set *is_beside to whether the engine of another library, which may
 * write a report of its own, is open in this process. Return NULL, after a warning, if there is no
 * such engine or it cannot be used. */
const struct cshim_mpi_engine *cshim_engine_open_mpi(const void *real_function, bool *is_beside);
const struct cshim_nccl_engine *cshim_engine_open_nccl(bool *is_beside);
const struct cshim_gloo_engine *cshim_engine_open_gloo(bool *is_beside);

#endif
