/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that results are the same at every SIMD level, and do not depend on the alignment, on the
 * caller's floating-point environment and, except for packed codecs, on cuts at grains; most of
 * this also with error feedback and stochastic rounding. */
#include "test_codec_data.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { LONGEST = 5000, RANKS = 3, KEY = 9, FIRST = 1001 };

/* Encoding options, as bits. */
enum { PLAIN, FEEDBACK, STOCHASTIC, MODES = 4 };

/* All results for one input and one codec. */
struct results {
    uint8_t encoded[RANKS][LONGEST * 8 + 64];
    uint8_t reencoded[LONGEST * 8 + 64];
    uint8_t decoded[LONGEST * 8];
    uint8_t sum[LONGEST * 8];
    uint32_t residual[LONGEST + 1]; /* floats, to be compared by their bits */
};

static struct results expected, found;
static double inputs[RANKS][LONGEST + 1];
static float residuals[LONGEST];

/* Returns the options of a mode, for elements from `begin` on. */
static struct cshim_encoding options(int mode, float *residual, size_t begin)
{
    return (struct cshim_encoding){.residual = mode & FEEDBACK ? residual + begin : NULL,
                                   .stochastic = (mode & STOCHASTIC) != 0,
                                   .key = KEY,
                                   .first = FIRST + begin,
                                   .keep = 5};
}

static void compute(enum cshim_codec_id id, enum cshim_dtype dtype, int mode, size_t offset,
                    size_t count, struct results *results)
{
    const void *parts[RANKS];
    memset(results, 0xa5, sizeof *results);
    if (id == CSHIM_CODEC_TOPK && dtype != CSHIM_FLOAT32)
        return; /* topk reads nothing else */
    memcpy(results->residual, residuals, count * sizeof *residuals);
    const struct cshim_encoding encoding = options(mode, (float *)(void *)results->residual, 0);
    for (unsigned rank = 0; rank < RANKS; rank++) {
        const uint8_t *input = (const uint8_t *)inputs[rank] + offset * cshim_dtype_bytes(dtype);
        cshim_encode_with(id, dtype, input, count, &encoding, results->encoded[rank]);
        parts[rank] = results->encoded[rank];
    }
    cshim_decode(id, dtype, parts[0], count, results->decoded);
    cshim_reduce_with(id, dtype, parts, RANKS, count, results->sum, results->reencoded, &encoding);
}

static void fill_inputs(enum cshim_dtype dtype, enum pattern pattern)
{
    fill(PATTERN_NORMAL, 8, residuals, LONGEST);
    for (unsigned rank = 0; rank < RANKS; rank++) {
        static float values[LONGEST + 1];
        fill(pattern, rank + 1, values, LONGEST + 1);
        if (dtype == CSHIM_FLOAT32) {
            memcpy(inputs[rank], values, sizeof values);
            continue;
        }
        for (size_t i = 0; dtype == CSHIM_FLOAT64 && i <= LONGEST; i++)
            inputs[rank][i] = (double)values[i] * 1.000000001;
        for (size_t i = 0; dtype != CSHIM_FLOAT64 && i <= LONGEST; i++) {
            uint16_t half = (uint16_t)(bits_of(values[i]) >> 16);
            memcpy((uint8_t *)inputs[rank] + 2 * i, &half, 2);
        }
    }
}

static void assert_same_results(enum cshim_codec_id id, enum cshim_dtype dtype, size_t count,
                                const char *what)
{
    if (memcmp(&expected, &found, sizeof expected) != 0) {
        const uint8_t *a = (const uint8_t *)&expected, *b = (const uint8_t *)&found;
        size_t at = 0;
        while (a[at] == b[at])
            at++;
        fail_msg("%s of %s, count %zu, %s: byte %zu of the results is 0x%02x, not 0x%02x",
                 cshim_codec_name(id), cshim_dtype_name(dtype), count, what, at, b[at], a[at]);
    }
}

