/* SPDX-License-Identifier: Apache-2.0 */
/* What a call is: its arguments as the program gave them, and the facts that rules and plans look
 * at. */
#ifndef CSHIM_MPI_DESCRIBE_H
#define CSHIM_MPI_DESCRIBE_H

#include "shim/mpi/communicator.h"

/* A collective as the program calls it. */
struct cshim_arguments {
    enum cshim_collective collective;
    bool nonblocking;
    bool large; /* by the function whose name ends in _c */
    const void *sendbuf;
    void *recvbuf;
    uint64_t count;         /* elements; of a reduce_scatter_block each result's */
    const void *recvcounts; /* of a reduce_scatter, else NULL: of int, or of cshim_count if large */
    MPI_Datatype datatype;
    MPI_Op op;
    int root; /* of a reduce */
    MPI_Comm comm;
};

/* A rank's result of a call that has recvcounts. */
static inline int64_t cshim_recvcount(const struct cshim_arguments *arguments, int rank)
{
    return arguments->large ? ((const cshim_count *)arguments->recvcounts)[rank]
                            : ((const int *)arguments->recvcounts)[rank];
}

/* Finds out which calls on the world need no further look; once the ranks have agreed. */
void cshim_describe_setup(void);
/* The facts of a call whose arguments are valid, all equal on all ranks, and its elements; or the
 * first reason found not to compress it. */
enum cshim_reason cshim_describe_call(const struct cshim_arguments *arguments,
                                      struct cshim_call *call, uint64_t *count);
/* The facts of any call that is only to be written down. Returns false if it is one between groups,
 * or with processes outside the job. */
bool cshim_describe_observed(const struct cshim_arguments *arguments, struct cshim_call *call);
/* Whether the library itself would refuse a call, or it has nothing in it to describe. */
bool cshim_describe_refused(const struct cshim_arguments *arguments);
/* Counts a call that is passed through, at rank 0 of its communicator. */
void cshim_count_pass(enum cshim_reason reason, MPI_Comm comm);

#endif
