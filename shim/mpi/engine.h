/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between the front, which exports the symbols of MPI and knows no MPI library, and
 * an MPI engine, which is built for the ABI of one MPI and exports only cshim_mpi_engine.
 *
 * The front passes handles on as pointers, without looking at them. An engine includes its <mpi.h>
 * before this file, so it sees the handles as the program passed them: pointers in Open MPI, and in
 * MPICH numbers of 32 bits, which travel in the same registers. */
#ifndef CSHIM_ENGINE_H
#define CSHIM_ENGINE_H

#include <stdint.h>

#include "mpi_names.h"

#ifndef MPI_VERSION
typedef int64_t MPI_Count;
typedef intptr_t MPI_Aint;
typedef void *MPI_Datatype, *MPI_Op, *MPI_Comm, *MPI_Info, *MPI_Request;
#endif
typedef MPI_Count cshim_count;
_Static_assert(sizeof(MPI_Count) == sizeof(int64_t), "the front passes counts of 64 bits");
_Static_assert(sizeof(MPI_Aint) == sizeof(intptr_t), "the front passes displacements as addresses");

/* struct cshim_mpi_real: the MPI library's own definition of each function that the front exports.
 * An engine calls these and never the names, which would come back to the front or go to a tool. A
 * function that this MPI lacks is NULL; but MPI_X_c is then made of MPI_X, and refuses counts
 * beyond int.
 *
 * struct cshim_mpi_wrapped: the functions of the engine that take the place of MPI's. */
#include "mpi_engine.h"

#define CSHIM_ENGINE_ABI 8
#define CSHIM_ENGINE_SYMBOL "cshim_mpi_engine"

struct cshim_mpi_engine {
    unsigned abi; /* CSHIM_ENGINE_ABI */
    /* Called once, after the real MPI_Init. All ranks agree and receive rank 0's policy. Returns 1
     * if the job compresses, and 0 if every call is to be passed through from now on. A wrong
     * policy ends the job. `real` stays valid until the process ends. `past` names a tool between
     * the front and the library that hands calls past the front, so that this rank cannot compress
     * them; or NULL. */
    int (*start)(const struct cshim_mpi_real *real, const char *past);
    /* What the front calls from then on, from any thread. Each keeps the contract of the MPI
     * function of its name, and is called only where this MPI has that function. */
    struct cshim_mpi_wrapped functions;
    /* Counts a call that the front is about to pass on, with its bytes. The arguments may be wrong.
     * A count of 0 stands for bytes that the arguments do not tell. */
    void (*count)(enum cshim_mpi_counted function, const void *buffer, MPI_Count count,
                  MPI_Datatype datatype, MPI_Comm comm);
    /* Counts a call on `comm` that would have been one of `functions`, had a tool handed it on. */
    void (*count_tool)(MPI_Comm comm);
    /* Called before the real MPI_Finalize: collects the ledger, writes the report, frees. */
    void (*finalize)(void);
};

#endif
