/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/background.h"

#include <unistd.h>

#define PAUSE_MICROSECONDS 20
#define HANDLES 3 /* handles of a communicator: the program's, inside, across */

static __thread struct cshim_nccl_comm *const *working_for; /* NULL: not a background thread */
static __thread size_t working_count;

void cshim_background_begin(struct cshim_nccl_comm *const *comms, size_t count)
{
    working_for = comms;
    working_count = count;
}

bool cshim_background_is(void)
{
    return working_for != NULL;
}

ncclResult_t cshim_nccl_state(struct cshim_nccl_comm *comm)
{
    pthread_mutex_lock(&comm->asking);
    const ncclComm_t handles[HANDLES] = {comm->comm, comm->inside, comm->across};
    ncclResult_t state = (ncclResult_t)comm->stopped, status = ncclSuccess;
    for (size_t i = 0; i < working_count && state == ncclSuccess; i++)
        state = (ncclResult_t)working_for[i]->stopped;
    for (int i = 0; i < HANDLES && status == ncclSuccess && state == ncclSuccess; i++)
        if (handles[i] != NULL)
            status = cshim_nccl.real->CommGetAsyncError(handles[i], &state);
    pthread_mutex_unlock(&comm->asking);
    return status != ncclSuccess ? status : state;
}

ncclResult_t cshim_background_await(void)
{
    ncclResult_t status = ncclSuccess;
    for (size_t i = 0; i < working_count && status == ncclSuccess; i++)
        while ((status = cshim_nccl_state(working_for[i])) == ncclInProgress)
            usleep(PAUSE_MICROSECONDS);
    return status;
}

ncclResult_t cshim_nccl_end_group(ncclResult_t status)
{
    ncclResult_t ended = cshim_nccl.real->GroupEnd();
    if (ended == ncclInProgress && cshim_background_is())
        ended = cshim_background_await();
    return status == ncclSuccess ? ended : status;
}

void cshim_background_leave(const struct cshim_nccl_comm *comm)
{
    while (comm->working == ncclInProgress)
        usleep(PAUSE_MICROSECONDS);
}
