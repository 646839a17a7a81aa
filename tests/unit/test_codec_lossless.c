/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the codec lossless: all bits of elements of every type, at every SIMD level; sums equal to
 * those of raw; the ratio; and messages with wrong lengths. */
#include "test_codec_data.h"

enum { MOST = 6000, PARTS = 3, KINDS = 6 };

/* Returns element `i` of an array of this kind. 1: normal numbers, 2: many magnitudes, 3: mostly
 * zeros, 4: every second grain of zeros, 5: some not finite. Kind 0 gets random bits in
 * fill_elements, and float16 of other kinds random numbers up to 1, zero where this returns
 * zero. */
static double number(int kind, size_t i, uint64_t *state)
{
    const double normal = next_normal(state);
    const uint64_t random = next_random(state);
    switch (kind) {
    case 2:
        return ldexp(normal, (int)(random % 60) - 30);
    case 3:
        return random % 8 == 0 ? normal : 0;
    case 4:
        return i / CSHIM_GRAIN % 2 == 0 ? 0 : normal;
    case 5:
        return random % 100 != 0 ? normal : random % 200 == 0 ? INFINITY : NAN;
    default:
        return normal;
    }
}

static void fill_elements(enum cshim_dtype dtype, int kind, uint64_t seed, uint8_t *elements,
                          size_t count)
{
    static const uint16_t half_of_one = 0x3c00;
    const size_t bytes = cshim_dtype_bytes(dtype);
    for (size_t i = 0; i < count; i++) {
        const double value = number(kind, i, &seed);
        uint64_t bits = next_random(&seed);
        if (kind > 0 && dtype == CSHIM_FLOAT64)
            memcpy(&bits, &value, sizeof bits);
        else if (kind > 0 && dtype == CSHIM_FLOAT16) /* magnitudes from 1/64 to 1 */
            bits = value == 0 ? 0 : half_of_one - bits % 0x1800 + (bits & 0x8000);
        else if (kind > 0)
            bits = bits_of((float)value) >> (dtype == CSHIM_BFLOAT16 ? 16 : 0);
        memcpy(elements + i * bytes, &bits, bytes);
    }
}

static uint8_t parts[PARTS][MOST * 8], packed[PARTS][MOST * 9], output[MOST * 8];
static uint8_t sums[2][MOST * 9];

static void check(enum cshim_dtype dtype, int kind, size_t count)
{
    const size_t bytes = count * cshim_dtype_bytes(dtype);
    const size_t most = cshim_encoded_bytes(CSHIM_CODEC_LOSSLESS, dtype, count);
    const void *raw[PARTS], *encoded[PARTS];
    assert_true(most <= bytes + bytes / 100 + 32);
    for (unsigned i = 0; i < PARTS; i++) {
        fill_elements(dtype, kind, count + i, parts[i], count);
        cshim_encode(CSHIM_CODEC_LOSSLESS, dtype, parts[i], count, packed[i]);
        assert_true(cshim_encoded_length(CSHIM_CODEC_LOSSLESS, dtype, count, packed[i]) <= most);
        cshim_decode(CSHIM_CODEC_LOSSLESS, dtype, packed[i], count, output);
        assert_memory_equal(output, parts[i], bytes);
        raw[i] = parts[i];
        encoded[i] = packed[i];
    }
    cshim_reduce(CSHIM_CODEC_RAW, dtype, raw, PARTS, count, output, sums[0]);
    assert_memory_equal(output, sums[0], bytes);
    cshim_reduce(CSHIM_CODEC_LOSSLESS, dtype, encoded, PARTS, count, output, sums[1]);
    assert_memory_equal(output, sums[0], bytes);
    cshim_decode(CSHIM_CODEC_LOSSLESS, dtype, sums[1], count, output);
    assert_memory_equal(output, sums[0], bytes);
}

