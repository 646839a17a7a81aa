/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement of the ranks in MPI_Init: propose, acknowledge, commit, along the tree of
 * shim/core/tree.h.
 *
 * 1. A rank waits for the hellos of its children, merges them into its own, and sends the result to
 * its parent. So rank 0 learns whether all ranks have the same version and codec table.
 *
 * 2. Rank 0 sends its proposal (compress or not) down the tree.
 *
 * 3. If the proposal is to compress, acknowledgements go up the tree, and rank 0's decision goes
 * down. A rank that has acknowledged waits for the decision. A rank that has stopped waiting for
 * the proposal never acknowledges, so a late parent cannot count on it.
 *
 * A rank without the shim gets no message if the launcher has a name service: a rank sends to its
 * parent only after the parent has announced itself there (announce.c), and to a child only after
 * the child's hello. A receive without an answer stays posted, so that a late message cannot match
 * a receive of the program. */
#include "shim/mpi/agree.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/list.h"
#include "shim/core/clock.h"
#include "shim/core/greeting.h"
#include "shim/core/log.h"
#include "shim/core/tree.h"
#include "shim/mpi/communicator.h"
#include "shim/report/file.h"
#include "shim/mpi/announce.h"
#include "shim/mpi/share.h"

#define WAIT_SECONDS 10.0 /* time_limit() adds 1 s per level of a subtree from the third on */

/* Message types. Tags count down from MPI_TAG_UB, because programs count up. Types 0 to 3 are those
 * of version 0.1, whose hello is shorter; ranks of that version do not receive these messages. */
enum word { WORD_HELLO = 4, WORD_REPLY, WORD_ACKNOWLEDGE, WORD_DECISION };

/* Hello message: describes a rank and all ranks below it in the tree. */
struct hello {
    struct cshim_greeting greeting;
    int all;           /* 1: all these ranks can compress together */
    char missing[640]; /* ranks that cannot, with the reasons */
};

/* Static, because MPI may still write to it after the agreement, when a late message arrives. */
static struct agreement {
    int parent, first_child, children; /* in the tree */
    struct hello own, hellos[CSHIM_TREE_WIDTH];
    int acknowledgements[CSHIM_TREE_WIDTH];
    int reply, decision; /* 1: compress */
    MPI_Request hello_requests[CSHIM_TREE_WIDTH], acknowledge_requests[CSHIM_TREE_WIDTH];
    MPI_Request reply_request, decision_request;
} state;

/* Returns the tag of a message type. */
static int tag_of_message(enum word word)
{
    return cshim_mpi_largest_tag() - (int)word;
}

/* Returns the time limit in seconds for an answer that depends on the whole subtree of `rank`. */
static double time_limit(int rank)
{
    const int height = cshim_tree_height(rank, cshim_job.ranks);
    return WAIT_SECONDS + (height > 1 ? height - 1 : 0);
}

/* Posts a receive of `bytes` for each child, into consecutive elements of `messages`. */
static void receive_from_children(enum word word, void *messages, int bytes, MPI_Request *requests)
{
    for (int i = 0; i < state.children; i++)
        PMPI_Irecv((char *)messages + (size_t)i * (size_t)bytes, bytes, MPI_BYTE,
                   state.first_child + i, tag_of_message(word), MPI_COMM_WORLD, &requests[i]);
}

static void send_to_child(int child, enum word word, int answer)
{
    PMPI_Send(&answer, 1, MPI_INT, state.first_child + child, tag_of_message(word), MPI_COMM_WORLD);
}

/* Waits for the hellos of the children until the deadline, and merges them into this rank's. */
static void collect_hellos(double deadline)
{
    const double left = deadline - cshim_seconds();
    int has_arrived;
    receive_from_children(WORD_HELLO, state.hellos, sizeof *state.hellos, state.hello_requests);
    /* At least 1 s, to receive the hellos that are already sent. */
    cshim_mpi_wait(state.children, state.hello_requests, left > 1 ? left : 1);
    for (int i = 0; i < state.children; i++) {
        struct hello *child = &state.hellos[i];
        PMPI_Test(&state.hello_requests[i], &has_arrived, MPI_STATUS_IGNORE);
        if (!has_arrived) /* counts as missing, although it may still come */
            child->greeting.version[0] = '\0';
        state.own.all &=
            cshim_greeting_fits(&state.own.greeting, &child->greeting, state.first_child + i,
                                state.own.missing, sizeof state.own.missing);
        if (has_arrived && !child->all) {
            cshim_list_add(state.own.missing, sizeof state.own.missing, ", ", "%.*s",
                           (int)sizeof child->missing - 1, child->missing);
            state.own.all = false;
        }
    }
}

