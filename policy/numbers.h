/* SPDX-License-Identifier: Apache-2.0 */
/* Lets numbers be read and written with a decimal point, whatever the program's locale is. */
#ifndef CSHIM_NUMBERS_H
#define CSHIM_NUMBERS_H

#include <locale.h>

/* Sets the calling thread's locale to C, and returns its previous one. If there is no memory, the
 * locale stays. No code of the program may run on this thread before cshim_numbers_end().
 * Thread-safe. */
static inline locale_t cshim_numbers_begin(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* 0 (no memory) changes nothing */
}

/* Restores the locale that cshim_numbers_begin() has returned. */
static inline void cshim_numbers_end(locale_t before)
{
    const locale_t plain = uselocale(before);
    if (plain != before)
        freelocale(plain);
}

#endif
