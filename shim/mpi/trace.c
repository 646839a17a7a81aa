/* SPDX-License-Identifier: Apache-2.0 */
/* COMPSHIM_TRACE: each rank stores its events. At the end the ranks convert the times to rank 0's
 * clock and write the events: to one file on rank 0, or to a file per rank if the name contains
 * {rank}. */
#include "shim/mpi/trace.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/core/environment.h"
#include "shim/core/log.h"
#include "shim/report/file.h"

#define PINGS 16
#define PIECE 16384 /* maximum number of events in one message */

enum tag { TAG_PING = 5, TAG_PONG, TAG_COUNT, TAG_EVENTS }; /* summary.c has the lower tags */

static struct cshim_trace_clock clock_difference;
static char trace_path[CSHIM_PATH_MAX];

/* Returns the offset of rank 0's clock from this rank's, in seconds. Measures it by the fastest of
 * PINGS round trips, and assumes that rank 0 answered in the middle of that. */
static double measure_offset(void)
{
    double best = 1e9, offset = 0, theirs = 0;
    for (unsigned i = 0; i < PINGS; i++) {
        const double sent = cshim_seconds();
        PMPI_Send(&sent, 1, MPI_DOUBLE, 0, TAG_PING, cshim_mpi.world.comm);
        PMPI_Recv(&theirs, 1, MPI_DOUBLE, 0, TAG_PONG, cshim_mpi.world.comm, MPI_STATUS_IGNORE);
        const double took = cshim_seconds() - sent;
        if (took >= best)
            continue;
        best = took;
        offset = theirs - (sent + took / 2);
    }
    return offset;
}

static void answer_pings(int rank)
{
    double ping;
    for (unsigned i = 0; i < PINGS; i++) {
        PMPI_Recv(&ping, 1, MPI_DOUBLE, rank, TAG_PING, cshim_mpi.world.comm, MPI_STATUS_IGNORE);
        ping = cshim_seconds();
        PMPI_Send(&ping, 1, MPI_DOUBLE, rank, TAG_PONG, cshim_mpi.world.comm);
    }
}

/* Measures each rank's clock offset at the start (`time` 0) or the end (1) of the job. Rank 0
 * answers one rank after the other, so only the first ping of a rank may wait while rank 0 answers
 * another. */
static void compare_clocks(unsigned time)
{
    if (cshim_job.rank != 0)
        clock_difference.offset[time] = measure_offset();
    for (int rank = 1; rank < cshim_job.ranks && cshim_job.rank == 0; rank++)
        answer_pings(rank);
    clock_difference.at[time] = cshim_seconds();
}

/* Sets trace_path, the pattern of the files' names. If a name would be too long, also only that of
 * the largest rank, prints an error and leaves trace_path empty. */
static void set_path(const char *wanted)
{
    char path[CSHIM_PATH_MAX];
    if (cshim_report_name(wanted, cshim_mpi.file_additions, trace_path) &&
        cshim_report_path(trace_path, cshim_job.ranks - 1, path))
        return;
    cshim_log(CSHIM_LOG_ERROR, "the trace's file name is too long: %s", wanted);
    trace_path[0] = '\0';
}

void cshim_trace_setup(void)
{
    const char *wanted = cshim_environment_trace();
    int enough = 0, everywhere = 0;
    if (cshim_job.rank == 0 && wanted != NULL)
        set_path(wanted);
    cshim_mpi.real->MPI_Bcast(trace_path, sizeof trace_path, MPI_CHAR, 0, cshim_mpi.world.comm);
    if (trace_path[0] == '\0')
        return;
    cshim_job.trace = calloc(1, sizeof *cshim_job.trace);
    enough = cshim_job.trace != NULL;
    cshim_mpi.real->MPI_Allreduce(&enough, &everywhere, 1, MPI_INT, MPI_MIN, cshim_mpi.world.comm);
    if (everywhere) {
        compare_clocks(0);
        return;
    }
    if (cshim_job.rank == 0)
        cshim_log(CSHIM_LOG_WARN, "a rank has no memory for a trace: there will be none");
    free(cshim_job.trace);
    cshim_job.trace = NULL;
}

