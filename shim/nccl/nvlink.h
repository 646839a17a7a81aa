/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs are joined by NVLink beyond their machine. */
#ifndef CSHIM_NVLINK_H
#define CSHIM_NVLINK_H

#include <stdint.h>

/* Identifies the node that the GPUs of this process belong to: the NVLink domain, that is the
 * fabric's cluster and clique, which may span several machines; without one the machine, as NCCL
 * tells machines apart. Asks NVML at its first call. Thread-safe. */
uint64_t cshim_nvlink_node(void);

#endif
