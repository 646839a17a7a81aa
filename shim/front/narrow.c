/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/front/narrow.h"

#include <limits.h>
#include <stdlib.h>

#include "shim/front/front.h"

int cshim_narrow_count(cshim_count count, bool *fits)
{
    if (count >= INT_MIN && count <= INT_MAX)
        return (int)count;
    *fits = false;
    return -1;
}

struct cshim_narrowed cshim_narrow_one(cshim_count count)
{
    struct cshim_narrowed narrowed = {.fits = true};
    narrowed.count = cshim_narrow_count(count, &narrowed.fits);
    return narrowed;
}

/* The library's own function. */
static void *library_function(const char *name)
{
    return cshim_resolve(name, NULL, 1);
}

/* Any function of a communicator that sets an int. */
static int ask(const char *name, cshim_comm_handle comm, int *answer)
{
    int (*function)(cshim_comm_handle, int *) = library_function(name);
    return function != NULL ? function(comm, answer) : CSHIM_MPI_ERR_OTHER;
}

static int count_partners(cshim_comm_handle comm, int *partners)
{
    int is_between_groups = 0;
    const int status = ask("MPI_Comm_test_inter", comm, &is_between_groups);
    if (status != 0)
        return status;
    return ask(is_between_groups ? "MPI_Comm_remote_size" : "MPI_Comm_size", comm, partners);
}

static int count_graph_neighbors(cshim_comm_handle comm, int *neighbors)
{
    int rank = 0;
    int (*count)(cshim_comm_handle, int, int *) = library_function("MPI_Graph_neighbors_count");
    const int status = ask("MPI_Comm_rank", comm, &rank);
    if (status != 0 || count == NULL)
        return status != 0 ? status : CSHIM_MPI_ERR_OTHER;
    return count(comm, rank, neighbors);
}

/* Two in each direction of a grid, at its edges too. */
static int count_grid_neighbors(cshim_comm_handle comm, int *neighbors)
{
    const int status = ask("MPI_Cartdim_get", comm, neighbors);
    *neighbors *= 2;
    return status;
}

/* None without a topology, which the library will refuse. */
static int count_neighbors(cshim_comm_handle comm, int *sources, int *destinations)
{
    enum { DIST_GRAPH = 3 }; /* MPI_DIST_GRAPH of Open MPI and of MPICH */
    /* The other two are 1 and 2 in both, but not in the same order. */
    const int grid = cshim_is_open_mpi(library_function("MPI_Topo_test")) ? 1 : 2;
    int topology = 0, weighted, status = ask("MPI_Topo_test", comm, &topology);
    *sources = *destinations = 0;
    if (status != 0)
        return status;
    if (topology == DIST_GRAPH) {
        int (*count)(cshim_comm_handle, int *, int *, int *) =
            library_function("MPI_Dist_graph_neighbors_count");
        return count != NULL ? count(comm, sources, destinations, &weighted) : CSHIM_MPI_ERR_OTHER;
    }
    if (topology == 1 || topology == 2)
        status = topology == grid ? count_grid_neighbors(comm, sources)
                                  : count_graph_neighbors(comm, sources);
    *destinations = *sources;
    return status;
}

static int count_entries(enum cshim_entries entries, cshim_comm_handle comm, int *count)
{
    int other;
    switch (entries) {
    case CSHIM_OWN_GROUP:
        return ask("MPI_Comm_size", comm, count);
    case CSHIM_PARTNERS:
        return count_partners(comm, count);
    case CSHIM_SOURCES:
        return count_neighbors(comm, count, &other);
    case CSHIM_DESTINATIONS:
        return count_neighbors(comm, &other, count);
    default:
        return 0;
    }
}

static void narrow_entries(struct cshim_narrowed *narrowed, const cshim_count *counts,
                           const cshim_displacement *displacements, int entries)
{
    for (int i = 0; counts != NULL && i < entries; i++)
        narrowed->counts[i] = cshim_narrow_count(counts[i], &narrowed->fits);
    for (int i = 0; displacements != NULL && i < entries; i++) {
        bool unused = true;
        const bool is_read = counts == NULL || counts[i] != 0;
        narrowed->displacements[i] =
            cshim_narrow_count(displacements[i], is_read ? &narrowed->fits : &unused);
    }
    narrowed->refused = !narrowed->fits;
}

struct cshim_narrowed cshim_narrow_arrays(enum cshim_entries entries, const cshim_count *counts,
                                          const cshim_displacement *displacements,
                                          cshim_comm_handle comm)
{
    struct cshim_narrowed narrowed = {.fits = true};
    int count = 0;
    if (entries == CSHIM_NOT_READ)
        return narrowed;
    narrowed.status = count_entries(entries, comm, &count);
    if (narrowed.status != 0)
        return narrowed;
    if (counts != NULL)
        narrowed.counts = malloc(((size_t)count + 1) * sizeof(int));
    if (displacements != NULL)
        narrowed.displacements = malloc(((size_t)count + 1) * sizeof(int));
    if ((counts != NULL && narrowed.counts == NULL) ||
        (displacements != NULL && narrowed.displacements == NULL)) {
        cshim_narrowed_free(&narrowed);
        narrowed.status = CSHIM_MPI_ERR_OTHER;
        return narrowed;
    }
    narrow_entries(&narrowed, counts, displacements, count);
    return narrowed;
}

void cshim_narrowed_free(struct cshim_narrowed *narrowed)
{
    free(narrowed->counts);
    free(narrowed->displacements);
    narrowed->counts = narrowed->displacements = NULL;
}

int cshim_narrow_refuse(cshim_comm_handle comm)
{
    enum { ERR_COUNT = 2 }; /* MPI_ERR_COUNT of Open MPI and of MPICH */
    int (*call)(cshim_comm_handle, int) = library_function("MPI_Comm_call_errhandler");
    if (call != NULL)
        call(comm, ERR_COUNT);
    return ERR_COUNT;
}

enum cshim_entries cshim_narrow_at_root(int root, cshim_comm_handle comm)
{
    int rank = -1, is_between_groups = 0;
    if (root < -2) /* MPI_ROOT is -4 or -3, MPI_PROC_NULL -2 or -1 */
        return CSHIM_PARTNERS;
    if (root < 0 || ask("MPI_Comm_test_inter", comm, &is_between_groups) != 0 ||
        is_between_groups || ask("MPI_Comm_rank", comm, &rank) != 0)
        return CSHIM_NOT_READ; /* and the library refuses what is wrong */
    return rank == root ? CSHIM_PARTNERS : CSHIM_NOT_READ;
}

enum cshim_entries cshim_narrow_sent(const void *sendbuf)
{
    /* MPI_IN_PLACE is the address 1 or -1. */
    const intptr_t address = (intptr_t)sendbuf;
    return address == 1 || address == -1 ? CSHIM_NOT_READ : CSHIM_PARTNERS;
}
