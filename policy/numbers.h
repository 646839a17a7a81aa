/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing numbers with a decimal point, independent of the program's locale. */
#ifndef CSHIM_NUMBERS_H
#define CSHIM_NUMBERS_H

#include <locale.h>

/* Sets the calling thread's locale to C, and returns its previous locale. No code of the program
 * may run on this thread before cshim_numbers_end. Thread-safe. Without memory for a locale the
 * thread's stays. */
static inline locale_t cshim_numbers_begin(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* with 0 it changes nothing */
}

/* Restores the locale that cshim_numbers_begin returned. */
static inline void cshim_numbers_end(locale_t before)
{
    const locale_t plain = uselocale(before);
    if (plain != before)
        freelocale(plain);
}

#endif
