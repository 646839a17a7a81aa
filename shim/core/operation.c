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
#define TEXT(KIND, ...)                                                                            \
    case CSHIM_OPERATION_##KIND:                                                                   \
        snprintf(rest, room, __VA_ARGS__);                                                         \
        break
    switch ((enum cshim_operation_kind)operation->kind) {
        TEXT(NODE_REDUCE, "node reduce");
        TEXT(RECEIVE, "receive      %s from %u, %llu elements, at %llu", message, operation->peer,
             elements, offset);
        TEXT(MESSAGE, "message      %s, %llu elements, at %llu", message, elements, offset);
        TEXT(ENCODE, "encode       %s [%llu, %llu)",
             (operation->options & CSHIM_FROM_RESULT) != 0 ? "result" : "own", begin,
             begin + elements);
        TEXT(SEND, "send         %s to %u", message, operation->peer);
        TEXT(WAIT_RECEIVED, "wait for     %ss", message);
        TEXT(WAIT_SENT, "wait until   %ss are sent", message);
        TEXT(READ, "input %-6u %s of %u, at %llu", operation->parts, message, operation->peer,
             offset);
        TEXT(READ_OWN, "input %-6u own [%llu, %llu)", operation->parts, begin, begin + elements);
        TEXT(REDUCE, "reduce       %u inputs [%llu, %llu) into %s", operation->parts, begin,
             begin + elements,
             operation->options == CSHIM_TO_RESULT    ? "the result"
             : operation->options == CSHIM_TO_MESSAGE ? "the message"
                                                      : "message and result");
        TEXT(FORWARD, "forward      %s, %llu elements", message, elements);
        TEXT(DECODE, "decode       [%llu, %llu)", begin, begin + elements);
        TEXT(NODE_GATHER, "node gather");
    case CSHIM_OPERATION_KINDS:
        break;
    }
#undef TEXT
    return text;
}