static void compare_levels(enum cshim_codec_id id, enum cshim_dtype dtype, int mode, size_t offset,
                           size_t count)
{
    enum cshim_simd best = cshim_simd_limit(CSHIM_SIMD_AVX512);
    assert_int_equal(cshim_simd_limit(CSHIM_SIMD_SCALAR), CSHIM_SIMD_SCALAR);
    compute(id, dtype, mode, offset, count, &expected);
    for (int level = CSHIM_SIMD_AVX2; level <= (int)best; level++) {
        assert_int_equal(cshim_simd_limit((enum cshim_simd)level), level);
        compute(id, dtype, mode, offset, count, &found);
        assert_same_results(id, dtype, count, cshim_simd_name((enum cshim_simd)level));
    }
    cshim_simd_limit(best);
}

TEST(levels_agree_on_difficult_data)
{
    for (int dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++) {
        for (int pattern = 0; pattern < PATTERN_COUNT; pattern++) {
            fill_inputs((enum cshim_dtype)dtype, (enum pattern)pattern);
            for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
                for (int mode = PLAIN; mode < MODES; mode++) {
                    compare_levels((enum cshim_codec_id)id, (enum cshim_dtype)dtype, mode, 0,
                                   LONGEST);
                }
            }
        }
    }
}

TEST(levels_agree_on_every_short_count)
{
    fill_inputs(CSHIM_FLOAT32, PATTERN_MIXED);
    for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
        for (size_t count = 0; count <= 600; count++) {
            compare_levels((enum cshim_codec_id)id, CSHIM_FLOAT32, (int)(count % MODES), count % 2,
                           count);
            assert_int_equal(expected.residual[count], 0xa5a5a5a5);
        }
    }
}

/* Decodes and sums random bytes: every byte string can be decoded, and all levels give the
 * same floats. */
TEST(levels_agree_on_any_bytes)
{
    enum cshim_simd best = cshim_simd_limit(CSHIM_SIMD_AVX512);
    uint64_t random = 7;
    for (int round = 0; round < 40; round++) {
        for (size_t i = 0; i < sizeof expected.encoded[0]; i++) {
            uint8_t byte = (uint8_t)next_random(&random);
            for (unsigned rank = 0; rank < RANKS; rank++)
                expected.encoded[rank][i] = (uint8_t)(byte ^ (rank << (byte & 7)));
        }
        const void *parts[RANKS] = {expected.encoded[0], expected.encoded[1], expected.encoded[2]};
        for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
            enum cshim_codec_id codec = (enum cshim_codec_id)id;
            cshim_simd_limit(CSHIM_SIMD_SCALAR);
            cshim_decode(codec, CSHIM_FLOAT32, parts[0], LONGEST, expected.decoded);
            cshim_reduce(codec, CSHIM_FLOAT32, parts, RANKS, LONGEST, expected.sum, NULL);
            for (int level = CSHIM_SIMD_AVX2; level <= (int)best; level++) {
                cshim_simd_limit((enum cshim_simd)level);
                cshim_decode(codec, CSHIM_FLOAT32, parts[0], LONGEST, found.decoded);
                cshim_reduce(codec, CSHIM_FLOAT32, parts, RANKS, LONGEST, found.sum, NULL);
                assert_memory_equal(expected.decoded, found.decoded, LONGEST * 4);
                assert_memory_equal(expected.sum, found.sum, LONGEST * 4);
            }
        }
    }
    cshim_simd_limit(best);
}

/* Encoded data may have any alignment, and what lies next to the encoded data and the decoded
 * elements is not written. */
