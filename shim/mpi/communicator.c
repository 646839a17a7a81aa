/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/communicator.h"

#include <stdlib.h>

#include "shim/core/log.h"
#include "shim/host/message.h"
#include "shim/report/classes.h"
#include "shim/mpi/transport.h"
#include "shim/host/scratch.h"

/* States of communicators, so that finalize can free those that the program has not freed. */
static struct cshim_comm *states;
static pthread_mutex_t states_lock = PTHREAD_MUTEX_INITIALIZER;

static void free_memory(struct cshim_comm *state)
{
    cshim_communicator_free(&state->host);
    if (state->parent == NULL)
        free(state->carrier_ranks);
    free(state->requests);
    free(state->statuses);
    free(state->indices);
    free(state);
}

/* Messages of many communicators use one carrier. Their tags identify the program's communicator:
 * by the carrier's rank of its rank 0, and by a number that is unique among the communicators with
 * that rank 0. Numbers are acquired in turn, so that a freed communicator's messages have usually
 * arrived before another communicator gets its number. */
#define NUMBERS_MAX 65536
#define MANY_NUMBERS 4096 /* enough for programs: MPICH allows about 2048 communicators */
#define FIRST_TAG 16      /* lower tags are those of summary.c and trace.c */
static uint64_t numbers_used[NUMBERS_MAX / 64];
static int next_number;
static pthread_mutex_t numbers_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the number of tags for each number: CSHIM_MESSAGES for each possible rank 0. */
static int tags_per_number(const struct cshim_carrier *carrier)
{
    return carrier->ranks * CSHIM_MESSAGES;
}

/* Returns how many numbers the tags of this MPI allow. */
static int count_numbers(const struct cshim_carrier *carrier)
{
    const int numbers = (cshim_mpi_largest_tag() - FIRST_TAG) / tags_per_number(carrier);
    return numbers < NUMBERS_MAX ? numbers : NUMBERS_MAX;
}

/* Acquires a number that is unique among the communicators whose rank 0 is this process. Returns -1
 * if none is left. */
static int acquire_number(const struct cshim_carrier *carrier)
{
    const int numbers = count_numbers(carrier);
    int number = -1;
    pthread_mutex_lock(&numbers_lock);
    for (int i = 0; i < numbers && number < 0; i++) {
        const int candidate = (next_number + i) % numbers;
        const uint64_t bit = (uint64_t)1 << candidate % 64;
        if ((numbers_used[candidate / 64] & bit) == 0) {
            numbers_used[candidate / 64] |= bit;
            number = candidate;
        }
    }
    next_number = number + 1;
    pthread_mutex_unlock(&numbers_lock);
    return number;
}

/* Releases a number, so that another communicator can acquire it. */
static void release_number(int number)
{
    pthread_mutex_lock(&numbers_lock);
    numbers_used[number / 64] &= ~((uint64_t)1 << number % 64);
    pthread_mutex_unlock(&numbers_lock);
}

static uint32_t generation; /* atomic */

uint32_t cshim_comm_generation(void)
{
    return __atomic_load_n(&generation, __ATOMIC_RELAXED);
}

bool cshim_comm_unlink(struct cshim_comm *state)
{
    pthread_mutex_lock(&states_lock);
    struct cshim_comm **link = &states;
    while (*link != NULL && *link != state)
        link = &(*link)->next;
    const bool found = *link != NULL;
    if (found)
        *link = state->next;
    pthread_mutex_unlock(&states_lock);
    __atomic_fetch_add(&generation, 1, __ATOMIC_RELAXED);
    return found;
}

void cshim_comm_hold(struct cshim_comm *state)
{
    __atomic_add_fetch(&state->references, 1, __ATOMIC_RELAXED);
}

/* Drops a reference. Returns true if it was the last one. A nonblocking call that fails, or that
 * other ranks do not make before MPI_Finalize, keeps its reference, and the state is not freed. */
