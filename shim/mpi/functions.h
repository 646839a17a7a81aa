/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of MPI that the front exports, each as MPI_X and PMPI_X: one entry here makes the
 * wrapper, its alias and its place among the real functions. An entry that has counts, and none of
 * them in arrays that a nonblocking call would go on reading, makes both MPI_X and MPI_X_c, whose
 * counts are of 64 bits and whose displacements are of the size of an address.
 *
 * Handles have the types of the <mpi.h> that was included before, or are pointers. */
#ifndef CSHIM_MPI_FUNCTIONS_H
#define CSHIM_MPI_FUNCTIONS_H

#include <stdint.h>

#ifdef MPI_VERSION
typedef MPI_Count cshim_count;
typedef MPI_Aint cshim_displacement;
typedef MPI_Datatype cshim_datatype_handle;
typedef MPI_Op cshim_op_handle;
typedef MPI_Comm cshim_comm_handle;
typedef MPI_Info cshim_info_handle;
typedef MPI_Request cshim_request_handle;
#else
typedef int64_t cshim_count; /* MPI_Count in every ABI of concern */
typedef intptr_t cshim_displacement;
typedef void *cshim_datatype_handle;
typedef void *cshim_op_handle;
typedef void *cshim_comm_handle;
typedef void *cshim_info_handle;
typedef void *cshim_request_handle;
#endif
_Static_assert(sizeof(cshim_count) == sizeof(int64_t), "the front's counts are the MPI's");
_Static_assert(sizeof(cshim_displacement) == sizeof(intptr_t), "and so are its displacements");

/* Parameters that many have in common, with the type of their counts (and displacements), and the
 * same as arguments, with what becomes of a count. */
#define CSHIM_REDUCTION(type)                                                                      \
    const void *sendbuf, void *recvbuf, type count, cshim_datatype_handle datatype,                \
        cshim_op_handle op
#define CSHIM_REDUCTION_A(as) sendbuf, recvbuf, as(count), datatype, op
#define CSHIM_SCATTERED(type)                                                                      \
    const void *sendbuf, void *recvbuf, const type recvcounts[], cshim_datatype_handle datatype,   \
        cshim_op_handle op
#define CSHIM_SCATTERED_A sendbuf, recvbuf, recvcounts, datatype, op
#define CSHIM_SEND(type) const void *sendbuf, type sendcount, cshim_datatype_handle sendtype
#define CSHIM_SEND_A(as) sendbuf, as(sendcount), sendtype
#define CSHIM_SENDV(type, displacement)                                                            \
    const void *sendbuf, const type sendcounts[], const displacement sdispls[],                    \
        cshim_datatype_handle sendtype
#define CSHIM_SENDV_A sendbuf, sendcounts, sdispls, sendtype
#define CSHIM_RECEIVE(type) void *recvbuf, type recvcount, cshim_datatype_handle recvtype
#define CSHIM_RECEIVE_A(as) recvbuf, as(recvcount), recvtype
#define CSHIM_RECEIVEV(type, displacement)                                                         \
    void *recvbuf, const type recvcounts[], const displacement rdispls[],                          \
        cshim_datatype_handle recvtype
#define CSHIM_RECEIVEV_A recvbuf, recvcounts, rdispls, recvtype
#define CSHIM_EXCHANGEW(type, displacement)                                                        \
    const void *sendbuf, const type sendcounts[], const displacement sdispls[],                    \
        const cshim_datatype_handle sendtypes[], void *recvbuf, const type recvcounts[],           \
        const displacement rdispls[], const cshim_datatype_handle recvtypes[]
#define CSHIM_EXCHANGEW_A                                                                          \
    sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes
#define CSHIM_COMM cshim_comm_handle comm
#define CSHIM_REQUEST cshim_request_handle *request

#define CSHIM_AS_IS(count) count

/* X(name, c, parameters, arguments) for each reduction that an engine has its own function for:
 * name##c. c is empty where counts are int, or _c. */
