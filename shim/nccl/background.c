/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "shim/nccl/communicator.h"

#define PAUSE_MICROSECONDS 20
#define HANDLES 3 /* that belong to a communicator */

static __thread struct cshim_nccl_comm *const *working_for; /* NULL: a thread of the program's */
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

ncclResult_t cshim_nccl_state(struct cshim_nccl_comm *comm, ncclComm_t handle)
{
    ncclResult_t state = ncclSuccess, status = ncclSystemError;
    pthread_mutex_lock(&comm->asking);
    if (!comm->aborted)
        status = cshim_nccl.real->CommGetAsyncError(handle, &state);
    pthread_mutex_unlock(&comm->asking);
    return status != ncclSuccess ? status : state;
}

ncclResult_t cshim_background_await(void)
{
    ncclResult_t status = ncclSuccess;
    for (size_t i = 0; i < working_count; i++) {
        struct cshim_nccl_comm *comm = working_for[i];
        const ncclComm_t handles[HANDLES] = {comm->comm, comm->inside, comm->across};
        for (size_t j = 0; j < HANDLES && status == ncclSuccess; j++)
            while (handles[j] != NULL &&
                   (status = cshim_nccl_state(comm, handles[j])) == ncclInProgress)
                usleep(PAUSE_MICROSECONDS);
    }
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
