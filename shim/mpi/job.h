/* SPDX-License-Identifier: Apache-2.0 */
/* State of the job in the MPI engine, in addition to shim/report/job.h. All files of the engine use
 * it.
 *
 * Functions that the front exports (MPI_Allreduce) are called through `real` only: their names,
 * with or without P, would call the front. Other functions are called by their PMPI names.
 *
 * The program may call from several threads (MPI_THREAD_MULTIPLE). The engine's only thread
 * (shim/host/watch.c) does not call MPI. A blocking call needs no lock for its communicator,
 * because MPI forbids two concurrent collective calls on one. The locks of shim/mpi are
 *
 *   nonblocking.c   for the active calls; held by the thread that advances them;
 *   requests.c      for the list of persistent requests;
 *   communicator.c  for the list of communicators, and for their numbers;
 *   spawn.c         for the variable that spawned processes inherit.
 *
 * Under the lock of nonblocking.c, the locks of communicator.c, shim/host and shim/report may be
 * taken, requests of the program's communicators may be tested after replacing the error handler,
 * and MPI may be called on the shim's own communicators, which return errors. Under the lock of
 * spawn.c a port is opened and closed. Under the locks of requests.c and communicator.c the engine
 * takes no lock and does not call MPI. Error handlers of
 * the program, which may call any function of MPI, are called after the locks are released. */
#ifndef CSHIM_MPI_JOB_H
#define CSHIM_MPI_JOB_H

#include <mpi.h>

#include "shim/core/plan.h"
#include "shim/report/job.h"
#include "shim/mpi/carrier.h"
#include "shim/mpi/engine.h"

/* Calls of fewer than `below` elements are passed through for `reason`. 0: none is known. */
struct cshim_passed_elements {
    uint64_t below;
    enum cshim_reason reason;
};

/* Written at the start and the end of the job by one thread; read by all. */
struct cshim_mpi_job {
    const struct cshim_mpi_real *real;
    struct cshim_carrier world; /* carrier of all ranks of the job */
    MPI_Comm alone;             /* private communicator of this rank only; or MPI_COMM_NULL */
    int keyval;                 /* attribute that holds a communicator's state */
    int carrier_keyval; /* attribute that holds the carrier of a communicator with ranks of another
                           job */
    /* Calls passed through without matching rules: [0] on any communicator, [1] on the world. */
    struct cshim_passed_elements passed[2][CSHIM_COLLECTIVE_COUNT][CSHIM_OP_COUNT]
                                       [CSHIM_DTYPE_COUNT];
    char file_additions[40]; /* part of the names of report and trace (cshim_report_name); only
                                rank 0's is used */
    bool is_watched;         /* calls are recorded (COMPSHIM=observe) or traced */
    bool nonblocking;        /* all ranks can advance exchanges in the background */
    bool devices;            /* some rank may pass buffers on a GPU */
    bool has_large_counts;   /* the MPI library has MPI_Allreduce_c; otherwise the front makes it of
                                MPI_Allreduce, for at most INT_MAX elements */
};
extern struct cshim_mpi_job cshim_mpi;
/* Written by the thread that starts and ends the job, except for ledger, observations and trace,
 * which are thread-safe. */
extern struct cshim_job cshim_job;

/* Returns the 16-bit float of this MPI. In the many builds that have none, returns
 * MPI_DATATYPE_NULL or the handle of an unusable type. */
static inline MPI_Datatype cshim_mpi_half(void)
{
#ifdef MPI_REAL2
    return MPI_REAL2;
#else
    return MPI_DATATYPE_NULL;
#endif
}

/* Opens the MPI library, so that dlsym() finds its functions and those of its dependencies. Returns
 * NULL if MPI is linked into the program. The caller closes it. */
void *cshim_mpi_library(void);

/* Prints `why` and aborts the job, because the other ranks would wait for this rank. */
void cshim_mpi_end_job(const char *why) __attribute__((noreturn));

/* Makes the library return the errors of a communicator, by MPI_ERRORS_RETURN. Intel MPI gets a
 * handler that does nothing instead, because release 2021.19 ends programs of the standard ABI
 * under MPI_ERRORS_RETURN. Other libraries do not, because MPICH 5 returns MPI_SUCCESS after a
 * handler. Returns MPI's status. */
int cshim_mpi_return_errors_of(MPI_Comm comm);

/* Makes Open MPI return errors on MPI_COMM_WORLD and MPI_COMM_SELF, and errors that belong to no
 * communicator, because it reports these to one of the two. Stores the program's two handlers, for
 * cshim_mpi_restore_handlers(). Returns false, and does nothing, in another library. For one
 * thread, at the start. */
bool cshim_mpi_return_errors(MPI_Errhandler handlers[2]);
/* Sets the handlers that cshim_mpi_return_errors() has stored, after it returned true. */
void cshim_mpi_restore_handlers(MPI_Errhandler handlers[2]);

/* Returns true if the version text of the MPI library begins with `name`. */
bool cshim_mpi_is_library(const char *name);

/* Waits until all requests are complete. Returns false if that takes longer than `seconds`. */
bool cshim_mpi_wait(int count, MPI_Request *requests, double seconds);

/* Sets *any on all ranks of `comm` to whether `own` is true on any of them. Collective, by the
 * library's MPI_Allreduce. Returns an MPI error; then *any may differ. */
int cshim_mpi_any(bool own, bool *any, MPI_Comm comm);

/* Returns the largest tag of a message on MPI_COMM_WORLD. */
int cshim_mpi_largest_tag(void);

/* Returns MPI's datatype for `dtype`, which is float32, float64 or float16. */
MPI_Datatype cshim_mpi_datatype(enum cshim_dtype dtype);

#endif
