/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/nvlink.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/hash.h"
#include "shim/core/greeting.h"

#define SUCCESS 0
#define REGISTERED 3 /* NVML_GPU_FABRIC_STATE_COMPLETED */

/* Copy of nvmlGpuFabricInfo_v2_t, because not every toolkit has nvml.h. */
struct fabric {
    unsigned version;
    unsigned char cluster[16]; /* all zero if NVLink does not leave the machine */
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};
#define FABRIC_VERSION ((unsigned)sizeof(struct fabric) | 2u << 24)

static uint64_t domain; /* hash of the NVLink domain; 0: none */

/* Asks NVML for the fabric of the machine's first GPU, as all GPUs of a machine are in one domain.
 * Returns false if NVML or the function is missing or fails. The library stays loaded, because NCCL
 * uses it as well. */
static bool query_fabric(struct fabric *fabric)
{
    int (*initialize)(void), (*shut_down)(void), (*get_device)(unsigned, void **);
    int (*get_fabric)(void *, struct fabric *);
    void *device, *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return false;
    const struct {
        const char *name;
        void *function;
    } functions[] = {{"nvmlInit_v2", &initialize},
                     {"nvmlShutdown", &shut_down},
                     {"nvmlDeviceGetHandleByIndex_v2", &get_device},
                     {"nvmlDeviceGetGpuFabricInfoV", &get_fabric}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *symbol = dlsym(library, functions[i].name);
        if (symbol == NULL)
            return false;
        memcpy(functions[i].function, &symbol, sizeof symbol);
    }
    if (initialize() != SUCCESS)
        return false;
    const bool is_known =
        get_device(0, &device) == SUCCESS && get_fabric(device, fabric) == SUCCESS;
    shut_down();
    return is_known;
}

/* Sets `domain`, honouring NCCL's variables that disable NVLink between machines or set the
 * clique. */
static void find_domain(void)
{
    static const unsigned char none[sizeof(((struct fabric *)NULL)->cluster)];
    struct fabric fabric = {.version = FABRIC_VERSION};
    const char *enabled = getenv("NCCL_MNNVL_ENABLE"), *given = getenv("NCCL_MNNVL_CLIQUE_ID");
    if ((enabled != NULL && strcmp(enabled, "0") == 0) || !query_fabric(&fabric))
        return;
    if (fabric.status != SUCCESS || fabric.state != REGISTERED ||
        memcmp(fabric.cluster, none, sizeof none) == 0)
        return;
    if (given != NULL && *given != '\0' && *given != '-')
        fabric.clique = (unsigned)strtoul(given, NULL, 0);
    domain = cshim_hash_bytes(CSHIM_HASH_EMPTY, fabric.cluster, sizeof fabric.cluster);
    domain = cshim_hash_bytes(domain, &fabric.clique, sizeof fabric.clique);
}

uint64_t cshim_nvlink_node(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_domain);
    return domain != 0 ? domain : cshim_machine(getenv("NCCL_HOSTID"));
}
