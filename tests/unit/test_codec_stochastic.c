/* SPDX-License-Identifier: Apache-2.0 */
/* Tests stochastic rounding: the codes that it may choose, that its mean is the value, and that the
 * random numbers depend only on key and index. All keys are fixed, so each run is the same. */
#include "codecs/scalar.h"
#include "test_codec_data.h"

enum { COUNT = 4096 + 77 };

static float values[COUNT], decoded[COUNT];
static uint8_t encoded[COUNT * 4 + 64], again[COUNT * 4 + 64];

static void encode(enum cshim_codec_id id, const float *input, size_t count, uint64_t key,
                   uint64_t first, uint8_t *output)
{
    const struct cshim_encoding encoding = {.stochastic = true, .key = key, .first = first};
    cshim_encode_with(id, CSHIM_FLOAT32, input, count, &encoding, output);
}

/* Parameters of a format, from docs/wire-format.md, to find the codes on both sides of a number. */
struct grid {
    enum cshim_codec_id id;
    int mantissa_bits, min_exponent, min_scale; /* floats only; of nvfp4 a grain's min_scale */
    double largest;                             /* top code */
};

static const struct grid grids[] = {
    {CSHIM_CODEC_FP16, 10, -14, -125, 65504}, {CSHIM_CODEC_BF16, 7, -126, 0, 0x1.fep127},
    {CSHIM_CODEC_FP8_E4M3, 3, -6, -135, 448}, {CSHIM_CODEC_FP8_E5M2, 2, -14, -133, 57344},
    {CSHIM_CODEC_MXFP8, 3, -6, -127, 448},    {CSHIM_CODEC_MXFP4, 1, 0, -127, 6},
    {CSHIM_CODEC_NVFP4, 1, 0, -138, 6},
#define INTEGER(ID, NAME, name, BITS, ...) {CSHIM_CODEC_##NAME, 0, 0, 0, (1 << (BITS - 1)) - 1},
#include "codecs/formats.def"
};
enum { GRIDS = COUNT_OF(grids), FIRST_INTEGER = 7 };

/* Returns the address of the scale of element i's block in the encoding of COUNT elements. */
static const uint8_t *scale_at(enum cshim_codec_id id, size_t i)
{
    const struct cshim_codec_info *info = cshim_codec_info(id);
    size_t scales = (COUNT * info->element_bits + 127) / 128 * 16;
    return encoded + scales + i / info->block * info->scale_bytes;
}

/* Returns element i's scale. */
static double scale_of(const struct grid *grid, size_t i)
{
    const uint8_t *scale = scale_at(grid->id, i);
    if (grid->mantissa_bits == 0) {
        unsigned code = scale[0] | (unsigned)scale[1] << 8;
        return ldexp(128 + (code & 127), (int)(code >> 7) - 156);
    }
    if (grid->id == CSHIM_CODEC_NVFP4) {
        int exponent = grid->min_scale;
        for (int bit = 0; bit < 8; bit++)
            exponent += scale[bit] >> 7 << bit;
        const unsigned code = scale[i % 256 / 16] & 127;
        return ldexp(8 + (code & 7), (int)(code >> 3) - 10 + exponent);
    }
    return grid->id == CSHIM_CODEC_BF16 ? 1 : ldexp(1, scale[0] + grid->min_scale);
}

/* Returns the distance between the codes around x, which is element i. */
static double step_around(const struct grid *grid, size_t i, double x)
{
    const double scale = scale_of(grid, i);
    if (grid->mantissa_bits == 0)
        return scale;
    int binade = x == 0 ? grid->min_exponent : ilogb(x / scale);
    binade = binade > grid->min_exponent ? binade : grid->min_exponent;
    return ldexp(scale, binade - grid->mantissa_bits);
}

static float nearest_float(double value)
{
    return (float)fmax(fmin(value, (double)FLT_MAX), -(double)FLT_MAX);
}

