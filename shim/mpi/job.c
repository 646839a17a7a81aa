/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/job.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "shim/core/clock.h"
#include "shim/core/log.h"

struct cshim_mpi_job cshim_mpi;
struct cshim_job cshim_job;

void cshim_mpi_end_job(const char *why)
{
    cshim_log(CSHIM_LOG_ERROR, "%s", why);
    PMPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static void ignore_error(MPI_Comm *comm, int *error, ...)
{
    (void)comm, (void)error;
}

bool cshim_mpi_is_library(const char *name)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    PMPI_Get_library_version(version, &length);
    return strncmp(version, name, strlen(name)) == 0;
}

int cshim_mpi_return_errors_of(MPI_Comm comm)
{
    MPI_Errhandler handler;
    if (!cshim_mpi_is_library("Intel(R) MPI"))
        return PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int status = PMPI_Comm_create_errhandler(ignore_error, &handler);
    if (status != MPI_SUCCESS)
        return status;
    status = PMPI_Comm_set_errhandler(comm, handler);
    PMPI_Errhandler_free(&handler);
    return status;
}

bool cshim_mpi_return_errors(MPI_Errhandler handlers[2])
{
    const MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    if (!cshim_mpi_is_library("Open MPI"))
        return false;
    for (int i = 0; i < 2; i++) {
        PMPI_Comm_get_errhandler(comms[i], &handlers[i]);
        PMPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
    }
    return true;
}

void cshim_mpi_restore_handlers(MPI_Errhandler handlers[2])
{
    const MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    for (int i = 0; i < 2; i++) {
        PMPI_Comm_set_errhandler(comms[i], handlers[i]);
        PMPI_Errhandler_free(&handlers[i]);
    }
}

bool cshim_mpi_wait(int count, MPI_Request *requests, double seconds)
{
    const double began = cshim_seconds();
    int done = 0;
    while (!done) {
        PMPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        const double waited = cshim_seconds() - began;
        if (!done && waited > seconds)
            return false;
        if (!done)
            cshim_pause(waited);
    }
    return true;
}

int cshim_mpi_any(bool own, bool *any, MPI_Comm comm)
{
    int mine = own, all = 0;
    const int status = cshim_mpi.real->MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, comm);
    *any = all != 0;
    return status;
}

int cshim_mpi_largest_tag(void)
{
    int *largest, found = 0;
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&largest, &found);
    return found ? *largest : 32767;
}

void *cshim_mpi_library(void)
{
    Dl_info info;
    if (!dladdr((const void *)PMPI_Comm_size, &info) || info.dli_fname == NULL)
        return NULL;
    return dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
}

MPI_Datatype cshim_mpi_datatype(enum cshim_dtype dtype)
{
    return dtype == CSHIM_FLOAT64   ? MPI_DOUBLE
           : dtype == CSHIM_FLOAT16 ? cshim_mpi_half()
                                    : MPI_FLOAT;
}
