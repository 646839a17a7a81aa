/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of the machine at the start of a job (shim/core/machine.h): read from a file or
 * measured, and sent to all ranks by rank 0. */
#include <stdlib.h>
#include <string.h>

#include "shim/host/measure.h"
#include "shim/host/segment.h"
#include "shim/mpi/communicator.h"

#define TAG 1 /* and the next: nothing else has been sent yet */

/* Measures the link to another rank, which does so at the same time. */
static struct cshim_link_facts measure_link(int partner, bool with_long)
{
    MPI_Request requests[CSHIM_REQUESTS(CSHIM_LINK_PEERS)];
    MPI_Status statuses[CSHIM_LINK_PEERS];
    struct cshim_comm comm = {.host = {.transport = &cshim_mpi_transport},
                              .world_ranks = &partner,
                              .first_tag = TAG,
                              .requests = requests,
                              .statuses = statuses};
    uint8_t *memory = calloc(1, CSHIM_LINK_BYTES);
    if (memory == NULL)
        cshim_mpi_end_job("no memory to measure the machine");
    const struct cshim_link_facts facts =
        cshim_measure_link(&comm.host, 0, cshim_job.rank < partner, with_long, memory);
    free(memory);
    return facts;
}

/* The fewest cores that any rank has. Collective. */
static double count_cores(void)
{
    const double own = cshim_measure_cores(cshim_mpi.layout.local_ranks);
    double fewest = own;
    cshim_mpi.real->MPI_Allreduce(&own, &fewest, 1, MPI_DOUBLE, MPI_MIN, cshim_mpi.world);
    return fewest;
}

static enum cshim_native find_native(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    PMPI_Get_library_version(version, &length);
    return strncmp(version, "Open MPI", 8) == 0 ? CSHIM_NATIVE_OPENMPI : CSHIM_NATIVE_MPICH;
}

/* What is inside a node is told by the lowest rank that knows it. */
static struct cshim_machine measure(void *of)
{
    struct cshim_link_facts facts[2] = {{.latency = 0}, {.latency = 0}}; /* between nodes; inside */
    (void)of;
    for (int inside = 0; inside < 2; inside++) {
        const int partner = cshim_layout_partner(&cshim_mpi.layout, cshim_job.ranks, inside);
        if (partner >= 0)
            facts[inside] = measure_link(partner, !inside);
    }
    const int own = facts[1].latency > 0 ? cshim_job.rank : cshim_job.ranks;
    int teller = own;
    cshim_mpi.real->MPI_Allreduce(&own, &teller, 1, MPI_INT, MPI_MIN, cshim_mpi.world);
    if (teller < cshim_job.ranks)
        cshim_mpi.real->MPI_Bcast(&facts[1], (int)sizeof facts[1], MPI_BYTE, teller,
                                  cshim_mpi.world);
    struct cshim_machine machine = cshim_measured_links(find_native(), &facts[0], &facts[1]);
    machine.cores = count_cores();
    return machine;
}

static void tell(void *of, struct cshim_facts *facts)
{
    (void)of;
    cshim_mpi.real->MPI_Bcast(facts, (int)sizeof *facts, MPI_BYTE, 0, cshim_mpi.world);
}

void cshim_machine_setup(void)
{
    static const struct cshim_facts_ways ways = {.tell = tell, .measure = measure};
    static struct cshim_facts facts;
    char message[CSHIM_MESSAGE_MAX];
    if (!cshim_facts_find(&facts, &ways, NULL, cshim_job.rank, &cshim_job, CSHIM_MPI,
                          cshim_mpi.layout.nodes, message))
        cshim_mpi_end_job(message);
    if (facts.origin != CSHIM_FACTS_NONE)
        cshim_job.machine = &facts.machine;
}
