/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison as one page: what came of it in a line per mode, the tables, the plots. */
#include <stdlib.h>

#include "tools/compare/compare.h"
#include "tools/html/html.h"
#include "tools/lib/tool.h"

static void write_table(FILE *file, const struct compare_plan *plan, const json_t *environment,
                        enum compare_table which)
{
    struct tool_table table = compare_table(plan, environment, which);
    if (table.rows > table.headings) {
        char *title = compare_table_title(plan, which);
        html_element(file, "h2", NULL, title);
        html_table(file, &table);
        free(title);
    }
    tool_table_free(&table);
}

/* "fp8 (8 bit), 4 ranks: 1.30 times as fast as off, 3.97 times fewer bytes, accuracy +0.10". */
static void write_sentence(FILE *file, const struct compare_plan *plan, size_t mode, size_t rank)
{
    size_t native = compare_native_mode(plan);
    double speed_up = compare_speed_up(plan, mode, rank);
    double before = compare_spread(plan, mode, rank, COMPARE_FIGURE_NATIVE).median;
    double wire = compare_spread(plan, mode, rank, COMPARE_FIGURE_WIRE).median;
    double accuracy = compare_spread(plan, mode, rank, COMPARE_FIGURE_ACCURACY).median;
    double natively = -1;
    if (native < plan->mode_count)
        natively = compare_spread(plan, native, rank, COMPARE_FIGURE_ACCURACY).median;
    char *ranks = tool_plural(plan->ranks[rank], "rank");
    fputs("<li><strong>", file);
    html_text(file, plan->modes[mode].label);
    fprintf(file, "</strong> on %s:", ranks);
    const char *separator = " ";
    if (speed_up > 0) {
        fprintf(file, "%s%.2f times the speed of off", separator, speed_up);
        separator = ", ";
    }
    if (wire > 0) {
        fprintf(file, "%s%.2f times fewer bytes", separator, before / wire);
        separator = ", ";
    }
    if (accuracy >= 0 && natively >= 0)
        fprintf(file, "%saccuracy %.2f&#160;%% against %.2f&#160;%%", separator, accuracy,
                natively);
    fputs(".</li>\n", file);
    free(ranks);
}

/* The modes with the shim, each on the most ranks that it was run on. */
static void write_summary(FILE *file, const struct compare_plan *plan)
{
    bool begun = false;
    for (size_t mode = 0; mode < plan->mode_count; mode++) {
        size_t most = plan->rank_count;
        for (size_t rank = 0; rank < plan->rank_count; rank++)
            if (compare_cell(plan, mode, rank)->count > 0 &&
                (most == plan->rank_count || plan->ranks[rank] > plan->ranks[most]))
                most = rank;
        if (!plan->modes[mode].shim || most == plan->rank_count)
            continue;
        fputs(begun ? "" : "<ul>\n", file);
        write_sentence(file, plan, mode, most);
        begun = true;
    }
    fputs(begun ? "</ul>\n" : "", file);
}

/* What was run, and how often it was finished. */
static void write_commands(FILE *file, const struct compare_plan *plan)
{
    fputs("<details><summary>The commands</summary>\n<ul>\n", file);
    for (size_t rank = 0; rank < plan->rank_count; rank++)
        for (size_t mode = 0; mode < plan->mode_count; mode++) {
            const struct compare_cell *cell = compare_cell(plan, mode, rank);
            if (cell->count == 0)
                continue;
            fputs("<li>", file);
            html_text(file, plan->modes[mode].label);
            fprintf(file, ", %zu finished: <code>", cell->count);
            html_text(file, cell->runs[0].command);
            fputs("</code></li>\n", file);
        }
    fputs("</ul></details>\n", file);
}

bool compare_write_html(const struct compare_plan *plan, const json_t *environment,
                        const char *path, bool complete)
{
    FILE *file = tool_open(path);
    if (file == NULL)
        return false;
    html_begin(file, plan->title);
    if (!complete)
        html_element(file, "p", "warning", "Stopped early: this is what was finished.");
    write_summary(file, plan);
    write_table(file, plan, environment, COMPARE_TABLE_TIME);
    write_table(file, plan, environment, COMPARE_TABLE_ACCURACY);
    compare_write_plots(file, plan);
    write_table(file, plan, environment, COMPARE_TABLE_ENVIRONMENT);
    write_commands(file, plan);
    html_end(file);
    return tool_close(file, path);
}
