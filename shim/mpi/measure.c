/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of the machine at the start of a job (shim/core/machine.h): read from a file or
 * measured, and sent to all ranks by rank 0. */
#include <stdlib.h>
#include <string.h>

#include "shim/host/measure.h"
#include "shim/host/segment.h"
#include "shim/mpi/communicator.h"

#define TAG 1 /* and the next: nothing else has been sent yet */

/* Measures the links to other ranks, which do so at the same time. */
static struct cshim_link_facts measure_links(struct cshim_partners partners, double cores,
                                             bool with_long)
{
    MPI_Request requests[CSHIM_REQUESTS(CSHIM_LINK_PEERS)];
    MPI_Status statuses[CSHIM_LINK_PEERS];
    struct cshim_partners peers = partners;
    struct cshim_comm comm = {.host = {.transport = &cshim_mpi_transport},
                              .world_ranks = partners.ranks,
                              .first_tag = TAG,
                              .requests = requests,
                              .statuses = statuses};
    uint8_t *memory = calloc(1, CSHIM_LINK_BYTES);
    if (memory == NULL)
        cshim_mpi_end_job("no memory to measure the machine");
    for (int i = 0; i < peers.count; i++)
        peers.ranks[i] = i;
    const struct cshim_link_facts facts =
        cshim_measure_links(&comm.host, &peers, cores, with_long, memory);
    free(memory);
    return facts;
}

static enum cshim_native find_native(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    PMPI_Get_library_version(version, &length);
    return strncmp(version, "Open MPI", 8) == 0 ? CSHIM_NATIVE_OPENMPI : CSHIM_NATIVE_MPICH;
}

#define AVERAGED 7 /* at most */

/* Puts in the place of what this rank has found the mean of what has been found anywhere: 0 if it
 * has been found nowhere. Collective. */
static void average(double *found, int count)
{
    double own[2 * AVERAGED], all[2 * AVERAGED];
    for (int i = 0; i < count; i++) {
        own[i] = found[i];
        own[count + i] = found[i] > 0;
    }
    cshim_mpi.real->MPI_Allreduce(own, all, 2 * count, MPI_DOUBLE, MPI_SUM, cshim_mpi.world);
    for (int i = 0; i < count; i++)
        found[i] = all[count + i] > 0 ? all[i] / all[count + i] : 0;
}

static double inverse(double value)
{
    return value > 0 ? 1 / value : 0;
}

/* Of bytes per second the mean is that of the seconds that a byte takes. */
static struct cshim_link_facts mean_of_links(const struct cshim_link_facts *own)
{
    double found[AVERAGED] = {own->busy,
                              own->pair.latency,
                              own->pair.message,
                              inverse(own->bandwidth),
                              inverse(own->pair.bandwidth),
                              inverse(own->pair.bandwidth_short),
                              inverse(own->pair.bandwidth_long)};
    average(found, AVERAGED);
    return (struct cshim_link_facts){.busy = found[0],
                                     .pair.latency = found[1],
                                     .pair.message = found[2],
                                     .bandwidth = inverse(found[3]),
                                     .pair.bandwidth = inverse(found[4]),
                                     .pair.bandwidth_short = inverse(found[5]),
                                     .pair.bandwidth_long = inverse(found[6])};
}

static void measure(void *of, struct cshim_machine *machine)
{
    struct cshim_link_facts facts[2] = {{.busy = 0}, {.busy = 0}}; /* between nodes; inside */
    (void)of;
    machine->native = find_native();
    average(&machine->cores, 1);
    for (int inside = 0; inside < 2; inside++) {
        const struct cshim_partners partners =
            cshim_layout_partners(&cshim_mpi.layout, cshim_job.ranks, inside);
        if (partners.count > 0)
            facts[inside] = measure_links(partners, inside ? 0 : machine->cores, !inside);
        facts[inside] = mean_of_links(&facts[inside]);
    }
    cshim_measured_links(machine, &facts[0], &facts[1]);
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
