/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: communicators that grow (ncclCommGrow of 2.29). Ranks of the old communicator keep their
 * numbers; one of them and the new ranks have the id. */
#include <stdlib.h>

#include "tests/nccl/standin/nccl_internal.h"

struct growth {
    ncclComm_t parent;
    struct standin_creation creation;
    bool has_id;
};

static ncclResult_t join(struct standin_creation wanted)
{
    struct standin_creation *creation = malloc(sizeof *creation);
    if (creation == NULL)
        abort();
    *creation = wanted;
    return standin_join_by_id(creation);
}

/* Joins the grown communicator. Ranks of the old communicator get the id from the one that has it.
 */
static ncclResult_t join_by_growth(void *argument)
{
    struct growth growth = *(struct growth *)argument;
    struct told {
        bool has_id;
        ncclUniqueId id;
    } mine = {growth.has_id, growth.creation.id}, all[STANDIN_RANKS_MAX];
    int members[STANDIN_RANKS_MAX];
    free(argument);
    if (growth.parent == NULL)
        return join(growth.creation);
    for (int rank = 0; rank < growth.parent->ranks; rank++)
        members[rank] = rank;
    const ncclResult_t result =
        standin_all_gather(growth.parent, members, growth.parent->ranks, &mine, all, sizeof mine);
    if (result != ncclSuccess)
        return result;
    for (int rank = 0; rank < growth.parent->ranks; rank++)
        if (all[rank].has_id)
            growth.creation.id = all[rank].id;
    return join(growth.creation);
}

STANDIN_EXPORT ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id)
{
    STANDIN_CHECK(standin_since("ncclCommGetUniqueId", 22900));
    STANDIN_CHECK(standin_check_comm(comm, false));
    return pncclGetUniqueId(id);
}
STANDIN_NCCL(ncclCommGetUniqueId);

STANDIN_EXPORT ncclResult_t pncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId *id,
                                          int rank, ncclComm_t *out, ncclConfig_t *config)
{
    const bool is_new = comm == NULL;
    ncclResult_t result = standin_since("ncclCommGrow", 22900);
    if (result == ncclSuccess && !is_new)
        result = standin_check_comm(comm, false);
    if (result == ncclSuccess)
        result = standin_check_config(config);
    if (result == ncclSuccess &&
        (out == NULL || ranks > STANDIN_RANKS_MAX ||
         (is_new ? id == NULL || rank < 0 || rank >= ranks : rank != -1 || ranks < comm->ranks)))
        result = ncclInvalidArgument;
    if (result != ncclSuccess)
        return standin_group_error(result);
    struct growth *growth = calloc(1, sizeof *growth);
    if (growth == NULL)
        abort();
    *out = standin_new_comm(is_new ? rank : comm->rank, ranks,
                            is_new ? standin_the_driver()->current_or_primary() : comm->context,
                            standin_is_blocking(config, is_new || comm->blocking));
    growth->parent = comm;
    growth->creation.comm = *out;
    growth->has_id = id != NULL;
    if (id != NULL)
        growth->creation.id = *id;
    return standin_submit_init(*out, join_by_growth, growth);
}
STANDIN_NCCL(ncclCommGrow);
