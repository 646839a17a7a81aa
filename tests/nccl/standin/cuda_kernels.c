/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: the kernels of kernels/kernels.h, computed by the codecs of the CPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/scalar.h"
#include "kernels/kernels.h"
#include "tests/nccl/kernels/sizes.h"
#include "tests/nccl/standin/cuda_internal.h"

enum { HEADER_BYTES = 4 * CSHIM_KERNEL_HEADER_WORDS };

/* Context of a kernel's run. */
struct site {
    const char *name;
    enum cshim_kernel_operation operation;
    enum cshim_codec_id codec;
    int device;
    bool failed; /* a memory access was refused */
};

static void *access_bytes(struct site *site, const void *pointer, size_t bytes, bool write)
{
    static max_align_t nothing;
    if (bytes == 0)
        return &nothing;
    void *seen = standin_memory(site->device, pointer, bytes, write, site->name);
    site->failed = site->failed || seen == NULL;
    return seen;
}

static void *room(size_t bytes)
{
    void *memory = standin_zeros(bytes > 0 ? bytes : 1);
    return memory;
}

static size_t message_bytes(const struct site *site, enum cshim_dtype dtype, uint64_t count)
{
    return HEADER_BYTES + cshim_encoded_bytes(site->codec, dtype, count);
}

/* Returns the number of elements of a piece. */
static uint64_t piece_length(uint64_t count, uint64_t chunk, uint32_t piece)
{
    const uint64_t begin = chunk * piece;
    return begin >= count ? 0 : count - begin < chunk ? count - begin : chunk;
}

static bool same_header(const uint32_t *expected, uint64_t elements, const uint32_t *found)
{
    for (unsigned word = 0; word < CSHIM_KERNEL_HEADER_COMPARED; word++) {
        const uint32_t want =
            word == CSHIM_KERNEL_HEADER_ELEMENTS ? (uint32_t)elements : expected[word];
        if (found[word] != want)
            return false;
    }
    return true;
}

