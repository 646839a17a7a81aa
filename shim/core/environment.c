/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/environment.h"

#include <stdio.h>
#include <unistd.h>

#include "policy/policy.h"

/* Whether a name of so many bytes is one of the shim's variables. Else *nearest is the one that may
 * be meant, or NULL. */
static bool is_known(const char *name, size_t length, const char **nearest)
{
    static const char *const known[] = {"COMPSHIM_FORWARDED", "COMPSHIM_LIVE",   "COMPSHIM_LOG",
                                        "COMPSHIM_MACHINE",   "COMPSHIM_POLICY", "COMPSHIM_REPORT",
                                        "COMPSHIM_RUN",       "COMPSHIM_TRACE"};
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], word) == 0)
            return true;
    *nearest = cshim_nearest_name(word, known, sizeof known / sizeof *known);
    return false;
}

bool cshim_environment_check(char *message, size_t size)
{
    const char *nearest;
    message[0] = '\0';
    if (cshim_mode() == CSHIM_MODE_UNKNOWN) {
        snprintf(message, size, "COMPSHIM=%.60s is not known: take on, off or observe",
                 secure_getenv("COMPSHIM"));
        return false;
    }
    for (char **entry = environ; *entry != NULL; entry++) {
        const size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, "COMPSHIM", 8) != 0 || (*entry)[8] != '_' ||
            is_known(*entry, length, &nearest))
            continue;
        snprintf(message, size, "%.*s is not known%s%s%s: it has no effect",
                 (int)(length < 60 ? length : 60), *entry, nearest != NULL ? " (did you mean " : "",
                 nearest != NULL ? nearest : "", nearest != NULL ? "?)" : "");
    }
    return true;
}
