/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that return before they are complete: MPI_Iallreduce, and calls that MPI_Start starts.
 *
 * The MPI library's progress engine calls a function of ours (progress.c), as it calls those of its
 * own nonblocking collectives. So every MPI call of the program that makes progress also advances
 * the exchanges. The program's request is an empty receive from this rank itself; it completes when
 * the finished exchange sends the message for it. So all functions that wait for or test requests
 * work unchanged.
 *
 * MPI_Iallreduce exchanges on one communicator run one at a time, in the order of their calls,
 * which is equal on all ranks. So they can share the scratch, and messages cannot be confused.
 * Persistent requests may be started in any order, so each has its own state. */
#include "shim/mpi/nonblocking.h"

#include <sched.h>
#include <stdlib.h>

#include "codecs/arithmetic.h"
#include "shim/core/clock.h"
#include "shim/core/log.h"
#include "shim/mpi/progress.h"

#define FINALIZE_SECONDS 10.0

/* An active nonblocking call. */
struct pending {
    struct cshim_exchange exchange;
    struct cshim_plan plan;
    MPI_Request request;
    int tag; /* tag of the message that completes the request */
    bool begun;
    bool exchanged;
    struct cshim_sample sample;
    MPI_Request sampling;
    struct pending *next;
};

/* A failed call. It is reported to the program after the lock is released, because the program's
 * error handler may call any MPI function, and need not return. */
struct failure {
    MPI_Comm comm; /* the program's communicator */
    int status;    /* MPI_SUCCESS: no failure */
};

/* Guards the list; held by the thread that advances calls. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pending *first;      /* list of calls, in the order of their start; atomic */
static uint32_t under_way;         /* number of calls on all communicators; atomic */
static uint64_t tags_given;        /* number of tags returned or skipped so far; atomic */
static int most_tags;              /* MPI_TAG_UB */
static __thread bool is_advancing; /* this thread is advancing calls */
static bool registered;            /* the library calls progress() or progress_until_idle() */
static bool closed;                /* progress_until_idle() returns true from now on; atomic */

static struct cshim_comm *comm_of(const struct pending *pending)
{
    return (struct cshim_comm *)pending->exchange.communicator;
}

/* Acquires the scratch for a call, and starts its exchange. */
static void begin_exchange(struct pending *pending)
{
    pending->begun = true;
    cshim_call_acquire_scratch(&pending->exchange);
    cshim_call_set_options(&pending->exchange);
    cshim_exchange_begin(&pending->exchange);
}

/* Tests a request on the program's communicator, without calling the communicator's error handler:
 * the handler may make a nonblocking call and wait for it, while this thread holds the lock that
 * the call needs. report_failure() calls the handler later.
 *
 * Leaves a fatal handler in place, unless the world has a handler of the program: a fatal handler
 * makes no call, and in MPICH it may stand for no handler at all, which could not be restored. */
static int test_without_handler(const struct cshim_comm *comm, MPI_Request *request, int *done)
{
    MPI_Errhandler handler, worlds;
    const MPI_Comm program = cshim_comm_program(comm);
    *done = cshim_progress_is_complete(*request);
    if (!*done)
        return MPI_SUCCESS;
    PMPI_Comm_get_errhandler(program, &handler);
    PMPI_Comm_get_errhandler(MPI_COMM_WORLD, &worlds);
    const bool stays = handler == MPI_ERRORS_ARE_FATAL &&
                       (worlds == MPI_ERRORS_ARE_FATAL || worlds == MPI_ERRORS_RETURN);
    if (!stays)
        cshim_mpi_return_errors_of(program);
    const int status = cshim_progress_test(request, done, MPI_STATUS_IGNORE);
    if (!stays)
        PMPI_Comm_set_errhandler(program, handler);
    PMPI_Errhandler_free(&handler);
    PMPI_Errhandler_free(&worlds);
    return status;
}

/* Returns true if a communicator is prepared. Returns false while the broadcast of its number is
 * not complete, and if the broadcast fails, with the error in *status. */
