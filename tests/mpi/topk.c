/* SPDX-License-Identifier: Apache-2.0 */
/* Sums the same elements again and again under a rule with the codec topk. The total of all results
 * must be the total of all inputs, less what may wait in residuals. In one call, one rank has a
 * NaN: it must be in the results of that call on all ranks, and in no other result. All ranks must
 * get the same results of an all-reduce. An ordinary MPI program.
 *
 *   mpi_topk KEEP CALLS */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/job.h"
#include "tests/mpi/same.h"

enum { COUNT = 5003, SPOILT = 4321 };

static float in[COUNT], out[COUNT], own[COUNT], block[COUNT];
static double all[COUNT], blocks[COUNT];

static float value(int from, int i)
{
    return (float)(1 + (i * 37 + from * 11) % 97) / 97 * (i % 2 == 0 ? 1 : -1);
}

static void check_same(void)
{
    const uint64_t digest = cshim_hash_bytes(CSHIM_HASH_EMPTY, out, sizeof out);
    check(same_on_all(digest, MPI_COMM_WORLD), "all ranks have the same");
}

static void check_total(const char *what, const double *total, int first, int length, int calls,
                        double waiting)
{
    for (int i = first; i < first + length; i++) {
        double sum = 0;
        for (int from = 0; from < ranks; from++)
            sum += (double)value(from, i);
        if (i != SPOILT && !(fabs(total[i - first] - calls * sum) <= waiting)) {
            fprintf(stderr, "rank %d: %s: element %d came to %g, not %g, in %d calls\n", rank, what,
                    i, total[i - first], calls * sum, calls);
            failures++;
            return;
        }
    }
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv);
    const int keep = argc > 1 ? atoi(argv[1]) : 4, calls = argc > 2 ? atoi(argv[2]) : 100;
    const int length = COUNT / ranks;
    for (int i = 0; i < COUNT; i++)
        in[i] = own[i] = value(rank, i);
    for (int call = 0; call < calls; call++) {
        in[SPOILT] = call == 3 && rank == ranks - 1 ? NAN : 0;
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        check((call == 3) == (isnan(out[SPOILT]) != 0), "what is not finite is so once");
        check_same();
        MPI_Reduce_scatter_block(own, block, length, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < COUNT; i++)
            all[i] += (double)out[i];
        for (int i = 0; i < length; i++)
            blocks[i] += (double)block[i];
    }
    /* Elements have magnitudes of up to 1 and are sent roughly in turn, so a residual holds each
     * back for about 256 / keep calls. There are at most three residuals: of contributions, of a
     * grid's row sums, and of sums. */
    const double waiting = 3.0 * ranks * 256 / keep;
    check_total("all-reduces", all, 0, COUNT, calls, waiting);
    check_total("reduce_scatters", blocks, rank * length, length, calls, waiting);
    MPI_Finalize();
    return failures > 0;
}
