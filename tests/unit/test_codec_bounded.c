/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the codec bounded: errors of at most half a step for any elements and steps, the same bytes
 * at every SIMD level, sums within the bound of a rule, and high ratios for smooth fields. */
#include "codecs/hash.h"
#include "shim/core/plan.h"
#include "test_codec_data.h"
#include "tests/unit/policy.h"

enum { MOST = 3000, PARTS = 5, KINDS = 11 };

/* Returns the step on the wire for a step that is no power of two: (1 - 2^-8) times the step, cut
 * off after 8 significant bits. */
static double step_on_wire(double step)
{
    int exponent;
    const double fraction = frexp(step * (1 - 0x1p-8), &exponent);
    return ldexp(floor(fraction * 256), exponent - 8);
}

/* Returns element `i` of an array of this kind. 0: smooth, 1: random walk (`before` is the element
 * before), 2: noise, 3: halfway between two multiples of the step, 4: near the largest multiple, 5:
 * of many magnitudes, 6: some not finite, 7: random bits, 8: parabolas, 9: zeros with spikes, 10:
 * about halfway between two multiples of the step on the wire, up to the largest one of 14 bits. */
static double number(int kind, size_t i, double step, double before, uint64_t *state)
{
    const double normal = next_normal(state);
    const uint64_t random = next_random(state);
    union {
        uint64_t bits;
        double value;
    } any = {.bits = random};
    switch (kind) {
    case 0:
        return sin((double)i * 0.01);
    case 1:
        return before + normal * step * 3;
    case 2:
        return normal;
    case 3:
        return ((double)(random % 2000) - 999.5) * step;
    case 4:
        return ((double)(random % 5) - 2 + (random % 2 == 0 ? 0x1p22 : -0x1p22)) * step;
    case 5:
        return ldexp(normal, (int)(random % 60) - 30);
    case 6:
        return random % 100 != 0 ? normal : random % 200 == 0 ? INFINITY : NAN;
    case 7:
        return any.value;
    case 8:
        return (double)(i % 700 * (i % 700)) * step * 0.375;
    case 9:
        return random % 300 == 0 ? 1e6 * normal : 0;
    default:
        return ((double)(random % 0x7ff0) - 0x3ff8 - 0.5) * step_on_wire(step) *
               (1 + ((double)(random >> 60) - 8) * 0x1p-24);
    }
}

static void fill_elements(enum cshim_dtype dtype, int kind, double step, uint64_t seed,
                          uint8_t *elements, size_t count)
{
    double value = 0;
    for (size_t i = 0; i < count; i++) {
        value = number(kind, i, step, value, &seed);
        const float narrow = (float)value;
        if (dtype == CSHIM_FLOAT64)
            memcpy(elements + i * sizeof value, &value, sizeof value);
        else
            memcpy(elements + i * sizeof narrow, &narrow, sizeof narrow);
    }
}

static double element_of(enum cshim_dtype dtype, const uint8_t *elements, size_t i)
{
    double wide;
    float narrow;
    memcpy(&wide, elements + i * (dtype == CSHIM_FLOAT64 ? 8 : 4), sizeof narrow);
    memcpy(&narrow, &wide, sizeof narrow);
    if (dtype == CSHIM_FLOAT64)
        memcpy(&wide, elements + i * sizeof wide, sizeof wide);
    return dtype == CSHIM_FLOAT64 ? wide : (double)narrow;
}

static uint8_t parts[PARTS][MOST * 8], packed[PARTS][MOST * 9], output[MOST * 8], other[MOST * 9];

/* Checks that decoded elements are within half a step of finite elements, and equal to the others.
 */
static void check_once(enum cshim_dtype dtype, const uint8_t *elements, double step, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double before = element_of(dtype, elements, i), after = element_of(dtype, output, i);
        if (isfinite(before))
            assert_true(fabs(after - before) <= step / 2);
        else
            assert_true(isnan(before) ? isnan(after) : after == before);
    }
}

static void check(enum cshim_dtype dtype, int kind, float step, size_t count)
{
    const struct cshim_encoding encoding = {.step = step};
    const size_t most = cshim_encoded_bytes(CSHIM_CODEC_BOUNDED, dtype, count);
    fill_elements(dtype, kind, (double)encoding.step, count, parts[0], count);
    for (int level = CSHIM_SIMD_SCALAR; level <= CSHIM_SIMD_AVX512; level++) {
        cshim_simd_limit((enum cshim_simd)level);
        cshim_encode_with(CSHIM_CODEC_BOUNDED, dtype, parts[0], count, &encoding, packed[0]);
        if (level == CSHIM_SIMD_SCALAR)
            memcpy(other, packed[0], most);
        assert_memory_equal(packed[0], other, most);
        memset(output, 0xa5, sizeof output);
        cshim_decode(CSHIM_CODEC_BOUNDED, dtype, packed[0], count, output);
        check_once(dtype, parts[0], (double)encoding.step, count);
    }
}

