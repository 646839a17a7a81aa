/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a communicator, cached on it as an attribute. */
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/mpi/internal.h"

/* States in a list, so that finalize can free what the program did not. */
struct entry {
    struct cshim_comm comm;
    struct entry *next;
};
static struct entry *entries;
static pthread_mutex_t entries_lock = PTHREAD_MUTEX_INITIALIZER;

static void free_memory(struct cshim_comm *state)
{
    if (state->scratch != NULL)
        munmap(state->scratch, CSHIM_SCRATCH_LIMIT);
    free(state->requests);
    free(state->calls_by_rule);
    free((struct entry *)state);
}

/* Returns false if it had been freed already, by teardown. */
static bool unlink_entry(struct cshim_comm *state)
{
    bool found = false;
    pthread_mutex_lock(&entries_lock);
    for (struct entry **link = &entries; *link != NULL; link = &(*link)->next) {
        if (&(*link)->comm == state) {
            *link = (*link)->next;
            found = true;
            break;
        }
    }
    pthread_mutex_unlock(&entries_lock);
    return found;
}

/* The library calls this when the program frees the communicator. */
static int on_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    struct cshim_comm *state = value;
    (void)comm, (void)keyval, (void)extra;
    if (!unlink_entry(state))
        return MPI_SUCCESS;
    if (state->comm != MPI_COMM_NULL)
        PMPI_Comm_free(&state->comm);
    free_memory(state);
    return MPI_SUCCESS;
}

int cshim_comm_setup(void)
{
    return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &cshim_job.keyval, NULL);
}

void cshim_comm_teardown(void)
{
    for (struct entry *entry = entries, *next; entry != NULL; entry = next) {
        next = entry->next;
        free_memory(&entry->comm);
    }
    entries = NULL;
}

/* Whether the communicator has a process outside the world that agreed (spawned, connected). */
static bool has_strangers(MPI_Group group, int ranks)
{
    MPI_Group world;
    bool strange = false;
    PMPI_Comm_group(cshim_job.world, &world);
    for (int i = 0; i < ranks && !strange; i++) {
        int translated = MPI_UNDEFINED;
        PMPI_Group_translate_ranks(group, 1, &i, world, &translated);
        strange = translated == MPI_UNDEFINED;
    }
    PMPI_Group_free(&world);
    return strange;
}

/* Memory this rank needs. Address space only: pages are taken as they are used, and stay. */
static bool take_memory(struct cshim_comm *state)
{
    state->calls_by_rule = calloc(cshim_job.policy->rule_count, sizeof *state->calls_by_rule);
    state->requests =
        calloc(4 * CSHIM_SEGMENTS_IN_FLIGHT * (size_t)state->ranks, sizeof(MPI_Request));
    void *scratch = mmap(NULL, CSHIM_SCRATCH_LIMIT, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    state->scratch = scratch == MAP_FAILED ? NULL : scratch;
    return state->calls_by_rule != NULL && state->requests != NULL && state->scratch != NULL;
}

/* Makes the private communicator. MPI_Comm_create, unlike MPI_Comm_dup, does not run the copy
 * callbacks of the program's own attributes. Memory that one rank lacks turns compression off for
 * this communicator on all. */
static int fill(struct cshim_comm *state, MPI_Comm comm)
{
    MPI_Group group;
    int status = PMPI_Comm_group(comm, &group);
    if (status != MPI_SUCCESS)
        return status;
    PMPI_Comm_rank(comm, &state->rank);
    PMPI_Comm_size(comm, &state->ranks);
    if (has_strangers(group, state->ranks)) {
        PMPI_Group_free(&group);
        state->reason = CSHIM_REASON_NOT_AGREED;
        return MPI_SUCCESS;
    }
    status = PMPI_Comm_create(comm, group, &state->comm);
    PMPI_Group_free(&group);
    if (status != MPI_SUCCESS)
        return status;
    PMPI_Comm_set_errhandler(state->comm, MPI_ERRORS_RETURN);
    int enough = take_memory(state), everywhere = 0;
    status = cshim_job.real->allreduce(&enough, &everywhere, 1, MPI_INT, MPI_MIN, state->comm);
    state->reason = everywhere ? CSHIM_REASON_COMPRESS : CSHIM_REASON_NO_MEMORY;
    if (!everywhere && state->rank == 0)
        cshim_log(CSHIM_LOG_WARN,
                  "a rank has no memory for a communicator's scratch: its calls are "
                  "passed on");
    return status;
}

int cshim_comm_get(MPI_Comm comm, struct cshim_comm **state)
{
    int found = 0;
    int status = PMPI_Comm_get_attr(comm, cshim_job.keyval, state, &found);
    if (status != MPI_SUCCESS || found)
        return status;
    struct entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL) { /* the other ranks are on their way into fill() */
        cshim_log(CSHIM_LOG_ERROR, "no memory for a communicator's state");
        PMPI_Abort(comm, 1);
        return MPI_ERR_NO_MEM;
    }
    entry->comm.comm = MPI_COMM_NULL;
    status = fill(&entry->comm, comm);
    if (status == MPI_SUCCESS)
        status = PMPI_Comm_set_attr(comm, cshim_job.keyval, &entry->comm);
    if (status != MPI_SUCCESS) {
        free_memory(&entry->comm);
        return status;
    }
    pthread_mutex_lock(&entries_lock);
    entry->next = entries;
    entries = entry;
    pthread_mutex_unlock(&entries_lock);
    *state = &entry->comm;
    return MPI_SUCCESS;
}
