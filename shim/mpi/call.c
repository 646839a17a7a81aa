/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/call.h"

#include "shim/core/clock.h"

/* Finds where each rank's block begins, and where the last one ends. */
static void find_blocks(const struct cshim_arguments *arguments, struct cshim_communicator *host)
{
    for (int i = 0; i < host->ranks; i++)
        host->block_begins[i + 1] =
            host->block_begins[i] + (arguments->recvcounts != NULL
                                         ? (uint64_t)cshim_recvcount(arguments, i)
                                         : arguments->count);
}

struct cshim_exchange cshim_exchange_of(const struct cshim_arguments *arguments,
                                        const struct cshim_plan *plan, struct cshim_comm *state)
{
    struct cshim_communicator *host = &state->host;
    struct cshim_exchange exchange = {
        .communicator = host,
        .plan = plan,
        .input = arguments->sendbuf == MPI_IN_PLACE ? arguments->recvbuf : arguments->sendbuf,
        .output = arguments->recvbuf,
        .source = {0, plan->count},
        .result = {0, plan->count},
        .element_bytes = cshim_dtype_bytes(plan->dtype),
        .nonblocking = arguments->nonblocking,
        .began = cshim_job.trace != NULL ? cshim_seconds() : 0,
    };
    if (plan->schedule->division == CSHIM_BLOCKS) {
        find_blocks(arguments, host);
        const uint64_t begin = host->block_begins[host->rank];
        const uint64_t length = host->block_begins[host->rank + 1] - begin;
        if (plan->schedule->parts_to == CSHIM_TO_OWNER) {
            exchange.result = (struct cshim_range){begin, length};
        } else { /* the input is the own block, in place within the output */
            exchange.source = (struct cshim_range){begin, length};
            if (arguments->sendbuf == MPI_IN_PLACE)
                exchange.input += begin * exchange.element_bytes;
        }
    } else if (plan->collective == CSHIM_REDUCE && arguments->root != host->rank) {
        exchange.result.length = 0;
    }
    return exchange;
}
