/* SPDX-License-Identifier: Apache-2.0 */
/* Calls MPI_Allreduce in many shapes and compares each result with a sum in float64, element by
 * element, within the bound that docs/wire-format.md publishes for the codec named; and with the
 * other ranks' results, bit by bit. Prints one digest of all results, for comparing runs.
 *
 *   mpi_allreduce CODEC STEPS [float32|float64]
 *
 * CODEC is what the policy in force uses ("none": the library's own sum), STEPS the quantizations
 * on a value's way (1 or 2; 0: one per hop, for `allreduce`). With "raw" the sum must be exactly
 * that of rank order. An ordinary MPI program: it knows the codecs' bounds, and nothing of the
 * preload.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"

enum data { NORMAL, HEAVY, INTEGERS, ZEROS, TINY, HUGE_VALUES, CANCEL, NONFINITE, DATA_COUNT };
static const char *const data_names[] = {"normal", "heavy", "integers", "zeros",
                                         "tiny",   "huge",  "cancel",   "nonfinite"};

static const struct cshim_codec_info *codec;
static int steps;
static int is_double;
static int failures;
static uint64_t digest = 0xcbf29ce484222325u;

static void digest_bytes(const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++)
        digest = (digest ^ byte[i]) * 0x100000001b3u;
}

/* splitmix64, by Steele, Lea and Flood: any element of any rank's data on any rank. */
static uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static double uniform(uint64_t key)
{
    return ((double)(mix(key) >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t key)
{
    return sqrt(-2 * log(uniform(2 * key))) * cos(6.283185307179586 * uniform(2 * key + 1));
}

static double nonfinite(uint64_t kind)
{
    return kind == 0 ? INFINITY : kind == 1 ? -INFINITY : NAN;
}

/* Element i of `rank`'s data, a float32 value unless the run is for float64. */
static double element(enum data data, int rank, int ranks, size_t i)
{
    const uint64_t key = ((uint64_t)data << 56) ^ ((uint64_t)rank << 40) ^ i;
    double value = 0;
    switch (data) {
    case NORMAL:
    case NONFINITE:
        value = normal(key);
        break;
    case HEAVY: /* scales over three decades, and an outlier here and there */
        value = normal(key) * pow(10, -3 * uniform(i / 256)) * (mix(key + 7) % 1000 == 0 ? 30 : 1);
        break;
    case INTEGERS: /* sums of at most 16 pass through every codec exactly */
        value = (double)(mix(key) % 5) - 2;
        break;
    case TINY:
        value = normal(key) * 1e-40;
        break;
    case HUGE_VALUES:
        value = normal(key) * 3e37 / ranks;
        break;
    case CANCEL:
        value = (rank % 2 ? -1 : 1) * normal(i / 2) + 1e-3 * normal(key);
        break;
    case ZEROS:
    case DATA_COUNT:
        break;
    }
    if (data == NONFINITE && mix(key * 3) % 97 == 0)
        value = nonfinite(mix(key * 5) % 3);
    return is_double ? value : (double)(float)value;
}

static double load(const void *buffer, size_t i)
{
    return is_double ? ((const double *)buffer)[i] : (double)((const float *)buffer)[i];
}

static void store(void *buffer, size_t i, double value)
{
    if (is_double)
        ((double *)buffer)[i] = value;
    else
        ((float *)buffer)[i] = (float)value;
}

/* Near the smallest subnormals an error cannot be relative; bf16's are larger than float32's. */
static double smallest_error(void)
{
    return codec->id == CSHIM_CODEC_BF16 ? 0x1p-134 : 0x1p-145;
}

/* What one quantization may do to a value in a block whose largest magnitude is given. */
static double quantization(double value, double largest)
{
    return codec->bound_relative * fabs(value) + codec->bound_absolute * largest + smallest_error();
}

struct reference {
    double *sum;     /* in rank order, in float64 */
    double *ordered; /* in rank order, in the buffer's own precision */
    double *bound;
};

static void add_rank(struct reference *reference, enum data data, int rank, int ranks, size_t count)
{
    const size_t block = codec ? codec->block : 1;
    for (size_t first = 0; first < count; first += block) {
        const size_t end = first + block < count ? first + block : count;
        double largest = 0;
        for (size_t i = first; i < end; i++) {
            const double value = element(data, rank, ranks, i);
            if (isfinite(value) && fabs(value) > largest)
                largest = fabs(value);
        }
        for (size_t i = first; i < end; i++) {
            const double value = element(data, rank, ranks, i);
            reference->sum[i] += value;
            reference->ordered[i] = is_double ? reference->ordered[i] + value
                                              : (float)reference->ordered[i] + (float)value;
            reference->bound[i] += fabs(value) * (is_double ? 0x1p-50 : 0x1p-22);
            if (codec && steps > 0)
                reference->bound[i] += quantization(value, largest);
            else if (codec) /* each hop rounds a partial sum of the same segment */
                reference->bound[i] +=
                    (ranks + 2) * (codec->bound_relative * fabs(value) + smallest_error());
        }
    }
}

static void add_second_step(struct reference *reference, size_t count)
{
    for (size_t first = 0; codec && steps == 2 && first < count; first += codec->block) {
        const size_t end = first + codec->block < count ? first + codec->block : count;
        double largest = 0;
        for (size_t i = first; i < end; i++) {
            const double most = fabs(reference->sum[i]) + reference->bound[i];
            if (isfinite(most) && most > largest)
                largest = most;
        }
        for (size_t i = first; i < end; i++)
            reference->bound[i] +=
                quantization(fabs(reference->sum[i]) + reference->bound[i], largest);
    }
}

static void fail(const char *what, enum data data, size_t count, size_t i, double got, double want,
                 double bound)
{
    if (failures++ < 10)
        fprintf(stderr, "%s: %s, count %zu, element %zu: got %.9g, want %.9g, bound %.3g\n", what,
                data_names[data], count, i, got, want, bound);
}

/* Sums up to 16 need three mantissa bits and a scale that is a power of two. */
static int integers_are_exact(void)
{
    return codec == NULL || (steps > 0 && codec->id != CSHIM_CODEC_INT8 &&
                             codec->id != CSHIM_CODEC_INT4 && codec->id != CSHIM_CODEC_FP8_E5M2);
}

static void compare(const struct reference *reference, enum data data, size_t count,
                    const void *result)
{
    const int exact = codec != NULL && codec->id == CSHIM_CODEC_RAW && steps > 0;
    for (size_t i = 0; i < count; i++) {
        const double got = load(result, i), want = reference->sum[i];
        if (!isfinite(want) != !isfinite(got))
            fail("finite and non-finite are mixed up", data, count, i, got, want, 0);
        else if (!isfinite(want))
            continue;
        else if (exact && got != reference->ordered[i])
            fail("not the sum in rank order", data, count, i, got, reference->ordered[i], 0);
        else if (data == INTEGERS && integers_are_exact() && got != want)
            fail("small integers are not exact", data, count, i, got, want, 0);
        else if (!(fabs(got - want) <= reference->bound[i]))
            fail("outside the bound", data, count, i, got, want, reference->bound[i]);
    }
}

/* All ranks must hold the same bits. NaN counts as NaN, whatever its payload. */
static void compare_ranks(void *result, size_t bytes, MPI_Comm comm)
{
    uint64_t own = 0xcbf29ce484222325u, lowest, highest;
    const unsigned char *byte = result;
    for (size_t i = 0; i < bytes; i++)
        own = (own ^ byte[i]) * 0x100000001b3u;
    own &= INT64_MAX;
    MPI_Allreduce(&own, &lowest, 1, MPI_UINT64_T, MPI_MIN, comm);
    MPI_Allreduce(&own, &highest, 1, MPI_UINT64_T, MPI_MAX, comm);
    if (lowest != highest && failures++ < 10)
        fprintf(stderr, "ranks hold different results (%zu bytes)\n", bytes);
}

static void run(enum data data, size_t count, int in_place, MPI_Comm comm)
{
    const size_t size = is_double ? sizeof(double) : sizeof(float);
    const size_t bytes = count * size;
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    unsigned char *input = malloc(bytes + 64), *result = malloc(bytes + 64);
    unsigned char *kept = malloc(bytes + 64);
    struct reference reference = {calloc(count + 1, sizeof(double)),
                                  calloc(count + 1, sizeof(double)),
                                  calloc(count + 1, sizeof(double))};
    for (size_t i = 0; i < count; i++)
        store(input, i, element(data, rank, ranks, i));
    memset(result, 0xa5, bytes + 64);
    memcpy(kept, input, bytes);
    if (in_place)
        memcpy(result, input, bytes);
    const int status = MPI_Allreduce(in_place ? MPI_IN_PLACE : input, result, (int)count,
                                     is_double ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM, comm);
    if (status != MPI_SUCCESS)
        fail("error code", data, count, 0, status, 0, 0);
    for (size_t i = 0; i < 64; i++) {
        if (result[bytes + i] != 0xa5)
            fail("written behind the buffer", data, count, i, result[bytes + i], 0xa5, 0);
    }
    if (memcmp(kept, input, bytes) != 0)
        fail("the input was changed", data, count, 0, 0, 0, 0);
    for (int r = 0; r < ranks; r++)
        add_rank(&reference, data, r, ranks, count);
    add_second_step(&reference, count);
    compare(&reference, data, count, result);
    compare_ranks(result, bytes, comm);
    digest_bytes(result, bytes);
    free(reference.sum), free(reference.ordered), free(reference.bound);
    free(kept), free(result), free(input);
}

static void run_communicators(int rank, int ranks)
{
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    run(NORMAL, 3001, 0, other);
    MPI_Comm_free(&other);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &other); /* ranks in reverse */
    for (int i = 0; i < 3; i++)
        run(NORMAL, 70001, i % 2, other);
    MPI_Comm_free(&other);
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks - 1 ? 0 : MPI_UNDEFINED, rank, &other);
    if (other != MPI_COMM_NULL) {
        run(HEAVY, 12345, 1, other);
        MPI_Comm_free(&other);
    }
    run(NORMAL, 1000, 0, MPI_COMM_SELF);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {0, 1, 2, 5, 127, 128, 129, 255, 256, 257, 1000, 4099, 65549};
    enum cshim_codec_id id = CSHIM_CODEC_NONE;
    int rank, ranks, total = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 3 || !cshim_codec_by_name(argv[1], &id)) {
        fprintf(stderr, "usage: mpi_allreduce CODEC STEPS [float32|float64]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    codec = cshim_codec_info(id);
    steps = atoi(argv[2]);
    is_double = argc > 3 && strcmp(argv[3], "float64") == 0;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        run(NORMAL, counts[c], 0, MPI_COMM_WORLD);
        run(NORMAL, counts[c], 1, MPI_COMM_WORLD);
    }
    for (int data = 0; data < DATA_COUNT; data++)
        run((enum data)data, 20011, data % 2, MPI_COMM_WORLD);
    run(NORMAL, 400009, 0, MPI_COMM_WORLD);
    run_communicators(rank, ranks);
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("digest %016llx, %d failures\n", (unsigned long long)digest, total);
    MPI_Finalize();
    return total != 0;
}
