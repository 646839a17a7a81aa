/* SPDX-License-Identifier: Apache-2.0 */
/* From a described and planned call to the runner's exchange. */
#ifndef CSHIM_MPI_CALL_H
#define CSHIM_MPI_CALL_H

#include "shim/host/call.h"
#include "shim/mpi/describe.h"

/* A planned call of a prepared communicator, ready for cshim_call_run. */
struct cshim_exchange cshim_exchange_of(const struct cshim_arguments *arguments,
                                        const struct cshim_plan *plan, struct cshim_comm *state);

#endif
