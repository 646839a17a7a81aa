/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the formats of 3 to 16 bits with references written here from docs/wire-format.md:
 * decodes every code, and checks that many floats (of some formats all of them with
 * CSHIM_SWEEP=full) are encoded to the nearest code. */
#include "test_codec_data.h"

/* A prime, so that the sweep combines all low bits with all exponents. */
#define STRIDE 2003u

static uint64_t stride(void)
{
    const char *sweep = getenv("CSHIM_SWEEP");
    return sweep != NULL && strcmp(sweep, "full") == 0 ? 1 : STRIDE;
}

/* Values of a small float format: all non-negative finite ones in rising order, indexed by code. */
struct table {
    unsigned count;
    double values[32768];
};

static void make_table(struct table *table, unsigned count, int mantissa_bits, int min_exponent)
{
    table->count = count;
    for (unsigned code = 0; code < count; code++) {
        int exponent = (int)(code >> mantissa_bits);
        double mantissa = code & ((1u << mantissa_bits) - 1);
        int power = min_exponent - mantissa_bits + (exponent > 0 ? exponent - 1 : 0);
        table->values[code] = ldexp(mantissa + (exponent > 0 ? 1u << mantissa_bits : 0), power);
    }
}

/* Returns the code whose value is nearest to `magnitude`; of two equally near ones the even one. */
static unsigned nearest(const struct table *table, double magnitude)
{
    unsigned low = 0, high = table->count - 1;
    while (low + 1 < high) {
        unsigned middle = (low + high) / 2;
        if (table->values[middle] <= magnitude)
            low = middle;
        else
            high = middle;
    }
    double below = magnitude - table->values[low], above = table->values[high] - magnitude;
    if (below == above)
        return low % 2 == 0 ? low : high;
    return below < above ? low : high;
}

/* Parameters of a format that is scaled by powers of two. In formats without infinities `infinity`
 * equals `nan`. If `nan` equals `sign`, the code of -0 means NaN. */
struct scaled_format {
    enum cshim_codec_id id;
    unsigned values, mantissa_bits;
    int min_exponent, min_scale;
    unsigned infinity, nan, sign;
};

static const struct scaled_format scaled_formats[] = {
    {CSHIM_CODEC_FP16, 0x7c00, 10, -14, -125, 0x7c00, 0x7e00, 0x8000},
    {CSHIM_CODEC_FP8_E4M3, 0x7f, 3, -6, -135, 0x7f, 0x7f, 0x80},
    {CSHIM_CODEC_FP8_E5M2, 0x7c, 2, -14, -133, 0x7c, 0x7e, 0x80},
    {CSHIM_CODEC_MXFP8, 0x7f, 3, -6, -127, 0x7f, 0x7f, 0x80},
    {CSHIM_CODEC_MXFP4, 8, 1, 0, -127, 8, 8, 8},
};

static struct table table;

static unsigned code_at(const uint8_t *encoded, size_t i, size_t bits)
{
    return bits == 16  ? (unsigned)(encoded[2 * i] | encoded[2 * i + 1] << 8)
           : bits == 8 ? encoded[i]
                       : encoded[i / 2] >> 4 * (i % 2) & 15u;
}

/* Checks the encoding of one block of finite floats: every element has the nearest code and,
 * unless the code with the sign means NaN, its sign, and the scale is the smallest with which the
 * largest magnitude does not round above the top code. If all elements are subnormal, larger scales
 * are allowed too. */
static void check_block(const struct scaled_format *format, const float *block, size_t count,
                        const uint8_t *encoded)
{
    size_t bits = cshim_codec_info(format->id)->element_bits;
    size_t scales_at = (count * bits + 127) / 128 * 16;
    int scale = encoded[scales_at] + format->min_scale;
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)block[i]));
    double top = table.values[format->values - 1], step = top - table.values[format->values - 2];
    bool top_is_even = (format->values - 1) % 2 == 0;
    double limit = top + step / 2;
    double scaled = ldexp(largest, -scale);
    assert_true(top_is_even ? scaled <= limit : scaled < limit);
    if (scale > format->min_scale && largest >= FLT_MIN)
        assert_true(top_is_even ? 2 * scaled > limit : 2 * scaled >= limit);
    for (size_t i = 0; i < count; i++) {
        unsigned code = nearest(&table, ldexp(fabs((double)block[i]), -scale));
        if (signbit(block[i]) && (code | format->sign) != format->nan)
            code |= format->sign;
        if (code_at(encoded, i, bits) != code) {
            fail_msg("%s: %a with scale 2^%d: code 0x%x, not 0x%x", cshim_codec_name(format->id),
                     (double)block[i], scale, code_at(encoded, i, bits), code);
        }
    }
}