TEST(no_element_is_off_by_more_than_half_a_step)
{
    for (int dtype = CSHIM_FLOAT32; dtype <= CSHIM_FLOAT64; dtype++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int exponent = -120; exponent <= 120; exponent += exponent < -22 ? 14 : 3)
                for (size_t count = 1; count <= MOST; count = count * 3 / 2 + 1) {
                    check((enum cshim_dtype)dtype, kind, ldexpf(1, exponent), count);
                    check((enum cshim_dtype)dtype, kind,
                          ldexpf(1 + (float)(count % 97) / 97, exponent), count);
                }
}

/* Elements about halfway between multiples take the step on the wire that the documentation gives,
 * or a power of two if that is larger: at least 0.988 of the step allowed. */
TEST(steps_are_nearly_as_large_as_allowed)
{
    for (int i = 0; i < 128; i++) {
        const float step = 1 + (float)i / 128;
        const struct cshim_encoding encoding = {.step = step};
        for (int wide = 0; wide < 2; wide++) {
            const enum cshim_dtype dtype = wide == 0 ? CSHIM_FLOAT32 : CSHIM_FLOAT64;
            const double expected = fmax(step_on_wire((double)step), 1);
            float stored;
            uint16_t on_wire;
            fill_elements(dtype, 10, (double)step, 1, parts[0], CSHIM_GRAIN);
            cshim_encode_with(CSHIM_CODEC_BOUNDED, dtype, parts[0], CSHIM_GRAIN, &encoding,
                              packed[0]);
            memcpy(&on_wire, packed[0] + 8, sizeof on_wire);
            memcpy(&stored, &(uint32_t){(uint32_t)on_wire << 16}, sizeof stored);
            assert_true(expected > 1 ? (double)stored == expected : on_wire == 0);
            assert_true(expected > 0.988 * (double)step);
        }
    }
}

/* Compares encoded bytes with stored ones: a failure means that the wire format has changed. The
 * data are computed without functions whose last bit differs between C libraries. */
TEST(bytes_stay)
{
    static const struct {
        float step;
        uint64_t digests[2]; /* of float32 and float64 */
    } rows[] = {{0x1p-10f, {0x2c4a523b93d58e9cu, 0xf074d2cdd18bdf22u}},
                {0x1.9p-10f, {0xcabdad7001abf3e6u, 0xb3ad7a87cf139eadu}}};
    static const int kinds[] = {3, 4, 7, 8};
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        const enum cshim_dtype dtype = i % 2 == 0 ? CSHIM_FLOAT32 : CSHIM_FLOAT64;
        const struct cshim_encoding encoding = {.step = rows[i / 2].step};
        uint64_t digest = CSHIM_HASH_EMPTY;
        for (size_t k = 0; k < COUNT_OF(kinds); k++) {
            fill_elements(dtype, kinds[k], 0x1p-10, 7, parts[0], MOST);
            cshim_encode_with(CSHIM_CODEC_BOUNDED, dtype, parts[0], MOST, &encoding, packed[0]);
            digest =
                cshim_hash_bytes(digest, packed[0],
                                 cshim_encoded_length(CSHIM_CODEC_BOUNDED, dtype, MOST, packed[0]));
        }
        if (digest != rows[i / 2].digests[dtype])
            fail_msg("%s, step %a: 0x%llx", cshim_dtype_name(dtype), (double)rows[i / 2].step,
                     (unsigned long long)digest);
    }
}

TEST(without_a_step_nothing_is_lost)
{
    for (int dtype = CSHIM_FLOAT32; dtype <= CSHIM_FLOAT64; dtype++) {
        fill_elements((enum cshim_dtype)dtype, 1, 1, 1, parts[0], MOST);
        cshim_encode(CSHIM_CODEC_BOUNDED, (enum cshim_dtype)dtype, parts[0], MOST, packed[0]);
        cshim_decode(CSHIM_CODEC_BOUNDED, (enum cshim_dtype)dtype, packed[0], MOST, output);
        assert_memory_equal(output, parts[0], MOST * cshim_dtype_bytes((enum cshim_dtype)dtype));
    }
    assert_false(cshim_codec_carries(CSHIM_CODEC_BOUNDED, CSHIM_FLOAT16));
}

