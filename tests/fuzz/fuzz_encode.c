/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes arbitrary elements with arbitrary options, and decodes them. The bytes must be the same
 * at every SIMD level of the processor. The last grain, encoded alone, must decode to the same
 * values. Errors must be within the published bound. Non-finite elements must stay non-finite and
 * not affect others. A residual must be limited as cshim_feedback_share() says (not for topk), and
 * the new residual must be the rounding error. */
#include "codecs/scalar.h"
#include "tests/fuzz/codec_input.h"

/* An encoding of a call's elements. */
struct encoding {
    struct codec_input input;
    const uint8_t *elements;
    const float *residual; /* residual before the encoding, or NULL */
    bool stochastic;
    uint64_t key;
    uint64_t first;
    float step;
    unsigned keep;
    uint8_t *encoded;
    float *residual_after; /* residual after the encoding, or NULL */
};

static void encode(struct encoding *encoding, int fill)
{
    const struct codec_input *input = &encoding->input;
    struct cshim_encoding options = {.stochastic = encoding->stochastic,
                                     .key = encoding->key,
                                     .first = encoding->first,
                                     .step = encoding->step,
                                     .keep = encoding->keep};
    encoding->encoded = fuzz_allocate(input->encoded_bytes, input->offset, fill);
    encoding->residual_after = NULL;
    if (encoding->residual != NULL) {
        options.residual = fuzz_allocate(input->count * sizeof(float), 0, 0);
        memcpy(options.residual, encoding->residual, input->count * sizeof(float));
        encoding->residual_after = options.residual;
    }
    const bool is_plain = options.residual == NULL && !options.stochastic && options.step <= 0;
    if (is_plain && (encoding->key & 1) != 0)
        cshim_encode(input->codec, input->dtype, encoding->elements, input->count,
                     encoding->encoded);
    else
        cshim_encode_with(input->codec, input->dtype, encoding->elements, input->count, &options,
                          encoding->encoded);
}

static void free_encoding(struct encoding *encoding)
{
    fuzz_free(encoding->encoded, encoding->input.offset);
    if (encoding->residual_after != NULL)
        fuzz_free(encoding->residual_after, 0);
}

static void check_levels(struct encoding *scalar)
{
    struct encoding other = *scalar;
    fuzz_use_level(CSHIM_SIMD_SCALAR);
    encode(scalar, 0x55);
    for (int level = CSHIM_SIMD_AVX2; level <= CSHIM_SIMD_AVX512 && fuzz_use_level(level);
         level++) {
        encode(&other, 0x55 + level);
        FUZZ_CHECK(memcmp(scalar->encoded, other.encoded, scalar->input.encoded_bytes) == 0);
        if (scalar->residual != NULL)
            FUZZ_CHECK(memcmp(scalar->residual_after, other.residual_after,
                              scalar->input.count * sizeof(float)) == 0);
        free_encoding(&other);
    }
}

/* Returns element i as the float that is encoded. */
static float element(const struct encoding *encoding, size_t i)
{
    uint16_t half;
    float value;
    double wide;
    switch (encoding->input.dtype) {
    case CSHIM_FLOAT16:
        memcpy(&half, encoding->elements + 2 * i, sizeof half);
        value = cshim_fp16_decode(half, 0);
        break;
    case CSHIM_BFLOAT16:
        memcpy(&half, encoding->elements + 2 * i, sizeof half);
        value = cshim_bf16_decode(half);
        break;
    case CSHIM_FLOAT64:
        memcpy(&wide, encoding->elements + 8 * i, sizeof wide);
        value = isfinite(wide) ? cshim_saturate((float)wide) : (float)wide;
        break;
    default:
        memcpy(&value, encoding->elements + 4 * i, sizeof value);
    }
    return value;
}

/* Returns the largest finite magnitude of `length` elements from `begin` on. */
static float largest_element(const struct encoding *encoding, size_t begin, size_t length)
{
    float largest = 0;
    for (size_t i = begin; i < begin + length; i++) {
        const float magnitude = fabsf(element(encoding, i));
        largest = isfinite(magnitude) && magnitude > largest ? magnitude : largest;
    }
    return largest;
}

/* Returns element i plus its residual: for topk all of it, otherwise at most the limit of a block
 * with this largest magnitude, and nothing if the residual is over 16 times the limit. */
static float wanted(const struct encoding *encoding, size_t i, float largest)
{
    const float value = element(encoding, i);
    if (encoding->residual == NULL || !isfinite(value))
        return value;
    if (encoding->input.codec == CSHIM_CODEC_TOPK)
        return cshim_saturate(value + encoding->residual[i]);
    const float limit =
        largest * cshim_feedback_share(cshim_format(encoding->input.codec), encoding->stochastic);
    const float rest = encoding->residual[i];
    if (cshim_float_bits(fabsf(rest)) > cshim_float_bits(limit) + (4u << 23)) /* 16 * limit */
        return value + 0;
    return cshim_saturate(value + copysignf(fminf(fabsf(rest), limit), rest));
}