static bool drop_reference(struct cshim_comm *state)
{
    return __atomic_sub_fetch(&state->references, 1, __ATOMIC_ACQ_REL) == 0;
}

/* Maximum number of node communicators of a process. The rest of the library's communicators (MPICH
 * has about 2000) are for the program. */
#define NODES_MAX 256u
static uint32_t nodes_made; /* atomic */

static void free_node(struct cshim_comm *state)
{
    if (state->node == MPI_COMM_NULL)
        return;
    PMPI_Comm_free(&state->node);
    __atomic_sub_fetch(&nodes_made, 1, __ATOMIC_RELAXED);
}

void cshim_comm_release(struct cshim_comm *state)
{
    if (!drop_reference(state))
        return;
    if (state->prepared && state->host.rank == 0)
        release_number(state->number);
    free_node(state);
    if (state->parent != NULL)
        cshim_comm_release(state->parent);
    else
        cshim_carrier_release(state->carrier);
    free_memory(state);
}

void cshim_comm_leave(struct cshim_comm *state)
{
    cshim_classes_count(state->host.classes, cshim_communicator_ledger(&state->host));
    state->program = MPI_COMM_SELF;
    cshim_comm_release(state);
}

int cshim_comm_setup(MPI_Comm_delete_attr_function *on_delete)
{
    const int status = cshim_carrier_setup();
    if (status != MPI_SUCCESS)
        return status;
    return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &cshim_mpi.keyval, NULL);
}

void cshim_comm_count_classes(void)
{
    for (const struct cshim_comm *state = states; state != NULL; state = state->next)
        cshim_classes_count(state->host.classes, cshim_communicator_ledger(&state->host));
}

void cshim_comm_teardown(void)
{
    for (struct cshim_comm *next; states != NULL; states = next) {
        next = states->next;
        if (drop_reference(states))
            free_memory(states);
    }
    PMPI_Comm_free_keyval(&cshim_mpi.keyval);
    cshim_carrier_teardown();
}

/* Fills carrier_ranks with the carrier's rank of each rank of `comm`, and `numbered` with 0, 1, ...
 * Sets *outside to whether the carrier lacks a process of `comm`, which was spawned or connected
 * later. Returns an MPI error. */
static int find_carrier_ranks(const struct cshim_carrier *carrier, MPI_Comm comm, int ranks,
                              int *numbered, int *carrier_ranks, bool *outside)
{
    MPI_Group group;
    for (int i = 0; i < ranks; i++)
        numbered[i] = i;
    int status = PMPI_Comm_group(comm, &group);
    if (status != MPI_SUCCESS)
        return status;
    status = PMPI_Group_translate_ranks(group, ranks, numbered, carrier->group, carrier_ranks);
    PMPI_Group_free(&group);
    *outside = false;
    for (int i = 0; i < ranks && status == MPI_SUCCESS; i++)
        *outside |= carrier_ranks[i] == MPI_UNDEFINED;
    return status;
}

/* Fills the state of a communicator that is used for the first time. Returns an MPI error;
 * MPI_ERR_NO_MEM if there is no memory. */
