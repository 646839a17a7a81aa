/* SPDX-License-Identifier: Apache-2.0 */
/* Times float32 sums by MPI_Allreduce, or by another collective. An ordinary MPI program: run it
 * with and without the preload.
 *
 *   allreduce_bench [--sizes 64KiB,1MiB,...] [--seconds S] [--in-place] [--input FILE]
 *                   [--settle CALLS] [--collective allreduce|reduce|reduce_scatter]
 *                   [--mean] [--alternate] [--beside N]
 *
 * The first CALLS calls (default 1) of a size in the list are not timed: in them, a job with the
 * shim learns. A reduce has root 0, a reduce_scatter is MPI_Reduce_scatter_block; neither is in
 * place. FILE has the float32 input, repeated, from another offset on each rank, for codecs whose
 * message length depends on the data. Without FILE the input is uniformly distributed. Prints one
 * line per size: bytes, calls, median and minimum seconds of a call (of its slowest rank), and the
 * processor seconds of all ranks per GiB. Each size is repeated for S seconds, 5 to 10000 times.
 *
 * --mean prints the mean of rank 0's own durations, as in reports, instead of the median.
 * --alternate makes a native all-reduce, which libcompshim.so does not see, after each call, and
 * adds its median seconds to the line, so that chance differences between jobs do not affect the
 * comparison.
 * --beside adds N (at most 15) more sums per size, each 4 bytes longer than the previous one, so
 * that a policy can have a rule for each. All sums are measured in random order, in rows of 4
 * calls, the first of which is not timed. The lines then have no processor seconds.
 *
 * Processor seconds are those of the process, its threads and the kernel during the calls. A
 * waiting rank polls for messages: on a core of its own, waiting counts like work. If ranks share a
 * core, it counts only while no other rank runs. */
#include <assert.h>
#include <dlfcn.h>
#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/bench/times.h"

#define CALLS_MAX 10000
#define CALLS_MIN 5
#define SETTLE_SECONDS 2.0 /* --beside: ends settling early, but not before a fifth of CALLS */

static double budget = 1.0;
static const char *input_path;
static int in_place, alternate, settle = 1, beside, mean;
static const char *collective = "allreduce";

static size_t parse_size(const char *text, char **end)
{
    size_t value = strtoull(text, end, 10);
    static const struct {
        const char *unit;
        size_t bytes;
    } units[] = {{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strncmp(*end, units[i].unit, 3) == 0) {
            *end += 3;
            return value * units[i].bytes;
        }
    }
    return value;
}

static double processor_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

struct buffers {
    float *input, *output;
};

