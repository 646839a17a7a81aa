/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement of two jobs, by their ranks 0. A job that may lack the shim gets no message:
 *
 * 1. MPI_Comm_spawn. Open MPI passes the root's variables that begin with OMPI_MCA_ to the spawned
 * processes. During the call, VARIABLE contains the name of the spawning job. After it, rank 0 of
 * the communicator that spawns posts a receive for a hello on the intercommunicator, before the
 * program can post receives there.
 *
 * 2. MPI_Init of a spawned process. OMPI_PARENT_PORT begins with the name of the job that has
 * spawned it. If VARIABLE contains the same name, that job has the shim and expects a hello.
 * (Processes that a job without the shim spawns may inherit the VARIABLE of that job's own parent.)
 *
 * 3. MPI_Intercomm_merge. Rank 0 of the spawned job sends the hello before it merges. If the hello
 * does not arrive within HELLO_SECONDS after the merge, the spawning job assumes that the spawned
 * one lacks the shim. Otherwise it proposes to compress or not. Only a proposal to compress is
 * acknowledged, and only by a rank 0 that still waits for it; the spawning job then decides. These
 * messages use the merged communicator, which the programs do not have yet. Each rank 0 sends the
 * outcome to the other ranks of its side. */
#include "shim/mpi/spawn.h"

#include <stdlib.h>
#include <string.h>

#include "shim/core/clock.h"
#include "shim/core/greeting.h"
#include "shim/core/log.h"

#define VARIABLE "OMPI_MCA_compshim_spawned_by"
#define HELLO_SECONDS 1.0
#define ANSWER_SECONDS 10.0

/* Numbers of the messages of a merge: a message's tag is MPI_TAG_UB minus its number. agree.c uses
 * the numbers below these. */
enum merge_word { WORD_HELLO = 8, WORD_PROPOSAL, WORD_ACKNOWLEDGE, WORD_DECISION, WORD_OUTCOME };

/* Properties that must be equal in both jobs. Compared and sent as bytes: has no padding. */
struct merge_terms {
    char version[sizeof((struct cshim_greeting *)NULL)->version];
    char policy_sha256[72], learned_sha256[72]; /* 64 digits; without choices empty */
    uint64_t codec_table;
    uint64_t nonblocking, devices, observes; /* 0 or 1 */
};

/* Attribute of an intercommunicator between a job with the shim and one that it has spawned. The
 * spawning side makes it without knowing yet whether the spawned job has the shim. */
struct bond {
    bool is_spawned;             /* this side is the spawned job */
    bool is_decided, compresses; /* outcome of the first merge, which also holds for later ones */
    struct merge_terms hello;    /* this and the next three: at rank 0 of the spawning side */
    MPI_Request hello_request;
    int acknowledgement;
    MPI_Request acknowledge_request;
    bool has_said_hello; /* this and the next ones: at rank 0 of the spawned side */
    int proposal, decision;
    MPI_Request proposal_request, decision_request;
};

static int bond_keyval;
static bool is_open_mpi; /* if false, all calls are passed through */
static struct merge_terms own;
/* Name of this job in its ports' names; empty before the first call that spawns. */
static char job_name[MPI_MAX_PORT_NAME];
static int spawning; /* number of spawning calls in progress; if not 0, VARIABLE is set */
static pthread_mutex_t spawning_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the tag of a message type. */
static int tag_of_merge(enum merge_word word)
{
    return cshim_mpi_largest_tag() - (int)word;
}

/* Attribute delete callback. Keeps the bond while a late message on the merged communicator may
 * still be written to it. */
static int on_delete_bond(MPI_Comm comm, int keyval, void *value, void *extra)
{
    struct bond *bond = value;
    (void)comm, (void)keyval, (void)extra;
    if (bond->hello_request != MPI_REQUEST_NULL) {
        cshim_mpi.real->MPI_Cancel(&bond->hello_request);
        PMPI_Wait(&bond->hello_request, MPI_STATUS_IGNORE);
    }
    if (bond->acknowledge_request == MPI_REQUEST_NULL &&
        bond->proposal_request == MPI_REQUEST_NULL && bond->decision_request == MPI_REQUEST_NULL)
        free(bond);
    return MPI_SUCCESS;
}

/* Attaches a bond to an intercommunicator. At rank 0 of the spawning side, also starts to receive
 * the spawned job's hello. Ends the job on errors, because the other ranks would wait for this one
 * in the merge. */
static void make_bond(MPI_Comm intercomm, bool is_spawned)
{
    int rank, status = MPI_SUCCESS;
    struct bond *bond = calloc(1, sizeof *bond);
    if (bond == NULL)
        cshim_mpi_end_job("no memory for a communicator's state");
    bond->is_spawned = is_spawned;
    bond->hello_request = bond->acknowledge_request = MPI_REQUEST_NULL;
    bond->proposal_request = bond->decision_request = MPI_REQUEST_NULL;
    PMPI_Comm_rank(intercomm, &rank);
    if (!is_spawned && rank == 0)
        status = PMPI_Irecv(&bond->hello, sizeof bond->hello, MPI_BYTE, 0, tag_of_merge(WORD_HELLO),
                            intercomm, &bond->hello_request);
    if (status != MPI_SUCCESS || PMPI_Comm_set_attr(intercomm, bond_keyval, bond) != MPI_SUCCESS)
        cshim_mpi_end_job("MPI cannot prepare the communicators of compshim");
}

/* Returns the length of the job's name in the name of a port, JOB.RANK:NUMBER in Open MPI; 0 if
 * there is no such name. */
static size_t job_length(const char *port)
{
    const char *end = strrchr(port, '.');
    return end != NULL ? (size_t)(end - port) : 0;
}

/* Returns true if VARIABLE contains the name of the job that has spawned this process: then that
 * job has the shim. */
static bool was_spawned_with_shim(void)
{
    const char *name = getenv(VARIABLE), *port = getenv("OMPI_PARENT_PORT");
    const size_t length = port != NULL ? job_length(port) : 0;
    return name != NULL && length > 0 && strlen(name) == length && strncmp(port, name, length) == 0;
}

/* Sets job_name, which stays empty if the library has another form of port names. */
static void find_job_name(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    if (PMPI_Open_port(MPI_INFO_NULL, port) != MPI_SUCCESS)
        return;
    PMPI_Close_port(port);
    memcpy(job_name, port, job_length(port));
}

int cshim_spawn_setup(void)
{
    MPI_Comm parent = MPI_COMM_NULL;
    is_open_mpi = cshim_mpi_is_library("Open MPI");
    if (!is_open_mpi)
        return MPI_SUCCESS;
    const struct cshim_greeting greeting = cshim_greeting_make();
    memcpy(own.version, greeting.version, sizeof own.version);
    memcpy(own.policy_sha256, cshim_job.policy_sha256, sizeof cshim_job.policy_sha256);
    own.codec_table = greeting.table;
    memcpy(own.learned_sha256, cshim_job.learned_sha256, sizeof cshim_job.learned_sha256);
    own.nonblocking = cshim_mpi.nonblocking;
    own.devices = cshim_mpi.devices;
    own.observes = cshim_job.observed != NULL;
    int status = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete_bond, &bond_keyval, NULL);
    if (status == MPI_SUCCESS)
        status = PMPI_Comm_get_parent(&parent);
    if (status != MPI_SUCCESS || parent == MPI_COMM_NULL)
        return status;
    int has_shim = was_spawned_with_shim(), all = 0;
    status =
        cshim_mpi.real->MPI_Allreduce(&has_shim, &all, 1, MPI_INT, MPI_MIN, cshim_mpi.world.comm);
    if (status == MPI_SUCCESS && all)
        make_bond(parent, true);
    return status;
}

