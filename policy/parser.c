/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the errors of a parse, a line for each. */
#include "policy/parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Largest length of the source's name in errors; only the end of a longer one is shown. */
#define SOURCE_SHOWN 255

/* Separates the lines of a message. The log prints "compshim: " only before the first one. */
#define NEXT_LINE "\ncompshim: "

/* Printed instead of errors for which the message has no room. */
static const char more[] = NEXT_LINE "and more errors";

bool cshim_parser_fail(struct cshim_parser *parser, const char *format, ...)
{
    const size_t room = CSHIM_MESSAGE_MAX - parser->used;
    const char *separator = parser->used > 0 ? NEXT_LINE : "";
    parser->failed = parser->section_failed = true;
    if (room < sizeof more) /* an earlier call added `more`, or the first error left no room */
        return false;
    size_t length = strlen(parser->source);
    const char *shown =
        length > SOURCE_SHOWN ? parser->source + length - SOURCE_SHOWN : parser->source;
    char *line = parser->message + parser->used;
    size_t used = (size_t)snprintf(line, room, "%s%s:%u: ", separator, shown, parser->line);
    va_list arguments;
    va_start(arguments, format);
    if (used < room)
        used += (size_t)vsnprintf(line + used, room - used, format, arguments);
    va_end(arguments);
    if (parser->used > 0 && used + sizeof more > room) {
        snprintf(line, room, "%s", more);
        used = room;
    }
    parser->used += used < room ? used : room;
    return false;
}
