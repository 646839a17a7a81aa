/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/transport.h"

#include <stdlib.h>

#include "shim/core/clock.h"
#include "shim/host/message.h"
#include "shim/host/watch.h"
#include "shim/mpi/nonblocking.h"
#include "shim/mpi/progress.h"

static struct cshim_comm *comm_of(const struct cshim_exchange *exchange)
{
    return (struct cshim_comm *)exchange->communicator;
}

/* Returns a peer's rank in the carrier. With a staged schedule, peer i is the rank of
 * node i with this rank's local index. */
static int rank_of(const struct cshim_exchange *exchange, int peer)
{
    const struct cshim_comm *comm = comm_of(exchange);
    const bool is_staged = exchange->plan->schedule->staged;
    return comm->carrier_ranks[is_staged ? comm->host.layout.across[peer] : peer];
}

/* Returns the tag of a message of this communicator. */
static int tag_of(const struct cshim_exchange *exchange, enum cshim_message kind)
{
    return comm_of(exchange)->first_tag + (int)kind;
}

static void forget(const struct cshim_exchange *exchange)
{
    for (unsigned i = 0; i < CSHIM_REQUESTS(exchange->plan->peers); i++)
        comm_of(exchange)->requests[i] = MPI_REQUEST_NULL;
}

static int receive(const struct cshim_exchange *exchange, unsigned request, void *message,
                   size_t bytes, int from, enum cshim_message kind)
{
    return PMPI_Irecv(message, (int)bytes, MPI_BYTE, rank_of(exchange, from),
                      tag_of(exchange, kind), comm_of(exchange)->carrier->comm,
                      &comm_of(exchange)->requests[request]);
}

static int send(const struct cshim_exchange *exchange, unsigned request, const void *message,
                size_t bytes, int to, enum cshim_message kind)
{
    return PMPI_Isend(message, (int)bytes, MPI_BYTE, rank_of(exchange, to), tag_of(exchange, kind),
                      comm_of(exchange)->carrier->comm, &comm_of(exchange)->requests[request]);
}

static const uint8_t *scratch_of(const struct cshim_exchange *exchange, int rank)
{
    const struct cshim_comm *comm = comm_of(exchange);
    const uint8_t **scratch_of_ranks = comm->carrier->scratch_of;
    return scratch_of_ranks != NULL ? scratch_of_ranks[comm->carrier_ranks[rank]] : NULL;
}

/* Returns the class of an MPI error: MPICH's error codes contain more than the class. */
static int class_of(int error)
{
    int class = error;
    PMPI_Error_class(error, &class);
    return class;
}

/* Returns the error of the first of `count` requests that has one, or MPI_ERR_IN_STATUS. `indices`
 * are the requests' positions; NULL: 0, 1, ... If that request's message was longer than its
 * receive, sets *too_long to the request's position. */
static int first_error(const MPI_Status *statuses, int count, const int *indices, int *too_long)
{
    for (int i = 0; i < count; i++) {
        const int error = statuses[i].MPI_ERROR;
        if (error == MPI_SUCCESS || class_of(error) == MPI_ERR_PENDING)
            continue;
        if (class_of(error) == MPI_ERR_TRUNCATE)
            *too_long = indices != NULL ? indices[i] : i;
        return error;
    }
    return MPI_ERR_IN_STATUS;
}

/* State of a blocking wait for the requests of an exchange. */
struct exchange_wait {
    struct cshim_wait watched; /* first, because report_slow() casts its address */
    const struct cshim_exchange *exchange;
};

static void report_slow(struct cshim_wait *watched)
{
    const struct exchange_wait *wait = (const struct exchange_wait *)watched;
    cshim_message_report_wait(
        wait->exchange, comm_of(wait->exchange)->carrier_ranks[wait->exchange->communicator->rank],
        rank_of);
}

