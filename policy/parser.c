/* SPDX-License-Identifier: Apache-2.0 */
/* The error of a parse: one line that tells where the policy is wrong, and what is wrong. */
#include "policy/parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Of a longer path only the end is shown: the message needs room for the error. */
#define SOURCE_SHOWN 255

bool cshim_parser_fail(struct cshim_parser *parser, const char *format, ...)
{
    if (parser->failed)
        return false;
    parser->failed = true;
    size_t length = strlen(parser->source);
    const char *shown =
        length > SOURCE_SHOWN ? parser->source + length - SOURCE_SHOWN : parser->source;
    int used = snprintf(parser->message, CSHIM_MESSAGE_MAX, "%s:%u: ", shown, parser->line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(parser->message + used, CSHIM_MESSAGE_MAX - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}
