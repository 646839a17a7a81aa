/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement at start: propose, acknowledge, commit.
 *
 * Every rank says hello to rank 0. Once all ranks have said it with the same version and codec
 * table, rank 0 proposes to compress; once all have acknowledged that, it commits. A rank that has
 * acknowledged waits for the decision. A rank that has stopped waiting never acknowledges, so a
 * late rank 0 cannot count it in.
 *
 * A rank without the shim gets no message: a rank speaks to rank 0 only after rank 0 has announced
 * itself at the launcher (announce.c), and rank 0 speaks to a rank only after its hello. A receive
 * that nobody answers stays posted, so that a late message never meets a receive of the program's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/core/environment.h"
#include "shim/core/greeting.h"
#include "shim/core/log.h"
#include "shim/mpi/job.h"
#include "shim/report/report.h"

#define WAIT_SECONDS 10.0

/* The messages. Their tags count down from the largest one of this MPI, since programs count up. */
enum word { WORD_HELLO, WORD_REPLY, WORD_ACKNOWLEDGE, WORD_DECISION };

/* The library may use these after the agreement, for messages that have not arrived. Rank 0 has the
 * first four, by rank; the other ranks have the rest. */
static struct cshim_greeting *greetings;
static int *acknowledgements;
static MPI_Request *hello_requests;
static MPI_Request *acknowledge_requests;
static MPI_Request reply_request = MPI_REQUEST_NULL, decision_request = MPI_REQUEST_NULL;
static int reply, decision; /* whether to compress */
static struct cshim_greeting sent_hello;

static int tag_of(enum word word)
{
    return cshim_mpi_largest_tag() - (int)word;
}

/* Waits until all requests are done. Returns false after so many seconds. */
static bool wait_for(int count, MPI_Request *requests, double seconds)
{
    const double deadline = cshim_seconds() + seconds;
    int done = 0;
    while (!done) {
        PMPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        if (!done && cshim_seconds() > deadline)
            return false;
        if (!done)
            usleep(100);
    }
    return true;
}

/* Rank 0's first half: waits for the hellos, and answers those that have arrived. Returns whether
 * all ranks have said the right one. */
static bool collect_hellos(void)
{
    char missing[700] = "";
    int has_arrived;
    for (int rank = 1; rank < cshim_job.ranks; rank++)
        PMPI_Irecv(&greetings[rank], sizeof(struct cshim_greeting), MPI_BYTE, rank,
                   tag_of(WORD_HELLO), MPI_COMM_WORLD, &hello_requests[rank]);
    wait_for(cshim_job.ranks, hello_requests, WAIT_SECONDS);
    for (int rank = 1; rank < cshim_job.ranks; rank++) {
        PMPI_Test(&hello_requests[rank], &has_arrived, MPI_STATUS_IGNORE);
        if (!has_arrived) /* it may come later */
            greetings[rank].version[0] = '\0';
    }
    const bool all = cshim_greeting_list(greetings, cshim_job.ranks, missing, sizeof missing);
    if (!all)
        cshim_log(
            CSHIM_LOG_WARN,
            "nothing is compressed: not all ranks have this shim: %s; start all with the same "
            "LD_PRELOAD (mpirun -x LD_PRELOAD)",
            missing);
    const int answer = all;
    for (int rank = 1; rank < cshim_job.ranks; rank++)
        if (greetings[rank].version[0] != '\0')
            PMPI_Send(&answer, 1, MPI_INT, rank, tag_of(WORD_REPLY), MPI_COMM_WORLD);
    return all;
}

/* Rank 0's second half: waits for the acknowledgements, and decides. The decision goes to every
 * rank: a rank whose acknowledgement is only late waits for it, and a rank that has stopped waiting
 * still has a receive posted. */