/* Encodes blocks of finite floats STRIDE apart (1 apart if CSHIM_SWEEP=full), so that all exponents
 * occur with many mantissas. One element in 13 is a zero instead, to test its sign. */
TEST(scaled_encoders_choose_the_nearest)
{
    static float block[256];
    static uint8_t encoded[256 * 2 + 32];
    for (size_t f = 0; f < COUNT_OF(scaled_formats); f++) {
        const struct scaled_format *format = &scaled_formats[f];
        size_t length = cshim_codec_info(format->id)->block;
        make_table(&table, format->values, (int)format->mantissa_bits, format->min_exponent);
        uint64_t bits = 0;
        while (bits < 0x7f800000u) {
            size_t count = 0;
            for (; count < length && bits < 0x7f800000u; bits += stride()) {
                uint32_t sign = (uint32_t)(count * 0x9e3779b9u) & 0x80000000u;
                block[count] = float_of(count % 13 == 5 ? sign : (uint32_t)bits | sign);
                count++;
            }
            cshim_encode(format->id, CSHIM_FLOAT32, block, count, encoded);
            check_block(format, block, count, encoded);
        }
    }
}

/* Encodes blocks whose magnitudes span the whole format, including subnormal codes. */
TEST(scaled_encoders_use_subnormal_codes)
{
    static float block[256];
    static uint8_t encoded[256 * 2 + 32];
    uint64_t random = 11;
    for (size_t f = 0; f < COUNT_OF(scaled_formats); f++) {
        const struct scaled_format *format = &scaled_formats[f];
        size_t length = cshim_codec_info(format->id)->block;
        make_table(&table, format->values, (int)format->mantissa_bits, format->min_exponent);
        for (int exponent = -149; exponent <= 127; exponent++) {
            for (int round = 0; round < 5; round++) {
                for (size_t i = 0; i < length; i++) {
                    uint64_t bits = next_random(&random);
                    float value = float_of(0x3f800000u | (uint32_t)(bits & 0x807fffffu));
                    block[i] = ldexpf(value, exponent - (int)(bits >> 40) % 48);
                }
                cshim_encode(format->id, CSHIM_FLOAT32, block, length, encoded);
                check_block(format, block, length, encoded);
            }
        }
    }
}

/* Tests largest magnitudes near the point from which they round above the top code. */
TEST(scales_change_at_the_top_codes_rounding_point)
{
    static uint8_t encoded[32];
    for (size_t f = 0; f < COUNT_OF(scaled_formats); f++) {
        const struct scaled_format *format = &scaled_formats[f];
        make_table(&table, format->values, (int)format->mantissa_bits, format->min_exponent);
        double top = table.values[format->values - 1];
        float point = (float)(top + (top - table.values[format->values - 2]) / 2);
        for (int exponent = -140; exponent < 127; exponent++) {
            float largest = ldexpf(point, exponent);
            if (largest < FLT_MIN || largest > FLT_MAX / 2)
                continue;
            const float around[] = {nextafterf(largest, 0), largest, nextafterf(largest, FLT_MAX)};
            for (size_t i = 0; i < COUNT_OF(around); i++) {
                cshim_encode(format->id, CSHIM_FLOAT32, &around[i], 1, encoded);
                check_block(format, &around[i], 1, encoded);
            }
        }
    }
}

/* All codes are decoded exactly with all scales, except that finite values above FLT_MAX become
 * FLT_MAX. The last scale of E8M0 is NaN. */
