/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a segment: headers, requests, and what became of them. */
#include "shim/mpi/segment.h"

void cshim_message_write_header(const struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_message step,
                                uint64_t elements, uint8_t *message)
{
    const struct cshim_header header = cshim_header_make(
        exchange->plan, exchange->sequence, segment->index, step, elements, exchange->error);
    memcpy(message, &header, sizeof header);
}

/* Ranks that disagree about a call are an erroneous program: the job ends, both views shown. */
void cshim_message_check_header(struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_message step,
                                uint64_t elements, const uint8_t *message, int from)
{
    static const char *const names[CSHIM_COLLECTIVE_COUNT] = {
        [CSHIM_ALLREDUCE] = "MPI_Allreduce",
        [CSHIM_REDUCE_SCATTER] = "MPI_Reduce_scatter",
        [CSHIM_REDUCE] = "MPI_Reduce",
    };
    char text[CSHIM_MISMATCH_MAX];
    float error;
    const struct cshim_header want =
        cshim_header_make(exchange->plan, exchange->sequence, segment->index, step, elements, 0);
    if (cshim_header_check(&want, message, &error, text)) {
        exchange->error = error > exchange->error ? error : exchange->error;
        return;
    }
    cshim_log(CSHIM_LOG_ERROR, "%s does not match between rank %d and its peer %d: %s",
              names[exchange->plan->collective], exchange->rank, from, text);
    PMPI_Abort(exchange->comm->comm, 1);
}

static int message_bytes(const struct cshim_exchange *exchange, uint64_t elements)
{
    return (int)(CSHIM_HEADER_BYTES +
                 cshim_encoded_bytes(exchange->plan->codec, exchange->plan->dtype, elements));
}

static MPI_Request *request(const struct cshim_exchange *exchange,
                            const struct cshim_segment *segment, enum cshim_transfer kind, int peer)
{
    return &segment->requests[(uint32_t)kind * exchange->plan->peers + (uint32_t)peer];
}

static int tag_of(enum cshim_transfer kind)
{
    return kind == CSHIM_RECEIVE_PARTS || kind == CSHIM_SEND_PARTS ? CSHIM_MESSAGE_PARTS
                                                                   : CSHIM_MESSAGE_SUMS;
}

/* A message that is longer than its place, from a rank that makes another call, ends the receive
 * with an error; its header may have come all the same. No older one must be taken for it. */
int cshim_message_receive(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          enum cshim_transfer kind, int from, uint64_t elements)
{
    uint8_t *message = cshim_segment_piece(exchange, segment, kind, from);
    memset(message, 0, CSHIM_HEADER_BYTES);
    return PMPI_Irecv(message, message_bytes(exchange, elements), MPI_BYTE, from, tag_of(kind),
                      exchange->peers, request(exchange, segment, kind, from));
}

int cshim_message_send(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       enum cshim_transfer kind, const uint8_t *message, int to, uint64_t elements)
{
    const int bytes = message_bytes(exchange, elements);
    const struct cshim_layout *layout = &exchange->comm->layout;
    exchange->figures.bytes_wire += (uint64_t)bytes;
    if (segment->stage != NULL || layout->node_of[to] != layout->node)
        exchange->figures.bytes_network += (uint64_t)bytes;
    return PMPI_Isend(message, bytes, MPI_BYTE, to, tag_of(kind), exchange->peers,
                      request(exchange, segment, kind, to));
}

/* Compares what came to a receive that failed with what was to come. */
static void check_failed(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         enum cshim_transfer kind, int from)
{
    const int owner = kind == CSHIM_RECEIVE_PARTS ? exchange->rank : from;
    if (kind == CSHIM_RECEIVE_PARTS || kind == CSHIM_RECEIVE_REDUCED)
        cshim_message_check_header(exchange, segment, (enum cshim_message)tag_of(kind),
                                   cshim_segment_owned(exchange, segment, owner).length,
                                   cshim_segment_piece(exchange, segment, kind, from), from);
}

/* MPICH's error codes say more than their class. */
static int class_of(int error)
{
    int class = error;
    PMPI_Error_class(error, &class);
    return class;
}

/* The error of the first request that has one, of `count` that have ended; indices say which, NULL:
 * all in order. */
static int first_error(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       enum cshim_transfer kind, int count, const int *indices)
{
    for (int i = 0; i < count; i++) {
        const int error = exchange->comm->statuses[i].MPI_ERROR;
        if (error == MPI_SUCCESS || class_of(error) == MPI_ERR_PENDING)
            continue;
        if (class_of(error) == MPI_ERR_TRUNCATE)
            check_failed(exchange, segment, kind, indices != NULL ? indices[i] : i);
        return error;
    }
    return MPI_ERR_IN_STATUS;
}

int cshim_message_complete(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                           enum cshim_transfer kind, bool *done)
{
    struct cshim_comm *comm = exchange->comm;
    MPI_Request *requests = request(exchange, segment, kind, 0);
    int status, count = exchange->ranks;
    if (!exchange->nonblocking) {
        *done = true;
        status = PMPI_Waitall(count, requests, comm->statuses);
        return class_of(status) == MPI_ERR_IN_STATUS
                   ? first_error(exchange, segment, kind, count, NULL)
                   : status;
    }
    do
        status = cshim_progress_testsome(exchange->ranks, requests, &count, comm->indices,
                                         comm->statuses);
    while (status == MPI_SUCCESS && count > 0);
    *done = status == MPI_SUCCESS && count == MPI_UNDEFINED;
    return class_of(status) == MPI_ERR_IN_STATUS
               ? first_error(exchange, segment, kind, count, comm->indices)
               : status;
}
