/* SPDX-License-Identifier: Apache-2.0 */
/* Prints NCCL's version and a unique id in hexadecimal. Needs no GPU, even with the real NCCL. */
#include <nccl.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    ncclUniqueId id;
    int version;
    memset(&id, 0xa5, sizeof id); /* makes bytes visible that NCCL does not write */
    if (ncclGetVersion(&version) != ncclSuccess || ncclGetUniqueId(&id) != ncclSuccess)
        return 1;
    printf("version %d\nid ", version);
    for (size_t i = 0; i < sizeof id.internal; i++)
        printf("%02x", (unsigned char)id.internal[i]);
    putchar('\n');
    return 0;
}