/* Returns the published bound for x in a block with this largest finite magnitude. */
static double bound(const struct encoding *encoding, float x, float largest)
{
    const struct cshim_codec_info *info = cshim_codec_info(encoding->input.codec);
    double once = info->bound_relative * fabs((double)x) + info->bound_absolute * (double)largest +
                  info->bound_floor;
    return encoding->stochastic ? 2 * once : once;
}

static void check_element(const struct encoding *encoding, size_t i, float x, float decoded,
                          float largest)
{
    if (encoding->residual_after != NULL) {
        float lost = x - decoded;
        FUZZ_CHECK(encoding->residual_after[i] == (isfinite(x) ? lost : 0.0f));
    }
    FUZZ_CHECK((isfinite(x) != 0) == (isfinite(decoded) != 0));
    if (isfinite(x))
        FUZZ_CHECK(fabs((double)decoded - (double)x) <= bound(encoding, x, largest));
}

/* Checks the errors of codecs that convert elements of every type to float32 first. */
static void check_errors(const struct encoding *encoding)
{
    const struct codec_input *input = &encoding->input;
    const size_t block = (size_t)cshim_feedback_block(cshim_format(input->codec));
    float *decoded = fuzz_allocate(input->count * sizeof *decoded, 0, 0);
    cshim_decode(input->codec, CSHIM_FLOAT32, encoding->encoded, input->count, decoded);
    for (size_t begin = 0; begin < input->count; begin += block) {
        float values[CSHIM_GRAIN], largest = 0;
        const size_t length = input->count - begin < block ? input->count - begin : block;
        const float largest_given = largest_element(encoding, begin, length);
        for (size_t i = 0; i < length; i++) {
            values[i] = wanted(encoding, begin + i, largest_given);
            if (isfinite(values[i]) && fabsf(values[i]) > largest)
                largest = fabsf(values[i]);
        }
        for (size_t i = 0; i < length; i++)
            check_element(encoding, begin + i, values[i], decoded[begin + i], largest);
    }
    fuzz_free(decoded, 0);
}

static void check_exact(const struct encoding *encoding)
{
    const struct codec_input *input = &encoding->input;
    const size_t bytes = input->count * input->element_bytes;
    uint8_t *decoded = fuzz_allocate(bytes, 0, 0);
    cshim_decode(input->codec, input->dtype, encoding->encoded, input->count, decoded);
    FUZZ_CHECK(memcmp(decoded, encoding->elements, bytes) == 0);
    fuzz_free(decoded, 0);
}

/* Checks that finite elements are off by at most half a step, and that others are unchanged. */
static void check_steps(const struct encoding *encoding)
{
    const struct codec_input *input = &encoding->input;
    uint8_t *decoded = fuzz_allocate(input->count * input->element_bytes, 0, 0);
    cshim_decode(input->codec, input->dtype, encoding->encoded, input->count, decoded);
    for (size_t i = 0; i < input->count; i++) {
        const uint8_t *before = encoding->elements + i * input->element_bytes;
        const uint8_t *after = decoded + i * input->element_bytes;
        float narrow[2];
        double wide[2];
        memcpy(&narrow[0], before, sizeof *narrow);
        memcpy(&narrow[1], after, sizeof *narrow);
        wide[0] = (double)narrow[0];
        wide[1] = (double)narrow[1];
        if (input->dtype == CSHIM_FLOAT64) {
            memcpy(&wide[0], before, sizeof *wide);
            memcpy(&wide[1], after, sizeof *wide);
        }
        if (isfinite(wide[0]))
            FUZZ_CHECK(fabs(wide[1] - wide[0]) <= 0.5 * (double)encoding->step);
        else
            FUZZ_CHECK(memcmp(before, after, input->element_bytes) == 0);
    }
    fuzz_free(decoded, 0);
}

/* Checks topk: with a residual, at most `keep` finite elements of a grain are sent, the largest
 * ones, and the rest stays in the residual; without one, all are sent that int4 does not round to
 * 0. Sent elements have int4's rounding error. */
