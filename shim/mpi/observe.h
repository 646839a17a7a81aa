/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the calls that are passed through, and writes them down: with COMPSHIM=observe, and as
 * events of the trace. */
#ifndef CSHIM_MPI_OBSERVE_H
#define CSHIM_MPI_OBSERVE_H

#include "shim/mpi/describe.h"
#include "shim/host/event.h"

/* A call that is passed through and written down, or traced, or both. */
struct cshim_observed_call {
    MPI_Comm comm; /* null: neither */
    struct cshim_observation observation;
};

/* Called before and after the library's own call. Begin is collective. */
void cshim_observe_begin(struct cshim_observed_call *observed, const struct cshim_call *call,
                         MPI_Comm comm, enum cshim_reason reason);
void cshim_observe_end(struct cshim_observed_call *observed);

/* Asks rank 0's environment whether calls are observed. Collective; may end the job. */
void cshim_observe_setup(void);
/* Times the shim's own exchange. Collective. */
void cshim_observe_probe(void);

/* Counts a call that is passed through, at rank 0 of its communicator. */
void cshim_count_pass(enum cshim_reason reason, MPI_Comm comm);
/* Counts the bytes of a call that the policy passes through. */
void cshim_count_weight(enum cshim_reason reason, const struct cshim_call *call, MPI_Comm comm);

/* Counts a collective that is not compressed, with its bytes, at rank 0 of its communicator. The
 * library will say what is wrong with its arguments. */
void cshim_count_other(enum cshim_mpi_counted function, const void *buffer, cshim_count count,
                       MPI_Datatype datatype, MPI_Comm comm);

#endif
