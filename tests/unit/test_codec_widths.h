/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a level's loops with codes of every width from 2 to 8 bits, some of which formats.def does
 * not have, against codes that are written bit by bit. */
#include "codecs/portable.h"
#include "test_codec_data.h"

enum { COUNT = 3 * CSHIM_GRAIN + 45, ROOM = COUNT + 64, PAINT = 0xa5 };

/* Encodes `count` elements bit by bit; the following bytes are filled with a pattern. */
static void expect(struct cshim_format format, const float *input, size_t count, uint8_t *payload)
{
    const size_t block = (size_t)format.block;
    const size_t bytes = cshim_payload_bytes((unsigned)format.bits, count);
    memset(payload, 0, bytes);
    memset(payload + bytes, PAINT, ROOM - bytes);
    for (size_t i = 0; i < count; i++) {
        uint32_t largest = 0;
        for (size_t k = i / block * block; k < count && k / block == i / block; k++) {
            uint32_t magnitude = cshim_finite_magnitude(input[k]);
            largest = magnitude > largest ? magnitude : largest;
        }
        const uint32_t stored = cshim_choose_scale(format, largest, false);
        const uint32_t code = cshim_encode_nearest(format, input[i], cshim_scaling(format, stored));
        for (size_t bit = 0; bit < (size_t)format.bits; bit++) {
            const size_t at = i * (size_t)format.bits + bit;
            payload[at / 8] |= (uint8_t)((code >> bit & 1) << at % 8);
        }
    }
}

/* The loops of a level for a format. */
struct loops {
    int bits, block;
    void (*encode)(const float *input, size_t count, uint8_t *payload, uint8_t *scales);
    void (*decode)(const uint8_t *payload, const uint8_t *scales, size_t count, float *output);
};

static void check(const struct loops *loops, enum pattern pattern, size_t count)
{
    const struct cshim_format format = cshim_integer_format(loops->bits, loops->block);
    static float input[COUNT], decoded[COUNT];
    static uint8_t payload[ROOM], expected[ROOM], scales[2 * COUNT];
    fill(pattern, 3, input, count);
    memset(payload, PAINT, sizeof payload);
    loops->encode(input, count, payload, scales);
    expect(format, input, count, expected);
    assert_memory_equal(payload, expected, sizeof payload);
    loops->decode(payload, scales, count, decoded);
    for (size_t i = 0; i < count; i++) {
        const uint32_t stored = cshim_load_scale(format, scales, i / (size_t)format.block);
        const float step = cshim_integer_decode(1, stored);
        assert_true(isfinite(input[i]) == isfinite(decoded[i]));
        assert_true(!isfinite(input[i]) || fabsf(decoded[i]) <= (float)format.top * step ||
                    fabsf(decoded[i]) == FLT_MAX);
        assert_true(!isfinite(input[i]) ||
                    fabs((double)decoded[i] - (double)input[i]) <= 0.5001 * (double)step ||
                    fabsf(decoded[i]) == FLT_MAX);
    }
}

/* Checks whole blocks of normally distributed numbers, for a SIMD level that uses the scalar loops
 * for other blocks. Skipped if the processor lacks the level. */
static inline void check_whole_blocks(enum cshim_simd level, const struct loops *loops,
                                      size_t count)
{
    if (cshim_simd_level() < level)
        skip();
    for (size_t i = 0; i < count; i++)
        for (size_t blocks = 1; blocks * (size_t)loops[i].block <= COUNT; blocks++)
            check(&loops[i], PATTERN_NORMAL, blocks * (size_t)loops[i].block);
}

/* Defines the loops for a width and a block from ENCODE and EXPAND, as codecs/level.h does. */
#define LOOPS(bits, block)                                                                         \
    WIDTHS_TARGET static void encode_##bits##_##block(const float *input, size_t count,            \
                                                      uint8_t *payload, uint8_t *scales)           \
    {                                                                                              \
        ENCODE(cshim_integer_format(bits, block), CSHIM_CODEC_INT8, input, count, payload,         \
               scales);                                                                            \
    }                                                                                              \
    WIDTHS_TARGET static void decode_##bits##_##block(                                             \
        const uint8_t *payload, const uint8_t *scales, size_t count, float *output)                \
    {                                                                                              \
        EXPAND(cshim_integer_format(bits, block), CSHIM_CODEC_INT8, payload, scales, count,        \
               output, CSHIM_PUT);                                                                 \
    }
#define WIDTHS(block)                                                                              \
    LOOPS(2, block)                                                                                \
    LOOPS(3, block) LOOPS(4, block) LOOPS(5, block) LOOPS(6, block) LOOPS(7, block) LOOPS(8, block)
#define ROW(bits, block)                                                                           \
    {                                                                                              \
        bits, block, encode_##bits##_##block, decode_##bits##_##block                              \
    }
#define ROWS(block)                                                                                \
    ROW(2, block), ROW(3, block), ROW(4, block), ROW(5, block), ROW(6, block), ROW(7, block),      \
        ROW(8, block)
