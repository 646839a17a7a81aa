/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/words.h"

#include <stdio.h>

const char *cshim_bytes_words(double bytes, char text[CSHIM_WORDS_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    for (; bytes >= 1023.5 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1024;
    snprintf(text, CSHIM_WORDS_MAX, unit == 0 || bytes >= 99.95 ? "%.0f %s" : "%.1f %s", bytes,
             units[unit]);
    return text;
}

const char *cshim_seconds_words(double seconds, char text[CSHIM_WORDS_MAX])
{
    static const char *const units[] = {"us", "ms", "s"};
    size_t unit = seconds > 0 ? 0 : 2;
    for (seconds *= 1e6; seconds >= 999.5 && unit < 2; unit++)
        seconds /= 1e3;
    snprintf(text, CSHIM_WORDS_MAX, seconds >= 99.95 || seconds == 0 ? "%.0f %s" : "%.1f %s",
             seconds, units[unit]);
    return text;
}

const char *cshim_factor_words(double native, double wire, char text[CSHIM_WORDS_MAX])
{
    if (native <= 1.05 * wire && wire <= 1.05 * native) /* also if both are 0 */
        snprintf(text, CSHIM_WORDS_MAX, "about the same");
    else if (wire > native)
        snprintf(text, CSHIM_WORDS_MAX, "%.1fx more", wire / native);
    else
        snprintf(text, CSHIM_WORDS_MAX, "%.1fx less", native / wire);
    return text;
}

const char *cshim_reason_words(enum cshim_reason reason)
{
    static const char *const words[] = {
#define REASON(NAME, name, WORDS) WORDS,
#include "shim/core/reasons.def"
    };
    return (unsigned)reason < CSHIM_REASON_COUNT ? words[reason] : "?";
}
