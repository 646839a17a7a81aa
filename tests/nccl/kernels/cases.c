/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels against the codecs of the CPU, bit for bit: every codec, element type and option, odd
 * counts, several pieces, unaligned buffers, rare values; nothing outside the messages is written.
 *   kernels_host|kernels_gpu [quick|names]      quick: fewer values; names: prints the kernels
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "codecs/scalar.h"
#include "tests/nccl/kernels/machine.h"

enum { HEADER = 4 * CSHIM_KERNEL_HEADER_WORDS, PAINT = 0xa5, ROOM = 256, RANKS_MAX = 9 };

static unsigned passed, failed;
static uint64_t random_state = 1;

static uint64_t next_random(void)
{
    random_state += CSHIM_GOLDEN;
    return cshim_mix(random_state);
}

static void *room_for(size_t bytes)
{
    void *memory = malloc(bytes + 1);
    if (memory == NULL) {
        fprintf(stderr, "kernel_cases: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

static void judge(bool good, const char *what, enum cshim_codec_id codec, enum cshim_dtype dtype,
                  uint64_t count, unsigned detail)
{
    passed += good;
    failed += !good;
    if (!good && failed < 40)
        printf("not ok - %s %s %s, %llu elements (%u)\n", what, cshim_codec_name(codec),
               cshim_dtype_name(dtype), (unsigned long long)count, detail);
}

/* Values of a kind
 * ---------------------------------------------------------------------------------------------*/
enum kind { NORMAL, ANY_BITS, SPARSE_RARE, ZEROS, HUGE_VALUES, TINY_VALUES, KINDS };

static float value_of(enum kind kind)
{
    static const uint32_t rare[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x80000000,
                                    1,          0x7f7fffff, 0x00800000, 0x7f800001, 0xff7fffff};
    const double uniform = (double)(next_random() >> 11) * 0x1p-53;
    const double normal = uniform + (double)(next_random() >> 11) * 0x1p-53 +
                          (double)(next_random() >> 11) * 0x1p-53 - 1.5;
    switch (kind) {
    case NORMAL:
        return (float)normal;
    case ANY_BITS:
        return cshim_bits_float((uint32_t)next_random());
    case SPARSE_RARE:
        return next_random() % 97 == 0 ? cshim_bits_float(rare[next_random() % 10]) : (float)normal;
    case ZEROS:
        return next_random() % 2 ? 0.0f : -0.0f;
    case HUGE_VALUES:
        return (float)(normal * 0x1p127);
    default:
        return (float)(normal * 0x1p-140);
    }
}

static void put_element(enum cshim_dtype dtype, void *buffer, size_t i, float value)
{
    if (dtype == CSHIM_FLOAT64)
        ((double *)buffer)[i] = (double)value * (i % 5 == 0 ? 1e30 : 1.0 + 1e-9);
    else if (dtype == CSHIM_FLOAT32)
        memcpy((float *)buffer + i, &value, sizeof value);
    else
        ((uint16_t *)buffer)[i] =
            dtype == CSHIM_FLOAT16 ? cshim_half_from_float(value) : cshim_bf16_encode(value);
}

static void fill(enum cshim_dtype dtype, enum kind kind, void *buffer, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_element(dtype, buffer, i, value_of(kind));
    if (kind != ANY_BITS)
        return;
    unsigned char *bytes = buffer;
    for (size_t i = 0; i < count * cshim_dtype_bytes(dtype); i++)
        bytes[i] = (unsigned char)next_random();
}

/* A host array and the machine's, shifted by some bytes
 * ---------------------------------------------------------------------------------------------*/
struct array {
    unsigned char *base, *host; /* host is what is expected there */
    unsigned char *device;
    size_t bytes, shift;
};

static struct array make_array(size_t bytes, size_t shift)
{
    struct array array = {.bytes = bytes, .shift = shift};
    array.host = room_for(bytes + ROOM);
    memset(array.host, PAINT, bytes + ROOM);
    array.base = machine_allocate(bytes + shift + 2 * ROOM);
    array.device = array.base + ROOM + shift;
    return array;
}

static void send(const struct array *array)
{
    unsigned char *paint = room_for(array->bytes + array->shift + 2 * ROOM);
    memset(paint, PAINT, array->bytes + array->shift + 2 * ROOM);
    memcpy(paint + ROOM + array->shift, array->host, array->bytes);
    machine_write(array->base, paint, array->bytes + array->shift + 2 * ROOM);
    free(paint);
}

/* Whether the machine has what is expected, and paint all round. */
static bool is_as_expected(const struct array *array)
{
    const size_t bytes = array->bytes + array->shift + 2 * ROOM;
    unsigned char *got = room_for(bytes);
    machine_read(got, array->base, bytes);
    bool good = memcmp(got + ROOM + array->shift, array->host, array->bytes) == 0;
    for (size_t i = 0; i < ROOM + array->shift; i++)
        good = good && got[i] == PAINT;
    for (size_t i = ROOM + array->shift + array->bytes; i < bytes; i++)
        good = good && got[i] == PAINT;
    free(got);
    return good;
}

static void drop(struct array *array)
{
    free(array->host);
    machine_free(array->base);
}

static const uint32_t header[CSHIM_KERNEL_HEADER_WORDS] = {11, 22, 33, 44, 55, 0, 77, 88};

static void put_header(unsigned char *message, uint64_t elements)
{
    memcpy(message, header, HEADER);
    const uint32_t number = (uint32_t)elements;
    memcpy(message + 4 * CSHIM_KERNEL_HEADER_ELEMENTS, &number, sizeof number);
}

/* Cutting
 * ---------------------------------------------------------------------------------------------*/
struct shape {
    uint64_t count, chunk;
    uint32_t pieces;
    size_t shift; /* of the caller's buffer, in elements */
};

static uint64_t elements_of(const struct shape *shape, uint32_t piece)
{
    const uint64_t begin = piece * shape->chunk;
    const uint64_t left = shape->count > begin ? shape->count - begin : 0;
    return left < shape->chunk ? left : shape->chunk;
}

static size_t stride_of(enum cshim_codec_id codec, enum cshim_dtype dtype,
                        const struct shape *shape)
{
    return HEADER + cshim_encoded_bytes(codec, dtype, shape->chunk) + 48;
}

static void test_decode(enum cshim_codec_id codec, enum cshim_dtype dtype,
                        const struct shape *shape, const struct array *messages)
{
    const size_t element = cshim_dtype_bytes(dtype), stride = stride_of(codec, dtype, shape);
    struct array output = make_array(shape->count * element, shape->shift * element);
    struct array fault = make_array(4 * CSHIM_KERNEL_FAULT_WORDS, 0);
    memset(fault.host, 0, fault.bytes);
    send(&output);
    send(&fault);
    struct cshim_kernel_decode parameters = {
        .dtype = dtype,
        .encoded = messages->device,
        .stride = stride,
        .count = shape->count,
        .chunk = shape->chunk,
        .pieces = shape->pieces,
        .output = output.device,
        .output_stride = shape->chunk,
        .fault = (uint32_t *)(void *)fault.device,
    };
    memcpy(parameters.header, header, sizeof header);
    machine_launch(CSHIM_KERNEL_DECODE, codec, shape->count, &parameters);
    for (uint32_t piece = 0; piece < shape->pieces; piece++)
        cshim_decode(codec, dtype, messages->host + piece * stride + HEADER,
                     elements_of(shape, piece), output.host + piece * shape->chunk * element);
    judge(is_as_expected(&output), "decode", codec, dtype, shape->count, (unsigned)shape->shift);
    judge(is_as_expected(&fault), "no fault of", codec, dtype, shape->count, 0);
    parameters.header[3]++;
    machine_launch(CSHIM_KERNEL_DECODE, codec, shape->count, &parameters);
    uint32_t words[CSHIM_KERNEL_FAULT_WORDS];
    machine_read(words, fault.device, sizeof words);
    judge(words[0] == CSHIM_KERNEL_FAULT_WRITTEN && words[1] < shape->pieces &&
              memcmp(words + 2, messages->host + words[1] * stride, HEADER) == 0,
          "the fault of", codec, dtype, shape->count, words[0]);
    drop(&output);
    drop(&fault);
}

/* Options: bit 0 error feedback, bit 1 rounding at random, bit 2 a factor. */
static void test_encode(enum cshim_codec_id codec, enum cshim_dtype dtype, enum kind kind,
                        const struct shape *shape, unsigned options)
{
    const size_t element = cshim_dtype_bytes(dtype), stride = stride_of(codec, dtype, shape);
    struct array input = make_array(shape->count * element, shape->shift * element);
    struct array messages = make_array(stride * shape->pieces, 0);
    struct array residual = make_array(shape->count * sizeof(float), 0);
    float *const lost = (float *)(void *)residual.host;
    fill(dtype, kind, input.host, shape->count);
    for (uint64_t i = 0; i < shape->count; i++)
        lost[i] = 0.01f * value_of(NORMAL);
    send(&input);
    send(&messages);
    send(&residual);
    struct cshim_kernel_encode parameters = {
        .dtype = dtype,
        .input = input.device,
        .input_stride = shape->chunk,
        .count = shape->count,
        .chunk = shape->chunk,
        .pieces = shape->pieces,
        .encoded = messages.device,
        .stride = stride,
        .factor = options & 4 ? -0.75 : 1.0,
        .options = {.residual = options & 1 ? (float *)(void *)residual.device : NULL,
                    .key = 77,
                    .first = 512,
                    .stochastic = options >> 1 & 1},
    };
    memcpy(parameters.header, header, sizeof header);
    machine_launch(options & 3 ? CSHIM_KERNEL_ENCODE_OPTIONS : CSHIM_KERNEL_ENCODE, codec,
                   shape->count, &parameters);
    if (options & 4) { /* float32 */
        for (uint64_t i = 0; i < shape->count; i++)
            ((float *)(void *)input.host)[i] =
                cshim_canonical(((float *)(void *)input.host)[i] * -0.75f);
    }
    for (uint32_t piece = 0; piece < shape->pieces; piece++) {
        const uint64_t elements = elements_of(shape, piece);
        if (elements == 0)
            continue;
        const struct cshim_encoding encoding = {
            .residual = options & 1 ? lost + piece * shape->chunk : NULL,
            .stochastic = options >> 1 & 1,
            .key = 77,
            .first = 512 + piece * shape->chunk};
        put_header(messages.host + piece * stride, elements);
        cshim_encode_with(codec, dtype, input.host + piece * shape->chunk * element, elements,
                          options & 3 ? &encoding : NULL, messages.host + piece * stride + HEADER);
    }
    judge(is_as_expected(&messages), "encode", codec, dtype, shape->count, options + 100 * kind);
    judge(is_as_expected(&residual), "residual of", codec, dtype, shape->count, options);
    if (options == 0)
        test_decode(codec, dtype, shape, &messages);
    drop(&input);
    drop(&messages);
    drop(&residual);
}

static void narrow(enum cshim_dtype dtype, const float *values, uint64_t count, void *output)
{
    cshim_decode(CSHIM_CODEC_FP32, dtype, values, count, output);
}

/* The sums that are expected, where they are multiplied: from those in float32. */
static void multiply_sums(enum cshim_codec_id codec, enum cshim_dtype dtype,
                          const void *const *parts, unsigned ranks, uint64_t count, void *output,
                          unsigned char *reencoded)
{
    float *sums = room_for(count * sizeof *sums);
    cshim_reduce(codec, CSHIM_FLOAT32, parts, ranks, count, sums, NULL);
    for (uint64_t i = 0; i < count; i++)
        sums[i] = cshim_canonical(sums[i] * 0.25f);
    narrow(dtype, sums, count, output);
    cshim_encode(codec, CSHIM_FLOAT32, sums, count, reencoded);
    free(sums);
}

static void test_reduce(enum cshim_codec_id codec, enum cshim_dtype dtype, enum kind kind,
                        uint64_t count, unsigned ranks, unsigned options)
{
    const struct shape shape = {count, count, 1, 0};
    const size_t element = cshim_dtype_bytes(dtype), stride = stride_of(codec, dtype, &shape);
    const size_t bytes = HEADER + cshim_encoded_bytes(codec, dtype, count);
    struct array parts = make_array(stride * ranks, 0), reencoded = make_array(bytes, 0);
    struct array output = make_array(count * element, element * (ranks % 3));
    struct array residual = make_array(count * sizeof(float), 0);
    struct array fault = make_array(4 * CSHIM_KERNEL_FAULT_WORDS, 0);
    const void *payloads[RANKS_MAX];
    void *input = room_for(count * element);
    for (unsigned rank = 0; rank < ranks; rank++) {
        fill(dtype, kind, input, count);
        put_header(parts.host + rank * stride, count);
        cshim_encode(codec, dtype, input, count, parts.host + rank * stride + HEADER);
        payloads[rank] = parts.host + rank * stride + HEADER;
    }
    float *const lost = (float *)(void *)residual.host;
    for (uint64_t i = 0; i < count; i++)
        lost[i] = 0.01f * value_of(NORMAL);
    memset(fault.host, 0, fault.bytes);
    send(&parts);
    send(&reencoded);
    send(&output);
    send(&residual);
    send(&fault);
    struct cshim_kernel_reduce parameters = {
        .dtype = dtype,
        .parts = parts.device,
        .stride = stride,
        .count = count,
        .ranks = ranks,
        .output = output.device,
        .reencoded = reencoded.device,
        .factor = options & 4 ? 0.25 : 1.0,
        .fault = (uint32_t *)(void *)fault.device,
        .options = {.residual = options & 1 ? (float *)(void *)residual.device : NULL,
                    .key = 99,
                    .first = 1024,
                    .stochastic = options >> 1 & 1},
    };
    memcpy(parameters.header, header, sizeof header);
    memcpy(parameters.reencoded_header, header, sizeof header);
    machine_launch(dtype == CSHIM_FLOAT64 ? CSHIM_KERNEL_REDUCE_DOUBLE
                   : options & 3          ? CSHIM_KERNEL_REDUCE_OPTIONS
                                          : CSHIM_KERNEL_REDUCE,
                   codec, count, &parameters);
    const struct cshim_encoding encoding = {options & 1 ? lost : NULL, options >> 1 & 1, 99, 1024};
    put_header(reencoded.host, count);
    if (options & 4)
        multiply_sums(codec, dtype, payloads, ranks, count, output.host, reencoded.host + HEADER);
    else
        cshim_reduce_with(codec, dtype, payloads, ranks, count, output.host,
                          reencoded.host + HEADER, options & 3 ? &encoding : NULL);
    judge(is_as_expected(&output), "sum of", codec, dtype, count, ranks + 100 * kind);
    judge(is_as_expected(&reencoded), "reencoded sum of", codec, dtype, count, ranks + 100 * kind);
    judge(is_as_expected(&residual), "residual of the sum of", codec, dtype, count, options);
    judge(is_as_expected(&fault), "no fault of the sum of", codec, dtype, count, ranks);
    free(input);
    drop(&parts);
    drop(&reencoded);
    drop(&output);
    drop(&residual);
    drop(&fault);
}

static void test_cast(enum cshim_codec_id codec, enum cshim_dtype dtype, enum kind kind,
                      uint64_t count, size_t shift)
{
    enum { HEADROOM = 3 };
    const size_t element = cshim_dtype_bytes(dtype), code = codec == CSHIM_CODEC_FP32 ? 4 : 2;
    struct array input = make_array(count * element, shift * element);
    struct array output = make_array(count * element, shift * element);
    struct array codes = make_array(count * code, 0), largest = make_array(sizeof(uint32_t), 0);
    float *values = room_for(cshim_encoded_bytes(CSHIM_CODEC_FP32, dtype, count));
    uint32_t most = 0;
    fill(dtype, kind, input.host, count);
    memset(largest.host, 0, largest.bytes);
    send(&input);
    send(&output);
    send(&codes);
    send(&largest);
    const struct cshim_kernel_largest find = {.dtype = dtype,
                                              .input = input.device,
                                              .count = count,
                                              .factor = 1,
                                              .largest = (uint32_t *)(void *)largest.device};
    machine_launch(CSHIM_KERNEL_LARGEST, CSHIM_CODEC_NONE, count, &find);
    struct cshim_kernel_cast cast = {.dtype = dtype,
                                     .input = input.device,
                                     .output = codes.device,
                                     .count = count,
                                     .headroom = HEADROOM,
                                     .factor = 1,
                                     .largest = (uint32_t *)(void *)largest.device};
    machine_launch(CSHIM_KERNEL_NARROW, codec, count, &cast);
    cast.input = codes.device;
    cast.output = output.device;
    machine_launch(CSHIM_KERNEL_WIDEN, codec, count, &cast);
    cshim_encode(CSHIM_CODEC_FP32, dtype, input.host, count, values);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t magnitude = cshim_finite_magnitude(values[i]);
        most = magnitude > most ? magnitude : most;
    }
    memcpy(largest.host, &most, sizeof most);
    const int exponent = cshim_scale_exponent(
        most, CSHIM_FP16_BUMP, CSHIM_FP16_MAX_EXPONENT - HEADROOM, CSHIM_FP16_MIN_SCALE);
    for (uint64_t i = 0; i < count; i++) {
        if (codec == CSHIM_CODEC_FP32) {
            memcpy(codes.host + 4 * i, values + i, 4);
            continue;
        }
        const uint16_t half = codec == CSHIM_CODEC_FP16 ? cshim_fp16_encode(values[i], exponent)
                                                        : cshim_bf16_encode(values[i]);
        memcpy(codes.host + 2 * i, &half, 2);
        values[i] =
            codec == CSHIM_CODEC_FP16 ? cshim_fp16_decode(half, exponent) : cshim_bf16_decode(half);
    }
    narrow(dtype, values, count, output.host);
    judge(is_as_expected(&largest), "largest", CSHIM_CODEC_NONE, dtype, count, kind);
    judge(is_as_expected(&codes), "narrow", codec, dtype, count, kind);
    judge(is_as_expected(&output), "widen", codec, dtype, count, kind);
    free(values);
    drop(&input);
    drop(&output);
    drop(&codes);
    drop(&largest);
}

/* Every value of 16 bits, and every so many-th of 32, in rising order: blocks of like magnitude. */
static void test_all_values(enum cshim_codec_id codec, enum cshim_dtype dtype, uint64_t step)
{
    const bool is_wide = dtype == CSHIM_FLOAT32;
    const uint64_t count = is_wide ? ((uint64_t)1 << 32) / step : 1 << 16;
    const struct shape shape = {count, count, 1, 0};
    struct array input = make_array(count * cshim_dtype_bytes(dtype), 0);
    struct array messages = make_array(stride_of(codec, dtype, &shape), 0);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)(is_wide ? i * step + next_random() % step : i);
        memcpy(input.host + i * cshim_dtype_bytes(dtype), &bits, cshim_dtype_bytes(dtype));
    }
    send(&input);
    send(&messages);
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
    drop(&input);
    drop(&messages);
}

