/* SPDX-License-Identifier: Apache-2.0 */
/* The reports of this process's jobs. When the process ends, reports and traces that are due are
 * written too: a program need not destroy its communicators. */
#ifndef CSHIM_NCCL_REPORT_H
#define CSHIM_NCCL_REPORT_H

#include "shim/nccl/trace.h"

/* Writes the report of each job in which something was counted since the last one. Thread-safe. */
void cshim_nccl_report_write(void);

#endif
