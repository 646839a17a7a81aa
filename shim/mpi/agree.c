/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement of the ranks in MPI_Init: propose, acknowledge, commit, along the tree of
 * shim/core/tree.h.
 *
 * 1. A rank waits for the hellos of its children, merges them into its own, and sends that to its
 * parent. So rank 0 learns whether all ranks have the same version and codec table.
 *
 * 2. Rank 0 sends its proposal (compress or not) down the tree.
 *
 * 3. Acknowledgements go up the tree, and rank 0's decision goes down. A rank that has acknowledged
 * waits for the decision. A rank that has stopped waiting never acknowledges, so a late parent
 * cannot count on it.
 *
 * A rank without the shim gets no message if the launcher has a name service: a rank sends to its
 * parent only after the parent has announced itself there (announce.c), and to a child only after
 * the child's hello. A receive without an answer stays posted, so that a late message cannot match
 * a receive of the program. */
#include "shim/mpi/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/core/environment.h"
#include "shim/core/greeting.h"
#include "shim/core/log.h"
#include "shim/core/tree.h"
#include "shim/mpi/communicator.h"
#include "shim/report/file.h"
#include "shim/mpi/announce.h"
#include "shim/mpi/share.h"

#define WAIT_SECONDS 10.0 /* time_limit() adds one per tree level from the third on */

/* Message types. Tags count down from MPI_TAG_UB, because programs count up. Types 0 to 3 are those
 * of version 0.1, whose hello is shorter; ranks of that version do not receive these messages. */
enum word { WORD_HELLO = 4, WORD_REPLY, WORD_ACKNOWLEDGE, WORD_DECISION };

/* Hello message: describes a rank and all ranks below it in the tree. */
struct hello {
    struct cshim_greeting greeting;
    int all;           /* 1: all these ranks can compress together */
    char missing[640]; /* ranks that cannot, with the reasons */
};

/* Static, because MPI may still write to these after the agreement, when a late message arrives. */
static struct hello own_hello, hellos[CSHIM_TREE_WIDTH];
static int acknowledgements[CSHIM_TREE_WIDTH];
static MPI_Request hello_requests[CSHIM_TREE_WIDTH], acknowledge_requests[CSHIM_TREE_WIDTH];
static MPI_Request reply_request, decision_request;
static int reply, decision; /* 1: compress */

static int parent, first_child, children;

/* Returns the tag of a message type. */
static int tag_of_message(enum word word)
{
    return cshim_mpi_largest_tag() - (int)word;
}

/* Waits until all requests are complete. Returns false if that takes longer than `seconds`. */
static bool wait_for_requests(int count, MPI_Request *requests, double seconds)
{
    const double began = cshim_seconds();
    int done = 0;
    while (!done) {
        PMPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        const double waited = cshim_seconds() - began;
        if (!done && waited > seconds)
            return false;
        if (!done)
            cshim_pause(waited);
    }
    return true;
}

/* Returns the time limit in seconds for messages that need an answer of all ranks below `rank`. */
static double time_limit(int rank)
{
    const int height = cshim_tree_height(rank, cshim_job.ranks);
    return WAIT_SECONDS + (height > 1 ? height - 1 : 0);
}

/* Posts a receive of `bytes` for each child, into consecutive elements of `messages`. */
static void receive_from_children(enum word word, void *messages, int bytes, MPI_Request *requests)
{
    for (int i = 0; i < children; i++)
        PMPI_Irecv((char *)messages + (size_t)i * (size_t)bytes, bytes, MPI_BYTE, first_child + i,
                   tag_of_message(word), MPI_COMM_WORLD, &requests[i]);
}

static void send_to_child(int child, enum word word, int answer)
{
    PMPI_Send(&answer, 1, MPI_INT, first_child + child, tag_of_message(word), MPI_COMM_WORLD);
}

