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

/* The lane's part of a grain in a message; one of its elements at least is in the message. */
struct lane_part {
    const uint8_t *codes, *scale;
    int64_t left; /* bytes of the message's codes from there on */
};

template <typename FORMAT>
CSHIM_DEVICE struct lane_part lane_part_of(const uint8_t *message, uint64_t grain_first,
                                           uint64_t elements)
{
    const uint8_t *payload = message + HEADER_BYTES;
    const uint64_t first = grain_first + LANE_ELEMENTS * lane_number();
    const uint64_t bytes = payload_bytes(FORMAT::BITS, elements);
    const uint8_t *codes = first_word<FORMAT::BITS>(payload + grain_first * FORMAT::BITS / 8);
    const uint64_t block = FORMAT::SCALE_BYTES > 0 ? first / FORMAT::BLOCK : 0;
    return {codes, payload + bytes + block * FORMAT::SCALE_BYTES, payload + bytes - codes};
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

/* The value of one element of a message; the codec may be RAW_HALF. */
CSHIM_RARE float value_at(uint32_t codec, const uint8_t *message, uint64_t elements,
                          uint64_t element)
{
    const struct codec_layout layout = layout_of(codec);
    const uint8_t *payload = message + HEADER_BYTES;
    const uint8_t *scales = payload + payload_bytes(layout.bits, elements);
    const uint64_t block = element >> layout.block_exponent;
    uint32_t code, stored = raw_half::UNIT;
    if (layout.bits == 32)
        code = ((const uint32_t *)payload)[element];
    else if (layout.bits == 16)
        code = ((const uint16_t *)payload)[element];
    else
        code = cshim_narrow_code(payload, layout.bits, element);
    if (layout.scale_bytes == 1)
        stored = scales[block];
    else if (layout.scale_bytes == 2)
        stored = ((const uint16_t *)scales)[block];
    return decode_element(codec == RAW_HALF ? (uint32_t)CSHIM_CODEC_FP16 : codec, code, stored);
}

/* Where a grain of values goes. */
struct target {
    uint8_t *message;
    struct grain grain;
    uint64_t number; /* of the grain's first element among the kernel's elements */
};

/* Stores a scale, if the lane is the first of its block. */
CSHIM_DEVICE void store_scale(const struct target *target, uint8_t *scales, unsigned block_exponent,
                              unsigned scale_bytes, uint32_t stored)
{
    const uint64_t first = target->grain.first + LANE_ELEMENTS * lane_number();
    const uint64_t block = first >> block_exponent;
    if (block << block_exponent != first || first >= target->grain.elements)
        return;
    if (scale_bytes == 1)
        scales[block] = (uint8_t)stored;
    else
        ((uint16_t *)scales)[block] = (uint16_t)stored;
}

/* Stores the lane's codes and scale. */
template <typename FORMAT>
CSHIM_DEVICE void store_codes(const struct target *target, const uint32_t *codes, uint32_t stored)
{
    uint8_t *payload = target->message + HEADER_BYTES;
    const uint64_t bytes = payload_bytes(FORMAT::BITS, target->grain.elements);
    const uint64_t offset = target->grain.first * FORMAT::BITS / 8;
    store_message<FORMAT::BITS>(payload + offset, (int64_t)(bytes - offset), codes);
    if (FORMAT::SCALE_BYTES > 0)
        store_scale(target, payload + bytes, FORMAT::BLOCK_EXPONENT, FORMAT::SCALE_BYTES, stored);
}

/* Pads the scales of a message. */
CSHIM_RARE void pad_scales(uint32_t codec, uint8_t *message, uint64_t elements)
{
    const struct codec_layout layout = layout_of(codec);
    const uint64_t blocks = elements == 0 ? 0 : ((elements - 1) >> layout.block_exponent) + 1;
    const uint64_t end = blocks * layout.scale_bytes;
    uint8_t *scales = message + HEADER_BYTES + payload_bytes(layout.bits, elements);
    if (lane_number() < padded(end) - end)
        scales[end + lane_number()] = 0;
}

/* The random number of an element. */
CSHIM_DEVICE uint32_t random_of(uint64_t stream, uint64_t element)
{
    const uint64_t pair = cshim_random_pair(stream, element / 2);
    return (uint32_t)(element % 2 == 0 ? pair : pair >> 32);
}

/* Encodes a lane's values, with rounding at random if the options say so. The codes are zeros to
 * begin with. */
CSHIM_DEVICE void encode_values_with(uint32_t codec, unsigned bits,
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
        const uint32_t code =
            options->stochastic != 0 && is_finite
                ? random_element(codec, value, stored, random_of(stream, first + i))
                : encode_element(codec, value, stored);
        put_code(codes->word, bits, i, code);
    }
}