static bool is_prepared(struct cshim_comm *comm, int *status)
{
    int done = 0;
    if (comm->prepared)
        return true;
    *status = comm->refused;
    if (*status == MPI_SUCCESS)
        *status = test_without_handler(comm, &comm->agreement, &done);
    if (done || *status != MPI_SUCCESS)
        cshim_comm_end_preparing(comm, *status);
    return comm->prepared;
}

/* Advances a call until it would have to wait, or for about 1 ms. Returns true if it is complete or
 * has failed, with the error in *status. */
static bool advance_call(struct pending *pending, int *status)
{
    int sampled = 1;
    bool done = true;
    *status = MPI_SUCCESS;
    if (!pending->begun && !is_prepared(comm_of(pending), status))
        return *status != MPI_SUCCESS;
    if (!pending->begun)
        begin_exchange(pending);
    if (!pending->exchanged)
        *status = cshim_exchange_advance(&pending->exchange, &done);
    pending->exchanged = done;
    if (*status == MPI_SUCCESS && done && pending->sampling != MPI_REQUEST_NULL)
        *status = test_without_handler(comm_of(pending), &pending->sampling, &sampled);
    return *status != MPI_SUCCESS || (done && sampled);
}

/* Completes the program's request by an empty message. If the call has failed, the message is
 * longer than its receive, which completes the request with an error. */
static void complete_request(const struct pending *pending, int status)
{
    static const char text = 0;
    MPI_Request sent;
    int done = 0;
    PMPI_Isend(&text, status == MPI_SUCCESS ? 0 : 1, MPI_BYTE, 0, pending->tag, cshim_mpi.alone,
               &sent);
    cshim_progress_test(&sent, &done, MPI_STATUS_IGNORE);
    if (!done)
        cshim_mpi.real->MPI_Request_free(&sent);
}

/* Counts a call, completes its request and releases what it holds. A failed call is never freed,
 * and keeps its reference to the communicator's state, because the library may still write to its
 * receives. */
static void end_call_under_way(struct pending *pending, int status)
{
    struct cshim_exchange *exchange = &pending->exchange;
    struct cshim_comm *comm = comm_of(pending);
    const double *seconds_of = exchange->figures.seconds_of;
    if (status == MPI_SUCCESS)
        cshim_call_sample_compare(&pending->sample, exchange);
    cshim_call_trace(exchange, exchange->began, cshim_seconds() - exchange->began);
    cshim_call_count(exchange, seconds_of[CSHIM_PHASE_ENCODE] + seconds_of[CSHIM_PHASE_EXCHANGE] +
                                   seconds_of[CSHIM_PHASE_DECODE]);
    cshim_call_release_scratch(exchange, status);
    complete_request(pending, status);
    __atomic_sub_fetch(&comm->pending, 1, __ATOMIC_RELEASE);
    __atomic_sub_fetch(&under_way, 1, __ATOMIC_RELEASE);
    if (status != MPI_SUCCESS)
        return;
    free(pending);
    cshim_comm_release(comm);
}

/* Advances the first call of each struct cshim_comm and, after it has ended, the next call of that
 * struct cshim_comm. Stops after the first call that fails, with its error in failure->status.
 * Returns the number of calls that have ended. */
static int advance_calls(struct failure *failure)
{
    int events = 0, status = MPI_SUCCESS;
    const cshim_arithmetic saved = cshim_arithmetic_begin();
    is_advancing = true;
    failure->status = MPI_SUCCESS;
    for (struct pending **link = &first; *link != NULL && status == MPI_SUCCESS;) {
        struct pending *pending = *link;
        struct cshim_comm *comm = comm_of(pending);
        if (comm->active == NULL)
            comm->active = pending;
        if (comm->active != pending || !advance_call(pending, &status)) {
            link = &pending->next;
            continue;
        }
        __atomic_store_n(link, pending->next, __ATOMIC_RELEASE);
        comm->active = NULL;
        *failure = (struct failure){cshim_comm_program(comm), status};
        end_call_under_way(pending, status);
        events++;
    }
    is_advancing = false;
    cshim_arithmetic_end(&saved);
    return events;
}

