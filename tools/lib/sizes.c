/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing lists and ranges of sizes. */
#include "tools/lib/sizes.h"

#include <string.h>

#include "policy/policy.h"

struct list {
    const struct tool_command *command;
    uint64_t *sizes;
    size_t room;
    size_t count;
};

static void add_size(struct list *list, uint64_t bytes)
{
    if (list->count == list->room)
        tool_misuse(list->command->name, "--sizes: more than %zu sizes", list->room);
    list->sizes[list->count++] = bytes;
}

static uint64_t parse_size(const struct list *list, const char *text)
{
    uint64_t bytes = 0;
    if (!cshim_parse_size(text, &bytes))
        tool_misuse(list->command->name,
                    "--sizes: '%s' is not a size (such as 65536, 64KiB or 25MB), nor a range of "
                    "them (64KiB-64MiB)",
                    text);
    return bytes;
}

static void add_range(struct list *list, char *text)
{
    char *dash = strchr(text, '-');
    if (dash == NULL) {
        add_size(list, parse_size(list, text));
        return;
    }
    *dash = '\0';
    const uint64_t first = parse_size(list, text), last = parse_size(list, dash + 1);
    if (first == 0 || first > last)
        tool_misuse(list->command->name, "--sizes: '%s-%s' does not rise from a size above 0", text,
                    dash + 1);
    for (uint64_t bytes = first; bytes < last; bytes *= 2)
        add_size(list, bytes);
    add_size(list, last);
}

size_t tool_parse_sizes(const struct tool_command *command, const char *text, uint64_t *sizes,
                        size_t room)
{
    struct list list = {command, sizes, room, 0};
    size_t count = 0;
    char **ranges = tool_split(text, &count);
    for (size_t i = 0; i < count; i++)
        add_range(&list, ranges[i]);
    tool_split_free(ranges, count);
    return list.count;
}