#define CSHIM_MPI_REDUCTIONS_OF(X, c, type, as)                                                    \
    X(MPI_Allreduce, c, (CSHIM_REDUCTION(type), CSHIM_COMM), (CSHIM_REDUCTION_A(as), comm))        \
    X(MPI_Reduce, c, (CSHIM_REDUCTION(type), int root, CSHIM_COMM),                                \
      (CSHIM_REDUCTION_A(as), root, comm))                                                         \
    X(MPI_Reduce_scatter_block, c, (CSHIM_REDUCTION(type), CSHIM_COMM),                            \
      (CSHIM_REDUCTION_A(as), comm))                                                               \
    X(MPI_Iallreduce, c, (CSHIM_REDUCTION(type), CSHIM_COMM, CSHIM_REQUEST),                       \
      (CSHIM_REDUCTION_A(as), comm, request))                                                      \
    X(MPI_Allreduce_init, c,                                                                       \
      (CSHIM_REDUCTION(type), CSHIM_COMM, cshim_info_handle info, CSHIM_REQUEST),                  \
      (CSHIM_REDUCTION_A(as), comm, info, request))

#define CSHIM_MPI_REDUCTIONS(X)                                                                    \
    CSHIM_MPI_REDUCTIONS_OF(X, , int, CSHIM_AS_IS)                                                 \
    CSHIM_MPI_REDUCTIONS_OF(X, _c, cshim_count, CSHIM_AS_IS)                                       \
    X(MPI_Reduce_scatter, , (CSHIM_SCATTERED(int), CSHIM_COMM), (CSHIM_SCATTERED_A, comm))         \
    X(MPI_Reduce_scatter, _c, (CSHIM_SCATTERED(cshim_count), CSHIM_COMM),                          \
      (CSHIM_SCATTERED_A, comm))                                                                   \
    X(MPIX_Allreduce_init, ,                                                                       \
      (CSHIM_REDUCTION(int), CSHIM_COMM, cshim_info_handle info, CSHIM_REQUEST),                   \
      (CSHIM_REDUCTION_A(CSHIM_AS_IS), comm, info, request))

/* The same for what else an engine has a function of its own for. */
#define CSHIM_MPI_REQUESTS(X)                                                                      \
    X(MPI_Start, , (CSHIM_REQUEST), (request))                                                     \
    X(MPI_Startall, , (int count, cshim_request_handle requests[]), (count, requests))             \
    X(MPI_Request_free, , (CSHIM_REQUEST), (request))                                              \
    X(MPI_Cancel, , (CSHIM_REQUEST), (request))

#define CSHIM_MPI_WRAPPED(X) CSHIM_MPI_REDUCTIONS(X) CSHIM_MPI_REQUESTS(X)

/* X(name, c, parameters, arguments, buffer, count, datatype) for each that is counted and passed
 * on: buffer, count and datatype say how many bytes one rank hands in or gets, where a glance at
 * the arguments tells; all have a `comm`. */