static void check_kept(const struct encoding *encoding)
{
    const struct codec_input *input = &encoding->input;
    float *decoded = fuzz_allocate(input->count * sizeof *decoded, 0, 0);
    cshim_decode(input->codec, CSHIM_FLOAT32, encoding->encoded, input->count, decoded);
    for (size_t begin = 0; begin < input->count; begin += CSHIM_GRAIN) {
        const size_t left = input->count - begin, length = left < CSHIM_GRAIN ? left : CSHIM_GRAIN;
        float largest = 0, most_waiting = 0, least_sent = INFINITY;
        size_t sent = 0;
        for (size_t i = begin; i < begin + length; i++) {
            const float x = wanted(encoding, i, 0);
            largest = isfinite(x) ? fmaxf(largest, fabsf(x)) : largest;
        }
        for (size_t i = begin; i < begin + length; i++) {
            const float x = wanted(encoding, i, 0);
            FUZZ_CHECK((isfinite(x) != 0) == (isfinite(decoded[i]) != 0));
            if (!isfinite(x)) {
                FUZZ_CHECK(encoding->residual_after == NULL || encoding->residual_after[i] == 0);
                continue;
            }
            if (encoding->residual_after != NULL)
                FUZZ_CHECK(encoding->residual_after[i] == x - decoded[i]);
            if (decoded[i] != 0) {
                FUZZ_CHECK(fabs((double)decoded[i] - (double)x) <=
                           0.072 * (double)largest + 0x1p-145);
                least_sent = fminf(least_sent, fabsf(x));
                sent++;
            } else if (fabs((double)x) > 0.073 * (double)largest) {
                most_waiting = fmaxf(most_waiting, fabsf(x)); /* int4 does not round it to 0 */
            }
        }
        FUZZ_CHECK(most_waiting <= least_sent);
        FUZZ_CHECK(encoding->residual == NULL ? most_waiting == 0 : sent <= encoding->keep);
    }
    fuzz_free(decoded, 0);
}

/* Checks that the elements from `cut` on, a multiple of CSHIM_GRAIN, decode to the same values if
 * they are encoded alone. */
static void check_cut(const struct encoding *whole, size_t cut)
{
    struct encoding rest = *whole;
    rest.input.count -= cut;
    rest.input.encoded_bytes =
        cshim_encoded_bytes(rest.input.codec, rest.input.dtype, rest.input.count);
    rest.elements += cut * rest.input.element_bytes;
    rest.residual = whole->residual != NULL ? whole->residual + cut : NULL;
    rest.first += cut;
    encode(&rest, 0x33);
    const size_t bytes = rest.input.count * rest.input.element_bytes;
    uint8_t *decoded = fuzz_allocate(bytes, 0, 0);
    uint8_t *decoded_whole = fuzz_allocate(whole->input.count * rest.input.element_bytes, 0, 1);
    cshim_decode(rest.input.codec, rest.input.dtype, rest.encoded, rest.input.count, decoded);
    cshim_decode(rest.input.codec, rest.input.dtype, whole->encoded, whole->input.count,
                 decoded_whole);
    FUZZ_CHECK(memcmp(decoded, decoded_whole + cut * rest.input.element_bytes, bytes) == 0);
    fuzz_free(decoded, 0);
    fuzz_free(decoded_whole, 0);
    free_encoding(&rest);
}

static float *take_residual(const struct fuzz_input *input, size_t skip, size_t count)
{
    float *residual = fuzz_allocate(count * sizeof *residual, 0, 0);
    fuzz_fill(input, skip, residual, count * sizeof *residual);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(residual[i]))
            residual[i] = 0;
    return residual;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct encoding scalar = {.input = fuzz_take_codec(&input)};
    const size_t count = scalar.input.count;
    const unsigned choices = (unsigned)fuzz_take(&input, 1);
    scalar.stochastic = (choices & 1) != 0;
    scalar.key = fuzz_take(&input, 2);
    scalar.step =
        (choices & 4) != 0 ? ldexpf(1 + (float)scalar.key * 0x1p-16f, (int)(choices >> 3) - 20) : 0;
    scalar.keep = 1 + (choices >> 3) * 2;
    scalar.first = fuzz_take_any_length(&input, 32) * CSHIM_GRAIN;
    uint8_t *elements = fuzz_allocate(count * scalar.input.element_bytes, 0, 0);
    float *residual = (choices & 2) != 0 ? take_residual(&input, choices, count) : NULL;
    fuzz_fill(&input, 0, elements, count * scalar.input.element_bytes);
    scalar.elements = elements;
    scalar.residual = residual;
    check_levels(&scalar);
    if (scalar.input.codec == CSHIM_CODEC_BOUNDED && scalar.step > 0)
        check_steps(&scalar);
    else if (scalar.input.codec == CSHIM_CODEC_TOPK)
        check_kept(&scalar);
    else if (cshim_codec_is_exact(scalar.input.codec))
        check_exact(&scalar);
    else
        check_errors(&scalar);
    if (count > CSHIM_GRAIN)
        check_cut(&scalar, (count - 1) / CSHIM_GRAIN * CSHIM_GRAIN);
    free_encoding(&scalar);
    fuzz_free(elements, 0);
    if (residual != NULL)
        fuzz_free(residual, 0);
    return 0;
}
