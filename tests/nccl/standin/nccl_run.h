/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the stand-in for libnccl.so.2: what collectives and messages share as they run. */
#ifndef STANDIN_NCCL_RUN_H
#define STANDIN_NCCL_RUN_H

#include "tests/nccl/standin/nccl_internal.h"

#define STANDIN_HEADER_MAGIC 0x4c43434eu
#define STANDIN_POINT_TO_POINT ((uint32_t)STANDIN_SEND)

/* A call as it runs. */
struct standin_context {
    ncclComm_t comm;
    const struct standin_task *task;
    size_t element, bytes; /* of the task's count */
};

/* Memory of the communicator's device; NULL where it may not be accessed. */
void *standin_seen(const struct standin_context *context, const void *pointer, size_t bytes,
                   bool write);

/* Moves all transfers; *go_on becomes false unless all was moved. Where ranks disagree it says so
 * and returns an error. */
CUresult standin_move(const struct standin_context *context, struct standin_transfer *transfers,
                      size_t count, bool *go_on);

void *standin_room(size_t bytes); /* malloc that does not fail */

/* Runs the point-to-point tasks of a list, all at once. */
CUresult standin_run_messages(ncclComm_t comm, const struct standin_task *tasks, bool *go_on);

#endif
