/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/operation.h"

#include <stdio.h>
#include <stdlib.h>

void cshim_operations_free(struct cshim_operations *operations)
{
    free(operations->list);
    *operations = (struct cshim_operations){0};
}

static const char *message_name(uint8_t message)
{
    static const char *const names[CSHIM_MESSAGES] = {"contribution", "reduced chunk", "row sum",
                                                      "reduced piece"};
    return message < CSHIM_MESSAGES ? names[message] : "?";
}

const char *cshim_operation_text(const struct cshim_operation *operation,
                                 char text[CSHIM_OPERATION_TEXT_MAX])
{
    const char *message = message_name(operation->message);
    const unsigned long long begin = operation->begin, elements = operation->elements,
                             offset = operation->offset;
    int length = snprintf(text, CSHIM_OPERATION_TEXT_MAX, "%u  ", operation->depth);
    char *rest = text + length;
    const size_t room = CSHIM_OPERATION_TEXT_MAX - (size_t)length;
    switch ((enum cshim_operation_kind)operation->kind) {
    case CSHIM_OPERATION_NODE_REDUCE:
        snprintf(rest, room, "node reduce");
        break;
    case CSHIM_OPERATION_RECEIVE:
        snprintf(rest, room, "receive      %s from %u, %llu elements, at %llu", message,
                 operation->peer, elements, offset);
        break;
    case CSHIM_OPERATION_MESSAGE:
        snprintf(rest, room, "message      %s, %llu elements, at %llu", message, elements, offset);
        break;
    case CSHIM_OPERATION_ENCODE:
        snprintf(rest, room, "encode       %s [%llu, %llu)",
                 (operation->options & CSHIM_FROM_RESULT) != 0 ? "result" : "own", begin,
                 begin + elements);
        break;
    case CSHIM_OPERATION_SEND:
        snprintf(rest, room, "send         %s to %u", message, operation->peer);
        break;
    case CSHIM_OPERATION_WAIT_RECEIVED:
        snprintf(rest, room, "wait for     %ss", message);
        break;
    case CSHIM_OPERATION_WAIT_SENT:
        snprintf(rest, room, "wait until   %ss are sent", message);
        break;
    case CSHIM_OPERATION_READ:
        snprintf(rest, room, "input %-6u %s of %u, at %llu", operation->parts, message,
                 operation->peer, offset);
        break;
    case CSHIM_OPERATION_READ_OWN:
        snprintf(rest, room, "input %-6u own [%llu, %llu)", operation->parts, begin,
                 begin + elements);
        break;
    case CSHIM_OPERATION_REDUCE:
        snprintf(rest, room, "reduce       %u inputs [%llu, %llu) into %s", operation->parts, begin,
                 begin + elements,
                 operation->options == CSHIM_TO_RESULT    ? "the result"
                 : operation->options == CSHIM_TO_MESSAGE ? "the message"
                                                          : "message and result");
        break;
    case CSHIM_OPERATION_FORWARD:
        snprintf(rest, room, "forward      %s, %llu elements", message, elements);
        break;
    case CSHIM_OPERATION_DECODE:
        snprintf(rest, room, "decode       [%llu, %llu)", begin, begin + elements);
        break;
    case CSHIM_OPERATION_NODE_GATHER:
        snprintf(rest, room, "node gather");
        break;
    case CSHIM_OPERATION_KINDS:
        break;
    }
    return text;
}
