/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: where their parts lie, their headers, a grain of values written as part of one, and the
 * sum of a grain of several. */
#ifndef CSHIM_MESSAGE_CUH
#define CSHIM_MESSAGE_CUH

#include "kernels/formats.cuh"

#define HEADER_BYTES (4 * CSHIM_KERNEL_HEADER_WORDS)

CSHIM_DEVICE uint64_t padded(uint64_t bytes)
{
    return (bytes + CSHIM_WIRE_ALIGN - 1) / CSHIM_WIRE_ALIGN * CSHIM_WIRE_ALIGN;
}

/* Bytes of a payload and its padding. */
CSHIM_DEVICE uint64_t payload_bytes(unsigned bits, uint64_t elements)
{
    return padded(cshim_payload_bytes(bits, elements));
}

/* Writes the header of a piece with its number of elements. The warp with the first grain calls it.
 */
CSHIM_DEVICE void write_header(uint8_t *message, const uint32_t *header, uint64_t elements)
{
    const unsigned lane = lane_number();
    if (lane < CSHIM_KERNEL_HEADER_WORDS)
        ((uint32_t *)message)[lane] =
            lane == CSHIM_KERNEL_HEADER_ELEMENTS ? (uint32_t)elements : header[lane];
}

/* Compares a header with the one expected, and reports it if no other has been. All lanes must come
 * here. */
CSHIM_DEVICE void check_header(const uint8_t *message, const uint32_t *expected, uint64_t elements,
                               uint32_t number, uint32_t *fault)
{
    const unsigned lane = lane_number();
    uint32_t got = 0;
    bool differs = false;
    if (lane < CSHIM_KERNEL_HEADER_WORDS) {
        got = ((const uint32_t *)message)[lane];
        const uint32_t want =
            lane == CSHIM_KERNEL_HEADER_ELEMENTS ? (uint32_t)elements : expected[lane];
        differs = lane < CSHIM_KERNEL_HEADER_COMPARED && got != want;
    }
    if (!__any_sync(ALL_LANES, differs))
        return;
    uint32_t before = 1;
    if (lane == 0)
        before = atomicCAS(&fault[0], CSHIM_KERNEL_FAULT_NONE, CSHIM_KERNEL_FAULT_WRITING);
    if (__shfl_sync(ALL_LANES, before, 0) != CSHIM_KERNEL_FAULT_NONE)
        return;
    if (lane == 0)
        fault[1] = number;
    if (lane < CSHIM_KERNEL_HEADER_WORDS)
        fault[2 + lane] = got;
    __threadfence_system();
    __syncwarp();
    if (lane == 0)
        *(volatile uint32_t *)fault = CSHIM_KERNEL_FAULT_WRITTEN;
}

/* A message: where its codes begin, and its scales. */
struct message {
    uint8_t *payload, *scales;
};

CSHIM_DEVICE struct message message_at(const struct cshim_format *format, const void *address,
                                       uint64_t elements)
{
    uint8_t *payload = (uint8_t *)address + HEADER_BYTES;
    return {payload, payload + payload_bytes((unsigned)format->bits, elements)};
}

/* The lane's part of a grain in a message; one of its elements at least is in the message. */
struct lane_part {
    const uint8_t *codes, *scale;
    int64_t left; /* bytes of the message's codes from there on */
};

/* Where in a message's scales that of the lane's elements is. */
template <typename FORMAT>
CSHIM_DEVICE uint8_t *scale_of(const struct message &message, uint32_t grain)
{
    const unsigned blocks = CSHIM_GRAIN / FORMAT::BLOCK;
    return message.scales + (uint64_t)grain * (blocks * FORMAT::SCALE_BYTES) +
           LANE_ELEMENTS * lane_number() / FORMAT::BLOCK * FORMAT::SCALE_BYTES;
}

/* Loads the lane's codes. Returns its scale. */
template <typename FORMAT>
CSHIM_DEVICE uint32_t load_codes(const struct lane_part &part, uint32_t *codes)
{
    load_message<FORMAT::BITS>(part.codes, part.left, codes);
    return FORMAT::SCALE_BYTES == 0   ? FORMAT::UNIT
           : FORMAT::SCALE_BYTES == 1 ? *part.scale
                                      : *(const uint16_t *)part.scale;
}

