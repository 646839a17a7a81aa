/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of sizes on a command line. */
#ifndef TOOL_SIZES_H
#define TOOL_SIZES_H

#include "tools/lib/tool.h"

/* Reads a list such as "1MiB,64KiB-64MiB" into sizes, in its order, and returns how many there are.
 * A range stands for its first size, the doubles of that, and its last size. Any other text, or
 * more than `room` sizes, is wrong use of the command's option --sizes. */
size_t tool_parse_sizes(const struct tool_command *command, const char *text, uint64_t *sizes,
                        size_t room);

#endif
