/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: packs and unpacks a grain of the codec bounded, in portable C that the
 * compiler vectorises at each SIMD level. docs/wire-format.md, "bounded", gives every byte.
 *
 * Each element is rounded to a multiple of a step of at most 8 significant bits. Decoding is exact;
 * only with steps above 2^104 may a multiple overflow float32.
 * A multiple is stored as its difference from a prediction: the grain's middle, the previous
 * multiple, or the line through the two previous ones. All differences of a grain have the width of
 * the largest. */
#ifndef CSHIM_BOUNDED_H
#define CSHIM_BOUNDED_H

#include "codecs/lossless.h"

enum {
    PACKED_BOUNDED = 64,   /* flag in the first byte, which also holds the order */
    BOUNDED_HEADER = 12,   /* bytes: flag, width, step, base, slope */
    BOUNDED_ORDERS = 3,    /* predictions: base, previous, line */
    BOUNDED_EXPONENT = 120 /* largest absolute exponent of a step */
};

/* Returns the largest power of two that is at most `widest`. */
CSHIM_INLINE float power_step(float widest)
{
    return cshim_bits_float(cshim_float_bits(widest) & 0x7f800000u);
}

/* Returns a step for errors of up to `widest` / 2. It has 8 significant bits, so that float32 holds
 * its multiples below 2^16. It is at most `widest` * (1 - 2^-8), because the quotients of elements
 * and step are rounded. If power_step() is at least as large, returns that instead. */
CSHIM_INLINE float short_step(float widest)
{
    const uint32_t bits = cshim_float_bits(widest * (1 - 0x1p-8f)) & 0xffff0000u;
    const float power = power_step(widest), step = cshim_bits_float(bits);
    return step > power ? step : power;
}

/* Returns the 16 bits that represent a step: the exponent (signed) of a power of two, else the
 * step's upper half, which as a signed number is larger than any exponent. */
CSHIM_INLINE uint16_t store_step(float step)
{
    const uint32_t bits = cshim_float_bits(step);
    return (uint16_t)(step > power_step(step) ? bits >> 16 : (bits >> 23) - 127);
}

/* Returns the step that 16 bits represent, or 0 if store_step() returns no such bits. */
CSHIM_INLINE float load_step(uint16_t stored)
{
    const int exponent = (int16_t)stored;
    if (exponent >= -BOUNDED_EXPONENT && exponent <= BOUNDED_EXPONENT)
        return cshim_power_of_two(exponent);
    const int biased = stored >> 7;
    const bool is_short =
        biased >= 127 - BOUNDED_EXPONENT && biased <= 127 + BOUNDED_EXPONENT && stored % 128 != 0;
    return is_short ? cshim_bits_float((uint32_t)stored << 16) : 0;
}

/* Smallest and largest multiple of a grain. */
struct range {
    int32_t least, most;
};

/* Returns a range extended to include a multiple. */
CSHIM_INLINE struct range range_with(struct range range, uint32_t multiple)
{
    const int32_t own = (int32_t)multiple;
    range.least = own < range.least ? own : range.least;
    range.most = own > range.most ? own : range.most;
    return range;
}

/* Rounds the elements to multiples of a step, and finds the range of the multiples. Rounds by
 * adding a number so large that the sum has no bits for a fraction, and has the multiple in its
 * lowest bits. Returns false if an element is not finite, or if its magnitude in steps (in the last
 * case rounded) is not below a limit:
 *   - for float64 2^28, because differences have 32 bits;
 *   - for float32 2^24, because multiples must be exact as floats. The arithmetic is float32 if all
 *     multiples are below 2^22, else float64;
 *   - for float32 and a step that is no power of two 2^14, for the rounding that short_step()
 *     allows for. The arithmetic is float32. */