TEST(alignment_and_surroundings_do_not_matter)
{
    enum { COUNT = 1111 };
    static uint8_t place[COUNT * 4 + 256];
    static float decoded[COUNT + 2];
    fill_inputs(CSHIM_FLOAT32, PATTERN_MIXED);
    for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
        enum cshim_codec_id codec = (enum cshim_codec_id)id;
        size_t bytes = cshim_encoded_bytes(codec, CSHIM_FLOAT32, COUNT);
        cshim_encode(codec, CSHIM_FLOAT32, inputs[0], COUNT, expected.encoded[0]);
        cshim_decode(codec, CSHIM_FLOAT32, expected.encoded[0], COUNT, expected.decoded);
        for (size_t offset = 1; offset < 67; offset += 2) {
            memset(place, 0x5a, sizeof place);
            memset(decoded, 0x5a, sizeof decoded);
            cshim_encode(codec, CSHIM_FLOAT32, inputs[0], COUNT, place + offset);
            cshim_decode(codec, CSHIM_FLOAT32, place + offset, COUNT, decoded + 1);
            assert_memory_equal(place + offset, expected.encoded[0], bytes);
            assert_memory_equal(decoded + 1, expected.decoded, COUNT * sizeof *decoded);
            assert_int_equal(place[offset - 1], 0x5a);
            assert_int_equal(place[offset + bytes], 0x5a);
            assert_int_equal(bits_of(decoded[0]), 0x5a5a5a5a);
            assert_int_equal(bits_of(decoded[COUNT + 1]), 0x5a5a5a5a);
        }
    }
}

/* Decodes to arrays so large that non-temporal stores are used: encoded bytes and decoded elements
 * are the same at all levels. */
TEST(levels_agree_on_large_arrays)
{
    enum { COUNT = (1 << 22) + 37 };
    enum cshim_simd best = cshim_simd_limit(CSHIM_SIMD_AVX512);
    float *input = allocate(COUNT * sizeof *input);
    uint8_t *encoded[2] = {allocate(COUNT * 5), allocate(COUNT * 5)};
    uint8_t *decoded[2] = {allocate(COUNT * 4 + 96), allocate(COUNT * 4 + 96)};
    fill(PATTERN_MIXED, 5, input, COUNT);
    for (int id = CSHIM_CODEC_FP32; id < CSHIM_CODEC_COUNT; id++) {
        enum cshim_codec_id codec = (enum cshim_codec_id)id;
        size_t bytes = cshim_encoded_bytes(codec, CSHIM_FLOAT32, COUNT);
        for (int level = 0; level <= (int)best; level++) {
            uint8_t *to = encoded[level > 0], *back = decoded[level > 0];
            to += 32 - (uintptr_t)to % 32;
            back += 32 - (uintptr_t)back % 32;
            cshim_simd_limit((enum cshim_simd)level);
            cshim_encode(codec, CSHIM_FLOAT32, input, COUNT, to);
            cshim_decode(codec, CSHIM_FLOAT32, to, COUNT, back);
            const uint8_t *first = encoded[0] + 32 - (uintptr_t)encoded[0] % 32;
            const uint8_t *first_back = decoded[0] + 32 - (uintptr_t)decoded[0] % 32;
            assert_int_equal(memcmp(to, first, bytes), 0);
            assert_int_equal(memcmp(back, first_back, COUNT * sizeof *input), 0);
        }
    }
    for (int i = 0; i < 2; i++) {
        free(encoded[i]);
        free(decoded[i]);
    }
    free(input);
    cshim_simd_limit(best);
}

/* Returns the payload bits of a float32 element. */
static size_t element_bits(const struct cshim_codec_info *info)
{
    return info->element_bits != 0 ? info->element_bits : 32;
}

/* Returns the offset of the scales. */
static size_t payload_end(size_t count, size_t bits)
{
    return (count * bits + 127) / 128 * 16;
}

