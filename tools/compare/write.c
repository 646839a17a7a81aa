/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a comparison as text, as Markdown, as JSON and as a page. */
#include "tools/compare/compare.h"
#include "tools/html/page.h"
#include "version.h"

static void write_tables(const struct compare_plan *plan, bool markdown, FILE *file)
{
    for (enum compare_table which = 0; which < COMPARE_TABLE_COUNT; which++) {
        struct compare_section section = compare_section(plan, which);
        tool_table_print_titled(&section.table, section.title, markdown, file);
        compare_section_free(&section);
    }
}

void compare_write_text(const struct compare_plan *plan, FILE *file)
{
    fprintf(file, "%s\n", plan->options->title);
    write_tables(plan, false, file);
}

void compare_write_markdown(const struct compare_plan *plan, FILE *file)
{
    fputs("# ", file);
    tool_print_markdown(plan->options->title, file);
    fputc('\n', file);
    write_tables(plan, true, file);
}

static json_t *cell_json(const struct compare_plan *plan, size_t mode, size_t rank)
{
    json_t *cell =
        json_pack("{s:o, s:o, s:I}", "mode", page_text(plan->modes[mode].name), "label",
                  page_text(plan->modes[mode].label), "ranks", (json_int_t)plan->ranks[rank]);
    json_t *spreads = json_object();
    for (enum compare_figure figure = 0; figure < COMPARE_FIGURE_COUNT; figure++) {
        const char *name = compare_figure_name(figure);
        struct compare_spread spread = compare_spread(plan, mode, rank, figure);
        bool known = spread.median >= 0;
        json_object_set_new(cell, name, known ? json_real(spread.median) : json_null());
        json_object_set_new(
            spreads, name, known ? json_pack("[f,f]", spread.lowest, spread.highest) : json_null());
    }
    json_object_set_new(cell, "spread", spreads);
    json_object_set(cell, "runs", compare_cell(plan, mode, rank)->runs);
    return cell;
}

static json_t *make_json(const struct compare_plan *plan)
{
    json_t *results = json_array();
    for (size_t mode = 0; mode < plan->mode_count; mode++)
        for (size_t rank = 0; rank < plan->rank_count; rank++)
            if (compare_cell(plan, mode, rank)->is_wanted)
                json_array_append_new(results, cell_json(plan, mode, rank));
    return json_pack("{s:s, s:o, s:b, s:I, s:s, s:O, s:o}", "compshim", CSHIM_VERSION, "title",
                     page_text(plan->options->title), "complete", plan->is_complete, "repeat",
                     (json_int_t)plan->options->repeat, "time_is",
                     compare_uses_wall(plan) ? "wall" : "metric", "environment", plan->environment,
                     "results", results);
}

void compare_write_json(const struct compare_plan *plan, FILE *file)
{
    json_t *json = make_json(plan);
    json_dumpf(json, file, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(json);
}

void compare_write_page(const struct compare_plan *plan, FILE *file)
{
    struct page page;
    page_start(&page, json_pack("{s:o}", "comparison", make_json(plan)));
    if (!plan->is_complete)
        fputs("Stopped early: this is what was finished.\n", page.text);
    for (enum compare_table which = 0; which < COMPARE_TABLE_COUNT; which++) {
        struct compare_section section = compare_section(plan, which);
        page_add_table(&page, section.name, section.title, &section.table);
        compare_section_free(&section);
    }
    page_finish(&page, plan->options->title, file);
}