TEST(scaled_decoders_know_every_code)
{
    static uint8_t encoded[65536 * 2 + 256];
    static float decoded[65536];
    for (size_t f = 0; f < COUNT_OF(scaled_formats); f++) {
        const struct scaled_format *format = &scaled_formats[f];
        size_t bits = cshim_codec_info(format->id)->element_bits;
        unsigned codes = bits == 16 ? 65536 : 256;
        make_table(&table, format->values, (int)format->mantissa_bits, format->min_exponent);
        for (unsigned code = 0; code < codes; code++) {
            encoded[bits * code / 8] = (uint8_t)(bits == 4 ? code / 2 * 2 % 16 * 17 + 16 : code);
            if (bits == 16)
                encoded[2 * code + 1] = (uint8_t)(code >> 8);
        }
        for (int scale = 0; scale < 256; scale++) {
            memset(encoded + bits * codes / 8, scale, 256);
            cshim_decode(format->id, CSHIM_FLOAT32, encoded, codes, decoded);
            for (unsigned i = 0; i < codes; i++) {
                unsigned code = i % (2 * format->sign), magnitude = code & (format->sign - 1);
                uint32_t expected = 0x7fc00000u;
                if (code == format->nan || (format->min_scale == -127 && scale == 255)) {
                    assert_int_equal(bits_of(decoded[i]), expected);
                    continue;
                }
                if (magnitude < format->values) {
                    double value = ldexp(table.values[magnitude], scale + format->min_scale);
                    expected = bits_of((float)fmin(value, (double)FLT_MAX));
                } else if (magnitude == format->infinity && format->infinity != format->nan) {
                    expected = 0x7f800000u;
                }
                expected |= code != magnitude && expected != 0x7fc00000u ? 0x80000000u : 0;
                if (bits_of(decoded[i]) != expected) {
                    fail_msg("%s: code 0x%x, scale code %d: %a", cshim_codec_name(format->id), code,
                             scale, (double)decoded[i]);
                }
            }
        }
    }
}

/* Returns the value of an E4M3 code other than NaN. */
static double e4m3_value(unsigned code)
{
    return code < 8 ? ldexp(code, -9) : ldexp(8 + (code & 7), (int)(code >> 3) - 10);
}

/* Writes the scales of a grain of nvfp4: the E4M3 codes of its blocks, and its power of two. */
static void write_grain(uint8_t *scales, unsigned first, unsigned grain)
{
    for (unsigned block = 0; block < 16; block++)
        scales[block] =
            (uint8_t)((first + block) % 128 | (block < 8 ? (grain >> block & 1) << 7 : 0));
}

/* All codes of nvfp4 are decoded exactly with all scales, except that values above FLT_MAX become
 * FLT_MAX. */
TEST(nvfp4_decoders_know_every_code)
{
    static uint8_t encoded[128 + 16];
    static float decoded[256];
    make_table(&table, 8, 1, 0);
    for (unsigned i = 0; i < 128; i++)
        encoded[i] = (uint8_t)(i % 8 * 34 + 16);
    for (unsigned grain = 0; grain < 256; grain++) {
        for (unsigned first = 0; first < 128; first += 15) {
            write_grain(encoded + 128, first, grain);
            cshim_decode(CSHIM_CODEC_NVFP4, CSHIM_FLOAT32, encoded, 256, decoded);
            for (unsigned i = 0; i < 256; i++) {
                const unsigned code = i % 16, scale = (first + i / 16) % 128;
                uint32_t expected = 0x7fc00000u;
                if (code != 8 && scale != 127) {
                    double value = table.values[code % 8] * e4m3_value(scale);
                    value = ldexp(value, (int)grain - 138);
                    expected = bits_of((float)fmin(value, (double)FLT_MAX));
                    expected |= code > 8 ? 0x80000000u : 0;
                }
                if (bits_of(decoded[i]) != expected)
                    fail_msg("code 0x%x, scale code %u, grain's byte %u: %a", code, scale, grain,
                             (double)decoded[i]);
            }
        }
    }
}

