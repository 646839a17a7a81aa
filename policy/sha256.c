/* SPDX-License-Identifier: Apache-2.0 */
#include <sha2.h>
#include <stdio.h>

#include "policy/policy.h"

void cshim_policy_sha256(const char *text, size_t length, char digest[65])
{
    SHA2_CTX state;
    uint8_t bytes[SHA256_DIGEST_LENGTH];
    SHA256Init(&state);
    SHA256Update(&state, (const uint8_t *)text, length);
    SHA256Final(bytes, &state);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(digest + 2 * i, 3, "%02x", bytes[i]);
}