#define CSHIM_MPI_COUNTED_OF(X, c, type, as)                                                       \
    X(MPI_Bcast, c,                                                                                \
      (void *buffer, type count, cshim_datatype_handle datatype, int root, CSHIM_COMM),            \
      (buffer, as(count), datatype, root, comm), buffer, count, datatype)                          \
    X(MPI_Ibcast, c,                                                                               \
      (void *buffer, type count, cshim_datatype_handle datatype, int root, CSHIM_COMM,             \
       CSHIM_REQUEST),                                                                             \
      (buffer, as(count), datatype, root, comm, request), buffer, count, datatype)                 \
    X(MPI_Gather, c, (CSHIM_SEND(type), CSHIM_RECEIVE(type), int root, CSHIM_COMM),                \
      (CSHIM_SEND_A(as), CSHIM_RECEIVE_A(as), root, comm), sendbuf, sendcount, sendtype)           \
    X(MPI_Igather, c,                                                                              \
      (CSHIM_SEND(type), CSHIM_RECEIVE(type), int root, CSHIM_COMM, CSHIM_REQUEST),                \
      (CSHIM_SEND_A(as), CSHIM_RECEIVE_A(as), root, comm, request), sendbuf, sendcount, sendtype)  \
    X(MPI_Scatter, c, (CSHIM_SEND(type), CSHIM_RECEIVE(type), int root, CSHIM_COMM),               \
      (CSHIM_SEND_A(as), CSHIM_RECEIVE_A(as), root, comm), recvbuf, recvcount, recvtype)           \
    X(MPI_Iscatter, c,                                                                             \
      (CSHIM_SEND(type), CSHIM_RECEIVE(type), int root, CSHIM_COMM, CSHIM_REQUEST),                \
      (CSHIM_SEND_A(as), CSHIM_RECEIVE_A(as), root, comm, request), recvbuf, recvcount, recvtype)  \
    X(MPI_Allgather, c, (CSHIM_SEND(type), CSHIM_RECEIVE(type), CSHIM_COMM),                       \
      (CSHIM_SEND_A(as), CSHIM_RECEIVE_A(as), comm), recvbuf, recvcount, recvtype)                 \
    X(MPI_Iallgather, c, (CSHIM_SEND(type), CSHIM_RECEIVE(type), CSHIM_COMM, CSHIM_REQUEST),       \
      (CSHIM_SEND_A(as), CSHIM_RECEIVE_A(as), comm, request), recvbuf, recvcount, recvtype)        \
    X(MPI_Alltoall, c, (CSHIM_SEND(type), CSHIM_RECEIVE(type), CSHIM_COMM),                        \
      (CSHIM_SEND_A(as), CSHIM_RECEIVE_A(as), comm), recvbuf, recvcount, recvtype)                 \
    X(MPI_Ialltoall, c, (CSHIM_SEND(type), CSHIM_RECEIVE(type), CSHIM_COMM, CSHIM_REQUEST),        \
      (CSHIM_SEND_A(as), CSHIM_RECEIVE_A(as), comm, request), recvbuf, recvcount, recvtype)        \
    X(MPI_Ireduce, c, (CSHIM_REDUCTION(type), int root, CSHIM_COMM, CSHIM_REQUEST),                \
      (CSHIM_REDUCTION_A(as), root, comm, request), recvbuf, count, datatype)                      \
    X(MPI_Ireduce_scatter_block, c, (CSHIM_REDUCTION(type), CSHIM_COMM, CSHIM_REQUEST),            \
      (CSHIM_REDUCTION_A(as), comm, request), recvbuf, count, datatype)                            \
    X(MPI_Scan, c, (CSHIM_REDUCTION(type), CSHIM_COMM), (CSHIM_REDUCTION_A(as), comm), recvbuf,    \
      count, datatype)                                                                             \
    X(MPI_Iscan, c, (CSHIM_REDUCTION(type), CSHIM_COMM, CSHIM_REQUEST),                            \
      (CSHIM_REDUCTION_A(as), comm, request), recvbuf, count, datatype)                            \
    X(MPI_Exscan, c, (CSHIM_REDUCTION(type), CSHIM_COMM), (CSHIM_REDUCTION_A(as), comm), recvbuf,  \
      count, datatype)                                                                             \
    X(MPI_Iexscan, c, (CSHIM_REDUCTION(type), CSHIM_COMM, CSHIM_REQUEST),                          \
      (CSHIM_REDUCTION_A(as), comm, request), recvbuf, count, datatype)                            \
    X(MPI_Neighbor_allgather, c, (CSHIM_SEND(type), CSHIM_RECEIVE(type), CSHIM_COMM),              \
      (CSHIM_SEND_A(as), CSHIM_RECEIVE_A(as), comm), sendbuf, sendcount, sendtype)                 \
    X(MPI_Ineighbor_allgather, c,                                                                  \
      (CSHIM_SEND(type), CSHIM_RECEIVE(type), CSHIM_COMM, CSHIM_REQUEST),                          \
      (CSHIM_SEND_A(as), CSHIM_RECEIVE_A(as), comm, request), sendbuf, sendcount, sendtype)        \
    X(MPI_Neighbor_alltoall, c, (CSHIM_SEND(type), CSHIM_RECEIVE(type), CSHIM_COMM),               \
      (CSHIM_SEND_A(as), CSHIM_RECEIVE_A(as), comm), sendbuf, sendcount, sendtype)                 \
    X(MPI_Ineighbor_alltoall, c,                                                                   \
      (CSHIM_SEND(type), CSHIM_RECEIVE(type), CSHIM_COMM, CSHIM_REQUEST),                          \
      (CSHIM_SEND_A(as), CSHIM_RECEIVE_A(as), comm, request), sendbuf, sendcount, sendtype)

