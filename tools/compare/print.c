/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison's tables as text on stdout, and as Markdown in a file. */
#include <stdlib.h>

#include "tools/compare/compare.h"
#include "tools/lib/tool.h"

static void print_tables(const struct compare_plan *plan, const json_t *environment, bool markdown,
                         FILE *file)
{
    for (enum compare_table which = 0; which < COMPARE_TABLE_COUNT; which++) {
        struct tool_table table = compare_table(plan, environment, which);
        char *title = compare_table_title(plan, which);
        tool_table_print_titled(&table, title, markdown, file);
        free(title);
        tool_table_free(&table);
    }
}

void compare_print(const struct compare_plan *plan, const json_t *environment)
{
    printf("%s\n", plan->title);
    print_tables(plan, environment, false, stdout);
}

bool compare_write_markdown(const struct compare_plan *plan, const json_t *environment,
                            const char *path)
{
    FILE *file = tool_open(path);
    if (file == NULL)
        return false;
    fputs("# ", file);
    tool_print_markdown(plan->title, file);
    fputc('\n', file);
    print_tables(plan, environment, true, file);
    return tool_close(file, path);
}
