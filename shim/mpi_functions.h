/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of MPI that the front exports, each as MPI_X and PMPI_X: one entry here makes the
 * wrapper, its alias and its place among the real functions.
 *
 * Handles have the types of the <mpi.h> that was included before, or are pointers. */
#ifndef CSHIM_MPI_FUNCTIONS_H
#define CSHIM_MPI_FUNCTIONS_H

#ifdef MPI_VERSION
typedef MPI_Datatype cshim_datatype_handle;
typedef MPI_Op cshim_op_handle;
typedef MPI_Comm cshim_comm_handle;
typedef MPI_Info cshim_info_handle;
typedef MPI_Request cshim_request_handle;
#else
typedef void *cshim_datatype_handle;
typedef void *cshim_op_handle;
typedef void *cshim_comm_handle;
typedef void *cshim_info_handle;
typedef void *cshim_request_handle;
#endif

/* Parameters that many have in common, and the same as arguments. */
#define CSHIM_REDUCTION                                                                            \
    const void *sendbuf, void *recvbuf, int count, cshim_datatype_handle datatype,                 \
        cshim_op_handle op
#define CSHIM_REDUCTION_A sendbuf, recvbuf, count, datatype, op
#define CSHIM_SCATTERED                                                                            \
    const void *sendbuf, void *recvbuf, const int recvcounts[], cshim_datatype_handle datatype,    \
        cshim_op_handle op
#define CSHIM_SCATTERED_A sendbuf, recvbuf, recvcounts, datatype, op
#define CSHIM_SEND const void *sendbuf, int sendcount, cshim_datatype_handle sendtype
#define CSHIM_SEND_A sendbuf, sendcount, sendtype
#define CSHIM_SENDV                                                                                \
    const void *sendbuf, const int sendcounts[], const int sdispls[], cshim_datatype_handle sendtype
#define CSHIM_SENDV_A sendbuf, sendcounts, sdispls, sendtype
#define CSHIM_RECEIVE void *recvbuf, int recvcount, cshim_datatype_handle recvtype
#define CSHIM_RECEIVE_A recvbuf, recvcount, recvtype
#define CSHIM_RECEIVEV                                                                             \
    void *recvbuf, const int recvcounts[], const int rdispls[], cshim_datatype_handle recvtype
#define CSHIM_RECEIVEV_A recvbuf, recvcounts, rdispls, recvtype
#define CSHIM_EXCHANGEW                                                                            \
    const void *sendbuf, const int sendcounts[], const void *sdispls,                              \
        const cshim_datatype_handle sendtypes[], void *recvbuf, const int recvcounts[],            \
        const void *rdispls, const cshim_datatype_handle recvtypes[]
#define CSHIM_EXCHANGEW_A                                                                          \
    sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes
#define CSHIM_COMM cshim_comm_handle comm
#define CSHIM_REQUEST cshim_request_handle *request

/* X(name, parameters, arguments) for each reduction that an engine has its own function for. */
#define CSHIM_MPI_REDUCTIONS(X)                                                                    \
    X(MPI_Allreduce, (CSHIM_REDUCTION, CSHIM_COMM), (CSHIM_REDUCTION_A, comm))                     \
    X(MPI_Reduce, (CSHIM_REDUCTION, int root, CSHIM_COMM), (CSHIM_REDUCTION_A, root, comm))        \
    X(MPI_Reduce_scatter, (CSHIM_SCATTERED, CSHIM_COMM), (CSHIM_SCATTERED_A, comm))                \
    X(MPI_Reduce_scatter_block, (CSHIM_REDUCTION, CSHIM_COMM), (CSHIM_REDUCTION_A, comm))          \
    X(MPI_Iallreduce, (CSHIM_REDUCTION, CSHIM_COMM, CSHIM_REQUEST),                                \
      (CSHIM_REDUCTION_A, comm, request))                                                          \
    X(MPI_Allreduce_init, (CSHIM_REDUCTION, CSHIM_COMM, cshim_info_handle info, CSHIM_REQUEST),    \
      (CSHIM_REDUCTION_A, comm, info, request))                                                    \
    X(MPIX_Allreduce_init, (CSHIM_REDUCTION, CSHIM_COMM, cshim_info_handle info, CSHIM_REQUEST),   \
      (CSHIM_REDUCTION_A, comm, info, request))

/* The same for what else an engine has a function of its own for. */
#define CSHIM_MPI_REQUESTS(X)                                                                      \
    X(MPI_Start, (CSHIM_REQUEST), (request))                                                       \
    X(MPI_Startall, (int count, cshim_request_handle requests[]), (count, requests))               \
    X(MPI_Request_free, (CSHIM_REQUEST), (request))                                                \
    X(MPI_Cancel, (CSHIM_REQUEST), (request))

#define CSHIM_MPI_WRAPPED(X) CSHIM_MPI_REDUCTIONS(X) CSHIM_MPI_REQUESTS(X)

/* X(name, parameters, arguments, buffer, count, datatype) for each that is counted and passed on:
 * buffer, count and datatype say how many bytes one rank hands in or gets, where a glance at the
 * arguments tells; all have a `comm`. */
