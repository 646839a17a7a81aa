/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: point-to-point messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/standin/nccl_run.h"

/* A message from this rank to a peer, or from the peer to this rank. */
struct message {
    const struct standin_task *task;
    int peer;
    bool is_send;
    void *bytes;
    struct standin_header header, received;
};

struct list {
    struct message *messages;
    size_t count, room;
    bool refused; /* a memory access was refused */
};

static void add_message(ncclComm_t comm, struct list *list, const struct standin_task *task)
{
    const size_t element = standin_dtype_bytes(task->dtype), bytes = task->count * element;
    const struct standin_context context = {comm, task, element, bytes};
    const bool is_send = task->kind == STANDIN_SEND;
    if (list->count == list->room) {
        list->room = list->room == 0 ? 32 : 2 * list->room;
        list->messages = realloc(list->messages, list->room * sizeof *list->messages);
        if (list->messages == NULL)
            abort();
    }
    struct message *message = &list->messages[list->count++];
    *message = (struct message){task, task->root, is_send, NULL, {0}, {0}};
    message->header = (struct standin_header){.magic = STANDIN_HEADER_MAGIC,
                                              .kind = STANDIN_POINT_TO_POINT,
                                              .count = task->count,
                                              .dtype = (uint32_t)task->dtype};
    message->bytes = standin_seen(&context, is_send ? task->send : task->recv, bytes, !is_send);
    list->refused = list->refused || message->bytes == NULL;
    if (is_send && message->bytes != NULL)
        standin_log_data(task, message->bytes, bytes);
}

/* Copies messages of this rank to itself: the k-th send goes to the k-th receive. */
static CUresult copy_own(ncclComm_t comm, struct list *list)
{
    size_t receive = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct message *from = &list->messages[i];
        if (from->peer != comm->rank || !from->is_send)
            continue;
        while (receive < list->count &&
               (list->messages[receive].peer != comm->rank || list->messages[receive].is_send))
            receive++;
        if (receive == list->count ||
            memcmp(&from->header, &list->messages[receive].header, sizeof from->header) != 0) {
            fprintf(stderr,
                    "standin libnccl: rank %d: %s to itself (%zu x %s) has no receive like it\n",
                    comm->rank, from->task->name, from->task->count,
                    standin_dtype_name(from->task->dtype));
            return CUDA_ERROR_LAUNCH_FAILED;
        }
        memmove(list->messages[receive++].bytes, from->bytes,
                from->task->count * standin_dtype_bytes(from->task->dtype));
    }
    return CUDA_SUCCESS;
}

static CUresult move_others(ncclComm_t comm, struct list *list, bool *go_on)
{
    struct standin_transfer *transfers = standin_room(2 * list->count * sizeof *transfers);
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct message *message = &list->messages[i];
        const size_t bytes = message->task->count * standin_dtype_bytes(message->task->dtype);
        if (message->peer == comm->rank)
            continue;
        transfers[count++] =
            (struct standin_transfer){message->peer,
                                      message->is_send,
                                      message->is_send ? &message->header : &message->received,
                                      sizeof message->header,
                                      0,
                                      message->is_send ? NULL : &message->header};
        transfers[count++] = (struct standin_transfer){
            message->peer, message->is_send, message->bytes, bytes, 0, NULL};
    }
    const struct standin_context context = {comm, NULL, 0, 0};
    const CUresult status = standin_move(&context, transfers, count, go_on);
    free(transfers);
    return status;
}

CUresult standin_run_messages(ncclComm_t comm, const struct standin_task *tasks, bool *go_on)
{
    struct list list = {0};
    for (const struct standin_task *task = tasks; task != NULL; task = task->next)
        if (task->kind >= STANDIN_SEND)
            add_message(comm, &list, task);
    CUresult status = list.refused ? CUDA_ERROR_ILLEGAL_ADDRESS : copy_own(comm, &list);
    if (status == CUDA_SUCCESS)
        status = move_others(comm, &list, go_on);
    free(list.messages);
    return status;
}
