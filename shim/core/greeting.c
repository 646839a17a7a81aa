/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/greeting.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "codecs/codec.h"
#include "codecs/hash.h"
#include "policy/list.h"
#include "version.h"

uint64_t cshim_machine(const char *given)
{
    char text[256] = "";
    if (given != NULL && *given != '\0') {
        snprintf(text, sizeof text, "%s", given);
    } else {
        FILE *stream = fopen("/proc/sys/kernel/random/boot_id", "re");
        if (stream == NULL || fgets(text, sizeof text, stream) == NULL)
            gethostname(text, sizeof text - 1);
        if (stream != NULL)
            fclose(stream);
    }
    return cshim_hash_bytes(CSHIM_HASH_EMPTY, text, strlen(text));
}

/* Hashes the host name into `machine`, too, because containers with different host names on one
 * machine communicate over its network. */
struct cshim_greeting cshim_greeting_make(void)
{
    struct cshim_greeting own = {.table = cshim_codec_table_hash(), .version = CSHIM_VERSION};
    gethostname(own.host, sizeof own.host - 1);
    own.machine = cshim_hash_bytes(cshim_machine(NULL), own.host, strlen(own.host));
    return own;
}

bool cshim_greeting_fits(const struct cshim_greeting *own, const struct cshim_greeting *other,
                         int rank, char *text, size_t size)
{
    const bool has_come = other->version[0] != '\0';
    const char *why = NULL;
    if (!has_come)
        why = "no answer";
    else if (strcmp(other->version, own->version) != 0)
        why = other->version;
    else if (other->table != own->table)
        why = "another codec table";
    if (why == NULL)
        return true;
    cshim_list_add(text, size, ", ", "rank %d (%s%s%s)", rank, other->host, has_come ? ": " : "",
                   why);
    return false;
}