/* The largest finite magnitude of the lane's block, as bits. */
CSHIM_RARE uint32_t block_largest_finite(const struct lane_values *values, unsigned block_exponent)
{
    uint32_t largest = 0;
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS; i++)
        largest = max(largest, cshim_finite_magnitude(values->value[i]));
#pragma unroll 1
    for (int distance = (1 << block_exponent) / LANE_ELEMENTS / 2; distance > 0; distance /= 2)
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

/* Encodes a grain of any values, with error feedback and rounding at random if the options say so.
 */
CSHIM_RARE void encode_grain_with(uint32_t codec, const struct target *target,
                                  const struct cshim_kernel_options *options,
                                  struct lane_values *values)
{
    const uint64_t number = target->number + LANE_ELEMENTS * lane_number();
    float *residual = options->residual != NULL ? options->residual + number : NULL;
    const struct codec_layout layout = layout_of(codec);
    const unsigned bits = layout.bits;
    const int valid = valid_elements(target->grain);
    uint8_t *const payload = target->message + HEADER_BYTES;
    const uint64_t bytes = payload_bytes(bits, target->grain.elements);
    const uint64_t offset = (target->grain.first + LANE_ELEMENTS * lane_number()) * bits / 8;
    const bool at_random = options->stochastic != 0;
    uint32_t largest = block_largest_finite(values, layout.block_exponent), stored = 0;
    struct lane_codes codes = {};
    if (residual != NULL) {
        add_residuals(residual, valid, residual_limit(codec, largest, at_random), values);
        largest = block_largest_finite(values, layout.block_exponent);
    }
    stored = choose_scale(codec, largest, at_random);
    encode_values_with(codec, bits, options, values, stored, number, &codes);
#pragma unroll 1
    for (unsigned i = 0; i < bits / 4 && bits % 4 == 0 && offset + 4 * i < bytes; i++)
        ((uint32_t *)(payload + offset))[i] = codes.word[i];
#pragma unroll 1
    for (unsigned i = 0; i < bits && bits % 4 != 0 && offset + i < bytes; i++)
        payload[offset + i] = (uint8_t)(codes.word[i / 4] >> i % 4 * 8);
    if (layout.scale_bytes > 0)
        store_scale(target, payload + bytes, layout.block_exponent, layout.scale_bytes, stored);
    if (residual == NULL)
        return;
#pragma unroll 1
    for (int i = 0; i < valid; i++) {
        const float decoded = decode_element(codec, get_code(codes.word, bits, i), stored);
        residual[i] = cshim_feedback_rest(values->value[i], decoded);
    }
}

/* Encodes a grain of values. */
CSHIM_DEVICE void encode_grain(uint32_t codec, const struct target &target,
                               const struct cshim_kernel_options *options,
                               const struct lane_values &values)
{
    const uint32_t largest = lane_largest(values);
    const bool is_plain = options->residual == NULL && options->stochastic == 0 &&
                          !__any_sync(ALL_LANES, largest >= CSHIM_INFINITY_BITS);
    if (is_plain) {
        with_format<false>(codec, [&](auto format) {
            typedef decltype(format) FORMAT;
            uint32_t codes[FORMAT::WORDS] = {}, stored = 0;
            if (FORMAT::SCALE_BYTES > 0)
                stored = FORMAT::choose(block_largest<FORMAT::BLOCK>(largest), false);
            FORMAT::encode_fast(values.value, stored, codes);
            store_codes<FORMAT>(&target, codes, stored);
        });
    } else {
        /* Copies, so that only these lie in memory. */
        struct lane_values values_copy = values;
        const struct target target_copy = target;
        encode_grain_with(codec, &target_copy, options, &values_copy);
    }
    /* The scales are padded when the message's last grain has been written. */
    if (target.grain.elements <= target.grain.first + CSHIM_GRAIN)
        pad_scales(codec, target.message, target.grain.elements);
}