static void assert_neighbour(const struct grid *grid, size_t i)
{
    double x = (double)values[i];
    double step = step_around(grid, i, x);
    double below = floor(x / step) * step, above = ceil(x / step) * step;
    if (grid->id == CSHIM_CODEC_BF16) {
        below = fmax(below, -grid->largest);
        above = fmin(above, grid->largest);
    }
    if (decoded[i] != nearest_float(below) && decoded[i] != nearest_float(above)) {
        fail_msg("%s: %a became %a, not %a or %a", cshim_codec_name(grid->id), x,
                 (double)decoded[i], below, above);
    }
}

TEST(results_are_one_of_the_two_codes_around)
{
    for (size_t g = 0; g < GRIDS; g++) {
        for (int pattern = 0; pattern < PATTERN_COUNT; pattern++) {
            fill((enum pattern)pattern, g, values, COUNT);
            encode(grids[g].id, values, COUNT, (uint64_t)pattern, 0, encoded);
            cshim_decode(grids[g].id, CSHIM_FLOAT32, encoded, COUNT, decoded);
            for (size_t i = 0; i < COUNT; i++)
                if (isfinite(values[i]))
                    assert_neighbour(&grids[g], i);
        }
    }
}

/* Blocks whose largest magnitude is above the top code, but rounds to it, get the next scale:
 * otherwise stochastic rounding would be biased. */
TEST(the_largest_of_a_block_is_never_cut_off)
{
    for (size_t g = 0; g < GRIDS; g++) {
        const struct grid *grid = &grids[g];
        const double half_step =
            grid->mantissa_bits == 0 ? 0.5 : ldexp(0.5, ilogb(grid->largest) - grid->mantissa_bits);
        if (grid->id == CSHIM_CODEC_BF16)
            continue;
        for (size_t i = 0; i < COUNT; i++) {
            double near_top = grid->largest + half_step * (double)(i / 32 % 16) / 16;
            values[i] = (float)ldexp(i % 2 != 0 ? -near_top : near_top, (int)(i / 512));
        }
        encode(grid->id, values, COUNT, 8, 0, encoded);
        cshim_decode(grid->id, CSHIM_FLOAT32, encoded, COUNT, decoded);
        for (size_t i = 0; i < COUNT; i++)
            assert_neighbour(grid, i);
    }
}

/* Values about halfway between two of the largest codes of an integer format are rounded to both
 * about equally often, even if the upper code exceeds all floats and is decoded to FLT_MAX. */
TEST(integers_round_fairly_at_the_ends_of_float)
{
    const float largest[] = {FLT_MAX, 1.0f, 0x1p-120f, 0x1p-139f};
    for (size_t g = FIRST_INTEGER; g < GRIDS; g++) {
        for (size_t l = 0; l < COUNT_OF(largest); l++) {
            int up = 0;
            memset(values, 0, sizeof values);
            values[0] = largest[l];
            encode(grids[g].id, values, COUNT, 0, 0, encoded);
            double step = step_around(&grids[g], 0, 0);
            double half = (grids[g].largest - 0.49) * step;
            values[1] = (float)(half < (double)FLT_MAX ? half : half - step);
            for (uint64_t key = 0; key < 400; key++) {
                encode(grids[g].id, values, COUNT, key, 0, encoded);
                cshim_decode(grids[g].id, CSHIM_FLOAT32, encoded, COUNT, decoded);
                up += decoded[1] > values[1];
            }
            assert_in_range(up, 140, 260);
        }
    }
}

/* Values that are exact codes do not change: integers up to the top code (of floats: up to 7, of
 * mxfp4 up to 3), times 2^-9. */
