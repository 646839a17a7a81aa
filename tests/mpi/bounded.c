/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the codec bounded on several types of fields, in float32 and float64, by every collective
 * that it supports. No element may be off by more than BOUND for each rank whose elements are
 * added, plus the rounding of the sum's type. All ranks must get the same results of an all-reduce
 * and of a broadcast. An ordinary MPI program.
 *
 *   mpi_bounded COUNT BOUND */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/job.h"
#include "tests/mpi/same.h"

enum { SMOOTH, ROUGH, BETWEEN, SPIKES, KINDS };

static int count;
static double bound;
static double step; /* quantization step of the collective under test */
static bool is_wide;
static char *in, *out;

/* Sets `step` to the quantization step of a collective that adds the elements of all ranks, without
 * a grid, or, if `adds` is false, moves elements (docs/wire-format.md, "bounded"). */
static void set_step(bool adds)
{
    const double most = adds ? 2 * bound * ranks / (ranks + 1) : 2 * bound;
    float widest = (float)most;
    if ((double)widest > most)
        widest = nextafterf(widest, 0);
    float shorter = widest * (1 - 0x1p-8f);
    uint32_t bits;
    memcpy(&bits, &shorter, sizeof bits);
    bits &= 0xffff0000u;
    memcpy(&shorter, &bits, sizeof bits);
    step = fmax((double)shorter, exp2(floor(log2((double)widest))));
}

/* Returns element i of rank `from`'s block for rank `to`. BETWEEN lies halfway between multiples of
 * the step, the worst case. */
static double value(int kind, int from, int to, int i)
{
    const uint32_t mixed = ((uint32_t)i * 2654435761u) ^ (uint32_t)(from * 7919 + to * 104729);
    const double noise = (double)(mixed % 20011) / 20011 - 0.5;
    const double smooth = sin(i * 0.003 + from) * (1 + to);
    switch (kind) {
    case SMOOTH:
        return smooth;
    case ROUGH:
        return 10 * noise;
    case BETWEEN:
        return ((double)(mixed % 4001) - 1999.5) * step;
    default:
        return mixed % 997 == 0 ? 1e7 * noise : smooth;
    }
}

static size_t element_bytes(void)
{
    return is_wide ? sizeof(double) : sizeof(float);
}

static void put_element(char *buffer, size_t i, double element)
{
    const float narrow = (float)element;
    if (is_wide)
        memcpy(buffer + i * sizeof element, &element, sizeof element);
    else
        memcpy(buffer + i * sizeof narrow, &narrow, sizeof narrow);
}

static double get(const char *buffer, size_t i)
{
    double wide = 0;
    float narrow;
    if (is_wide) {
        memcpy(&wide, buffer + i * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, buffer + i * sizeof narrow, sizeof narrow);
    return (double)narrow;
}

static void fill_field(int kind, bool adds)
{
    set_step(adds);
    memset(out, 0xff, (size_t)count * (size_t)ranks * element_bytes());
    for (int to = 0; to < ranks; to++)
        for (int i = 0; i < count; i++)
            put_element(in, (size_t)to * (size_t)count + (size_t)i, value(kind, rank, to, i));
}

/* Checks block `to` of the sum over ranks first to last. */
static void check_block(const char *what, int kind, const char *got, int first, int last, int to)
{
    const double rounding = is_wide ? 0x1p-53 : 0x1p-24;
    const int givers = last - first + 1;
    double worst = 0;
    for (int i = 0; i < count; i++) {
        double sum = 0, magnitudes = 0;
        for (int from = first; from <= last; from++) {
            const double given = value(kind, from, to, i);
            const double element = is_wide ? given : (double)(float)given;
            sum += element;
            magnitudes += fabs(element);
        }
        const double lost =
            fabs(get(got, (size_t)i) - sum) - magnitudes * rounding * 2 * (givers > 1 ? givers : 0);
        worst = fmax(worst, lost / (bound * givers));
    }
    /* A step of 8 significant bits is up to 1.2 % shorter than the bound allows. */
    const double least = kind == BETWEEN && givers == 1 ? 0.98 : 0;
    if (worst >= least && worst <= 1 + 1e-6)
        return;
    fprintf(stderr, "rank %d: %s, kind %d, float%d: %g times the bound\n", rank, what, kind,
            is_wide ? 64 : 32, worst);
    failures++;
}

static void check_same(const char *what)
{
    const uint64_t own = cshim_hash_bytes(CSHIM_HASH_EMPTY, out, (size_t)count * element_bytes());
    check(same_on_all(own, MPI_COMM_WORLD), what);
}

static void check_field(int kind)
{
    const MPI_Datatype type = is_wide ? MPI_DOUBLE : MPI_FLOAT;
    const MPI_Comm world = MPI_COMM_WORLD;
    const size_t block = (size_t)count * element_bytes();
    const int last = ranks - 1;
    fill_field(kind, true);
    MPI_Allreduce(in, out, count, type, MPI_SUM, world);
    check_block("allreduce", kind, out, 0, last, 0);
    check_same("an all-reduce has the same sums on all ranks");
    fill_field(kind, true);
    MPI_Reduce(in, out, count, type, MPI_SUM, last, world);
    if (rank == last)
        check_block("reduce", kind, out, 0, last, 0);
    fill_field(kind, true);
    MPI_Reduce_scatter_block(in, out, count, type, MPI_SUM, world);
    check_block("reduce_scatter", kind, out, 0, last, rank);
    fill_field(kind, false);
    MPI_Allgather(in, count, type, out, count, type, world);
    for (int from = 0; from < ranks; from++)
        check_block("allgather", kind, out + (size_t)from * block, from, from, 0);
    fill_field(kind, false);
    MPI_Alltoall(in, count, type, out, count, type, world);
    for (int from = 0; from < ranks; from++)
        check_block("alltoall", kind, out + (size_t)from * block, from, from, rank);
    fill_field(kind, false);
    memcpy(out, in, block);
    MPI_Bcast(out, count, type, last, world);
    check_block("broadcast", kind, out, last, last, 0);
    check_same("a broadcast has the same elements on all ranks");
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv);
    count = argc == 3 ? atoi(argv[1]) : 0;
    bound = argc == 3 ? atof(argv[2]) : 0;
    check(count > 0 && bound > 0, "arguments: COUNT BOUND");
    const size_t most = (size_t)count * (size_t)ranks * sizeof(double);
    if (most == 0)
        return job_end("");
    in = malloc(most);
    out = malloc(most);
    for (int wide = 0; wide < 2 && failures == 0; wide++)
        for (int kind = 0; kind < KINDS; kind++) {
            is_wide = wide == 1;
            check_field(kind);
        }
    free(in);
    free(out);
    return job_end("");
}
