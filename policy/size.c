/* SPDX-License-Identifier: Apache-2.0 */
/* Parses sizes such as "64KiB". */
#include "policy/policy.h"

#include <string.h>

#include "policy/word.h"

#define DIGITS "0123456789"
#define SIZE_LIMIT ((uint64_t)1 << 63)
/* Largest number of decimals: with it, a size in the largest unit fits 128 bits. */
#define DECIMALS 9

static bool find_unit(const char *name, uint64_t *bytes)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {{"", 1},          {"B", 1},           {"K", 1 << 10},  {"KB", 1000},
                 {"KiB", 1 << 10}, {"M", 1 << 20},     {"MB", 1000000}, {"MiB", 1 << 20},
                 {"G", 1 << 30},   {"GB", 1000000000}, {"GiB", 1 << 30}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (cshim_is_word(units[i].name, name)) {
            *bytes = units[i].bytes;
            return true;
        }
    return false;
}

bool cshim_parse_size(const char *text, uint64_t *bytes)
{
    const size_t whole = strspn(text, DIGITS);
    const bool has_point = text[whole] == '.';
    const char *fraction = text + whole + has_point;
    size_t decimals = has_point ? strspn(fraction, DIGITS) : 0;
    const char *unit_name = fraction + decimals + strspn(fraction + decimals, " ");
    unsigned __int128 number = 0; /* the size times `scale`; in units, then in bytes */
    uint64_t unit, scale = 1;
    if (whole == 0 || (has_point && decimals == 0) || !find_unit(unit_name, &unit))
        return false;
    while (decimals > 0 && fraction[decimals - 1] == '0')
        decimals--;
    if (decimals > DECIMALS)
        return false;
    for (size_t i = 0; i < whole; i++) {
        number = number * 10 + (unsigned)(text[i] - '0');
        if (number > SIZE_LIMIT)
            return false;
    }
    for (size_t i = 0; i < decimals; i++, scale *= 10)
        number = number * 10 + (unsigned)(fraction[i] - '0');
    number *= unit;
    if (number % scale != 0 || number / scale > SIZE_LIMIT)
        return false;
    *bytes = (uint64_t)(number / scale);
    return true;
}