/* Waits for the hellos of the children until the deadline, and merges them into own_hello. */
static void collect_hellos(double deadline)
{
    const double left = deadline - cshim_seconds();
    int has_arrived;
    receive_from_children(WORD_HELLO, hellos, sizeof *hellos, hello_requests);
    /* At least 1 s, to receive the hellos that are already sent. */
    wait_for_requests(children, hello_requests, left > 1 ? left : 1);
    for (int i = 0; i < children; i++) {
        struct hello *child = &hellos[i];
        PMPI_Test(&hello_requests[i], &has_arrived, MPI_STATUS_IGNORE);
        if (!has_arrived) /* missing, but it may still come */
            child->greeting.version[0] = '\0';
        own_hello.all &= cshim_greeting_fits(&own_hello.greeting, &child->greeting, first_child + i,
                                             own_hello.missing, sizeof own_hello.missing);
        if (has_arrived && !child->all) {
            const size_t length = strlen(own_hello.missing);
            snprintf(own_hello.missing + length, sizeof own_hello.missing - length, "%s%s",
                     length > 0 ? ", " : "", child->missing);
            own_hello.all = false;
        }
    }
}

/* Sends the proposal to the children whose hello came in time. */
static void reply_to_children(bool all)
{
    for (int i = 0; i < children; i++)
        if (hellos[i].greeting.version[0] != '\0')
            send_to_child(i, WORD_REPLY, all);
}

/* Waits for the acknowledgements of the children; each covers all ranks below that child. Returns
 * true if all have come and none refuses. */
static bool collect_acknowledgements(void)
{
    receive_from_children(WORD_ACKNOWLEDGE, acknowledgements, sizeof *acknowledgements,
                          acknowledge_requests);
    bool all = wait_for_requests(children, acknowledge_requests, time_limit(cshim_job.rank));
    for (int i = 0; i < children && all; i++)
        all = acknowledgements[i] != 0;
    return all;
}

/* Writes to `text` a list of the ranks that have not announced themselves, as in "2-3, 5". */
static void list_silent(char *text, size_t size)
{
    size_t length = 0;
    for (int first = 0; first < cshim_job.ranks; first++) {
        int last = first;
        while (last < cshim_job.ranks && !cshim_announced(last))
            last++;
        if (last > first + 1 && length < size)
            length += (size_t)snprintf(text + length, size - length, "%s%d-%d",
                                       length > 0 ? ", " : "", first, last - 1);
        else if (last > first && length < size)
            length += (size_t)snprintf(text + length, size - length, "%s%d", length > 0 ? ", " : "",
                                       first);
        first = last;
    }
}

/* Warns that rank 0 lacks the shim. Only the lowest rank that has the shim prints the warning. */
static void warn_without_root(void)
{
    char silent[400] = "", host[96] = "";
    for (int rank = 0; rank < cshim_job.rank; rank++)
        if (cshim_announced(rank))
            return;
    list_silent(silent, sizeof silent);
    gethostname(host, sizeof host - 1);
    cshim_log(
        CSHIM_LOG_WARN,
        "nothing is compressed: not all ranks have this shim: rank %d (%s) has it, but not ranks "
        "%s; start all with the same LD_PRELOAD and COMPSHIM (mpirun -x LD_PRELOAD)",
        cshim_job.rank, host, silent);
}

/* Sends this rank's hello to its parent. Returns rank 0's proposal. If no reply comes, warns and
 * returns false. */
static bool send_hello(void)
{
    MPI_Request request;
    PMPI_Irecv(&decision, 1, MPI_INT, parent, tag_of_message(WORD_DECISION), MPI_COMM_WORLD,
               &decision_request);
    PMPI_Irecv(&reply, 1, MPI_INT, parent, tag_of_message(WORD_REPLY), MPI_COMM_WORLD,
               &reply_request);
    /* Short enough to be sent eagerly: usually completes even if no receive is posted for it. */
    PMPI_Isend(&own_hello, sizeof own_hello, MPI_BYTE, parent, tag_of_message(WORD_HELLO),
               MPI_COMM_WORLD, &request);
    if (!wait_for_requests(1, &request, WAIT_SECONDS))
        cshim_mpi.real->MPI_Request_free(&request);
    if (wait_for_requests(1, &reply_request, 1.2 * time_limit(0)))
        return reply != 0;
    cshim_log(CSHIM_LOG_WARN,
              "nothing is compressed: rank %d does not answer rank %d; start all ranks with the "
              "same LD_PRELOAD and COMPSHIM (mpirun -x LD_PRELOAD)",
              parent, cshim_job.rank);
    return false;
}

