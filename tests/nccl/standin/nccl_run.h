/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the stand-in for libnccl.so.2: shared by running collectives and messages. */
#ifndef STANDIN_NCCL_RUN_H
#define STANDIN_NCCL_RUN_H

#include "tests/nccl/standin/nccl_internal.h"

#define STANDIN_HEADER_MAGIC 0x4c43434eu
#define STANDIN_POINT_TO_POINT ((uint32_t)STANDIN_SEND)

/* A running call. */
struct standin_context {
    ncclComm_t comm;
    const struct standin_task *task;
    size_t element, bytes; /* bytes of an element, and of the task's count */
};

/* Returns the address at which memory of the communicator's device is accessed; NULL if it may not
 * be. */
void *standin_seen(const struct standin_context *context, const void *pointer, size_t bytes,
                   bool write);

/* Completes all transfers; sets *go_on to false if it cannot. Returns an error, after a message, if
 * ranks do not match. */
CUresult standin_move(const struct standin_context *context, struct standin_transfer *transfers,
                      size_t count, bool *go_on);

void *standin_room(size_t bytes); /* malloc; ends the process if there is no memory */

/* Runs the point-to-point tasks of a list concurrently. */
CUresult standin_run_messages(ncclComm_t comm, const struct standin_task *tasks, bool *go_on);

#endif