CSHIM_INLINE bool find_multiples(bool is_wide, const uint8_t *restrict input, size_t count,
                                 float step, uint32_t *restrict multiples, struct range *range)
{
    const bool is_power = step <= power_step(step);
    const float per_step = 1 / step, round = 0x1.8p23f;
    const double wide_per_step = 1 / (double)step, limit = is_wide ? 0x1p28 : 0x1p24;
    const int32_t narrow_limit = is_power ? 1 << 22 : 1 << 14;
    struct range all = {INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < count && !is_wide; i++) {
        float element;
        memcpy(&element, input + i * sizeof element, sizeof element);
        multiples[i] = cshim_float_bits(element * per_step + round) - cshim_float_bits(round);
        all = range_with(all, multiples[i]);
    }
    *range = all;
    if (!is_wide && all.least > -narrow_limit && all.most < narrow_limit)
        return true;
    if (!is_wide && !is_power)
        return false;
    uint32_t beyond = 0;
    all = (struct range){INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < count; i++) {
        float narrow;
        double element;
        memcpy(&narrow, input + i * sizeof narrow, sizeof narrow);
        element = (double)narrow;
        if (is_wide)
            memcpy(&element, input + i * sizeof element, sizeof element);
        element *= wide_per_step;
        beyond |= !(__builtin_fabs(element) < limit);
        multiples[i] = (uint32_t)cshim_double_bits(element + 0x1.8p52);
        all = range_with(all, multiples[i]);
    }
    *range = all;
    return !beyond;
}

/* Rounds the elements to multiples of short_step(), or of power_step() if multiples of short_step()
 * are too large, so that errors are at most `widest` / 2. Returns the step, or 0 if an element is
 * not finite or its multiple of power_step() is too large. To save time, skips short_step() for
 * float32 if the first or the middle element is too large for it. */
