/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/front/narrow.h"

#include <limits.h>
#include <stdlib.h>

#include "shim/front/resolve.h"
#include "shim/core/log.h"

/* Converts a count to int. If it does not fit, returns -1 and sets *fits to false. */
static int narrow(int64_t count, bool *fits)
{
    if (count >= INT_MIN && count <= INT_MAX)
        return (int)count;
    *fits = false;
    return -1;
}

struct cshim_narrowed cshim_narrow_one(MPI_Count count)
{
    struct cshim_narrowed narrowed = {.fits = true};
    narrowed.count = narrow(count, &narrowed.fits);
    return narrowed;
}

/* Returns a function of the MPI library itself, not a tool's. */
static void *library_function(const char *name)
{
    return cshim_resolve(name, NULL, true);
}

/* Calls a function that returns an int for a communicator. Returns an MPI error, or 0. */
static int query_int(const char *name, MPI_Comm comm, int *answer)
{
    int (*function)(MPI_Comm, int *) = library_function(name);
    return function != NULL ? function(comm, answer) : CSHIM_MPI_ERR_OTHER;
}

static int count_partners(MPI_Comm comm, int *partners)
{
    int is_between_groups = 0;
    const int status = query_int("MPI_Comm_test_inter", comm, &is_between_groups);
    if (status != 0)
        return status;
    return query_int(is_between_groups ? "MPI_Comm_remote_size" : "MPI_Comm_size", comm, partners);
}

static int count_graph_neighbors(MPI_Comm comm, int *neighbors)
{
    int rank = 0;
    int (*count)(MPI_Comm, int, int *) = library_function("MPI_Graph_neighbors_count");
    const int status = query_int("MPI_Comm_rank", comm, &rank);
    if (status != 0 || count == NULL)
        return status != 0 ? status : CSHIM_MPI_ERR_OTHER;
    return count(comm, rank, neighbors);
}

/* Counts two neighbors in each dimension of a Cartesian grid, also at its edges. */
static int count_grid_neighbors(MPI_Comm comm, int *neighbors)
{
    const int status = query_int("MPI_Cartdim_get", comm, neighbors);
    *neighbors *= 2;
    return status;
}

/* Counts the neighbors in the communicator's topology: none without a topology, and then the
 * library refuses the call. */
static int count_neighbors(MPI_Comm comm, int *sources, int *destinations)
{
    enum { DIST_GRAPH = 3 }; /* MPI_DIST_GRAPH of Open MPI and MPICH */
    /* MPI_CART and MPI_GRAPH are 1 and 2 in Open MPI, but 2 and 1 in MPICH. */
    const int grid = cshim_is_open_mpi(library_function("MPI_Topo_test")) ? 1 : 2;
    int topology = 0, weighted, status = query_int("MPI_Topo_test", comm, &topology);
    *sources = *destinations = 0;
    if (status != 0)
        return status;
    if (topology == DIST_GRAPH) {
        int (*count)(MPI_Comm, int *, int *, int *) =
            library_function("MPI_Dist_graph_neighbors_count");
        return count != NULL ? count(comm, sources, destinations, &weighted) : CSHIM_MPI_ERR_OTHER;
    }
    if (topology == 1 || topology == 2)
        status = topology == grid ? count_grid_neighbors(comm, sources)
                                  : count_graph_neighbors(comm, sources);
    *destinations = *sources;
    return status;
}

static int count_entries(enum cshim_entries entries, MPI_Comm comm, int *count)
{
    int other;
    switch (entries) {
    case CSHIM_OWN_GROUP:
        return query_int("MPI_Comm_size", comm, count);
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

enum cshim_entries cshim_entries_at_root(int root, MPI_Comm comm)
{
    int rank = -1, is_between_groups = 0;
    if (root < -2) /* MPI_ROOT is -4 or -3; MPI_PROC_NULL is -2 or -1 */
        return CSHIM_PARTNERS;
    if (root < 0 || query_int("MPI_Comm_test_inter", comm, &is_between_groups) != 0 ||
        is_between_groups || query_int("MPI_Comm_rank", comm, &rank) != 0)
        return CSHIM_NOT_READ; /* not the root, or invalid: then the library reports the error */
    return rank == root ? CSHIM_PARTNERS : CSHIM_NOT_READ;
}

enum cshim_entries cshim_entries_sent(const void *sendbuf)
{
    const intptr_t address = (intptr_t)sendbuf; /* MPI_IN_PLACE is 1 or -1 */
    return address == 1 || address == -1 ? CSHIM_NOT_READ : CSHIM_PARTNERS;
}

static int *allocate(int entries)
{
    return malloc(((size_t)entries + 1) * sizeof(int));
}

struct cshim_narrowed cshim_narrow_arrays(enum cshim_entries entries, const MPI_Count *counts,
                                          const MPI_Aint *displacements, MPI_Comm comm)
{
    struct cshim_narrowed narrowed = {.fits = true};
    int count = 0;
    if (entries == CSHIM_NOT_READ)
        return narrowed;
    narrowed.status = count_entries(entries, comm, &count);
    if (narrowed.status != 0)
        return narrowed;
    narrowed.counts = counts != NULL ? allocate(count) : NULL;
    narrowed.displacements = displacements != NULL ? allocate(count) : NULL;
    if ((counts != NULL && narrowed.counts == NULL) ||
        (displacements != NULL && narrowed.displacements == NULL)) {
        narrowed.status = CSHIM_MPI_ERR_OTHER;
        return narrowed;
    }
    for (int i = 0; counts != NULL && i < count; i++)
        narrowed.counts[i] = narrow(counts[i], &narrowed.fits);
    for (int i = 0; displacements != NULL && i < count; i++) {
        bool unused = true;
        const bool is_read = counts == NULL || counts[i] != 0;
        narrowed.displacements[i] = narrow(displacements[i], is_read ? &narrowed.fits : &unused);
    }
    narrowed.refused = !narrowed.fits;
    return narrowed;
}

/* Prints why a call failed. */
static void explain(const char *name)
{
    cshim_log(CSHIM_LOG_ERROR,
              "%s_c: this MPI has only %s, and a count or displacement is above its limit of %d",
              name, name, INT_MAX);
}

int cshim_narrow_judge(const char *name, const struct cshim_narrowed *sent,
                       const struct cshim_narrowed *received, MPI_Comm comm)
{
    enum { ERR_COUNT = 2 }; /* MPI_ERR_COUNT of Open MPI and MPICH */
    if (sent->status != 0 || received->status != 0)
        return sent->status != 0 ? sent->status : received->status;
    if (!sent->refused && !received->refused)
        return 0;
    explain(name);
    int (*call)(MPI_Comm, int) = library_function("MPI_Comm_call_errhandler");
    if (call != NULL)
        call(comm, ERR_COUNT);
    return ERR_COUNT;
}

int cshim_narrow_end(const char *name, struct cshim_narrowed *sent, struct cshim_narrowed *received,
                     int status)
{
    const bool is_judged =
        sent->status != 0 || received->status != 0 || sent->refused || received->refused;
    if (status != 0 && !is_judged && (!sent->fits || !received->fits))
        explain(name);
    free(sent->counts);
    free(sent->displacements);
    free(received->counts);
    free(received->displacements);
    return status;
}