TEST(every_bit_is_kept_and_sums_are_those_of_raw)
{
    for (int level = CSHIM_SIMD_SCALAR; level <= CSHIM_SIMD_AVX512; level++) {
        cshim_simd_limit((enum cshim_simd)level);
        for (int dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++)
            for (int kind = 0; kind < KINDS; kind++)
                for (size_t count = 1; count <= MOST; count = count * 5 / 4 + 1)
                    check((enum cshim_dtype)dtype, kind, count);
    }
}

static double ratio(enum cshim_dtype dtype, int kind)
{
    fill_elements(dtype, kind, 1, parts[0], MOST);
    cshim_encode(CSHIM_CODEC_LOSSLESS, dtype, parts[0], MOST, packed[0]);
    return (double)(MOST * cshim_dtype_bytes(dtype)) /
           (double)cshim_encoded_length(CSHIM_CODEC_LOSSLESS, dtype, MOST, packed[0]);
}

/* Checks lower bounds of the compression ratios. */
TEST(messages_become_shorter)
{
    assert_true(ratio(CSHIM_FLOAT32, 0) > 0.99 && ratio(CSHIM_FLOAT16, 0) > 0.99);
    assert_true(ratio(CSHIM_FLOAT32, 1) > 1.16);
    assert_true(ratio(CSHIM_FLOAT64, 1) > 1.12);
    assert_true(ratio(CSHIM_BFLOAT16, 1) > 1.38);
    assert_true(ratio(CSHIM_FLOAT32, 3) > 5);
    assert_true(ratio(CSHIM_FLOAT32, 4) > 2.2);
}

/* Decodes damaged messages to some elements, without reading beyond the largest encoded size, which
 * is allocated: AddressSanitizer finds such reads. */
TEST(lengths_that_lie_do_no_harm)
{
    uint64_t random = 3;
    for (int trial = 0; trial < 4000; trial++) {
        const enum cshim_dtype dtype = (enum cshim_dtype)(trial % CSHIM_DTYPE_COUNT);
        const size_t count = 1 + next_random(&random) % 600;
        const size_t most = cshim_encoded_bytes(CSHIM_CODEC_LOSSLESS, dtype, count);
        uint8_t *message = malloc(most), *elements = malloc(count * cshim_dtype_bytes(dtype));
        fill_elements(dtype, trial % KINDS, (uint64_t)trial, parts[0], count);
        cshim_encode(CSHIM_CODEC_LOSSLESS, dtype, parts[0], count, message);
        for (int change = 0; change < 4; change++)
            message[next_random(&random) % (change < 2 && most > 16 ? 16 : most)] =
                (uint8_t)next_random(&random);
        assert_true(cshim_encoded_length(CSHIM_CODEC_LOSSLESS, dtype, count, message) <= most);
        cshim_decode(CSHIM_CODEC_LOSSLESS, dtype, message, count, elements);
        free(message);
        free(elements);
    }
}

/* A grain whose exponents are all equal has no escapes: one that claims an escape is invalid. */
TEST(escapes_without_codes_become_nans)
{
    enum { COUNT = 9, TABLE = 6, GRAIN = 4 + 3 * COUNT };
    uint8_t message[64] = {TABLE + GRAIN, 0, 0, 0, GRAIN, 0, 0, 0, 127};
    float elements[COUNT];
    assert_true(cshim_encoded_bytes(CSHIM_CODEC_LOSSLESS, CSHIM_FLOAT32, COUNT) <= sizeof message);
    cshim_decode(CSHIM_CODEC_LOSSLESS, CSHIM_FLOAT32, message, COUNT, elements);
    assert_true(elements[COUNT - 1] == 1);
    message[0]++, message[4]++, message[TABLE + 1] = 1;
    cshim_decode(CSHIM_CODEC_LOSSLESS, CSHIM_FLOAT32, message, COUNT, elements);
    assert_true(isnan(elements[0]) && isnan(elements[COUNT - 1]));
}
