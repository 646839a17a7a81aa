/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the kernels with the codecs of the CPU, bit for bit: every codec that has kernels, every
 * element type and option, odd counts, several pieces, unaligned buffers, rare values. Bytes beside
 * the messages and the outputs must stay as they were.
 *
 *   kernels_host|kernels_gpu          all cases
 *   kernels_host|kernels_gpu quick    fewer float32 values (test_all_values)
 *   kernels_host|kernels_gpu few      fewer still: test_all_values for float32 only, test_places,
 *                                     all casts of less than 2^32 elements, about a third of the
 *                                     other cases
 *   kernels_host|kernels_gpu names    prints the kernels and the sizes of their parameters */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "codecs/scalar.h"
#include "tests/nccl/kernels/cases.h"
#include "tests/nccl/kernels/machine.h"
#include "tests/nccl/kernels/products.h"
#include "tests/nccl/kernels/sizes.h"

static unsigned passed, failed;

/* True in the mode `few`: is_left_out() then returns true in about two of three calls. */
static bool only_few;

static bool is_left_out(void)
{
    return only_few && next_random() % 3 != 0;
}

void judge(bool good, const char *what, enum cshim_codec_id codec, enum cshim_dtype dtype,
           uint64_t count, unsigned detail)
{
    passed += good;
    failed += !good;
    if (!good && failed < 40)
        printf("not ok - %s %s %s, %llu elements (%u)\n", what, cshim_codec_name(codec),
               cshim_dtype_name(dtype), (unsigned long long)count, detail);
}

const uint32_t header[CSHIM_KERNEL_HEADER_WORDS] = {0x9d3c81f2, 0x4ae60b77, 0xe1527c39, 0x38b9d4c6,
                                                    0xc70f5ea8, 0,          0x5b94a213, 0xf26de08d};

void damage_header(void *words)
{
    unsigned word = (unsigned)(next_random() % (CSHIM_KERNEL_HEADER_COMPARED - 1));
    word += word >= CSHIM_KERNEL_HEADER_ELEMENTS;
    ((unsigned char *)words)[4 * word + next_random() % 4] ^=
        (unsigned char)(1 << next_random() % 8);
}

void put_header(unsigned char *message, uint64_t elements)
{
    memcpy(message, header, HEADER);
    const uint32_t number = (uint32_t)elements;
    memcpy(message + 4 * CSHIM_KERNEL_HEADER_ELEMENTS, &number, sizeof number);
}

uint64_t elements_of(const struct shape *shape, uint32_t piece)
{
    const uint64_t begin = piece * shape->chunk;
    const uint64_t left = shape->count > begin ? shape->count - begin : 0;
    return left < shape->chunk ? left : shape->chunk;
}

/* Returns the index of a piece's first element in the caller's buffer. */
static uint64_t begin_of(const struct shape *shape, uint64_t piece)
{
    return piece * (shape->chunk + shape->gap);
}

static uint64_t buffer_elements(const struct shape *shape)
{
    return shape->count + (shape->pieces - 1) * shape->gap;
}

size_t stride_of(enum cshim_codec_id codec, enum cshim_dtype dtype, const struct shape *shape)
{
    return HEADER + cshim_encoded_bytes(codec, dtype, shape->chunk) + 48;
}

/* Decodes messages, also where their headers differ from the expected one. Kernels compare all
 * words of a header but the last. */
