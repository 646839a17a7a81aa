/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the codec table: names, sizes, types, bounds and hash. */
#include "policy/policy.h"
#include "test_codec_data.h"

TEST(names_and_ids_agree)
{
    unsigned value;
    for (unsigned i = 0; i < CSHIM_CODEC_COUNT; i++) {
        assert_non_null(
            cshim_word_find(CSHIM_CODECS, cshim_codec_name((enum cshim_codec_id)i), &value));
        assert_int_equal(value, i);
        assert_int_equal(cshim_codec_info((enum cshim_codec_id)i) != NULL, i != 0);
    }
    for (unsigned i = 0; i < CSHIM_DTYPE_COUNT; i++) {
        assert_non_null(
            cshim_word_find(CSHIM_DTYPES, cshim_dtype_name((enum cshim_dtype)i), &value));
        assert_int_equal(value, i);
    }
    assert_null(cshim_word_find(CSHIM_CODECS, "fp8", &value));
    assert_null(cshim_word_find(CSHIM_DTYPES, "other", &value));
    assert_string_equal(cshim_codec_name((enum cshim_codec_id)99), "?");
    assert_string_equal(cshim_dtype_name(CSHIM_DTYPE_OTHER), "other");
    assert_null(cshim_codec_info(CSHIM_CODEC_COUNT));
    assert_int_equal(cshim_dtype_bytes(CSHIM_DTYPE_OTHER), 0);
}

/* Repeats the sizes here, because a change of the table's widths changes the wire format. */
TEST(sizes_are_those_of_the_wire_format)
{
    const struct {
        enum cshim_codec_id id;
        enum cshim_dtype dtype;
        size_t count, bytes;
    } cases[] = {
        {CSHIM_CODEC_RAW, CSHIM_FLOAT64, 3, 32},
        {CSHIM_CODEC_RAW, CSHIM_FLOAT16, 9, 32},
        {CSHIM_CODEC_FP32, CSHIM_FLOAT64, 5, 32},
        {CSHIM_CODEC_FP16, CSHIM_FLOAT32, 1, 32},
        {CSHIM_CODEC_FP16, CSHIM_FLOAT32, 256, 528},
        {CSHIM_CODEC_FP16, CSHIM_FLOAT32, 257, 544},
        {CSHIM_CODEC_BF16, CSHIM_FLOAT32, 257, 528},
        {CSHIM_CODEC_FP8_E4M3, CSHIM_FLOAT64, 128, 144},
        {CSHIM_CODEC_INT8, CSHIM_FLOAT32, 576, 608},
        {CSHIM_CODEC_INT8, CSHIM_FLOAT32, 0, 0},
        {CSHIM_CODEC_FP8_E5M2, CSHIM_FLOAT32, 2049, 2096},
        {CSHIM_CODEC_INT4, CSHIM_FLOAT32, 1, 32},
        {CSHIM_CODEC_INT4, CSHIM_FLOAT32, 33, 48},
        {CSHIM_CODEC_INT4, CSHIM_FLOAT64, 256, 144},
        {CSHIM_CODEC_INT4, CSHIM_FLOAT32, 257, 176},
        {CSHIM_CODEC_INT6, CSHIM_FLOAT32, 1, 32},
        {CSHIM_CODEC_INT6, CSHIM_FLOAT32, 22, 48},
        {CSHIM_CODEC_INT6, CSHIM_FLOAT64, 256, 208},
        {CSHIM_CODEC_INT5, CSHIM_FLOAT32, 1, 32},
        {CSHIM_CODEC_INT5, CSHIM_FLOAT32, 33, 48},
        {CSHIM_CODEC_INT5, CSHIM_FLOAT64, 256, 176},
        {CSHIM_CODEC_INT3, CSHIM_FLOAT32, 33, 32},
        {CSHIM_CODEC_INT3, CSHIM_FLOAT64, 256, 112},
        {CSHIM_CODEC_MXFP8, CSHIM_FLOAT32, 256, 272},
        {CSHIM_CODEC_MXFP8, CSHIM_FLOAT64, 33, 64},
        {CSHIM_CODEC_MXFP4, CSHIM_FLOAT32, 256, 144},
        {CSHIM_CODEC_MXFP4, CSHIM_FLOAT32, 513, 304},
        {CSHIM_CODEC_NVFP4, CSHIM_FLOAT32, 1, 32},
        {CSHIM_CODEC_NVFP4, CSHIM_FLOAT32, 256, 144},
        {CSHIM_CODEC_NVFP4, CSHIM_FLOAT16, 257, 176},
        {CSHIM_CODEC_BOUNDED, CSHIM_FLOAT64, 257, 2064},
        {CSHIM_CODEC_TOPK, CSHIM_FLOAT32, 1, 16},
        {CSHIM_CODEC_TOPK, CSHIM_FLOAT32, 256, 416},
        {CSHIM_CODEC_TOPK, CSHIM_FLOAT32, 257, 416},
        {CSHIM_CODEC_LOSSLESS, CSHIM_FLOAT32, 0, 0},
        {CSHIM_CODEC_LOSSLESS, CSHIM_FLOAT16, 1, 16},
        {CSHIM_CODEC_LOSSLESS, CSHIM_FLOAT64, 257, 2064},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(cshim_encoded_bytes(cases[i].id, cases[i].dtype, cases[i].count),
                         cases[i].bytes);
    }
    /* Sizes above a gigabyte do not overflow. */
    assert_int_equal(cshim_encoded_bytes(CSHIM_CODEC_RAW, CSHIM_FLOAT64, (size_t)1 << 33),
                     (size_t)1 << 36);
}

