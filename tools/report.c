/* SPDX-License-Identifier: Apache-2.0 */
/* compshim report: the JSON reports of one or several runs, side by side. */
#include <stdlib.h>
#include <string.h>

#include "tools/ledger_file.h"
#include "tools/tool.h"

struct report_options {
    bool csv;
};

static const struct tool_option options[] = {
    {"csv", 0, TOOL_FLAG, offsetof(struct report_options, csv), NULL,
     "print the compressed rows as comma-separated values, sizes in bytes, times in seconds"},
    {0},
};

static char *ratio_text(double native, double wire)
{
    return wire > 0 ? tool_format("%.2f", native / wire) : tool_copy("-");
}

static char *seconds_text(double seconds, bool exact)
{
    return tool_format(exact ? "%.9g" : "%.3f", seconds);
}

enum fact {
    FACT_LIBRARY,
    FACT_RANKS,
    FACT_POLICY,
    FACT_WALL,
    FACT_CALLS,
    FACT_COMPRESSED,
    FACT_NATIVE,
    FACT_WIRE,
    FACT_RATIO,
    FACT_SECONDS,
    FACT_COUNT
};

static const char *const fact_names[FACT_COUNT] = {
    "library",
    "ranks on nodes",
    "policy",
    "wall time s",
    "calls",
    "compressed calls",
    "bytes native",
    "bytes on wire",
    "native / on wire",
    "in compressed calls s",
};

static char *fact_text(const struct ledger_file *ledger, enum fact fact)
{
    const json_t *root = ledger->root;
    double native = ledger_total(ledger, "bytes_native");
    double wire = ledger_total(ledger, "bytes_wire");
    switch (fact) {
    case FACT_LIBRARY:
        return tool_copy(ledger_text(root, "library"));
    case FACT_RANKS:
        return tool_format("%.0f on %.0f", ledger_number(root, "ranks"),
                           ledger_number(root, "nodes"));
    case FACT_POLICY:
        return tool_copy(ledger_text(json_object_get(root, "policy"), "source"));
    case FACT_WALL:
        return seconds_text(ledger_number(root, "wall_seconds"), false);
    case FACT_CALLS:
        return tool_format("%.0f", ledger_total(ledger, "calls"));
    case FACT_COMPRESSED:
        return tool_format("%.0f", ledger_total(ledger, "compressed_calls"));
    case FACT_NATIVE:
        return tool_bytes(native);
    case FACT_WIRE:
        return tool_bytes(wire);
    case FACT_RATIO:
        return ratio_text(native, wire);
    case FACT_SECONDS:
        return seconds_text(ledger_total(ledger, "seconds"), false);
    case FACT_COUNT:
        break;
    }
    return NULL;
}

static void add_facts(struct tool_table *table, const struct ledger_file *ledgers, size_t count,
                      char **cells)
{
    cells[0] = NULL;
    for (size_t i = 0; i < count; i++)
        cells[i + 1] = tool_copy(ledgers[i].path);
    tool_table_add(table, cells);
    for (enum fact fact = 0; fact < FACT_COUNT; fact++) {
        cells[0] = tool_copy(fact_names[fact]);
        for (size_t i = 0; i < count; i++)
            cells[i + 1] = fact_text(&ledgers[i], fact);
        tool_table_add(table, cells);
    }
}

/* One line for each reason that any of the reports has. */
static void add_reasons(struct tool_table *table, const struct ledger_file *ledgers, size_t count,
                        char **cells)
{
    json_t *all = json_object();
    for (size_t i = 0; i < count; i++)
        json_object_update(all, json_object_get(ledgers[i].root, "passed_through"));
    const char *reason = NULL;
    json_t *unused = NULL;
    json_object_foreach(all, reason, unused)
    {
        cells[0] = tool_format("passed on: %s", reason);
        for (size_t i = 0; i < count; i++) {
            const json_t *passed = json_object_get(ledgers[i].root, "passed_through");
            cells[i + 1] = tool_format("%.0f", ledger_number(passed, reason));
        }
        tool_table_add(table, cells);
    }
    json_decref(all);
}

static void print_summary(const struct ledger_file *ledgers, size_t count)
{
    struct tool_table table = {.columns = count + 1, .numeric_from = 1, .headings = 1};
    char **cells = tool_allocate(table.columns, sizeof *cells);
    add_facts(&table, ledgers, count, cells);
    add_reasons(&table, ledgers, count, cells);
    tool_table_print(&table, stdout);
    tool_table_free(&table);
    free(cells);
}

