/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/communicator.h"

#include <stdlib.h>

#include "shim/core/log.h"
#include "shim/host/segment.h"

/* All states, so that finalize can free those that the program did not. */
static struct cshim_comm *states;
static pthread_mutex_t states_lock = PTHREAD_MUTEX_INITIALIZER;

static void free_memory(struct cshim_comm *state)
{
    cshim_communicator_free(&state->host);
    free(state->requests);
    free(state->statuses);
    free(state->indices);
    free(state);
}

static void free_communicator(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_NULL)
        PMPI_Comm_free(comm);
}

bool cshim_comm_unlink(struct cshim_comm *state)
{
    bool found = false;
    pthread_mutex_lock(&states_lock);
    for (struct cshim_comm **link = &states; *link != NULL; link = &(*link)->next) {
        if (*link == state) {
            *link = state->next;
            found = true;
            break;
        }
    }
    pthread_mutex_unlock(&states_lock);
    return found;
}

void cshim_comm_hold(struct cshim_comm *state)
{
    __atomic_add_fetch(&state->references, 1, __ATOMIC_RELAXED);
}

/* Whether nobody is left who needs it. A request that is freed while its call is under way, which
 * MPI forbids, leaves the state behind; so does a call that other ranks do not make before
 * MPI_Finalize. */
static bool drop(struct cshim_comm *state)
{
    return __atomic_sub_fetch(&state->references, 1, __ATOMIC_ACQ_REL) == 0 &&
           __atomic_load_n(&state->pending, __ATOMIC_ACQUIRE) == 0;
}

void cshim_comm_release(struct cshim_comm *state)
{
    if (!drop(state))
        return;
    free_communicator(&state->across);
    free_communicator(&state->node);
    free_communicator(&state->comm);
    free_memory(state);
}

void cshim_comm_leave(struct cshim_comm *state)
{
    if (state->wanted)
        __atomic_sub_fetch(&cshim_mpi.wanted, 1, __ATOMIC_RELAXED);
    state->program = MPI_COMM_SELF;
    cshim_comm_release(state);
}

int cshim_comm_setup(MPI_Comm_delete_attr_function *on_delete)
{
    return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &cshim_mpi.keyval, NULL);
}

void cshim_comm_teardown(void)
{
    for (struct cshim_comm *next; states != NULL; states = next) {
        next = states->next;
        if (drop(states))
            free_memory(states);
    }
    PMPI_Comm_free_keyval(&cshim_mpi.keyval);
}

/* Fills the ids of the ranks' nodes: those that the agreement found. Sets outside if a process is
 * not of the world that agreed (spawned, connected). Returns an MPI error. */
static int find_ids(MPI_Comm comm, int ranks, int *own_ranks, int *ids, bool *outside)
{
    MPI_Group group;
    for (int i = 0; i < ranks; i++)
        own_ranks[i] = i;
    int status = PMPI_Comm_group(comm, &group);
    if (status != MPI_SUCCESS)
        return status;
    status = PMPI_Group_translate_ranks(group, ranks, own_ranks, cshim_mpi.group, ids);
    PMPI_Group_free(&group);
    *outside = false;
    for (int i = 0; i < ranks && status == MPI_SUCCESS && !*outside; i++) {
        *outside = ids[i] == MPI_UNDEFINED;
        if (!*outside)
            ids[i] = cshim_job.layout.node_of[ids[i]];
    }
    return status;
}

/* Returns an MPI error: MPI_ERR_NO_MEM without memory. */
static int fill(struct cshim_comm *state, MPI_Comm comm)
{
    bool outside, enough = true;
    state->references = 1;
    state->host.transport = &cshim_mpi_transport;
    state->program = comm;
    PMPI_Comm_rank(comm, &state->host.rank);
    PMPI_Comm_size(comm, &state->host.ranks);
    state->comm = state->node = state->across = MPI_COMM_NULL;
    int *ids = calloc(2 * (size_t)state->host.ranks, sizeof *ids);
    if (ids == NULL)
        return MPI_ERR_NO_MEM;
    const int status = find_ids(comm, state->host.ranks, ids + state->host.ranks, ids, &outside);
    if (status == MPI_SUCCESS && outside)
        state->reason = CSHIM_REASON_NOT_AGREED;
    else if (status == MPI_SUCCESS)
        enough = cshim_layout_make(&state->host.layout, ids, state->host.ranks,
                                   (int)cshim_job.layout.nodes, state->host.rank);
    free(ids);
    return enough ? status : MPI_ERR_NO_MEM;
}

