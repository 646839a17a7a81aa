/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/numbers.h"

#include <pthread.h>

static locale_t plain; /* the C locale, or 0; kept as long as the process lives */

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t cshim_numbers_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_plain);
    return uselocale(plain); /* with 0 it changes nothing */
}

void cshim_numbers_end(locale_t before)
{
    uselocale(before);
}
