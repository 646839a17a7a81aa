/* SPDX-License-Identifier: Apache-2.0 */
/* Tests error feedback, for elements of float32, float64 and bfloat16, and for sums: the value of
 * the residual, which is always finite; that at most a step of it is added (two with stochastic
 * rounding); and that nothing is lost over many steps. test_codec_levels.c tests the SIMD levels
 * and cuts. */
#include "test_codec_data.h"

enum { COUNT = 4096 + 77, RANKS = 3 };

static float values[COUNT], residual[COUNT], decoded[COUNT];
static uint8_t encoded[COUNT * 8 + 64], again[COUNT * 8 + 64];

static size_t encoded_bytes(enum cshim_codec_id id)
{
    return cshim_encoded_bytes(id, CSHIM_FLOAT32, COUNT);
}

/* Returns the number of elements in a block, whose largest magnitude limits the residuals of the
 * block. */
static size_t block_of(enum cshim_codec_id id)
{
    const size_t block = cshim_codec_info(id)->block;
    return block > 1 ? block : CSHIM_GRAIN;
}

/* Returns the largest finite magnitude of element i's block. */
static float largest_of(enum cshim_codec_id id, const float *input, size_t i, size_t count)
{
    const size_t begin = i - i % block_of(id);
    float largest = 0;
    for (size_t k = begin; k < count && k < begin + block_of(id); k++)
        largest = isfinite(input[k]) ? fmaxf(largest, fabsf(input[k])) : largest;
    return largest;
}

/* Returns the limit of the residual that is added to element i. */
static float limit_of(enum cshim_codec_id id, bool stochastic, const float *input, size_t i)
{
    const struct cshim_codec_info *info = cshim_codec_info(id);
    const float top = (float)(1 << (info->element_bits - 1) % 16) - 1;
    const float step = is_integer(id) ? 1 / top : 2 * (float)info->bound_relative;
    volatile float limit = largest_of(id, input, i, COUNT) * (stochastic ? 2 * step : step);
    return limit;
}

/* Returns the sum to be encoded, which is finite if the element is. */
static float expected_sum(float value, float rest, float limit)
{
    const bool is_far = bits_of(fabsf(rest)) > bits_of(limit) + (4 << 23); /* 16 times the limit */
    volatile float sum = value + (is_far ? 0 : copysignf(fminf(fabsf(rest), limit), rest));
    return isfinite(value) && isinf(sum) ? copysignf(FLT_MAX, sum) : sum;
}

/* Computes the expected bytes and residuals without the codecs' error feedback: encodes the sums of
 * elements and residuals, and subtracts their decoded values. */
