/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: packs and unpacks a grain of the codec bounded, in portable C that the
 * compiler vectorises at each SIMD level. docs/wire-format.md, "bounded", gives every byte.
 *
 * Each element is rounded to the nearest multiple of a step, which is a power of two, so its error
 * is at most half a step; decoding is exact. A multiple is stored as its difference from a
 * prediction: the grain's middle, the previous multiple, or the line through the two previous ones.
 * All differences of a grain have the width of the largest. */
#ifndef CSHIM_BOUNDED_H
#define CSHIM_BOUNDED_H

#include "codecs/lossless.h"

enum {
    PACKED_BOUNDED = 64,   /* flag in the first byte, which also holds the order */
    BOUNDED_HEADER = 12,   /* bytes: flag, width, step's exponent, base, slope */
    BOUNDED_ORDERS = 3,    /* predictions: base, previous, line */
    BOUNDED_EXPONENT = 120 /* largest absolute exponent of a step */
};

/* Finds the multiples of the step that are nearest to the elements. `per_step` is the reciprocal of
 * the step. Rounds by adding 2^23 to a float, which leaves no bits for a fraction, or 1.5 * 2^52 to
 * a double, which also leaves the multiple in the lowest bits. Returns false if a multiple is too
 * large: not exact as a float, or, of float64, such that a difference may have more than 32 bits.
 */
CSHIM_INLINE bool find_multiples(bool is_wide, const uint8_t *restrict input, size_t count,
                                 double per_step, uint32_t *restrict multiples)
{
    uint32_t beyond = 0;
    for (size_t i = 0; i < count && !is_wide; i++) {
        float element;
        memcpy(&element, input + i * sizeof element, sizeof element);
        element *= (float)per_step;
        const uint32_t sign = cshim_float_bits(element) & CSHIM_SIGN_BIT;
        const float magnitude = cshim_bits_float(cshim_float_bits(element) ^ sign);
        const uint32_t is_small = cshim_mask(magnitude < 0x1p24f);
        /* From 2^23 on a float has no fraction. */
        const uint32_t has_fraction = cshim_mask(magnitude < 0x1p23f);
        const uint32_t rounded = cshim_float_bits((magnitude + 0x1p23f) - 0x1p23f);
        const uint32_t whole =
            (rounded & has_fraction) | (cshim_float_bits(magnitude) & ~has_fraction);
        multiples[i] = (uint32_t)(int32_t)cshim_bits_float((whole & is_small) | sign);
        beyond |= ~is_small;
    }
    for (size_t i = 0; i < count && is_wide; i++) {
        double element;
        uint64_t bits;
        memcpy(&element, input + i * sizeof element, sizeof element);
        element *= per_step;
        beyond |= !(__builtin_fabs(element) < 0x1p28);
        element += 0x1.8p52;
        memcpy(&bits, &element, sizeof bits);
        multiples[i] = (uint32_t)bits;
    }
    return !beyond;
}

/* Moves the sign of a number to its lowest bit (zigzag), so that small numbers have few bits. */
CSHIM_INLINE uint32_t sign_last(uint32_t number)
{
    return number << 1 ^ (0 - (number >> 31));
}

/* Returns the number of bits of the largest of several numbers. `all` is the OR of the numbers. */
CSHIM_INLINE unsigned width_of(uint32_t all)
{
    return all != 0 ? 32 - (unsigned)__builtin_clz(all) : 0;
}

/* Returns the difference of a multiple from its prediction by order 1 or 2. `last` is the previous
 * multiple, `before` the one before that. */
CSHIM_INLINE uint32_t difference(unsigned order, uint32_t number, uint32_t last, uint32_t before)
{
    return order == 1 ? number - last : number - 2 * last + before;
}

/* Writes the differences of order 1 or 2, with their signs last; 0 for the first `order` multiples.
 */
CSHIM_INLINE void subtract_last(unsigned order, const uint32_t *restrict multiples, size_t count,
                                uint32_t *restrict differences)
{
    memset(differences, 0, (count < order ? count : order) * sizeof *differences);
    for (size_t i = order; i < count; i++)
        differences[i] = sign_last(
            difference(order, multiples[i], multiples[i - 1], order == 2 ? multiples[i - 2] : 0));
}

/* Replaces the differences of order 1 or 2 by the multiples. `number` and `slope` are the multiple
 * and the difference of order 1 before the first. */
CSHIM_INLINE void add_differences(unsigned order, uint32_t number, uint32_t slope, size_t count,
                                  uint32_t *numbers)
{
    for (size_t i = 0; i < count && order == 1; i++)
        numbers[i] = number += numbers[i];
    for (size_t i = 0; i < count && order == 2; i++)
        numbers[i] = number += slope += numbers[i];
}

/* Returns the middle of the smallest and the largest multiple. Sets `width` to the number of bits
 * of the distances from it. */
CSHIM_INLINE uint32_t middle_of(const uint32_t *multiples, size_t count, unsigned *width)
{
    int32_t least = INT32_MAX, most = INT32_MIN;
    for (size_t i = 0; i < count; i++) {
        const int32_t multiple = (int32_t)multiples[i];
        least = multiple < least ? multiple : least;
        most = multiple > most ? multiple : most;
    }
    const int32_t middle = (least + most) / 2;
    *width = width_of(sign_last((uint32_t)(least - middle)) | sign_last((uint32_t)(most - middle)));
    return (uint32_t)middle;
}

