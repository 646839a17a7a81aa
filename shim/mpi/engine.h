/* SPDX-License-Identifier: Apache-2.0 */
/* The one interface between the front (exports symbols, knows no handle types) and an MPI engine
 * (knows one MPI's ABI, exports only cshim_mpi_engine).
 *
 * The front forwards handles as pointers, without looking at them. An engine is built for the ABI
 * whose handles the program passes and includes its <mpi.h> first, so to it they are what they
 * were: pointers (Open MPI), or numbers of 32 bits in the same registers (MPICH). */
#ifndef CSHIM_ENGINE_H
#define CSHIM_ENGINE_H

#include "shim/mpi/functions.h"

#define CSHIM_ENGINE_ABI 4
#define CSHIM_ENGINE_SYMBOL "cshim_mpi_engine"

#define CSHIM_MPI_MEMBER(name, c, parameters, ...) int(*name##c) parameters;

/* The next definitions of the functions that the front exports, NULL where this MPI has none; of
 * those named MPI_X_c then one that calls MPI_X, and refuses counts that it cannot take. An engine
 * calls these, never the names: a name would come back to the front. */
struct cshim_mpi_real {
    CSHIM_MPI_WRAPPED(CSHIM_MPI_MEMBER)
    CSHIM_MPI_COUNTED(CSHIM_MPI_MEMBER)
};

struct cshim_mpi_engine {
    unsigned abi; /* CSHIM_ENGINE_ABI */
    /* A function of the MPI that the engine is bound to: PMPI_Get_library_version. */
    int (*probe)(char *version, int *length);
    /* After the real MPI_Init: all ranks agree, rank 0's policy is read and sent round. Returns 1
     * if the job compresses, 0 if every call is to be passed on from now. Does not return if the
     * policy is wrong: that ends the job. */
    int (*start)(const struct cshim_mpi_real *real);
    /* What the exported functions do from then on: MPI's contract exactly. Called only where this
     * MPI has the function. */
    struct cshim_mpi_wrapped {
        CSHIM_MPI_WRAPPED(CSHIM_MPI_MEMBER)
    } functions;
    /* Before a call that is passed on: counts it, with its bytes. The arguments may be wrong. */
    void (*count)(enum cshim_mpi_counted function, const void *buffer, cshim_count count,
                  cshim_datatype_handle datatype, cshim_comm_handle comm);
    /* Before the real MPI_Finalize: collects the ledger, reports, frees. */
    void (*finalize)(void);
};

#endif