/* Messages with the same elements, which are added in their order. */
struct parts {
    uint32_t codec; /* not raw; RAW_HALF is allowed */
    const uint8_t *messages;
    uint64_t stride; /* in bytes */
    uint32_t ranks;
    uint64_t elements;
};

/* Adds the next parts, PARTS of them but not more than `left`, and goes on to those after them; all
 * of their loads are under way at once. Returns false, with all as it was, if the next has to be
 * added by add_singly. */
template <typename FORMAT, int PARTS>
CSHIM_DEVICE bool add_parts(struct lane_part &part, uint64_t stride, uint32_t left, float *sum)
{
    uint32_t codes[PARTS][FORMAT::WORDS], stored[PARTS];
    struct lane_part next = part;
    bool is_fast = true;
#pragma unroll
    for (unsigned i = 0; i < PARTS; i++) {
        stored[i] = FORMAT::UNIT;
#pragma unroll
        for (int k = 0; k < FORMAT::WORDS; k++)
            codes[i][k] = FORMAT::nothing(k);
        if (i == 0 || i < left)
            stored[i] = load_codes<FORMAT>(next, codes[i]);
        next.codes += stride;
        next.scale += stride;
    }
#pragma unroll
    for (int i = 0; i < PARTS; i++)
        is_fast &= FORMAT::is_fast(codes[i], stored[i]);
    if (is_fast) {
#pragma unroll
        for (int i = 0; i < PARTS; i++)
            FORMAT::add_fast(codes[i], stored[i], sum);
        part = next;
    }
    return is_fast;
}

/* Adds a lane's elements of one part, from `first` on. */
CSHIM_RARE void add_singly(uint32_t codec, const uint8_t *part, uint64_t elements, uint64_t first,
                           struct lane_values *sum)
{
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS && first + i < elements; i++)
        sum->value[i] = sum->value[i] + value_at(codec, part, elements, first + i);
}

/* Adds a grain of all parts, of which AT_ONCE are loaded at a time. The lane has elements. */
template <int AT_ONCE>
CSHIM_DEVICE void add_all(const struct parts &parts, uint64_t first, struct lane_values &sum)
{
    uint32_t rank = 0;
    do {
        with_format<(AT_ONCE > 1)>(parts.codec, [&](auto format) {
            typedef decltype(format) FORMAT;
            const int most = FORMAT::WORDS > 2 ? 2 : 4, count = most < AT_ONCE ? most : AT_ONCE;
            struct lane_part part = lane_part_of<FORMAT>(parts.messages + parts.stride * rank,
                                                         first, parts.elements);
#pragma unroll 1
            while (rank < parts.ranks &&
                   add_parts<FORMAT, count>(part, parts.stride, parts.ranks - rank, sum.value))
                rank += count;
        });
        if (rank < parts.ranks) {
            struct lane_values copy = sum;
            add_singly(parts.codec, parts.messages + parts.stride * rank, parts.elements,
                       first + LANE_ELEMENTS * lane_number(), &copy);
            sum = copy;
            rank++;
        }
    } while (AT_ONCE > 1 && rank < parts.ranks);
}

/* The sum of a grain of all parts. NaNs are canonical; but the floats of a single part, to which
 * nothing is added, are left as they are. */
template <int AT_ONCE>
CSHIM_DEVICE void sum_parts(const struct parts &parts, uint64_t first, struct lane_values &sum)
{
    const bool has_elements = first + LANE_ELEMENTS * lane_number() < parts.elements;
    if (parts.codec == CSHIM_CODEC_FP32 && parts.ranks == 1 && has_elements) {
        uint32_t codes[LANE_ELEMENTS] = {};
        typedef format<CSHIM_CODEC_FP32> FORMAT;
        load_codes<FORMAT>(lane_part_of<FORMAT>(parts.messages, first, parts.elements), codes);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            sum.value[i] = cshim_bits_float(codes[i]);
        return;
    }
    /* The sum of -0 and a value is the value. */
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        sum.value[i] = -0.0f;
    if (has_elements)
        add_all<AT_ONCE>(parts, first, sum);
    make_canonical(sum);
}

#endif