/* The same of those whose counts are in arrays. */
#define CSHIM_MPI_COUNTED_BY_ARRAYS_OF(X, c, type, displacement)                                   \
    X(MPI_Gatherv, c,                                                                              \
      (CSHIM_SEND(type), CSHIM_RECEIVEV(type, displacement), int root, CSHIM_COMM),                \
      (CSHIM_SEND_A(CSHIM_AS_IS), CSHIM_RECEIVEV_A, root, comm), sendbuf, sendcount, sendtype)     \
    X(MPI_Scatterv, c,                                                                             \
      (CSHIM_SENDV(type, displacement), CSHIM_RECEIVE(type), int root, CSHIM_COMM),                \
      (CSHIM_SENDV_A, CSHIM_RECEIVE_A(CSHIM_AS_IS), root, comm), recvbuf, recvcount, recvtype)     \
    X(MPI_Allgatherv, c, (CSHIM_SEND(type), CSHIM_RECEIVEV(type, displacement), CSHIM_COMM),       \
      (CSHIM_SEND_A(CSHIM_AS_IS), CSHIM_RECEIVEV_A, comm), sendbuf, sendcount, sendtype)           \
    X(MPI_Alltoallv, c,                                                                            \
      (CSHIM_SENDV(type, displacement), CSHIM_RECEIVEV(type, displacement), CSHIM_COMM),           \
      (CSHIM_SENDV_A, CSHIM_RECEIVEV_A, comm), NULL, 0, sendtype)                                  \
    X(MPI_Alltoallw, c, (CSHIM_EXCHANGEW(type, displacement), CSHIM_COMM),                         \
      (CSHIM_EXCHANGEW_A, comm), NULL, 0, NULL)                                                    \
    X(MPI_Neighbor_allgatherv, c,                                                                  \
      (CSHIM_SEND(type), CSHIM_RECEIVEV(type, displacement), CSHIM_COMM),                          \
      (CSHIM_SEND_A(CSHIM_AS_IS), CSHIM_RECEIVEV_A, comm), sendbuf, sendcount, sendtype)           \
    X(MPI_Neighbor_alltoallv, c,                                                                   \
      (CSHIM_SENDV(type, displacement), CSHIM_RECEIVEV(type, displacement), CSHIM_COMM),           \
      (CSHIM_SENDV_A, CSHIM_RECEIVEV_A, comm), NULL, 0, sendtype)                                  \
    X(MPI_Neighbor_alltoallw, c, (CSHIM_EXCHANGEW(type, cshim_displacement), CSHIM_COMM),          \
      (CSHIM_EXCHANGEW_A, comm), NULL, 0, NULL)

/* The same of those that go on reading their arrays after they have returned. They have no MPI_X_c
 * here: made of MPI_X where an MPI lacks it, arrays of ints would have to live as long as the call,
 * and nobody tells when it ends. */
