/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the documented properties: error bounds, non-finite elements, sums in rank order, and the
 * other element types. */
#include "test_codec_data.h"

enum { COUNT = 4096 + 77, RANKS = 5 };

static uint8_t encoded[RANKS][COUNT * 8 + 64];
static uint8_t reencoded[COUNT * 8 + 64];
static const void *const parts[RANKS] = {encoded[0], encoded[1], encoded[2], encoded[3],
                                         encoded[4]};

/* Encodes and decodes values, with rounding to nearest or stochastic rounding. */
static void encode_decode(enum cshim_codec_id id, bool at_random, const float *values,
                          float *decoded)
{
    const struct cshim_encoding encoding = {.stochastic = at_random, .key = 2};
    cshim_encode_with(id, CSHIM_FLOAT32, values, COUNT, &encoding, encoded[0]);
    cshim_decode(id, CSHIM_FLOAT32, encoded[0], COUNT, decoded);
}

/* Returns the largest finite magnitude of element i's block. */
static double block_largest(const double *values, size_t i, size_t block)
{
    double largest = 0;
    size_t begin = i / block * block;
    for (size_t k = begin; k < begin + block && k < COUNT; k++)
        largest = isfinite(values[k]) ? fmax(largest, fabs(values[k])) : largest;
    return largest;
}

/* Returns the largest |error| that the codec's description allows for element i. */
static double allowed_error(const struct cshim_codec_info *info, const double *values, size_t i)
{
    return info->bound_relative * fabs(values[i]) +
           info->bound_absolute * block_largest(values, i, info->block) + info->bound_floor;
}

/* The bound of stochastic rounding is twice that of rounding to nearest. */
TEST(errors_keep_to_the_bounds)
{
    static float values[COUNT], decoded[COUNT];
    static double exact[COUNT];
    for (int pattern = 0; pattern < PATTERN_COUNT; pattern++) {
        fill((enum pattern)pattern, 3, values, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            exact[i] = (double)values[i];
        for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
            const struct cshim_codec_info *info = cshim_codec_info((enum cshim_codec_id)id);
            for (int times = 1; times <= 2; times++) {
                encode_decode(info->id, times == 2, values, decoded);
                for (size_t i = 0; i < COUNT; i++) {
                    double error = fabs((double)decoded[i] - exact[i]);
                    if (isfinite(values[i]) && !(error <= times * allowed_error(info, exact, i))) {
                        fail_msg("%s, pattern %d: %a became %a", info->name, pattern, exact[i],
                                 (double)decoded[i]);
                    }
                }
            }
        }
    }
}

/* The documented typical error is that of normal data, within a tenth. */
TEST(typical_errors_are_as_published)
{
    enum { MANY = 1 << 16 };
    float *values = allocate(MANY * sizeof *values), *decoded = allocate(MANY * sizeof *values);
    void *wire = allocate(MANY * 4);
    fill(PATTERN_NORMAL, 9, values, MANY);
    for (size_t c = 0; c < SCALED_CODECS; c++) {
        double error = 0, norm = 0;
        cshim_encode(scaled_codecs[c], CSHIM_FLOAT32, values, MANY, wire);
        cshim_decode(scaled_codecs[c], CSHIM_FLOAT32, wire, MANY, decoded);
        for (size_t i = 0; i < MANY; i++) {
            double difference = (double)decoded[i] - (double)values[i];
            error += difference * difference;
            norm += (double)values[i] * (double)values[i];
        }
        double ratio = sqrt(error / norm) / cshim_codec_info(scaled_codecs[c])->typical;
        if (!(ratio > 0.9 && ratio < 1.1)) {
            fail_msg("%s: typical error %.3g", cshim_codec_name(scaled_codecs[c]),
                     sqrt(error / norm));
        }
    }
    free(wire);
    free(decoded);
    free(values);
}

/* An infinity stays the same if the format has infinities; any other non-finite element becomes the
 * canonical NaN. Its neighbours' codes and scale are those of a block with a zero instead of it. */