static void test_decode(enum cshim_codec_id codec, enum cshim_dtype dtype,
                        const struct shape *shape, const struct array *messages)
{
    const size_t element = cshim_dtype_bytes(dtype), stride = stride_of(codec, dtype, shape);
    struct array output = make_array(buffer_elements(shape) * element, shape->shift * element);
    struct array fault = make_array(4 * CSHIM_KERNEL_FAULT_WORDS, 0);
    memset(fault.host, 0, fault.bytes);
    give_array(&output);
    give_array(&fault);
    struct cshim_kernel_decode parameters = {
        .dtype = dtype,
        .encoded = messages->device,
        .stride = stride,
        .count = shape->count,
        .chunk = shape->chunk,
        .pieces = shape->pieces,
        .output = output.device,
        .output_stride = begin_of(shape, 1),
        .fault = (uint32_t *)(void *)fault.device,
    };
    memcpy(parameters.header, header, sizeof header);
    parameters.header[CSHIM_KERNEL_HEADER_COMPARED] = 0;
    machine_launch(CSHIM_KERNEL_DECODE, codec, shape->count, &parameters);
    for (uint32_t piece = 0; piece < shape->pieces; piece++)
        cshim_decode(codec, dtype, messages->host + piece * stride + HEADER,
                     elements_of(shape, piece), output.host + begin_of(shape, piece) * element);
    judge(is_as_expected(&output), "decode", codec, dtype, shape->count, (unsigned)shape->shift);
    judge(is_as_expected(&fault), "no fault of", codec, dtype, shape->count, 0);
    damage_header(parameters.header);
    machine_launch(CSHIM_KERNEL_DECODE, codec, shape->count, &parameters);
    uint32_t words[CSHIM_KERNEL_FAULT_WORDS], later[CSHIM_KERNEL_FAULT_WORDS];
    machine_read(words, fault.device, sizeof words);
    judge(words[0] == CSHIM_KERNEL_FAULT_WRITTEN && words[1] < shape->pieces &&
              memcmp(words + 2, messages->host + words[1] * stride, HEADER) == 0,
          "the fault of", codec, dtype, shape->count, words[0]);
    const uint32_t other = shape->pieces > 1 ? (words[1] + 1) % shape->pieces : 0;
    parameters.encoded = messages->device + other * stride;
    parameters.count = elements_of(shape, other);
    parameters.pieces = 1;
    machine_launch(CSHIM_KERNEL_DECODE, codec, shape->count, &parameters);
    machine_read(later, fault.device, sizeof later);
    judge(memcmp(words, later, sizeof words) == 0, "the first fault of", codec, dtype, shape->count,
          words[0]);
    drop_array(&output);
    drop_array(&fault);
}

/* Encodes `count` elements multiplied by `factor`: in float64 if they are float64, otherwise in
 * float32. May change the input. */
static void encode_products(enum cshim_codec_id codec, enum cshim_dtype dtype, void *input,
                            uint64_t count, double factor, const struct cshim_encoding *encoding,
                            void *encoded)
{
    float *values = room_for(cshim_encoded_bytes(CSHIM_CODEC_FP32, dtype, count));
    cshim_encode(CSHIM_CODEC_FP32, dtype, input, count, values);
    if (dtype == CSHIM_FLOAT64)
        multiply_doubles(input, count, factor);
    else
        multiply(values, count, factor);
    if (codec == CSHIM_CODEC_RAW && dtype != CSHIM_FLOAT64)
        narrow(dtype, values, count, input);
    if (codec == CSHIM_CODEC_RAW || dtype == CSHIM_FLOAT64)
        cshim_encode_with(codec, dtype, input, count, encoding, encoded);
    else
        cshim_encode_with(codec, CSHIM_FLOAT32, values, count, encoding, encoded);
    free(values);
}

/* Checks the kernel that encodes and, without options, the one that decodes. Options: bit 0 error
 * feedback, bit 1 stochastic rounding, bit 2 a factor, bit 3 a factor in memory. */