/* Sends the proposal to the children whose hello came in time. */
static void reply_to_children(bool all)
{
    for (int i = 0; i < state.children; i++)
        if (state.hellos[i].greeting.version[0] != '\0')
            send_to_child(i, WORD_REPLY, all);
}

/* Waits for the acknowledgements of the children; each covers the whole subtree of that child.
 * Returns true if all have come and none refuses. */
static bool collect_acknowledgements(void)
{
    receive_from_children(WORD_ACKNOWLEDGE, state.acknowledgements, sizeof *state.acknowledgements,
                          state.acknowledge_requests);
    bool all =
        cshim_mpi_wait(state.children, state.acknowledge_requests, time_limit(cshim_job.rank));
    for (int i = 0; i < state.children && all; i++)
        all = state.acknowledgements[i] != 0;
    return all;
}

/* Writes to `text` a list of the ranks that have not announced themselves, as in "2-3, 5". */
static void list_silent(char *text, size_t size)
{
    for (int first = 0; first < cshim_job.ranks; first++) {
        int last = first;
        while (last < cshim_job.ranks && !cshim_announced(last))
            last++;
        if (last > first + 1)
            cshim_list_add(text, size, ", ", "%d-%d", first, last - 1);
        else if (last > first)
            cshim_list_add(text, size, ", ", "%d", first);
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
    PMPI_Irecv(&state.decision, 1, MPI_INT, state.parent, tag_of_message(WORD_DECISION),
               MPI_COMM_WORLD, &state.decision_request);
    PMPI_Irecv(&state.reply, 1, MPI_INT, state.parent, tag_of_message(WORD_REPLY), MPI_COMM_WORLD,
               &state.reply_request);
    /* Short enough to be sent eagerly: usually completes even if no receive is posted for it. */
    PMPI_Isend(&state.own, sizeof state.own, MPI_BYTE, state.parent, tag_of_message(WORD_HELLO),
               MPI_COMM_WORLD, &request);
    if (!cshim_mpi_wait(1, &request, WAIT_SECONDS))
        cshim_mpi.real->MPI_Request_free(&request);
    if (cshim_mpi_wait(1, &state.reply_request, 1.2 * time_limit(0)))
        return state.reply != 0;
    cshim_log(CSHIM_LOG_WARN,
              "nothing is compressed: rank %d does not answer rank %d; start all ranks with the "
              "same LD_PRELOAD and COMPSHIM (mpirun -x LD_PRELOAD)",
              state.parent, cshim_job.rank);
    return false;
}

/* Returns rank 0's proposal: true if all ranks can compress together. Otherwise warns. */
static bool propose(void)
{
    if (!state.own.all)
        cshim_log(
            CSHIM_LOG_WARN,
            "nothing is compressed: not all ranks have this shim: %s; start all with the same "
            "LD_PRELOAD and COMPSHIM (mpirun -x LD_PRELOAD)",
            state.own.missing);
    return state.own.all;
}

/* Waits for the children's acknowledgements. Rank 0 then decides; another rank acknowledges to its
 * parent, or refuses, and receives the decision. Sends the decision to the children, and returns
 * it. */
static bool commit(void)
{
    const bool all = collect_acknowledgements();
    const int word = all;
    state.decision = all;
    if (cshim_job.rank != 0) {
        PMPI_Send(&word, 1, MPI_INT, state.parent, tag_of_message(WORD_ACKNOWLEDGE),
                  MPI_COMM_WORLD);
        PMPI_Wait(&state.decision_request, MPI_STATUS_IGNORE);
    } else if (!all) {
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed: a rank stopped waiting for the agreement");
    }
    /* Children whose acknowledgement is late get the decision too, because they wait for it. A
     * child that has stopped waiting still has its receive posted. */
    for (int i = 0; i < state.children; i++)
        send_to_child(i, WORD_DECISION, state.decision);
    return state.decision != 0;
}

/* Runs the agreement. Returns true on all ranks, or on none. */
static bool agree_to_compress(void)
{
    const double began = cshim_seconds();
    const bool is_root = cshim_job.rank == 0;
    state.parent = cshim_tree_parent(cshim_job.rank);
    state.children = cshim_tree_children(cshim_job.rank, cshim_job.ranks, &state.first_child);
    state.own = (struct hello){.greeting = cshim_greeting_make(), .all = true};
    const bool has_names = cshim_job.ranks > 1 && cshim_announce();
    const bool has_parent =
        is_root || !has_names || cshim_await_announcement(state.parent, began + WAIT_SECONDS);
    collect_hellos(began + time_limit(cshim_job.rank));
    const bool proposal = is_root ? propose() : has_parent && send_hello();
    reply_to_children(proposal);
    if (!has_parent && !cshim_announced(0)) /* else rank 0 has the shim, and warns */
        warn_without_root();
    return proposal && commit();
}

/* Sets policy and learned choices for the job. Ends the job if they are wrong, or without memory.
 */
static void adopt(const struct cshim_offer *offer)
{
    char message[CSHIM_MESSAGE_MAX];
    if (!cshim_job_adopt(&cshim_job, offer, message))
        cshim_mpi_end_job(message);
}

/* Rank 0's first broadcast: the size of the packed offer, which follows, and the job's name,
 * because some launchers give the job no id, and some set the id on rank 0's host only. */
struct terms {
    char job[CSHIM_JOB_MAX]; /* value of {jobid} in file names */
    uint64_t offer_bytes;
};

/* Broadcasts the job's name and the offer from rank 0; the other ranks get them. Ends the job
 * without memory. (An offer is never too long, because its files are limited.) */
static void share_terms(struct cshim_offer *offer)
{
    struct terms terms = {.offer_bytes = cshim_offer_packed_bytes(offer)};
    if (cshim_job.rank == 0)
        cshim_report_make_job(terms.job);
    cshim_mpi.real->MPI_Bcast(&terms, (int)sizeof terms, MPI_BYTE, 0, cshim_mpi.world.comm);
    cshim_report_set_job(terms.job);
    void *packed = terms.offer_bytes <= CSHIM_OFFER_PACKED_MAX ? malloc(terms.offer_bytes) : NULL;
    if (packed == NULL)
        cshim_mpi_end_job("no memory for the policy");
    if (cshim_job.rank == 0)
        cshim_offer_pack(offer, packed);
    cshim_mpi.real->MPI_Bcast(packed, (int)terms.offer_bytes, MPI_BYTE, 0, cshim_mpi.world.comm);
    if (cshim_job.rank != 0 && !cshim_offer_unpack(offer, packed, terms.offer_bytes))
        cshim_mpi_end_job("no memory for the policy");
    free(packed);
}

bool cshim_agree(void)
{
    char message[CSHIM_MESSAGE_MAX];
    struct cshim_offer offer = {.text = NULL};
    if (cshim_job.rank == 0) {
        if (!cshim_offer_load(&offer, message))
            cshim_mpi_end_job(message);
        adopt(&offer);
        if (message[0] != '\0')
            cshim_log(CSHIM_LOG_WARN, "%s", message);
    }
    const bool agreed = agree_to_compress();
    if (agreed) {
        MPI_Comm node;
        if (cshim_carrier_make(&cshim_mpi.world, MPI_COMM_WORLD, &node) != MPI_SUCCESS)
            cshim_mpi_end_job("MPI cannot prepare the communicators of compshim");
        share_terms(&offer);
        if (cshim_job.rank != 0)
            adopt(&offer);
        cshim_share_setup(node);
        PMPI_Comm_free(&node);
        /* From here on an MPI library with fault tolerance may let the job survive a lost rank. */
        cshim_mpi_return_errors_of(cshim_mpi.world.comm);
        cshim_log(CSHIM_LOG_INFO, "on: policy %s, codecs in %s", offer.source,
                  cshim_simd_name(cshim_simd_level()));
    }
    cshim_offer_free(&offer);
    return agreed;
}

void cshim_agree_finalize(void)
{
    free(cshim_job.learned);
    cshim_share_teardown();
    cshim_carrier_free(&cshim_mpi.world);
}
