/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/group.h"

#include <stdlib.h>

#include "shim/core/signals.h"
#include "shim/nccl/background.h"
#include "shim/nccl/batch.h"
#include "shim/nccl/device.h"
#include "shim/nccl/prepare.h"
#include "shim/report/process.h"

static __thread struct group {
    int depth;
    struct cshim_nccl_call *calls; /* calls to make at the end of the group */
    size_t call_count;
    size_t call_room;
    struct cshim_nccl_comm *newcomers; /* communicators made in the group, in their order */
} group;

/* NCCL restores the current device of the thread that calls it. A background thread's is device 0,
 * on which each process would then get a context. So such a thread runs the group's calls in the
 * context of the first call's communicator. */
static ncclResult_t run_calls(void)
{
    CSHIM_SCOPE scope = cshim_background_is()
                            ? cshim_device_enter(group.calls[0].comm)
                            : (struct cshim_scope){.result = CUDA_ERROR_INVALID_CONTEXT};
    return cshim_batches_run(group.calls, group.call_count);
}

/* Runs the group's calls if is_good is true, then releases them. */
static ncclResult_t end_calls(bool is_good)
{
    ncclResult_t status = ncclSuccess;
    if (is_good && group.call_count > 0)
        status = run_calls();
    for (size_t i = 0; i < group.call_count; i++) {
        cshim_premul_release(group.calls[i].op, group.calls[i].handle);
        cshim_registry_release(group.calls[i].comm);
    }
    free(group.calls);
    group.calls = NULL;
    group.call_count = group.call_room = 0;
    return status;
}

/* Returns true if a background thread finishes making a communicator. Such a communicator has a
 * handle, and is in the registry, before settle_newcomers(). */
static bool is_made_later(const struct cshim_nccl_comm *comm)
{
    return comm->nonblocking || comm->parent != NULL;
}

/* Gives the program the handle of a communicator that a nonblocking parent has made; the program
 * may then destroy it at once. If there is no handle, does not free `made_at`, to which NCCL may
 * still write. */
static void publish_handle(struct cshim_nccl_comm *comm)
{
    struct cshim_nccl_comm *parent = comm->parent;
    ncclComm_t *made_at = comm->made_at;
    const ncclComm_t handle = *made_at;
    comm->parent = NULL;
    __atomic_store_n(comm->published_at, handle, __ATOMIC_RELEASE);
    if (handle != NULL)
        free(made_at);
    cshim_registry_release(parent);
}

/* Asks NCCL for a new communicator's rank, size and device, and reports to the rendezvous whether
 * this rank can compress. Does not wait for the other ranks. Returns an error if this rank cannot
 * compress, and there is a job but no rendezvous: then the other ranks will compress (a child's
 * ranks have agreed in the parent). */
static ncclResult_t describe_newcomer(struct cshim_nccl_comm *comm)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX] = "";
    const ncclComm_t handle = is_made_later(comm) ? comm->comm : *comm->made_at;
    const int ranks_of_parent = comm->ranks;
    if (handle != NULL && cshim_nccl.real->CommCount(handle, &comm->ranks) == ncclSuccess &&
        cshim_nccl.real->CommUserRank(handle, &comm->rank) == ncclSuccess &&
        cshim_nccl.real->CommCuDevice(handle, &comm->device) == ncclSuccess)
        comm->comm = handle;
    else if (handle != NULL)
        snprintf(why, sizeof why, "NCCL does not describe the communicator");
    if (comm->nodes > 1 && comm->ranks != ranks_of_parent)
        comm->nodes = 0;
    if (comm->comm != NULL && (comm->member != NULL || comm->job != NULL))
        cshim_prepare_reserve(comm, why);
    if (comm->member != NULL)
        cshim_rendezvous_ready(comm->member, why[0] != '\0' ? why : NULL);
    if (comm->member != NULL || comm->job == NULL || why[0] == '\0')
        return ncclSuccess;
    cshim_log(CSHIM_LOG_ERROR, "a communicator of NCCL cannot be used: %s", why);
    return ncclSystemError;
}

/* Waits for the decision of the rendezvous about a new communicator. Returns an error if this rank
 * does not get the decision or lacks memory to follow it, because it would make native calls while
 * other ranks may compress. */
