/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/job.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Finds the ranks that share a node (MPI_COMM_TYPE_SHARED); the lowest rank identifies the node.
 * Fills carrier->layout. Returns an MPI error. */
static int find_nodes(struct cshim_carrier *carrier, MPI_Comm *node)
{
    int lowest = carrier->rank;
    int *lowest_of = calloc((size_t)carrier->ranks, sizeof *lowest_of);
    if (lowest_of == NULL)
        cshim_mpi_end_job("no memory for the nodes of the ranks");
    int status = PMPI_Comm_split_type(carrier->comm, MPI_COMM_TYPE_SHARED, carrier->rank,
                                      MPI_INFO_NULL, node);
    if (status == MPI_SUCCESS)
        status = cshim_mpi.real->MPI_Bcast(&lowest, 1, MPI_INT, 0, *node);
    if (status == MPI_SUCCESS)
        status = cshim_mpi.real->MPI_Allgather(&lowest, 1, MPI_INT, lowest_of, 1, MPI_INT,
                                               carrier->comm);
    if (status == MPI_SUCCESS && !cshim_layout_make(&carrier->layout, lowest_of, carrier->ranks,
                                                    carrier->ranks, carrier->rank))
        cshim_mpi_end_job("no memory for the nodes of the ranks");
    free(lowest_of);
    return status;
}

/* Returns about the number of files that this process may still open: about INT_MAX without a
 * limit, and the whole limit if /proc is not mounted. Over TCP, MPI opens one for each connected
 * rank, and may end the job if it cannot. */
static int free_descriptors(void)
{
    struct rlimit limit;
    int left = INT_MAX;
    DIR *open_files = opendir("/proc/self/fd");
    if (open_files == NULL && (errno == EMFILE || errno == ENFILE))
        return 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < INT_MAX)
        left = (int)limit.rlim_cur;
    if (open_files == NULL)
        return left;
    while (left > 0 && readdir(open_files) != NULL)
        left--;
    closedir(open_files);
    return left;
}

/* Marks the other ranks of this job to which the job's carrier may have connected this process.
 * Returns their number. Ends the job if there is no memory. */
static int inherit_connections(struct cshim_carrier *carrier)
{
    int count = 0;
    int *numbered = calloc(2 * (size_t)carrier->ranks, sizeof *numbered);
    if (numbered == NULL)
        cshim_mpi_end_job("no memory for the nodes of the ranks");
    int *world_ranks = numbered + carrier->ranks;
    for (int i = 0; i < carrier->ranks; i++)
        numbered[i] = i;
    PMPI_Group_translate_ranks(carrier->group, carrier->ranks, numbered, cshim_mpi.world.group,
                               world_ranks);
    for (int i = 0; i < carrier->ranks; i++) {
        carrier->connected[i] =
            i != carrier->rank && world_ranks[i] != MPI_UNDEFINED &&
            __atomic_load_n(&cshim_mpi.world.connected[world_ranks[i]], __ATOMIC_RELAXED);
        count += carrier->connected[i];
    }
    free(numbered);
    return count;
}

/* Sets the connection limit to the minimum over all ranks of half the file descriptors left plus
 * the connections inherited from the job's carrier, but at least to 1. The other half is for the
 * program, and for calls that are passed through. Returns an MPI error. */
static int set_connection_limit(struct cshim_carrier *carrier)
{
    int own = free_descriptors() / 2, least = 0;
    if (carrier != &cshim_mpi.world)
        own += inherit_connections(carrier);
    const int status =
        cshim_mpi.real->MPI_Allreduce(&own, &least, 1, MPI_INT, MPI_MIN, carrier->comm);
    carrier->connection_limit = least > 0 ? (uint32_t)least : 1;
    return status;
}

