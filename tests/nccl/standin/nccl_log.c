/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: the log of calls, one JSON object per line, and that of digests of data. */
#include <stdio.h>
#include <unistd.h>

#include "tests/nccl/standin/nccl_internal.h"

static int log_file = -1, data_file = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_logs(void)
{
    log_file = standin_the_driver()->open_file("STANDIN_LOG");
    data_file = standin_the_driver()->open_file("STANDIN_DATA");
}

size_t standin_bytes_sent(const struct standin_task *task)
{
    const ncclComm_t comm = task->comm;
    const size_t bytes = task->count * standin_dtype_bytes(task->dtype);
    const size_t others = (size_t)comm->ranks - 1;
    const bool is_root = comm->rank == task->root;
    switch (task->kind) {
    case STANDIN_ALL_REDUCE: /* by NCCL's ring algorithm */
        return 2 * others * bytes / (size_t)comm->ranks;
    case STANDIN_REDUCE_SCATTER:
    case STANDIN_ALL_GATHER:
    case STANDIN_ALL_TO_ALL:
        return others * bytes;
    case STANDIN_BROADCAST:
        return is_root ? others * bytes : 0;
    case STANDIN_SEND:
        return is_root ? 0 : bytes;
    default:
        return 0;
    }
}

void standin_log(const struct standin_task *task, bool captured)
{
    const bool has_op = task->kind == STANDIN_ALL_REDUCE || task->kind == STANDIN_REDUCE_SCATTER;
    const ncclComm_t comm = task->comm;
    char line[512];
    const size_t sent = standin_bytes_sent(task);
    comm->bytes_sent += sent;
    pthread_once(&once, open_logs);
    if (log_file < 0)
        return;
    const int length = snprintf(
        line, sizeof line,
        "{\"call\": \"%s\", \"comm\": \"%p\", \"rank\": %d, \"ranks\": %d, \"op\": \"%s\", "
        "\"dtype\": \"%s\", \"count\": %zu, \"bytes_sent\": %zu, \"root\": %d, \"stream\": \"%p\", "
        "\"in_place\": %s, \"captured\": %s, \"comm_bytes_sent\": %llu}\n",
        task->name, (void *)comm, comm->rank, comm->ranks, has_op ? standin_op_name(task->op) : "",
        standin_dtype_name(task->dtype), task->count, sent, task->root, (void *)task->stream,
        task->send == task->recv ? "true" : "false", captured ? "true" : "false",
        (unsigned long long)comm->bytes_sent);
    if (write(log_file, line, (size_t)length) != length)
        perror("STANDIN_LOG");
}

void standin_log_data(const struct standin_task *task, const void *data, size_t bytes)
{
    char line[128];
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    pthread_once(&once, open_logs);
    if (data_file < 0)
        return;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
    const int length = snprintf(line, sizeof line, "%s %s %zu, of %d, to %d: %016llx\n", task->name,
                                standin_dtype_name(task->dtype), task->count, task->comm->ranks,
                                task->root, (unsigned long long)hash);
    if (write(data_file, line, (size_t)length) != length)
        perror("STANDIN_DATA");
}