static void expect(enum cshim_codec_id id, struct cshim_encoding encoding, const float *input,
                   float *rest, uint8_t *bytes)
{
    static float sums[COUNT], back[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        sums[i] = expected_sum(input[i], rest[i], limit_of(id, encoding.stochastic, input, i));
    encoding.residual = NULL;
    cshim_encode_with(id, CSHIM_FLOAT32, sums, COUNT, &encoding, bytes);
    cshim_decode(id, CSHIM_FLOAT32, bytes, COUNT, back);
    for (size_t i = 0; i < COUNT; i++) {
        volatile float lost = sums[i] - back[i];
        rest[i] = isfinite(sums[i]) ? lost : 0;
    }
}

/* Encodes each pattern three times, so that residuals are added to the next values. */
TEST(residual_is_what_rounding_lost)
{
    static float expected[COUNT];
    for (int id = CSHIM_CODEC_FP32; id < CSHIM_CODEC_COUNT; id++) {
        for (int mode = 0; mode < 2 && !cshim_codec_is_packed((enum cshim_codec_id)id); mode++) {
            memset(residual, 0, sizeof residual);
            memset(expected, 0, sizeof expected);
            for (int step = 0; step < 3 * PATTERN_COUNT; step++) {
                struct cshim_encoding encoding = {residual, mode == 1, (uint64_t)step, 3, 0, 0};
                fill((enum pattern)(step * 5 % PATTERN_COUNT), (uint64_t)step, values, COUNT);
                expect((enum cshim_codec_id)id, encoding, values, expected, again);
                cshim_encode_with((enum cshim_codec_id)id, CSHIM_FLOAT32, values, COUNT, &encoding,
                                  encoded);
                assert_memory_equal(encoded, again, encoded_bytes((enum cshim_codec_id)id));
                assert_memory_equal(residual, expected, sizeof residual);
                for (size_t i = 0; i < COUNT; i++)
                    assert_true(isfinite(residual[i]));
            }
        }
    }
}

/* Fills an array with blocks of 32 whose magnitudes differ at random, some of them zeros. */
static void fill_blocks(uint64_t seed, int range, float *numbers)
{
    uint64_t state = seed;
    float scale = 0;
    for (size_t i = 0; i < COUNT; i++) {
        if (i % 32 == 0) {
            const uint64_t random = next_random(&state);
            scale = random % 8 == 0 ? 0 : ldexpf(1, (int)(random >> 8) % range - range / 2);
        }
        numbers[i] = next_normal(&state) * scale;
    }
}

/* With residuals of another tensor, the error of a call is at most the bound plus a step, which is
 * twice the largest rounding error of the block's largest element. */
TEST(old_residuals_add_a_step_at_most)
{
    for (int trial = 0; trial < 60 * 2 * CSHIM_CODEC_COUNT; trial++) {
        const enum cshim_codec_id id = (enum cshim_codec_id)(trial % CSHIM_CODEC_COUNT);
        const struct cshim_codec_info *info = cshim_codec_info(id);
        if (info == NULL || cshim_codec_is_exact(id) || cshim_codec_is_packed(id))
            continue;
        const bool stochastic = trial / CSHIM_CODEC_COUNT % 2 == 1;
        struct cshim_encoding encoding = {residual, stochastic, (uint64_t)trial, 0, 0, 0};
        fill_blocks((uint64_t)trial, 40, values);
        fill_blocks(~(uint64_t)trial, 80, residual);
        cshim_encode_with(id, CSHIM_FLOAT32, values, COUNT, &encoding, encoded);
        cshim_decode(id, CSHIM_FLOAT32, encoded, COUNT, decoded);
        for (size_t i = 0; i < COUNT; i++) {
            const double once = stochastic ? 2 : 1, largest = largest_of(id, values, i, COUNT);
            const double step = 2 * once * (info->bound_relative + info->bound_absolute) * largest;
            const double bound = once * (info->bound_relative * (fabs((double)values[i]) + step) +
                                         info->bound_absolute * (largest + step));
            const double error = fabs((double)decoded[i] - (double)values[i]);
            assert_true(error <= (bound + step) * (1 + 0x1p-20) + 0x1p-134);
        }
    }
}

/* The residuals are those of values 300 to 7000 times as large. */
TEST(ones_after_large_values_are_ones)
{
    for (size_t c = 0; c < SCALED_CODECS; c++) {
        struct cshim_encoding encoding = {.residual = residual};
        memset(residual, 0, sizeof residual);
        for (size_t i = 0; i < COUNT; i++)
            values[i] = i % 16 != 0 ? 300 + (float)(i % 7) : 7000;
        cshim_encode_with(scaled_codecs[c], CSHIM_FLOAT32, values, COUNT, &encoding, encoded);
        for (size_t i = 0; i < COUNT; i++)
            values[i] = 1;
        cshim_encode_with(scaled_codecs[c], CSHIM_FLOAT32, values, COUNT, &encoding, encoded);
        cshim_decode(scaled_codecs[c], CSHIM_FLOAT32, encoded, COUNT, decoded);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(fabsf(decoded[i] - 1) < 0.04f); /* nvfp4's error is 1/32 */
    }
}

/* Over many steps the sum of decoded values is the sum of the inputs minus the last residual, as
 * long as the blocks' largest magnitudes do not change. The only other error is float32's rounding
 * of the sums (and, with stochastic rounding, of the differences). */
TEST(nothing_is_lost_over_many_steps)
{
    enum { STEPS = 60 };
    static double in[COUNT], out[COUNT];
    for (size_t c = 0; c < 2 * SCALED_CODECS; c++) {
        enum cshim_codec_id id = scaled_codecs[c / 2];
        const struct cshim_codec_info *info = cshim_codec_info(id);
        memset(residual, 0, sizeof residual);
        memset(in, 0, sizeof in);
        memset(out, 0, sizeof out);
        for (int step = 0; step < STEPS; step++) {
            struct cshim_encoding encoding = {residual, c % 2 == 1, (uint64_t)step, 0, 0, 0};
            fill(PATTERN_NORMAL, (uint64_t)step, values, COUNT);
            for (size_t i = 0; i < COUNT; i += 32)
                values[i] = copysignf(4, values[i]);
            cshim_encode_with(id, CSHIM_FLOAT32, values, COUNT, &encoding, encoded);
            cshim_decode(id, CSHIM_FLOAT32, encoded, COUNT, decoded);
            for (size_t i = 0; i < COUNT; i++) {
                in[i] += (double)values[i];
                out[i] += (double)decoded[i];
            }
        }
        /* All sums of a value and a residual are at most 12. */
        double bound = (c % 2 + 1) * (info->bound_relative + info->bound_absolute) * 12;
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(fabs(out[i] - (in[i] - (double)residual[i])) < STEPS * 12 * 0x1p-23);
            assert_true(fabs((double)residual[i]) <= bound);
        }
    }
}

