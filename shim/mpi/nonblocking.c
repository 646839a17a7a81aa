/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that return before they are done: MPI_Iallreduce, and the calls that MPI_Start starts.
 *
 * The library's progress engine calls a function of ours (progress.c), as it calls those of its own
 * nonblocking collectives. So an exchange is carried on by every call of the program in which the
 * library makes progress. The program's request is an empty receive from this rank itself, and the
 * message for it is sent when the exchange is done. So every way to wait for requests works by the
 * library's own means.
 *
 * The exchanges of MPI_Iallreduce on one communicator run one after the other, in the order of
 * their calls, which is equal on all ranks. They share scratch, and no message meets another
 * call's. Persistent requests may be started in any order, so each has a state of its own.
 */
#include "shim/mpi/nonblocking.h"

#include <sched.h>
#include <stdlib.h>

#include "codecs/arithmetic.h"
#include "shim/core/clock.h"
#include "shim/core/log.h"
#include "shim/host/event.h"
#include "shim/mpi/progress.h"

#define FINALIZE_SECONDS 10.0

/* A call under way. */
struct pending {
    struct cshim_exchange exchange;
    struct cshim_plan plan;
    MPI_Request request;
    int tag; /* of the message that ends it */
    bool begun;
    bool exchanged;
    struct cshim_sample sample;
    MPI_Request sampling;
    struct pending *next;
};

/* An exchange that has failed. The program is told of it when the lock is free, because its error
 * handler may call any function of MPI, and need not return. */
struct failure {
    MPI_Comm comm; /* the program's */
    int status;    /* MPI_SUCCESS: none has failed */
};

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER;   /* guards the list; the thread that makes progress holds it */
static struct pending *first;    /* in the order of the calls; atomic */
static uint32_t under_way;       /* of all communicators; atomic */
static uint64_t tags_given;      /* atomic */
static int most_tags;            /* MPI_TAG_UB */
static __thread bool carries_on; /* this thread carries calls on */
static bool registered;          /* the library calls progress */
static bool closed;              /* the library is to stop that; atomic */

static struct cshim_comm *comm_of(const struct pending *pending)
{
    return (struct cshim_comm *)pending->exchange.communicator;
}

static void begin(struct pending *pending)
{
    pending->begun = true;
    cshim_call_take_scratch(&pending->exchange);
    cshim_call_set_options(&pending->exchange);
    cshim_exchange_begin(&pending->exchange);
}

/* Returns true if a communicator is prepared; false while rank 0's number is on its way, and after
 * an error of that, which is in *status. */
static bool is_prepared(struct cshim_comm *comm, int *status)
{
    int done = 0;
    if (comm->prepared)
        return true;
    *status = comm->refused;
    if (*status == MPI_SUCCESS)
        *status = cshim_progress_test(&comm->agreement, &done, MPI_STATUS_IGNORE);
    if (done || *status != MPI_SUCCESS)
        cshim_comm_end_preparing(comm, *status);
    return comm->prepared;
}

/* Carries a call on as far as it goes. Returns whether it is done or has failed. */
static bool carry_on(struct pending *pending, int *status)
{
    int sampled = 1;
    bool done = true;
    *status = MPI_SUCCESS;
    if (!pending->begun && !is_prepared(comm_of(pending), status))
        return *status != MPI_SUCCESS;
    if (!pending->begun)
        begin(pending);
    if (!pending->exchanged)
        *status = cshim_exchange_advance(&pending->exchange, &done);
    pending->exchanged = done;
    if (*status == MPI_SUCCESS && done && pending->sampling != MPI_REQUEST_NULL)
        *status = cshim_progress_test(&pending->sampling, &sampled, MPI_STATUS_IGNORE);
    return *status != MPI_SUCCESS || (done && sampled);
}

/* Completes the program's request by sending the message for it, which has no elements. For a
 * failed exchange the message is longer than its receive, which ends the request with an error. */
static void ring(const struct pending *pending, int status)
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

/* Counts and ends a call. A failed call is never freed, and never gives up the communicator's
 * state, because the library may still write to its receives. */
