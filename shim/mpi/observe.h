/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are passed on: written down with COMPSHIM=observe, and as events of the trace. */
#ifndef CSHIM_MPI_OBSERVE_H
#define CSHIM_MPI_OBSERVE_H

#include "shim/mpi/describe.h"

/* A call that is passed on and written down, or traced, or both. */
struct cshim_observation {
    MPI_Comm comm; /* null: neither */
    enum cshim_reason reason;
    double began;
    struct cshim_kind kind;
};

/* Called before and after the library's own call. Begin is collective. */
void cshim_observe_begin(struct cshim_observation *observation, const struct cshim_call *call,
                         MPI_Comm comm);
void cshim_observe_end(struct cshim_observation *observation);

/* Asks rank 0's environment whether calls are observed. Collective; may end the job. */
void cshim_observe_setup(void);
/* Times the shim's own exchange. Collective. */
void cshim_observe_probe(void);

#endif