/* The value of one element of a message. */
CSHIM_RARE float value_at(const struct cshim_format *format, const struct message *message,
                          uint64_t element)
{
    const uint8_t *payload = message->payload, *scales = message->scales;
    const uint64_t block = block_of(format, element);
    uint32_t code, stored = (uint32_t)-format->min_scale;
    if (format->bits == 32)
        code = ((const uint32_t *)payload)[element];
    else if (format->bits == 16)
        code = ((const uint16_t *)payload)[element];
    else
        code = cshim_narrow_code(payload, (unsigned)format->bits, element);
    if (format->scale_bytes == 1)
        stored = scales[block];
    else if (format->scale_bytes == 2)
        stored = ((const uint16_t *)scales)[block];
    return decode_element(format, code, stored);
}

/* Where a grain of values goes. */
struct target {
    struct message message;
    struct grain grain;
    uint64_t chunk; /* elements before each piece but the first */
};

/* Stores a scale, if the lane is the first of its block and has elements. */
CSHIM_DEVICE void store_scale(uint8_t *at, const struct grain &grain, unsigned block,
                              unsigned scale_bytes, uint32_t stored)
{
    const unsigned first = LANE_ELEMENTS * lane_number();
    if (first % block != 0 || first >= grain_elements(grain))
        return;
    if (scale_bytes == 1)
        *at = (uint8_t)stored;
    else
        *(uint16_t *)at = (uint16_t)stored;
}

/* Stores the lane's codes and scale. */
template <typename FORMAT>
CSHIM_DEVICE void store_codes(const struct message &message, const struct grain &grain,
                              const uint32_t *codes, uint32_t stored)
{
    const unsigned bytes = (unsigned)payload_bytes(FORMAT::BITS, grain_elements(grain));
    store_message<FORMAT::BITS>(message.payload + (uint64_t)grain.number * (32 * FORMAT::BITS),
                                bytes, codes);
    if (FORMAT::SCALE_BYTES > 0)
        store_scale(scale_of<FORMAT>(message, grain.number), grain, FORMAT::BLOCK,
                    FORMAT::SCALE_BYTES, stored);
}

/* Pads the scales of a message. */
CSHIM_DEVICE void pad_scales(const struct cshim_format *format, uint8_t *scales, uint64_t elements)
{
    const uint64_t end = (block_of(format, elements - 1) + 1) * (unsigned)format->scale_bytes;
#pragma unroll 1
    for (uint64_t at = end; at < padded(end) && lane_number() == 0; at++)
        scales[at] = 0;
}

/* The random number of an element. */
CSHIM_DEVICE uint32_t random_of(uint64_t stream, uint64_t element)
{
    const uint64_t pair = cshim_random_pair(stream, element / 2);
    return (uint32_t)(element % 2 == 0 ? pair : pair >> 32);
}

/* Encodes a lane's values, with rounding at random if the options say so. The codes are zeros to
 * begin with. */
CSHIM_DEVICE void encode_values_with(const struct cshim_format *format,
                                     const struct cshim_kernel_options *options,
                                     const struct lane_values *values, uint32_t stored,
                                     uint64_t number, struct lane_codes *codes)
{
    const uint64_t stream = cshim_random_stream(options->key);
    const uint64_t first = options->first + number;
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS; i++) {
        const float value = values->value[i];
        const bool is_finite = (cshim_float_bits(value) & ~CSHIM_SIGN_BIT) < CSHIM_INFINITY_BITS;
        put_code(codes->word, (unsigned)format->bits, i,
                 encode_element(format, value, stored, options->stochastic != 0 && is_finite,
                                random_of(stream, first + i)));
    }
}

/* The largest finite magnitude of the lane's block, as bits. */
CSHIM_RARE uint32_t block_largest_finite(const struct cshim_format *format,
                                         const struct lane_values *values)
{
    uint32_t largest = 0;
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS; i++)
        largest = max(largest, cshim_finite_magnitude(values->value[i]));
#pragma unroll 1
    for (int distance = format->block / LANE_ELEMENTS / 2; distance > 0; distance /= 2)
        largest = max(largest, __shfl_xor_sync(ALL_LANES, largest, distance));
    return largest;
}

/* Adds the residuals of a lane's valid elements, as far as they are within the limit. */
CSHIM_RARE void add_residuals(const float *residual, int valid, float limit,
                              struct lane_values *values)
{
#pragma unroll 1
    for (int i = 0; i < valid; i++)
        values->value[i] = cshim_feedback_add(values->value[i], residual[i], limit);
}