/* Encodes contributions and reduces them as two_shot does, with the plan's step: the error of a
 * float64 sum is at most abs_error times the number of ranks. */
TEST(sums_keep_the_bound_of_a_rule)
{
    char text[200];
    for (int trial = 0; trial < 300; trial++) {
        const unsigned ranks = 2 + (unsigned)trial % (PARTS - 1);
        const double bound = 1e-4 * (1 + trial % 17);
        const void *encoded[PARTS];
        snprintf(text, sizeof text, "[rule a]\ncodec = bounded\nabs_error = %.17g\n", bound);
        struct cshim_policy *policy = parse(text);
        const struct cshim_call call = {.dtype = CSHIM_FLOAT64,
                                        .bytes = MOST * sizeof(double),
                                        .ranks = ranks,
                                        .nodes = ranks,
                                        .ranks_per_node = 1};
        const struct cshim_plan plan = cshim_plan_call(policy, &call, MOST);
        const struct cshim_encoding encoding = {.step = plan.step};
        assert_true((double)plan.step > 1.33 * bound);
        for (unsigned i = 0; i < ranks; i++) {
            fill_elements(CSHIM_FLOAT64, trial % 4, (double)plan.step, (uint64_t)trial * PARTS + i,
                          parts[i], MOST);
            cshim_encode_with(CSHIM_CODEC_BOUNDED, CSHIM_FLOAT64, parts[i], MOST, &encoding,
                              packed[i]);
            encoded[i] = packed[i];
        }
        cshim_reduce_with(CSHIM_CODEC_BOUNDED, CSHIM_FLOAT64, encoded, ranks, MOST, NULL, other,
                          &encoding);
        cshim_decode(CSHIM_CODEC_BOUNDED, CSHIM_FLOAT64, other, MOST, output);
        for (size_t i = 0; i < MOST; i++) {
            long double sum = 0;
            for (unsigned rank = 0; rank < ranks; rank++)
                sum += (long double)element_of(CSHIM_FLOAT64, parts[rank], i);
            const double result = element_of(CSHIM_FLOAT64, output, i);
            assert_true(fabsl((long double)result - sum) <=
                        (long double)bound * ranks * (1 + 1e-9L));
        }
        cshim_policy_free(policy);
    }
}

static double ratio(int kind, float step)
{
    const struct cshim_encoding encoding = {.step = step};
    fill_elements(CSHIM_FLOAT32, kind, (double)encoding.step, 1, parts[0], MOST);
    cshim_encode_with(CSHIM_CODEC_BOUNDED, CSHIM_FLOAT32, parts[0], MOST, &encoding, packed[0]);
    return MOST * 4.0 /
           (double)cshim_encoded_length(CSHIM_CODEC_BOUNDED, CSHIM_FLOAT32, MOST, packed[0]);
}

TEST(messages_become_shorter)
{
    assert_true(ratio(0, 0x1p-13f) > 6);
    assert_true(ratio(1, 0x1p-13f) > 4);
    assert_true(ratio(2, 0x1p-7f) > 2.5);
    assert_true(ratio(2, 0x1.fp-7f) > 1.06 * ratio(2, 0x1p-7f));
    assert_true(ratio(7, 0x1p-7f) > 0.99);
}

/* Decodes damaged messages to some elements, without reading beyond the largest encoded size, which
 * is allocated: AddressSanitizer finds such reads. */
TEST(messages_that_lie_do_no_harm)
{
    uint64_t random = 3;
    for (int trial = 0; trial < 6000; trial++) {
        const enum cshim_dtype dtype = trial % 2 == 0 ? CSHIM_FLOAT32 : CSHIM_FLOAT64;
        const struct cshim_encoding encoding = {.step = trial % 4 < 2 ? 0x1p-10f : 0x1.8p-10f};
        const size_t count = 1 + next_random(&random) % 600;
        const size_t most = cshim_encoded_bytes(CSHIM_CODEC_BOUNDED, dtype, count);
        uint8_t *message = malloc(most), *elements = malloc(count * cshim_dtype_bytes(dtype));
        fill_elements(dtype, trial % KINDS, 0x1p-10, (uint64_t)trial, parts[0], count);
        cshim_encode_with(CSHIM_CODEC_BOUNDED, dtype, parts[0], count, &encoding, message);
        for (int change = 0; change < 4; change++)
            message[next_random(&random) % (change < 2 && most > 24 ? 24 : most)] =
                (uint8_t)next_random(&random);
        cshim_decode(CSHIM_CODEC_BOUNDED, dtype, message, count, elements);
        free(message);
        free(elements);
    }
}
