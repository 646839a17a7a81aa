/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/describe.h"

#include <stdlib.h>

static __thread struct group {
    int depth;
    struct cshim_nccl_call *calls; /* that wait */
    size_t call_count;
    size_t call_room;
    struct cshim_nccl_comm *newcomers; /* that are being made, in their order */
} group;

/* Ends with the calls that waited: runs them, unless what NCCL did itself has failed. Destroys the
 * operations that they may have needed; those whose communicator is gone are gone. */
static ncclResult_t end_calls(bool is_good)
{
    ncclResult_t status = ncclSuccess;
    if (is_good && group.call_count > 0)
        status = cshim_batches_run(group.calls, group.call_count);
    for (size_t i = 0; i < group.call_count; i++)
        cshim_registry_release(group.calls[i].comm);
    free(group.calls);
    group.calls = NULL;
    group.call_count = group.call_room = 0;
    cshim_premul_end(&group, NULL);
    return status;
}

/* Describes a new communicator whose handle is there, and tells the other ranks whether this one
 * can compress. Does not wait for them. */
static void announce(struct cshim_nccl_comm *comm)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX] = "";
    const ncclComm_t handle = *comm->made_at;
    const int ranks_of_parent = comm->ranks;
    /* NCCL is not to be asked about a non-blocking one. */
    if (handle != NULL && (comm->reason == CSHIM_REASON_NONBLOCKING ||
                           (cshim_nccl.real->CommCount(handle, &comm->ranks) == ncclSuccess &&
                            cshim_nccl.real->CommUserRank(handle, &comm->rank) == ncclSuccess &&
                            cshim_nccl.real->CommCuDevice(handle, &comm->device) == ncclSuccess)))
        comm->comm = handle;
    else if (handle != NULL)
        snprintf(why, sizeof why, "NCCL does not describe the communicator");
    if (comm->nodes > 1 && comm->ranks != ranks_of_parent)
        comm->nodes = 0;
    if (comm->comm != NULL && (comm->member != NULL || comm->job != NULL))
        cshim_prepare_reserve(comm, why);
    if (comm->member != NULL)
        cshim_rendezvous_ready(comm->member, why[0] != '\0' ? why : NULL);
}

/* Waits for the ranks' decision about a new communicator. Fails if this rank cannot follow it: it
 * would make native calls among ranks that compress. */
static ncclResult_t decide(struct cshim_nccl_comm *comm)
{
    struct cshim_decision decision = cshim_rendezvous_decide(comm->member);
    comm->nodes = decision.nodes;
    if (decision.on) {
        comm->job = cshim_job_find(&decision.offer);
        free(decision.offer.text);
        if (comm->job != NULL)
            return ncclSuccess;
        cshim_rendezvous_done(comm->member, "it has no memory for the policy");
        return ncclSystemError;
    }
    if (!decision.known) {
        cshim_log(CSHIM_LOG_ERROR, "the ranks of a communicator of NCCL cannot agree: %s",
                  decision.why);
        return ncclSystemError;
    }
    if (decision.speaker == (uint32_t)comm->rank)
        cshim_log(CSHIM_LOG_WARN, "a communicator of NCCL is not compressed: %s", decision.why);
    cshim_rendezvous_leave(comm->member);
    comm->member = NULL;
    return ncclSuccess;
}

/* Adds a new communicator as its ranks decided. */
static ncclResult_t welcome(struct cshim_nccl_comm *comm)
{
    const ncclResult_t status = comm->member != NULL ? decide(comm) : ncclSuccess;
    if (comm->comm != NULL && status == ncclSuccess)
        cshim_registry_add(comm);
    else
        cshim_registry_release(comm);
    return status;
}

/* Adds the communicators that were made in this group. Those of a failed group do not exist. */
static ncclResult_t settle_newcomers(bool made)
{
    ncclResult_t status = ncclSuccess;
    for (struct cshim_nccl_comm *comm = group.newcomers; comm != NULL && made; comm = comm->next)
        announce(comm);
    for (struct cshim_nccl_comm *comm; (comm = group.newcomers) != NULL;) {
        group.newcomers = comm->next;
        const ncclResult_t settled = made ? welcome(comm) : ncclSuccess;
        status = settled != ncclSuccess ? settled : status;
        if (!made)
            cshim_registry_release(comm);
    }
    return status;
}

ncclResult_t cshim_group_expect(struct cshim_nccl_comm *comm)
{
    struct cshim_nccl_comm **end = &group.newcomers;
    if (comm == NULL)
        return ncclSystemError;
    while (*end != NULL)
        end = &(*end)->next;
    *end = comm;
    return group.depth > 0 ? ncclSuccess : settle_newcomers(true);
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
    if (group.depth > 0)
        return ncclSuccess;
    return end_calls(true);
}

ncclResult_t cshim_group_destroy_op(ncclRedOp_t op, ncclComm_t comm)
{
    const ncclResult_t status = cshim_premul_destroy(op, comm, &group);
    return status != ncclSuccess || group.depth > 0 ? status : cshim_premul_end(&group, NULL);
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
    ncclResult_t status = cshim_nccl.real->GroupEnd();
    if (group.depth == 0 || --group.depth > 0)
        return status;
    /* In progress are only non-blocking communicators, whose calls are never held back. */
    const bool going = status == ncclSuccess || status == ncclInProgress;
    const ncclResult_t settled = settle_newcomers(going);
    status = settled != ncclSuccess ? settled : status;
    const ncclResult_t ran = end_calls(going);
    return ran != ncclSuccess ? ran : status;
}

/* Nothing is launched. NCCL estimates the group with the calls that waited, as native ones. */
ncclResult_t cshim_group_simulate_end(ncclSimInfo_t *info)
{
    ncclResult_t status = ncclSuccess;
    const bool outermost = group.depth == 1;
    for (size_t i = 0; i < group.call_count && outermost && status == ncclSuccess; i++)
        status = cshim_call_natively(&group.calls[i]);
    const ncclResult_t ended = cshim_nccl.real->GroupSimulateEnd(info);
    if (group.depth > 0 && --group.depth == 0) {
        end_calls(false);
        settle_newcomers(false);
    }
    return status == ncclSuccess ? ended : status;
}
