/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of some reports. */
#include <stdlib.h>
#include <string.h>

#include "tools/report/report.h"

static char *ratio_text(double native, double wire)
{
    return wire > 0 ? tool_format("%.2f", native / wire) : tool_copy("-");
}

static char *seconds_text(double seconds, bool exact)
{
    return tool_format(exact ? "%.9g" : "%.3f", seconds);
}

static char *bytes_text(double bytes, bool exact)
{
    return exact ? tool_format("%.0f", bytes) : tool_bytes(bytes);
}

/* A number of an object that may not have it. */
static char *number_text(const json_t *object, const char *key, const char *format)
{
    char text[64];
    const json_t *number = json_object_get(object, key);
    if (!json_is_number(number))
        return tool_copy("-");
    snprintf(text, sizeof text, format, json_number_value(number));
    return tool_copy(text);
}

static char *count_text(const json_t *object, const char *key)
{
    return tool_format("%.0f", ledger_number(object, key));
}

static void add_headings(struct tool_table *table, const char *const *names)
{
    char **cells = tool_allocate(table->columns, sizeof *cells);
    for (size_t i = 0; i < table->columns; i++)
        cells[i] = tool_copy(names[i]);
    tool_table_add(table, cells);
    table->headings = 1;
    free(cells);
}

/* The summary: a line for each fact, a column for each report. */

enum fact {
    FACT_LIBRARY,
    FACT_RANKS,
    FACT_POLICY,
    FACT_WALL,
    FACT_CALLS,
    FACT_COMPRESSED,
    FACT_NATIVE,
    FACT_WIRE,
    FACT_NETWORK,
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
    "of these between nodes",
    "native / on wire",
    "in compressed calls s",
};

static char *fact_text(const struct ledger_file *ledger, enum fact fact)
{
    const json_t *root = ledger->root;
    const json_t *totals = json_object_get(root, "totals");
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
        return count_text(totals, "calls");
    case FACT_COMPRESSED:
        return count_text(totals, "compressed_calls");
    case FACT_NATIVE:
        return tool_bytes(native);
    case FACT_WIRE:
        return tool_bytes(wire);
    case FACT_NETWORK: /* reports of version 0.1.0 do not have it */
        return json_object_get(totals, "bytes_network") == NULL
                   ? tool_copy("-")
                   : tool_bytes(ledger_total(ledger, "bytes_network"));
    case FACT_RATIO:
        return ratio_text(native, wire);
    case FACT_SECONDS:
        return seconds_text(ledger_total(ledger, "seconds"), false);
    case FACT_COUNT:
        break;
    }
    return NULL;
}

/* One line for each key that the object of this name has in any of the reports. Its values are
 * calls, or objects with calls. */
static void add_counts(struct tool_table *table, const struct report_set *set, const char *name,
                       const char *title, char **cells)
{
    json_t *all = json_object();
    for (size_t i = 0; i < set->count; i++)
        json_object_update(all, json_object_get(set->ledgers[i].root, name));
    const char *key = NULL;
    json_t *unused = NULL;
    json_object_foreach(all, key, unused)
    {
        cells[0] = tool_format("%s: %s", title, key);
        for (size_t i = 0; i < set->count; i++) {
            const json_t *counts = json_object_get(set->ledgers[i].root, name);
            const json_t *value = json_object_get(counts, key);
            cells[i + 1] =
                json_is_object(value) ? count_text(value, "calls") : count_text(counts, key);
        }
        tool_table_add(table, cells);
    }
    json_decref(all);
}

static struct tool_table summary_table(const struct report_set *set)
{
    struct tool_table table = {.columns = set->count + 1, .numeric_from = 1, .headings = 1};
    char **cells = tool_allocate(table.columns, sizeof *cells);
    for (size_t i = 0; i < set->count; i++)
        cells[i + 1] = tool_copy(set->ledgers[i].path);
    tool_table_add(&table, cells);
    for (enum fact fact = 0; fact < FACT_COUNT; fact++) {
        cells[0] = tool_copy(fact_names[fact]);
        for (size_t i = 0; i < set->count; i++)
            cells[i + 1] = fact_text(&set->ledgers[i], fact);
        tool_table_add(&table, cells);
    }
    add_counts(&table, set, "passed_through", "passed on", cells);
    add_counts(&table, set, "not_compressed", "not compressed", cells);
    free(cells);
    return table;
}

/* The compressed rows. */

