/* SPDX-License-Identifier: Apache-2.0 */
/* The one interface between the front (exports symbols, knows no handle types) and an MPI engine
 * (knows one MPI's ABI, exports only cshim_mpi_engine).
 *
 * Handles cross it as pointers: an engine is built for the ABI whose handles the program passes, so
 * it casts them back to what they were. */
#ifndef CSHIM_ENGINE_H
#define CSHIM_ENGINE_H

#define CSHIM_ENGINE_ABI 1
#define CSHIM_ENGINE_SYMBOL "cshim_mpi_engine"

/* The next definitions of the functions that the front exports. An engine calls these, never the
 * names: a name would come back to the front. */
struct cshim_mpi_real {
    int (*allreduce)(const void *sendbuf, void *recvbuf, int count, void *datatype, void *op,
                     void *comm);
};

struct cshim_mpi_engine {
    unsigned abi; /* CSHIM_ENGINE_ABI */
    /* After the real MPI_Init: all ranks agree, rank 0's policy is read and sent round. Returns 1
     * if the job compresses, 0 if every call is to be passed on from now. Does not return if the
     * policy is wrong: that ends the job. */
    int (*start)(const struct cshim_mpi_real *real);
    /* MPI_Allreduce's contract exactly. */
    int (*allreduce)(const void *sendbuf, void *recvbuf, int count, void *datatype, void *op,
                     void *comm);
    /* Before the real MPI_Finalize: collects the ledger, reports, frees. */
    void (*finalize)(void);
};

#endif