/* Message that precedes those with a rank's events. */
struct part {
    uint64_t kept;
    uint64_t dropped;
    char host[256];
};

static struct part describe_part(void)
{
    struct part part = {.kept = cshim_trace_kept(cshim_job.trace)};
    part.dropped = cshim_job.trace->count - part.kept;
    gethostname(part.host, sizeof part.host - 1);
    return part;
}

/* Converts the events' times to rank 0's clock, in seconds since the job began there. */
static void align_events(double started)
{
    for (size_t i = 0; i < cshim_trace_kept(cshim_job.trace); i++) {
        struct cshim_trace_event *event = &cshim_job.trace->events[i];
        const double end = cshim_trace_align(&clock_difference, event->begin + event->seconds);
        event->begin = cshim_trace_align(&clock_difference, event->begin) - started;
        event->seconds = end - started - event->begin;
    }
}

static void write_own(struct cshim_trace_file *file)
{
    const struct part part = describe_part();
    file->dropped += part.dropped;
    cshim_trace_rank(file, cshim_job.rank, part.host);
    cshim_trace_events(file, cshim_job.rank, cshim_job.trace->events, part.kept);
}

static void send_own(void)
{
    const struct part part = describe_part();
    PMPI_Send(&part, sizeof part, MPI_BYTE, 0, TAG_COUNT, cshim_mpi.world.comm);
    for (uint64_t first = 0; first < part.kept; first += PIECE) {
        const uint64_t count = part.kept - first < PIECE ? part.kept - first : PIECE;
        PMPI_Send(&cshim_job.trace->events[first], (int)(count * sizeof(struct cshim_trace_event)),
                  MPI_BYTE, 0, TAG_EVENTS, cshim_mpi.world.comm);
    }
}

/* Receives another rank's events and writes them, if the file could be opened. Overwrites this
 * rank's events, which are no longer needed. Leaves out the events of a rank that has ended, if the
 * library goes on without it. */
static void receive_part(struct cshim_trace_file *file, int rank)
{
    struct part part;
    if (PMPI_Recv(&part, sizeof part, MPI_BYTE, rank, TAG_COUNT, cshim_mpi.world.comm,
                  MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    if (file->stream != NULL)
        cshim_trace_rank(file, rank, part.host);
    file->dropped += part.dropped;
    for (uint64_t first = 0; first < part.kept; first += PIECE) {
        const uint64_t count = part.kept - first < PIECE ? part.kept - first : PIECE;
        if (PMPI_Recv(cshim_job.trace->events, (int)(count * sizeof(struct cshim_trace_event)),
                      MPI_BYTE, rank, TAG_EVENTS, cshim_mpi.world.comm,
                      MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        if (file->stream != NULL)
            cshim_trace_events(file, rank, cshim_job.trace->events, count);
    }
}

static void write_files(const char *path, bool is_own)
{
    struct cshim_trace_file file = {.policy = cshim_job.policy};
    if (cshim_trace_open(&file, path))
        write_own(&file);
    for (int rank = 1; rank < cshim_job.ranks && !is_own; rank++)
        receive_part(&file, rank);
    cshim_trace_close(&file, path);
}

void cshim_trace_finish(void)
{
    char path[CSHIM_PATH_MAX];
    double started = cshim_job.started;
    if (cshim_job.trace == NULL)
        return;
    const bool is_own = strstr(trace_path, "{rank}") != NULL;
    compare_clocks(1);
    cshim_mpi.real->MPI_Bcast(&started, 1, MPI_DOUBLE, 0, cshim_mpi.world.comm);
    align_events(started);
    if (!is_own && cshim_job.rank != 0)
        send_own();
    else if (cshim_report_path(trace_path, cshim_job.rank, path))
        write_files(path, is_own);
    free(cshim_job.trace);
    cshim_job.trace = NULL;
}
