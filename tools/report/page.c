/* SPDX-License-Identifier: Apache-2.0 */
/* Some reports as one page: the summary, plots, the other tables. */
#include <stdlib.h>

#include "tools/html/html.h"
#include "tools/report/report.h"

/* Colours of what is not compressed, and of the first report or part of a time. */
#define COLOUR_NATIVE 0
#define COLOUR_FIRST 1

static void write_table(FILE *file, const struct report_set *set, enum report_table which)
{
    struct tool_table table = report_table(set, which);
    if (table.rows > table.headings) {
        html_element(file, "h2", NULL, report_table_title(which));
        html_table(file, &table);
    }
    tool_table_free(&table);
}

/* Writes the figure and frees its bars. */
static void write_bars(FILE *file, struct html_bars *plot)
{
    html_bars(file, plot, NULL);
    html_bars_free(plot);
}

static void add_value(struct html_bars *plot, const char *path, const char *name, size_t colour,
                      double value, char *text)
{
    html_bars_add_value(plot, path, name, colour, value > 0 ? value : 0, text);
    free(text);
}

static void plot_bytes(FILE *file, const struct report_set *set)
{
    struct html_bars plot = {.title = "Bytes on the wire",
                             .note = "Sent by all ranks in the compressed calls; natively: what a "
                                     "ring all-reduce sends for them."};
    for (size_t i = 0; i < set->count; i++) {
        const struct ledger_file *ledger = &set->ledgers[i];
        double native = ledger_total(ledger, "bytes_native");
        double wire = ledger_total(ledger, "bytes_wire");
        if (wire <= 0)
            continue;
        add_value(&plot, ledger->path, "natively", COLOUR_NATIVE, native, tool_bytes(native));
        add_value(&plot, ledger->path, "on the wire", COLOUR_FIRST + i, wire, tool_bytes(wire));
    }
    write_bars(file, &plot);
}

/* The times of a report's rows together. */
static void plot_times(FILE *file, const struct report_set *set)
{
    static const struct {
        const char *key;
        const char *name;
    } parts[] = {{"seconds_encode", "encode"},
                 {"seconds_exchange", "exchange"},
                 {"seconds_decode", "decode"}};
    struct html_bars plot = {
        .title = "Time in compressed calls",
        .note = "Of rank 0 of each communicator: making, exchanging and adding up what "
                "is sent."};
    for (size_t i = 0; i < set->count; i++) {
        const json_t *rows = json_object_get(set->ledgers[i].root, "rows");
        if (json_array_size(rows) == 0)
            continue;
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
            double seconds = 0;
            for (size_t row = 0; row < json_array_size(rows); row++)
                seconds += ledger_number(json_array_get(rows, row), parts[part].key);
            add_value(&plot, set->ledgers[i].path, parts[part].name, COLOUR_FIRST + part, seconds,
                      tool_format("%.3f s", seconds));
        }
    }
    write_bars(file, &plot);
}

static void plot_errors(FILE *file, const struct report_set *set)
{
    struct html_bars plot = {
        .title = "Error per rule",
        .note = "Relative L2 error of a sum, sampled; further left is more precise.",
        .logarithmic = true};
    for (size_t i = 0; i < set->count; i++) {
        const json_t *rows = json_object_get(set->ledgers[i].root, "rows");
        for (size_t at = 0; at < json_array_size(rows); at++) {
            const json_t *row = json_array_get(rows, at);
            double error = ledger_error(row);
            if (error < 0)
                continue;
            char *name = tool_format("%s, %s", ledger_text(row, "rule"), ledger_text(row, "codec"));
            add_value(&plot, set->ledgers[i].path, name, COLOUR_FIRST + i, error,
                      tool_format("%.1e", error));
            free(name);
        }
    }
    write_bars(file, &plot);
}

void report_write_html(FILE *file, const struct report_set *set)
{
    char *title = set->count == 1 ? tool_format("Report %s", set->ledgers[0].path)
                                  : tool_format("%zu reports", set->count);
    html_begin(file, title);
    write_table(file, set, REPORT_TABLE_SUMMARY);
    html_figures_begin(file);
    plot_bytes(file, set);
    plot_times(file, set);
    plot_errors(file, set);
    html_figures_end(file);
    for (enum report_table which = REPORT_TABLE_ROWS; which < REPORT_TABLE_COUNT; which++)
        write_table(file, set, which);
    html_end(file);
    free(title);
}
