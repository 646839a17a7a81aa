/* SPDX-License-Identifier: Apache-2.0 */
/* Which variables of the environment belong to the shim: a launcher has to hand them on to all
 * ranks. */
#ifndef CSHIM_ENVIRONMENT_H
#define CSHIM_ENVIRONMENT_H

#include <stdbool.h>
#include <string.h>

/* Whether an entry of environ, "NAME=value", is LD_PRELOAD, COMPSHIM or COMPSHIM_*. */
static inline bool cshim_is_forwarded(const char *entry)
{
    return strncmp(entry, "LD_PRELOAD=", 11) == 0 ||
           (strncmp(entry, "COMPSHIM", 8) == 0 && (entry[8] == '=' || entry[8] == '_'));
}

#endif
