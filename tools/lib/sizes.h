/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of sizes on a command line. */
#ifndef TOOL_SIZES_H
#define TOOL_SIZES_H

#include "tools/lib/tool.h"

/* Fills sizes from "1MiB,25MiB" or "64KiB-64MiB" (the first and its doubles, up to and with the
 * last), in the order given; returns how many. Anything else, or more than `room`, is wrong use of
 * the command's option --sizes. */
size_t tool_parse_sizes(const struct tool_command *command, const char *text, uint64_t *sizes,
                        size_t room);

#endif
