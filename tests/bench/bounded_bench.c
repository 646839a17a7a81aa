/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the codec bounded with ZFP's fixed-accuracy mode, on one core, at equal bounds.
 *
 * Prints a line for each field, type and bound: the field, its type, and the bound as a share of
 * its largest magnitude. For bounded, then for ZFP, it has the compression ratio, the GB/s (10^9
 * bytes of the field) of encoding and of decoding, as medians of REPEATS, and the largest error as
 * a share of the bound. ZFP gets the shape of the field, which a collective does not have. Its
 * tolerance and bounded's step are those of a rule's abs_error for data-movement collectives. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zfp.h>

#include "codecs/codec.h"
#include "codecs/floats.h"
#include "shim/core/clock.h"
#include "tests/bench/times.h"

enum { REPEATS = 7, SIDE = 1024, EDGE = 128, COUNT = 1 << 21, HOT_SPOTS = 200, STEPS = 300 };

static double field[COUNT];
static float narrow[COUNT];
static double decoded[COUNT];
static uint8_t encoded[COUNT * 10];

/* Returns a random number, uniform from -1 to 1. */
static double uniform(uint64_t *state)
{
    *state = cshim_mix(*state + 1);
    return (double)(*state >> 11) * 0x1p-52 - 1;
}

/* Returns a random number, roughly normal. */
static double normal(uint64_t *state)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += uniform(state);
    return sum / 2;
}

/* Fills the field with two copies of a plate: temperatures after the heat of hot spots has
 * diffused. */
static void make_heat(uint64_t seed)
{
    static double next[SIDE * SIDE];
    memset(field, 0, sizeof field);
    for (int spot = 0; spot < HOT_SPOTS; spot++) {
        const int x = (int)((uniform(&seed) + 1) * (SIDE - 40) / 2) + 10;
        const int y = (int)((uniform(&seed) + 1) * (SIDE - 40) / 2) + 10;
        const double heat = 50 * (uniform(&seed) + 1);
        for (int i = 0; i < 400; i++)
            field[(y + i / 20) * SIDE + x + i % 20] += heat;
    }
    for (int step = 0; step < STEPS; step++) {
        for (int at = SIDE + 1; at < SIDE * SIDE - SIDE - 1; at++)
            next[at] = field[at] + 0.2 * (field[at - 1] + field[at + 1] + field[at - SIDE] +
                                          field[at + SIDE] - 4 * field[at]);
        memcpy(field, next, sizeof next);
    }
    memcpy(field + SIDE * SIDE, field, sizeof next);
}

/* Fills the field with long waves through a cube. */
static void make_waves(uint64_t seed)
{
    double phase[6];
    for (int i = 0; i < 6; i++)
        phase[i] = 3 * uniform(&seed);
    for (int i = 0; i < COUNT; i++) {
        const int row = i / EDGE, plane = row / EDGE;
        const double x = i % EDGE * 0.05, y = row % EDGE * 0.05, z = plane * 0.05;
        field[i] = sin(x + phase[0]) * cos(y + phase[1]) + sin(2 * z + y + phase[2]) +
                   0.3 * sin(3 * x + 2 * y - z + phase[3]) * cos(4 * z + phase[4]) + phase[5];
    }
}

/* Returns noise interpolated between lattice points `distance` apart. */
static double lattice(uint64_t seed, int x, int y, int z, int distance)
{
    double sum = 0;
    const double fx = (double)(x % distance) / distance, fy = (double)(y % distance) / distance;
    const double fz = (double)(z % distance) / distance;
    for (int corner = 0; corner < 8; corner++) {
        const int cx = x / distance + (corner & 1), cy = y / distance + (corner >> 1 & 1);
        const int cz = z / distance + (corner >> 2);
        uint64_t state = seed + (uint64_t)(cx + 1000 * cy + 1000000 * cz);
        sum += uniform(&state) * ((corner & 1) != 0 ? fx : 1 - fx) *
               ((corner >> 1 & 1) != 0 ? fy : 1 - fy) * ((corner >> 2) != 0 ? fz : 1 - fz);
    }
    return sum;
}

/* Fills the field with eddies of sizes 1, 2, 4, ..., EDGE in a cube. Their amplitudes are as in
 * turbulence: the cube root of the size. */
static void make_eddies(uint64_t seed)
{
    for (int i = 0; i < COUNT; i++) {
        field[i] = 0;
        for (int distance = 1; distance <= EDGE; distance *= 2)
            field[i] += cbrt(distance) * lattice(seed + (uint64_t)distance * 12345, i % EDGE,
                                                 i / EDGE % EDGE, i / EDGE / EDGE, distance);
    }
}

/* Fills the field with independent numbers, such as velocities of particles. */
static void make_noise(uint64_t seed)
{
    for (int i = 0; i < COUNT; i++)
        field[i] = normal(&seed);
}

