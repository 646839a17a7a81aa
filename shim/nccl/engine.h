/* SPDX-License-Identifier: Apache-2.0 */
/* The one interface between the front (exports symbols, needs no NCCL header) and the NCCL engine
 * (built with nccl.h, exports only cshim_nccl_engine).
 *
 * Handles are pointers and enumerations are ints in NCCL's ABI; the front passes them on as such.
 */
#ifndef CSHIM_ENGINE_NCCL_H
#define CSHIM_ENGINE_NCCL_H

#include <stddef.h>

#define CSHIM_NCCL_ENGINE_ABI 1
#define CSHIM_NCCL_ENGINE_SYMBOL "cshim_nccl_engine"

/* X(name, parameters, arguments) for each ncclNAME that the front exports. */
#define CSHIM_NCCL_WRAPPED(X)                                                                      \
    X(GetUniqueId, (void *id), (id))                                                               \
    X(CommInitRank, (void **comm, int ranks, struct cshim_nccl_id id, int rank),                   \
      (comm, ranks, id, rank))                                                                     \
    X(CommInitRankConfig,                                                                          \
      (void **comm, int ranks, struct cshim_nccl_id id, int rank, void *config),                   \
      (comm, ranks, id, rank, config))                                                             \
    X(CommInitRankScalable,                                                                        \
      (void **comm, int ranks, int rank, int ids, struct cshim_nccl_id *id, void *config),         \
      (comm, ranks, rank, ids, id, config))                                                        \
    X(CommInitAll, (void **comms, int devices, const int *list), (comms, devices, list))           \
    X(CommSplit, (void *comm, int color, int key, void **child, void *config),                     \
      (comm, color, key, child, config))                                                           \
    X(CommShrink,                                                                                  \
      (void *comm, int *excluded, int excluded_count, void **child, void *config, int flags),      \
      (comm, excluded, excluded_count, child, config, flags))                                      \
    X(CommFinalize, (void *comm), (comm))                                                          \
    X(CommDestroy, (void *comm), (comm))                                                           \
    X(CommAbort, (void *comm), (comm))                                                             \
    X(CommRevoke, (void *comm, int flags), (comm, flags))                                          \
    X(GroupStart, (void), ())                                                                      \
    X(GroupEnd, (void), ())                                                                        \
    X(GroupSimulateEnd, (void *info), (info))                                                      \
    X(RedOpCreatePreMulSum, (int *op, void *scalar, int datatype, int residence, void *comm),      \
      (op, scalar, datatype, residence, comm))                                                     \
    X(RedOpDestroy, (int op, void *comm), (op, comm))                                              \
    X(AllReduce,                                                                                   \
      (const void *send, void *receive, size_t count, int datatype, int op, void *comm,            \
       void *stream),                                                                              \
      (send, receive, count, datatype, op, comm, stream))                                          \
    X(ReduceScatter,                                                                               \
      (const void *send, void *receive, size_t count, int datatype, int op, void *comm,            \
       void *stream),                                                                              \
      (send, receive, count, datatype, op, comm, stream))                                          \
    X(AllGather,                                                                                   \
      (const void *send, void *receive, size_t count, int datatype, void *comm, void *stream),     \
      (send, receive, count, datatype, comm, stream))

/* X(name) for what else the engine calls. */
#define CSHIM_NCCL_CALLED(X)                                                                       \
    X(GetVersion)                                                                                  \
    X(GetErrorString)                                                                              \
    X(CommCount)                                                                                   \
    X(CommCuDevice)                                                                                \
    X(CommUserRank)                                                                                \
    X(CommGetAsyncError)                                                                           \
    X(Send)                                                                                        \
    X(Recv)

/* NCCL's own functions, never the exported names; NULL where this NCCL has none. In the engine they
 * are typed, the front stores them as it finds them. */
#ifdef NCCL_MAJOR
#define CSHIM_NCCL_MEMBER(name, ...) __typeof__(nccl##name) *name;
#else
#define CSHIM_NCCL_MEMBER(name, ...) void *name;
#endif
struct cshim_nccl_real {
    CSHIM_NCCL_WRAPPED(CSHIM_NCCL_MEMBER)
    CSHIM_NCCL_CALLED(CSHIM_NCCL_MEMBER)
};

struct cshim_nccl_engine {
    unsigned abi; /* CSHIM_NCCL_ENGINE_ABI */
    /* Before the first communicator is made. The real functions stay where they are. beside_mpi:
     * the MPI engine is in the process too. */
    void (*start)(const struct cshim_nccl_real *real, int beside_mpi);
    /* What the exported functions do from then on: NCCL's contract exactly. */
    struct cshim_nccl_wrapped {
        CSHIM_NCCL_WRAPPED(CSHIM_NCCL_MEMBER)
    } functions;
};

#endif
