/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: their layout and headers, the encoding of a grain into a message, and the sum of a
 * grain of several messages. */
#ifndef CSHIM_MESSAGE_CUH
#define CSHIM_MESSAGE_CUH

#include "kernels/formats.cuh"

#define HEADER_BYTES (4 * CSHIM_KERNEL_HEADER_WORDS)

CSHIM_DEVICE uint64_t padded(uint64_t bytes)
{
    return (bytes + CSHIM_WIRE_ALIGN - 1) / CSHIM_WIRE_ALIGN * CSHIM_WIRE_ALIGN;
}

/* Returns the bytes of a payload with its padding. */
CSHIM_DEVICE uint64_t payload_bytes(unsigned bits, uint64_t elements)
{
    return padded(cshim_payload_bytes(bits, elements));
}

/* Writes the header of a piece, with the piece's number of elements. Called by the warp with the
 * first grain. */
CSHIM_DEVICE void write_header(uint8_t *message, const uint32_t *header, uint64_t elements)
{
    const unsigned lane = lane_number();
    if (lane < CSHIM_KERNEL_HEADER_WORDS)
        ((uint32_t *)message)[lane] =
            lane == CSHIM_KERNEL_HEADER_ELEMENTS ? (uint32_t)elements : header[lane];
}

/* Compares a header with the expected one, and records a difference unless a fault is recorded
 * already. All lanes must call it. */
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

/* The addresses of a message's codes and scales. */
struct message {
    uint8_t *payload, *scales;
};

CSHIM_DEVICE struct message message_at(const struct cshim_format *format, const void *address,
                                       uint64_t elements)
{
    uint8_t *payload = (uint8_t *)address + HEADER_BYTES;
    return {payload, payload + payload_bytes((unsigned)format->bits, elements)};
}

/* Returns the address of the scale of a lane's elements. */
template <typename FORMAT>
CSHIM_DEVICE uint8_t *scale_of(const struct message &message, uint32_t grain, unsigned lane)
{
    const unsigned blocks = CSHIM_GRAIN / FORMAT::BLOCK;
    return message.scales + (uint64_t)grain * (blocks * FORMAT::SCALE_BYTES) +
           LANE_ELEMENTS * lane / FORMAT::BLOCK * FORMAT::SCALE_BYTES;
}

/* Returns the value of one element of a message. */
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
    if (format->scale_bytes > 0)
        stored = cshim_load_scale(*format, scales, block);
    return decode_element(format, code, stored);
}

/* The destination of an encoded grain. */
struct target {
    struct message message;
    struct grain grain;
    uint64_t chunk; /* elements of each full piece: piece p begins at element p * chunk */
};

/* Stores a block's scale. */
CSHIM_DEVICE void store_scale(uint8_t *at, unsigned scale_bytes, uint32_t stored)
{
    if (scale_bytes == 1)
        *at = (uint8_t)stored;
    else
        *(uint16_t *)at = (uint16_t)stored;
}

/* Stores the lane's codes and scale of a whole grain. */
template <typename FORMAT>
CSHIM_DEVICE void store_codes(const struct message &message, const struct grain &grain,
                              const uint32_t *codes, uint32_t stored)
{
    store_message<FORMAT::BITS>(message.payload + (uint64_t)grain.number * (32 * FORMAT::BITS),
                                codes);
    if (FORMAT::SCALE_BYTES > 0 && LANE_ELEMENTS * lane_number() % FORMAT::BLOCK == 0)
        store_scale(scale_of<FORMAT>(message, grain.number, lane_number()), FORMAT::SCALE_BYTES,
                    FORMAT::HAS_GRAIN
                        ? cshim_e4m3_byte(lane_number() * LANE_ELEMENTS / FORMAT::BLOCK, stored)
                        : stored);
}

/* Fills the padding after the scales of a message with zeros. E4M3 scales have no padding, because
 * a grain has 16 of them. Their case has no branch, because a branch makes the kernels spill
 * registers. */
