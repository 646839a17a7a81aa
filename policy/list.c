/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/list.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void cshim_list_add(char *list, size_t size, const char *separator, const char *format, ...)
{
    static const char end[] = "...";
    size_t length = strlen(list);
    if (length > 0)
        length += (size_t)snprintf(list + length, size - length, "%s", separator);
    if (length < size) {
        va_list arguments;
        va_start(arguments, format);
        length += (size_t)vsnprintf(list + length, size - length, format, arguments);
        va_end(arguments);
    }
    if (length >= size)
        memcpy(list + size - sizeof end, end, sizeof end);
}
