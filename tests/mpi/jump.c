/* SPDX-License-Identifier: Apache-2.0 */
/* On the last rank, an error handler leaves a failed call by longjmp. An all-reduce follows. Tries
 * both calls at each of DEPTHS stack depths, in all pairs. An ordinary MPI program. */
#include <setjmp.h>
#include <string.h>

#include "tests/mpi/job.h"

#define DEPTHS 8

static jmp_buf before;
static float data[20000];

static void jump(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    longjmp(before, 1);
}

/* Recurses `depth` times, then makes a call that fails, or a sum. */
static int descend(int depth, int fails)
{
    /* `room` is filled at even depths only: at odd depths, it keeps bytes of the frames that
     * longjmp left. */
    volatile char room[500];
    int value = 0;
    room[0] = 0;
    if (depth % 2 == 0)
        memset((void *)room, depth, sizeof room);
    if (depth > 0)
        value = descend(depth - 1, fails);
    else if (fails)
        MPI_Bcast(&value, -1, MPI_INT, 0, MPI_COMM_SELF);
    else
        value = sum_ones(data, 20000, MPI_COMM_WORLD);
    return value + (room[0] == -1);
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    job_begin(&argc, &argv);
    MPI_Comm_create_errhandler(jump, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    for (volatile int i = 0; i < DEPTHS * DEPTHS; i++) {
        if (rank == ranks - 1 && setjmp(before) == 0) {
            descend(i / DEPTHS, 1);
            check(0, "the handler jumps");
        }
        check(descend(i % DEPTHS, 0) == 0, "a sum after a jump");
    }
    MPI_Errhandler_free(&handler);
    return job_end("work done, ");
}