#define ROW_COLUMNS 16
#define ROW_TEXTS 6 /* the first columns, aligned left */

static char *size_text(const json_t *row, const char *key, bool exact)
{
    double bytes = ledger_number(row, key);
    return exact ? tool_format("%.0f", bytes) : tool_bytes(bytes);
}

static char *error_text(const json_t *row)
{
    const json_t *error = json_object_get(row, "rel_error");
    return json_is_number(error) ? tool_format("%.2e", json_number_value(error)) : tool_copy("-");
}

static void add_row(struct tool_table *table, const char *path, const json_t *row, bool exact)
{
    char *cells[ROW_COLUMNS] = {
        tool_copy(path),
        tool_copy(ledger_text(row, "rule")),
        tool_copy(ledger_text(row, "collective")),
        tool_copy(ledger_text(row, "codec")),
        tool_copy(ledger_text(row, "algorithm")),
        tool_copy(ledger_text(row, "dtype")),
        tool_format("%.0f", ledger_number(row, "calls")),
        size_text(row, "bytes_in", exact),
        size_text(row, "bytes_native", exact),
        size_text(row, "bytes_wire", exact),
        ratio_text(ledger_number(row, "bytes_native"), ledger_number(row, "bytes_wire")),
        seconds_text(ledger_number(row, "seconds"), exact),
        seconds_text(ledger_number(row, "seconds_encode"), exact),
        seconds_text(ledger_number(row, "seconds_exchange"), exact),
        seconds_text(ledger_number(row, "seconds_decode"), exact),
        error_text(row),
    };
    tool_table_add(table, cells);
}

static void print_rows(const struct ledger_file *ledgers, size_t count, bool csv)
{
    static const char *const headings[ROW_COLUMNS] = {
        "report",   "rule",       "collective", "codec",   "algorithm", "dtype",
        "calls",    "bytes in",   "native",     "on wire", "ratio",     "time s",
        "encode s", "exchange s", "decode s",   "error"};
    struct tool_table table = {.columns = ROW_COLUMNS, .numeric_from = ROW_TEXTS, .headings = 1};
    char *cells[ROW_COLUMNS];
    for (size_t i = 0; i < ROW_COLUMNS; i++)
        cells[i] = tool_copy(headings[i]);
    tool_table_add(&table, cells);
    for (size_t i = 0; i < count; i++) {
        const json_t *rows = json_object_get(ledgers[i].root, "rows");
        for (size_t row = 0; row < json_array_size(rows); row++)
            add_row(&table, ledgers[i].path, json_array_get(rows, row), csv);
    }
    if (csv)
        tool_table_print_csv(&table, stdout);
    else if (table.rows > 1)
        tool_table_print(&table, stdout);
    else
        puts("Nothing was compressed.");
    tool_table_free(&table);
}

static int run(int argc, char **argv)
{
    struct report_options chosen = {0};
    int first = tool_parse(&tool_report, argc, argv, &chosen);
    if (first == argc)
        tool_misuse(&tool_report, "no report given");
    size_t count = (size_t)(argc - first);
    struct ledger_file *ledgers = tool_allocate(count, sizeof *ledgers);
    for (size_t i = 0; i < count; i++) {
        bool unreadable = false;
        char message[LEDGER_MESSAGE_MAX];
        if (!ledger_open(argv[first + (int)i], &ledgers[i], &unreadable, message))
            tool_fail(unreadable ? TOOL_SYSTEM : TOOL_NOT_SO, "%s", message);
    }
    if (!chosen.csv) {
        print_summary(ledgers, count);
        putchar('\n');
    }
    print_rows(ledgers, count, chosen.csv);
    for (size_t i = 0; i < count; i++)
        ledger_close(&ledgers[i]);
    free(ledgers);
    return tool_finish(TOOL_GOOD);
}

const struct tool_command tool_report = {
    .name = "report",
    .summary = "show the JSON reports of one or several runs side by side",
    .usage = "[OPTION...] FILE...",
    .details =
        "COMPSHIM_REPORT=FILE makes a run leave such a report. Bytes on the wire are what the "
        "compressed\ncalls of all ranks handed to the library for sending; native bytes are "
        "what a ring all-reduce\nwould have sent for the same calls.\n",
    .options = options,
    .run = run,
};
