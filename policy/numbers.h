/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing numbers with a decimal point, whatever locale the program has chosen. */
#ifndef CSHIM_NUMBERS_H
#define CSHIM_NUMBERS_H

#include <locale.h>

/* Puts the calling thread into the C locale, and returns the locale that it was in. No code of the
 * program may run on this thread before cshim_numbers_end. Thread-safe. If there is no memory for a
 * locale, the thread's stays. */
static inline locale_t cshim_numbers_begin(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* with 0 it changes nothing */
}

/* Puts the calling thread back into the locale that cshim_numbers_begin returned. */
static inline void cshim_numbers_end(locale_t before)
{
    const locale_t plain = uselocale(before);
    if (plain != before)
        freelocale(plain);
}

#endif