/* Stores the lane's codes and scale, of any format. */
CSHIM_RARE void store_singly(const struct cshim_format *format, const struct target *target,
                             const struct lane_codes *codes, uint32_t stored)
{
    const unsigned bits = (unsigned)format->bits, scale_bytes = (unsigned)format->scale_bytes;
    const uint64_t first = first_element(target->grain);
    uint8_t *const to = target->message.payload + first * bits / 8;
    const int64_t left = target->message.scales - to;
#pragma unroll 1
    for (unsigned i = 0; i < bits && i < left; i++)
        to[i] = (uint8_t)(codes->word[i / 4] >> i % 4 * 8);
    if (scale_bytes > 0)
        store_scale(target->message.scales + block_of(format, first) * scale_bytes, target->grain,
                    (unsigned)format->block, scale_bytes, stored);
}

/* Keeps what the codes of a lane's valid elements leave out of its values. */
CSHIM_RARE void keep_residuals(const struct cshim_format *format, const struct lane_values *values,
                               const struct lane_codes *codes, uint32_t stored, int valid,
                               float *residual)
{
#pragma unroll 1
    for (int i = 0; i < valid; i++) {
        const uint32_t code = get_code(codes->word, (unsigned)format->bits, i);
        residual[i] = cshim_feedback_rest(values->value[i], decode_element(format, code, stored));
    }
}

/* Encodes a grain of any values, with error feedback and rounding at random if the options say so.
 */
CSHIM_RARE void encode_grain_with(const struct cshim_format *format, const struct target *target,
                                  const struct cshim_kernel_options *options,
                                  struct lane_values *values)
{
    const uint64_t number = target->grain.piece * target->chunk + first_element(target->grain);
    float *residual = options->residual != NULL ? options->residual + number : NULL;
    const bool at_random = options->stochastic != 0;
    uint32_t largest = block_largest_finite(format, values), stored = 0;
    struct lane_codes codes = {};
    if (residual != NULL) {
        const float share = cshim_feedback_share(*format, at_random);
        add_residuals(residual, valid_elements(target->grain), cshim_bits_float(largest) * share,
                      values);
        largest = block_largest_finite(format, values);
    }
    stored = choose_scale(format, largest, at_random);
    encode_values_with(format, options, values, stored, number, &codes);
    store_singly(format, target, &codes, stored);
    if (residual != NULL)
        keep_residuals(format, values, &codes, stored, valid_elements(target->grain), residual);
}

/* Encodes a grain of values, of which the lane's largest magnitude is given, as a kernel's
 * parameters say. There are `chunk` elements before each piece but the first. */
template <typename PARAMETERS>
CSHIM_DEVICE void encode_grain(const PARAMETERS &parameters, uint64_t chunk,
                               const struct message &message, const struct grain &grain,
                               const struct lane_values &values, uint32_t largest)
{
    const struct cshim_kernel_options *const options = &parameters.options;
    bool is_encoded = false;
    if (options->residual == NULL && options->stochastic == 0) {
        with_format<false>(
            parameters.codec,
            [&](auto format) {
                typedef decltype(format) FORMAT;
                const bool has_scale = FORMAT::SCALE_BYTES > 0;
                const struct block_scale scale =
                    FORMAT::choose(has_scale ? block_largest<FORMAT::BLOCK>(largest) : largest);
                if (__any_sync(ALL_LANES, !scale.is_fast))
                    return;
                uint32_t codes[FORMAT::WORDS];
                FORMAT::encode_fast(values.value, scale.factor, codes);
                store_codes<FORMAT>(message, grain, codes, scale.stored);
                is_encoded = true;
            });
    }
    if (!is_encoded) {
        /* Copies, so that only these lie in memory. */
        struct lane_values values_copy = values;
        const struct target target = {message, grain, chunk};
        encode_grain_with(&parameters.format, &target, options, &values_copy);
    }
    /* The scales are padded when the message's last grain has been written. */
    if (grain.number + 1 == grains_of(grain.elements))
        pad_scales(&parameters.format, message.scales, grain.elements);
}

/* Messages with the same elements, which are added in their order. Where the lane's part of a grain
 * lies is known before the format is, so that no format has code for it. */
struct parts {
    uint32_t codec; /* not raw; RAW_HALF is allowed */
    const struct cshim_format *format;
    uint32_t ranks;
    uint64_t stride; /* in bytes */
    struct message first;
    struct lane_part lane;            /* of the first message's first grain */
    uint32_t codes_step, scales_step; /* bytes of a grain */
};

CSHIM_DEVICE struct parts parts_of(uint32_t codec, const struct cshim_format *format,
                                   const void *address, uint64_t elements, uint64_t stride,
                                   uint32_t ranks)
{
    const unsigned bits = (unsigned)format->bits, scale_bytes = (unsigned)format->scale_bytes;
    const struct message first = message_at(format, address, elements);
    const uint8_t *codes = first.payload + first_word(bits);
    const unsigned block = (unsigned)block_of(format, LANE_ELEMENTS * lane_number());
    return {codec,     format,
            ranks,     stride,
            first,     {codes, first.scales + block * scale_bytes, first.scales - codes},
            32 * bits, (unsigned)block_of(format, CSHIM_GRAIN) * scale_bytes};
}