TEST(carried_types)
{
    assert_false(cshim_codec_carries(CSHIM_CODEC_NONE, CSHIM_FLOAT32));
    assert_false(cshim_codec_carries(CSHIM_CODEC_RAW, CSHIM_DTYPE_OTHER));
    assert_true(cshim_codec_carries(CSHIM_CODEC_FP32, CSHIM_FLOAT64));
    assert_true(cshim_codec_carries(CSHIM_CODEC_FP16, CSHIM_FLOAT16));
    assert_false(cshim_codec_carries(CSHIM_CODEC_FP16, CSHIM_BFLOAT16));
    assert_false(cshim_codec_carries(CSHIM_CODEC_BF16, CSHIM_FLOAT16));
    assert_false(cshim_codec_carries(CSHIM_CODEC_FP32, CSHIM_FLOAT16));
    assert_true(cshim_codec_carries(CSHIM_CODEC_TOPK, CSHIM_FLOAT32));
    assert_false(cshim_codec_carries(CSHIM_CODEC_TOPK, CSHIM_FLOAT64));
    assert_false(cshim_codec_carries(CSHIM_CODEC_TOPK, CSHIM_BFLOAT16));
    assert_true(cshim_codec_carries(CSHIM_CODEC_INT8, CSHIM_BFLOAT16));
    assert_true(cshim_codec_carries(CSHIM_CODEC_INT4, CSHIM_FLOAT16));
    assert_true(cshim_codec_carries(CSHIM_CODEC_RAW, CSHIM_FLOAT16));
}

/* Large arrays of float32 become at least `times` times smaller. */
TEST(microscaled_formats_save_what_is_published)
{
    const struct {
        enum cshim_codec_id id;
        double times;
    } cases[] = {{CSHIM_CODEC_MXFP8, 3.87}, {CSHIM_CODEC_MXFP4, 7.5}, {CSHIM_CODEC_NVFP4, 7.1}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const size_t bytes = cshim_encoded_bytes(cases[i].id, CSHIM_FLOAT32, 1 << 20);
        assert_true((4 << 20) / (double)bytes >= cases[i].times);
    }
}

/* The bounds of integer and 4-bit codecs are at least those of docs/wire-format.md, and less than
 * 0.1 % above. */
TEST(bounds_are_those_derived)
{
    for (size_t c = 0; c < SCALED_CODECS; c++) {
        const struct cshim_codec_info *info = cshim_codec_info(scaled_codecs[c]);
        const double top = ldexp(1, (int)info->element_bits - 1) - 1;
        const double bound = info->id == CSHIM_CODEC_MXFP4 ? 1.0 / 12
                             : info->id == CSHIM_CODEC_NVFP4
                                 ? 3.0 / 64
                                 : (0.5 + top * 0x1p-23) * (1 + 1.0 / 128) / top;
        if (is_integer(info->id) || info->element_bits == 4)
            assert_true(info->bound_absolute >= bound && info->bound_absolute < 1.001 * bound);
    }
}

/* If this fails, the table has changed: increment WIRE_VERSION if encoded bytes have changed, and
 * update the value here. */
TEST(table_hash_is_stable)
{
    const uint64_t hash = cshim_codec_table_hash();
    if (hash != 0xab69a0136d0852abu)
        fail_msg("the table's hash is 0x%llx", (unsigned long long)hash);
}

TEST(empty_input_touches_nothing)
{
    cshim_encode(CSHIM_CODEC_INT8, CSHIM_FLOAT32, NULL, 0, NULL);
    cshim_decode(CSHIM_CODEC_RAW, CSHIM_FLOAT64, NULL, 0, NULL);
    cshim_reduce(CSHIM_CODEC_FP16, CSHIM_FLOAT16, NULL, 1, 0, NULL, NULL);
}

TEST(levels_have_names)
{
    enum cshim_simd best = cshim_simd_level();
    assert_string_equal(cshim_simd_name(CSHIM_SIMD_SCALAR), "scalar");
    assert_int_equal(cshim_simd_limit(CSHIM_SIMD_SCALAR), CSHIM_SIMD_SCALAR);
    assert_int_equal(cshim_simd_level(), CSHIM_SIMD_SCALAR);
    assert_int_equal(cshim_simd_limit(CSHIM_SIMD_AVX512), best);
}