/* Returns rank 0's proposal: true if all ranks can compress together. Otherwise warns. */
static bool propose(void)
{
    if (!own_hello.all)
        cshim_log(
            CSHIM_LOG_WARN,
            "nothing is compressed: not all ranks have this shim: %s; start all with the same "
            "LD_PRELOAD and COMPSHIM (mpirun -x LD_PRELOAD)",
            own_hello.missing);
    return own_hello.all;
}

/* Sends the acknowledgement to the parent, receives the decision and sends it to the children.
 * Returns the decision. */
static bool commit(void)
{
    const bool all = collect_acknowledgements();
    const int word = all;
    decision = all;
    if (cshim_job.rank != 0) {
        PMPI_Send(&word, 1, MPI_INT, parent, tag_of_message(WORD_ACKNOWLEDGE), MPI_COMM_WORLD);
        PMPI_Wait(&decision_request, MPI_STATUS_IGNORE);
    } else if (!all) {
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed: a rank stopped waiting for the agreement");
    }
    /* Children whose acknowledgement is late get the decision too, because they wait for it. A
     * child that has stopped waiting still has its receive posted. */
    for (int i = 0; i < children; i++)
        send_to_child(i, WORD_DECISION, decision);
    return decision != 0;
}

/* Runs the agreement. Returns true on all ranks, or on none. */
static bool agree_to_compress(void)
{
    const double began = cshim_seconds();
    const bool is_root = cshim_job.rank == 0;
    parent = cshim_tree_parent(cshim_job.rank);
    children = cshim_tree_children(cshim_job.rank, cshim_job.ranks, &first_child);
    own_hello = (struct hello){.greeting = cshim_greeting_make(), .all = true};
    const bool has_names = cshim_job.ranks > 1 && cshim_announce();
    const bool has_parent =
        is_root || !has_names || cshim_await_announcement(parent, began + WAIT_SECONDS);
    collect_hellos(began + time_limit(cshim_job.rank));
    const bool proposal = is_root ? propose() : has_parent && send_hello();
    reply_to_children(proposal);
    if (!has_parent && !cshim_announced(0)) /* else rank 0 has the shim, and warns */
        warn_without_root();
    return proposal && commit();
}

/* Finds the ranks that share a node (MPI_COMM_TYPE_SHARED); the lowest rank identifies the node.
 * Fills cshim_mpi.layout. Returns a communicator of this rank's node, which the caller frees. */
static MPI_Comm find_nodes(void)
{
    MPI_Comm node;
    int lowest = cshim_job.rank;
    int *lowest_of = calloc((size_t)cshim_job.ranks, sizeof *lowest_of);
    if (lowest_of == NULL)
        cshim_mpi_end_job("no memory for the nodes of the ranks");
    PMPI_Comm_split_type(cshim_mpi.world, MPI_COMM_TYPE_SHARED, cshim_job.rank, MPI_INFO_NULL,
                         &node);
    cshim_mpi.real->MPI_Bcast(&lowest, 1, MPI_INT, 0, node);
    cshim_mpi.real->MPI_Allgather(&lowest, 1, MPI_INT, lowest_of, 1, MPI_INT, cshim_mpi.world);
    if (!cshim_layout_make(&cshim_mpi.layout, lowest_of, cshim_job.ranks, cshim_job.ranks,
                           cshim_job.rank))
        cshim_mpi_end_job("no memory for the nodes of the ranks");
    free(lowest_of);
    return node;
}

/* Sets cshim_mpi.connection_limit to half of the file descriptors that the rank with the fewest has
 * left. The other half is for the program, and for calls that are passed through. */
static void set_connection_limit(void)
{
    int own = cshim_mpi_free_descriptors() / 2, least = 0;
    cshim_mpi.real->MPI_Allreduce(&own, &least, 1, MPI_INT, MPI_MIN, cshim_mpi.world);
    cshim_mpi.connection_limit = least > 0 ? (uint32_t)least : 1;
}

/* Parses the policy, sets it for the job and makes the ledger. Ends the job if the policy is wrong,
 * or without memory. */
static void set_policy(const char *text, size_t length, const char *source)
{
    char message[CSHIM_MESSAGE_MAX];
    cshim_job.policy = cshim_policy_parse(text, length, source, message);
    if (cshim_job.policy == NULL)
        cshim_mpi_end_job(message);
    cshim_log_set_level(cshim_job.policy->log);
    cshim_policy_sha256(text, length, cshim_job.policy_sha256);
    if (!cshim_ledger_init(&cshim_job.ledger, cshim_job.policy))
        cshim_mpi_end_job("no memory for the ledger");
}

