/* SPDX-License-Identifier: Apache-2.0 */
/* The job, as the MPI engine sees it besides shim/report/job.h. Every file of the engine may use
 * it.
 *
 * Functions that the front exports (MPI_Allreduce) are called through `real` only: their names
 * would come back to the front.
 *
 * The program may call from several threads (MPI_THREAD_MULTIPLE); the engine has none of its own.
 * A blocking call needs no lock for its communicator, since MPI forbids two collective calls on one
 * at once. The locks of the engine are
 *   nonblocking.c   for the calls under way; the thread that carries them on holds it;
 *   requests.c      for the list of persistent requests;
 *   communicator.c  for the list of communicators;
 *   ledger.h        for the rows.
 * Under the first, the ledger's may be taken and MPI may be called on communicators of the shim,
 * which return errors. Under the others neither is allowed. No function of the program runs under a
 * lock: error handlers are called when it is free, and may call what MPI lets them. */
#ifndef CSHIM_MPI_JOB_H
#define CSHIM_MPI_JOB_H

#include <mpi.h>

#include "shim/core/layout.h"
#include "shim/report/job.h"
#include "shim/mpi/engine.h"

/* Written at the start and the end of the job by one thread. */
struct cshim_mpi_job {
    const struct cshim_mpi_real *real;
    struct cshim_layout layout;    /* of all ranks of the job */
    struct cshim_learned *learned; /* choices of an earlier job; NULL: calls are measured */
    uint32_t partners;             /* to how many others each of them may have connections */
    MPI_Comm world;                /* private; all ranks have agreed on it */
    MPI_Group group;               /* of world */
    MPI_Comm alone;                /* private, has this rank only; or MPI_COMM_NULL */
    int keyval;                    /* of a communicator's state */
    const uint8_t **scratch_of;    /* others of the node, by rank of the world; or NULL */
    /* Elements below which a call is too small, on any communicator and on the world. */
    uint64_t compress_from[2][CSHIM_COLLECTIVE_COUNT][CSHIM_DTYPE_COUNT];
    bool is_watched;     /* calls are written down or traced */
    bool nonblocking;    /* the library lets us carry on exchanges that nobody waits for */
    bool devices;        /* some rank may have buffers on a GPU */
    bool prepares_later; /* a nonblocking call may begin to prepare its communicator */
};
extern struct cshim_mpi_job cshim_mpi;
/* Written by the same thread, but for what is counted: ledger, observations and trace are
 * thread-safe. */
extern struct cshim_job cshim_job;

/* The 16-bit float of this MPI; many builds have none (MPI_DATATYPE_NULL). */
static inline MPI_Datatype cshim_mpi_half(void)
{
#ifdef MPI_REAL2
    return MPI_REAL2;
#else
    return MPI_DATATYPE_NULL;
#endif
}

/* Opens the MPI library: the functions are in it, and in the libraries that it needs. NULL if MPI
 * is part of the program. The caller closes it. */
void *cshim_mpi_library(void);

/* Ends the job after an error, because the other ranks cannot go on without this one. */
void cshim_mpi_end_job(const char *why) __attribute__((noreturn));

/* Has Open MPI return errors that belong to no communicator, or that it takes for some of the
 * world: it calls the handler of MPI_COMM_SELF for them, or that of MPI_COMM_WORLD. Returns false,
 * with nothing done, in another library. Leaves the program's handlers, which speak sets again. */
bool cshim_mpi_silence(MPI_Errhandler handlers[2]);
void cshim_mpi_speak(MPI_Errhandler handlers[2]);

/* The largest tag of a message on the world. */
int cshim_mpi_largest_tag(void);

/* The datatype of a compressed call's elements, which have no other types than these three. */
MPI_Datatype cshim_mpi_datatype(enum cshim_dtype dtype);

/* What the job begins and ends with. All of it is collective, but for announcements. */

#endif