static void sum(struct buffers buffers, int count)
{
    const float *input = buffers.input;
    float *output = buffers.output;
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (strcmp(collective, "reduce") == 0)
        MPI_Reduce(input, output, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    else if (strcmp(collective, "reduce_scatter") == 0)
        MPI_Reduce_scatter_block(input, output, count / ranks, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Allreduce(in_place ? MPI_IN_PLACE : (const void *)input, output, count, MPI_FLOAT,
                      MPI_SUM, MPI_COMM_WORLD);
}

static int (*native_allreduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);

static void find_native(void)
{
    static const char *const names[] = {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && native_allreduce == NULL; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
        if (library != NULL)
            *(void **)&native_allreduce = dlsym(library, "MPI_Allreduce");
    }
    if (native_allreduce == NULL) {
        fprintf(stderr, "allreduce_bench: --alternate: neither Open MPI 4 or 5 nor MPICH\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void sum_natively(struct buffers buffers, int count)
{
    native_allreduce(in_place ? MPI_IN_PLACE : (const void *)buffers.input, buffers.output, count,
                     MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static double own_seconds; /* of this rank's calls */

/* Makes a call. Returns the slowest rank's seconds. Adds this rank's seconds to own_seconds, and
 * its processor seconds to *processor. */
static double time_call(void (*call)(struct buffers, int), struct buffers buffers, int count,
                        double *processor)
{
    double slowest = 0;
    if (in_place)
        memcpy(buffers.output, buffers.input, (size_t)count * sizeof(float));
    MPI_Barrier(MPI_COMM_WORLD);
    const double processor_began = processor_seconds(), began = MPI_Wtime();
    call(buffers, count);
    const double own = MPI_Wtime() - began;
    own_seconds += own;
    *processor += processor_seconds() - processor_began;
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static void no_input(const char *why)
{
    fprintf(stderr, "allreduce_bench: %s: %s\n", input_path, why);
    MPI_Abort(MPI_COMM_WORLD, 2);
    abort();
}

/* Fills the buffer with the file's floats, repeated, from another offset on each rank. */
static void read_input(float *values, size_t count, int rank)
{
    FILE *file = fopen(input_path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        no_input("cannot be read");
    const long length = ftell(file) / (long)sizeof *values;
    if (length <= 0)
        no_input("has no float32");
    fseek(file, (long)rank * 7919 % length * (long)sizeof *values, SEEK_SET);
    for (size_t done = 0; done < count;) {
        done += fread(values + done, sizeof *values, count - done, file);
        rewind(file);
    }
    fclose(file);
}

static float *allocate(size_t bytes)
{
    float *values = malloc(bytes);
    if (values == NULL) {
        fprintf(stderr, "allreduce_bench: no memory for a buffer of %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
        abort();
    }
    return values;
}

static struct buffers make_buffers(size_t bytes, int rank)
{
    const struct buffers made = {allocate(bytes), allocate(bytes)};
    const size_t count = bytes / sizeof(float);
    unsigned state = 12345u + (unsigned)rank;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        made.input[i] = (float)(int)state * 0x1p-31f;
    }
    if (input_path != NULL)
        read_input(made.input, count, rank);
    memcpy(made.output, made.input, bytes);
    return made;
}

static void free_buffers(struct buffers buffers)
{
    free(buffers.input);
    free(buffers.output);
}

/* Measures a size. Native calls have their own buffers, because a buffer that another rank has read
 * is slower to write. */
static void measure(size_t bytes, int rank)
{
    static double seconds[CALLS_MAX], native[CALLS_MAX];
    const int count = (int)(bytes / sizeof(float));
    const struct buffers own = make_buffers(bytes, rank);
    const struct buffers others = alternate ? make_buffers(bytes, rank) : own;
    double processor = 0, all = 0, unused = 0;
    for (int i = 0; i < settle; i++)
        time_call(sum, own, count, &unused);
    if (alternate)
        time_call(sum_natively, others, count, &unused);
    int calls = 0, more = 1;
    own_seconds = 0;
    for (double spent = 0; more && calls < CALLS_MAX; calls++) {
        seconds[calls] = time_call(sum, own, count, &processor);
        if (alternate)
            native[calls] = time_call(sum_natively, others, count, &unused);
        spent += seconds[calls];
        more = calls + 1 < CALLS_MIN || spent < budget;
    }
    MPI_Reduce(&processor, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        const double median = median_of(seconds, (size_t)calls); /* sorts them */
        printf("%zu %d %.9f %.9f %.4f", bytes, calls, mean ? own_seconds / calls : median,
               seconds[0], all / calls / (double)bytes * 0x1p30);
        if (alternate)
            printf(" %.9f", median_of(native, (size_t)calls));
        puts("");
        fflush(stdout);
    }
    free_buffers(own);
    if (alternate)
        free_buffers(others);
}

/* Shuffles the order of the sizes, in the same way on all ranks. */
static void shuffle(int *turns, int count)
{
    static unsigned state = 1;
    for (int i = count - 1; i > 0; i--) {
        state = state * 1664525u + 1013904223u;
        const int other = (int)((state >> 16) % (unsigned)(i + 1)), own = turns[i];
        turns[i] = turns[other];
        turns[other] = own;
    }
}

/* Measures a size and those added by --beside, alternately. All use the same memory: of large
 * buffers in one process, some are up to a tenth faster than others. */
static void measure_turns(size_t bytes, int rank)
{
    enum { SIZES_MAX = 16, ROW = 4 };
    static double seconds[SIZES_MAX][CALLS_MAX];
    const int count = (int)(bytes / sizeof(float)), sizes = beside + 1;
    double unused = 0, spent = 0;
    int turns[SIZES_MAX], calls = 0;
    assert(sizes >= 1 && sizes <= SIZES_MAX);
    const struct buffers buffers = make_buffers(bytes + SIZES_MAX * sizeof(float), rank);
    for (int i = 0; i < sizes; i++)
        turns[i] = i;
    for (int i = 0; i < settle && (i < settle / 5 || spent < SETTLE_SECONDS); i++)
        spent += time_call(sum, buffers, count, &unused);
    spent = 0;
    do {
        shuffle(turns, sizes);
        for (int turn = 0; turn < sizes; turn++) {
            const int i = turns[turn];
            time_call(sum, buffers, count + i, &unused);
            for (int k = 1; k < ROW; k++)
                spent += seconds[i][calls + k - 1] = time_call(sum, buffers, count + i, &unused);
        }
        calls += ROW - 1;
    } while (calls + ROW <= CALLS_MAX && (calls < CALLS_MIN || spent < budget * sizes));
    for (int i = 0; i < sizes; i++) {
        const double median = median_of(seconds[i], (size_t)calls);
        if (rank == 0)
            printf("%zu %d %.9f %.9f\n", bytes + (size_t)i * sizeof(float), calls, median,
                   seconds[i][0]);
    }
    free_buffers(buffers);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"sizes", required_argument, NULL, 's'},      {"seconds", required_argument, NULL, 't'},
        {"in-place", no_argument, NULL, 'i'},         {"input", required_argument, NULL, 'f'},
        {"collective", required_argument, NULL, 'c'}, {"mean", no_argument, NULL, 'm'},
        {"alternate", no_argument, NULL, 'a'},        {"settle", required_argument, NULL, 'n'},
        {"beside", required_argument, NULL, 'b'},     {NULL, 0, NULL, 0}};
    char default_sizes[] = "64KiB,1MiB,16MiB", *sizes = default_sizes;
    int rank, option;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (option == 's')
            sizes = optarg;
        else if (option == 'n')
            settle = atoi(optarg);
        else if (option == 't')
            budget = atof(optarg);
        else if (option == 'i')
            in_place = 1;
        else if (option == 'b' && atoi(optarg) < 16)
            beside = atoi(optarg);
        else if (option == 'm')
            mean = 1;
        else if (option == 'a')
            alternate = 1;
        else if (option == 'f')
            input_path = optarg;
        else if (option == 'c')
            collective = optarg;
        else
            MPI_Abort(MPI_COMM_WORLD, 2);
    if (alternate && (beside > 0 || strcmp(collective, "allreduce") != 0)) {
        fprintf(stderr, "allreduce_bench: --alternate goes with allreduce, without --beside\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (alternate)
        find_native();
    for (char *next = sizes; *next != '\0'; next += *next == ',') {
        (beside > 0 ? measure_turns : measure)(parse_size(next, &next), rank);
        if (*next != ',' && *next != '\0') {
            fprintf(stderr, "allreduce_bench: size '%s' not understood\n", next);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    MPI_Finalize();
    return 0;
}
