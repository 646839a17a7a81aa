/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by several tests: a table of cases (a process runs one), checks, and buffers of small
 * integers, whose sums are exact natively and with codec raw. */
#ifndef CASES_H
#define CASES_H

#include <stdarg.h>
#include <stdint.h>

#include "tests/nccl/gpu.h"

static int failures;

#define WANT(condition, ...)                                                                       \
    do {                                                                                           \
        if (!(condition) && failures++ < 10)                                                       \
            complain(__LINE__, __VA_ARGS__);                                                       \
    } while (0)

__attribute__((format(printf, 2, 3))) static void complain(int line, const char *format, ...)
{
    va_list arguments;
    char text[256];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "rank %s, line %d: %s\n", getenv("RANK") ? getenv("RANK") : "?", line, text);
}

/* Counts a failure unless a call of the driver returns `wanted`. */
#define EXPECT(call, wanted) expect((call), wanted, #call, __LINE__)

static inline void expect(CUresult got, CUresult wanted, const char *call, int line)
{
    if (got != wanted && ++failures > 0)
        fprintf(stderr, "line %d: %s: %d, not %d\n", line, call, (int)got, (int)wanted);
}

/* Returns element i of a rank's data in call `seed`. */
static inline float part(int rank, unsigned seed, size_t i)
{
    return (float)((i * 7 + i / 251 + (size_t)seed * 13 + (size_t)rank * 5) % 31) - 15;
}

static inline float part_sum(int ranks, unsigned seed, size_t i)
{
    float sum = 0;
    for (int rank = 0; rank < ranks; rank++)
        sum += part(rank, seed, i);
    return sum;
}

static inline float *host_part(int rank, unsigned seed, size_t count)
{
    float *data = malloc((count + 1) * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = part(rank, seed, i);
    return data;
}

/* Returns a buffer on the current device with a rank's data of call `seed`. */
static inline float *device_part(int rank, unsigned seed, size_t count)
{
    float *data = host_part(rank, seed, count);
    float *device = gpu_allocate(count * sizeof *data);
    gpu_write(device, data, count * sizeof *data);
    free(data);
    return device;
}

/* Counts a failure unless the device has elements [first, first + count) of the sum. The caller has
 * waited for the stream. */
static inline void want_sum_from(const float *device, int ranks, unsigned seed, size_t first,
                                 size_t count, const char *what)
{
    float *data = malloc((count + 1) * sizeof *data);
    gpu_read(data, device, count * sizeof *data);
    for (size_t i = 0; i < count; i++) {
        const float want = part_sum(ranks, seed, first + i);
        if (data[i] != want) {
            WANT(0, "%s: element %zu of %zu: %g, not %g", what, i, count, (double)data[i],
                 (double)want);
            break;
        }
    }
    free(data);
}

static inline void want_sum(const float *device, int ranks, unsigned seed, size_t count,
                            const char *what)
{
    want_sum_from(device, ranks, seed, 0, count, what);
}

static inline void synchronize(const struct gpu_world *world)
{
    CUDA(cuStreamSynchronize(world->stream));
}

/* Reduces on a communicator of n ranks, which contribute the data of ranks 0 to n - 1 in the
 * communicator's order, and checks the result. */
static inline void reduce_on(const struct gpu_world *world, ncclComm_t comm, unsigned seed,
                             size_t count, const char *what)
{
    int rank, ranks;
    NCCL(ncclCommUserRank(comm, &rank));
    NCCL(ncclCommCount(comm, &ranks));
    float *data = device_part(rank, seed, count);
    NCCL(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, world->stream));
    synchronize(world);
    want_sum(data, ranks, seed, count, what);
    gpu_free(data);
}

#define CASE(name)                                                                                 \
    {                                                                                              \
#name, case_##name                                                                         \
    }
struct gpu_case {
    const char *name;
    void (*run)(void);
};

/* Returns the case that the command line names; if there is none, ends the program with status 2.
 */
static inline const struct gpu_case *find_case(const struct gpu_case *cases, size_t count, int argc,
                                               char **argv)
{
    for (size_t i = 0; argc == 2 && i < count; i++)
        if (strcmp(cases[i].name, argv[1]) == 0)
            return &cases[i];
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    exit(2);
}

static inline int run_case(const struct gpu_case *cases, size_t count, int argc, char **argv)
{
    find_case(cases, count, argc, argv)->run();
    return failures != 0;
}

#endif
