/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies the node of this process. GPUs of several machines that NVLink connects (multi-node
 * NVLink) are one node. */
#ifndef CSHIM_NVLINK_H
#define CSHIM_NVLINK_H

#include <stdint.h>

/* Returns the hash of the NVLink domain (the fabric's cluster and clique) of this machine's GPUs
 * or, without one, of the machine (of NCCL_HOSTID if it is set). Equal on ranks of one node only.
 * Asks NVML at the first call, unless NCCL_MNNVL_ENABLE is 0. Thread-safe. */
uint64_t cshim_nvlink_node(void);

#endif
