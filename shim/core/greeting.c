/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/greeting.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "codecs/codec.h"
#include "codecs/hash.h"
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

/* Hosts with names of their own on one machine talk over its network, too. */
struct cshim_greeting cshim_greeting_make(void)
{
    struct cshim_greeting own = {.table = cshim_codec_table_hash(), .version = CSHIM_VERSION};
    gethostname(own.host, sizeof own.host - 1);
    own.machine = cshim_hash_bytes(cshim_machine(NULL), own.host, strlen(own.host));
    return own;
}

bool cshim_greeting_list(const struct cshim_greeting *greetings, int ranks, char *text, size_t size)
{
    bool all = true;
    size_t length = 0;
    for (int rank = 1; rank < ranks; rank++) {
        const struct cshim_greeting *other = &greetings[rank];
        const bool has_come = other->version[0] != '\0';
        const char *why = NULL;
        if (!has_come)
            why = "no answer";
        else if (strcmp(other->version, greetings->version) != 0)
            why = other->version;
        else if (other->table != greetings->table)
            why = "another codec table";
        if (why == NULL)
            continue;
        all = false;
        if (length < size)
            length += (size_t)snprintf(text + length, size - length, "%srank %d (%s%s%s)",
                                       length > 0 ? ", " : "", rank, other->host,
                                       has_come ? ": " : "", why);
    }
    return all;
}