/* Checks a grain of nvfp4: its power of two is the smallest for which the largest magnitude is at
 * most 6 * 448 (1 for zeros; if all elements are subnormal, larger ones are allowed), each block's
 * scale is the normal E4M3 number nearest to a sixth of its largest magnitude, and each element has
 * the nearest code. `slack` is for float32's rounding. */
static void check_grain(const float *values, size_t count, const uint8_t *payload,
                        const uint8_t *scales)
{
    const double slack = 1 + 0x1p-21;
    double most = 0;
    unsigned grain = 0;
    for (unsigned bit = 0; bit < 16; bit++)
        grain |= (unsigned)scales[bit] >> 7 << bit;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)values[i]));
    const double unit = ldexp(1, (int)grain - 138);
    assert_true(grain < 256 && (most == 0 ? grain == 138 : most <= 2688 * unit));
    assert_true(most < (double)FLT_MIN || most > 1344 * unit);
    for (size_t i = 0; i < count; i++) {
        double largest = 0;
        for (size_t k = i / 16 * 16; k < count && k < i / 16 * 16 + 16; k++)
            largest = fmax(largest, fabs((double)values[k]));
        const unsigned code = scales[i / 16] & 127, sign = signbit(values[i]) ? 8 : 0;
        const double sixth = largest / 6 / unit;
        assert_in_range(code, 8, 126);
        assert_true(code == 8 || sixth * slack >= (e4m3_value(code) + e4m3_value(code - 1)) / 2);
        assert_true(code == 126 || sixth <= (e4m3_value(code) + e4m3_value(code + 1)) / 2 * slack);
        const double scaled = fabs((double)values[i]) / (e4m3_value(code) * unit);
        const unsigned found = code_at(payload, i, 4), low = nearest(&table, scaled / slack),
                       high = nearest(&table, scaled * slack);
        if (found != (low == 0 ? 0 : low | sign) && found != (high == 0 ? 0 : high | sign))
            fail_msg("%a with scale code %u and grain's byte %u: code 0x%x, not 0x%x",
                     (double)values[i], code, grain, found, low | sign);
    }
}

TEST(nvfp4_encoders_choose_the_nearest)
{
    static float values[256];
    static uint8_t encoded[128 + 16];
    uint64_t random = 5;
    make_table(&table, 8, 1, 0);
    for (int trial = 0; trial < 40000; trial++) {
        const size_t count = trial % 3 == 0 ? 1 + next_random(&random) % 256 : 256;
        const int exponent = trial % 277 - 149, spread = trial % 23;
        for (size_t i = 0; i < count; i++) {
            uint64_t bits = next_random(&random);
            float value = float_of(0x3f800000u | (uint32_t)(bits & 0x807fffffu));
            int lower = (int)(bits >> 40) % (spread + 1) + (int)(i / 16 % 4) * (trial % 5);
            values[i] = trial % 100 == 0 ? 0 : ldexpf(value, exponent - lower);
        }
        cshim_encode(CSHIM_CODEC_NVFP4, CSHIM_FLOAT32, values, count, encoded);
        check_grain(values, count, encoded, encoded + (count + 31) / 32 * 16);
    }
}

/* Every finite bf16 value is decoded exactly and encoded to the same code; NaN codes become the
 * canonical NaN. */
TEST(bf16_codes_round_trip)
{
    static uint16_t codes[65536], again[65536];
    static float decoded[65536];
    for (unsigned code = 0; code < 65536; code++)
        codes[code] = (uint16_t)code;
    cshim_decode(CSHIM_CODEC_BF16, CSHIM_FLOAT32, codes, 65536, decoded);
    cshim_encode(CSHIM_CODEC_BF16, CSHIM_FLOAT32, decoded, 65536, again);
    for (unsigned code = 0; code < 65536; code++) {
        bool is_nan = (code & 0x7fff) > 0x7f80;
        assert_int_equal(bits_of(decoded[code]), is_nan ? 0x7fc00000u : code << 16);
        assert_int_equal(again[code], is_nan ? 0x7fc0u : code);
    }
}

