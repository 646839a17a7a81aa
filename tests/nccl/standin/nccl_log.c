/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: the log of calls, one JSON object a line. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/standin/nccl_internal.h"

static int log_file = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_log(void)
{
    const char *pattern = getenv("STANDIN_LOG");
    char path[4096];
    if (pattern == NULL || *pattern == 0)
        return;
    const char *place = strstr(pattern, "{rank}");
    if (place == NULL)
        snprintf(path, sizeof path, "%s", pattern);
    else
        snprintf(path, sizeof path, "%.*s%ld%s", (int)(place - pattern), pattern,
                 standin_the_driver()->process_rank(), place + 6);
    log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log_file < 0)
        perror(path);
}

size_t standin_bytes_sent(const struct standin_task *task)
{
    const ncclComm_t comm = task->comm;
    const size_t bytes = task->count * standin_dtype_bytes(task->dtype);
    const size_t others = (size_t)comm->ranks - 1;
    const bool is_root = comm->rank == task->root;
    switch (task->kind) {
    case STANDIN_ALL_REDUCE: /* of a ring */
        return 2 * others * bytes / (size_t)comm->ranks;
    case STANDIN_REDUCE_SCATTER:
    case STANDIN_ALL_GATHER:
    case STANDIN_ALL_TO_ALL:
        return others * bytes;
    case STANDIN_BROADCAST:
    case STANDIN_SCATTER:
        return is_root ? others * bytes : 0;
    case STANDIN_SEND:
        return is_root ? 0 : bytes;
    case STANDIN_RECV:
        return 0;
    default:
        return is_root ? 0 : bytes;
    }
}

void standin_log(const struct standin_task *task, bool captured)
{
    static const bool with_op[] = {[STANDIN_ALL_REDUCE] = true,
                                   [STANDIN_REDUCE_SCATTER] = true,
                                   [STANDIN_REDUCE] = true,
                                   [STANDIN_SCATTER] = false};
    const ncclComm_t comm = task->comm;
    char line[512];
    const size_t sent = standin_bytes_sent(task);
    comm->bytes_sent += sent;
    pthread_once(&once, open_log);
    if (log_file < 0)
        return;
    const int length = snprintf(
        line, sizeof line,
        "{\"call\": \"%s\", \"comm\": \"%p\", \"rank\": %d, \"ranks\": %d, \"op\": \"%s\", "
        "\"dtype\": \"%s\", \"count\": %zu, \"bytes_sent\": %zu, \"root\": %d, \"stream\": \"%p\", "
        "\"in_place\": %s, \"captured\": %s, \"comm_bytes_sent\": %llu}\n",
        task->name, (void *)comm, comm->rank, comm->ranks,
        with_op[task->kind] ? standin_op_name(task->op) : "", standin_dtype_name(task->dtype),
        task->count, sent, task->root, (void *)task->stream,
        task->send == task->recv ? "true" : "false", captured ? "true" : "false",
        (unsigned long long)comm->bytes_sent);
    if (write(log_file, line, (size_t)length) != length)
        perror("STANDIN_LOG");
}
