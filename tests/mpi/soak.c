/* SPDX-License-Identifier: Apache-2.0 */
/* Makes very many calls of changing size on changing communicators, and checks each. At the end
 * each rank prints how much its memory grew after the first tenth. An ordinary MPI program.
 *
 *   mpi_soak CALLS KIB      fails if a rank grows by more than KIB */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

#include "tests/mpi/job.h"
#include "tests/mpi/memory_use.h"

#define COMMUNICATORS 5
#define LARGEST 300000 /* elements */

static MPI_Comm comms[COMMUNICATORS];
static float data[LARGEST];

/* Random state, equal on all ranks. */
static unsigned short stream[3] = {1, 2, 3};

static void make_communicator(int index)
{
    if (index % 2 == 0)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[index]);
    else
        MPI_Comm_split(MPI_COMM_WORLD, index % 3 == 0 ? rank % 2 : 0, -rank, &comms[index]);
}

/* Draws a count: mostly small, sometimes several segments. */
static int draw_count(void)
{
    return (int)exp(log(LARGEST) * pow(erand48(stream), 2.5));
}

/* Returns -1, 0 or 1, different between neighbouring ranks. The sums are small integers, and the
 * errors of the codecs in soak.sh are below one half, so rounding a result gives the exact sum. */
static int pattern(int member, int i, long call)
{
    return (int)((member + i + call) % 3) - 1;
}

static void run_call(long call)
{
    const int count = draw_count();
    MPI_Comm comm = comms[nrand48(stream) % COMMUNICATORS];
    int member, members, wrong = 0;
    MPI_Comm_rank(comm, &member);
    MPI_Comm_size(comm, &members);
    for (int i = 0; i < count; i++)
        data[i] = (float)pattern(member, i, call);
    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, comm);
    for (int i = 0; i < count; i++) {
        int want = 0;
        for (int other = 0; other < members; other++)
            want += pattern(other, i, call);
        wrong += !(fabsf(data[i] - (float)want) < 0.5f);
    }
    if (wrong > 0 && failures++ < 10)
        fprintf(stderr, "rank %d, call %ld: %d of %d are wrong\n", rank, call, wrong, count);
}

/* Makes the calls from `from` to `to` - 1. Replaces a communicator every 100 calls. */
static void run_calls(long from, long to)
{
    for (long call = from; call < to; call++) {
        if (call % 100 == 0) {
            const int index = (int)(nrand48(stream) % COMMUNICATORS);
            MPI_Comm_free(&comms[index]);
            make_communicator(index);
        }
        run_call(call);
    }
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv);
    const long calls = argc == 3 ? atol(argv[1]) : 0;
    if (calls < 10) {
        fprintf(stderr, "usage: mpi_soak CALLS KIB\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 0; i < COMMUNICATORS; i++)
        make_communicator(i);
    run_calls(0, calls / 10);
    const struct memory before = memory_now();
    run_calls(calls / 10, calls);
    const struct memory after = memory_now();
    const long mapped = after.mapped - before.mapped, resident = after.resident - before.resident;
    printf("rank %d: %ld calls, %d failures, grew by %ld KiB, in memory %ld KiB of %ld\n", rank,
           calls, failures, mapped, resident, after.resident);
    for (int i = 0; i < COMMUNICATORS; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    return failures > 0 || mapped > atol(argv[2]) || resident > atol(argv[2]) || after.mapped == 0;
}