/* Prints a failure and calls the program's error handler. The caller must not hold the lock. */
static void report_failure(const struct failure *failure)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (failure->status == MPI_SUCCESS)
        return;
    PMPI_Error_string(failure->status, text, &length);
    cshim_log(CSHIM_LOG_ERROR, "a nonblocking call failed on rank %d: %s", cshim_job.rank, text);
    PMPI_Comm_call_errhandler(failure->comm, failure->status);
}

/* Advances the calls, and returns the number of ended ones. This is the progress callback of Open
 * MPI, which may call it at any time, also from within itself. */
static int progress(void)
{
    struct failure failure;
    if (__atomic_load_n(&first, __ATOMIC_ACQUIRE) == NULL || pthread_mutex_trylock(&lock) != 0)
        return 0;
    const int events = advance_calls(&failure);
    pthread_mutex_unlock(&lock);
    report_failure(&failure);
    return events;
}

/* Progress callback of MPICH: advances the calls. Returns true if none is left, or at the job's
 * end.
 */
static bool progress_until_idle(void)
{
    struct failure failure;
    if (__atomic_load_n(&closed, __ATOMIC_ACQUIRE))
        return true;
    if (pthread_mutex_trylock(&lock) != 0)
        return false;
    advance_calls(&failure);
    registered = first != NULL;
    const bool idle = !registered;
    pthread_mutex_unlock(&lock);
    report_failure(&failure);
    return idle;
}

/* Advances calls until *calls is 0. Returns false at the deadline; a deadline of 0 means none. */
static bool drain_until(const uint32_t *calls, double deadline)
{
    while (__atomic_load_n(calls, __ATOMIC_ACQUIRE) > 0) {
        if (progress() == 0) {
            cshim_progress_make();
            sched_yield();
        }
        if (deadline > 0 && cshim_seconds() > deadline)
            return false;
    }
    return true;
}

void cshim_nonblocking_drain(struct cshim_comm *comm)
{
    if (!is_advancing)
        drain_until(&comm->pending, 0);
}

int cshim_nonblocking_prepare(MPI_Comm comm, struct cshim_comm *state)
{
    cshim_nonblocking_drain(state);
    return cshim_comm_prepare(comm, state);
}