static int wait_for(const struct cshim_exchange *exchange, int count, MPI_Request *requests)
{
    struct exchange_wait wait = {.watched = {.since = cshim_seconds(), .on_slow = report_slow},
                                 .exchange = exchange};
    cshim_watch_begin(&wait.watched);
    const int status = PMPI_Waitall(count, requests, comm_of(exchange)->statuses);
    cshim_watch_end(&wait.watched);
    return status;
}

static int complete(const struct cshim_exchange *exchange, unsigned first, unsigned count,
                    bool *done, int *too_long)
{
    const struct cshim_comm *comm = comm_of(exchange);
    MPI_Request *requests = &comm->requests[first];
    int status, ended = (int)count;
    const int *indices = NULL;
    *done = true;
    if (!exchange->nonblocking) {
        status = wait_for(exchange, (int)count, requests);
    } else {
        indices = comm->indices;
        do
            status = cshim_progress_testsome((int)count, requests, &ended, comm->indices,
                                             comm->statuses);
        while (status == MPI_SUCCESS && ended > 0);
        *done = status == MPI_SUCCESS && ended == MPI_UNDEFINED;
    }
    return class_of(status) == MPI_ERR_IN_STATUS
               ? first_error(comm->statuses, ended, indices, too_long)
               : status;
}

static int spread_inside(const struct cshim_exchange *exchange, const void *input, void *parts,
                         const struct cshim_range *block)
{
    const struct cshim_layout *layout = &exchange->communicator->layout;
    const int *lengths = exchange->communicator->share_lengths;
    const MPI_Datatype datatype = cshim_mpi_datatype(exchange->plan->dtype);
    const int ranks = layout->local_ranks;
    const int own = (int)cshim_range_within(block, lengths[layout->local_rank]);
    int *counts = calloc(4 * (size_t)ranks, sizeof *counts), begin = (int)block->begin;
    if (counts == NULL)
        cshim_mpi_end_job("no memory for the sum of a node"); /* the other ranks would wait */
    int *begins = counts + ranks, *sent = begins + ranks, *sent_begins = sent + ranks;
    for (int i = 0; i < ranks; i++) {
        begins[i] = i * own;
        sent_begins[i] = begin;
        begin += lengths[i];
        if (i == layout->local_rank)
            continue;
        counts[i] = own;
        sent[i] = (int)cshim_range_within(block, lengths[i]);
    }
    const int status =
        cshim_mpi.real->MPI_Alltoallv(input, sent, sent_begins, datatype, parts, counts, begins,
                                      datatype, comm_of(exchange)->node);
    free(counts);
    return status;
}

static int gather_inside(const struct cshim_exchange *exchange, const void *share, void *output)
{
    const struct cshim_layout *layout = &exchange->communicator->layout;
    const int *lengths = exchange->communicator->share_lengths;
    const int *begins = exchange->communicator->share_begins;
    const MPI_Datatype datatype = cshim_mpi_datatype(exchange->plan->dtype);
    const MPI_Comm node = comm_of(exchange)->node;
    const int own = lengths[layout->local_rank];
    if (exchange->plan->collective == CSHIM_REDUCE)
        return cshim_mpi.real->MPI_Gatherv(share, own, datatype, output, lengths, begins, datatype,
                                           layout->local_of[exchange->plan->root], node);
    return cshim_mpi.real->MPI_Allgatherv(share, own, datatype, output, lengths, begins, datatype,
                                          node);
}

static int meet_inside(const struct cshim_exchange *exchange, bool own, bool *all)
{
    const int is_own = own;
    int is_all = 0;
    const int status = cshim_mpi.real->MPI_Allreduce(&is_own, &is_all, 1, MPI_INT, MPI_MIN,
                                                     comm_of(exchange)->node);
    *all = is_all != 0;
    return status;
}

/* Records a failure of a collective call on the program's communicator: the library has then called
 * the program's error handler, and the engine must not call it again. Returns `status`. */
static int note_error(const struct cshim_exchange *exchange, int status)
{
    comm_of(exchange)->error_reported |= status != MPI_SUCCESS;
    return status;
}

