/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "shim/nccl/prepare.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards spare */
static struct cshim_reserve *spare;

static struct cshim_reserve *take_spare(const struct cshim_nccl_comm *state)
{
    pthread_mutex_lock(&lock);
    struct cshim_reserve **link = &spare;
    while (*link != NULL && ((*link)->device != state->device || (*link)->ranks < state->ranks))
        link = &(*link)->next;
    struct cshim_reserve *reserve = *link;
    if (reserve != NULL)
        *link = reserve->next;
    pthread_mutex_unlock(&lock);
    return reserve;
}

static void discard(const struct cshim_nccl_comm *state, struct cshim_reserve *reserve)
{
    if (reserve->stream != NULL)
        state->cuda.StreamDestroy(reserve->stream);
    free(reserve->facts);
    free(reserve);
}

static CUresult make(const struct cshim_nccl_comm *state, struct cshim_reserve *reserve)
{
    const size_t bytes = ((size_t)state->ranks + 1) * sizeof *reserve->facts;
    struct cshim_scope scope = cshim_nccl_enter(state);
    CUresult result = scope.result;
    if (result == CUDA_SUCCESS)
        result = state->cuda.StreamCreate(&reserve->stream, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS)
        result = state->cuda.MemAlloc(&reserve->memory, bytes);
    cshim_nccl_leave(state, &scope);
    return result;
}

struct cshim_reserve *cshim_reserve_take(const struct cshim_nccl_comm *state, char *why,
                                         size_t size)
{
    struct cshim_reserve *reserve = take_spare(state);
    if (reserve != NULL)
        return reserve;
    reserve = calloc(1, sizeof *reserve);
    if (reserve != NULL)
        reserve->facts = calloc((size_t)state->ranks + 1, sizeof *reserve->facts);
    if (reserve == NULL || reserve->facts == NULL) {
        snprintf(why, size, "no memory");
        free(reserve);
        return NULL;
    }
    reserve->device = state->device;
    reserve->ranks = state->ranks;
    const CUresult result = make(state, reserve);
    if (result == CUDA_SUCCESS)
        return reserve;
    cshim_cuda_explain(&state->cuda, "memory for the ranks' facts", result, why, size);
    discard(state, reserve);
    return NULL;
}

void cshim_reserve_give(struct cshim_reserve *reserve)
{
    pthread_mutex_lock(&lock);
    reserve->next = spare;
    spare = reserve;
    pthread_mutex_unlock(&lock);
}
