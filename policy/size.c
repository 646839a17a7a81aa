/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people write them. */
#include "policy/policy.h"

#include <ctype.h>
#include <string.h>

#define SIZE_LIMIT ((uint64_t)1 << 63)
/* More decimals are refused. The product with the largest unit fits 64 bits. */
#define DECIMALS 9

static bool find_unit(const char *name, uint64_t *bytes)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
        {"", 1},
        {"B", 1},
        {"KB", 1000},
        {"KiB", 1024},
        {"MB", 1000000},
        {"MiB", (uint64_t)1 << 20},
        {"GB", 1000000000},
        {"GiB", (uint64_t)1 << 30},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].name, name) == 0) {
            *bytes = units[i].bytes;
            return true;
        }
    return false;
}

/* Reads at least one digit into *value, and moves *text behind the digits. */
static bool parse_digits(const char **text, uint64_t *value)
{
    if (!isdigit((unsigned char)**text))
        return false;
    for (*value = 0; isdigit((unsigned char)**text); ++*text) {
        if (*value > SIZE_LIMIT / 10)
            return false;
        *value = *value * 10 + (uint64_t)(**text - '0');
    }
    return true;
}

/* Reads the digits after the point into *value / *scale and moves *text behind them. */
static bool parse_decimals(const char **text, uint64_t *value, uint64_t *scale)
{
    const char *begin = *text;
    size_t digits = strspn(begin, "0123456789");
    *text += digits;
    if (digits == 0)
        return false;
    while (digits > 0 && begin[digits - 1] == '0')
        digits--;
    if (digits > DECIMALS)
        return false;
    for (size_t i = 0; i < digits; i++) {
        *value = *value * 10 + (uint64_t)(begin[i] - '0');
        *scale *= 10;
    }
    return true;
}

bool cshim_parse_size(const char *text, uint64_t *bytes)
{
    uint64_t whole, unit, decimals = 0, scale = 1;
    if (!parse_digits(&text, &whole))
        return false;
    if (*text == '.') {
        text++;
        if (!parse_decimals(&text, &decimals, &scale))
            return false;
    }
    text += strspn(text, " ");
    if (!find_unit(text, &unit) || decimals * unit % scale != 0)
        return false;
    uint64_t rest = decimals * unit / scale;
    if (whole > (SIZE_LIMIT - rest) / unit)
        return false;
    *bytes = whole * unit + rest;
    return true;
}