static void check_header(struct site *site, uint32_t *fault, uint32_t piece,
                         const uint32_t *expected, uint64_t elements, const void *message)
{
    uint32_t found[CSHIM_KERNEL_HEADER_WORDS], none = CSHIM_KERNEL_FAULT_NONE;
    memcpy(found, message, sizeof found);
    if (same_header(expected, elements, found))
        return;
    uint32_t *place = access_bytes(site, fault, 4 * CSHIM_KERNEL_FAULT_WORDS, true);
    if (place != NULL && __atomic_compare_exchange_n(place, &none, CSHIM_KERNEL_FAULT_WRITING,
                                                     false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        place[1] = piece;
        memcpy(place + 2, found, sizeof found);
        __atomic_store_n(place, CSHIM_KERNEL_FAULT_WRITTEN, __ATOMIC_RELEASE);
    }
}

static void write_header(const uint32_t *header, uint64_t elements, void *message)
{
    uint32_t words[CSHIM_KERNEL_HEADER_WORDS];
    memcpy(words, header, sizeof words);
    words[CSHIM_KERNEL_HEADER_ELEMENTS] = (uint32_t)elements;
    memcpy(message, words, sizeof words);
}

/* Convert elements to float32 and back; the payload of codec fp32 is float32. */
static void to_floats(enum cshim_dtype dtype, const void *input, size_t count, float *output)
{
    cshim_encode(CSHIM_CODEC_FP32, dtype, input, count, output);
}

static void from_floats(enum cshim_dtype dtype, const float *input, size_t count, void *output)
{
    cshim_decode(CSHIM_CODEC_FP32, dtype, input, count, output);
}

/* Returns a kernel's factor: the parameter, or an element of `dtype` on the device. */
static double factor_of(struct site *site, double factor, const void *factor_at,
                        enum cshim_dtype dtype)
{
    if (factor_at == NULL)
        return factor;
    const void *place = access_bytes(site, factor_at, cshim_dtype_bytes(dtype), false);
    double wide = 1;
    _Alignas(16) float value[4] = {0};
    if (place == NULL)
        return 1;
    if (dtype == CSHIM_FLOAT64)
        memcpy(&wide, place, sizeof wide);
    else
        to_floats(dtype, place, 1, value);
    return dtype == CSHIM_FLOAT64 ? wide : (double)value[0];
}

/* Multiplies elements in the type of sums (float64 for float64, otherwise float32), which it sets
 * in *type. Returns new memory. */
static void *scaled(const void *input, enum cshim_dtype dtype, size_t count, double factor,
                    enum cshim_dtype *type)
{
    if (dtype == CSHIM_FLOAT64) {
        double *wide = room(count * sizeof *wide);
        memcpy(wide, input, count * sizeof *wide);
        for (size_t i = 0; i < count; i++) {
            wide[i] *= factor;
            wide[i] = isnan(wide[i]) ? (double)NAN : wide[i];
        }
        *type = CSHIM_FLOAT64;
        return wide;
    }
    float *values = room((count + 4) * sizeof *values);
    to_floats(dtype, input, count, values);
    for (size_t i = 0; i < count; i++)
        values[i] = cshim_canonical(values[i] * (float)factor);
    *type = CSHIM_FLOAT32;
    return values;
}

static void encode_values(const struct site *site, enum cshim_dtype dtype, enum cshim_dtype type,
                          const void *values, size_t count, const struct cshim_encoding *encoding,
                          void *encoded)
{
    if (site->codec == CSHIM_CODEC_RAW && type != dtype) { /* raw messages have the caller's type */
        void *narrow = room(count * cshim_dtype_bytes(dtype));
        from_floats(dtype, values, count, narrow);
        cshim_encode(CSHIM_CODEC_RAW, dtype, narrow, count, encoded);
        free(narrow);
        return;
    }
    cshim_encode_with(site->codec, type, values, count, encoding, encoded);
}

/* Sets the codec's options for the elements from `first` on; returns false if the kernel has no
 * options. */
static bool encoding_of(struct site *site, const struct cshim_kernel_options *options,
                        uint64_t first, size_t count, struct cshim_encoding *encoding)
{
    *encoding = (struct cshim_encoding){
        NULL, options->stochastic != 0, options->key, options->first + first, 0, 0};
    if (options->residual != NULL)
        encoding->residual =
            access_bytes(site, options->residual + first, count * sizeof(float), true);
    return options->residual != NULL || options->stochastic != 0;
}

static void encode(struct site *site, const struct cshim_kernel_encode *p)
{
    const enum cshim_dtype dtype = (enum cshim_dtype)p->dtype;
    const size_t element = cshim_dtype_bytes(dtype);
    const double factor = factor_of(site, p->factor, p->factor_at, dtype);
    for (uint32_t piece = 0; piece < p->pieces && !site->failed; piece++) {
        const uint64_t count = piece_length(p->count, p->chunk, piece);
        if (count == 0)
            break;
        const bool own = p->own != NULL && piece == p->own_piece;
        const void *input =
            access_bytes(site, (const uint8_t *)p->input + p->input_stride * piece * element,
                         count * element, false);
        uint8_t *message =
            access_bytes(site, own ? p->own : (uint8_t *)p->encoded + p->stride * piece,
                         message_bytes(site, dtype, count), true);
        struct cshim_encoding encoding;
        const bool has_options = encoding_of(site, &p->options, p->chunk * piece, count, &encoding);
        if (site->failed)
            return;
        enum cshim_dtype type = dtype;
        void *product = factor != 1 ? scaled(input, dtype, count, factor, &type) : NULL;
        write_header(p->header, count, message);
        encode_values(site, dtype, type, product != NULL ? product : input, count,
                      has_options ? &encoding : NULL, message + HEADER_BYTES);
        free(product);
    }
}

static void decode(struct site *site, const struct cshim_kernel_decode *p)
{
    const enum cshim_dtype dtype = (enum cshim_dtype)p->dtype;
    const size_t element = cshim_dtype_bytes(dtype);
    for (uint32_t piece = 0; piece < p->pieces && !site->failed; piece++) {
        const uint64_t count = piece_length(p->count, p->chunk, piece);
        if (count == 0)
            break;
        const uint8_t *message = access_bytes(site, (const uint8_t *)p->encoded + p->stride * piece,
                                              message_bytes(site, dtype, count), false);
        void *output = access_bytes(site, (uint8_t *)p->output + p->output_stride * piece * element,
                                    count * element, true);
        if (site->failed)
            return;
        check_header(site, p->fault, piece, p->header, count, message);
        cshim_decode(site->codec, dtype, message + HEADER_BYTES, count, output);
    }
}

/* Returns the sum, multiplied by the factor, in the type of sums (*type), in new memory. */
static void *scaled_sum(const struct site *site, const struct cshim_kernel_reduce *p,
                        enum cshim_dtype dtype, const void **parts, enum cshim_dtype *type)
{
    const bool narrow_raw = site->codec == CSHIM_CODEC_RAW && dtype != CSHIM_FLOAT64;
    *type = dtype == CSHIM_FLOAT64 ? CSHIM_FLOAT64 : CSHIM_FLOAT32;
    void *sum = room((p->count + 4) * sizeof(double));
    float **wide = room(p->ranks * sizeof *wide);
    for (uint32_t rank = 0; rank < p->ranks && narrow_raw; rank++) {
        wide[rank] = room((p->count + 4) * sizeof(float));
        to_floats(dtype, parts[rank], p->count, wide[rank]);
        parts[rank] = wide[rank];
    }
    cshim_reduce(site->codec, *type, parts, p->ranks, p->count, sum, NULL);
    for (uint32_t rank = 0; rank < p->ranks && narrow_raw; rank++)
        free(wide[rank]);
    free(wide);
    for (uint64_t i = 0; i < p->count; i++)
        if (*type == CSHIM_FLOAT64)
            ((double *)sum)[i] *= p->factor;
        else
            ((float *)sum)[i] *= (float)p->factor;
    return sum;
}

static void reduce_parts(const struct site *site, const struct cshim_kernel_reduce *p,
                         const void **parts, const struct cshim_encoding *encoding, void *output,
                         void *encoded)
{
    const enum cshim_dtype dtype = (enum cshim_dtype)p->dtype;
    if (p->factor == 1) {
        cshim_reduce_with(site->codec, dtype, parts, p->ranks, p->count, output, encoded, encoding);
        return;
    }
    enum cshim_dtype type;
    void *sum = scaled_sum(site, p, dtype, parts, &type);
    if (output != NULL && type == CSHIM_FLOAT64)
        memcpy(output, sum, p->count * sizeof(double));
    else if (output != NULL)
        from_floats(dtype, sum, p->count, output);
    if (encoded != NULL)
        encode_values(site, dtype, type, sum, p->count, encoding, encoded);
    free(sum);
}

static void reduce(struct site *site, const struct cshim_kernel_reduce *p)
{
    const enum cshim_dtype dtype = (enum cshim_dtype)p->dtype;
    const size_t bytes = message_bytes(site, dtype, p->count);
    struct cshim_encoding encoding;
    if (p->count == 0)
        return;
    const void **parts = room(p->ranks * sizeof *parts);
    for (uint32_t rank = 0; rank < p->ranks; rank++) {
        const uint8_t *message =
            access_bytes(site, (const uint8_t *)p->parts + p->stride * rank, bytes, false);
        parts[rank] = message != NULL ? message + HEADER_BYTES : NULL;
        if (message != NULL)
            check_header(site, p->fault, rank, p->header, p->count, message);
    }
    void *output = p->output != NULL
                       ? access_bytes(site, p->output, p->count * cshim_dtype_bytes(dtype), true)
                       : NULL;
    uint8_t *encoded = p->reencoded != NULL ? access_bytes(site, p->reencoded, bytes, true) : NULL;
    const bool has_options = encoding_of(site, &p->options, 0, p->count, &encoding);
    if (!site->failed) {
        if (encoded != NULL)
            write_header(p->reencoded_header, p->count, encoded);
        reduce_parts(site, p, parts, has_options ? &encoding : NULL, output,
                     encoded != NULL ? encoded + HEADER_BYTES : NULL);
    }
    free(parts);
}

/* The algorithm cast --------------------------------------------------------------------------- */
/* Returns the buffer as float32, multiplied in the type of sums before the conversion. */
static float *floats_of(struct site *site, const void *pointer, enum cshim_dtype dtype,
                        uint64_t count, double factor, const void *factor_at)
{
    const void *input = access_bytes(site, pointer, count * cshim_dtype_bytes(dtype), false);
    const double by = factor_of(site, factor, factor_at, dtype);
    if (site->failed)
        return NULL;
    float *values = room((count + 4) * sizeof *values);
    if (by == 1) {
        to_floats(dtype, input, count, values);
        return values;
    }
    enum cshim_dtype type;
    void *product = scaled(input, dtype, count, by, &type);
    to_floats(type, product, count, values);
    free(product);
    return values;
}

static void largest(struct site *site, const struct cshim_kernel_cast *p)
{
    float *values =
        floats_of(site, p->input, (enum cshim_dtype)p->dtype, p->count, p->factor, p->factor_at);
    uint32_t *place = access_bytes(site, p->largest, sizeof *place, true);
    for (uint64_t i = 0; i < p->count && !site->failed; i++) {
        const uint32_t magnitude = cshim_finite_magnitude(values[i]);
        *place = magnitude > *place ? magnitude : *place;
    }
    free(values);
}

/* Returns the exponent of the scale for the whole buffer (fp16). */
static int cast_exponent(struct site *site, const struct cshim_kernel_cast *p)
{
    if (site->codec != CSHIM_CODEC_FP16)
        return 0;
    const uint32_t *place = access_bytes(site, p->largest, sizeof *place, false);
    return place == NULL ? 0 : cshim_cast_exponent(*place, (int)p->headroom);
}

static void narrow(struct site *site, const struct cshim_kernel_cast *p)
{
    const size_t element = site->codec == CSHIM_CODEC_FP32 ? 4 : 2;
    float *values =
        floats_of(site, p->input, (enum cshim_dtype)p->dtype, p->count, p->factor, p->factor_at);
    const int exponent = cast_exponent(site, p);
    uint8_t *output = access_bytes(site, p->output, p->count * element, true);
    for (uint64_t i = 0; i < p->count && !site->failed; i++) {
        const uint16_t code = site->codec == CSHIM_CODEC_FP16
                                  ? cshim_fp16_encode(values[i], exponent)
                                  : cshim_bf16_encode(values[i]);
        memcpy(output + i * element, element == 4 ? (void *)&values[i] : (void *)&code, element);
    }
    free(values);
}

static void widen(struct site *site, const struct cshim_kernel_cast *p)
{
    const enum cshim_dtype dtype = (enum cshim_dtype)p->dtype;
    const size_t element = site->codec == CSHIM_CODEC_FP32 ? 4 : 2;
    const uint8_t *input = access_bytes(site, p->input, p->count * element, false);
    const int exponent = cast_exponent(site, p);
    void *output = access_bytes(site, p->output, p->count * cshim_dtype_bytes(dtype), true);
    if (site->failed)
        return;
    float *values = calloc(p->count + 1, sizeof *values);
    if (values == NULL)
        abort();
    for (uint64_t i = 0; i < p->count; i++) {
        uint16_t code = 0;
        if (element == 2)
            memcpy(&code, input + i * 2, sizeof code);
        else
            memcpy(&values[i], input + i * 4, sizeof *values);
        if (site->codec == CSHIM_CODEC_FP16)
            values[i] = cshim_fp16_decode(code, exponent);
        else if (site->codec == CSHIM_CODEC_BF16)
            values[i] = cshim_bf16_decode(code);
    }
    if (p->factor != 1 && dtype == CSHIM_FLOAT64) {
        for (uint64_t i = 0; i < p->count; i++)
            ((double *)output)[i] = (double)values[i] * p->factor;
    } else {
        for (uint64_t i = 0; i < p->count && p->factor != 1; i++)
            values[i] *= (float)p->factor;
        from_floats(dtype, values, p->count, output);
    }
    free(values);
}

/* Names ---------------------------------------------------------------------------------------- */
static bool find_kernel(const char *name, struct site *site)
{
    for (int operation = 0; operation < CSHIM_KERNEL_OPERATION_COUNT; operation++)
        for (int codec = 0; codec < CSHIM_CODEC_COUNT; codec++) {
            const char *known = cshim_kernel_name((enum cshim_kernel_operation)operation,
                                                  (enum cshim_codec_id)codec);
            if (known != NULL && strcmp(known, name) == 0) {
                site->operation = (enum cshim_kernel_operation)operation;
                return true;
            }
        }
    return false;
}

uint32_t standin_kernel_parameter_bytes(const char *name)
{
    struct site site;
    return find_kernel(name, &site) ? kernel_parameter_bytes(site.operation) : 0;
}

CUresult standin_kernel_run(const char *name, int device, const void *parameters)
{
    struct site site = {.name = name, .device = device};
    uint32_t codec; /* the first word of every kernel's parameter */
    memcpy(&codec, parameters, sizeof codec);
    site.codec = (enum cshim_codec_id)codec;
    if (!find_kernel(name, &site))
        return CUDA_ERROR_NOT_FOUND;
    if (cshim_kernel_name(site.operation, site.codec) == NULL) {
        fprintf(stderr, "standin libcuda: %s is not for codec %u\n", name, codec);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    switch (site.operation) {
    case CSHIM_KERNEL_ENCODE:
        encode(&site, parameters);
        break;
    case CSHIM_KERNEL_DECODE:
        decode(&site, parameters);
        break;
    case CSHIM_KERNEL_REDUCE:
        reduce(&site, parameters);
        break;
    case CSHIM_KERNEL_NARROW:
        narrow(&site, parameters);
        break;
    case CSHIM_KERNEL_WIDEN:
        widen(&site, parameters);
        break;
    default:
        largest(&site, parameters);
    }
    return site.failed ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}