static const struct {
    const char *name;
    void (*make_field)(uint64_t seed);
    size_t shape[3]; /* fastest dimension first; 0: no such dimension */
} fields[] = {
    {"heat", make_heat, {SIDE, 2 * SIDE, 0}},
    {"waves", make_waves, {EDGE, EDGE, EDGE}},
    {"eddies", make_eddies, {EDGE, EDGE, EDGE}},
    {"noise", make_noise, {COUNT, 0, 0}},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static const double bounds[] = {1e-2, 1e-3, 1e-4, 1e-5, 1e-6};
enum { BOUNDS = sizeof bounds / sizeof *bounds };

/* Results of one of the two codecs on a field. */
struct result {
    size_t bytes;
    double encode[REPEATS], decode[REPEATS];
};

static const void *elements_of(enum cshim_dtype dtype)
{
    return dtype == CSHIM_FLOAT64 ? (const void *)field : narrow;
}

/* Returns the largest error in `decoded`, as a share of the bound. */
static double largest_error(enum cshim_dtype dtype, double bound)
{
    const float *floats = (const float *)(const void *)decoded;
    double largest = 0;
    for (size_t i = 0; i < COUNT; i++) {
        const double error =
            dtype == CSHIM_FLOAT64 ? decoded[i] - field[i] : (double)floats[i] - (double)narrow[i];
        largest = fmax(largest, fabs(error));
    }
    return largest / bound;
}

/* Returns the step for a bound: the largest float that keeps it. */
static float step_of(double bound)
{
    const float step = (float)(2 * bound);
    return (double)step > 2 * bound ? nextafterf(step, 0) : step;
}

static void run_bounded(enum cshim_dtype dtype, float step, struct result *result, int repeat)
{
    const struct cshim_encoding encoding = {.step = step};
    const double began = cshim_seconds();
    cshim_encode_with(CSHIM_CODEC_BOUNDED, dtype, elements_of(dtype), COUNT, &encoding, encoded);
    const double encoded_at = cshim_seconds();
    cshim_decode(CSHIM_CODEC_BOUNDED, dtype, encoded, COUNT, decoded);
    result->decode[repeat] = cshim_seconds() - encoded_at;
    result->encode[repeat] = encoded_at - began;
    result->bytes = cshim_encoded_length(CSHIM_CODEC_BOUNDED, dtype, COUNT, encoded);
}

static void run_zfp(enum cshim_dtype dtype, double bound, const size_t *shape,
                    struct result *result, int repeat)
{
    const zfp_type type = dtype == CSHIM_FLOAT64 ? zfp_type_double : zfp_type_float;
    void *elements = dtype == CSHIM_FLOAT64 ? (void *)field : narrow;
    zfp_field *array = zfp_field_3d(elements, type, shape[0], shape[1], shape[2]);
    zfp_stream *zfp = zfp_stream_open(NULL);
    bitstream *bits = stream_open(encoded, sizeof encoded);
    zfp_stream_set_accuracy(zfp, bound);
    zfp_stream_set_bit_stream(zfp, bits);
    const double began = cshim_seconds();
    result->bytes = zfp_compress(zfp, array);
    const double encoded_at = cshim_seconds();
    zfp_stream_rewind(zfp);
    zfp_field_set_pointer(array, decoded);
    if (zfp_decompress(zfp, array) == 0 || result->bytes == 0)
        exit(3);
    result->decode[repeat] = cshim_seconds() - encoded_at;
    result->encode[repeat] = encoded_at - began;
    zfp_field_free(array);
    zfp_stream_close(zfp);
    stream_close(bits);
}

static double make_field(size_t which)
{
    double largest = 0;
    fields[which].make_field(1);
    for (size_t i = 0; i < COUNT; i++) {
        narrow[i] = (float)field[i];
        largest = fmax(largest, fabs(field[i]));
    }
    return largest;
}

static void print_result(struct result *result, size_t bytes, double error)
{
    printf(" %.2f %.2f %.2f %.3f", (double)bytes / (double)result->bytes,
           1e-9 * (double)bytes / median_of(result->encode, REPEATS),
           1e-9 * (double)bytes / median_of(result->decode, REPEATS), error);
}

int main(void)
{
    printf(
        "field type bound ratio encode decode error zfp_ratio zfp_encode zfp_decode zfp_error\n");
    for (size_t which = 0; which < FIELDS; which++) {
        const double largest = make_field(which);
        for (int dtype = CSHIM_FLOAT32; dtype <= CSHIM_FLOAT64; dtype++)
            for (size_t i = 0; i < BOUNDS; i++) {
                const double bound = bounds[i] * largest;
                const size_t bytes = COUNT * cshim_dtype_bytes((enum cshim_dtype)dtype);
                struct result ours, zfps;
                double error = 0, zfp_error = 0;
                for (int repeat = 0; repeat < REPEATS; repeat++) {
                    run_bounded((enum cshim_dtype)dtype, step_of(bound), &ours, repeat);
                    error = largest_error((enum cshim_dtype)dtype, bound);
                    run_zfp((enum cshim_dtype)dtype, bound, fields[which].shape, &zfps, repeat);
                    zfp_error = largest_error((enum cshim_dtype)dtype, bound);
                }
                printf("%s %s %g", fields[which].name, cshim_dtype_name((enum cshim_dtype)dtype),
                       bounds[i]);
                print_result(&ours, bytes, error);
                print_result(&zfps, bytes, zfp_error);
                printf("\n");
                fflush(stdout);
            }
    }
    return 0;
}