void cshim_spawn_teardown(void)
{
    if (is_open_mpi)
        PMPI_Comm_free_keyval(&bond_keyval);
}

/* Sets VARIABLE for the processes that a call on `comm` spawns, and returns true. Does nothing and
 * returns false, on all ranks of `comm`, if the library is not Open MPI, if not all of these ranks
 * compress together, or if the names of ports have another form. */
static bool begin_spawning(MPI_Comm comm)
{
    struct cshim_comm *state;
    if (!is_open_mpi || comm == MPI_COMM_NULL || cshim_comm_find(comm, &state) != MPI_SUCCESS ||
        state->reason == CSHIM_REASON_NOT_AGREED)
        return false;
    pthread_mutex_lock(&spawning_lock);
    if (job_name[0] == '\0')
        find_job_name();
    const bool has_name = job_name[0] != '\0';
    if (has_name && spawning++ == 0)
        setenv(VARIABLE, job_name, 1);
    pthread_mutex_unlock(&spawning_lock);
    return has_name;
}

/* Removes VARIABLE, if begin_spawning() returned true, and makes the bond after a successful call.
 * Returns `status`, the library's. */
static int end_spawning(bool has_begun, int status, const MPI_Comm *intercomm)
{
    if (!has_begun)
        return status;
    pthread_mutex_lock(&spawning_lock);
    if (--spawning == 0)
        unsetenv(VARIABLE);
    pthread_mutex_unlock(&spawning_lock);
    if (status == MPI_SUCCESS)
        make_bond(*intercomm, false);
    return status;
}