bool cshim_nonblocking_has(MPI_Request request, int tag, MPI_Comm *comm)
{
    bool found = false;
    if (__atomic_load_n(&first, __ATOMIC_ACQUIRE) == NULL)
        return false;
    pthread_mutex_lock(&lock);
    for (const struct pending *pending = first; pending != NULL && !found;
         pending = pending->next) {
        found = pending->request == request || pending->tag == tag;
        *comm = cshim_comm_program(comm_of(pending));
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Returns each tag once. After that, skips the tags of active calls, as long as others are free. */
int cshim_nonblocking_tag(void)
{
    int tag;
    bool may_be_used;
    MPI_Comm comm;
    do {
        const uint64_t given = __atomic_fetch_add(&tags_given, 1, __ATOMIC_RELAXED);
        tag = (int)(given % (uint64_t)most_tags);
        may_be_used = given >= (uint64_t)most_tags &&
                      __atomic_load_n(&under_way, __ATOMIC_RELAXED) < (uint32_t)most_tags;
    } while (may_be_used && cshim_nonblocking_has(MPI_REQUEST_NULL, tag, &comm));
    return tag;
}

int cshim_nonblocking_receive(int tag, bool persistent, MPI_Request *request)
{
    return persistent ? PMPI_Recv_init(NULL, 0, MPI_BYTE, 0, tag, cshim_mpi.alone, request)
                      : PMPI_Irecv(NULL, 0, MPI_BYTE, 0, tag, cshim_mpi.alone, request);
}

/* Appends a call to the list, and registers the progress callback if it is not registered. */
static void append_call(struct pending *pending)
{
    pthread_mutex_lock(&lock);
    if (!registered)
        cshim_progress_add(progress, progress_until_idle);
    registered = true;
    struct pending **link = &first;
    while (*link != NULL)
        link = &(*link)->next;
    __atomic_add_fetch(&comm_of(pending)->pending, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&under_way, 1, __ATOMIC_RELAXED);
    __atomic_store_n(link, pending, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

/* If the call is sampled, starts a native reduction of the sampled elements (MPI_Ireduce),
 * concurrently with the exchange. Calls of persistent requests are not sampled: ranks may start
 * them in different orders, and the reduction is a collective call on the communicator. Returns an
 * MPI error. */
static int begin_sample(struct pending *pending, uint32_t call)
{
    const struct cshim_exchange *exchange = &pending->exchange;
    struct cshim_sample *sample = &pending->sample;
    pending->sampling = MPI_REQUEST_NULL;
    if (comm_of(pending)->parent != NULL)
        return MPI_SUCCESS;
    const cshim_arithmetic saved = cshim_arithmetic_begin();
    cshim_call_sample_begin(sample, exchange, call);
    cshim_arithmetic_end(&saved);
    if (!sample->taken || cshim_mpi.real->MPI_Ireduce == NULL) {
        sample->taken = false;
        return MPI_SUCCESS;
    }
    const int status = cshim_mpi.real->MPI_Ireduce(
        sample->values, sample->sums, (int)sample->length, MPI_DOUBLE, MPI_SUM,
        sample->comparing_rank, comm_of(pending)->program, &pending->sampling);
    if (status == MPI_SUCCESS)
        return status;
    sample->taken = false;
    pending->sampling = MPI_REQUEST_NULL;
    return status;
}

int cshim_nonblocking_start(const struct cshim_arguments *arguments, const struct cshim_plan *plan,
                            struct cshim_comm *comm, int tag, MPI_Request request)
{
    struct pending *pending = calloc(1, sizeof *pending);
    if (pending == NULL) /* the other ranks would wait for this one */
        cshim_mpi_end_job("no memory for a nonblocking call");
    /* Held until the call ends: an error handler may free the communicator before. */
    cshim_comm_hold(comm);
    pending->plan = *plan;
    pending->exchange = cshim_exchange_of(arguments, &pending->plan, comm);
    pending->exchange.sequence = ++comm->host.sequence;
    pending->tag = tag;
    pending->request = request;
    const size_t rule = cshim_rule_index(cshim_job.policy, plan->rule);
    const int status = begin_sample(pending, ++comm->host.calls_by_rule[rule]);
    if (status != MPI_SUCCESS) { /* the program may reuse its buffers at once */
        free(pending);
        if (comm->prepared) /* else the broadcast of the number may still write to `comm` */
            cshim_comm_release(comm);
        return status;
    }
    append_call(pending);
    progress();
    return status;
}

bool cshim_nonblocking_setup(void)
{
    struct cshim_comm *world;
    int able = cshim_progress_find(), all = 0;
    if (!cshim_policy_compresses(cshim_job.policy, CSHIM_MPI, CSHIM_ALLREDUCE, UINT64_MAX) ||
        cshim_job.observed != NULL)
        return true;
    able = able && cshim_mpi.alone != MPI_COMM_NULL;
    most_tags = cshim_mpi_largest_tag();
    if (cshim_mpi.real->MPI_Allreduce(&able, &all, 1, MPI_INT, MPI_MIN, cshim_mpi.world.comm) !=
        MPI_SUCCESS)
        return false;
    cshim_mpi.nonblocking = all != 0;
    /* Prepares the world here even if the program makes blocking calls only. Otherwise their first
     * call would prepare it, and wait for late ranks without the warning of a slow exchange. */
    return cshim_job.ranks == 1 || (cshim_comm_find(MPI_COMM_WORLD, &world) == MPI_SUCCESS &&
                                    cshim_comm_prepare_first(MPI_COMM_WORLD, world) == MPI_SUCCESS);
}

void cshim_nonblocking_teardown(void)
{
    if (!drain_until(&under_way, cshim_seconds() + FINALIZE_SECONDS))
        cshim_log(
            CSHIM_LOG_WARN,
            "rank %d is in MPI_Finalize with nonblocking calls that other ranks have not made; all "
            "ranks must make and complete the same calls",
            cshim_job.rank);
    __atomic_store_n(&closed, true, __ATOMIC_RELEASE);
    if (registered)
        cshim_progress_remove(progress);
    registered = false;
}