TEST(bf16_chooses_the_nearest)
{
    enum { COUNT = 4096 };
    static float values[COUNT];
    static uint16_t codes[COUNT];
    uint64_t bits = 0;
    while (bits <= 0xffffffffu) {
        size_t count = 0;
        for (; count < COUNT && bits <= 0xffffffffu; bits += stride())
            values[count++] = float_of((uint32_t)bits);
        cshim_encode(CSHIM_CODEC_BF16, CSHIM_FLOAT32, values, count, codes);
        for (size_t i = 0; i < count; i++) {
            uint16_t below = (uint16_t)(bits_of(values[i]) >> 16);
            uint16_t code = below;
            double low = (double)float_of((uint32_t)below << 16);
            double high = (double)float_of((uint32_t)(below + 1) << 16);
            double to_low = fabs((double)values[i] - low), to_high = fabs(high - (double)values[i]);
            if (isnan(values[i]))
                code = 0x7fc0;
            else if (!isinf(values[i]) && isfinite(high) &&
                     (to_high < to_low || (to_high == to_low && below % 2 != 0)))
                code = (uint16_t)(below + 1);
            if (codes[i] != code)
                fail_msg("bf16: %a: code 0x%x, not 0x%x", (double)values[i], codes[i], code);
        }
    }
}

/* An integer format: `bits` bits, codes -top to top, and -top - 1 for non-finite elements. */
struct integer_format {
    enum cshim_codec_id id;
    int top;
    unsigned bits;
};

static const struct integer_format integer_formats[] = {
#define INTEGER(ID, NAME, name, BITS, ...) {CSHIM_CODEC_##NAME, (1 << (BITS - 1)) - 1, BITS},
#include "codecs/formats.def"
};
enum { INTEGER_FORMATS = COUNT_OF(integer_formats) };

/* Writes codes without gaps, bit by bit. */
static void pack(const struct integer_format *format, const int *codes, size_t count,
                 uint8_t *payload)
{
    memset(payload, 0, (count * format->bits + 7) / 8);
    for (size_t bit = 0; bit < count * format->bits; bit++) {
        unsigned code = (unsigned)codes[bit / format->bits];
        payload[bit / 8] |= (uint8_t)((code >> bit % format->bits & 1) << bit % 8);
    }
}

/* Returns the value of an integer format's scale code. */
static double integer_scale(unsigned code)
{
    return ldexp(128 + (code & 127), (int)(code >> 7) - 156);
}

TEST(integer_scales_are_the_smallest_that_do)
{
    uint8_t encoded[32];
    for (size_t f = 0; f < INTEGER_FORMATS; f++) {
        const struct integer_format *format = &integer_formats[f];
        float decoded = 0;
        cshim_encode(format->id, CSHIM_FLOAT32, &decoded, 1, encoded);
        assert_true(integer_scale(encoded[16] | (unsigned)encoded[17] << 8) == 1.0);
        for (uint64_t bits = 1; bits < 0x7f800000u; bits += stride()) {
            float value = float_of((uint32_t)bits);
            cshim_encode(format->id, CSHIM_FLOAT32, &value, 1, encoded);
            unsigned code = encoded[16] | (unsigned)encoded[17] << 8;
            double scale = integer_scale(code);
            bool is_enough = format->top * scale >= (double)value;
            bool is_smallest = code == 0 || format->top * integer_scale(code - 1) < (double)value;
            if (!is_enough || !is_smallest || fabs(encoded[0] - (double)value / scale) > 0.50002) {
                fail_msg("%s: %a: scale code 0x%x, code %d", cshim_codec_name(format->id),
                         (double)value, code, encoded[0]);
            }
            cshim_decode(format->id, CSHIM_FLOAT32, encoded, 1, &decoded);
            assert_true((double)decoded == fmin((double)(float)(encoded[0] * scale), FLT_MAX) ||
                        encoded[0] * scale > (double)FLT_MAX);
        }
    }
}