/* Values that are too small for a code are transmitted after some steps. */
TEST(small_values_arrive)
{
    double total = 0;
    memset(residual, 0, sizeof residual);
    for (int step = 0; step < 1000; step++) {
        struct cshim_encoding encoding = {.residual = residual};
        values[0] = 7;
        values[1] = 0.01f;
        cshim_encode_with(CSHIM_CODEC_INT4, CSHIM_FLOAT32, values, 2, &encoding, encoded);
        cshim_decode(CSHIM_CODEC_INT4, CSHIM_FLOAT32, encoded, 2, decoded);
        total += (double)decoded[1];
    }
    assert_true(fabs(total - 10) <= 0.51);
}

/* With the largest floats, the sum with a residual would overflow. */
TEST(finite_values_stay_finite)
{
    for (int id = CSHIM_CODEC_FP32; id < CSHIM_CODEC_COUNT; id++) {
        for (size_t i = 0; i < COUNT; i++) {
            values[i] = i % 2 != 0 ? -FLT_MAX : FLT_MAX;
            residual[i] = values[i] * 0x1p-5f;
        }
        for (int step = 0; step < 4; step++) {
            struct cshim_encoding encoding = {residual, step % 2 == 1, 1, 0, 0, 0};
            cshim_encode_with((enum cshim_codec_id)id, CSHIM_FLOAT32, values, COUNT, &encoding,
                              encoded);
            cshim_decode((enum cshim_codec_id)id, CSHIM_FLOAT32, encoded, COUNT, decoded);
            for (size_t i = 0; i < COUNT; i++)
                assert_true(isfinite(decoded[i]) && isfinite(residual[i]));
        }
    }
}

TEST(raw_leaves_the_residual_alone)
{
    static float before[COUNT];
    struct cshim_encoding encoding = {residual, true, 1, 0, 0, 0};
    fill(PATTERN_MIXED, 1, values, COUNT);
    fill(PATTERN_NORMAL, 2, residual, COUNT);
    memcpy(before, residual, sizeof before);
    cshim_encode_with(CSHIM_CODEC_RAW, CSHIM_FLOAT32, values, COUNT, &encoding, encoded);
    assert_memory_equal(encoded, values, sizeof values);
    const void *const parts[] = {encoded};
    cshim_reduce_with(CSHIM_CODEC_RAW, CSHIM_FLOAT32, parts, 1, COUNT, decoded, again, &encoding);
    assert_memory_equal(decoded, again, sizeof decoded);
    assert_memory_equal(residual, before, sizeof residual);
}

/* int4 converts elements of other types to float32 before encoding; residuals are differences from
 * the converted elements. */
TEST(other_types_are_widened_first)
{
    static double wide[COUNT];
    static uint16_t halves[COUNT];
    static float expected[COUNT];
    for (int step = 0; step < 6; step++) {
        enum cshim_dtype dtype = step % 2 == 0 ? CSHIM_FLOAT64 : CSHIM_BFLOAT16;
        const void *input = step % 2 == 0 ? (const void *)wide : halves;
        fill(PATTERN_MIXED, (uint64_t)step, values, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            halves[i] = (uint16_t)(bits_of(values[i]) >> 16);
            values[i] = step % 2 == 0 ? values[i] : float_of((uint32_t)halves[i] << 16);
            wide[i] = (double)values[i];
        }
        fill(PATTERN_NORMAL, 8, residual, COUNT);
        memcpy(expected, residual, sizeof expected);
        struct cshim_encoding encoding = {residual, step > 2, 5, 2, 0, 0};
        cshim_encode_with(CSHIM_CODEC_INT4, dtype, input, COUNT, &encoding, encoded);
        encoding.residual = expected;
        cshim_encode_with(CSHIM_CODEC_INT4, CSHIM_FLOAT32, values, COUNT, &encoding, again);
        assert_memory_equal(encoded, again, encoded_bytes(CSHIM_CODEC_INT4));
        assert_memory_equal(residual, expected, sizeof residual);
    }
}

