/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in files have a decimal point, whatever locale the program around this library is in. */
#ifndef CSHIM_NUMBERS_H
#define CSHIM_NUMBERS_H

#include <locale.h>

/* From here to the end the calling thread reads and writes numbers as the C locale does; nothing
 * else may run on it meanwhile that is the program's. Thread-safe; without memory for a locale
 * nothing changes. */
locale_t cshim_numbers_begin(void);

/* Puts back what cshim_numbers_begin returned. */
void cshim_numbers_end(locale_t before);

#endif