#define ROW_COLUMNS 16
#define ROW_COLUMNS_EXACT 23
#define ROW_TEXTS 6 /* the first columns, aligned left */

/* What only the exact table has. */
static void set_exact_cells(char **cells, const json_t *row)
{
    const json_t *verified = json_object_get(row, "verified");
    const json_t *checked = json_object_get(row, "ranks_checked");
    *cells++ = number_text(row, "bytes_network", "%.0f");
    *cells++ = number_text(verified, "calls", "%.0f");
    *cells++ = number_text(verified, "rel_l2", "%.6e");
    *cells++ = number_text(verified, "largest", "%.6e");
    *cells++ = number_text(verified, "bias", "%.6e");
    *cells++ = number_text(checked, "calls", "%.0f");
    *cells = number_text(checked, "different", "%.0f");
}

static void add_row(struct tool_table *table, const char *path, const json_t *row, bool exact)
{
    char *cells[ROW_COLUMNS_EXACT] = {
        tool_copy(path),
        tool_copy(ledger_text(row, "rule")),
        tool_copy(ledger_text(row, "collective")),
        tool_copy(ledger_text(row, "codec")),
        tool_copy(ledger_text(row, "algorithm")),
        tool_copy(ledger_text(row, "dtype")),
        count_text(row, "calls"),
        bytes_text(ledger_number(row, "bytes_in"), exact),
        bytes_text(ledger_number(row, "bytes_native"), exact),
        bytes_text(ledger_number(row, "bytes_wire"), exact),
        ratio_text(ledger_number(row, "bytes_native"), ledger_number(row, "bytes_wire")),
        seconds_text(ledger_number(row, "seconds"), exact),
        seconds_text(ledger_number(row, "seconds_encode"), exact),
        seconds_text(ledger_number(row, "seconds_exchange"), exact),
        seconds_text(ledger_number(row, "seconds_decode"), exact),
        number_text(row, "rel_error", "%.2e"),
    };
    if (exact)
        set_exact_cells(cells + ROW_COLUMNS, row);
    for (size_t i = ROW_TEXTS; exact && i < ROW_COLUMNS_EXACT; i++)
        if (strcmp(cells[i], "-") == 0)
            cells[i][0] = '\0'; /* programs take an empty cell for a missing number */
    tool_table_add(table, cells);
}

static struct tool_table rows_table(const struct report_set *set, bool exact)
{
    static const char *const headings[ROW_COLUMNS_EXACT] = {
        "report",        "rule",          "collective",     "codec",          "algorithm",
        "dtype",         "calls",         "bytes in",       "native",         "on wire",
        "ratio",         "time s",        "encode s",       "exchange s",     "decode s",
        "error",         "network",       "verified calls", "verified error", "verified largest",
        "verified bias", "ranks checked", "ranks different"};
    struct tool_table table = {.columns = exact ? ROW_COLUMNS_EXACT : ROW_COLUMNS,
                               .numeric_from = ROW_TEXTS};
    add_headings(&table, headings);
    for (size_t i = 0; i < set->count; i++) {
        const json_t *rows = json_object_get(set->ledgers[i].root, "rows");
        for (size_t row = 0; row < json_array_size(rows); row++)
            add_row(&table, set->ledgers[i].path, json_array_get(rows, row), exact);
    }
    return table;
}

struct tool_table report_rows_exact(const struct report_set *set)
{
    return rows_table(set, true);
}

/* What was watched, moved and observed. */

#define WATCHED_COLUMNS 10

static void add_watched(struct tool_table *table, const char *path, const json_t *row)
{
    const json_t *verified = json_object_get(row, "verified");
    const json_t *checked = json_object_get(row, "ranks_checked");
    if (verified == NULL && checked == NULL)
        return;
    char *cells[WATCHED_COLUMNS] = {
        tool_copy(path),
        tool_copy(ledger_text(row, "rule")),
        tool_copy(ledger_text(row, "codec")),
        tool_copy(ledger_text(row, "dtype")),
        number_text(verified, "calls", "%.0f"),
        number_text(verified, "rel_l2", "%.2e"),
        number_text(verified, "largest", "%.2e"),
        number_text(verified, "bias", "%.2e"),
        number_text(checked, "calls", "%.0f"),
        number_text(checked, "different", "%.0f"),
    };
    tool_table_add(table, cells);
}