CSHIM_INLINE float round_elements(bool is_wide, const uint8_t *restrict input, size_t count,
                                  float widest, uint32_t *restrict multiples, struct range *range)
{
    const float power = power_step(widest), step = short_step(widest);
    float first, middle;
    memcpy(&first, input, sizeof first);
    memcpy(&middle, input + count / 2 * sizeof middle, sizeof middle);
    const float limit = step * 0x1p14f;
    const bool may_fit =
        is_wide || (__builtin_fabsf(first) < limit && __builtin_fabsf(middle) < limit);
    if (step > power && may_fit && find_multiples(is_wide, input, count, step, multiples, range))
        return step;
    return find_multiples(is_wide, input, count, power, multiples, range) ? power : 0;
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

#define LANE uint16_t
#define SIGNED_LANE int16_t
#define OF_LANES(name) name##_16
#include "codecs/bounded_lanes.h"
#define LANE uint32_t
#define SIGNED_LANE int32_t
#define OF_LANES(name) name##_32
#include "codecs/bounded_lanes.h"

/* Packs a grain of float32 (`is_wide`: float64) with errors of at most `widest` / 2. Returns the
 * number of bytes: 0 if all multiples are 0; the size of the elements, with nothing written, if
 * packing is impossible or does not make the grain smaller. */
CSHIM_INLINE size_t pack_bounded(bool is_wide, const uint8_t *input, size_t count, float widest,
                                 uint8_t *output)
{
    const size_t raw = count * (is_wide ? sizeof(double) : sizeof(float));
    uint32_t multiples[2 + CSHIM_GRAIN]; /* two that predict the grain's first, then the grain's */
    uint16_t narrow[2 + CSHIM_GRAIN];
    unsigned widths[BOUNDED_ORDERS], order = 0;
    struct range range;
    if (count == 0 || count > CSHIM_GRAIN) /* only to bound the loops for the compiler */
        return raw;
    const float step = round_elements(is_wide, input, count, widest, multiples + 2, &range);
    if (step <= 0)
        return raw;
    const uint32_t middle = (uint32_t)((range.least + range.most) / 2);
    const uint32_t slope = count > 1 ? multiples[3] - multiples[2] : 0;
    multiples[1] = multiples[2] - slope;
    multiples[0] = multiples[1] - slope;
    const uint32_t starts[BOUNDED_ORDERS][2] = {
        {middle, 0}, {multiples[2], 0}, {multiples[1], slope}};
    /* A difference of order 2 spans at most 4 times the multiples' range, so it has 16 bits. */
    const bool is_narrow = range.most - range.least < 1 << 14;
    if (is_narrow) {
        narrow[0] = (uint16_t)multiples[0];
        narrow[1] = (uint16_t)multiples[1];
        for (size_t i = 2; i < count + 2; i++)
            narrow[i] = (uint16_t)multiples[i];
        find_widths_16(narrow, count, widths);
    } else {
        find_widths_32(multiples, count, widths);
    }
    widths[0] = width_of(sign_last((uint32_t)range.least - middle) |
                         sign_last((uint32_t)range.most - middle));
    for (unsigned i = 1; i < BOUNDED_ORDERS; i++)
        order = widths[i] < widths[order] ? i : order;
    const unsigned width = widths[order];
    if (width == 0 && starts[order][0] == 0 && starts[order][1] == 0)
        return 0;
    const size_t bytes = BOUNDED_HEADER + width / 8 * count + codes_bytes(count, width % 8);
    if (bytes >= raw)
        return raw;
    const uint16_t stored = store_step(step);
    output[0] = (uint8_t)(PACKED_BOUNDED | order);
    output[1] = (uint8_t)width;
    memcpy(output + 2, &stored, sizeof stored);
    memcpy(output + 4, starts[order], sizeof starts[order]);
    if (is_narrow)
        put_differences_16(order, (uint16_t)middle, narrow, count, width, output + BOUNDED_HEADER);
    else
        put_differences_32(order, middle, multiples, count, width, output + BOUNDED_HEADER);
    return bytes;
}

/* Unpacks a grain of `bytes` bytes. Returns false if the header is invalid, or belongs to another
 * number of bytes. */
CSHIM_INLINE bool unpack_bounded(bool is_wide, const uint8_t *restrict input, size_t bytes,
                                 size_t count, uint8_t *restrict output)
{
    uint32_t multiples[CSHIM_GRAIN], starts[2];
    uint8_t codes[CSHIM_GRAIN + 8];
    uint16_t stored;
    const unsigned order = input[0] ^ PACKED_BOUNDED;
    if (count > CSHIM_GRAIN || bytes < BOUNDED_HEADER || order >= BOUNDED_ORDERS)
        return false;
    const unsigned width = input[1];
    memcpy(&stored, input + 2, sizeof stored);
    const float step = load_step(stored);
    memcpy(starts, input + 4, sizeof starts);
    if (width > 32 || step <= 0 ||
        bytes != BOUNDED_HEADER + width / 8 * count + codes_bytes(count, width % 8))
        return false;
    input += BOUNDED_HEADER;
    take_codes(input + width / 8 * count, count, width % 8, codes);
    if (width < 16) {
        int16_t differences[CSHIM_GRAIN];
        if (width < 8)
            take_planes_16(0, input, codes, count, differences);
        else
            take_planes_16(1, input, codes, count, differences);
        add_16(order, starts[0], starts[1], differences, count, multiples);
    } else {
        int32_t differences[CSHIM_GRAIN];
        if (width < 24)
            take_planes_32(2, input, codes, count, differences);
        else if (width < 32)
            take_planes_32(3, input, codes, count, differences);
        else
            take_planes_32(4, input, codes, count, differences);
        add_32(order, starts[0], starts[1], differences, count, multiples);
    }
    for (size_t i = 0; is_wide && i < count; i++) {
        const double element = (int32_t)multiples[i] * (double)step;
        memcpy(output + i * sizeof element, &element, sizeof element);
    }
    for (size_t i = 0; !is_wide && i < count; i++) {
        const float element = (float)(int32_t)multiples[i] * step;
        memcpy(output + i * sizeof element, &element, sizeof element);
    }
    return true;
}

#endif