TEST(integer_decoders_know_every_code)
{
    static uint8_t encoded[256 + 16];
    static float decoded[256];
    for (size_t f = 0; f < INTEGER_FORMATS; f++) {
        const struct integer_format *format = &integer_formats[f];
        const unsigned codes = 1u << format->bits;
        const unsigned payload = 32 * format->bits;
        const unsigned blocks = 256 / cshim_codec_info(format->id)->block;
        int all[256];
        for (int i = 0; i < 256; i++)
            all[i] = i;
        pack(format, all, 256, encoded);
        for (unsigned scale = 0; scale < 65536; scale += f == 0 ? 1 : 3) {
            for (unsigned block = 0; block < blocks; block++) {
                encoded[payload + 2 * block] = (uint8_t)scale;
                encoded[payload + 2 * block + 1] = (uint8_t)(scale >> 8);
            }
            cshim_decode(format->id, CSHIM_FLOAT32, encoded, 256, decoded);
            for (unsigned i = 0; i < 256; i++) {
                int code = (int)(i % codes) - (i % codes >= codes / 2 ? (int)codes : 0);
                double value = code * integer_scale(scale);
                double bounded = fmax(fmin(value, (double)FLT_MAX), -(double)FLT_MAX);
                uint32_t expected = code < -format->top ? 0x7fc00000u : bits_of((float)bounded);
                assert_int_equal(bits_of(decoded[i]), expected);
            }
        }
    }
}

/* Codes of up to 8 bits are stored without gaps from the lowest bit of the first byte on, for whole
 * and partial blocks. The unused bits of the last byte are 0. */
TEST(integer_codes_lie_in_order)
{
    enum { MOST = 300 };
    for (size_t f = 0; f < INTEGER_FORMATS; f++) {
        const struct integer_format *format = &integer_formats[f];
        for (int count = 1; count < MOST; count += count < 70 ? 1 : 29) {
            float values[MOST];
            int codes[MOST];
            uint8_t encoded[2 * MOST], expected[MOST];
            const size_t bytes = ((size_t)count * format->bits + 7) / 8;
            for (int i = 0; i < count; i++) {
                bool is_top = i % 32 == 0, is_nan = i % 11 == 4 && !is_top;
                codes[i] = is_top ? format->top : i * 7 % (2 * format->top + 1) - format->top;
                values[i] = is_nan ? NAN : (float)codes[i];
                codes[i] = is_nan ? -format->top - 1 : codes[i];
            }
            pack(format, codes, (size_t)count, expected);
            cshim_encode(format->id, CSHIM_FLOAT32, values, (size_t)count, encoded);
            assert_memory_equal(encoded, expected, bytes);
            const struct cshim_encoding encoding = {.stochastic = true, .key = 1};
            cshim_encode_with(format->id, CSHIM_FLOAT32, values, (size_t)count, &encoding, encoded);
            assert_memory_equal(encoded, expected, bytes);
        }
    }
}

/* The codec fp16 leaves all float16 elements unchanged, bf16 all bfloat16 elements, except that
 * NaNs become the canonical NaN. */
TEST(sixteen_bit_data_survive_their_own_codec)
{
    static uint16_t input[65536], output[65536];
    static uint8_t encoded[65536 * 2 + 256];
    const struct {
        enum cshim_codec_id id;
        enum cshim_dtype dtype;
        unsigned infinity, nan;
    } cases[] = {{CSHIM_CODEC_FP16, CSHIM_FLOAT16, 0x7c00, 0x7e00},
                 {CSHIM_CODEC_BF16, CSHIM_BFLOAT16, 0x7f80, 0x7fc0}};
    for (size_t c = 0; c < 2; c++) {
        for (unsigned multiplier = 1; multiplier < 65536; multiplier = multiplier * 181 + 2) {
            for (unsigned i = 0; i < 65536; i++)
                input[i] = (uint16_t)(i * (multiplier | 1));
            cshim_encode(cases[c].id, cases[c].dtype, input, 65536, encoded);
            cshim_decode(cases[c].id, cases[c].dtype, encoded, 65536, output);
            for (unsigned i = 0; i < 65536; i++) {
                bool is_nan = (input[i] & 0x7fffu) > cases[c].infinity;
                assert_int_equal(output[i], is_nan ? cases[c].nan : input[i]);
            }
        }
    }
}