static ncclResult_t await_decision(struct cshim_nccl_comm *comm)
{
    struct cshim_decision decision = cshim_rendezvous_decide(comm->member);
    comm->nodes = decision.nodes;
    if (decision.on) {
        comm->job = cshim_job_find(&decision.offer);
        cshim_offer_free(&decision.offer);
        if (comm->job != NULL)
            return ncclSuccess;
        cshim_rendezvous_done(comm->member, "it has no memory for the policy");
        return ncclSystemError;
    }
    if (!decision.known) {
        if (comm->stopped == ncclSuccess)
            cshim_log(CSHIM_LOG_ERROR, "the ranks of a communicator of NCCL cannot agree: %s",
                      decision.why);
        return comm->stopped != ncclSuccess ? (ncclResult_t)comm->stopped : ncclSystemError;
    }
    if (decision.speaker == (uint32_t)comm->rank && comm->stopped == ncclSuccess)
        cshim_log(CSHIM_LOG_WARN, "a communicator of NCCL is not compressed: %s", decision.why);
    pthread_mutex_lock(&comm->asking);
    cshim_rendezvous_leave(comm->member);
    comm->member = NULL;
    pthread_mutex_unlock(&comm->asking);
    return ncclSuccess;
}

/* Adds a new communicator to the registry, with a job if its ranks have decided to compress. If
 * is_made_later(), the communicator is in the registry already, provided that it was made
 * (start_background, find_children). */
static ncclResult_t add_newcomer(struct cshim_nccl_comm *comm, bool made)
{
    const ncclResult_t status = made && comm->member != NULL ? await_decision(comm) : ncclSuccess;
    const bool is_there = made && comm->comm != NULL && status == ncclSuccess;
    const bool is_added = is_made_later(comm) && comm->comm != NULL;
    const bool is_dropped = !is_there && !is_added;
    if (is_there && !is_added)
        cshim_registry_add(comm);
    if (is_there)
        cshim_registry_settle(comm);
    if (comm->parent != NULL)
        publish_handle(comm);
    if (is_dropped)
        cshim_registry_release(comm);
    return status;
}

/* Adds the communicators that were made in the group. If `made` is false, the group has failed and
 * they do not exist. */
static ncclResult_t settle_newcomers(bool made)
{
    ncclResult_t status = ncclSuccess;
    for (struct cshim_nccl_comm *comm = group.newcomers; comm != NULL && made;
         comm = comm->next_newcomer) {
        const ncclResult_t described = describe_newcomer(comm);
        status = described != ncclSuccess ? described : status;
    }
    for (struct cshim_nccl_comm *comm; (comm = group.newcomers) != NULL;) {
        group.newcomers = comm->next_newcomer;
        const ncclResult_t settled = add_newcomer(comm, made);
        status = settled != ncclSuccess ? settled : status;
    }
    return status;
}

/* Adds the group's communicators, then runs its calls. */
static ncclResult_t finish_group(bool is_good)
{
    const ncclResult_t settled = settle_newcomers(is_good);
    const ncclResult_t ran = end_calls(is_good);
    return ran != ncclSuccess ? ran : settled;
}

/* A group with nonblocking communicators, which a background thread finishes. */
struct background {
    struct group group;
    size_t count;
    struct cshim_nccl_comm *comms[]; /* each once; holds a reference */
};

/* Takes the handles of the communicators that nonblocking parents have made by now. */
static void find_children(void)
{
    for (struct cshim_nccl_comm *comm = group.newcomers; comm != NULL; comm = comm->next_newcomer) {
        if (comm->parent == NULL || *comm->made_at == NULL)
            continue;
        comm->comm = *comm->made_at;
        cshim_registry_add(comm);
    }
}

static void *run_background(void *argument)
{
    struct background *work = argument;
    group = work->group;
    cshim_background_begin(work->comms, work->count);
    ncclResult_t status = cshim_background_await(); /* NCCL's part of the group */
    if (status == ncclSuccess)
        find_children();
    const ncclResult_t finished = finish_group(status == ncclSuccess);
    if (status == ncclSuccess && (status = finished) == ncclSuccess)
        status = cshim_background_await();
    for (size_t i = 0; i < work->count; i++) {
        work->comms[i]->working = status;
        cshim_registry_release(work->comms[i]);
    }
    cshim_background_begin(NULL, 0); /* the program's thread may run this function, too */
    free(work);
    return NULL;
}

static bool works_for(const struct background *work, const struct cshim_nccl_comm *comm)
{
    for (size_t i = 0; i < work->count; i++)
        if (work->comms[i] == comm)
            return true;
    return false;
}

/* Adds the communicator of a handle to the thread's work if it is not there yet. Sets `working` if
 * the communicator was not stopped: an abort or a revoke then waits until the thread has finished
 * and changes `working`. A second entry would make the thread change it twice, the second time
 * perhaps while another thread works for the program's next group. */
static void add_to_work(struct background *work, ncclComm_t handle)
{
    struct cshim_nccl_comm *comm = cshim_registry_find(handle);
    if (comm == NULL || works_for(work, comm)) {
        cshim_registry_release(comm);
        return;
    }
    pthread_mutex_lock(&comm->asking);
    if (comm->stopped == ncclSuccess)
        comm->working = ncclInProgress;
    pthread_mutex_unlock(&comm->asking);
    work->comms[work->count++] = comm;
}