CSHIM_DEVICE void pad_scales(const struct cshim_format *format, uint8_t *scales, uint64_t elements)
{
    const unsigned others = 15u * (format->scale == CSHIM_SCALE_E4M3);
    const uint64_t last = block_of(format, elements - 1) | others;
    const uint64_t end = (last + 1) * (unsigned)format->scale_bytes;
#pragma unroll 1
    for (uint64_t at = end; at < padded(end) && lane_number() == 0; at++)
        scales[at] = 0;
}

/* Writes the header of a message and the padding of its scales. Called by the warp with the first
 * grain. */
CSHIM_DEVICE void begin_message(const struct cshim_format *format, const struct message &message,
                                const uint32_t *header, uint64_t elements)
{
    write_header(message.payload - HEADER_BYTES, header, elements);
    if (format->scale_bytes > 0)
        pad_scales(format, message.scales, elements);
}

/* Returns the random number of an element. */
CSHIM_DEVICE uint32_t random_of(uint64_t stream, uint64_t element)
{
    const uint64_t pair = cshim_random_pair(stream, element / 2);
    return (uint32_t)(element % 2 == 0 ? pair : pair >> 32);
}

/* Encodes a lane's values, with stochastic rounding if the options ask for it. The codes have to be
 * zero before. */
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

/* Returns the largest finite magnitude of the lane's block of `block` elements, as bits. */
CSHIM_RARE uint32_t block_largest_finite(int block, const struct lane_values *values)
{
    uint32_t largest = 0;
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS; i++)
        largest = max(largest, cshim_finite_magnitude(values->value[i]));
#pragma unroll 1
    for (int distance = block / LANE_ELEMENTS / 2; distance > 0; distance /= 2)
        largest = max(largest, __shfl_xor_sync(ALL_LANES, largest, distance));
    return largest;
}

/* Adds to a lane's valid values their residuals, clamped to the limit (cshim_feedback_add). */
CSHIM_RARE void add_residuals(const float *residual, int valid, float limit,
                              struct lane_values *values)
{
#pragma unroll 1
    for (int i = 0; i < valid; i++)
        values->value[i] = cshim_feedback_add(values->value[i], residual[i], limit);
}

/* Stores the lane's codes and scale, for any format. */
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
    const unsigned number = LANE_ELEMENTS * lane_number();
    const bool is_valid = number < grain_elements(target->grain);
    if (format->scale == CSHIM_SCALE_E4M3) /* scales of all 16 blocks, even without elements */
        stored = cshim_e4m3_byte(number / format->block, is_valid ? stored : stored & ~127u);
    if (scale_bytes > 0 && number % format->block == 0 &&
        (is_valid || format->scale == CSHIM_SCALE_E4M3))
        store_scale(target->message.scales + block_of(format, first) * scale_bytes, scale_bytes,
                    stored);
}

/* Stores the residuals of a lane's valid elements: the differences between values and decoded
 * codes. */
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

/* Encodes a grain of any values, with error feedback and stochastic rounding if the options ask for
 * them. */
CSHIM_RARE void encode_grain_with(const struct cshim_format *format, const struct target *target,
                                  const struct cshim_kernel_options *options,
                                  struct lane_values *values)
{
    const uint64_t number = target->grain.piece * target->chunk + first_element(target->grain);
    float *residual = options->residual != NULL ? options->residual + number : NULL;
    const bool at_random = options->stochastic != 0;
    const int feedback_block = cshim_feedback_block(*format);
    uint32_t stored = 0;
    struct lane_codes codes = {};
    if (residual != NULL) {
        const float share = cshim_feedback_share(*format, at_random);
        const uint32_t largest = block_largest_finite(feedback_block, values);
        add_residuals(residual, valid_elements(target->grain), cshim_bits_float(largest) * share,
                      values);
    }
    stored = choose_scale(format, block_largest_finite(format->block, values),
                          block_largest_finite(feedback_block, values), at_random);
    encode_values_with(format, options, values, stored, number, &codes);
    store_singly(format, target, &codes, stored);
    if (residual != NULL)
        keep_residuals(format, values, &codes, stored, valid_elements(target->grain), residual);
}

