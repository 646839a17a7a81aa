/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the codec topk: which elements of a grain are sent; that all others stay in the residual,
 * and nothing is lost over many calls; non-finite elements; encoding without a residual; and
 * damaged messages. */
#include "test_codec_data.h"

enum { MOST = 3000, KEEP = 5 };

static float values[MOST], residual[MOST], wanted[MOST], decoded[MOST];
static uint8_t encoded[MOST * 4 + 64], again[MOST * 4 + 64];

static size_t most_bytes(size_t count)
{
    return cshim_encoded_bytes(CSHIM_CODEC_TOPK, CSHIM_FLOAT32, count);
}

static void transfer(size_t count, unsigned keep, float *rest)
{
    const struct cshim_encoding encoding = {.residual = rest, .keep = keep};
    cshim_encode_with(CSHIM_CODEC_TOPK, CSHIM_FLOAT32, values, count, &encoding, encoded);
    cshim_decode(CSHIM_CODEC_TOPK, CSHIM_FLOAT32, encoded, count, decoded);
}

/* Returns the number of finite elements of a grain that precede element i, ordered by decreasing
 * magnitude, then by index. */
static size_t rank_of(const float *grain, size_t length, size_t i)
{
    size_t rank = 0;
    for (size_t j = 0; j < length; j++) {
        const float magnitude = fabsf(grain[j]);
        const bool is_before = j < i;
        rank += isfinite(magnitude) &&
                (magnitude > fabsf(grain[i]) || (magnitude == fabsf(grain[i]) && is_before));
    }
    return rank;
}

/* Checks a grain whose elements plus residuals are `wanted`: the KEEP largest are sent with int4's
 * error, and the others are unchanged in the residual. */
static void check_grain(size_t begin, size_t length)
{
    float largest = 0;
    for (size_t i = begin; i < begin + length; i++)
        largest = isfinite(wanted[i]) ? fmaxf(largest, fabsf(wanted[i])) : largest;
    for (size_t i = begin; i < begin + length; i++) {
        volatile float lost = wanted[i] - decoded[i];
        if (!isfinite(wanted[i])) {
            assert_int_equal(bits_of(decoded[i]), 0x7fc00000);
            assert_true(residual[i] == 0);
        } else if (rank_of(wanted + begin, length, i - begin) < KEEP) {
            assert_true(residual[i] == lost && fabsf(lost) <= largest * 0.072f + 0x1p-145f);
        } else {
            assert_true(decoded[i] == 0 && residual[i] == wanted[i]);
        }
    }
}

TEST(the_largest_are_sent_and_the_others_wait)
{
    for (int trial = 0; trial < 12 * PATTERN_COUNT; trial++) {
        const size_t count = trial % 3 == 0 ? MOST : (size_t)(1 + trial * 37 % 700);
        fill((enum pattern)(trial % PATTERN_COUNT), (uint64_t)trial, values, count);
        if (trial % 2 == 0)
            memset(residual, 0, sizeof residual);
        for (size_t i = 0; i < count; i++) {
            volatile float sum = values[i] + residual[i];
            wanted[i] = !isfinite(values[i]) ? values[i]
                        : isinf(sum)         ? copysignf(FLT_MAX, sum)
                                             : sum;
        }
        transfer(count, KEEP, residual);
        assert_true(cshim_encoded_length(CSHIM_CODEC_TOPK, CSHIM_FLOAT32, count, encoded) <=
                    most_bytes(count));
        for (size_t begin = 0; begin < count; begin += CSHIM_GRAIN)
            check_grain(begin, count - begin < CSHIM_GRAIN ? count - begin : CSHIM_GRAIN);
    }
}

/* Nothing is lost over many calls, even if the elements are small or decrease fast. */
TEST(nothing_is_lost_over_many_calls)
{
    static double in[MOST], out[MOST];
    enum { CALLS = 200 };
    memset(residual, 0, sizeof residual);
    for (int call = 0; call < CALLS; call++) {
        fill(PATTERN_NORMAL, (uint64_t)call, values, MOST);
        for (size_t i = 0; i < MOST; i++)
            values[i] *= call < CALLS / 2 ? 1 : 0x1p-12f;
        transfer(MOST, KEEP, residual);
        for (size_t i = 0; i < MOST; i++) {
            in[i] += (double)values[i];
            out[i] += (double)decoded[i];
        }
    }
    for (size_t i = 0; i < MOST; i++)
        assert_true(fabs(in[i] - out[i] - (double)residual[i]) < CALLS * 0x1p-18);
}