TEST(codes_stay)
{
    for (size_t g = 0; g < GRIDS; g++) {
        int top = grids[g].mantissa_bits == 0   ? (int)grids[g].largest
                  : grids[g].mantissa_bits == 1 ? 3
                                                : 7;
        if (grids[g].id == CSHIM_CODEC_NVFP4) /* its scales are rounded up */
            continue;
        for (uint64_t key = 0; key < 50; key++) {
            for (size_t i = 0; i < COUNT; i++) {
                values[i] = i % 32 == 0 ? (float)top : (float)((int)(i * 13 % 255) % (top + 1));
                values[i] *= i % 5 < 2 ? -0x1p-9f : 0x1p-9f;
            }
            encode(grids[g].id, values, COUNT, key, 0, encoded);
            cshim_decode(grids[g].id, CSHIM_FLOAT32, encoded, COUNT, decoded);
            for (size_t i = 0; i < COUNT; i++)
                assert_true(decoded[i] == values[i]);
        }
    }
}

enum { FEW = 512, KEYS = 3000 };

/* Computes the errors with one key, each divided by its standard deviation; 0 for exact codes. */
static void standard_errors(const struct grid *grid, uint64_t key, double *errors)
{
    memset(values + FEW, 0, sizeof values - FEW * sizeof *values);
    encode(grid->id, values, COUNT, key, 0, encoded);
    cshim_decode(grid->id, CSHIM_FLOAT32, encoded, COUNT, decoded);
    for (size_t i = 0; i < FEW; i++) {
        double x = (double)values[i], step = step_around(grid, i, x);
        double part = x / step - floor(x / step);
        double deviation = step * sqrt(part * (1 - part));
        errors[i] = deviation == 0 ? 0 : ((double)decoded[i] - x) / deviation;
    }
}

/* Sums of standardised errors are like those of independent numbers with mean 0: of each element
 * over all keys, of all elements under each key, and of the products of neighbouring elements' and
 * successive keys' errors. The limit is six standard deviations; none of the many sums fails by
 * chance, because the random numbers are the same in every run. */
TEST(mean_is_the_value)
{
    for (size_t g = 0; g < GRIDS; g++) {
        double totals[FEW] = {0}, last[FEW] = {0}, all = 0, beside = 0, after = 0;
        fill(PATTERN_NORMAL, 40 + g, values, FEW);
        for (uint64_t key = 0; key < KEYS; key++) {
            double errors[FEW], sum = 0;
            standard_errors(&grids[g], key, errors);
            for (size_t i = 0; i < FEW; i++) {
                totals[i] += errors[i];
                sum += errors[i];
                beside += errors[i] * errors[(i + 1) % FEW];
                after += errors[i] * last[i];
                last[i] = errors[i];
            }
            assert_true(fabs(sum) < 6 * sqrt(FEW));
            all += sum;
        }
        for (size_t i = 0; i < FEW; i++)
            assert_true(fabs(totals[i]) < 6 * sqrt(KEYS));
        assert_true(fabs(all) < 6 * sqrt((double)FEW * KEYS));
        assert_true(fabs(beside) < 6 * sqrt((double)FEW * KEYS));
        assert_true(fabs(after) < 6 * sqrt((double)FEW * KEYS));
    }
}

/* An element far below the others is not lost: a thousandth of a step is rounded up once in a
 * thousand times. */
TEST(small_elements_are_kept_in_the_mean)
{
    enum { MANY = 32 * 128 };
    double total = 0;
    for (size_t i = 0; i < MANY; i++)
        values[i] = i % 32 == 0 ? 7.0f : 1e-3f;
    for (uint64_t key = 0; key < 100; key++) {
        encode(CSHIM_CODEC_INT4, values, MANY, key, 0, encoded);
        cshim_decode(CSHIM_CODEC_INT4, CSHIM_FLOAT32, encoded, MANY, decoded);
        for (size_t i = 0; i < MANY; i++)
            total += i % 32 == 0 ? 0 : (double)decoded[i];
    }
    double expected = 100 * 128 * 31 * 1e-3;
    assert_true(fabs(total - expected) < 6 * sqrt(expected));
}