static struct tool_table watched_table(const struct report_set *set)
{
    static const char *const headings[WATCHED_COLUMNS] = {
        "report", "rule",    "codec", "dtype",          "verified calls",
        "error",  "largest", "bias",  "compared calls", "different"};
    struct tool_table table = {.columns = WATCHED_COLUMNS, .numeric_from = 4};
    add_headings(&table, headings);
    for (size_t i = 0; i < set->count; i++) {
        const json_t *rows = json_object_get(set->ledgers[i].root, "rows");
        for (size_t row = 0; row < json_array_size(rows); row++)
            add_watched(&table, set->ledgers[i].path, json_array_get(rows, row));
    }
    return table;
}

#define MOVED_COLUMNS 9

static struct tool_table moved_table(const struct report_set *set)
{
    static const char *const headings[MOVED_COLUMNS] = {
        "report", "rule", "dtype", "from", "to", "elements", "after call", "error", "allowed"};
    struct tool_table table = {.columns = MOVED_COLUMNS, .numeric_from = 5};
    add_headings(&table, headings);
    for (size_t i = 0; i < set->count; i++) {
        const json_t *moves = json_object_get(set->ledgers[i].root, "moved");
        for (size_t at = 0; at < json_array_size(moves); at++) {
            const json_t *move = json_array_get(moves, at);
            char *cells[MOVED_COLUMNS] = {
                tool_copy(set->ledgers[i].path),
                tool_copy(ledger_text(move, "rule")),
                tool_copy(ledger_text(move, "dtype")),
                tool_copy(ledger_text(move, "from")),
                tool_copy(ledger_text(move, "to")),
                count_text(move, "count"),
                count_text(move, "after_call"),
                number_text(move, "error", "%.2e"),
                number_text(move, "max_rel_error", "%.2e"),
            };
            tool_table_add(&table, cells);
        }
    }
    return table;
}

#define OBSERVED_COLUMNS 10

/* The size of a kind, or where it is a class of sizes the two that it lies between. */
static char *kind_size(const json_t *kind)
{
    char *from = tool_bytes(ledger_number(kind, "bytes"));
    if (json_object_get(kind, "bytes_below") == NULL)
        return from;
    char *below = tool_bytes(ledger_number(kind, "bytes_below"));
    char *text = tool_format("%s to %s", from, below);
    free(from);
    free(below);
    return text;
}

static struct tool_table observed_table(const struct report_set *set)
{
    static const char *const headings[OBSERVED_COLUMNS] = {"report", "collective", "dtype", "op",
                                                           "ranks",  "nodes",      "size",  "calls",
                                                           "time s", "waited s"};
    struct tool_table table = {.columns = OBSERVED_COLUMNS, .numeric_from = 4};
    add_headings(&table, headings);
    for (size_t i = 0; i < set->count; i++) {
        const json_t *observed = json_object_get(set->ledgers[i].root, "observed");
        const json_t *kinds = json_object_get(observed, "kinds");
        for (size_t at = 0; at < json_array_size(kinds); at++) {
            const json_t *kind = json_array_get(kinds, at);
            char *cells[OBSERVED_COLUMNS] = {
                tool_copy(set->ledgers[i].path),
                tool_copy(ledger_text(kind, "collective")),
                tool_copy(ledger_text(kind, "dtype")),
                tool_copy(ledger_text(kind, "op")),
                count_text(kind, "ranks"),
                count_text(kind, "nodes"),
                kind_size(kind),
                count_text(kind, "calls"),
                seconds_text(ledger_number(kind, "seconds"), false),
                seconds_text(ledger_number(kind, "seconds_wait"), false),
            };
            tool_table_add(&table, cells);
        }
    }
    return table;
}

struct tool_table report_table(const struct report_set *set, enum report_table which)
{
    switch (which) {
    case REPORT_TABLE_SUMMARY:
        return summary_table(set);
    case REPORT_TABLE_ROWS:
        return rows_table(set, false);
    case REPORT_TABLE_WATCHED:
        return watched_table(set);
    case REPORT_TABLE_MOVED:
        return moved_table(set);
    case REPORT_TABLE_OBSERVED:
        return observed_table(set);
    case REPORT_TABLE_COUNT:
        break;
    }
    return (struct tool_table){.columns = 1};
}

const char *report_table_title(enum report_table which)
{
    static const char *const titles[REPORT_TABLE_COUNT] = {
        "Summary", "Compressed calls, by rule", "Verified natively, and compared across ranks",
        "Moved to a more precise codec", "Observed calls"};
    return titles[which];
}