static void test_codec(enum cshim_codec_id codec, enum cshim_dtype dtype, bool quick)
{
    static const struct shape shapes[] = {{1, 256, 1, 0},    {255, 256, 2, 1},  {256, 256, 1, 0},
                                          {257, 256, 2, 3},  {1000, 512, 3, 0}, {2048, 512, 4, 1},
                                          {2047, 512, 4, 2}, {5000, 1280, 4, 0}};
    const bool lossless = codec == CSHIM_CODEC_RAW || codec == CSHIM_CODEC_FP32;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (enum kind kind = NORMAL; kind < KINDS; kind++) {
            test_encode(codec, dtype, kind, &shapes[i], 0);
            if (!lossless && kind < ZEROS) {
                test_encode(codec, dtype, kind, &shapes[i], 1);
                test_encode(codec, dtype, kind, &shapes[i], 2);
                test_encode(codec, dtype, kind, &shapes[i], 3);
            }
            if (dtype == CSHIM_FLOAT32)
                test_encode(codec, dtype, kind, &shapes[i], 4);
        }
    }
    for (unsigned ranks = 1; ranks < RANKS_MAX; ranks += ranks < 5 ? 1 : 3) {
        for (enum kind kind = NORMAL; kind < KINDS; kind++) {
            test_reduce(codec, dtype, kind, 256 * ranks + 3 * kind, ranks, 0);
            test_reduce(codec, dtype, kind, 1, ranks, 0);
            if (!lossless)
                test_reduce(codec, dtype, kind, 512, ranks, 3);
            if (codec != CSHIM_CODEC_RAW && dtype != CSHIM_FLOAT64)
                test_reduce(codec, dtype, kind, 300, ranks, 4);
        }
    }
    if (dtype != CSHIM_FLOAT64)
        test_all_values(codec, dtype, quick ? 65521 : 61);
}