/* A reduction encodes the sum plus its residual, but returns the sum without it. */
TEST(sums_are_encoded_like_other_values)
{
    static uint8_t ranks[RANKS][COUNT * 4 + 64];
    static float sum[COUNT], plain[COUNT], expected[COUNT];
    const void *const parts[RANKS] = {ranks[0], ranks[1], ranks[2]};
    for (size_t c = 0; c < 3 * SCALED_CODECS; c++) {
        enum cshim_codec_id id = scaled_codecs[c / 3];
        fill(PATTERN_NORMAL, 8, residual, COUNT);
        memcpy(expected, residual, sizeof expected);
        for (unsigned rank = 0; rank < RANKS; rank++) {
            fill(rank == 1 ? PATTERN_ONE_NAN : PATTERN_SPIKE, rank, values, COUNT);
            cshim_encode(id, CSHIM_FLOAT32, values, COUNT, ranks[rank]);
        }
        struct cshim_encoding encoding = {c % 3 > 0 ? residual : NULL, c % 3 != 1, 5, 2, 0, 0};
        cshim_reduce(id, CSHIM_FLOAT32, parts, RANKS, COUNT, plain, NULL);
        cshim_reduce_with(id, CSHIM_FLOAT32, parts, RANKS, COUNT, sum, encoded, &encoding);
        assert_memory_equal(sum, plain, sizeof sum);
        encoding.residual = c % 3 > 0 ? expected : NULL;
        cshim_encode_with(id, CSHIM_FLOAT32, plain, COUNT, &encoding, again);
        assert_memory_equal(encoded, again, encoded_bytes(id));
        assert_memory_equal(residual, expected, sizeof residual);
    }
}

/* int8 converts sums of float64 to float32 before it encodes them. */
TEST(wide_sums_are_narrowed_first)
{
    static double wide[COUNT], sum[COUNT];
    static float narrow[COUNT], expected[COUNT];
    const void *const parts[] = {again, again};
    fill(PATTERN_NORMAL, 1, values, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        wide[i] = (double)values[i] * 1.000000001;
    cshim_encode(CSHIM_CODEC_INT8, CSHIM_FLOAT64, wide, COUNT, again);
    memset(residual, 0, sizeof residual);
    memset(expected, 0, sizeof expected);
    struct cshim_encoding encoding = {residual, true, 5, 2, 0, 0};
    cshim_reduce_with(CSHIM_CODEC_INT8, CSHIM_FLOAT64, parts, 2, COUNT, sum, encoded, &encoding);
    for (size_t i = 0; i < COUNT; i++)
        narrow[i] = (float)sum[i];
    encoding.residual = expected;
    cshim_encode_with(CSHIM_CODEC_INT8, CSHIM_FLOAT32, narrow, COUNT, &encoding, again);
    assert_memory_equal(encoded, again, encoded_bytes(CSHIM_CODEC_INT8));
    assert_memory_equal(residual, expected, sizeof residual);
}

/* Tests counts from 1 to 299, and that nothing is written after the encoding or the residuals. */
TEST(every_short_count)
{
    fill(PATTERN_MIXED, 3, values, COUNT);
    for (size_t c = 0; c < SCALED_CODECS; c++) {
        for (size_t count = 1; count < 300; count++) {
            size_t bytes = cshim_encoded_bytes(scaled_codecs[c], CSHIM_FLOAT32, count);
            struct cshim_encoding encoding = {residual, count % 2 == 0, 3, count % 3, 0, 0};
            memset(encoded, 0x5a, sizeof encoded);
            memset(residual, 0, sizeof residual);
            residual[count] = 42;
            cshim_encode_with(scaled_codecs[c], CSHIM_FLOAT32, values, count, &encoding, encoded);
            assert_true(residual[count] == 42);
            assert_int_equal(encoded[bytes], 0x5a);
            cshim_decode(scaled_codecs[c], CSHIM_FLOAT32, encoded, count, decoded);
            for (size_t i = 0; i < count; i++)
                assert_true(!isfinite(values[i]) || residual[i] == values[i] - decoded[i]);
        }
    }
}