/* Encodes a whole grain by the fast path. `largest` is the lane's largest magnitude. Returns false,
 * with nothing stored, if a block is not ordinary or a lane's values are not known. All lanes must
 * call it. */
template <typename FORMAT>
CSHIM_DEVICE bool encode_ordinary(const struct message &message, const struct grain &grain,
                                  const struct lane_values &values, uint32_t largest, bool is_known)
{
    const bool has_scale = FORMAT::SCALE_BYTES > 0;
    const uint32_t block = has_scale ? block_largest<FORMAT::BLOCK>(largest) : largest;
    const struct block_scale scale = FORMAT::choose(
        block, FORMAT::HAS_GRAIN ? block_largest<CSHIM_GRAIN, FORMAT::BLOCK>(block) : block);
    const bool is_number = FORMAT::BITS < 32 || largest <= CSHIM_INFINITY_BITS;
    if (__any_sync(ALL_LANES, !is_known || !scale.is_fast || !is_number))
        return false;
    uint32_t codes[FORMAT::WORDS];
    FORMAT::encode_fast(values.value, scale.factor, codes);
    store_codes<FORMAT>(message, grain, codes, scale.stored);
    return true;
}

/* Returns true if encode_ordinary can carry out the options. */
CSHIM_DEVICE bool are_ordinary(const struct cshim_kernel_options &options)
{
    return options.residual == NULL && options.stochastic == 0;
}

/* Encodes a grain of values by a kernel's parameters. `largest` is the lane's largest magnitude;
 * piece p begins at element p * chunk. */
template <typename PARAMETERS>
CSHIM_DEVICE void encode_grain(const PARAMETERS &parameters, uint64_t chunk,
                               const struct message &message, const struct grain &grain,
                               const struct lane_values &values, uint32_t largest)
{
    bool is_encoded = false;
    if (is_whole(grain) && are_ordinary(parameters.options))
        with_format<false>(parameters.codec, [&](auto format) {
            is_encoded = encode_ordinary<decltype(format)>(message, grain, values, largest, true);
        });
    if (!is_encoded) {
        /* The compiler puts these copies in memory and keeps the originals in registers. */
        struct lane_values copy = values;
        const struct target target = {message, grain, chunk};
        encode_grain_with(&parameters.format, &target, &parameters.options, &copy);
    }
}

/* Messages with the same elements, which are added in rank order. */
struct parts {
    uint32_t ranks;
    uint64_t stride; /* in bytes */
    struct message first;
};

/* A lane's part of a grain in a message, which holds at least one of the lane's elements. */
struct lane_part {
    unsigned lane;
    const uint8_t *codes, *scale;
    int64_t left; /* bytes of the message's codes from `codes` on */
};

/* Findings in all messages that may rule out the fast path: the combined results of special(), and
 * the last result of further(). */
struct doubts {
    uint64_t codes;
    uint32_t distance;
};

/* Adds the next PARTS messages (at most `left`), and advances `part` past them. Issues all loads
 * before it uses the first. */