/* Payload and scales are padded with zeros to multiples of 16 bytes, except for packed codecs. */
TEST(padding_is_zero)
{
    fill_inputs(CSHIM_FLOAT32, PATTERN_NORMAL);
    for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
        const struct cshim_codec_info *info = cshim_codec_info((enum cshim_codec_id)id);
        for (size_t count = 1; count < 700 && !cshim_codec_is_packed((enum cshim_codec_id)id);
             count += 3) {
            compute(info->id, CSHIM_FLOAT32, PLAIN, 0, count, &found);
            size_t payload = (count * element_bits(info) + 7) / 8;
            size_t scales_at = payload_end(count, element_bits(info));
            size_t scales_end =
                scales_at + (count + info->block - 1) / info->block * info->scale_bytes;
            size_t end = (scales_end + 15) / 16 * 16;
            assert_int_equal(end, cshim_encoded_bytes(info->id, CSHIM_FLOAT32, count));
            for (size_t i = payload; i < end; i++) {
                if (i < scales_at || i >= scales_end) {
                    assert_int_equal(found.encoded[0][i], 0);
                    assert_int_equal(found.reencoded[i], 0);
                }
            }
            assert_int_equal(found.encoded[0][end], 0xa5);
            assert_int_equal(found.reencoded[end], 0xa5);
        }
    }
}

/* Checks that pieces cut at CSHIM_GRAIN have the payload, scales and residuals of the whole. */
static void cut(const struct cshim_codec_info *info, int mode)
{
    static uint8_t piece[LONGEST * 4 + 64];
    static float residual[LONGEST];
    enum { CUT = 7 * CSHIM_GRAIN };
    const size_t bits = element_bits(info);
    const float *input = (const float *)(const void *)inputs[0];
    struct cshim_encoding encoding = options(mode, (float *)(void *)expected.residual, 0);
    memcpy(expected.residual, residuals, sizeof residuals);
    memcpy(residual, residuals, sizeof residuals);
    cshim_encode_with(info->id, CSHIM_FLOAT32, input, LONGEST, &encoding, expected.encoded[0]);
    const uint8_t *scales = expected.encoded[0] + payload_end(LONGEST, bits);
    for (size_t begin = 0; begin < LONGEST; begin += CUT) {
        size_t length = LONGEST - begin < CUT ? LONGEST - begin : CUT;
        encoding = options(mode, residual, begin);
        cshim_encode_with(info->id, CSHIM_FLOAT32, input + begin, length, &encoding, piece);
        assert_memory_equal(piece, expected.encoded[0] + begin * bits / 8, (length * bits + 7) / 8);
        assert_memory_equal(piece + payload_end(length, bits),
                            scales + begin / info->block * info->scale_bytes,
                            (length + info->block - 1) / info->block * info->scale_bytes);
    }
    assert_memory_equal(residual, expected.residual, sizeof residual);
}

TEST(cutting_at_grains_changes_nothing)
{
    fill_inputs(CSHIM_FLOAT32, PATTERN_MIXED);
    for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
        const struct cshim_codec_info *info = cshim_codec_info((enum cshim_codec_id)id);
        assert_int_equal(CSHIM_GRAIN % info->block, 0);
        for (int mode = PLAIN; mode < MODES && !cshim_codec_is_packed((enum cshim_codec_id)id);
             mode++)
            cut(info, mode);
    }
}

#if defined(__x86_64__)
TEST(callers_environment_does_not_matter)
{
    const unsigned flush_and_round_up = 0x1f80 | 0x8000 | 0x0040 | 0x4000;
    const unsigned with_sticky_flag = flush_and_round_up | 0x0001;
    unsigned saved = _mm_getcsr();
    enum cshim_simd best = cshim_simd_limit(CSHIM_SIMD_AVX512);
    for (int level = 0; level <= (int)best; level++) {
        cshim_simd_limit((enum cshim_simd)level);
        for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
            for (int dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++) {
                fill_inputs((enum cshim_dtype)dtype, PATTERN_MIXED);
                compute((enum cshim_codec_id)id, (enum cshim_dtype)dtype, id % MODES, 0, LONGEST,
                        &expected);
                _mm_setcsr(with_sticky_flag);
                compute((enum cshim_codec_id)id, (enum cshim_dtype)dtype, id % MODES, 0, LONGEST,
                        &found);
                unsigned after = _mm_getcsr();
                _mm_setcsr(saved);
                assert_int_equal(after, with_sticky_flag);
                assert_same_results((enum cshim_codec_id)id, (enum cshim_dtype)dtype, LONGEST,
                                    "under flush to zero and rounding up");
            }
        }
    }
}
#endif