static void test_encode(enum cshim_codec_id codec, enum cshim_dtype dtype, enum distribution kind,
                        const struct shape *shape, unsigned options)
{
    const size_t element = cshim_dtype_bytes(dtype), stride = stride_of(codec, dtype, shape);
    const uint64_t all = buffer_elements(shape);
    struct array input = make_array(all * element, shape->shift * element);
    struct array messages = make_array(stride * shape->pieces, 0), own = make_array(stride, 0);
    struct array residual = make_array(shape->count * sizeof(float), 0);
    const double factor = options & 4 ? any_factor() : 1;
    struct array factor_at = make_factor(dtype, factor);
    const bool has_own = options != 0;
    const uint32_t own_piece = (uint32_t)(next_random() % shape->pieces);
    const uint64_t key = next_random(), first = next_random() / 256 * 256;
    float *const lost = (float *)(void *)residual.host;
    fill(dtype, kind, input.host, all);
    for (uint64_t i = 0; i < shape->count; i++)
        lost[i] =
            (i % 3 == 0 ? 10 : 0.01f) * value_of(NORMAL); /* some above the limit of residuals */
    give_array(&input);
    give_array(&messages);
    give_array(&own);
    give_array(&residual);
    struct cshim_kernel_encode parameters = {
        .dtype = dtype,
        .input = input.device,
        .input_stride = begin_of(shape, 1),
        .count = shape->count,
        .chunk = shape->chunk,
        .pieces = shape->pieces,
        .encoded = messages.device,
        .stride = stride,
        .own = has_own ? own.device : NULL,
        .own_piece = own_piece,
        .factor = options & 8 ? 3 : factor,
        .factor_at = options & 8 ? factor_at.device : NULL,
        .options = {.residual = options & 1 ? (float *)(void *)residual.device : NULL,
                    .key = key,
                    .first = first,
                    .stochastic = options >> 1 & 1},
    };
    memcpy(parameters.header, header, sizeof header);
    machine_launch(CSHIM_KERNEL_ENCODE, codec, shape->count, &parameters);
    const double multiplier = options & 8 ? factor_of(dtype, &factor_at) : factor;
    for (uint32_t piece = 0; piece < shape->pieces; piece++) {
        const uint64_t elements = elements_of(shape, piece);
        if (elements == 0)
            continue;
        const struct cshim_encoding encoding = {
            .residual = options & 1 ? lost + piece * shape->chunk : NULL,
            .stochastic = options >> 1 & 1,
            .key = key,
            .first = first + piece * shape->chunk};
        const struct cshim_encoding *const with = options & 3 ? &encoding : NULL;
        unsigned char *const from = input.host + begin_of(shape, piece) * element;
        unsigned char *const to =
            has_own && piece == own_piece ? own.host : messages.host + piece * stride;
        put_header(to, elements);
        if (multiplier != 1)
            encode_products(codec, dtype, from, elements, multiplier, with, to + HEADER);
        else
            cshim_encode_with(codec, dtype, from, elements, with, to + HEADER);
    }
    judge(is_as_expected(&messages), "encode", codec, dtype, shape->count, options + 100 * kind);
    judge(is_as_expected(&own), "own message", codec, dtype, shape->count, options + 100 * kind);
    judge(is_as_expected(&residual), "residual of", codec, dtype, shape->count, options);
    if (options == 0) {
        test_decode(codec, dtype, shape, &messages);
        for (uint32_t piece = 0; piece < shape->pieces; piece++)
            damage(messages.host + piece * stride + HEADER,
                   cshim_encoded_bytes(codec, dtype, elements_of(shape, piece)));
        give_array(&messages);
        test_decode(codec, dtype, shape, &messages);
    }
    drop_array(&input);
    drop_array(&messages);
    drop_array(&own);
    drop_array(&residual);
    drop_array(&factor_at);
}

/* Encodes and decodes a random value out of every `step` consecutive bit patterns, from `begin` to
 * before `end`. The patterns rise, so the values of a block have similar magnitudes. */
static void test_all_values(enum cshim_codec_id codec, enum cshim_dtype dtype, uint64_t begin,
                            uint64_t end, uint64_t step)
{
    const uint64_t count = (end - begin) / step;
    const struct shape shape = {count, count, 1, 0, 0};
    struct array input = make_array(count * cshim_dtype_bytes(dtype), 0);
    struct array messages = make_array(stride_of(codec, dtype, &shape), 0);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)(begin + i * step + next_random() % step);
        memcpy(input.host + i * cshim_dtype_bytes(dtype), &bits, cshim_dtype_bytes(dtype));
    }
    give_array(&input);
    give_array(&messages);
    struct cshim_kernel_encode parameters = {.dtype = dtype,
                                             .input = input.device,
                                             .input_stride = count,
                                             .count = count,
                                             .chunk = count,
                                             .pieces = 1,
                                             .encoded = messages.device,
                                             .stride = messages.bytes,
                                             .factor = 1};
    memcpy(parameters.header, header, sizeof header);
    machine_launch(CSHIM_KERNEL_ENCODE, codec, count, &parameters);
    put_header(messages.host, count);
    cshim_encode(codec, dtype, input.host, count, messages.host + HEADER);
    judge(is_as_expected(&messages), "all values of", codec, dtype, count, 0);
    test_decode(codec, dtype, &shape, &messages);
    drop_array(&input);
    drop_array(&messages);
}