static bool collect_acknowledgements(void)
{
    for (int rank = 1; rank < cshim_job.ranks; rank++)
        PMPI_Irecv(&acknowledgements[rank], 1, MPI_INT, rank, tag_of(WORD_ACKNOWLEDGE),
                   MPI_COMM_WORLD, &acknowledge_requests[rank]);
    const bool all = wait_for(cshim_job.ranks, acknowledge_requests, WAIT_SECONDS);
    const int answer = all;
    for (int rank = 1; rank < cshim_job.ranks; rank++)
        PMPI_Send(&answer, 1, MPI_INT, rank, tag_of(WORD_DECISION), MPI_COMM_WORLD);
    if (!all)
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed: a rank stopped waiting for the agreement");
    return all;
}

static bool agree_as_root(void)
{
    const size_t ranks = (size_t)cshim_job.ranks;
    greetings = calloc(ranks, sizeof *greetings);
    acknowledgements = calloc(ranks, sizeof *acknowledgements);
    hello_requests = calloc(ranks, sizeof(MPI_Request));
    acknowledge_requests = calloc(ranks, sizeof(MPI_Request));
    if (greetings == NULL || acknowledgements == NULL || hello_requests == NULL ||
        acknowledge_requests == NULL)
        return false; /* the other ranks stop waiting by themselves */
    for (size_t i = 0; i < ranks; i++)
        hello_requests[i] = acknowledge_requests[i] = MPI_REQUEST_NULL;
    greetings[0] = cshim_greeting_make();
    if (cshim_job.ranks > 1)
        cshim_announce();
    return collect_hellos() && collect_acknowledgements();
}

/* Writes "2-3, 5" for the ranks that have not announced themselves. */
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

/* Says that rank 0 lacks the shim. Only the lowest rank that has the shim does so, for all. */
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
        "nothing is compressed: not all ranks have this shim: rank %d (%s) has it, ranks %s do "
        "not; start all with the same LD_PRELOAD (mpirun -x LD_PRELOAD)",
        cshim_job.rank, host, silent);
}

static bool agree_as_other(void)
{
    MPI_Request request;
    const int word = 1;
    if (cshim_announce() && !cshim_await_announcement(0, cshim_seconds() + WAIT_SECONDS)) {
        warn_without_root();
        return false;
    }
    PMPI_Irecv(&decision, 1, MPI_INT, 0, tag_of(WORD_DECISION), MPI_COMM_WORLD, &decision_request);
    PMPI_Irecv(&reply, 1, MPI_INT, 0, tag_of(WORD_REPLY), MPI_COMM_WORLD, &reply_request);
    /* A message this small is sent whether or not anybody receives it. */
    sent_hello = cshim_greeting_make();
    PMPI_Isend(&sent_hello, sizeof sent_hello, MPI_BYTE, 0, tag_of(WORD_HELLO), MPI_COMM_WORLD,
               &request);
    if (!wait_for(1, &request, WAIT_SECONDS))
        cshim_mpi.real->MPI_Request_free(&request);
    if (!wait_for(1, &reply_request, 1.2 * WAIT_SECONDS)) {
        cshim_log(CSHIM_LOG_WARN,
                  "nothing is compressed: rank 0 does not answer rank %d; start all ranks with the "
                  "same LD_PRELOAD (mpirun -x LD_PRELOAD)",
                  cshim_job.rank);
        return false;
    }
    if (!reply)
        return false;
    PMPI_Send(&word, 1, MPI_INT, 0, tag_of(WORD_ACKNOWLEDGE), MPI_COMM_WORLD);
    PMPI_Wait(&decision_request, MPI_STATUS_IGNORE);
    return decision != 0;
}