TEST(non_finites_stay_and_do_no_harm)
{
    static float values[COUNT], decoded[COUNT], clean[COUNT];
    const float specials[] = {INFINITY, -INFINITY, NAN, -NAN, float_of(0x7f800001u)};
    for (size_t c = 0; c < 2 * SCALED_CODECS; c++) {
        enum cshim_codec_id id = scaled_codecs[c / 2];
        bool keeps_infinity = cshim_codec_info(id)->keeps_infinity;
        for (size_t s = 0; s < COUNT_OF(specials); s++) {
            fill(PATTERN_NORMAL, 4, values, COUNT);
            for (size_t at = s; at < COUNT; at += 333)
                values[at] = 0;
            encode_decode(id, c % 2 == 1, values, clean);
            for (size_t at = s; at < COUNT; at += 333)
                values[at] = specials[s];
            encode_decode(id, c % 2 == 1, values, decoded);
            for (size_t i = 0; i < COUNT; i++) {
                uint32_t expected = bits_of(clean[i]);
                if (i % 333 == s) {
                    bool is_kept = isinf(specials[s]) && keeps_infinity;
                    expected = is_kept ? bits_of(specials[s]) : 0x7fc00000u;
                }
                assert_int_equal(bits_of(decoded[i]), expected);
            }
        }
    }
}

TEST(zeros_keep_their_sign_where_published)
{
    static float values[COUNT], decoded[COUNT];
    fill(PATTERN_MINUS_ZERO, 1, values, COUNT);
    for (size_t c = 0; c < SCALED_CODECS; c++) {
        uint32_t expected = cshim_codec_info(scaled_codecs[c])->keeps_minus_zero ? 0x80000000u : 0;
        encode_decode(scaled_codecs[c], false, values, decoded);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(bits_of(decoded[i]), expected);
    }
}

/* Decodes each contribution and adds them in float32 in rank order, one addition at a time. */
static void expected_sum(enum cshim_codec_id id, unsigned ranks, float *sum)
{
    static float decoded[COUNT];
    cshim_decode(id, CSHIM_FLOAT32, parts[0], COUNT, sum);
    for (unsigned rank = 1; rank < ranks; rank++) {
        cshim_decode(id, CSHIM_FLOAT32, parts[rank], COUNT, decoded);
        for (size_t i = 0; i < COUNT; i++) {
            volatile float total = sum[i] + decoded[i];
            sum[i] = isnan(total) ? float_of(0x7fc00000u) : total;
        }
    }
}

TEST(reductions_add_in_rank_order)
{
    static float values[COUNT], sum[COUNT], expected[COUNT];
    static uint8_t expected_bytes[COUNT * 4 + 64];
    for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
        enum cshim_codec_id codec = (enum cshim_codec_id)id;
        size_t bytes = cshim_encoded_bytes(codec, CSHIM_FLOAT32, COUNT);
        for (unsigned rank = 0; rank < RANKS; rank++) {
            fill(rank == 3 ? PATTERN_ONE_INFINITY : PATTERN_SPIKE, rank, values, COUNT);
            cshim_encode(codec, CSHIM_FLOAT32, values, COUNT, encoded[rank]);
        }
        for (unsigned ranks = 1; ranks <= RANKS; ranks++) {
            expected_sum(codec, ranks, expected);
            cshim_encode(codec, CSHIM_FLOAT32, expected, COUNT, expected_bytes);
            cshim_reduce(codec, CSHIM_FLOAT32, parts, ranks, COUNT, sum, reencoded);
            assert_memory_equal(sum, expected, sizeof sum);
            assert_memory_equal(reencoded, expected_bytes, bytes);
            memset(sum, 0, sizeof sum);
            memset(reencoded, 0, sizeof reencoded);
            cshim_reduce(codec, CSHIM_FLOAT32, parts, ranks, COUNT, NULL, reencoded);
            cshim_reduce(codec, CSHIM_FLOAT32, parts, ranks, COUNT, sum, NULL);
            assert_memory_equal(sum, expected, sizeof sum);
            assert_memory_equal(reencoded, expected_bytes, bytes);
        }
    }
}

