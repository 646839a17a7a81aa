/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/group.h"

#include <stdlib.h>
#include <string.h>

/* An operation that the program has destroyed while calls with it wait. */
struct ended_op {
    ncclRedOp_t op;
    ncclComm_t comm;
};

/* An array that grows. Zeros are an empty one. */
struct list {
    void *items;
    size_t count;
    size_t room;
};

static __thread struct group {
    int depth;
    struct list calls;     /* struct cshim_nccl_call */
    struct list newcomers; /* struct cshim_newcomer */
    struct list ops;       /* struct ended_op */
} group;

/* Adds an item to a list whose items all have this size. Returns false without memory. */
static bool list_add(struct list *list, const void *item, size_t size)
{
    if (list->count == list->room) {
        const size_t room = list->room == 0 ? 8 : 2 * list->room;
        void *grown = realloc(list->items, room * size);
        if (grown == NULL)
            return false;
        list->items = grown;
        list->room = room;
    }
    memcpy((uint8_t *)list->items + list->count++ * size, item, size);
    return true;
}

static void list_clear(struct list *list)
{
    free(list->items);
    *list = (struct list){0};
}

/* Ends with the calls that waited: runs them, unless what NCCL did itself has failed. */
static ncclResult_t end_calls(bool is_good)
{
    struct cshim_nccl_call *calls = group.calls.items;
    const size_t count = group.calls.count;
    const ncclResult_t status =
        is_good && count > 0 ? cshim_batches_run(calls, count) : ncclSuccess;
    for (size_t i = 0; i < count; i++)
        cshim_registry_release(calls[i].comm);
    list_clear(&group.calls);
    return status;
}

/* Destroys the operations that calls may have needed. Those whose communicator is gone are gone. */
static void end_ops(void)
{
    const struct ended_op *ops = group.ops.items;
    for (size_t i = 0; i < group.ops.count; i++)
        if (cshim_premul_find(ops[i].op, ops[i].comm, NULL))
            cshim_premul_destroy(ops[i].op, ops[i].comm);
    list_clear(&group.ops);
}

/* Tells the other ranks that a new communicator is there. Does not wait for them. */
static void announce(struct cshim_newcomer *newcomer)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX] = "";
    if (*newcomer->comm != NULL)
        newcomer->known = cshim_registry_make(newcomer, why);
    if (newcomer->known != NULL && (newcomer->member != NULL || newcomer->job != NULL))
        cshim_prepare_reserve(newcomer->known, why);
    if (newcomer->member != NULL)
        cshim_rendezvous_ready(newcomer->member, why[0] != '\0' ? why : NULL);
}

/* Waits for the ranks' decision about a new communicator. Fails if this rank cannot follow it: it
 * would make native calls among ranks that compress. */
static ncclResult_t decide(struct cshim_newcomer *newcomer)
{
    struct cshim_decision decision = cshim_rendezvous_decide(newcomer->member);
    newcomer->nodes = decision.nodes;
    if (decision.on)
        newcomer->job = cshim_nccl_job_find(&decision.offer);
    free(decision.offer.text);
    if (decision.on && newcomer->job == NULL) {
        cshim_rendezvous_done(newcomer->member, "it has no memory for the policy");
        return ncclSystemError;
    }
    if (!decision.known) {
        cshim_log(CSHIM_LOG_ERROR, "the ranks of a communicator of NCCL cannot agree: %s",
                  decision.why);
        return ncclSystemError;
    }
    if (!decision.on && decision.speaker == (uint32_t)newcomer->rank)
        cshim_log(CSHIM_LOG_WARN, "a communicator of NCCL is not compressed: %s", decision.why);
    return ncclSuccess;
}

/* Adds a new communicator as its ranks decided. */
static ncclResult_t welcome(struct cshim_newcomer *newcomer)
{
    const ncclResult_t status = newcomer->member != NULL ? decide(newcomer) : ncclSuccess;
    struct cshim_nccl_comm *comm = newcomer->known;
    if (comm != NULL && status == ncclSuccess && newcomer->job != NULL) {
        comm->member = newcomer->member;
        newcomer->member = NULL;
    }
    cshim_rendezvous_leave(newcomer->member);
    if (comm != NULL && status == ncclSuccess)
        cshim_registry_add(newcomer);
    else
        cshim_registry_release(comm);
    return status;
}

/* Adds the communicators that were made in this group. Those of a failed group do not exist. */
static ncclResult_t settle_newcomers(bool made)
{
    struct cshim_newcomer *newcomers = group.newcomers.items;
    ncclResult_t status = ncclSuccess;
    for (size_t i = 0; i < group.newcomers.count && made; i++)
        announce(&newcomers[i]);
    for (size_t i = 0; i < group.newcomers.count; i++) {
        const ncclResult_t settled = made ? welcome(&newcomers[i]) : ncclSuccess;
        status = settled != ncclSuccess ? settled : status;
        if (!made)
            cshim_rendezvous_leave(newcomers[i].member);
    }
    list_clear(&group.newcomers);
    return status;
}

ncclResult_t cshim_group_expect(const struct cshim_newcomer *newcomer)
{
    if (!list_add(&group.newcomers, newcomer, sizeof *newcomer))
        return ncclSystemError;
    return group.depth > 0 ? ncclSuccess : settle_newcomers(true);
}

ncclResult_t cshim_group_add(const struct cshim_nccl_call *call)
{
    if (!list_add(&group.calls, call, sizeof *call)) {
        cshim_registry_release(call->comm);
        return ncclSystemError;
    }
    if (group.depth > 0)
        return ncclSuccess;
    return end_calls(true);
}

ncclResult_t cshim_group_destroy_op(ncclRedOp_t op, ncclComm_t comm)
{
    const struct ended_op ended = {op, comm};
    if (group.depth == 0 || !cshim_premul_find(op, comm, NULL) ||
        !list_add(&group.ops, &ended, sizeof ended))
        return cshim_premul_destroy(op, comm);
    return ncclSuccess;
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
    status = ran != ncclSuccess ? ran : status;
    end_ops();
    return status;
}

/* Nothing is launched. NCCL estimates the group with the calls that waited, as native ones. */
ncclResult_t cshim_group_simulate_end(ncclSimInfo_t *info)
{
    ncclResult_t status = ncclSuccess;
    const struct cshim_nccl_call *calls = group.calls.items;
    const bool outermost = group.depth == 1;
    for (size_t i = 0; i < group.calls.count && outermost && status == ncclSuccess; i++)
        status = cshim_call_natively(&calls[i]);
    const ncclResult_t ended = cshim_nccl.real->GroupSimulateEnd(info);
    if (group.depth > 0 && --group.depth == 0) {
        end_calls(false);
        end_ops();
        settle_newcomers(false);
    }
    return status == ncclSuccess ? ended : status;
}