template <typename FORMAT, int PARTS>
CSHIM_DEVICE void add_parts(struct lane_part &part, uint64_t stride, uint32_t left, float *sum,
                            struct doubts &doubts)
{
    uint32_t codes[PARTS][FORMAT::WORDS], stored[PARTS];
#pragma unroll
    for (unsigned i = 0; i < PARTS; i++) {
        stored[i] = FORMAT::UNIT;
#pragma unroll
        for (int k = 0; k < FORMAT::WORDS; k++)
            codes[i][k] = FORMAT::nothing(k);
        if (i == 0 || i < left) {
            load_message<FORMAT::BITS>(part.codes, part.lane, part.left, codes[i]);
            if (FORMAT::HAS_GRAIN)
                stored[i] =
                    (*part.scale & 127u) |
                    cshim_upper_bits((const uint8_t *)((uintptr_t)part.scale & ~(uintptr_t)15))
                        << 8; /* the scales of each grain are aligned */
            else if (FORMAT::SCALE_BYTES > 0)
                stored[i] = FORMAT::SCALE_BYTES == 1 ? *part.scale : *(const uint16_t *)part.scale;
        }
        part.codes += stride;
        part.scale += stride;
    }
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        doubts.codes |= FORMAT::special(codes[i]);
        doubts.distance = FORMAT::further(stored[i], doubts.distance);
        FORMAT::add_fast(codes[i], FORMAT::factor_of(stored[i]), sum);
    }
}

/* Sums a lane's elements of a grain over all messages. At most AT_ONCE messages are loaded at a
 * time, fewer if they take many registers or much code. NaNs may get any payload, but the floats of
 * a single fp32 message stay as they are. Returns false if sum_singly has to compute the sums. A
 * lane without elements sums those of the last lane that has some. */
template <typename FORMAT, int AT_ONCE>
CSHIM_DEVICE bool sum_parts(const struct parts &parts, const struct grain &grain,
                            struct lane_values &sum)
{
    const int most = FORMAT::WORDS > 2 || FORMAT::BITS % 4 != 0 ? 2 : 4,
              count = most < AT_ONCE ? most : AT_ONCE;
    const unsigned lane = min(lane_number(), (grain_elements(grain) - 1) / LANE_ELEMENTS);
    const uint8_t *codes = parts.first.payload + (uint64_t)grain.number * (32 * FORMAT::BITS) +
                           first_word(FORMAT::BITS, lane);
    struct lane_part part = {lane, codes, scale_of<FORMAT>(parts.first, grain.number, lane),
                             parts.first.scales - codes};
    struct doubts doubts = {0, 0};
    uint32_t rank = 0;
    if (FORMAT::BITS == 32 && parts.ranks == 1) {
        load_message<FORMAT::BITS>(part.codes, lane, part.left, (uint32_t *)sum.value);
        return true;
    }
    /* -0 is the neutral element of addition: -0 + x is x for every x. */
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        sum.value[i] = -0.0f;
#pragma unroll 1
    do {
        add_parts<FORMAT, count>(part, parts.stride, parts.ranks - rank, sum.value, doubts);
        rank += count;
    } while (rank < parts.ranks);
    return (doubts.codes & FORMAT::SPECIAL) == 0 && doubts.distance <= FORMAT::FAST_SPAN;
}

/* Sums the first `valid` of a lane's elements one by one, and sets the others to 0. */
CSHIM_RARE void sum_singly(const struct cshim_format *format, struct message part, uint64_t stride,
                           uint32_t ranks, uint64_t first, int valid, struct lane_values *sum)
{
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS; i++)
        sum->value[i] = 0.0f;
#pragma unroll 1
    for (uint32_t rank = 0; rank < ranks; rank++) {
#pragma unroll 1
        for (int i = 0; i < valid; i++) {
            const float value = value_at(format, &part, first + i);
            sum->value[i] = rank == 0 ? value : sum->value[i] + value;
        }
        part.payload += stride;
        part.scales += stride;
    }
}

/* Makes NaNs canonical, unless the values are the floats of a single fp32 message. Returns the
 * largest magnitude, as lane_largest does. */
CSHIM_DEVICE uint32_t finish_sum(uint32_t codec, bool is_single, struct lane_values &sum)
{
    return codec == CSHIM_CODEC_FP32 && is_single ? lane_largest(sum) : make_canonical(sum);
}

#endif
