/* SPDX-License-Identifier: Apache-2.0 */
/* Adds callbacks to the library's progress engine: by opal_progress_register() in Open MPI, by
 * MPIX_Async_start() in MPICH (from 4.3).
 *
 * In MPICH a callback must not make progress, and testing a request makes progress. So with MPICH a
 * request is only inspected (MPIX_Request_is_complete); once it is complete, waiting for it returns
 * its status at once. */
#include "shim/mpi/progress.h"

#include <dlfcn.h>

#ifdef MPICH_NAME
/* Types and values as in the mpi.h of MPICH 4.3. */
enum { ASYNC_NO_PROGRESS = 0, ASYNC_DONE = 1 };
#define STREAM_NULL 0x3c000000
typedef int start_async(int (*poll)(void *thing), void *state, int stream);
typedef int make_progress(int stream);
typedef int is_complete(MPI_Request request);

static start_async *start_thing;
static make_progress *stream_progress;
static is_complete *request_is_complete;
static bool (*until_idle)(void);

bool cshim_progress_find(void)
{
    void *library = cshim_mpi_library();
    if (library == NULL)
        return false;
    start_thing = (start_async *)dlsym(library, "PMPIX_Async_start");
    stream_progress = (make_progress *)dlsym(library, "PMPIX_Stream_progress");
    request_is_complete = (is_complete *)dlsym(library, "PMPIX_Request_is_complete");
    dlclose(library);
    return start_thing != NULL && stream_progress != NULL && request_is_complete != NULL;
}

static int poll(void *thing)
{
    (void)thing;
    return until_idle() ? ASYNC_DONE : ASYNC_NO_PROGRESS;
}

void cshim_progress_add(int (*advance)(void), bool (*advance_until_idle)(void))
{
    (void)advance;
    until_idle = advance_until_idle;
    start_thing(poll, NULL, STREAM_NULL);
}

void cshim_progress_remove(int (*advance)(void))
{
    (void)advance;
}

void cshim_progress_make(void)
{
    stream_progress(STREAM_NULL);
}

bool cshim_progress_is_complete(MPI_Request request)
{
    return request == MPI_REQUEST_NULL || request_is_complete(request);
}

int cshim_progress_test(MPI_Request *request, int *done, MPI_Status *status)
{
    *done = cshim_progress_is_complete(*request);
    return *done ? PMPI_Wait(request, status) : MPI_SUCCESS;
}

int cshim_progress_testsome(int count, MPI_Request requests[], int *ended, int indices[],
                            MPI_Status statuses[])
{
    int done, active = 0, outcome = MPI_SUCCESS;
    *ended = 0;
    for (int i = 0; i < count; i++) {
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        active++;
        const int status = cshim_progress_test(&requests[i], &done, &statuses[*ended]);
        if (!done)
            continue;
        statuses[*ended].MPI_ERROR = status;
        indices[(*ended)++] = i;
        if (status != MPI_SUCCESS)
            outcome = MPI_ERR_IN_STATUS;
    }
    if (active == 0)
        *ended = MPI_UNDEFINED;
    return outcome;
}
#else
typedef int change_progress(int (*advance)(void));
static change_progress *add_function, *remove_function;

bool cshim_progress_find(void)
{
    void *library = cshim_mpi_library();
    if (library == NULL)
        return false;
    add_function = (change_progress *)dlsym(library, "opal_progress_register");
    remove_function = (change_progress *)dlsym(library, "opal_progress_unregister");
    dlclose(library);
    return add_function != NULL && remove_function != NULL;
}

void cshim_progress_add(int (*advance)(void), bool (*advance_until_idle)(void))
{
    (void)advance_until_idle;
    add_function(advance);
}

void cshim_progress_remove(int (*advance)(void))
{
    remove_function(advance);
}

/* Does nothing: in Open MPI testing a request makes progress. */
void cshim_progress_make(void)
{
}

bool cshim_progress_is_complete(MPI_Request request)
{
    int done = 0;
    return PMPI_Request_get_status(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done;
}

int cshim_progress_test(MPI_Request *request, int *done, MPI_Status *status)
{
    return PMPI_Test(request, done, status);
}

int cshim_progress_testsome(int count, MPI_Request requests[], int *ended, int indices[],
                            MPI_Status statuses[])
{
    return PMPI_Testsome(count, requests, ended, indices, statuses);
}
#endif