#define CSHIM_MPI_COUNTED_BY_LASTING_ARRAYS(X)                                                     \
    X(MPI_Igatherv, ,                                                                              \
      (CSHIM_SEND(int), CSHIM_RECEIVEV(int, int), int root, CSHIM_COMM, CSHIM_REQUEST),            \
      (CSHIM_SEND_A(CSHIM_AS_IS), CSHIM_RECEIVEV_A, root, comm, request), sendbuf, sendcount,      \
      sendtype)                                                                                    \
    X(MPI_Iscatterv, ,                                                                             \
      (CSHIM_SENDV(int, int), CSHIM_RECEIVE(int), int root, CSHIM_COMM, CSHIM_REQUEST),            \
      (CSHIM_SENDV_A, CSHIM_RECEIVE_A(CSHIM_AS_IS), root, comm, request), recvbuf, recvcount,      \
      recvtype)                                                                                    \
    X(MPI_Iallgatherv, , (CSHIM_SEND(int), CSHIM_RECEIVEV(int, int), CSHIM_COMM, CSHIM_REQUEST),   \
      (CSHIM_SEND_A(CSHIM_AS_IS), CSHIM_RECEIVEV_A, comm, request), sendbuf, sendcount, sendtype)  \
    X(MPI_Ialltoallv, ,                                                                            \
      (CSHIM_SENDV(int, int), CSHIM_RECEIVEV(int, int), CSHIM_COMM, CSHIM_REQUEST),                \
      (CSHIM_SENDV_A, CSHIM_RECEIVEV_A, comm, request), NULL, 0, sendtype)                         \
    X(MPI_Ialltoallw, , (CSHIM_EXCHANGEW(int, int), CSHIM_COMM, CSHIM_REQUEST),                    \
      (CSHIM_EXCHANGEW_A, comm, request), NULL, 0, NULL)                                           \
    X(MPI_Ireduce_scatter, , (CSHIM_SCATTERED(int), CSHIM_COMM, CSHIM_REQUEST),                    \
      (CSHIM_SCATTERED_A, comm, request), NULL, 0, datatype)                                       \
    X(MPI_Ineighbor_allgatherv, ,                                                                  \
      (CSHIM_SEND(int), CSHIM_RECEIVEV(int, int), CSHIM_COMM, CSHIM_REQUEST),                      \
      (CSHIM_SEND_A(CSHIM_AS_IS), CSHIM_RECEIVEV_A, comm, request), sendbuf, sendcount, sendtype)  \
    X(MPI_Ineighbor_alltoallv, ,                                                                   \
      (CSHIM_SENDV(int, int), CSHIM_RECEIVEV(int, int), CSHIM_COMM, CSHIM_REQUEST),                \
      (CSHIM_SENDV_A, CSHIM_RECEIVEV_A, comm, request), NULL, 0, sendtype)                         \
    X(MPI_Ineighbor_alltoallw, ,                                                                   \
      (CSHIM_EXCHANGEW(int, cshim_displacement), CSHIM_COMM, CSHIM_REQUEST),                       \
      (CSHIM_EXCHANGEW_A, comm, request), NULL, 0, NULL)

/* Those that have a row each in reports, which MPI_X_c shares. */
#define CSHIM_MPI_COUNTED_APART(X)                                                                 \
    CSHIM_MPI_COUNTED_OF(X, , int, CSHIM_AS_IS)                                                    \
    CSHIM_MPI_COUNTED_BY_ARRAYS_OF(X, , int, int) CSHIM_MPI_COUNTED_BY_LASTING_ARRAYS(X)

#define CSHIM_MPI_COUNTED(X)                                                                       \
    CSHIM_MPI_COUNTED_APART(X)                                                                     \
    CSHIM_MPI_COUNTED_OF(X, _c, cshim_count, CSHIM_AS_IS)                                          \
    CSHIM_MPI_COUNTED_BY_ARRAYS_OF(X, _c, cshim_count, cshim_displacement)

#define CSHIM_MPI_COUNTED_ID(name, ...) CSHIM_COUNTED_##name,
enum cshim_mpi_counted { CSHIM_MPI_COUNTED_APART(CSHIM_MPI_COUNTED_ID) CSHIM_COUNTED_FUNCTIONS };
#undef CSHIM_MPI_COUNTED_ID

#endif
