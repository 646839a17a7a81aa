/* SPDX-License-Identifier: Apache-2.0 */
/* What a call is: its arguments as the program gave them, the facts that rules and plans look at,
 * and what the runner needs of it. */
#ifndef CSHIM_MPI_DESCRIBE_H
#define CSHIM_MPI_DESCRIBE_H

#include "shim/host/call.h"
#include "shim/mpi/communicator.h"

/* A collective as the program calls it. */
struct cshim_arguments {
    enum cshim_collective collective;
    bool nonblocking;
    const void *sendbuf;
    void *recvbuf;
    uint64_t count;         /* elements; where each rank has a block, those of a block, ... */
    const void *recvcounts; /* ... but of all blocks with these, which are NULL or of int, ... */
    const void *sendcounts; /* of an all-to-all whose blocks differ in length; else NULL */
    bool large;             /* ... or of cshim_count, from a function whose name ends in _c */
    MPI_Datatype datatype;
    MPI_Op op;
    int root; /* of a reduce or broadcast */
    MPI_Comm comm;
};

/* The arguments that all reductions have. Counts of int come as the larger type. */
static inline struct cshim_arguments cshim_arguments_of(enum cshim_collective collective,
                                                        const void *sendbuf, void *recvbuf,
                                                        MPI_Count count, MPI_Datatype datatype,
                                                        MPI_Op op, MPI_Comm comm)
{
    return (struct cshim_arguments){
        .collective = collective,
        .sendbuf = sendbuf,
        .recvbuf = recvbuf,
        .count = (uint64_t)count,
        .datatype = datatype,
        .op = op,
        .comm = comm,
    };
}

/* A rank's entry in an array of counts, which recvcounts or sendcounts are. */
static inline int64_t cshim_count_at(const struct cshim_arguments *arguments, const void *counts,
                                     int rank)
{
    return arguments->large ? ((const cshim_count *)counts)[rank] : ((const int *)counts)[rank];
}

/* A rank's result of a call that has recvcounts. */
static inline int64_t cshim_recvcount(const struct cshim_arguments *arguments, int rank)
{
    return cshim_count_at(arguments, arguments->recvcounts, rank);
}

/* The element type of a datatype; CSHIM_DTYPE_OTHER if it is none that a codec carries. */
enum cshim_dtype cshim_describe_datatype(MPI_Datatype datatype);
/* Puts twice as many floats in the place of complex numbers, but where there are recvcounts. */
void cshim_describe_complex(struct cshim_arguments *arguments);
/* The facts of a sum of `bytes` on the world, of which rank 0 is the root. */
struct cshim_call cshim_describe_sum(enum cshim_collective collective, enum cshim_dtype dtype,
                                     uint64_t bytes);
/* Finds out which calls on the world need no further look; once the ranks have agreed. */
void cshim_describe_setup(void);
/* The facts of a call whose arguments are valid, all equal on all ranks, and its elements; or the
 * first reason found not to compress it. */
enum cshim_reason cshim_describe_call(const struct cshim_arguments *arguments,
                                      struct cshim_call *call, uint64_t *count);
/* A planned call of a prepared communicator, ready for cshim_call_run. */
struct cshim_exchange cshim_exchange_of(const struct cshim_arguments *arguments,
                                        const struct cshim_plan *plan, struct cshim_comm *state);
/* The facts of any call that is only to be written down. Returns false if it is one between groups,
 * or with processes outside the job. */
bool cshim_describe_observed(const struct cshim_arguments *arguments, struct cshim_call *call);
/* Whether this rank is the one that a reduce goes to. */
bool cshim_describe_is_root(const struct cshim_arguments *arguments);
/* Whether all recvcounts are 0: in a reduce-scatter no rank has elements then. */
bool cshim_describe_is_empty(const struct cshim_arguments *arguments);
/* Returns true if the library refuses a call that gives one buffer as both. Where its checks of
 * arguments are off it sums that as if it were in place. */
bool cshim_describe_refuses_one_buffer(const struct cshim_arguments *arguments);
/* Whether the library itself would refuse a call, or it has nothing in it to describe. Every call
 * pays for this. */
static inline bool cshim_describe_refused(const struct cshim_arguments *arguments)
{
    const void *send = arguments->sendbuf, *receive = arguments->recvbuf;
    if (arguments->comm == MPI_COMM_NULL || arguments->datatype == MPI_DATATYPE_NULL ||
        arguments->op == MPI_OP_NULL || (int64_t)arguments->count < 0)
        return true;
    if (arguments->collective == CSHIM_REDUCE && !cshim_describe_is_root(arguments))
        return arguments->count > 0 && (send == NULL || send == MPI_IN_PLACE);
    if (receive == MPI_IN_PLACE)
        return true;
    if (arguments->recvcounts != NULL) /* some results may be empty, and have no buffer */
        return (send == NULL || send == receive) && !cshim_describe_is_empty(arguments) &&
               (send == NULL || cshim_describe_refuses_one_buffer(arguments));
    return arguments->count > 0 &&
           (send == NULL || receive == NULL ||
            (send == receive && cshim_describe_refuses_one_buffer(arguments)));
}

#endif
