/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end of the engine (`start` and `finalize` of struct cshim_mpi_engine). */
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "codecs/arithmetic.h"
#include "shim/core/clock.h"
#include "shim/core/log.h"
#include "shim/mpi/nonblocking.h"
#include "shim/mpi/agree.h"
#include "shim/mpi/spawn.h"
#include "shim/mpi/trace.h"
#include "shim/mpi/summary.h"
#include "shim/mpi/transport.h"
#include "shim/mpi/device.h"
#include "shim/mpi/observe.h"
#include "shim/mpi/requests.h"
#include "shim/report/file.h"

/* Attribute delete callback: the MPI library calls it when the program frees a communicator, and in
 * MPI_Finalize. */
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

/* Makes cshim_mpi.alone: messages on it complete the program's requests (nonblocking.c), and on it
 * the library is tested for what it accepts (describe.c). Returns MPI_COMM_NULL on failure. */
static MPI_Comm make_alone(void)
{
    MPI_Comm alone = MPI_COMM_NULL;
    MPI_Group self;
    if (PMPI_Comm_group(MPI_COMM_SELF, &self) != MPI_SUCCESS)
        return MPI_COMM_NULL;
    const int status = PMPI_Comm_create(MPI_COMM_SELF, self, &alone);
    PMPI_Group_free(&self);
    if (status != MPI_SUCCESS)
        return MPI_COMM_NULL;
    cshim_mpi_return_errors_of(alone);
    return alone;
}

/* Returns true on all ranks if no rank has a tool that calls the MPI library directly, past the
 * front; otherwise the lowest such rank warns. `past` names this rank's tool, or is NULL. */
static bool are_tools_right(const char *past)
{
    int own = past != NULL ? cshim_job.rank : cshim_job.ranks, first = 0;
    cshim_mpi.real->MPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, cshim_mpi.world.comm);
    if (past != NULL && first == own)
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed: %s, which lies between the program and the MPI library, "
                  "calls that library past compshim; put it before libcompshim.so in LD_PRELOAD",
                  past);
    return first == cshim_job.ranks;
}

/* Sets what is inserted into the names of report and trace: ".mpi" if another engine is open in
 * this process, then ".spawned" and random digits if this is a spawned job, because its variables
 * are those of the job that spawned it. */
static void name_additions(bool is_beside)
{
    MPI_Comm parent;
    char spawned[32] = "";
    uint32_t digits = (uint32_t)getpid();
    (void)getrandom(&digits, sizeof digits, GRND_NONBLOCK);
    if (PMPI_Comm_get_parent(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL)
        snprintf(spawned, sizeof spawned, ".spawned%08x", digits);
    snprintf(cshim_mpi.file_additions, sizeof cshim_mpi.file_additions, "%s%s",
             is_beside ? ".mpi" : "", spawned);
}

int cshim_mpi_start(const struct cshim_mpi_real *real, const char *past, bool is_beside)
{
    cshim_log_set_level(CSHIM_LOG_WARN);
    cshim_mpi.real = real;
    cshim_job.started = cshim_seconds();
    PMPI_Comm_rank(MPI_COMM_WORLD, &cshim_job.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &cshim_job.ranks);
    if (!cshim_agree())
        return 0;
    if (!are_tools_right(past)) {
        cshim_agree_finalize();
        cshim_ledger_free(&cshim_job.ledger);
        cshim_policy_free(cshim_job.policy);
        return 0;
    }
    if (cshim_comm_setup(on_delete) != MPI_SUCCESS || cshim_mpi_transport_setup() != MPI_SUCCESS)
        cshim_mpi_end_job("MPI cannot create a keyval or an operation for compshim");
    if (cshim_job.rank == 0)
        cshim_job.wanted = cshim_report_wanted(cshim_job.policy, true);
    cshim_mpi.alone = make_alone();
    cshim_describe_setup();
    (void)cshim_ledger_publish(&cshim_job.ledger,
                               cshim_live_open(cshim_job.policy, "mpi", cshim_job.rank,
                                               cshim_job.ranks, (int)cshim_mpi.world.layout.nodes));
    cshim_observe_setup();
    name_additions(is_beside);
    cshim_trace_setup();
    cshim_mpi.is_watched = cshim_job.observed != NULL || cshim_job.trace != NULL;
    if (cshim_mpi_device_setup() != MPI_SUCCESS || !cshim_nonblocking_setup() ||
        cshim_spawn_setup() != MPI_SUCCESS)
        cshim_mpi_end_job("MPI cannot prepare the communicators of compshim");
    return 1;
}

void cshim_mpi_finalize(void)
{
    const cshim_arithmetic saved = cshim_arithmetic_begin();
    cshim_job.stopped = cshim_seconds();
    cshim_nonblocking_teardown();
    cshim_requests_teardown();
    cshim_trace_finish();
    if (cshim_job.observed != NULL)
        cshim_observe_probe();
    cshim_comm_count_classes();
    cshim_live_withdraw(cshim_ledger_publish(&cshim_job.ledger, NULL));
    if (cshim_mpi.alone != MPI_COMM_NULL)
        PMPI_Comm_free(&cshim_mpi.alone);
    cshim_summary();
    free(cshim_job.observed);
    free(cshim_job.wanted);
    cshim_agree_finalize();
    cshim_spawn_teardown();
    cshim_comm_teardown();
    cshim_mpi_transport_teardown();
    cshim_ledger_free(&cshim_job.ledger);
    cshim_policy_free(cshim_job.policy);
    cshim_arithmetic_end(&saved);
}