/* Integers up to 16 are exact codes of e4m3 with the scales of these blocks, so their sums are
 * exact. */
TEST(small_whole_numbers_are_summed_exactly)
{
    static float values[COUNT], sum[COUNT], total[COUNT];
    memset(total, 0, sizeof total);
    for (unsigned rank = 0; rank < RANKS; rank++) {
        for (size_t i = 0; i < COUNT; i++) {
            values[i] = (float)((i * 7 + rank * 3) % 7) - 3;
            total[i] += values[i];
        }
        cshim_encode(CSHIM_CODEC_FP8_E4M3, CSHIM_FLOAT32, values, COUNT, encoded[rank]);
    }
    cshim_reduce(CSHIM_CODEC_FP8_E4M3, CSHIM_FLOAT32, parts, RANKS, COUNT, NULL, reencoded);
    cshim_decode(CSHIM_CODEC_FP8_E4M3, CSHIM_FLOAT32, reencoded, COUNT, sum);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(sum[i] == total[i]);
}

/* fp16 converts float64 to float32 once for encoding, saturating, and sums it in float64. */
TEST(doubles_are_narrowed_and_summed_wide)
{
    static double values[COUNT], sum[COUNT], expected[COUNT];
    static float narrow[COUNT], single[COUNT];
    for (unsigned rank = 0; rank < RANKS; rank++) {
        fill(PATTERN_NORMAL, rank, narrow, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            values[i] = (double)narrow[i] * (1 + 1e-9) * (i % 1000 == 999 ? 1e300 : 1);
            volatile float rounded = (float)values[i];
            narrow[i] = isinf(rounded) ? copysignf(FLT_MAX, rounded) : rounded;
        }
        cshim_encode(CSHIM_CODEC_FP16, CSHIM_FLOAT64, values, COUNT, encoded[rank]);
        cshim_encode(CSHIM_CODEC_FP16, CSHIM_FLOAT32, narrow, COUNT, reencoded);
        assert_memory_equal(encoded[rank], reencoded,
                            cshim_encoded_bytes(CSHIM_CODEC_FP16, CSHIM_FLOAT64, COUNT));
        cshim_decode(CSHIM_CODEC_FP16, CSHIM_FLOAT64, encoded[rank], COUNT, values);
        cshim_decode(CSHIM_CODEC_FP16, CSHIM_FLOAT32, encoded[rank], COUNT, single);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(values[i] == (double)single[i]);
            expected[i] = rank == 0 ? values[i] : expected[i] + values[i];
        }
    }
    cshim_reduce(CSHIM_CODEC_FP16, CSHIM_FLOAT64, parts, RANKS, COUNT, sum, NULL);
    assert_memory_equal(sum, expected, sizeof sum);
}

TEST(raw_doubles_are_exact)
{
    static double values[COUNT], sum[COUNT], expected[COUNT], again[COUNT];
    uint64_t random = 21;
    for (unsigned rank = 0; rank < RANKS; rank++) {
        for (size_t i = 0; i < COUNT; i++) {
            values[i] = (double)next_normal(&random) * 1e-200;
            values[i] += ldexp(values[i], -40);
            expected[i] = rank == 0 ? values[i] : expected[i] + values[i];
        }
        cshim_encode(CSHIM_CODEC_RAW, CSHIM_FLOAT64, values, COUNT, encoded[rank]);
        assert_memory_equal(encoded[rank], values, sizeof values);
    }
    cshim_reduce(CSHIM_CODEC_RAW, CSHIM_FLOAT64, parts, RANKS, COUNT, sum, reencoded);
    cshim_decode(CSHIM_CODEC_RAW, CSHIM_FLOAT64, reencoded, COUNT, again);
    assert_memory_equal(sum, expected, sizeof sum);
    assert_memory_equal(again, expected, sizeof sum);
}

