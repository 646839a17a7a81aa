/* SPDX-License-Identifier: Apache-2.0 */
/* Counts calls that are passed through. Also records those that pass_collective() in collectives.c
 * gets: with COMPSHIM=observe in the report, with COMPSHIM_TRACE as events of the trace. The
 * counting functions are thread-safe. */
#ifndef CSHIM_MPI_OBSERVE_H
#define CSHIM_MPI_OBSERVE_H

#include "shim/mpi/describe.h"

/* Calls cshim_observation_begin() for a call that the library is about to make. With
 * COMPSHIM=observe, collective over `comm` for calls of 32 KiB or more: contains a barrier. */
void cshim_observe_begin(struct cshim_observation *observation, const struct cshim_call *call,
                         MPI_Comm comm, enum cshim_reason reason);

/* Finds out whether rank 0 has COMPSHIM=observe; sets cshim_job.observed then. Collective over the
 * job. Ends the job if there is no memory. */
void cshim_observe_setup(void);
/* Times the shim's own exchange on the job's ranks with one codec after the other, for the report's
 * field observed.exchange. Begins no further codec after two seconds. Collective over the job. */
void cshim_observe_probe(void);

/* Counts a call that is passed through; only rank 0 of its communicator counts. */
void cshim_count_pass(enum cshim_reason reason, MPI_Comm comm);
/* Counts the bytes of a call that the policy passes through, if they are CSHIM_WEIGHED_FROM or
 * more; only on rank 0 of its communicator. */
void cshim_count_weight(enum cshim_reason reason, const struct cshim_call *call, MPI_Comm comm);

/* Counts a collective that the shim or the job's policy never compresses, with its bytes; only on
 * rank 0 of its communicator. The arguments may be invalid. */
void cshim_count_other(enum cshim_mpi_counted function, const void *buffer, cshim_count count,
                       MPI_Datatype datatype, MPI_Comm comm);

#endif
