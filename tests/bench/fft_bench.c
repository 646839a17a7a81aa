/* SPDX-License-Identifier: Apache-2.0 */
/* A two-dimensional Fourier transform in float32, with rows distributed over the ranks: FFTW
 * transforms the rows, MPI_Alltoall transposes. An ordinary MPI program.
 *
 *   fft_bench SIDE REPEATS
 *
 * Rank 0 prints the median milliseconds of the transform and of its calls of MPI_Alltoall, and the
 * relative L2 error against a transform in float64. */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fftw3.h>

#include "tests/bench/times.h"

enum { REPEATS_MAX = 101, LINE = 8 };

static int rank, ranks;
static size_t side, rows; /* rows in total, and of each rank */
static float complex *data, *blocks, *received;
static double seconds_moving;

/* Returns an element of the input: waves, with noise of up to 0.5 % of a wave's amplitude. */
static double field(size_t row, size_t column)
{
    const unsigned noise = (unsigned)(row * 7919 + column * 104729) * 2654435761u;
    return sin((double)row * 0.01) * cos((double)column * 0.02) +
           sin((double)(row + column) * 0.3) + 0.01 * ((double)(noise % 20011) / 20011 - 0.5);
}

/* Transposes the matrix. Block `to` of `blocks` has this rank's part of the columns that become
 * rows of rank `to`. */
static void transpose(void)
{
    for (size_t first = 0; first < side; first += LINE) /* one cache line at a time */
        for (size_t row = 0; row < rows; row++)
            for (size_t column = first; column < first + LINE; column++)
                blocks[column * rows + row] = data[row * side + column];
    const double began = MPI_Wtime();
    const int count = (int)(rows * rows);
    MPI_Alltoall(blocks, count, MPI_C_FLOAT_COMPLEX, received, count, MPI_C_FLOAT_COMPLEX,
                 MPI_COMM_WORLD);
    seconds_moving += MPI_Wtime() - began;
    for (size_t from = 0; from < (size_t)ranks; from++)
        for (size_t column = 0; column < rows; column++)
            memcpy(&data[column * side + from * rows], &received[(from * rows + column) * rows],
                   rows * sizeof *data);
}

static double transform(fftwf_plan plan)
{
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < side; column++)
            data[row * side + column] = (float)field((size_t)rank * rows + row, column);
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    fftwf_execute(plan);
    transpose();
    fftwf_execute(plan);
    transpose();
    return MPI_Wtime() - began;
}

/* Gathers the result on rank 0. Returns there its relative L2 error against rank 0's own transform
 * in float64, on the others 0. */
static double find_error(void)
{
    double errors = 0, values = 0;
    const size_t all = side * side;
    float complex *whole = rank == 0 ? malloc(all * sizeof *whole) : NULL;
    MPI_Gather(data, (int)(rows * side * 2), MPI_FLOAT, whole, (int)(rows * side * 2), MPI_FLOAT, 0,
               MPI_COMM_WORLD);
    if (whole == NULL)
        return 0;
    double complex *exact = fftw_malloc(all * sizeof *exact);
    fftw_plan plan =
        fftw_plan_dft_2d((int)side, (int)side, exact, exact, FFTW_FORWARD, FFTW_ESTIMATE);
    for (size_t i = 0; i < all; i++)
        exact[i] = (float)field(i / side, i % side);
    fftw_execute(plan);
    for (size_t i = 0; i < all; i++) {
        const double complex error = whole[i] - exact[i];
        errors += creal(error) * creal(error) + cimag(error) * cimag(error);
        values += creal(exact[i]) * creal(exact[i]) + cimag(exact[i]) * cimag(exact[i]);
    }
    return sqrt(errors / values);
}

int main(int argc, char **argv)
{
    double times[REPEATS_MAX], moving[REPEATS_MAX];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    side = argc == 3 ? (size_t)atol(argv[1]) : 0;
    const int repeats = argc == 3 ? atoi(argv[2]) : 0;
    if (side == 0 || side % ((size_t)ranks * LINE) != 0 || repeats < 1 || repeats > REPEATS_MAX) {
        fprintf(stderr, "usage: fft_bench SIDE REPEATS (SIDE a multiple of 8 times the ranks)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    rows = side / (size_t)ranks;
    data = fftwf_malloc(rows * side * sizeof *data);
    blocks = fftwf_malloc(rows * side * sizeof *blocks);
    received = fftwf_malloc(rows * side * sizeof *received);
    const int length = (int)side;
    fftwf_plan plan = fftwf_plan_many_dft(1, &length, (int)rows, data, NULL, 1, length, data, NULL,
                                          1, length, FFTW_FORWARD, FFTW_MEASURE);
    transform(plan); /* warm-up */
    for (int i = 0; i < repeats; i++) {
        seconds_moving = 0;
        times[i] = transform(plan);
        moving[i] = seconds_moving;
    }
    const double error = find_error();
    if (rank == 0)
        printf("%.1f %.1f %.2e\n", 1e3 * median_of(times, (size_t)repeats),
               1e3 * median_of(moving, (size_t)repeats), error);
    MPI_Finalize();
    return 0;
}
