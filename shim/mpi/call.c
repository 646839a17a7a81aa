/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/call.h"

#include "shim/core/clock.h"

/* The elements of the whole whose sums come to this rank. Of a reduce_scatter, where each rank's
 * lie as well. */
static struct cshim_range find_result(const struct cshim_arguments *arguments,
                                      const struct cshim_plan *plan, struct cshim_comm *state)
{
    uint64_t *begins = state->host.block_begins;
    if (arguments->collective == CSHIM_REDUCE)
        return (struct cshim_range){0, arguments->root == state->host.rank ? plan->count : 0};
    if (arguments->collective == CSHIM_ALLREDUCE)
        return (struct cshim_range){0, plan->count};
    for (int i = 0; i < state->host.ranks; i++)
        begins[i + 1] =
            begins[i] + (arguments->recvcounts != NULL ? (uint64_t)cshim_recvcount(arguments, i)
                                                       : arguments->count);
    return (struct cshim_range){begins[state->host.rank],
                                begins[state->host.rank + 1] - begins[state->host.rank]};
}

struct cshim_exchange cshim_exchange_of(const struct cshim_arguments *arguments,
                                        const struct cshim_plan *plan, struct cshim_comm *state)
{
    return (struct cshim_exchange){
        .communicator = &state->host,
        .plan = plan,
        .input = arguments->sendbuf == MPI_IN_PLACE ? arguments->recvbuf : arguments->sendbuf,
        .output = arguments->recvbuf,
        .result = find_result(arguments, plan, state),
        .element_bytes = cshim_dtype_bytes(plan->dtype),
        .nonblocking = arguments->nonblocking,
        .began = cshim_job.trace != NULL ? cshim_seconds() : 0,
    };
}