/* Starts a thread that finishes the group; finishes it itself if no thread can be started. Returns
 * ncclInProgress; ncclSystemError without memory.
 * Reads the handles in the program's variables here, because these may be gone when the thread
 * begins. */
static ncclResult_t start_background(void)
{
    size_t room = group.call_count;
    for (struct cshim_nccl_comm *comm = group.newcomers; comm != NULL; comm = comm->next_newcomer)
        room++;
    struct background *work = calloc(1, sizeof *work + room * sizeof(void *));
    if (work == NULL) {
        finish_group(false);
        return ncclSystemError;
    }
    for (struct cshim_nccl_comm **link = &group.newcomers, *comm; (comm = *link) != NULL;) {
        if (comm->parent != NULL) {
            add_to_work(work, comm->parent->comm);
            link = &comm->next_newcomer;
        } else if ((comm->comm = *comm->made_at) != NULL) {
            cshim_registry_add(comm);
            add_to_work(work, comm->comm);
            link = &comm->next_newcomer;
        } else {
            *link = comm->next_newcomer;
            cshim_registry_release(comm);
        }
    }
    for (size_t i = 0; i < group.call_count; i++)
        add_to_work(work, group.calls[i].handle);
    work->group = group;
    group = (struct group){0};
    if (cshim_thread_start(run_background, work, 0) != 0)
        run_background(work);
    return ncclInProgress;
}

/* Returns true if the group has nonblocking communicators, or children of some. */
static bool needs_background(void)
{
    bool needs = false;
    for (size_t i = 0; i < group.call_count; i++)
        needs = needs || group.calls[i].comm->nonblocking;
    for (const struct cshim_nccl_comm *comm = group.newcomers; comm != NULL;
         comm = comm->next_newcomer)
        needs = needs || is_made_later(comm);
    return needs;
}

/* Ends the outermost group, for which NCCL has returned `status`. If that is ncclInProgress, new
 * communicators without a nonblocking parent are nonblocking, too. (The engine may not know that
 * earlier: NCCL reads NCCL_COMM_BLOCKING from its configuration files as well.) */
static ncclResult_t end_outermost(ncclResult_t status)
{
    for (struct cshim_nccl_comm *comm = group.newcomers; comm != NULL; comm = comm->next_newcomer)
        if (status == ncclInProgress && comm->parent == NULL)
            comm->nonblocking = true;
    const bool going = status == ncclSuccess || status == ncclInProgress;
    if (going && needs_background())
        return start_background();
    const ncclResult_t finished = finish_group(going);
    return finished != ncclSuccess ? finished : status;
}

ncclResult_t cshim_group_expect(struct cshim_nccl_comm *comm, ncclResult_t status)
{
    struct cshim_nccl_comm **link = &group.newcomers;
    if (comm == NULL)
        return ncclSystemError;
    while (*link != NULL)
        link = &(*link)->next_newcomer;
    *link = comm;
    return group.depth > 0 ? status : end_outermost(status);
}

ncclResult_t cshim_group_add(const struct cshim_nccl_call *call)
{
    if (group.call_count == group.call_room) {
        const size_t room = group.call_room == 0 ? 8 : 2 * group.call_room;
        struct cshim_nccl_call *grown = realloc(group.calls, room * sizeof *grown);
        if (grown == NULL) {
            cshim_registry_release(call->comm);
            return ncclSystemError;
        }
        group.calls = grown;
        group.call_room = room;
    }
    group.calls[group.call_count++] = *call;
    cshim_premul_hold(call->op, call->handle);
    return group.depth > 0 ? ncclSuccess : end_outermost(ncclSuccess);
}

ncclResult_t cshim_group_start(void)
{
    const ncclResult_t status = cshim_nccl.real->GroupStart();
    if (status == ncclSuccess)
        group.depth++;
    return status;
}

ncclResult_t cshim_group_end(void)
{
    const ncclResult_t status = cshim_nccl.real->GroupEnd();
    return group.depth == 0 || --group.depth > 0 ? status : end_outermost(status);
}

/* Makes the group's calls natively in NCCL's group, so that its estimate includes them. A
 * simulation launches nothing; the calls are dropped afterwards. */
ncclResult_t cshim_group_simulate_end(ncclSimInfo_t *info)
{
    ncclResult_t status = ncclSuccess;
    const bool outermost = group.depth == 1;
    for (size_t i = 0; i < group.call_count && outermost && status == ncclSuccess; i++)
        status = cshim_call_natively(&group.calls[i]);
    const ncclResult_t ended = cshim_nccl.real->GroupSimulateEnd(info);
    if (group.depth > 0 && --group.depth == 0)
        finish_group(false);
    return status == ncclSuccess ? ended : status;
}