static void finish(struct pending *pending, int status)
{
    struct cshim_exchange *exchange = &pending->exchange;
    struct cshim_comm *comm = comm_of(pending);
    const struct cshim_row *figures = &exchange->figures;
    if (status == MPI_SUCCESS)
        cshim_call_sample_compare(&pending->sample, exchange);
    cshim_event_call(exchange, exchange->began, cshim_seconds() - exchange->began);
    cshim_call_count(exchange,
                     figures->seconds_encode + figures->seconds_exchange + figures->seconds_decode);
    cshim_call_give_scratch(exchange, status);
    ring(pending, status);
    __atomic_sub_fetch(&comm->pending, 1, __ATOMIC_RELEASE);
    __atomic_sub_fetch(&under_way, 1, __ATOMIC_RELEASE);
    if (status != MPI_SUCCESS)
        return;
    free(pending);
    cshim_comm_release(comm);
}

/* Carries all calls on, up to one that fails. Returns the number of calls that have ended. */
static int carry_all_on(struct failure *failure)
{
    int events = 0, status = MPI_SUCCESS;
    const cshim_arithmetic programs = cshim_arithmetic_begin();
    carries_on = true;
    failure->status = MPI_SUCCESS;
    for (struct pending **link = &first; *link != NULL && status == MPI_SUCCESS;) {
        struct pending *pending = *link;
        struct cshim_comm *comm = comm_of(pending);
        if (comm->active == NULL)
            comm->active = pending;
        if (comm->active != pending || !carry_on(pending, &status)) {
            link = &pending->next;
            continue;
        }
        __atomic_store_n(link, pending->next, __ATOMIC_RELEASE);
        comm->active = NULL;
        *failure = (struct failure){cshim_comm_program(comm), status};
        finish(pending, status);
        events++;
    }
    carries_on = false;
    cshim_arithmetic_end(&programs);
    return events;
}

/* Tells the program of a failure. The caller must not hold the lock. */
static void tell(const struct failure *failure)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (failure->status == MPI_SUCCESS)
        return;
    PMPI_Error_string(failure->status, text, &length);
    cshim_log(CSHIM_LOG_ERROR, "a nonblocking call failed on rank %d: %s", cshim_job.rank, text);
    PMPI_Comm_call_errhandler(failure->comm, failure->status);
}

/* Carries the calls on, for a library that says when it makes progress. It may do so in any place,
 * also while this thread is in this function already. */
static int progress(void)
{
    struct failure failure;
    if (__atomic_load_n(&first, __ATOMIC_ACQUIRE) == NULL || pthread_mutex_trylock(&lock) != 0)
        return 0;
    const int events = carry_all_on(&failure);
    pthread_mutex_unlock(&lock);
    tell(&failure);
    return events;
}

/* Carries the calls on, for a library that asks until nothing is left to do. */
static bool progress_until_idle(void)
{
    struct failure failure;
    if (__atomic_load_n(&closed, __ATOMIC_ACQUIRE))
        return true;
    if (pthread_mutex_trylock(&lock) != 0)
        return false;
    carry_all_on(&failure);
    registered = first != NULL;
    const bool idle = !registered;
    pthread_mutex_unlock(&lock);
    tell(&failure);
    return idle;
}

/* Waits until a number of calls under way is 0. Returns false at the deadline, if there is one. */
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
    if (!carries_on)
        drain_until(&comm->pending, 0);
}

int cshim_nonblocking_prepare(MPI_Comm comm, struct cshim_comm *state)
{
    cshim_nonblocking_drain(state);
    return cshim_comm_prepare(comm, state);
}

static bool is_under_way(int tag)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (const struct pending *pending = first; pending != NULL && !found; pending = pending->next)
        found = pending->tag == tag;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Each tag was free once. From then on those of calls under way are left out, as long as there are
 * others. */
int cshim_nonblocking_tag(void)
{
    int tag;
    bool may_be_used;
    do {
        const uint64_t given = __atomic_fetch_add(&tags_given, 1, __ATOMIC_RELAXED);
        tag = (int)(given % (uint64_t)most_tags);
        may_be_used = given >= (uint64_t)most_tags &&
                      __atomic_load_n(&under_way, __ATOMIC_RELAXED) < (uint32_t)most_tags;
    } while (may_be_used && is_under_way(tag));
    return tag;
}

int cshim_nonblocking_receive(int tag, bool persistent, MPI_Request *request)
{
    return persistent ? PMPI_Recv_init(NULL, 0, MPI_BYTE, 0, tag, cshim_mpi.alone, request)
                      : PMPI_Irecv(NULL, 0, MPI_BYTE, 0, tag, cshim_mpi.alone, request);
}

/* Puts a call at the end of the list. With the first call under way, the library is asked to call
 * progress. It is never asked twice. */