int cshim_carrier_make(struct cshim_carrier *carrier, MPI_Comm comm, MPI_Comm *node)
{
    int status = PMPI_Comm_group(comm, &carrier->group);
    /* Not MPI_Comm_dup, which would call the program's attribute callbacks. */
    if (status == MPI_SUCCESS)
        status = PMPI_Comm_create(comm, carrier->group, &carrier->comm);
    if (status != MPI_SUCCESS)
        return status;
    PMPI_Comm_size(comm, &carrier->ranks);
    PMPI_Comm_rank(comm, &carrier->rank);
    carrier->connected = calloc((size_t)carrier->ranks, sizeof *carrier->connected);
    if (carrier->connected == NULL)
        cshim_mpi_end_job("no memory for the nodes of the ranks");
    status = find_nodes(carrier, node);
    return status == MPI_SUCCESS ? set_connection_limit(carrier) : status;
}

void cshim_carrier_free(struct cshim_carrier *carrier)
{
    PMPI_Group_free(&carrier->group);
    cshim_layout_free(&carrier->layout);
    free(carrier->connected);
}

void cshim_carrier_release(struct cshim_carrier *carrier)
{
    if (carrier == &cshim_mpi.world ||
        __atomic_sub_fetch(&carrier->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    PMPI_Comm_free(&carrier->comm);
    cshim_carrier_free(carrier);
    free(carrier);
}

/* Attribute copy callback: a duplicate uses the carrier, too. */
static int on_copy_carrier(MPI_Comm comm, int keyval, void *extra, void *value, void *copied,
                           int *is_copied)
{
    struct cshim_carrier *carrier = value;
    (void)comm, (void)keyval, (void)extra;
    __atomic_add_fetch(&carrier->references, 1, __ATOMIC_RELAXED);
    *(void **)copied = carrier;
    *is_copied = 1;
    return MPI_SUCCESS;
}

/* Attribute delete callback. */
static int on_delete_carrier(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    cshim_carrier_release(value);
    return MPI_SUCCESS;
}

int cshim_carrier_setup(void)
{
    return PMPI_Comm_create_keyval(on_copy_carrier, on_delete_carrier, &cshim_mpi.carrier_keyval,
                                   NULL);
}

void cshim_carrier_teardown(void)
{
    PMPI_Comm_free_keyval(&cshim_mpi.carrier_keyval);
}

int cshim_carrier_attach(MPI_Comm comm)
{
    MPI_Comm node;
    struct cshim_carrier *carrier = calloc(1, sizeof *carrier);
    if (carrier == NULL)
        cshim_mpi_end_job("no memory for a communicator's state");
    carrier->references = 1;
    int status = cshim_carrier_make(carrier, comm, &node);
    if (status == MPI_SUCCESS)
        status = PMPI_Comm_free(&node);
    if (status == MPI_SUCCESS)
        status = cshim_mpi_return_errors_of(carrier->comm);
    return status == MPI_SUCCESS ? PMPI_Comm_set_attr(comm, cshim_mpi.carrier_keyval, carrier)
                                 : status;
}

struct cshim_carrier *cshim_carrier_of(MPI_Comm comm)
{
    struct cshim_carrier *carrier = &cshim_mpi.world;
    int found = 0;
    if (PMPI_Comm_get_attr(comm, cshim_mpi.carrier_keyval, &carrier, &found) == MPI_SUCCESS &&
        found)
        __atomic_add_fetch(&carrier->references, 1, __ATOMIC_RELAXED);
    return found ? carrier : &cshim_mpi.world;
}

void cshim_carrier_connect(struct cshim_carrier *carrier, const int *ranks, int count)
{
    if ((uint32_t)count - 1 > carrier->connection_limit)
        return;
    for (int i = 0; i < count; i++)
        __atomic_store_n(&carrier->connected[ranks[i]], true, __ATOMIC_RELAXED);
}

bool cshim_carrier_lacks_descriptors(const struct cshim_carrier *carrier, const int *ranks,
                                     int count)
{
    uint32_t needed = 0;
    for (int i = 0; i < count; i++)
        needed += ranks[i] != carrier->rank &&
                  !__atomic_load_n(&carrier->connected[ranks[i]], __ATOMIC_RELAXED);
    if (needed > carrier->connection_limit)
        needed = carrier->connection_limit;
    return (uint32_t)free_descriptors() < needed + needed / 2;
}