#define CSHIM_MPI_COUNTED(X)                                                                       \
    X(MPI_Bcast, (void *buffer, int count, cshim_datatype_handle datatype, int root, CSHIM_COMM),  \
      (buffer, count, datatype, root, comm), buffer, count, datatype)                              \
    X(MPI_Ibcast,                                                                                  \
      (void *buffer, int count, cshim_datatype_handle datatype, int root, CSHIM_COMM,              \
       CSHIM_REQUEST),                                                                             \
      (buffer, count, datatype, root, comm, request), buffer, count, datatype)                     \
    X(MPI_Gather, (CSHIM_SEND, CSHIM_RECEIVE, int root, CSHIM_COMM),                               \
      (CSHIM_SEND_A, CSHIM_RECEIVE_A, root, comm), sendbuf, sendcount, sendtype)                   \
    X(MPI_Igather, (CSHIM_SEND, CSHIM_RECEIVE, int root, CSHIM_COMM, CSHIM_REQUEST),               \
      (CSHIM_SEND_A, CSHIM_RECEIVE_A, root, comm, request), sendbuf, sendcount, sendtype)          \
    X(MPI_Gatherv, (CSHIM_SEND, CSHIM_RECEIVEV, int root, CSHIM_COMM),                             \
      (CSHIM_SEND_A, CSHIM_RECEIVEV_A, root, comm), sendbuf, sendcount, sendtype)                  \
    X(MPI_Igatherv, (CSHIM_SEND, CSHIM_RECEIVEV, int root, CSHIM_COMM, CSHIM_REQUEST),             \
      (CSHIM_SEND_A, CSHIM_RECEIVEV_A, root, comm, request), sendbuf, sendcount, sendtype)         \
    X(MPI_Scatter, (CSHIM_SEND, CSHIM_RECEIVE, int root, CSHIM_COMM),                              \
      (CSHIM_SEND_A, CSHIM_RECEIVE_A, root, comm), recvbuf, recvcount, recvtype)                   \
    X(MPI_Iscatter, (CSHIM_SEND, CSHIM_RECEIVE, int root, CSHIM_COMM, CSHIM_REQUEST),              \
      (CSHIM_SEND_A, CSHIM_RECEIVE_A, root, comm, request), recvbuf, recvcount, recvtype)          \
    X(MPI_Scatterv, (CSHIM_SENDV, CSHIM_RECEIVE, int root, CSHIM_COMM),                            \
      (CSHIM_SENDV_A, CSHIM_RECEIVE_A, root, comm), recvbuf, recvcount, recvtype)                  \
    X(MPI_Iscatterv, (CSHIM_SENDV, CSHIM_RECEIVE, int root, CSHIM_COMM, CSHIM_REQUEST),            \
      (CSHIM_SENDV_A, CSHIM_RECEIVE_A, root, comm, request), recvbuf, recvcount, recvtype)         \
    X(MPI_Allgather, (CSHIM_SEND, CSHIM_RECEIVE, CSHIM_COMM),                                      \
      (CSHIM_SEND_A, CSHIM_RECEIVE_A, comm), recvbuf, recvcount, recvtype)                         \
    X(MPI_Iallgather, (CSHIM_SEND, CSHIM_RECEIVE, CSHIM_COMM, CSHIM_REQUEST),                      \
      (CSHIM_SEND_A, CSHIM_RECEIVE_A, comm, request), recvbuf, recvcount, recvtype)                \
    X(MPI_Allgatherv, (CSHIM_SEND, CSHIM_RECEIVEV, CSHIM_COMM),                                    \
      (CSHIM_SEND_A, CSHIM_RECEIVEV_A, comm), sendbuf, sendcount, sendtype)                        \
    X(MPI_Iallgatherv, (CSHIM_SEND, CSHIM_RECEIVEV, CSHIM_COMM, CSHIM_REQUEST),                    \
      (CSHIM_SEND_A, CSHIM_RECEIVEV_A, comm, request), sendbuf, sendcount, sendtype)               \
    X(MPI_Alltoall, (CSHIM_SEND, CSHIM_RECEIVE, CSHIM_COMM),                                       \
      (CSHIM_SEND_A, CSHIM_RECEIVE_A, comm), recvbuf, recvcount, recvtype)                         \
    X(MPI_Ialltoall, (CSHIM_SEND, CSHIM_RECEIVE, CSHIM_COMM, CSHIM_REQUEST),                       \
      (CSHIM_SEND_A, CSHIM_RECEIVE_A, comm, request), recvbuf, recvcount, recvtype)                \
    X(MPI_Alltoallv, (CSHIM_SENDV, CSHIM_RECEIVEV, CSHIM_COMM),                                    \
      (CSHIM_SENDV_A, CSHIM_RECEIVEV_A, comm), NULL, 0, sendtype)                                  \
    X(MPI_Ialltoallv, (CSHIM_SENDV, CSHIM_RECEIVEV, CSHIM_COMM, CSHIM_REQUEST),                    \
      (CSHIM_SENDV_A, CSHIM_RECEIVEV_A, comm, request), NULL, 0, sendtype)                         \
    X(MPI_Alltoallw, (CSHIM_EXCHANGEW, CSHIM_COMM), (CSHIM_EXCHANGEW_A, comm), NULL, 0, NULL)      \
    X(MPI_Ialltoallw, (CSHIM_EXCHANGEW, CSHIM_COMM, CSHIM_REQUEST),                                \
      (CSHIM_EXCHANGEW_A, comm, request), NULL, 0, NULL)                                           \
    X(MPI_Ireduce, (CSHIM_REDUCTION, int root, CSHIM_COMM, CSHIM_REQUEST),                         \
      (CSHIM_REDUCTION_A, root, comm, request), recvbuf, count, datatype)                          \
    X(MPI_Ireduce_scatter, (CSHIM_SCATTERED, CSHIM_COMM, CSHIM_REQUEST),                           \
      (CSHIM_SCATTERED_A, comm, request), NULL, 0, datatype)                                       \
    X(MPI_Ireduce_scatter_block, (CSHIM_REDUCTION, CSHIM_COMM, CSHIM_REQUEST),                     \
      (CSHIM_REDUCTION_A, comm, request), recvbuf, count, datatype)                                \
    X(MPI_Scan, (CSHIM_REDUCTION, CSHIM_COMM), (CSHIM_REDUCTION_A, comm), recvbuf, count,          \
      datatype)                                                                                    \
    X(MPI_Iscan, (CSHIM_REDUCTION, CSHIM_COMM, CSHIM_REQUEST), (CSHIM_REDUCTION_A, comm, request), \
      recvbuf, count, datatype)                                                                    \
    X(MPI_Exscan, (CSHIM_REDUCTION, CSHIM_COMM), (CSHIM_REDUCTION_A, comm), recvbuf, count,        \
      datatype)                                                                                    \
    X(MPI_Iexscan, (CSHIM_REDUCTION, CSHIM_COMM, CSHIM_REQUEST),                                   \
      (CSHIM_REDUCTION_A, comm, request), recvbuf, count, datatype)                                \
    X(MPI_Neighbor_allgather, (CSHIM_SEND, CSHIM_RECEIVE, CSHIM_COMM),                             \
      (CSHIM_SEND_A, CSHIM_RECEIVE_A, comm), sendbuf, sendcount, sendtype)                         \
    X(MPI_Ineighbor_allgather, (CSHIM_SEND, CSHIM_RECEIVE, CSHIM_COMM, CSHIM_REQUEST),             \
      (CSHIM_SEND_A, CSHIM_RECEIVE_A, comm, request), sendbuf, sendcount, sendtype)                \
    X(MPI_Neighbor_allgatherv, (CSHIM_SEND, CSHIM_RECEIVEV, CSHIM_COMM),                           \
      (CSHIM_SEND_A, CSHIM_RECEIVEV_A, comm), sendbuf, sendcount, sendtype)                        \
    X(MPI_Ineighbor_allgatherv, (CSHIM_SEND, CSHIM_RECEIVEV, CSHIM_COMM, CSHIM_REQUEST),           \
      (CSHIM_SEND_A, CSHIM_RECEIVEV_A, comm, request), sendbuf, sendcount, sendtype)               \
    X(MPI_Neighbor_alltoall, (CSHIM_SEND, CSHIM_RECEIVE, CSHIM_COMM),                              \
      (CSHIM_SEND_A, CSHIM_RECEIVE_A, comm), sendbuf, sendcount, sendtype)                         \
    X(MPI_Ineighbor_alltoall, (CSHIM_SEND, CSHIM_RECEIVE, CSHIM_COMM, CSHIM_REQUEST),              \
      (CSHIM_SEND_A, CSHIM_RECEIVE_A, comm, request), sendbuf, sendcount, sendtype)                \
    X(MPI_Neighbor_alltoallv, (CSHIM_SENDV, CSHIM_RECEIVEV, CSHIM_COMM),                           \
      (CSHIM_SENDV_A, CSHIM_RECEIVEV_A, comm), NULL, 0, sendtype)                                  \
    X(MPI_Ineighbor_alltoallv, (CSHIM_SENDV, CSHIM_RECEIVEV, CSHIM_COMM, CSHIM_REQUEST),           \
      (CSHIM_SENDV_A, CSHIM_RECEIVEV_A, comm, request), NULL, 0, sendtype)                         \
    X(MPI_Neighbor_alltoallw, (CSHIM_EXCHANGEW, CSHIM_COMM), (CSHIM_EXCHANGEW_A, comm), NULL, 0,   \
      NULL)                                                                                        \
    X(MPI_Ineighbor_alltoallw, (CSHIM_EXCHANGEW, CSHIM_COMM, CSHIM_REQUEST),                       \
      (CSHIM_EXCHANGEW_A, comm, request), NULL, 0, NULL)

#define CSHIM_MPI_COUNTED_ID(name, ...) CSHIM_COUNTED_##name,
enum cshim_mpi_counted { CSHIM_MPI_COUNTED(CSHIM_MPI_COUNTED_ID) CSHIM_COUNTED_FUNCTIONS };
#undef CSHIM_MPI_COUNTED_ID

#endif
