/* SPDX-License-Identifier: Apache-2.0 */
/* Describes a call: from the arguments that the program passed (struct cshim_arguments) to the
 * properties that rules and plans use (struct cshim_call, equal on all ranks, except is_apart on
 * different nodes), and to the exchange that the runner executes (struct cshim_exchange). For a
 * blocking reduction:
 *
 *     cshim_describe_refused(&arguments)           true: pass the call through
 *     cshim_describe_call(&arguments, &call, &count)
 *     ... match a rule, plan ...
 *     cshim_exchange_of(&arguments, &plan, state)
 *
 * After cshim_describe_setup() the functions may be called from any thread. */
#ifndef CSHIM_MPI_DESCRIBE_H
#define CSHIM_MPI_DESCRIBE_H

#include "shim/host/call.h"
#include "shim/mpi/communicator.h"

/* Arguments of a collective, as the program passes them. */
struct cshim_arguments {
    enum cshim_collective collective;
    bool nonblocking;
    const void *sendbuf;
    void *recvbuf;
    uint64_t count; /* number of elements; with equal blocks, of one block; in an allgatherv, of all
                       blocks; in an alltoallv, of the largest block; 0 in a reduce_scatter with
                       recvcounts */
    const void *recvcounts; /* lengths of all blocks, or NULL */
    const void *sendcounts; /* all-to-all of unequal blocks: sent lengths; else NULL */
    bool large; /* both arrays of lengths have elements of type cshim_count (MPI_..._c), else int */
    MPI_Datatype datatype;
    MPI_Op op;
    int root; /* reduce and broadcast only */
    MPI_Comm comm;
};

/* Fills the arguments that most collectives have; the others are 0. */
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

/* Returns a rank's entry in an array of counts (`recvcounts` or `sendcounts`). */
static inline int64_t cshim_count_at(const struct cshim_arguments *arguments, const void *counts,
                                     int rank)
{
    return arguments->large ? ((const cshim_count *)counts)[rank] : ((const int *)counts)[rank];
}

/* Returns this process's rank in `comm`. */
int cshim_rank_in(MPI_Comm comm);

/* Returns the element type of a datatype that may be compressed; otherwise CSHIM_DTYPE_OTHER. */
enum cshim_dtype cshim_describe_datatype(MPI_Datatype datatype);
/* Replaces the usual complex types of C and Fortran, of single or double precision, by their float
 * types, and doubles the count; not with `recvcounts`. */
void cshim_describe_complex(struct cshim_arguments *arguments);
/* Returns the properties of a call of `bytes` bytes on the world, with sum as the operation and
 * rank 0 as the root. */
struct cshim_call cshim_describe_sum(enum cshim_collective collective, enum cshim_dtype dtype,
                                     uint64_t bytes);
/* Computes which calls are passed through without matching rules (cshim_mpi.passed), and finds out
 * which reductions the library refuses with one buffer. Called once, after the agreement. */
void cshim_describe_setup(void);
/* Describes a call whose handles are not null: fills `call`, and sets *count to the number of
 * elements. Returns CSHIM_REASON_COMPRESS, or the first reason found not to
 * compress; then `call` and *count may be incomplete. */
enum cshim_reason cshim_describe_call(const struct cshim_arguments *arguments,
                                      struct cshim_call *call, uint64_t *count);
/* Returns the exchange of a planned call. The communicator must be prepared before the exchange
 * runs; for a call with blocks, before this function is called. The exchange refers to the
 * arguments' buffers, `plan` and `state`. */
struct cshim_exchange cshim_exchange_of(const struct cshim_arguments *arguments,
                                        const struct cshim_plan *plan, struct cshim_comm *state);
/* Describes a call of any type, operation and size, by its communicator and bytes: for recording,
 * tracing and the agreement of data movement. Returns false for an intercommunicator and, except on
 * the world, if the communicator's state cannot be made or has a reason not to compress, such as
 * processes outside the job. */
bool cshim_describe_any(const struct cshim_arguments *arguments, struct cshim_call *call);
/* Returns true if this rank is the root of a reduce or broadcast on an intracommunicator. */
bool cshim_describe_is_root(const struct cshim_arguments *arguments);
/* Returns true if all recvcounts are 0. */
bool cshim_describe_is_empty(const struct cshim_arguments *arguments);
/* Returns true if the library may refuse a call whose send and receive buffers are equal; for a
 * data-movement collective always. A reduction that the library accepts is compressed as if in
 * place. */
bool cshim_describe_refuses_one_buffer(const struct cshim_arguments *arguments);
/* Returns true if the library may refuse the call for its buffers, its count or a null handle. Does
 * not check the root and the entries of recvcounts. Runs also for calls that are passed through, so
 * it must be fast. */
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
    if (arguments->recvcounts != NULL) /* ranks with an empty result may pass no buffer */
        return (send == NULL || send == receive) && !cshim_describe_is_empty(arguments) &&
               (send == NULL || cshim_describe_refuses_one_buffer(arguments));
    return arguments->count > 0 &&
           (send == NULL || receive == NULL ||
            (send == receive && cshim_describe_refuses_one_buffer(arguments)));
}

#endif
