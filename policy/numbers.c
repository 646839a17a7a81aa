/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/numbers.h"

locale_t cshim_numbers_begin(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* with 0 it changes nothing */
}

void cshim_numbers_end(locale_t before)
{
    const locale_t plain = uselocale(before);
    if (plain != before)
        freelocale(plain);
}
