/* SPDX-License-Identifier: Apache-2.0 */
/* Identity of a rank, which the rank sends to others before the ranks agree to compress (MPI and
 * gloo), and a hash that identifies its machine. */
#ifndef CSHIM_GREETING_H
#define CSHIM_GREETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sent between ranks as bytes. Empty `version`: no greeting was received. */
struct cshim_greeting {
    uint64_t table;   /* cshim_codec_table_hash() */
    uint64_t machine; /* equal for all ranks of a host, different between hosts */
    char version[24]; /* version of the rank's library */
    char host[96];
};

/* Returns the greeting of this process. Thread-safe. */
struct cshim_greeting cshim_greeting_make(void);

/* Returns true if another rank can compress with this one. If it cannot, adds "rank 3 (hostname:
 * why)", or "rank 3 (no answer)" without a greeting, to the list in `text`, as far as it fits. */
bool cshim_greeting_fits(const struct cshim_greeting *own, const struct cshim_greeting *other,
                         int rank, char *text, size_t size);

/* Returns a hash that identifies the machine of this process. Hashes `given`, unless it is NULL or
 * empty; else the kernel's id of this boot, which containers of one machine share; else, if that
 * cannot be read, the host name. */
uint64_t cshim_machine(const char *given);

#endif
