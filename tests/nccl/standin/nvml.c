/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NVML: returns the NVLink fabric of a GPU. STANDIN_CLIQUE is the number of the
 * clique; without it the GPU is in no fabric. */
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/standin/standin.h"

#define VERSION (36u | 2u << 24) /* version of the struct, which has 36 bytes */
#define INVALID_ARGUMENT 2

struct fabric_info {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};

STANDIN_EXPORT int nvmlInit_v2(void)
{
    return 0;
}

STANDIN_EXPORT int nvmlShutdown(void)
{
    return 0;
}

STANDIN_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    static char devices[8];
    *device = &devices[index % 8];
    return 0;
}

STANDIN_EXPORT int nvmlDeviceGetGpuFabricInfoV(void *device, struct fabric_info *fabric)
{
    const char *clique = getenv("STANDIN_CLIQUE");
    if (device == NULL || fabric->version != VERSION)
        return INVALID_ARGUMENT;
    memset(fabric->cluster, clique != NULL ? 7 : 0, sizeof fabric->cluster);
    fabric->clique = clique != NULL ? (unsigned)atoi(clique) : 0;
    fabric->status = 0;
    fabric->state = 3;
    return 0;
}