/* Every kernel's name and the bytes of its parameter. */
static void print_names(void)
{
    for (int operation = 0; operation < CSHIM_KERNEL_OPERATION_COUNT; operation++) {
        for (int codec = 0; codec < CSHIM_CODEC_COUNT; codec++) {
            const char *name = cshim_kernel_name((enum cshim_kernel_operation)operation,
                                                 (enum cshim_codec_id)codec);
            if (name != NULL)
                printf("%s %u\n", name,
                       cshim_kernel_parameter_bytes((enum cshim_kernel_operation)operation));
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "names") == 0) {
        print_names();
        return 0;
    }
    const bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    machine_open();
    for (enum cshim_codec_id codec = CSHIM_CODEC_RAW; codec < CSHIM_CODEC_COUNT; codec++) {
        for (enum cshim_dtype dtype = CSHIM_FLOAT32; dtype < CSHIM_DTYPE_COUNT; dtype++) {
            if (!cshim_codec_carries(codec, dtype))
                continue;
            test_codec(codec, dtype, quick);
            printf("%s %s: %u passed, %u failed so far\n", cshim_codec_name(codec),
                   cshim_dtype_name(dtype), passed, failed);
            fflush(stdout);
            const bool plain = codec >= CSHIM_CODEC_FP32 && codec <= CSHIM_CODEC_BF16;
            for (enum kind kind = NORMAL; plain && kind < KINDS; kind++) {
                test_cast(codec, dtype, kind, 1000 + kind, kind % 3);
                test_cast(codec, dtype, kind, 512, 0);
            }
        }
    }
    printf("kernels on %s: %u passed, %u failed\n", machine_name(), passed, failed);
    return failed > 0;
}
