/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of the machine at the start of a job (shim/core/machine.h): read from a file or
 * measured, and sent to all ranks by rank 0. */
#include <stdlib.h>
#include <string.h>

#include "shim/host/measure.h"
#include "shim/host/segment.h"
#include "shim/mpi/communicator.h"

#define TAG 1 /* and the next: nothing else has been sent yet */

/* Has two ranks measure the link between them, if this is one of them. */
static void measure_between(int first, int second, bool with_long, struct cshim_link_facts *facts)
{
    MPI_Request requests[CSHIM_REQUESTS(CSHIM_LINK_PEERS)];
    MPI_Status statuses[CSHIM_LINK_PEERS];
    int ranks[] = {first, second};
    struct cshim_comm comm = {.host = {.transport = &cshim_mpi_transport},
                              .world_ranks = ranks,
                              .first_tag = TAG,
                              .requests = requests,
                              .statuses = statuses};
    const bool is_first = cshim_job.rank == first;
    if (!is_first && cshim_job.rank != second)
        return;
    uint8_t *memory = calloc(1, CSHIM_LINK_BYTES);
    if (memory == NULL)
        cshim_mpi_end_job("no memory to measure the machine");
    *facts = cshim_measure_link(&comm.host, is_first ? 1 : 0, is_first, with_long, memory);
    free(memory);
}

/* The fewest cores that any rank has. Collective. */
static double count_cores(void)
{
    const double own = cshim_measure_cores(cshim_mpi.layout.local_ranks);
    double fewest = own;
    cshim_mpi.real->MPI_Allreduce(&own, &fewest, 1, MPI_DOUBLE, MPI_MIN, cshim_mpi.world);
    return fewest;
}

/* Finds the first rank that is on another node than rank 0, and the first two that share one; -1
 * where there is none. */
static void find_pairs(int *elsewhere, int inside[2])
{
    const int *node_of = cshim_mpi.layout.node_of;
    *elsewhere = inside[0] = inside[1] = -1;
    int *first_of = calloc(cshim_mpi.layout.nodes, sizeof *first_of); /* its number, from 1 */
    if (first_of == NULL)
        cshim_mpi_end_job("no memory for the nodes of the ranks");
    for (int rank = 0; rank < cshim_job.ranks; rank++) {
        int *first = &first_of[node_of[rank]];
        if (*elsewhere < 0 && node_of[rank] != node_of[0])
            *elsewhere = rank;
        if (inside[1] < 0 && *first > 0) {
            inside[0] = *first - 1;
            inside[1] = rank;
        }
        if (*first == 0)
            *first = rank + 1;
    }
    free(first_of);
}

static enum cshim_native find_native(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    PMPI_Get_library_version(version, &length);
    return strncmp(version, "Open MPI", 8) == 0 ? CSHIM_NATIVE_OPENMPI : CSHIM_NATIVE_MPICH;
}

/* What is inside a node is measured by the two ranks there, and told by the first. */
static struct cshim_machine measure(void *of)
{
    int elsewhere, pair[2];
    struct cshim_link_facts between = {.latency = 0}, inside = {.latency = 0};
    (void)of;
    find_pairs(&elsewhere, pair);
    measure_between(0, elsewhere, true, &between);
    if (pair[1] >= 0) {
        measure_between(pair[0], pair[1], false, &inside);
        cshim_mpi.real->MPI_Bcast(&inside, (int)sizeof inside, MPI_BYTE, pair[0], cshim_mpi.world);
    }
    struct cshim_machine machine = cshim_measured_links(find_native(), &between, &inside);
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
