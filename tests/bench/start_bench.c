/* SPDX-License-Identifier: Apache-2.0 */
/* Times MPI_Init, and counts the sockets that are open after it. An ordinary MPI program: run it
 * with and without the preload. Prints the slowest rank's seconds, and the largest number of
 * sockets of a rank. */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/clock.h"

static double count_sockets(void)
{
    char path[300], target[64];
    double sockets = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        const ssize_t length = readlink(path, target, sizeof target);
        sockets += length > 7 && memcmp(target, "socket:", 7) == 0;
    }
    if (folder != NULL)
        closedir(folder);
    return sockets;
}

int main(int argc, char **argv)
{
    int rank;
    const double began = cshim_seconds();
    MPI_Init(&argc, &argv);
    double own[2] = {cshim_seconds() - began, count_sockets()}, most[2];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Reduce(own, most, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.6f %.0f\n", most[0], most[1]);
    MPI_Finalize();
    return 0;
}
