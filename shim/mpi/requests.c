/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces functions that make requests (MPI_Iallreduce, MPI_Allreduce_init and their _c) and
 * functions that take them (MPI_Start, MPI_Startall, MPI_Request_free, MPI_Cancel). */
#include "shim/mpi/requests.h"

#include <stdlib.h>

#include "shim/report/classes.h"
#include "shim/mpi/nonblocking.h"
#include "shim/mpi/observe.h"

/* A persistent all-reduce, compressed at each start. */
struct persistent {
    MPI_Request request;
    struct cshim_arguments arguments;
    struct cshim_plan plan;
    struct cshim_comm *comm; /* state of this request only */
    int tag;
    struct persistent *next;
};
static struct persistent *persistents; /* atomic: lookups in an empty list take no lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the persistent all-reduce with this request or this tag, or NULL. None has
 * MPI_REQUEST_NULL, or the tag -1. */
static struct persistent *find_persistent(MPI_Request request, int tag)
{
    struct persistent *found;
    if (__atomic_load_n(&persistents, __ATOMIC_ACQUIRE) == NULL)
        return NULL;
    pthread_mutex_lock(&lock);
    for (found = persistents; found != NULL && found->request != request && found->tag != tag;
         found = found->next)
        ;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Returns a tag that no persistent request has. A persistent request keeps its tag while it is
 * inactive. The loop ends, because persistent requests run out of communicator numbers before tags.
 */
static int new_tag(void)
{
    int tag = cshim_nonblocking_tag();
    while (find_persistent(MPI_REQUEST_NULL, tag) != NULL)
        tag = cshim_nonblocking_tag();
    return tag;
}

/* Returns a reason not to compress a nonblocking call, or CSHIM_REASON_COMPRESS; then sets *state.
 * With max_rel_error the codec could change while calls are active. If buffers may be on a GPU, the
 * ranks would have to communicate before the call. */
static enum cshim_reason find_obstacle(const struct cshim_rule *rule, MPI_Comm comm,
                                       struct cshim_comm **state)
{
    if (!cshim_mpi.nonblocking || cshim_mpi.devices || rule->max_rel_error > 0)
        return CSHIM_REASON_NONBLOCKING;
    if (cshim_comm_find(comm, state) != MPI_SUCCESS)
        return CSHIM_REASON_NOT_AGREED;
    if ((*state)->reason != CSHIM_REASON_COMPRESS)
        return (*state)->reason;
    return (*state)->carrier->prepares_later || (*state)->prepared ? CSHIM_REASON_COMPRESS
                                                                   : CSHIM_REASON_NONBLOCKING;
}

/* Plans a nonblocking or persistent call. Returns true if it is to be compressed, with *plan and
 * *state set, or if MPI reports an error, with the error in *status. Returns false if it is passed
 * through, and counts the reason, unless the library may refuse the call. The outcome is equal on
 * all ranks, unless the library may refuse the call on some of them. Communicates only if
 * `prepares`, to prepare the communicator. */
static bool plan_call(struct cshim_arguments *arguments, bool prepares, struct cshim_plan *plan,
                      struct cshim_comm **state, int *status)
{
    *status = MPI_SUCCESS;
    arguments->nonblocking = true;
    const struct cshim_rule *rule;
    struct cshim_call call;
    uint64_t count;
    if (cshim_describe_refused(arguments))
        return false;
    enum cshim_reason reason = cshim_describe_call(arguments, &call, &count);
    if (reason == CSHIM_REASON_COMPRESS) {
        reason = cshim_plan_reason(cshim_job.policy, &call, count, &rule);
        if (reason != CSHIM_REASON_COMPRESS)
            cshim_count_weight(reason, &call, arguments->comm);
    }
    if (reason == CSHIM_REASON_COMPRESS && cshim_job.observed != NULL)
        reason = CSHIM_REASON_DISABLED;
    if (reason == CSHIM_REASON_COMPRESS && prepares && cshim_mpi.nonblocking) {
        *status = cshim_comm_find(arguments->comm, state);
        if (*status == MPI_SUCCESS)
            *status = cshim_nonblocking_prepare(arguments->comm, *state);
        if (*status != MPI_SUCCESS)
            return true;
    }
    if (reason == CSHIM_REASON_COMPRESS)
        reason = find_obstacle(rule, arguments->comm, state);
    if (reason == CSHIM_REASON_COMPRESS) {
        *plan = cshim_class_plan((*state)->host.classes, (*state)->host.learned, cshim_job.policy,
                                 rule, &call, count);
        reason = plan->reason;
    }
    if (reason != CSHIM_REASON_COMPRESS)
        cshim_count_pass(reason, arguments->comm);
    return reason == CSHIM_REASON_COMPRESS;
}

/* Calls the program's error handler if `status` is an error. Returns `status`. */
static int report_status(const struct cshim_comm *comm, int status)
{
    if (status != MPI_SUCCESS)
        PMPI_Comm_call_errhandler(cshim_comm_program(comm), status);
    return status;
}

/* Starts a nonblocking call and makes its request. Returns false if the call is passed through;
 * else sets *status. */
static bool start_call(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm, MPI_Request *request, int *status)
{
    struct cshim_arguments arguments = cshim_arguments_of(CSHIM_ALLREDUCE, CSHIM_REDUCTION_A, comm);
    struct cshim_plan plan;
    struct cshim_comm *state;
    if (request == NULL || !plan_call(&arguments, false, &plan, &state, status))
        return false;
    const int tag = new_tag();
    *status = report_status(state, cshim_nonblocking_receive(tag, false, request));
    if (*status != MPI_SUCCESS)
        return true;
    *status = cshim_comm_begin_preparing(state);
    if (*status == MPI_SUCCESS)
        *status = cshim_nonblocking_start(&arguments, &plan, state, tag, *request);
    if (*status != MPI_SUCCESS) {
        cshim_mpi.real->MPI_Cancel(request);
        cshim_mpi.real->MPI_Request_free(request);
    }
    return true;
}

/* Makes a persistent request. Returns false if the call is passed through; else sets *status. */
static bool make_persistent(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm, MPI_Request *request,
                            int *status)
{
    struct persistent made = {.arguments =
                                  cshim_arguments_of(CSHIM_ALLREDUCE, CSHIM_REDUCTION_A, comm)};
    struct cshim_comm *parent;
    enum cshim_reason reason;
    if (request == NULL || !plan_call(&made.arguments, true, &made.plan, &parent, status))
        return false;
    if (*status == MPI_SUCCESS)
        *status = cshim_comm_make_persistent(parent, &reason, &made.comm);
    if (*status != MPI_SUCCESS)
        return true;
    if (reason != CSHIM_REASON_COMPRESS) {
        cshim_count_pass(reason, comm);
        return false;
    }
    struct persistent *kept = malloc(sizeof *kept);
    if (kept == NULL) /* an error on this rank alone would leave the others waiting */
        cshim_mpi_end_job("no memory for a persistent call");
    made.tag = new_tag();
    *status = cshim_nonblocking_receive(made.tag, true, request);
    if (*status != MPI_SUCCESS) {
        free(kept);
        report_status(parent, *status);
        cshim_comm_release(made.comm);
        return true;
    }
    made.request = *request;
    *kept = made;
    pthread_mutex_lock(&lock);
    kept->next = persistents;
    __atomic_store_n(&persistents, kept, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return true;
}

/* Defines a function that replaces the library's `NAME`: calls `make` and, if that passes the call
 * through, NAME. `parameters` and `arguments` are in parentheses. */
#define REPLACE(name, NAME, make, parameters, arguments)                                           \
    int name parameters                                                                            \
    {                                                                                              \
        int status;                                                                                \
        return make(CSHIM_REDUCTION_A, comm, request, &status) ? status                            \
                                                               : cshim_mpi.real->NAME arguments;   \
    }
REPLACE(cshim_iallreduce, MPI_Iallreduce, start_call,
        (CSHIM_REDUCTION(int), MPI_Comm comm, MPI_Request *request),
        (CSHIM_REDUCTION_A, comm, request))
REPLACE(cshim_iallreduce_c, MPI_Iallreduce_c, start_call,
        (CSHIM_REDUCTION(MPI_Count), MPI_Comm comm, MPI_Request *request),
        (CSHIM_REDUCTION_A, comm, request))
REPLACE(cshim_allreduce_init, MPI_Allreduce_init, make_persistent,
        (CSHIM_REDUCTION(int), MPI_Comm comm, MPI_Info info, MPI_Request *request),
        (CSHIM_REDUCTION_A, comm, info, request))
REPLACE(cshim_allreduce_init_c, MPI_Allreduce_init_c, make_persistent,
        (CSHIM_REDUCTION(MPI_Count), MPI_Comm comm, MPI_Info info, MPI_Request *request),
        (CSHIM_REDUCTION_A, comm, info, request))

int cshim_start(MPI_Request *request)
{
    const struct persistent *found = request != NULL ? find_persistent(*request, -1) : NULL;
    const int status = cshim_mpi.real->MPI_Start(request);
    if (found == NULL || status != MPI_SUCCESS)
        return status;
    return cshim_nonblocking_start(&found->arguments, &found->plan, found->comm, found->tag,
                                   *request);
}

int cshim_startall(int count, MPI_Request requests[])
{
    int status = MPI_SUCCESS;
    if (__atomic_load_n(&persistents, __ATOMIC_ACQUIRE) == NULL || requests == NULL || count < 1)
        return cshim_mpi.real->MPI_Startall(count, requests);
    for (int i = 0; i < count && status == MPI_SUCCESS; i++)
        status = cshim_start(&requests[i]);
    return status;
}

int cshim_request_free(MPI_Request *request)
{
    struct persistent *found = request != NULL ? find_persistent(*request, -1) : NULL;
    if (found != NULL) {
        pthread_mutex_lock(&lock);
        struct persistent **link = &persistents;
        while (*link != found)
            link = &(*link)->next;
        __atomic_store_n(link, found->next, __ATOMIC_RELEASE);
        pthread_mutex_unlock(&lock);
        cshim_comm_release(found->comm);
        free(found);
    }
    return cshim_mpi.real->MPI_Request_free(request);
}

/* Reports MPI_ERR_REQUEST for an active compressed call: MPI does not allow cancelling collective
 * calls. */
int cshim_cancel(MPI_Request *request)
{
    MPI_Comm comm;
    if (request == NULL || !cshim_nonblocking_has(*request, -1, &comm))
        return cshim_mpi.real->MPI_Cancel(request);
    PMPI_Comm_call_errhandler(comm, MPI_ERR_REQUEST);
    return MPI_ERR_REQUEST;
}

void cshim_requests_teardown(void)
{
    for (struct persistent *next; persistents != NULL; persistents = next) {
        next = persistents->next;
        cshim_comm_release(persistents->comm);
        free(persistents);
    }
}