/* With raw, the decoded sums may overwrite any of the inputs, if the sums are encoded too. */
TEST(raw_sums_in_place)
{
    static _Alignas(double) uint8_t home[COUNT * sizeof(float)], sums[COUNT * 8 + 64];
    const size_t bytes = (COUNT - 1) * sizeof(float); /* a multiple of the size of a double, too */
    uint64_t random = 22;
    for (enum cshim_dtype dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++)
        for (unsigned ranks = 1; ranks <= RANKS; ranks++)
            for (unsigned own = 0; own < ranks; own++) {
                const size_t count = bytes / cshim_dtype_bytes(dtype);
                const void *mixed[RANKS];
                for (unsigned rank = 0; rank < ranks; rank++) {
                    for (size_t i = 0; i < COUNT - 1; i++) {
                        const float value = next_normal(&random);
                        memcpy(encoded[rank] + i * sizeof value, &value, sizeof value);
                    }
                    mixed[rank] = rank == own ? home : encoded[rank];
                }
                memcpy(home, encoded[own], bytes);
                cshim_reduce(CSHIM_CODEC_RAW, dtype, parts, ranks, count, NULL, sums);
                cshim_reduce(CSHIM_CODEC_RAW, dtype, mixed, ranks, count, home, reencoded);
                assert_memory_equal(home, sums, bytes);
                assert_memory_equal(reencoded, sums, bytes);
            }
}

/* 16-bit elements are summed in float32 and rounded once: 2048 + 1 + 1 is 2050 in float16 though
 * 2048 + 1 is not a float16; 256 + 1 + 1 likewise in bfloat16. */
TEST(sixteen_bit_sums_are_rounded_once)
{
    const struct {
        enum cshim_dtype dtype;
        uint16_t large, one, sum;
    } cases[] = {{CSHIM_FLOAT16, 0x6800, 0x3c00, 0x6801}, {CSHIM_BFLOAT16, 0x4380, 0x3f80, 0x4381}};
    for (size_t c = 0; c < 2; c++) {
        uint16_t values[100], sum[100];
        for (unsigned rank = 0; rank < 3; rank++) {
            for (size_t i = 0; i < 100; i++)
                values[i] = rank == 0 ? cases[c].large : cases[c].one;
            cshim_encode(CSHIM_CODEC_RAW, cases[c].dtype, values, 100, encoded[rank]);
        }
        cshim_reduce(CSHIM_CODEC_RAW, cases[c].dtype, parts, 3, 100, sum, reencoded);
        for (size_t i = 0; i < 100; i++)
            assert_int_equal(sum[i], cases[c].sum);
        assert_memory_equal(sum, reencoded, sizeof sum);
    }
}

/* A float16 sum that overflows is Inf, because programs check for it; bfloat16 has float32's range.
 */
TEST(sixteen_bit_overflow)
{
    uint16_t values[64], sum[64];
    for (size_t i = 0; i < 64; i++)
        values[i] = i % 2 == 0 ? 0x7bff : 0xfbff;
    cshim_encode(CSHIM_CODEC_FP16, CSHIM_FLOAT16, values, 64, encoded[0]);
    memcpy(encoded[1], encoded[0], sizeof encoded[0]);
    cshim_reduce(CSHIM_CODEC_FP16, CSHIM_FLOAT16, parts, 2, 64, sum, reencoded);
    assert_int_equal(sum[0], 0x7c00);
    assert_int_equal(sum[1], 0xfc00);
    cshim_decode(CSHIM_CODEC_FP16, CSHIM_FLOAT16, reencoded, 64, sum);
    assert_int_equal(sum[0], 0x7c00);
    assert_int_equal(sum[1], 0xfc00);
    for (size_t i = 0; i < 64; i++)
        values[i] = 0x7f7f;
    cshim_encode(CSHIM_CODEC_FP8_E4M3, CSHIM_BFLOAT16, values, 64, encoded[0]);
    cshim_decode(CSHIM_CODEC_FP8_E4M3, CSHIM_BFLOAT16, encoded[0], 64, sum);
    assert_int_equal(sum[0], 0x7f7f);
}
