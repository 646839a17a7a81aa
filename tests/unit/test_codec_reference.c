/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the portable loops, which process blocks, with scalar.h, which defines the conversion of
 * one element: decodes every code of up to 16 bits with many scales, and encodes floats of every
 * exponent. With EVERY_FLOAT=1 in the environment: all scales and nearly all 2^32 floats, which
 * takes tens of minutes. */
#include "codecs/portable.h"
#include "test_codec_data.h"

enum { LENGTH = 2 * CSHIM_GRAIN, ROOM = 4 * LENGTH + 64, SCALES = 2 * LENGTH };

static const enum cshim_codec_id formats[] = {
#define RAW(...)
#define FORMAT(ID, NAME, ...) CSHIM_CODEC_##NAME,
#include "codecs/formats.def"
};

static bool is_thorough(void)
{
    return getenv("EVERY_FLOAT") != NULL;
}

/* Returns the bits of the largest finite magnitude of the `block` elements from `begin` on. */
static uint32_t largest_of(const float *input, size_t count, size_t begin, size_t block)
{
    uint32_t largest = 0;
    for (size_t k = begin; k < count && k < begin + block; k++) {
        const uint32_t magnitude = cshim_finite_magnitude(input[k]);
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

/* Encodes element by element, with the functions of codecs/scalar.h. */
static void expect_codes(struct cshim_format format, const float *input, size_t count,
                         uint8_t *payload, uint8_t *scales)
{
    memset(payload, 0, cshim_payload_bytes((unsigned)format.bits, count));
    for (size_t i = 0; i < count; i++) {
        static struct cshim_scaling scaling;
        if (i % (size_t)format.block == 0) {
            const uint32_t largest = largest_of(input, count, i, (size_t)format.block);
            const uint32_t of_grain = largest_of(input, count, i - i % CSHIM_GRAIN, CSHIM_GRAIN);
            const bool has_grain = format.scale == CSHIM_SCALE_E4M3;
            uint32_t stored = cshim_choose_scale(format, has_grain ? of_grain : largest, false);
            stored = cshim_refine_scale(format, stored, largest, false);
            scaling = cshim_scaling(format, stored);
            cshim_store_scale(format, scales, i / (size_t)format.block, stored);
        }
        const uint64_t code = cshim_encode_nearest(format, input[i], scaling);
        const size_t bit = i * (size_t)format.bits;
        for (size_t byte = 0; 8 * byte < bit % 8 + (size_t)format.bits; byte++)
            payload[bit / 8 + byte] |= (uint8_t)(code << bit % 8 >> 8 * byte);
    }
}

/* Fills blocks with consecutive floats; clears the sign of the first one of each block, and adds
 * `raised` to its exponent bits, if the result is finite. */
static void fill_blocks(struct cshim_format format, uint32_t first, uint32_t raised, float *input)
{
    for (uint32_t i = 0; i < LENGTH; i++) {
        input[i] = float_of(first + i);
        const uint32_t magnitude = (first + i) & ~CSHIM_SIGN_BIT;
        const uint32_t larger = magnitude + (raised << 23);
        if (i % (uint32_t)format.block == 0 && magnitude < CSHIM_INFINITY_BITS &&
            larger < CSHIM_INFINITY_BITS)
            input[i] = float_of(larger);
    }
}

static void check_encoding(enum cshim_codec_id id, uint32_t first, uint32_t raised)
{
    const struct cshim_format format = cshim_format(id);
    static float input[LENGTH];
    static uint8_t payload[ROOM], scales[SCALES], expected[ROOM], expected_scales[SCALES];
    fill_blocks(format, first, raised, input);
    /* Without EVERY_FLOAT most lengths are no multiples of the block. */
    const size_t count = first % 3 == 0 ? LENGTH - first % LENGTH / 2 : LENGTH;
    cshim_level_scalar.codecs[id].encode(input, count, payload, scales);
    expect_codes(format, input, count, expected, expected_scales);
    if (memcmp(payload, expected, cshim_payload_bytes((unsigned)format.bits, count)) != 0 ||
        memcmp(scales, expected_scales,
               (count + (size_t)format.block - 1) / (size_t)format.block *
                   (size_t)format.scale_bytes) != 0)
        fail_msg("%s: other codes of floats from 0x%08x on, whose blocks begin with one raised by "
                 "%u binades",
                 cshim_codec_name(id), first, raised);
}

TEST(codes_are_those_of_the_definition)
{
    for (size_t f = 0; f < COUNT_OF(formats); f++) {
        for (uint32_t block = 0; is_thorough() && block < 1u << 23; block++)
            check_encoding(formats[f], block * LENGTH, block % 40);
        for (uint32_t block = 0; !is_thorough() && block < 1u << 12; block++)
            check_encoding(formats[f], block * 0x100803u, block % 40);
    }
}

/* Returns code i, read bit by bit. */
static uint32_t code_at(struct cshim_format format, const uint8_t *payload, size_t i)
{
    uint32_t code = 0;
    for (size_t bit = 0; bit < (size_t)format.bits; bit++) {
        const size_t at = i * (size_t)format.bits + bit;
        code |= (uint32_t)(payload[at / 8] >> at % 8 & 1) << bit;
    }
    return code;
}

static void assert_same_floats(enum cshim_codec_id id, const char *what, const float *found,
                               const float *expected, const uint8_t *scales)
{
    for (size_t i = 0; i < LENGTH; i++) {
        if (bits_of(found[i]) != bits_of(expected[i]))
            fail_msg(
                "%s: %s of element %zu is 0x%08x, not 0x%08x; the scales begin with 0x%02x%02x",
                cshim_codec_name(id), what, i, bits_of(found[i]), bits_of(expected[i]), scales[1],
                scales[0]);
    }
}

/* Checks the decoded values of a payload: stored, added, subtracted, and added to themselves. */
static void check_decoding(enum cshim_codec_id id, const uint8_t *payload, const uint8_t *scales)
{
    const struct cshim_format format = cshim_format(id);
    const struct cshim_loops *loops = &cshim_level_scalar.codecs[id];
    static float old[LENGTH], found[LENGTH], value[LENGTH], expected[LENGTH];
    if (bits_of(old[1]) == 0)
        fill(PATTERN_MIXED, 4, old, LENGTH);
    for (size_t i = 0; i < LENGTH; i++)
        value[i] = cshim_decode_code(format, code_at(format, payload, i),
                                     cshim_load_scale(format, scales, i / (size_t)format.block));
    loops->decode(payload, scales, LENGTH, found);
    assert_same_floats(id, "the value", found, value, scales);
    memcpy(found, old, sizeof old);
    loops->add(payload, scales, LENGTH, found);
    for (size_t i = 0; i < LENGTH; i++)
        expected[i] = cshim_sum(old[i], value[i]);
    assert_same_floats(id, "the sum", found, expected, scales);
    memcpy(found, old, sizeof old);
    loops->rest(payload, scales, LENGTH, found);
    for (size_t i = 0; i < LENGTH; i++)
        expected[i] = cshim_feedback_rest(old[i], value[i]);
    assert_same_floats(id, "the rest", found, expected, scales);
    loops->add_two(payload, scales, payload, scales, LENGTH, found);
    for (size_t i = 0; i < LENGTH; i++)
        expected[i] = cshim_sum(value[i], value[i]);
    assert_same_floats(id, "the sum of two", found, expected, scales);
}

/* Returns true if a scale is tested: every one-byte scale; two-byte scales (of nvfp4, a grain's and
 * a block's together) near 0, 0xffff and the ends of the ordinary range, and every 61st of the
 * others (with EVERY_FLOAT, all). */
static bool is_tried(struct cshim_format format, uint32_t stored)
{
    const bool has_grain = format.scale == CSHIM_SCALE_E4M3;
    const uint32_t first = has_grain ? CSHIM_E4M3_FIRST_ORDINARY << 8 | CSHIM_E4M3_FIRST_NORMAL
                                     : CSHIM_INTEGER_FIRST_ORDINARY;
    const uint32_t last =
        has_grain ? CSHIM_E4M3_LAST_ORDINARY << 8 | CSHIM_E4M3_NAN : CSHIM_INTEGER_LAST_ORDINARY;
    const uint32_t ends[] = {0, first, last, 0xffff};
    bool is_near_end = (format.scale_bytes < 2 && !has_grain) || is_thorough();
    for (size_t i = 0; i < COUNT_OF(ends); i++)
        is_near_end = is_near_end || (stored + 4 >= ends[i] && stored <= ends[i] + 4);
    return is_near_end || stored % 61 == 0;
}

TEST(values_are_those_of_the_definition)
{
    static uint8_t payload[ROOM], scales[SCALES];
    for (size_t f = 0; f < COUNT_OF(formats); f++) {
        const struct cshim_format format = cshim_format(formats[f]);
        const uint32_t last_scale =
            format.scale == CSHIM_SCALE_E4M3 ? 0xffff : (1u << 8 * format.scale_bytes) - 1;
        for (uint32_t stored = 0; stored <= last_scale; stored++) {
            if (!is_tried(format, stored))
                continue;
            for (size_t block = 0; block < LENGTH / (size_t)format.block; block++)
                cshim_store_scale(format, scales, block, stored);
            /* Arrays of consecutive codes: all of up to 16 bits, some of the 32-bit ones. */
            for (uint32_t first = 0; first < 1u << (format.bits < 16 ? 9 : 16); first += LENGTH) {
                for (size_t i = 0; i < LENGTH; i++) {
                    const uint64_t code = format.bits == 32 ? ((uint64_t)first + i) * 65537
                                                            : (first + i) % (1u << format.bits);
                    const size_t bit = i * (size_t)format.bits;
                    for (size_t k = 0; k < (size_t)format.bits; k++) {
                        uint8_t *byte = &payload[(bit + k) / 8];
                        const unsigned at = (bit + k) % 8;
                        *byte = (uint8_t)((*byte & ~(1u << at)) | (code >> k & 1) << at);
                    }
                }
                check_decoding(formats[f], payload, scales);
            }
        }
    }
}

/* Sums of NaNs, and of infinities of both signs, are the canonical NaN. */
TEST(sums_of_two_have_one_nan)
{
    static float input[2][LENGTH], sum[LENGTH];
    static uint8_t payload[2][ROOM], scales[2][SCALES];
    for (size_t f = 0; f < COUNT_OF(formats); f++) {
        const struct cshim_format format = cshim_format(formats[f]);
        const struct cshim_loops *loops = &cshim_level_scalar.codecs[formats[f]];
        for (int pattern = 0; pattern < PATTERN_COUNT; pattern++) {
            for (unsigned part = 0; part < 2; part++) {
                fill((enum pattern)pattern, part + 1, input[part], LENGTH);
                loops->encode(input[part], LENGTH, payload[part], scales[part]);
            }
            loops->add_two(payload[0], scales[0], payload[1], scales[1], LENGTH, sum);
            for (size_t i = 0; i < LENGTH; i++) {
                float value[2];
                for (unsigned part = 0; part < 2; part++)
                    value[part] = cshim_decode_code(
                        format, code_at(format, payload[part], i),
                        cshim_load_scale(format, scales[part], i / (size_t)format.block));
                assert_int_equal(bits_of(sum[i]), bits_of(cshim_sum(value[0], value[1])));
            }
        }
    }
}