int cshim_comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root,
                     MPI_Comm comm, MPI_Comm *intercomm, int errcodes[])
{
    const bool has_begun = begin_spawning(comm);
    return end_spawning(has_begun,
                        cshim_mpi.real->MPI_Comm_spawn(command, argv, maxprocs, info, root, comm,
                                                       intercomm, errcodes),
                        intercomm);
}

int cshim_comm_spawn_multiple(int count, char *commands[], char **argvs[], const int maxprocs[],
                              const MPI_Info infos[], int root, MPI_Comm comm, MPI_Comm *intercomm,
                              int errcodes[])
{
    const bool has_begun = begin_spawning(comm);
    return end_spawning(has_begun,
                        cshim_mpi.real->MPI_Comm_spawn_multiple(count, commands, argvs, maxprocs,
                                                                infos, root, comm, intercomm,
                                                                errcodes),
                        intercomm);
}

/* Arguments of propose_merge() and answer_proposal(): two jobs that have just been merged. */
struct merge {
    struct bond *bond;
    MPI_Comm merged;
    int peer; /* rank 0 of the other job */
};

/* Returns the name of a property in which the two jobs differ, or NULL. */
static const char *find_difference(const struct merge_terms *other)
{
    if (memcmp(other, &own, sizeof own) == 0)
        return NULL;
    return strcmp(other->version, own.version) != 0 || other->codec_table != own.codec_table
               ? "version of compshim"
           : strcmp(other->policy_sha256, own.policy_sha256) != 0 ? "policy (COMPSHIM_POLICY)"
           : strcmp(other->learned_sha256, own.learned_sha256) != 0
               ? "file of choices (COMPSHIM_MACHINE)"
           : other->observes != own.observes ? "mode (COMPSHIM)"
           : other->devices != own.devices   ? "use of GPUs"
                                             : "support for nonblocking calls";
}

/* Proposes to compress, at rank 0 of the spawning job. Returns true if both jobs compress. */
static bool propose_merge(const struct merge *merge)
{
    struct bond *bond = merge->bond;
    if (!cshim_mpi_wait(1, &bond->hello_request, HELLO_SECONDS)) {
        cshim_log(
            CSHIM_LOG_INFO,
            "the spawned job did not answer within 1 s: calls on the communicator merged with "
            "it are passed through; start it with compshim, too");
        return false;
    }
    const char *difference = find_difference(&bond->hello);
    const int proposal = difference == NULL;
    if (proposal)
        PMPI_Irecv(&bond->acknowledgement, 1, MPI_INT, merge->peer, tag_of_merge(WORD_ACKNOWLEDGE),
                   merge->merged, &bond->acknowledge_request);
    else
        cshim_log(
            CSHIM_LOG_WARN,
            "calls on the merged communicator are passed through: the spawned job has another %s",
            difference);
    PMPI_Send(&proposal, 1, MPI_INT, merge->peer, tag_of_merge(WORD_PROPOSAL), merge->merged);
    if (!proposal)
        return false;
    const int decision = cshim_mpi_wait(1, &bond->acknowledge_request, 1.2 * ANSWER_SECONDS);
    if (!decision)
        cshim_log(CSHIM_LOG_INFO, "the spawned job stopped waiting for the agreement: calls on the "
                                  "communicator merged with it are passed through");
    PMPI_Send(&decision, 1, MPI_INT, merge->peer, tag_of_merge(WORD_DECISION), merge->merged);
    return decision != 0;
}