/* Finds the ranks that share a node. The ranks of a node tell all others their lowest rank. */
static void find_nodes(void)
{
    MPI_Comm node;
    int lowest = cshim_job.rank;
    int *lowest_of = calloc((size_t)cshim_job.ranks, sizeof *lowest_of);
    if (lowest_of == NULL)
        cshim_mpi_end_job("no memory for the nodes of the ranks");
    PMPI_Comm_split_type(cshim_mpi.world, MPI_COMM_TYPE_SHARED, cshim_job.rank, MPI_INFO_NULL,
                         &node);
    cshim_mpi.real->MPI_Bcast(&lowest, 1, MPI_INT, 0, node);
    PMPI_Comm_free(&node);
    cshim_mpi.real->MPI_Allgather(&lowest, 1, MPI_INT, lowest_of, 1, MPI_INT, cshim_mpi.world);
    if (!cshim_layout_make(&cshim_mpi.layout, lowest_of, cshim_job.ranks, cshim_job.ranks,
                           cshim_job.rank))
        cshim_mpi_end_job("no memory for the nodes of the ranks");
    free(lowest_of);
}

/* Parses the policy and makes it the job's. */
static void take_policy(const char *text, size_t length, const char *source)
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

/* Sends rank 0's policy to all ranks: its length and its source, then its text. */
static void share_policy(char **text, size_t *length, char source[CSHIM_PATH_MAX])
{
    unsigned long long bytes = *length;
    cshim_mpi.real->MPI_Bcast(&bytes, 1, MPI_UNSIGNED_LONG_LONG, 0, cshim_mpi.world);
    cshim_mpi.real->MPI_Bcast(source, CSHIM_PATH_MAX, MPI_CHAR, 0, cshim_mpi.world);
    if (cshim_job.rank != 0) {
        *length = bytes;
        *text = calloc(1, *length + 1);
        if (*text == NULL)
            cshim_mpi_end_job("no memory for the policy");
    }
    cshim_mpi.real->MPI_Bcast(*text, (int)bytes, MPI_CHAR, 0, cshim_mpi.world);
}

/* Sends rank 0's name of the job to all ranks. Some launchers number no jobs, and some tell the
 * number on rank 0's host only. */
static void share_job(void)
{
    char job[CSHIM_JOB_MAX] = "";
    if (cshim_job.rank == 0)
        cshim_report_make_job(job);
    cshim_mpi.real->MPI_Bcast(job, sizeof job, MPI_CHAR, 0, cshim_mpi.world);
    cshim_report_set_job(job);
}

bool cshim_agree(void)
{
    char source[CSHIM_PATH_MAX] = "", message[CSHIM_MESSAGE_MAX];
    char *text = NULL;
    size_t length = 0;

    if (cshim_job.rank == 0) {
        if (!cshim_environment_check(message, sizeof message))
            cshim_mpi_end_job(message);
        if (message[0] != '\0')
            cshim_log(CSHIM_LOG_WARN, "%s", message);
        text = cshim_policy_load(NULL, &length, source, message);
        if (text == NULL)
            cshim_mpi_end_job(message);
        if (message[0] != '\0')
            cshim_log(CSHIM_LOG_WARN, "%s", message);
        take_policy(text, length, source);
    }
    const bool agreed = cshim_job.rank == 0 ? agree_as_root() : agree_as_other();
    if (agreed) {
        PMPI_Comm_group(MPI_COMM_WORLD, &cshim_mpi.group);
        PMPI_Comm_create(MPI_COMM_WORLD, cshim_mpi.group, &cshim_mpi.world);
        find_nodes();
        share_job();
        share_policy(&text, &length, source);
        if (cshim_job.rank != 0)
            take_policy(text, length, source);
        /* From here on a rank may die where the library lets the others go on. */
        PMPI_Comm_set_errhandler(cshim_mpi.world, MPI_ERRORS_RETURN);
        cshim_log(CSHIM_LOG_INFO, "on: policy %s, codecs in %s", source,
                  cshim_simd_name(cshim_simd_level()));
    }
    free(text);
    return agreed;
}

void cshim_agree_finalize(void)
{
    PMPI_Group_free(&cshim_mpi.group);
    cshim_layout_free(&cshim_mpi.layout);
    free(hello_requests); /* no message is on its way, because the job had agreed */
    free(acknowledge_requests);
    free(acknowledgements);
    free(greetings);
}