/* Header of rank 0's broadcast, followed by the text of the policy and of the learned choices. It
 * contains the job's name, because some launchers give the job no id, and some set the id on rank
 * 0's host only. */
struct terms {
    char job[CSHIM_JOB_MAX]; /* name of the job */
    char source[CSHIM_PATH_MAX];
    uint64_t length; /* bytes of the policy's text */
    uint64_t learned_length;
    uint64_t has_learned; /* 1: choices of an earlier job follow the policy */
};

/* Broadcasts a text of `length` bytes from rank 0; the other ranks allocate it. */
static void share_text(char **text, size_t length)
{
    if (cshim_job.rank != 0)
        *text = calloc(1, length + 1);
    if (*text == NULL)
        cshim_mpi_end_job("no memory for the policy");
    cshim_mpi.real->MPI_Bcast(*text, (int)length, MPI_CHAR, 0, cshim_mpi.world);
}

/* Broadcasts the header, the policy and the learned choices from rank 0 to all ranks. */
static void share_terms(struct terms *terms, char **text, char **learned)
{
    if (cshim_job.rank == 0)
        cshim_report_make_job(terms->job);
    cshim_mpi.real->MPI_Bcast(terms, (int)sizeof *terms, MPI_BYTE, 0, cshim_mpi.world);
    cshim_report_set_job(terms->job);
    share_text(text, terms->length);
    if (terms->has_learned)
        share_text(learned, terms->learned_length);
}

/* Parses the choices that an earlier job has learned. Ends the job if they are wrong. */
static void set_learned(const char *text, size_t length)
{
    char message[CSHIM_MESSAGE_MAX];
    cshim_mpi.learned = cshim_learned_parse(text, length, "COMPSHIM_MACHINE", message);
    if (cshim_mpi.learned == NULL)
        cshim_mpi_end_job(message);
}

bool cshim_agree(void)
{
    char message[CSHIM_MESSAGE_MAX];
    struct terms terms = {.length = 0};
    char *text = NULL, *learned = NULL;
    size_t length = 0, learned_length = 0;

    if (cshim_job.rank == 0) {
        text = cshim_policy_load(NULL, &length, terms.source, message);
        if (text == NULL)
            cshim_mpi_end_job(message);
        if (message[0] != '\0')
            cshim_log(CSHIM_LOG_WARN, "%s", message);
        set_policy(text, length, terms.source);
        terms.length = length;
        if (!cshim_environment_check(cshim_job.policy, message, sizeof message))
            cshim_mpi_end_job(message);
        if (message[0] != '\0')
            cshim_log(CSHIM_LOG_WARN, "%s", message);
        if (!cshim_learned_load(&learned, &learned_length, message))
            cshim_mpi_end_job(message);
        terms.learned_length = learned_length;
        terms.has_learned = learned != NULL;
    }
    const bool agreed = agree_to_compress();
    if (agreed) {
        PMPI_Comm_group(MPI_COMM_WORLD, &cshim_mpi.group);
        PMPI_Comm_create(MPI_COMM_WORLD, cshim_mpi.group, &cshim_mpi.world);
        MPI_Comm node = find_nodes();
        set_connection_limit();
        share_terms(&terms, &text, &learned);
        if (cshim_job.rank != 0)
            set_policy(text, terms.length, terms.source);
        if (learned != NULL)
            set_learned(learned, terms.learned_length);
        cshim_share_setup(node);
        PMPI_Comm_free(&node);
        /* From here on an MPI library with fault tolerance may let the job survive a lost rank. */
        cshim_mpi_return_errors_of(cshim_mpi.world);
        cshim_log(CSHIM_LOG_INFO, "on: policy %s, codecs in %s", terms.source,
                  cshim_simd_name(cshim_simd_level()));
    }
    free(text);
    free(learned);
    return agreed;
}

void cshim_agree_finalize(void)
{
    PMPI_Group_free(&cshim_mpi.group);
    free(cshim_mpi.learned);
    cshim_layout_free(&cshim_mpi.layout);
    cshim_share_teardown();
}