CSHIM_DEVICE void go_on(struct lane_part &part, uint64_t stride)
{
    part.codes += stride;
    part.scale += stride;
}

/* Adds the next parts, PARTS of them but not more than `left`, and goes on to those after them; all
 * of their loads are under way at once. Returns false, with all as it was, if the next has to be
 * added by add_singly. */
template <typename FORMAT, int PARTS>
CSHIM_DEVICE bool add_parts(struct lane_part &part, uint64_t stride, uint32_t left, float *sum)
{
    uint32_t codes[PARTS][FORMAT::WORDS], stored[PARTS];
    struct lane_part next = part;
    struct doubts doubts = {0, 0};
#pragma unroll
    for (unsigned i = 0; i < PARTS; i++) {
        stored[i] = FORMAT::UNIT;
#pragma unroll
        for (int k = 0; k < FORMAT::WORDS; k++)
            codes[i][k] = FORMAT::nothing(k);
        if (i == 0 || i < left)
            stored[i] = load_codes<FORMAT>(next, codes[i]);
        go_on(next, stride);
    }
#pragma unroll
    for (int i = 0; i < PARTS; i++)
        FORMAT::look(codes[i], stored[i], doubts);
    const bool is_fast = doubts.codes == 0 && doubts.scale <= FORMAT::FAST_SPAN;
    if (is_fast) {
#pragma unroll
        for (int i = 0; i < PARTS; i++)
            FORMAT::add_fast(codes[i], stored[i], sum);
        part = next;
    }
    return is_fast;
}

/* Adds a lane's elements of one part. */
CSHIM_RARE void add_singly(const struct cshim_format *format, const struct message *part,
                           const struct grain *grain, struct lane_values *sum)
{
    const uint64_t first = first_element(*grain);
    const int valid = valid_elements(*grain);
#pragma unroll 1
    for (int i = 0; i < valid; i++)
        sum->value[i] = sum->value[i] + value_at(format, part, first + i);
}

/* The sum of a grain of all parts, of which AT_ONCE are loaded at a time. NaNs may have any
 * payload; but the floats of a single part, to which nothing is added, are left as they are. */
template <int AT_ONCE>
CSHIM_DEVICE void sum_parts(const struct parts &parts, const struct grain &grain,
                            struct lane_values &sum)
{
    const bool has_elements = LANE_ELEMENTS * lane_number() < grain_elements(grain);
    const uint64_t codes = (uint64_t)grain.number * parts.codes_step;
    struct lane_part part = {parts.lane.codes + codes,
                             parts.lane.scale + (uint64_t)grain.number * parts.scales_step,
                             parts.lane.left - (int64_t)codes};
    uint32_t rank = has_elements ? 0 : parts.ranks;
    /* The sum of -0 and a value is the value. */
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        sum.value[i] = -0.0f;
    while (rank < parts.ranks) {
        with_format<(AT_ONCE > 1)>(parts.codec, [&](auto format) {
            typedef decltype(format) FORMAT;
            const int most = FORMAT::WORDS > 2 ? 2 : 4, count = most < AT_ONCE ? most : AT_ONCE;
            if (FORMAT::BITS == 32 && parts.ranks == 1) {
                load_codes<FORMAT>(part, (uint32_t *)sum.value);
                rank++;
            }
#pragma unroll 1
            while (rank < parts.ranks &&
                   add_parts<FORMAT, count>(part, parts.stride, parts.ranks - rank, sum.value))
                rank += count;
        });
        if (rank < parts.ranks) {
            struct lane_values copy = sum;
            const struct grain grain_copy = grain;
            const uint64_t offset = parts.stride * rank;
            const struct message message = {parts.first.payload + offset,
                                            parts.first.scales + offset};
            add_singly(parts.format, &message, &grain_copy, &copy);
            sum = copy;
            rank++;
            go_on(part, parts.stride);
        }
    }
}

/* Makes NaNs canonical, unless the values are those of a single part of floats. Returns the largest
 * magnitude, as lane_largest does. */
CSHIM_DEVICE uint32_t finish_sum(const struct parts &parts, struct lane_values &sum)
{
    return parts.codec == CSHIM_CODEC_FP32 && parts.ranks == 1 ? lane_largest(sum)
                                                               : make_canonical(sum);
}

#endif
