/* SPDX-License-Identifier: Apache-2.0 */
/* Interface between the front, which exports the MPI symbols and depends on no MPI library, and an
 * MPI engine, which is built for the ABI of one MPI and exports only cshim_mpi_engine.
 *
 * The front opens an engine with dlopen(), checks `abi`, and calls `start` once. If that returns 1,
 * wrappers call `functions`, and MPI_Finalize calls `finalize`.
 *
 * The front passes handles as pointers, without interpreting them. An engine includes its <mpi.h>
 * before this file, so it sees the handles as the program passed them: pointers in Open MPI and the
 * standard ABI, and 32-bit integers in MPICH, which the same registers hold. */
#ifndef CSHIM_ENGINE_H
#define CSHIM_ENGINE_H

#include <stdbool.h>
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
 * Engines call these, never the exported names, which would call the front or a tool. A function
 * that this MPI lacks, also under an older name, is NULL, except that a missing MPI_X_c is emulated
 * by MPI_X, if that exists (shim/front/narrow.h).
 *
 * struct cshim_mpi_wrapped: the engine's functions that replace MPI's. */
#include "mpi_engine.h"

#define CSHIM_ENGINE_ABI 9
#define CSHIM_ENGINE_SYMBOL "cshim_mpi_engine"

struct cshim_mpi_engine {
    unsigned abi; /* CSHIM_ENGINE_ABI */
    /* Called once, after the real MPI_Init. If all ranks agree, they get rank 0's policy. Returns 1
     * if the wrappers are to call the engine, and 0 if they are to pass all calls through. A wrong
     * policy ends the job. `real` stays valid until the process ends. `past` is the file name of a
     * PMPI tool that calls the MPI library without passing the front, so that its calls cannot be
     * compressed; or NULL. `is_beside`: another engine is open in this process, which may write a
     * report of its own. */
    int (*start)(const struct cshim_mpi_real *real, const char *past, bool is_beside);
    /* Wrappers call these between `start` and `finalize`, from any thread. Each has the contract of
     * the MPI function of its name, and is called only if that function, or its emulation, is not
     * NULL in `real`. */
    struct cshim_mpi_wrapped functions;
    /* Counts a call of a function that mpi.def calls `counted`, with its bytes. The arguments may
     * be invalid. `count` is 0 if no argument of the call gives the bytes. */
    void (*count)(enum cshim_mpi_counted function, const void *buffer, MPI_Count count,
                  MPI_Datatype datatype, MPI_Comm comm);
    /* Counts a call of the program on `comm` that a PMPI tool got and did not hand to the engine.
     */
    void (*count_tool)(MPI_Comm comm);
    /* Called before the real MPI_Finalize: collects the ledger, writes the report, frees memory. */
    void (*finalize)(void);
};

/* The engine's `start` and `finalize`. */
int cshim_mpi_start(const struct cshim_mpi_real *real, const char *past, bool is_beside);
void cshim_mpi_finalize(void);

#endif
