/* SPDX-License-Identifier: Apache-2.0 */
/* What the front calls: start and end of the job, and the functions that this engine has. */
#include <stdlib.h>

#include "shim/core/arithmetic.h"
#include "shim/core/clock.h"
#include "shim/core/log.h"
#include "shim/mpi/collectives.h"
#include "shim/mpi/nonblocking.h"
#include "shim/mpi/observe.h"

/* The library calls this when the program frees a communicator. */
static int on_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    struct cshim_comm *state = value;
    (void)comm, (void)keyval, (void)extra;
    if (!cshim_comm_unlink(state))
        return MPI_SUCCESS;
    cshim_nonblocking_drain(state);
    cshim_comm_leave(state);
    return MPI_SUCCESS;
}

static int start(const struct cshim_mpi_real *real)
{
    cshim_log_set_level(CSHIM_LOG_WARN);
    cshim_mpi.real = real;
    cshim_job.started = cshim_seconds();
    PMPI_Comm_rank(MPI_COMM_WORLD, &cshim_job.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &cshim_job.ranks);
    if (!cshim_agree())
        return 0;
    if (cshim_comm_setup(on_delete) != MPI_SUCCESS || cshim_mpi_transport_setup() != MPI_SUCCESS) {
        cshim_log(CSHIM_LOG_ERROR, "the library refuses a keyval or an operation");
        PMPI_Abort(MPI_COMM_WORLD, 1); /* the other ranks count on this one */
    }
    cshim_describe_setup();
    (void)cshim_ledger_publish(&cshim_job.ledger,
                               cshim_live_open(cshim_job.policy, "mpi", cshim_job.rank,
                                               cshim_job.ranks, (int)cshim_job.layout.nodes));
    cshim_observe_setup();
    cshim_trace_setup();
    cshim_mpi.is_watched = cshim_job.observed != NULL || cshim_job.trace != NULL;
    if (cshim_device_setup() != MPI_SUCCESS || !cshim_nonblocking_setup()) {
        cshim_log(CSHIM_LOG_ERROR, "the library refuses a communicator");
        PMPI_Abort(MPI_COMM_WORLD, 1);
    }
    return 1;
}

static void finalize(void)
{
    const fenv_t programs = cshim_arithmetic_begin();
    cshim_job.stopped = cshim_seconds();
    cshim_nonblocking_teardown();
    cshim_requests_teardown();
    cshim_trace_finish();
    if (cshim_job.observed != NULL)
        cshim_observe_probe();
    cshim_live_close(cshim_ledger_publish(&cshim_job.ledger, NULL));
    cshim_summary();
    free(cshim_job.observed);
    cshim_job.observed = NULL;
    cshim_agree_finalize();
    cshim_comm_teardown();
    cshim_mpi_transport_teardown();
    cshim_ledger_free(&cshim_job.ledger);
    cshim_policy_free(cshim_job.policy);
    cshim_job.policy = NULL;
    cshim_arithmetic_end(&programs);
}

__attribute__((visibility("default"))) const struct cshim_mpi_engine cshim_mpi_engine = {
    .abi = CSHIM_ENGINE_ABI,
    .start = start,
    .functions =
        {
            .MPI_Allreduce = cshim_allreduce,
            .MPI_Allreduce_c = cshim_allreduce_c,
            .MPI_Reduce = cshim_reduce_to_root,
            .MPI_Reduce_c = cshim_reduce_to_root_c,
            .MPI_Reduce_scatter = cshim_reduce_scatter,
            .MPI_Reduce_scatter_c = cshim_reduce_scatter_c,
            .MPI_Reduce_scatter_block = cshim_reduce_scatter_block,
            .MPI_Reduce_scatter_block_c = cshim_reduce_scatter_block_c,
            .MPI_Allgather = cshim_allgather,
            .MPI_Allgather_c = cshim_allgather_c,
            .MPI_Iallreduce = cshim_iallreduce,
            .MPI_Iallreduce_c = cshim_iallreduce_c,
            .MPI_Allreduce_init = cshim_allreduce_init,
            .MPI_Allreduce_init_c = cshim_allreduce_init_c,
            .MPIX_Allreduce_init = cshim_allreduce_init,
            .MPI_Start = cshim_start,
            .MPI_Startall = cshim_startall,
            .MPI_Request_free = cshim_request_free,
            .MPI_Cancel = cshim_cancel,
        },
    .count = cshim_count_other,
    .finalize = finalize,
};