static void append(struct pending *pending)
{
    pthread_mutex_lock(&lock);
    if (!registered)
        cshim_progress_add(progress, progress_until_idle);
    registered = true;
    struct pending **link = &first;
    while (*link != NULL)
        link = &(*link)->next;
    cshim_comm_hold(comm_of(pending));
    __atomic_add_fetch(&comm_of(pending)->pending, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&under_way, 1, __ATOMIC_RELAXED);
    __atomic_store_n(link, pending, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

/* Has the library sum the sampled elements while the exchange goes on. That is a collective call,
 * so calls that other ranks may start in another order are not sampled. */
static int begin_sample(struct pending *pending, uint32_t call)
{
    const struct cshim_exchange *exchange = &pending->exchange;
    struct cshim_sample *sample = &pending->sample;
    pending->sampling = MPI_REQUEST_NULL;
    if (comm_of(pending)->whole != NULL)
        return MPI_SUCCESS;
    const cshim_arithmetic programs = cshim_arithmetic_begin();
    cshim_call_sample_begin(sample, exchange, call);
    cshim_arithmetic_end(&programs);
    if (!sample->taken || cshim_mpi.real->MPI_Ireduce == NULL) {
        sample->taken = false;
        return MPI_SUCCESS;
    }
    const int status = cshim_mpi.real->MPI_Ireduce(
        sample->values, sample->sums, (int)sample->length, MPI_DOUBLE, MPI_SUM, sample->taker,
        comm_of(pending)->program, &pending->sampling);
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
    if (pending == NULL) /* the other ranks have begun the call, or will */
        cshim_mpi_end_job("no memory for a nonblocking call");
    pending->plan = *plan;
    pending->exchange = cshim_exchange_of(arguments, &pending->plan, comm);
    pending->exchange.sequence = ++comm->host.sequence;
    pending->tag = tag;
    pending->request = request;
    const size_t rule = cshim_rule_index(cshim_job.policy, plan->rule);
    int status = MPI_SUCCESS;
    if (!comm->preparing && !comm->prepared)
        status = cshim_comm_begin_preparing(comm);
    if (status == MPI_SUCCESS)
        status = begin_sample(pending, ++comm->host.calls_by_rule[rule]);
    append(pending);
    progress();
    return status;
}

bool cshim_nonblocking_has(MPI_Request request, MPI_Comm *comm)
{
    bool found = false;
    if (__atomic_load_n(&first, __ATOMIC_ACQUIRE) == NULL)
        return false;
    pthread_mutex_lock(&lock);
    for (const struct pending *pending = first; pending != NULL && !found;
         pending = pending->next) {
        found = pending->request == request;
        *comm = cshim_comm_program(comm_of(pending));
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool cshim_nonblocking_setup(void)
{
    struct cshim_comm *world;
    int able = cshim_progress_find(), all = 0;
    if (cshim_policy_smallest(cshim_job.policy, CSHIM_ALLREDUCE) == UINT64_MAX ||
        cshim_job.ranks == 1 || cshim_job.observed != NULL)
        return true;
    able = able && cshim_mpi.alone != MPI_COMM_NULL;
    most_tags = cshim_mpi_largest_tag();
    if (cshim_mpi.real->MPI_Allreduce(&able, &all, 1, MPI_INT, MPI_MIN, cshim_mpi.world) !=
        MPI_SUCCESS)
        return false;
    cshim_mpi.nonblocking = all != 0;
    if (!all)
        return true;
    if (cshim_comm_find(MPI_COMM_WORLD, &world) != MPI_SUCCESS ||
        cshim_comm_prepare(MPI_COMM_WORLD, world) != MPI_SUCCESS)
        return false;
    /* Once the world is prepared no part of it can lack connections, unless it has too many. */
    cshim_mpi.prepares_later = world->prepared && cshim_comm_has_many_numbers() &&
                               (uint32_t)cshim_job.ranks - 1 <= cshim_mpi.partners;
    return true;
}

void cshim_nonblocking_teardown(void)
{
    if (!drain_until(&under_way, cshim_seconds() + FINALIZE_SECONDS))
        cshim_log(CSHIM_LOG_WARN,
                  "rank %d comes to MPI_Finalize with calls under way that other ranks do not make",
                  cshim_job.rank);
    __atomic_store_n(&closed, true, __ATOMIC_RELEASE);
    if (registered)
        cshim_progress_remove(progress);
    registered = false;
}