/* With four of 256 elements sent, in 4 bits each, a message has 91 times fewer bytes. If all
 * elements are NaN, all are sent. */
TEST(messages_are_short)
{
    fill(PATTERN_NORMAL, 1, values, 256 * 10);
    memset(residual, 0, sizeof residual);
    transfer(256 * 10, 4, residual);
    assert_int_equal(cshim_encoded_length(CSHIM_CODEC_TOPK, CSHIM_FLOAT32, 256 * 10, encoded), 112);
    for (size_t i = 0; i < 256; i++)
        values[i] = NAN;
    transfer(256, 4, residual);
    assert_int_equal(cshim_encoded_length(CSHIM_CODEC_TOPK, CSHIM_FLOAT32, 256, encoded),
                     most_bytes(256));
}

/* Without a residual (no memory for it) all elements but zeros are sent, with int4's error. */
TEST(without_a_residual_all_are_sent)
{
    fill(PATTERN_NORMAL, 4, values, MOST);
    transfer(MOST, KEEP, NULL);
    for (size_t i = 0; i < MOST; i++)
        assert_true(fabsf(decoded[i] - values[i]) < 0.5f &&
                    (decoded[i] != 0 || fabsf(values[i]) < 0.5f));
}

/* A reduction packs the sum, and keeps what is not sent in the residual. */
TEST(sums_are_packed_like_other_values)
{
    static float sum[MOST], expected[MOST];
    static uint8_t ranks[2][MOST * 4 + 64];
    const void *const parts[] = {ranks[0], ranks[1]};
    for (unsigned rank = 0; rank < 2; rank++) {
        fill(PATTERN_ONE_NAN, rank, values, MOST);
        memset(residual, 0, sizeof residual);
        const struct cshim_encoding encoding = {.residual = residual, .keep = KEEP};
        cshim_encode_with(CSHIM_CODEC_TOPK, CSHIM_FLOAT32, values, MOST, &encoding, ranks[rank]);
    }
    fill(PATTERN_NORMAL, 8, residual, MOST);
    memcpy(expected, residual, sizeof expected);
    struct cshim_encoding encoding = {.residual = residual, .keep = KEEP};
    cshim_reduce_with(CSHIM_CODEC_TOPK, CSHIM_FLOAT32, parts, 2, MOST, sum, encoded, &encoding);
    encoding.residual = expected;
    cshim_encode_with(CSHIM_CODEC_TOPK, CSHIM_FLOAT32, sum, MOST, &encoding, again);
    assert_memory_equal(encoded, again, most_bytes(MOST));
    assert_memory_equal(residual, expected, sizeof residual);
}

/* If a grain's length exceeds the message, this grain and all later ones are decoded to NaN. */
TEST(a_length_that_lies_gives_the_one_nan)
{
    fill(PATTERN_NORMAL, 1, values, 300);
    memset(residual, 0, sizeof residual);
    transfer(300, KEEP, residual);
    encoded[4] = encoded[5] = 0xff;
    cshim_decode(CSHIM_CODEC_TOPK, CSHIM_FLOAT32, encoded, 300, decoded);
    for (size_t i = 0; i < 300; i++)
        assert_int_equal(bits_of(decoded[i]), 0x7fc00000);
}

/* Decodes damaged messages to some elements, without reading beyond the largest encoded size, which
 * is allocated: AddressSanitizer finds such reads. */
TEST(messages_that_lie_do_no_harm)
{
    uint64_t random = 3;
    for (int trial = 0; trial < 6000; trial++) {
        const size_t count = 1 + next_random(&random) % 600, most = most_bytes(count);
        const struct cshim_encoding encoding = {.residual = residual, .keep = KEEP};
        uint8_t *message = malloc(most);
        float *elements = malloc(count * sizeof *elements);
        fill((enum pattern)(trial % PATTERN_COUNT), (uint64_t)trial, values, count);
        cshim_encode_with(CSHIM_CODEC_TOPK, CSHIM_FLOAT32, values, count, &encoding, message);
        for (int change = 0; change < 4; change++)
            message[next_random(&random) % (change < 2 && most > 24 ? 24 : most)] =
                (uint8_t)next_random(&random);
        cshim_decode(CSHIM_CODEC_TOPK, CSHIM_FLOAT32, message, count, elements);
        free(message);
        free(elements);
    }
}