static int sum(const struct cshim_exchange *exchange, const void *input, void *output,
               uint64_t count)
{
    return note_error(exchange, cshim_mpi.real->MPI_Allreduce(
                                    input == output ? MPI_IN_PLACE : input, output, (int)count,
                                    cshim_mpi_datatype(exchange->plan->dtype), MPI_SUM,
                                    comm_of(exchange)->program));
}

/* Operations that add 16-bit floats: MPI 3 has no bfloat16, and float16 in few builds (MPI_REAL2).
 */
static MPI_Op half_sum = MPI_OP_NULL, bfloat16_sum = MPI_OP_NULL;

static void add_half(void *in, void *inout, int *count, MPI_Datatype *datatype)
{
    (void)datatype;
    cshim_add(CSHIM_FLOAT16, inout, in, inout, (size_t)*count);
}

static void add_bfloat16(void *in, void *inout, int *count, MPI_Datatype *datatype)
{
    (void)datatype;
    cshim_add(CSHIM_BFLOAT16, inout, in, inout, (size_t)*count);
}

int cshim_mpi_transport_setup(void)
{
    const int status = PMPI_Op_create(add_half, 1, &half_sum);
    return status == MPI_SUCCESS ? PMPI_Op_create(add_bfloat16, 1, &bfloat16_sum) : status;
}

void cshim_mpi_transport_teardown(void)
{
    PMPI_Op_free(&half_sum);
    PMPI_Op_free(&bfloat16_sum);
}

static int sum_narrowed(const struct cshim_exchange *exchange, void *codes, uint64_t count,
                        enum cshim_dtype dtype)
{
    MPI_Op op = MPI_SUM;
    if (dtype != CSHIM_FLOAT32)
        op = dtype == CSHIM_FLOAT16 ? half_sum : bfloat16_sum;
    return note_error(
        exchange, cshim_mpi.real->MPI_Allreduce(MPI_IN_PLACE, codes, (int)count,
                                                dtype == CSHIM_FLOAT32 ? MPI_FLOAT : MPI_UINT16_T,
                                                op, comm_of(exchange)->program));
}

static int maximum(const struct cshim_exchange *exchange, const uint64_t *own, uint64_t *largest,
                   int count)
{
    return note_error(exchange, cshim_mpi.real->MPI_Allreduce(own, largest, count, MPI_UINT64_T,
                                                              MPI_MAX, comm_of(exchange)->program));
}

static int sum_at(const struct cshim_exchange *exchange, const double *values, double *sums,
                  int count, int root)
{
    return note_error(exchange, cshim_mpi.real->MPI_Reduce(values, sums, count, MPI_DOUBLE, MPI_SUM,
                                                           root, comm_of(exchange)->program));
}

static int end_job(const struct cshim_exchange *exchange, const char *why)
{
    (void)exchange, (void)why;
    /* MPI_COMM_WORLD: with another communicator MPICH 4 waits for ranks that are in MPI_Finalize.
     */
    return PMPI_Abort(MPI_COMM_WORLD, 1);
}

const struct cshim_transport cshim_mpi_transport = {
    .call_names = {[CSHIM_ALLREDUCE] = "MPI_Allreduce",
                   [CSHIM_REDUCE_SCATTER] = "MPI_Reduce_scatter",
                   [CSHIM_REDUCE] = "MPI_Reduce",
                   [CSHIM_ALLGATHER] = "MPI_Allgather",
                   [CSHIM_ALLTOALL] = "MPI_Alltoall",
                   [CSHIM_BROADCAST] = "MPI_Bcast"},
    .forget = forget,
    .receive = receive,
    .send = send,
    .scratch_of = scratch_of,
    .complete = complete,
    .spread_inside = spread_inside,
    .gather_inside = gather_inside,
    .meet_inside = meet_inside,
    .sum = sum,
    .sum_narrowed = sum_narrowed,
    .maximum = maximum,
    .sum_at = sum_at,
    .abort = end_job,
};
