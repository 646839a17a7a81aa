/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of the environment that both the library and compshim run look at. */
#ifndef CSHIM_ENVIRONMENT_H
#define CSHIM_ENVIRONMENT_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Names the datagram sockets by which compshim run learns that a process has come to MPI, NCCL or
 * gloo through the library: in Linux's abstract namespace, with commas between them, because one
 * run may be started by another. */
#define CSHIM_PRESENCE_VARIABLE "COMPSHIM_RUN"

/* Whether COMPSHIM switches the shim off. */
static inline bool cshim_is_off(void)
{
    const char *value = secure_getenv("COMPSHIM");
    return value != NULL && (strcmp(value, "off") == 0 || strcmp(value, "0") == 0);
}

/* Whether an entry of environ, "NAME=value", is the shim's, so that a launcher has to hand it on to
 * all ranks: LD_PRELOAD, COMPSHIM or COMPSHIM_*. */
static inline bool cshim_is_forwarded(const char *entry)
{
    return strncmp(entry, "LD_PRELOAD=", 11) == 0 ||
           (strncmp(entry, "COMPSHIM", 8) == 0 && (entry[8] == '=' || entry[8] == '_'));
}

#endif