/* Answers a proposal, at rank 0 of the spawned job. Returns true if both jobs compress. */
static bool answer_proposal(const struct merge *merge)
{
    struct bond *bond = merge->bond;
    PMPI_Irecv(&bond->decision, 1, MPI_INT, merge->peer, tag_of_merge(WORD_DECISION), merge->merged,
               &bond->decision_request);
    PMPI_Irecv(&bond->proposal, 1, MPI_INT, merge->peer, tag_of_merge(WORD_PROPOSAL), merge->merged,
               &bond->proposal_request);
    if (!cshim_mpi_wait(1, &bond->proposal_request, ANSWER_SECONDS)) {
        cshim_log(
            CSHIM_LOG_INFO,
            "the job that has spawned this one did not answer within 10 s: calls on the merged "
            "communicator are passed through");
        return false;
    }
    if (!bond->proposal) { /* no decision follows */
        cshim_mpi.real->MPI_Cancel(&bond->decision_request);
        PMPI_Wait(&bond->decision_request, MPI_STATUS_IGNORE);
        return false;
    }
    PMPI_Send(&bond->proposal, 1, MPI_INT, merge->peer, tag_of_merge(WORD_ACKNOWLEDGE),
              merge->merged);
    PMPI_Wait(&bond->decision_request, MPI_STATUS_IGNORE);
    return bond->decision != 0;
}

/* Returns the ranks in `merged` of the first `count` ranks of a group, which the caller frees. Ends
 * the job if there is no memory. */
static int *find_ranks(MPI_Group side, int count, MPI_Comm merged)
{
    MPI_Group group;
    int *ranks = calloc(2 * (size_t)count, sizeof *ranks);
    if (ranks == NULL)
        cshim_mpi_end_job("no memory for a communicator's state");
    for (int i = 0; i < count; i++)
        ranks[count + i] = i;
    PMPI_Comm_group(merged, &group);
    PMPI_Group_translate_ranks(side, count, ranks + count, group, ranks);
    PMPI_Group_free(&group);
    return ranks;
}

/* Finds out whether both jobs compress. Returns the same on all ranks of both. */
static bool agree_on_merge(struct bond *bond, MPI_Comm intercomm, MPI_Comm merged)
{
    struct merge merge = {.bond = bond, .merged = merged};
    MPI_Group side, other_side;
    int rank, count, outcome = 0;
    PMPI_Comm_rank(intercomm, &rank);
    PMPI_Comm_size(intercomm, &count);
    PMPI_Comm_group(intercomm, &side);
    PMPI_Comm_remote_group(intercomm, &other_side);
    int *ranks = find_ranks(side, count, merged), *other_ranks = find_ranks(other_side, 1, merged);
    merge.peer = other_ranks[0];
    if (rank == 0) {
        outcome = bond->is_spawned ? answer_proposal(&merge) : propose_merge(&merge);
        for (int i = 1; i < count; i++)
            PMPI_Send(&outcome, 1, MPI_INT, ranks[i], tag_of_merge(WORD_OUTCOME), merged);
    } else {
        PMPI_Recv(&outcome, 1, MPI_INT, ranks[0], tag_of_merge(WORD_OUTCOME), merged,
                  MPI_STATUS_IGNORE);
    }
    free(ranks);
    free(other_ranks);
    PMPI_Group_free(&side);
    PMPI_Group_free(&other_side);
    return outcome != 0;
}

/* Prepares the merged communicator for compressed calls. Ends the job on errors, because the other
 * ranks would wait. */
static void prepare_merged(MPI_Comm merged)
{
    struct cshim_comm *state = NULL;
    if (cshim_carrier_attach(merged) != MPI_SUCCESS ||
        cshim_comm_find(merged, &state) != MPI_SUCCESS ||
        cshim_comm_prepare_first(merged, state) != MPI_SUCCESS)
        cshim_mpi_end_job("MPI cannot prepare the communicators of compshim");
}

int cshim_intercomm_merge(MPI_Comm intercomm, int high, MPI_Comm *merged)
{
    struct bond *bond = NULL;
    int found = 0, rank = -1;
    if (is_open_mpi && intercomm != MPI_COMM_NULL &&
        PMPI_Comm_get_attr(intercomm, bond_keyval, &bond, &found) == MPI_SUCCESS && found)
        PMPI_Comm_rank(intercomm, &rank);
    if (rank == 0 && bond->is_spawned && !bond->has_said_hello) {
        PMPI_Send(&own, sizeof own, MPI_BYTE, 0, tag_of_merge(WORD_HELLO), intercomm);
        bond->has_said_hello = true;
    }
    const int status = cshim_mpi.real->MPI_Intercomm_merge(intercomm, high, merged);
    if (status != MPI_SUCCESS || !found)
        return status;
    if (!bond->is_decided)
        bond->compresses = agree_on_merge(bond, intercomm, *merged);
    bond->is_decided = true;
    if (bond->compresses)
        prepare_merged(*merged);
    return status;
}
