/* SPDX-License-Identifier: Apache-2.0 */
/* Lists in messages. Pure. */
#ifndef CSHIM_LIST_H
#define CSHIM_LIST_H

#include <stddef.h>

/* Appends an entry to the list in `list`, which has room for `size` bytes, after a separator unless
 * the list is empty. A list that has no room for the whole entry ends with "...". */
void cshim_list_add(char *list, size_t size, const char *separator, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
