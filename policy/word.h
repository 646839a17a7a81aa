/* SPDX-License-Identifier: Apache-2.0 */
/* Compares words of policies and of the environment. */
#ifndef CSHIM_WORD_H
#define CSHIM_WORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline char cshim_capital(char letter)
{
    return letter >= 'a' && letter <= 'z' ? (char)(letter - 'a' + 'A') : letter;
}

/* Returns true if the first `length` characters of two texts are equal but for capitals. Unlike
 * strncasecmp() does not depend on the program's locale: in Turkish, I is not the capital of i. */
static inline bool cshim_has_letters(const char *a, const char *b, size_t length)
{
    size_t i = 0;
    while (i < length && a[i] != '\0' && cshim_capital(a[i]) == cshim_capital(b[i]))
        i++;
    return i == length || a[i] == b[i];
}

/* Returns true if two words are equal but for capitals. */
static inline bool cshim_is_word(const char *a, const char *b)
{
    return cshim_has_letters(a, b, SIZE_MAX);
}

#endif