/* Packs a grain of float32 (`is_wide`: float64) with a step of 2^exponent. Returns the number of
 * bytes: 0 if all multiples are 0; the size of the elements, with nothing written, if packing does
 * not make the grain smaller. */
CSHIM_INLINE size_t pack_bounded(bool is_wide, const uint8_t *input, size_t count, int exponent,
                                 uint8_t *output)
{
    const size_t raw = count * (is_wide ? sizeof(double) : sizeof(float));
    uint32_t multiples[CSHIM_GRAIN], differences[CSHIM_GRAIN], all[2] = {0, 0};
    unsigned order = 0, width;
    uint8_t codes[CSHIM_GRAIN + 8];
    if (count == 0 || count > CSHIM_GRAIN || /* only to bound the loops for the compiler */
        !find_multiples(is_wide, input, count, (double)cshim_power_of_two(-exponent), multiples))
        return raw;
    const uint32_t slope = count > 1 ? multiples[1] - multiples[0] : 0;
    const uint32_t starts[BOUNDED_ORDERS][2] = {
        {middle_of(multiples, count, &width), 0}, {multiples[0], 0}, {multiples[0] - slope, slope}};
    all[0] = sign_last(slope);
    for (size_t i = 2; i < count; i++) {
        all[0] |= sign_last(difference(1, multiples[i], multiples[i - 1], 0));
        all[1] |= sign_last(difference(2, multiples[i], multiples[i - 1], multiples[i - 2]));
    }
    for (unsigned i = 1; i < BOUNDED_ORDERS; i++) {
        const unsigned needed = width_of(all[i - 1]);
        order = needed < width ? i : order;
        width = needed < width ? needed : width;
    }
    if (width == 0 && starts[order][0] == 0 && starts[order][1] == 0)
        return 0;
    const size_t bytes = BOUNDED_HEADER + width / 8 * count + codes_bytes(count, width % 8);
    if (bytes >= raw)
        return raw;
    for (size_t i = 0; i < count && order == 0; i++)
        differences[i] = sign_last(multiples[i] - starts[0][0]);
    if (order == 1)
        subtract_last(1, multiples, count, differences);
    if (order == 2)
        subtract_last(2, multiples, count, differences);
    const uint16_t step = (uint16_t)exponent;
    output[0] = (uint8_t)(PACKED_BOUNDED | order);
    output[1] = (uint8_t)width;
    memcpy(output + 2, &step, sizeof step);
    memcpy(output + 4, starts[order], sizeof starts[order]);
    output += BOUNDED_HEADER;
    for (unsigned shift = 0; shift < width / 8 * 8; shift += 8, output += count)
        for (size_t i = 0; i < count; i++)
            output[i] = (uint8_t)(differences[i] >> shift);
    for (size_t i = 0; i < count && width % 8 != 0; i++)
        codes[i] = (uint8_t)(differences[i] >> width / 8 * 8);
    memset(codes + count, 0, 8);
    put_codes(codes, count, width % 8, output);
    return bytes;
}

/* Unpacks a grain of `bytes` bytes. Returns false if pack_bounded() cannot have written them. */
CSHIM_INLINE bool unpack_bounded(bool is_wide, const uint8_t *restrict input, size_t bytes,
                                 size_t count, uint8_t *restrict output)
{
    uint32_t multiples[CSHIM_GRAIN], starts[2];
    uint8_t codes[CSHIM_GRAIN + 8];
    int16_t exponent;
    const unsigned order = input[0] ^ PACKED_BOUNDED;
    if (count > CSHIM_GRAIN || bytes < BOUNDED_HEADER || order >= BOUNDED_ORDERS)
        return false;
    const unsigned width = input[1], shift = width / 8 * 8;
    memcpy(&exponent, input + 2, sizeof exponent);
    memcpy(starts, input + 4, sizeof starts);
    if (width > 32 || exponent < -BOUNDED_EXPONENT || exponent > BOUNDED_EXPONENT ||
        bytes != BOUNDED_HEADER + width / 8 * count + codes_bytes(count, width % 8))
        return false;
    input += BOUNDED_HEADER;
    take_codes(input + width / 8 * count, count, width % 8, codes);
    for (size_t i = 0; i < count; i++)
        multiples[i] = shift < 32 ? (uint32_t)codes[i] << shift : 0;
    for (unsigned down = 0; down < shift; down += 8, input += count)
        for (size_t i = 0; i < count; i++)
            multiples[i] |= (uint32_t)input[i] << down;
    for (size_t i = 0; i < count; i++)
        multiples[i] = multiples[i] >> 1 ^ (0 - (multiples[i] & 1));
    add_differences(order, starts[0], starts[1], count, multiples);
    for (size_t i = 0; i < count && order == 0; i++)
        multiples[i] += starts[0];
    for (size_t i = 0; is_wide && i < count; i++) {
        const double element = (int32_t)multiples[i] * (double)cshim_power_of_two(exponent);
        memcpy(output + i * sizeof element, &element, sizeof element);
    }
    for (size_t i = 0; !is_wide && i < count; i++) {
        const float element = (float)(int32_t)multiples[i] * cshim_power_of_two(exponent);
        memcpy(output + i * sizeof element, &element, sizeof element);
    }
    return true;
}

#endif