TEST(keys_decide)
{
    fill(PATTERN_NORMAL, 6, values, COUNT);
    for (size_t g = 0; g < GRIDS; g++) {
        size_t bytes = cshim_encoded_bytes(grids[g].id, CSHIM_FLOAT32, COUNT);
        encode(grids[g].id, values, COUNT, 77, 5, encoded);
        encode(grids[g].id, values, COUNT, 77, 5, again);
        assert_memory_equal(encoded, again, bytes);
        encode(grids[g].id, values, COUNT, 78, 5, again);
        assert_memory_not_equal(encoded, again, bytes);
        encode(grids[g].id, values, COUNT, 77, 7, again);
        assert_memory_not_equal(encoded, again, bytes);
    }
}

/* Compares the first numbers of a key with published splitmix64 (next_random). The first output is
 * the seed of a second sequence, and each of its numbers serves two elements. */
TEST(numbers_are_those_of_the_wire_format)
{
    enum { NUMBERS = 64 };
    uint64_t key_state = 12345, stream = next_random(&key_state);
    uint16_t codes[NUMBERS];
    for (size_t i = 0; i < NUMBERS; i++)
        values[i] = float_of(0x3f800000u + 0x8000u); /* halfway between two codes of bf16 */
    encode(CSHIM_CODEC_BF16, values, NUMBERS, 12345, 0, encoded);
    memcpy(codes, encoded, sizeof codes);
    for (size_t i = 0; i < NUMBERS; i += 2) {
        uint64_t pair = next_random(&stream);
        assert_int_equal(codes[i], (pair & 0x80000000u) != 0 ? 0x3f81 : 0x3f80);
        assert_int_equal(codes[i + 1], pair >> 63 != 0 ? 0x3f81 : 0x3f80);
    }
}

/* An element's random number depends on the key and its index only: arrays of a format without
 * blocks may be cut at any index, even an odd one. */
TEST(numbers_belong_to_elements)
{
    fill(PATTERN_NORMAL, 6, values, COUNT);
    for (size_t begin = 0; begin < 5; begin++) {
        encode(CSHIM_CODEC_BF16, values, COUNT, 9, 100, encoded);
        encode(CSHIM_CODEC_BF16, values + begin, COUNT - begin, 9, 100 + begin, again);
        assert_memory_equal(again, encoded + 2 * begin, 2 * (COUNT - begin));
    }
}

/* Tests the largest random number for which an event happens, and the next one, for the
 * probabilities 2^-31, 0.5 and 1 - 2^-24. With probability 0 no number, not even 0, suffices. */
TEST(probabilities_at_their_ends)
{
    const float almost_one = 1 - 0x1p-24f;
    assert_int_equal(cshim_happens(0.0f, 0), 0);
    assert_int_equal(cshim_happens(0x1p-31f, 1), 1);
    assert_int_equal(cshim_happens(0x1p-31f, 2), 0);
    assert_int_equal(cshim_happens(0.5f, 0x7fffffffu), 1);
    assert_int_equal(cshim_happens(0.5f, 0x80000000u), 0);
    assert_int_equal(cshim_happens(almost_one, 0xfffffeffu), 1);
    assert_int_equal(cshim_happens(almost_one, 0xffffff00u), 0);
}

TEST(raw_and_fp32_round_nothing)
{
    const enum cshim_codec_id ids[] = {CSHIM_CODEC_RAW, CSHIM_CODEC_FP32};
    fill(PATTERN_MIXED, 2, values, COUNT);
    for (size_t c = 0; c < 2; c++) {
        cshim_encode(ids[c], CSHIM_FLOAT32, values, COUNT, encoded);
        encode(ids[c], values, COUNT, 4, 0, again);
        assert_memory_equal(encoded, again, cshim_encoded_bytes(ids[c], CSHIM_FLOAT32, COUNT));
    }
}