static void test_codec(enum cshim_codec_id codec, enum cshim_dtype dtype, bool quick)
{
    static const struct shape shapes[] = {
        {1, 1, 1, 0, 0},      {255, 256, 2, 1, 0},    {700, 700, 1, 0, 0},
        {514, 257, 2, 3, 5},  {1000, 512, 3, 0, 0},   {2048, 512, 4, 1, 0},
        {2047, 512, 4, 2, 0}, {5000, 1280, 4, 0, 24}, {4151, 260, 16, 0, 0}};
    const bool lossless = codec == CSHIM_CODEC_RAW || codec == CSHIM_CODEC_FP32;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (enum distribution kind = NORMAL; kind < KINDS; kind++) {
            if (is_left_out())
                continue;
            test_encode(codec, dtype, kind, &shapes[i], 0);
            if (!lossless && kind < ZEROS) {
                test_encode(codec, dtype, kind, &shapes[i], 1);
                test_encode(codec, dtype, kind, &shapes[i], 2);
                test_encode(codec, dtype, kind, &shapes[i], 3);
            }
            const unsigned options = lossless ? 0 : (unsigned)(next_random() % 4);
            test_encode(codec, dtype, kind, &shapes[i], options + (kind % 2 ? 4 : 4 + 8));
        }
    }
    for (unsigned ranks = 1; ranks < RANKS_MAX; ranks += ranks < 5 ? 1 : 3) {
        for (enum distribution kind = NORMAL; kind < KINDS; kind++) {
            if (is_left_out())
                continue;
            test_reduce(codec, dtype, kind, 256 * ranks + 3 * kind, ranks, 0);
            test_reduce(codec, dtype, kind, 1, ranks, 0);
            for (unsigned options = 1; options < 4 && !lossless; options++)
                test_reduce(codec, dtype, kind, 300 + 70 * options, ranks, options);
            test_reduce(codec, dtype, kind, 512 + kind, ranks, 32);
            test_reduce(codec, dtype, kind, 256 + kind, ranks, 8);
            test_reduce(codec, dtype, kind, 256 + kind, ranks, 16);
            const unsigned options = lossless ? 0 : (unsigned)(next_random() % 4);
            test_reduce(codec, dtype, kind, 300, ranks, options + 4);
        }
    }
    if (dtype == CSHIM_FLOAT32) {
        test_all_values(codec, dtype, 0, 1ULL << 32, only_few ? 655211 : quick ? 65521 : 61);
        /* Magnitudes at which scales become normal floats. A defect there showed only in blocks
         * whose elements are within 65000 consecutive bit patterns, as those of 256 elements with
         * this step are. */
        if (quick && cshim_codec_info(codec)->scale_bytes > 0)
            test_all_values(codec, dtype, 0x01300000, 0x04000000, 251);
    } else if (dtype != CSHIM_FLOAT64 && !only_few) {
        test_all_values(codec, dtype, 0, 1 << 16, 1);
    }
}

/* Prints every kernel's name and the size of its parameter. */
static void print_names(void)
{
    for (int operation = 0; operation < CSHIM_KERNEL_OPERATION_COUNT; operation++) {
        for (int codec = 0; codec < CSHIM_CODEC_COUNT; codec++) {
            const char *name = cshim_kernel_name((enum cshim_kernel_operation)operation,
                                                 (enum cshim_codec_id)codec);
            if (name != NULL)
                printf("%s %u\n", name,
                       kernel_parameter_bytes((enum cshim_kernel_operation)operation));
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "names") == 0) {
        print_names();
        return 0;
    }
    const uint64_t large_counts[] = {(uint64_t)1 << 32, ((uint64_t)1 << 32) + 300};
    only_few = argc > 1 && strcmp(argv[1], "few") == 0;
    const bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    machine_open();
    for (enum cshim_codec_id codec = CSHIM_CODEC_RAW; codec < CSHIM_CODEC_COUNT; codec++) {
        for (enum cshim_dtype dtype = CSHIM_FLOAT32; dtype < CSHIM_DTYPE_COUNT; dtype++) {
            if (cshim_codec_is_packed(codec) || !cshim_codec_carries(codec, dtype))
                continue; /* packed codecs are on the CPU only */
            test_codec(codec, dtype, quick);
            printf("%s %s: %u passed, %u failed so far\n", cshim_codec_name(codec),
                   cshim_dtype_name(dtype), passed, failed);
            fflush(stdout);
            const bool plain = codec >= CSHIM_CODEC_FP32 && codec <= CSHIM_CODEC_BF16;
            if (codec == CSHIM_CODEC_RAW)
                test_places(dtype);
            for (enum distribution kind = NORMAL; plain && kind < KINDS; kind++) {
                for (enum factors factors = NONE; factors <= IN_MEMORY; factors++)
                    test_cast(codec, dtype, kind, 1000 + kind, next_random() % 3, factors);
                test_cast(codec, dtype, kind, 512, 0, NONE);
            }
            if (plain) {
                test_cast(codec, dtype, LONE_NANS, 512, 0, NONE);
                test_cast(codec, dtype, LONE_NANS, 512, 0, BOTH);
                test_cast(codec, dtype, LONE_LARGEST, 512, 0, LITTLE);
            }
            for (int i = 0; i < 2 && machine_is_simulated(); i++) {
                if (is_left_out())
                    continue;
                test_large(codec, dtype, large_counts[i],
                           next_random() % 2 ? large_counts[i] : 1u << 31);
                if (plain)
                    test_cast(codec, dtype, NORMAL, large_counts[i], 0, NONE);
            }
        }
    }
    printf("kernels on %s: %u passed, %u failed\n", machine_name(), passed, failed);
    return failed > 0;
}
