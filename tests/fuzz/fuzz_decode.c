/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes and reduces arbitrary bytes, as if another rank had sent them. No access may be out of
 * bounds, every SIMD level of the processor must give the same result, and a sum in float32 or
 * float64, plain and encoded again, must be that of the decoded inputs. */
#include "tests/fuzz/codec_input.h"

enum { RANKS_MAX = 3 };

/* The ranks' encoded inputs, and the results at one SIMD level. */
struct reduction {
    struct codec_input input;
    unsigned ranks;
    uint8_t *parts[RANKS_MAX];
    void *decoded; /* input 0; the checks add the other inputs to it */
    void *sum;
    uint8_t *reencoded;
};

static void allocate_results(struct reduction *reduction, int fill)
{
    const struct codec_input *input = &reduction->input;
    reduction->decoded = fuzz_allocate(input->count * input->element_bytes, 0, fill);
    reduction->sum = fuzz_allocate(input->count * input->element_bytes, 0, fill);
    reduction->reencoded = fuzz_allocate(input->encoded_bytes, input->offset, fill);
}

static void free_results(struct reduction *reduction)
{
    fuzz_free(reduction->decoded, 0);
    fuzz_free(reduction->sum, 0);
    fuzz_free(reduction->reencoded, reduction->input.offset);
}

static void compute(struct reduction *reduction)
{
    const struct codec_input *input = &reduction->input;
    const void *const parts[RANKS_MAX] = {reduction->parts[0], reduction->parts[1],
                                          reduction->parts[2]};
    cshim_decode(input->codec, input->dtype, parts[0], input->count, reduction->decoded);
    cshim_reduce(input->codec, input->dtype, parts, reduction->ranks, input->count, reduction->sum,
                 reduction->reencoded);
}

static bool is_canonical(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return !isnan(value) || bits == 0x7fc00000u;
}

/* Checks the sum against decoding each input to float32 and adding in rank order. */
static void check_float_sum(const struct reduction *reduction)
{
    const struct codec_input *input = &reduction->input;
    float *total = reduction->decoded, *sum = reduction->sum;
    float *value = fuzz_allocate(input->count * sizeof *value, 0, 0);
    bool is_copy = cshim_codec_is_exact(input->codec) || input->codec == CSHIM_CODEC_FP32;
    for (size_t i = 0; i < input->count; i++)
        FUZZ_CHECK(is_copy || is_canonical(total[i]));
    for (unsigned rank = 1; rank < reduction->ranks; rank++) {
        cshim_decode(input->codec, CSHIM_FLOAT32, reduction->parts[rank], input->count, value);
        for (size_t i = 0; i < input->count; i++)
            total[i] = isnan(total[i] + value[i]) ? (float)NAN : total[i] + value[i];
    }
    FUZZ_CHECK(memcmp(total, sum, input->count * sizeof *sum) == 0);
    fuzz_free(value, 0);
}

/* Checks the sum against decoding each input to float64 and adding in rank order. */
static void check_double_sum(const struct reduction *reduction)
{
    const struct codec_input *input = &reduction->input;
    double *total = reduction->decoded, *sum = reduction->sum;
    double *value = fuzz_allocate(input->count * sizeof *value, 0, 0);
    for (unsigned rank = 1; rank < reduction->ranks; rank++) {
        cshim_decode(input->codec, CSHIM_FLOAT64, reduction->parts[rank], input->count, value);
        for (size_t i = 0; i < input->count; i++)
            total[i] = isnan(total[i] + value[i]) ? (double)NAN : total[i] + value[i];
    }
    FUZZ_CHECK(memcmp(total, sum, input->count * sizeof *sum) == 0);
    fuzz_free(value, 0);
}

/* Checks that the re-encoded message of float32 or float64 is the encoded sum. */
static void check_reencoded(const struct reduction *reduction)
{
    const struct codec_input *input = &reduction->input;
    uint8_t *encoded = fuzz_allocate(input->encoded_bytes, 0, 0x33);
    cshim_encode(input->codec, input->dtype, reduction->sum, input->count, encoded);
    FUZZ_CHECK(memcmp(encoded, reduction->reencoded, input->encoded_bytes) == 0);
    fuzz_free(encoded, 0);
}

static void check_same(const struct reduction *a, const struct reduction *b)
{
    const size_t bytes = a->input.count * a->input.element_bytes;
    FUZZ_CHECK(memcmp(a->decoded, b->decoded, bytes) == 0);
    FUZZ_CHECK(memcmp(a->sum, b->sum, bytes) == 0);
    FUZZ_CHECK(memcmp(a->reencoded, b->reencoded, a->input.encoded_bytes) == 0);
}

static void check_levels(struct reduction *scalar)
{
    struct reduction other = *scalar;
    fuzz_use_level(CSHIM_SIMD_SCALAR);
    allocate_results(scalar, 0x55);
    compute(scalar);
    for (int level = CSHIM_SIMD_AVX2; level <= CSHIM_SIMD_AVX512 && fuzz_use_level(level);
         level++) {
        allocate_results(&other, 0x55 + level);
        compute(&other);
        check_same(scalar, &other);
        free_results(&other);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct reduction scalar = {.input = fuzz_take_codec(&input)};
    const size_t encoded_bytes = scalar.input.encoded_bytes;
    scalar.ranks = 1 + (unsigned)fuzz_take(&input, 1) % RANKS_MAX;
    size_t shift = (size_t)fuzz_take(&input, 1);
    for (unsigned rank = 0; rank < scalar.ranks; rank++) {
        scalar.parts[rank] = fuzz_allocate(encoded_bytes, scalar.input.offset, 0);
        fuzz_fill(&input, rank * shift, scalar.parts[rank], encoded_bytes);
    }
    check_levels(&scalar);
    fuzz_use_level(CSHIM_SIMD_SCALAR);
    if (scalar.input.dtype == CSHIM_FLOAT32)
        check_float_sum(&scalar);
    if (scalar.input.dtype == CSHIM_FLOAT64)
        check_double_sum(&scalar);
    if (cshim_dtype_bytes(scalar.input.dtype) >= sizeof(float))
        check_reencoded(&scalar);
    free_results(&scalar);
    for (unsigned rank = 0; rank < scalar.ranks; rank++)
        fuzz_free(scalar.parts[rank], scalar.input.offset);
    return 0;
}