int cshim_comm_find(MPI_Comm comm, struct cshim_comm **state)
{
    int found = 0;
    int status = PMPI_Comm_get_attr(comm, cshim_mpi.keyval, state, &found);
    if (status != MPI_SUCCESS || found)
        return status;
    struct cshim_comm *made = calloc(1, sizeof *made);
    status = made == NULL ? MPI_ERR_NO_MEM : fill(made, comm);
    if (status == MPI_ERR_NO_MEM) {
        /* The other ranks may be on their way into a compressed call. */
        cshim_log(CSHIM_LOG_ERROR, "no memory for a communicator's state");
        PMPI_Abort(comm, 1);
        return status;
    }
    if (status == MPI_SUCCESS)
        status = PMPI_Comm_set_attr(comm, cshim_mpi.keyval, made);
    if (status != MPI_SUCCESS) {
        free_memory(made);
        return status;
    }
    pthread_mutex_lock(&states_lock);
    made->next = states;
    states = made;
    pthread_mutex_unlock(&states_lock);
    *state = made;
    return MPI_SUCCESS;
}

/* Memory that this rank needs. */
static bool take_memory(struct cshim_comm *state)
{
    const size_t ranks = (size_t)state->host.ranks;
    const bool has_host = cshim_communicator_reserve(&state->host);
    state->requests = calloc(CSHIM_REQUESTS(ranks), sizeof(MPI_Request));
    state->statuses = calloc(ranks, sizeof *state->statuses);
    state->indices = calloc(ranks, sizeof *state->indices);
    return has_host && state->requests != NULL && state->statuses != NULL && state->indices != NULL;
}

/* The same ranks. MPI_Comm_create, unlike MPI_Comm_dup, does not run the copy callbacks of the
 * program's own attributes. */
static int make_private(struct cshim_comm *state, MPI_Comm comm)
{
    MPI_Group group;
    int status = PMPI_Comm_group(comm, &group);
    if (status != MPI_SUCCESS)
        return status;
    status = PMPI_Comm_create(comm, group, &state->comm);
    PMPI_Group_free(&group);
    if (status == MPI_SUCCESS)
        PMPI_Comm_set_errhandler(state->comm, MPI_ERRORS_RETURN);
    return status;
}

/* The communicators of hierarchical, which inherit how errors are handled. */
static int make_levels(struct cshim_comm *state)
{
    const struct cshim_layout *layout = &state->host.layout;
    const bool owns = layout->local_rank < (int)layout->ranks_per_node;
    const int status = PMPI_Comm_split(state->comm, layout->node, state->host.rank, &state->node);
    if (status != MPI_SUCCESS)
        return status;
    return PMPI_Comm_split(state->comm, owns ? layout->local_rank : MPI_UNDEFINED, layout->node,
                           &state->across);
}

int cshim_comm_prepare(MPI_Comm comm, struct cshim_comm *state)
{
    if (state->prepared || state->reason != CSHIM_REASON_COMPRESS)
        return MPI_SUCCESS;
    int status = make_private(state, comm);
    if (status != MPI_SUCCESS)
        return status;
    int enough = take_memory(state), everywhere = 0;
    status = cshim_mpi.real->MPI_Allreduce(&enough, &everywhere, 1, MPI_INT, MPI_MIN, state->comm);
    /* Memory that one rank lacks turns compression off for this communicator on all. */
    if (status == MPI_SUCCESS && !everywhere) {
        state->reason = CSHIM_REASON_NO_MEMORY;
        if (state->host.rank == 0)
            cshim_log(CSHIM_LOG_WARN, "a rank has no memory for a communicator's scratch: its "
                                      "calls are passed on");
        return MPI_SUCCESS;
    }
    if (status == MPI_SUCCESS && cshim_layout_has_levels(&state->host.layout, state->host.ranks))
        status = make_levels(state);
    state->prepared = status == MPI_SUCCESS;
    return status;
}
