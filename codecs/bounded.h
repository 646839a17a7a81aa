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

/* Computes the multiple nearest to each element. Adding 1.5 * 2^52 rounds a double to an integer,
 * which is then in its lowest bits. Returns true if all multiples are small enough: exact in the
 * elements' type, and for float64 so small that every difference fits 32 bits. */
CSHIM_INLINE bool find_multiples(bool is_wide, const uint8_t *restrict input, size_t count,
                                 double per_step, uint32_t *restrict multiples)
{
    const double limit = is_wide ? 0x1p28 : 0x1p24;
    uint32_t beyond = 0;
    for (size_t i = 0; i < count; i++) {
        float narrow;
        double element;
        uint64_t bits;
        memcpy(&narrow, input + i * sizeof narrow, sizeof narrow);
        element = (double)narrow;
        if (is_wide)
            memcpy(&element, input + i * sizeof element, sizeof element);
        element *= per_step;
        beyond |= !(__builtin_fabs(element) < limit);
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

/* Returns the bits that the largest of the numbers needs, with the sign last. */
CSHIM_INLINE unsigned width_of(const uint32_t *numbers, size_t count)
{
    uint32_t all = 0;
    for (size_t i = 0; i < count; i++)
        all |= sign_last(numbers[i]);
    return all != 0 ? 32 - (unsigned)__builtin_clz(all) : 0;
}

/* Computes the differences of neighbouring numbers. The first `skipped` differences are set to 0.
 */
CSHIM_INLINE void subtract_last(const uint32_t *restrict numbers, size_t count, size_t skipped,
                                uint32_t *restrict differences)
{
    memset(differences, 0, skipped * sizeof *differences);
    for (size_t i = skipped; i < count; i++)
        differences[i] = numbers[i] - numbers[i - 1];
}

/* Replaces differences by their prefix sums, which begin with `before`. */
CSHIM_INLINE void add_last(uint32_t before, size_t count, uint32_t *numbers)
{
    numbers[0] += before;
    for (size_t i = 1; i < count; i++)
        numbers[i] += numbers[i - 1];
}

/* Returns the mean of the smallest and the largest multiple. */
CSHIM_INLINE uint32_t middle_of(const uint32_t *multiples, size_t count)
{
    int32_t least = INT32_MAX, most = INT32_MIN;
    for (size_t i = 0; i < count; i++) {
        const int32_t multiple = (int32_t)multiples[i];
        least = multiple < least ? multiple : least;
        most = multiple > most ? multiple : most;
    }
    return (uint32_t)((least + most) / 2);
}

/* Packs a grain of float32 (`is_wide`: float64) with a step of 2^exponent. Returns the number of
 * bytes: 0 if all multiples are 0; the size of the elements, with nothing written, if packing does
 * not make the grain smaller. */
CSHIM_INLINE size_t pack_bounded(bool is_wide, const uint8_t *input, size_t count, int exponent,
                                 uint8_t *output)
{
    const size_t raw = count * (is_wide ? sizeof(double) : sizeof(float));
    uint32_t multiples[CSHIM_GRAIN], differences[BOUNDED_ORDERS][CSHIM_GRAIN];
    uint8_t codes[2 * CSHIM_GRAIN];
    if (count == 0 || count > CSHIM_GRAIN || /* range check, for the compiler */
        !find_multiples(is_wide, input, count, (double)cshim_power_of_two(-exponent), multiples))
        return raw;
    const uint32_t slope = count > 1 ? multiples[1] - multiples[0] : 0;
    const uint32_t starts[BOUNDED_ORDERS][2] = {
        {middle_of(multiples, count), 0}, {multiples[0], 0}, {multiples[0] - slope, slope}};
    for (size_t i = 0; i < count; i++)
        differences[0][i] = multiples[i] - starts[0][0];
    subtract_last(multiples, count, 1, differences[1]);
    subtract_last(differences[1], count, 2, differences[2]);
    unsigned order = 0, width = 33;
    for (unsigned i = 0; i < BOUNDED_ORDERS; i++) {
        const unsigned needed = width_of(differences[i], count);
        order = needed < width ? i : order;
        width = needed < width ? needed : width;
    }
    if (width == 0 && starts[order][0] == 0 && starts[order][1] == 0)
        return 0;
    const size_t bytes = BOUNDED_HEADER + width / 8 * count + codes_bytes(count, width % 8);
    if (bytes >= raw)
        return raw;
    for (size_t i = 0; i < count; i++)
        multiples[i] = sign_last(differences[order][i]);
    const uint16_t step = (uint16_t)exponent;
    output[0] = (uint8_t)(PACKED_BOUNDED | order);
    output[1] = (uint8_t)width;
    memcpy(output + 2, &step, sizeof step);
    memcpy(output + 4, starts[order], sizeof starts[order]);
    output += BOUNDED_HEADER;
    for (unsigned shift = 0; shift < width / 8 * 8; shift += 8, output += count)
        for (size_t i = 0; i < count; i++)
            output[i] = (uint8_t)(multiples[i] >> shift);
    for (size_t i = 0; i < count && width % 8 != 0; i++)
        codes[i] = (uint8_t)(multiples[i] >> width / 8 * 8);
    memset(codes + count, 0, sizeof codes - count);
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
    if (order == 2)
        add_last(starts[1], count, multiples);
    if (order > 0)
        add_last(starts[0], count, multiples);
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