static int fill_state(struct cshim_comm *state, MPI_Comm comm)
{
    bool outside = false, enough = true;
    state->references = 1;
    state->host.transport = &cshim_mpi_transport;
    state->host.job = &cshim_job;
    state->host.learned = cshim_job.learned;
    state->carrier = cshim_carrier_of(comm);
    state->program = comm;
    state->node = MPI_COMM_NULL;
    PMPI_Comm_rank(comm, &state->host.rank);
    PMPI_Comm_size(comm, &state->host.ranks);
    const int ranks = state->host.ranks;
    state->carrier_ranks = calloc((size_t)ranks, sizeof *state->carrier_ranks);
    int *ids = calloc((size_t)ranks, sizeof *ids);
    int status = state->carrier_ranks == NULL || ids == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    if (status == MPI_SUCCESS)
        status =
            find_carrier_ranks(state->carrier, comm, ranks, ids, state->carrier_ranks, &outside);
    if (status == MPI_SUCCESS && outside) {
        state->reason = CSHIM_REASON_NOT_AGREED;
    } else if (status == MPI_SUCCESS) {
        for (int i = 0; i < ranks; i++)
            ids[i] = state->carrier->layout.node_of[state->carrier_ranks[i]];
        enough = cshim_layout_make(&state->host.layout, ids, ranks,
                                   (int)state->carrier->layout.nodes, state->host.rank);
    }
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
    status = made == NULL ? MPI_ERR_NO_MEM : fill_state(made, comm);
    if (status == MPI_ERR_NO_MEM) /* the other ranks may already be in a compressed call */
        cshim_mpi_end_job("no memory for a communicator's state");
    if (status == MPI_SUCCESS)
        status = PMPI_Comm_set_attr(comm, cshim_mpi.keyval, made);
    if (status != MPI_SUCCESS) {
        cshim_carrier_release(made->carrier);
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

/* Allocates what compressed calls on this rank need. Returns false if there is no memory.
 * free_memory() frees what was allocated for this communicator. */
static bool reserve_memory(struct cshim_comm *state)
{
    const size_t ranks = (size_t)state->host.ranks;
    const bool has_host = cshim_communicator_reserve(&state->host);
    state->requests = calloc(CSHIM_REQUESTS(ranks), sizeof(MPI_Request));
    state->statuses = calloc(ranks, sizeof *state->statuses);
    state->indices = calloc(ranks, sizeof *state->indices);
    return has_host && cshim_classes_reserve(&state->host.classes, cshim_job.policy, CSHIM_MPI) &&
           cshim_scratch_reserve() && state->requests != NULL && state->statuses != NULL &&
           state->indices != NULL;
}

/* Sets the number that rank 0 has assigned, and the tags that follow from it. */
static void set_number(struct cshim_comm *state, int number)
{
    state->number = number;
    state->first_tag = FIRST_TAG + state->number * tags_per_number(state->carrier) +
                       state->carrier_ranks[0] * CSHIM_MESSAGES;
    state->prepared = true;
}

/* Allocates memory, and gets a number from rank 0, by one collective call on the program's
 * communicator. If any rank lacks memory, descriptors or tags, all ranks store a reason not to
 * compress in the state. A rank with an MPI error does so, too. Returns an MPI error. */
static int agree_on_state(struct cshim_comm *state, MPI_Comm comm)
{
    enum { LACKS_MEMORY, LACKS_DESCRIPTORS, NUMBER, COUNT };
    static bool has_warned; /* about tags; atomic */
    int own[COUNT], largest[COUNT] = {0};
    own[LACKS_MEMORY] = !reserve_memory(state);
    own[LACKS_DESCRIPTORS] =
        cshim_carrier_lacks_descriptors(state->carrier, state->carrier_ranks, state->host.ranks);
    own[NUMBER] = state->host.rank == 0 ? acquire_number(state->carrier) : -1;
    /* Set before, because after an error the program's error handler may have freed the state. */
    state->reason = CSHIM_REASON_NOT_AGREED;
    const int status = cshim_mpi.real->MPI_Allreduce(own, largest, COUNT, MPI_INT, MPI_MAX, comm);
    if (status == MPI_SUCCESS && !largest[LACKS_MEMORY] && !largest[LACKS_DESCRIPTORS] &&
        largest[NUMBER] >= 0) {
        state->reason = CSHIM_REASON_COMPRESS;
        set_number(state, largest[NUMBER]);
        cshim_carrier_connect(state->carrier, state->carrier_ranks, state->host.ranks);
        return status;
    }
    if (own[NUMBER] >= 0)
        release_number(own[NUMBER]);
    if (status != MPI_SUCCESS)
        return status;
    state->reason =
        largest[LACKS_DESCRIPTORS] ? CSHIM_REASON_NO_DESCRIPTORS : CSHIM_REASON_NO_MEMORY;
    if (state->host.rank != 0 || largest[LACKS_DESCRIPTORS])
        return status;
    if (largest[LACKS_MEMORY])
        cshim_log(CSHIM_LOG_WARN,
                  "a rank has no memory for a communicator: its calls are passed through");
    else if (!__atomic_exchange_n(&has_warned, true, __ATOMIC_RELAXED))
        cshim_log(CSHIM_LOG_WARN,
                  "there are no tags left for a communicator: its calls are passed through");
    return status;
}

int cshim_comm_prepare(MPI_Comm comm, struct cshim_comm *state)
{
    if (state->prepared || state->reason != CSHIM_REASON_COMPRESS)
        return MPI_SUCCESS;
    return state->preparing ? state->refused : agree_on_state(state, comm);
}

/* Communicators may be prepared later only if the carrier's ranks are within the connection limit:
 * then preparing the first one, which has all these ranks, has checked the descriptors for all. */
int cshim_comm_prepare_first(MPI_Comm comm, struct cshim_comm *state)
{
    struct cshim_carrier *carrier = state->carrier;
    const int status = cshim_comm_prepare(comm, state);
    if (status != MPI_SUCCESS)
        return status;
    carrier->prepares_later = cshim_mpi.nonblocking && state->prepared &&
                              count_numbers(carrier) >= MANY_NUMBERS &&
                              (uint32_t)carrier->ranks - 1 <= carrier->connection_limit;
    return status;
}

/* Ends the job for lack of memory or tags, instead of passing the call through: all ranks would
 * have to agree on that, and a nonblocking call cannot wait for them. */
int cshim_comm_begin_preparing(struct cshim_comm *state)
{
    if (state->preparing || state->prepared)
        return MPI_SUCCESS;
    state->number = state->host.rank == 0 ? acquire_number(state->carrier) : 0;
    if (state->number < 0 || !reserve_memory(state)) /* the others would wait for this rank */
        cshim_mpi_end_job("no memory or no tags for the communicator of a nonblocking call");
    const bool is_first = state->host.rank == 0;
    const int number = state->number;
    state->reason = CSHIM_REASON_NOT_AGREED; /* set before, as in agree_on_state() */
    const int status = cshim_mpi.real->MPI_Ibcast(&state->number, 1, MPI_INT, 0, state->program,
                                                  &state->agreement);
    if (status == MPI_SUCCESS) {
        state->reason = CSHIM_REASON_COMPRESS;
        state->preparing = true;
    } else if (is_first) {
        release_number(number);
    }
    return status;
}

void cshim_comm_end_preparing(struct cshim_comm *state, int status)
{
    state->refused = status;
    if (status == MPI_SUCCESS)
        set_number(state, state->number);
    else
        state->reason = CSHIM_REASON_NOT_AGREED;
}

struct cshim_plan cshim_comm_plan(struct cshim_comm *state, enum cshim_algorithm algorithm,
                                  const struct cshim_rule *rule, const struct cshim_call *call,
                                  uint64_t count)
{
    if (call->collective != CSHIM_ALLREDUCE)
        return cshim_plan_call(cshim_job.policy, call, count);
    for (unsigned i = 0; i < CSHIM_PLANS; i++) {
        const struct cshim_planned *known = &state->planned[i];
        if (known->rule == rule && known->count == count && known->dtype == call->dtype &&
            known->op == call->op && known->instead == call->instead &&
            known->algorithm == algorithm)
            return known->plan;
    }
    struct cshim_planned *planned = &state->planned[state->plans++ % CSHIM_PLANS];
    *planned = (struct cshim_planned){rule,
                                      count,
                                      call->dtype,
                                      call->op,
                                      call->instead,
                                      algorithm,
                                      algorithm == CSHIM_ALGORITHM_AUTO
                                          ? cshim_plan_call(cshim_job.policy, call, count)
                                          : cshim_plan_call_by(algorithm, rule, call, count)};
    return planned->plan;
}

/* Makes the communicator of this node's ranks, by MPI_Comm_create_group on the carrier, because
 * MPI_Comm_split would call the program's error handler if the library has no more communicators.
 * Takes a tag of this communicator's messages, because Open MPI sends ordinary messages with it;
 * none of ours is under way, as cshim_mpi_any() has just synchronised the ranks. Collective over
 * the node. Returns an MPI error. */
static int make_node(struct cshim_comm *state)
{
    const struct cshim_layout *layout = &state->host.layout;
    MPI_Group group;
    int *members = calloc((size_t)layout->local_ranks, sizeof *members);
    for (int i = 0; members != NULL && i < layout->local_ranks; i++)
        members[i] = state->carrier_ranks[layout->inside[i]];
    if (members == NULL ||
        PMPI_Group_incl(state->carrier->group, layout->local_ranks, members, &group) != MPI_SUCCESS)
        cshim_mpi_end_job("no memory for the nodes of the ranks"); /* the others would wait */
    free(members);
    const int status =
        PMPI_Comm_create_group(state->carrier->comm, group, state->first_tag, &state->node);
    PMPI_Group_free(&group);
    if (status != MPI_SUCCESS) {
        state->node = MPI_COMM_NULL;
        return status;
    }
    __atomic_add_fetch(&nodes_made, 1, __ATOMIC_RELAXED);
    return cshim_mpi_return_errors_of(state->node);
}

int cshim_comm_prepare_levels(struct cshim_comm *state)
{
    static bool has_warned; /* atomic */
    if (state->node != MPI_COMM_NULL || state->lacks_levels)
        return MPI_SUCCESS;
    int status = cshim_mpi_any(__atomic_load_n(&nodes_made, __ATOMIC_RELAXED) >= NODES_MAX,
                               &state->lacks_levels, state->program);
    if (status == MPI_SUCCESS && !state->lacks_levels)
        status =
            cshim_mpi_any(make_node(state) != MPI_SUCCESS, &state->lacks_levels, state->program);
    if (status == MPI_SUCCESS && !state->lacks_levels)
        return status;
    free_node(state); /* also if it was made, but the ranks could not agree that it was */
    if (status == MPI_SUCCESS && state->host.rank == 0 &&
        !__atomic_exchange_n(&has_warned, true, __ATOMIC_RELAXED))
        cshim_log(CSHIM_LOG_WARN, "no more communicators: hierarchical passes calls through");
    return status;
}

int cshim_comm_make_persistent(struct cshim_comm *state, enum cshim_reason *reason,
                               struct cshim_comm **own)
{
    const struct cshim_layout *layout = &state->host.layout;
    struct cshim_comm *part = calloc(1, sizeof *part);
    if (part == NULL || !cshim_layout_make(&part->host.layout, layout->node_of, state->host.ranks,
                                           (int)layout->nodes, state->host.rank))
        cshim_mpi_end_job("no memory for a persistent call"); /* the other ranks would wait */
    part->host.transport = state->host.transport;
    part->host.job = state->host.job;
    part->host.learned = state->host.learned;
    part->host.rank = state->host.rank;
    part->host.ranks = state->host.ranks;
    part->references = 1;
    part->parent = state;
    part->node = MPI_COMM_NULL;
    part->carrier = state->carrier;
    part->carrier_ranks = state->carrier_ranks;
    const int status = agree_on_state(part, state->program);
    *reason = part->reason;
    if (!part->prepared) {
        free_memory(part);
        return status;
    }
    cshim_comm_hold(state);
    *own = part;
    return status;
}

MPI_Comm cshim_comm_program(const struct cshim_comm *state)
{
    return state->parent != NULL ? state->parent->program : state->program;
}
