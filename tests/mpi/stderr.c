/* SPDX-License-Identifier: Apache-2.0 */
/* Closes or redirects standard error, or leaves it open. An ordinary MPI program.
 *
 *   mpi_stderr                leaves it open
 *   mpi_stderr reused DATA    closes it after MPI_Init, so that file DATA.PID gets descriptor 2
 *   mpi_stderr taken FILE     leaves it open; rank 0 writes FILE
 *   mpi_stderr helper FILE    leaves it open; a child closes its copy and runs until FILE exists,
 *                             then creates FILE.ended
 *   mpi_stderr cleared        leaves it open; empties the environment
 *   mpi_stderr full           redirects it to /dev/full
 *   mpi_stderr broken         redirects it to a pipe without a reader */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/mpi/job.h"

static void open_data(const char *path)
{
    char own[4096];
    snprintf(own, sizeof own, "%s.%d", path, (int)getpid());
    close(STDERR_FILENO);
    const int descriptor = open(own, O_RDWR | O_CREAT | O_TRUNC, 0644);
    check(descriptor == STDERR_FILENO && write(descriptor, "data\n", 5) == 5, "the data is there");
}

static void replace(int descriptor)
{
    check(dup2(descriptor, STDERR_FILENO) == STDERR_FILENO, "standard error is replaced");
    close(descriptor);
}

static void start_helper(const char *path)
{
    char ended[4096];
    if (fork() != 0)
        return;
    for (int descriptor = 0; descriptor <= STDERR_FILENO; descriptor++)
        close(descriptor);
    for (int i = 0; i < 6000 && access(path, F_OK) != 0; i++)
        usleep(100000);
    snprintf(ended, sizeof ended, "%s.ended", path);
    close(open(ended, O_WRONLY | O_CREAT, 0644));
    _exit(0);
}

int main(int argc, char **argv)
{
    static float values[20000];
    const char *what = argc > 1 ? argv[1] : "";
    int ends[2];
    if (strcmp(what, "full") == 0)
        replace(open("/dev/full", O_WRONLY));
    if (strcmp(what, "broken") == 0 && pipe(ends) == 0) {
        replace(ends[1]);
        close(ends[0]);
    }
    job_begin(&argc, &argv);
    if (strcmp(what, "reused") == 0)
        open_data(argv[2]);
    if (strcmp(what, "taken") == 0 && rank == 0) {
        FILE *file = fopen(argv[2], "w");
        check(file != NULL && fputs("data\n", file) >= 0 && fclose(file) == 0, "the file");
    }
    if (strcmp(what, "cleared") == 0)
        clearenv();
    if (strcmp(what, "helper") == 0)
        start_helper(argv[2]);
    check(sum_ones(values, 20000, MPI_COMM_WORLD) == 0, "the sum");
    return job_end("work done, ");
}
