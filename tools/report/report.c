/* SPDX-License-Identifier: Apache-2.0 */
/* compshim report: shows the JSON reports of one or several runs side by side. The columns of each
 * table say which member of the JSON a cell shows, and in which form. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shim/core/output.h"
#include "tools/html/page.h"
#include "tools/lib/json.h"
#include "tools/lib/tool.h"

static bool csv, json, learned, markdown;
static const char *html;

static const struct tool_option options[] = {
    {"csv", 0, TOOL_FLAG, &csv, NULL,
     "print the compressed rows as comma-separated values, sizes in bytes, times in seconds"},
    {"html", 0, TOOL_TEXT, &html, "FILE", "write a page with tables and plots"},
    {"json", 0, TOOL_FLAG, &json, NULL, "print the reports as one JSON document"},
    {"learned", 0, TOOL_FLAG, &learned, NULL,
     "print the choices that calls have learned, as a file for COMPSHIM_MACHINE"},
    {"markdown", 0, TOOL_FLAG, &markdown, NULL, "print the tables as Markdown"},
    {0},
};

/* The reports side by side. */
struct report_set {
    char **paths;
    json_t **reports;
    size_t count;
};

/* Tables in their printed order. */
enum table { SUMMARY, ROWS, SAVED, WATCHED, MOVED, OBSERVED, TABLES };

/* Form of a cell. Missing numbers count as 0, except in the forms with "-". */
enum form {
    FORM_TEXT,
    FORM_COUNT,
    FORM_BYTES,
    FORM_SECONDS,
    FORM_RATIO,         /* ratio of bytes_native to bytes_wire, members of the named object */
    FORM_NODES,         /* "4 on 2": members ranks and nodes */
    FORM_SIZE,          /* a size, or the two limits of a size class */
    FORM_COUNT_OR_DASH, /* this form and those below show "-" for a missing member */
    FORM_BYTES_OR_DASH,
    FORM_SECONDS_OR_DASH, /* 0: not measured */
    FORM_ERROR,
    FORM_EXACT_ERROR,
    FORM_SPEEDUP, /* "3.9x (3.5 to 4.2)": members speedup, speedup_low, speedup_high */
    FORM_SAVED    /* "41.2 s of 55.0 s": members seconds_saved and those of native time */
};

struct column {
    const char *heading;
    const char *path; /* names of members, joined by points; "": the object itself */
    enum form form;
};

/* A table with a row for each element of an array in each report; SAVED and WATCHED have rows only
 * for the elements with their figures. */
struct layout {
    const char *title;
    const char *name;
    const char *array; /* path of the array in a report */
    size_t columns;    /* without the first one, which names the report */
    size_t texts;      /* number of columns aligned left, including the first */
    const struct column *column;
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct column facts[] = {
    {"library", "library", FORM_TEXT},
    {"ranks on nodes", "", FORM_NODES},
    {"policy", "policy.source", FORM_TEXT},
    {"wall time s", "wall_seconds", FORM_SECONDS},
    {"calls", "totals.calls", FORM_COUNT},
    {"compressed calls", "totals.compressed_calls", FORM_COUNT},
    {"bytes native", "totals.bytes_native", FORM_BYTES},
    {"bytes on wire", "totals.bytes_wire", FORM_BYTES},
    /* reports of version 0.1.0 have no bytes_network */
    {"of these between nodes", "totals.bytes_network", FORM_BYTES_OR_DASH},
    {"native / on wire", "totals", FORM_RATIO},
    {"in compressed calls s", "totals.seconds", FORM_SECONDS},
    {"saved of native time", "totals", FORM_SAVED},
    {"speed-up of compressed calls", "totals", FORM_SPEEDUP},
};

#define ROW_COLUMNS 15 /* the columns after these are for CSV only */

static const struct column row_columns[] = {
    {"rule", "rule", FORM_TEXT},
    {"collective", "collective", FORM_TEXT},
    {"codec", "codec", FORM_TEXT},
    {"algorithm", "algorithm", FORM_TEXT},
    {"dtype", "dtype", FORM_TEXT},
    {"calls", "calls", FORM_COUNT},
    {"bytes in", "bytes_in", FORM_BYTES},
    {"native", "bytes_native", FORM_BYTES},
    {"on wire", "bytes_wire", FORM_BYTES},
    {"ratio", "", FORM_RATIO},
    {"time s", "seconds", FORM_SECONDS},
    {"encode s", "seconds_encode", FORM_SECONDS},
    {"exchange s", "seconds_exchange", FORM_SECONDS},
    {"decode s", "seconds_decode", FORM_SECONDS},
    {"error", "rel_error", FORM_ERROR},
    {"network", "bytes_network", FORM_BYTES_OR_DASH},
    {"verified calls", "verified.calls", FORM_COUNT_OR_DASH},
    {"verified error", "verified.rel_l2", FORM_EXACT_ERROR},
    {"verified largest", "verified.largest", FORM_EXACT_ERROR},
    {"verified bias", "verified.bias", FORM_EXACT_ERROR},
    {"ranks checked", "ranks_checked.calls", FORM_COUNT_OR_DASH},
    {"ranks different", "ranks_checked.different", FORM_COUNT_OR_DASH},
    {"foretold s", "seconds_foretold", FORM_SECONDS_OR_DASH},
    {"compared calls", "compared_calls", FORM_COUNT_OR_DASH},
    {"compared s", "seconds_compared", FORM_SECONDS_OR_DASH},
    {"native estimate s", "seconds_native_estimate", FORM_SECONDS_OR_DASH},
    {"native calls", "native_calls", FORM_COUNT_OR_DASH},
    {"native s", "seconds_native", FORM_SECONDS_OR_DASH},
    {"saved s", "seconds_saved", FORM_EXACT_ERROR},
    {"speed-up", "speedup", FORM_EXACT_ERROR},
    {"speed-up low", "speedup_low", FORM_EXACT_ERROR},
    {"speed-up high", "speedup_high", FORM_EXACT_ERROR},
};

static const struct column saved_columns[] = {
    {"rule", "rule", FORM_TEXT},
    {"codec", "codec", FORM_TEXT},
    {"algorithm", "algorithm", FORM_TEXT},
    {"compressed calls", "compared_calls", FORM_COUNT},
    {"took s", "seconds_compared", FORM_SECONDS},
    {"natively s", "seconds_native_estimate", FORM_SECONDS},
    {"speed-up", "", FORM_SPEEDUP},
    {"native calls", "native_calls", FORM_COUNT},
    {"took s", "seconds_native", FORM_SECONDS},
};

static const struct column watched_columns[] = {
    {"rule", "rule", FORM_TEXT},
    {"codec", "codec", FORM_TEXT},
    {"dtype", "dtype", FORM_TEXT},
    {"verified calls", "verified.calls", FORM_COUNT_OR_DASH},
    {"error", "verified.rel_l2", FORM_ERROR},
    {"largest", "verified.largest", FORM_ERROR},
    {"bias", "verified.bias", FORM_ERROR},
    {"compared calls", "ranks_checked.calls", FORM_COUNT_OR_DASH},
    {"different", "ranks_checked.different", FORM_COUNT_OR_DASH},
};

static const struct column moved_columns[] = {
    {"rule", "rule", FORM_TEXT},       {"dtype", "dtype", FORM_TEXT},
    {"from", "from", FORM_TEXT},       {"to", "to", FORM_TEXT},
    {"elements", "count", FORM_COUNT}, {"after call", "after_call", FORM_COUNT},
    {"error", "error", FORM_ERROR},    {"allowed", "max_rel_error", FORM_ERROR},
};

static const struct column observed_columns[] = {
    {"collective", "collective", FORM_TEXT},
    {"dtype", "dtype", FORM_TEXT},
    {"op", "op", FORM_TEXT},
    {"ranks", "ranks", FORM_COUNT},
    {"nodes", "nodes", FORM_COUNT},
    {"size", "", FORM_SIZE},
    {"calls", "calls", FORM_COUNT},
    {"time s", "seconds", FORM_SECONDS},
    {"waited", "seconds_wait", FORM_SECONDS_OR_DASH},
};

/* Tables: rules; savings, verify and check_ranks, of the rows that have them; codecs that
 * max_rel_error has changed; calls that COMPSHIM=observe has recorded. */
static const struct layout layouts[TABLES] = {
    [ROWS] = {"Compressed calls, by rule", "rows", "rows", ROW_COLUMNS, 6, row_columns},
    [SAVED] = {"What compressing saved, by native calls of the same job", "saved", "rows",
               COUNT(saved_columns), 4, saved_columns},
    [WATCHED] = {"Verified natively, and compared across ranks", "watched", "rows",
                 COUNT(watched_columns), 4, watched_columns},
    [MOVED] = {"Moved to a more precise codec", "moved", "moved", COUNT(moved_columns), 5,
               moved_columns},
    [OBSERVED] = {"Observed calls", "observed", "observed.kinds", COUNT(observed_columns), 4,
                  observed_columns},
};

/* Returns the member at a path, or NULL. */
static const json_t *member(const json_t *object, const char *path)
{
    while (*path != '\0' && object != NULL) {
        char name[32];
        size_t length = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        object = json_object_get(object, name);
        path += length + (path[length] == '.');
    }
    return object;
}

static char *size_text(const json_t *kind)
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

static char *speedup_text(const json_t *figures)
{
    const double speedup = ledger_number(figures, "speedup");
    if (speedup <= 0)
        return tool_copy("-");
    return tool_format("%.1fx (%.1f to %.1f)", speedup, ledger_number(figures, "speedup_low"),
                       ledger_number(figures, "speedup_high"));
}

static char *saved_text(const json_t *figures)
{
    if (json_object_get(figures, "seconds_saved") == NULL)
        return tool_copy("-");
    char *saved = tool_seconds(fmax(0, ledger_number(figures, "seconds_saved")));
    char *all = tool_seconds(ledger_number(figures, "seconds_native_estimate") +
                             ledger_number(figures, "seconds_native"));
    char *text = tool_format("%s of %s", saved, all);
    free(saved);
    free(all);
    return text;
}

/* Returns the text of a cell, which the caller frees. `exact` is for programs: bytes and seconds
 * are numbers without units. */
static char *cell_text(const json_t *object, const struct column *column, bool exact)
{
    const json_t *value = member(object, column->path);
    if (!exact && column->form == FORM_ERROR && json_is_true(json_object_get(object, "exact")) &&
        strcmp(column->path, "rel_error") == 0)
        return tool_copy("exact");
    double number = json_number_value(value);
    if ((column->form >= FORM_COUNT_OR_DASH && column->form <= FORM_EXACT_ERROR &&
         !json_is_number(value)) ||
        (column->form == FORM_SECONDS_OR_DASH && number <= 0))
        return tool_copy("-");
    switch (column->form) {
    case FORM_TEXT:
        return tool_copy(json_is_string(value) ? json_string_value(value) : "");
    case FORM_COUNT:
    case FORM_COUNT_OR_DASH:
        return tool_format("%.0f", number);
    case FORM_BYTES:
    case FORM_BYTES_OR_DASH:
        return exact ? tool_format("%.0f", number) : tool_bytes(number);
    case FORM_SECONDS:
    case FORM_SECONDS_OR_DASH:
        return exact ? tool_format("%.9g", number) : tool_seconds(number);
    case FORM_RATIO: {
        double wire = ledger_number(value, "bytes_wire");
        return wire > 0 ? tool_format(exact ? "%.2f" : "%.1fx",
                                      ledger_number(value, "bytes_native") / wire)
                        : tool_copy("-");
    }
    case FORM_NODES:
        number = ledger_number(value, "nodes"); /* 0: unknown */
        return number > 0 ? tool_format("%.0f on %.0f", ledger_number(value, "ranks"), number)
                          : tool_format("%.0f", ledger_number(value, "ranks"));
    case FORM_SIZE:
        return size_text(value);
    case FORM_ERROR:
        return tool_format("%.2e", number);
    case FORM_EXACT_ERROR:
        return tool_format("%.6e", number);
    case FORM_SPEEDUP:
        return speedup_text(value);
    case FORM_SAVED:
        return saved_text(value);
    }
    return NULL;
}

/* Returns a heading. Cells for readers contain their units; the heading's " s" is for programs. */
static char *heading(const struct column *column, bool exact)
{
    const size_t unit = column->form == FORM_SECONDS && !exact ? strlen(" s") : 0;
    return tool_format("%.*s", (int)(strlen(column->heading) - unit), column->heading);
}

/* Adds a line for each key that the object of this name has in any of the reports. Its values are
 * numbers of calls, or objects with a number of calls. */
static void add_counts(struct tool_table *table, const struct report_set *set, const char *name,
                       const char *title, char **cells)
{
    json_t *all = json_object();
    for (size_t i = 0; i < set->count; i++)
        json_object_update(all, json_object_get(set->reports[i], name));
    const char *key = NULL;
    json_t *unused = NULL;
    json_object_foreach(all, key, unused)
    {
        cells[0] = tool_format("%s: %s", title, key);
        for (size_t i = 0; i < set->count; i++) {
            const json_t *counts = json_object_get(set->reports[i], name);
            const json_t *value = json_object_get(counts, key);
            double calls =
                json_is_object(value) ? ledger_number(value, "calls") : json_number_value(value);
            cells[i + 1] = tool_format("%.0f", calls);
        }
        tool_table_add(table, cells);
    }
    json_decref(all);
}

/* Returns true if one of the reports has figures of what compressing saved. */
static bool is_saving_known(const struct report_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        if (member(set->reports[i], "totals.seconds_saved") != NULL)
            return true;
    return false;
}

/* Makes the summary: a line for each property, and a column for each report. */
static struct tool_table summary_table(const struct report_set *set)
{
    struct tool_table table = {.name = "summary",
                               .title = "Summary",
                               .columns = set->count + 1,
                               .numeric_from = 1,
                               .headings = 1};
    char **cells = tool_allocate(table.columns, sizeof *cells);
    for (size_t i = 0; i < set->count; i++)
        cells[i + 1] = tool_copy(set->paths[i]);
    tool_table_add(&table, cells);
    for (size_t fact = 0; fact < COUNT(facts); fact++) {
        if (facts[fact].form >= FORM_SPEEDUP && !is_saving_known(set))
            continue;
        cells[0] = heading(&facts[fact], false);
        for (size_t i = 0; i < set->count; i++)
            cells[i + 1] = cell_text(set->reports[i], &facts[fact], false);
        tool_table_add(&table, cells);
    }
    add_counts(&table, set, "passed_through", "passed through", cells);
    add_counts(&table, set, "not_compressed", "not compressed", cells);
    free(cells);
    return table;
}

/* Makes a table of the layout; its first column names the report. `exact` is for programs. */
static struct tool_table array_table(const struct report_set *set, enum table which, bool exact)
{
    const struct layout *layout = &layouts[which];
    const size_t columns = exact && which == ROWS ? COUNT(row_columns) : layout->columns;
    struct tool_table table = {.name = layout->name,
                               .title = layout->title,
                               .columns = columns + 1,
                               .keys = 2,
                               .numeric_from = layout->texts,
                               .headings = 1};
    char **cells = tool_allocate(table.columns, sizeof *cells);
    cells[0] = tool_copy("report");
    for (size_t i = 0; i < columns; i++)
        cells[i + 1] = heading(&layout->column[i], exact);
    tool_table_add(&table, cells);
    for (size_t i = 0; i < set->count; i++) {
        const json_t *array = member(set->reports[i], layout->array);
        for (size_t at = 0; at < json_array_size(array); at++) {
            const json_t *element = json_array_get(array, at);
            if (which == SAVED && json_object_get(element, "compared_calls") == NULL)
                continue;
            if (which == WATCHED && json_object_get(element, "verified") == NULL &&
                json_object_get(element, "ranks_checked") == NULL)
                continue;
            cells[0] = tool_copy(set->paths[i]);
            for (size_t column = 0; column < columns; column++) {
                char *text = cell_text(element, &layout->column[column], exact);
                /* programs expect an empty cell for a missing number */
                if (exact && column + 1 >= layout->texts && strcmp(text, "-") == 0)
                    *text = '\0';
                cells[column + 1] = text;
            }
            tool_table_add(&table, cells);
        }
    }
    free(cells);
    return table;
}

static void print_tables(const struct tool_table tables[TABLES])
{
    for (enum table which = 0; which < TABLES; which++) {
        if (which == SUMMARY && !markdown)
            tool_table_print(&tables[which], stdout);
        else
            tool_table_print_titled(&tables[which], markdown, stdout);
        if (which == ROWS && tables[which].rows <= tables[which].headings)
            puts("\nNothing was compressed.");
    }
}

/* Returns {"reports": [{"file": ..., "report": ...}]}, which the caller releases. */
static json_t *make_json(const struct report_set *set)
{
    json_t *reports = json_array();
    for (size_t i = 0; i < set->count; i++)
        json_array_append_new(reports,
                              json_pack("{s:o, s:O}", "file", tool_json_text(set->paths[i]),
                                        "report", set->reports[i]));
    return json_pack("{s:o}", "reports", reports);
}

static void write_page(const struct report_set *set, const struct tool_table tables[TABLES],
                       FILE *file)
{
    const json_t *first = set->reports[0];
    const char *name = basename(set->paths[0]);
    const double wire = ledger_total(first, "bytes_wire");
    char *title = set->count > 1
                      ? tool_format("%zu reports: %s and others", set->count, name)
                      : tool_format("%s: %.2f times fewer bytes", name,
                                    wire > 0 ? ledger_total(first, "bytes_native") / wire : 1);
    page_write(title, make_json(set), "", tables, TABLES, file);
    free(title);
}

/* Writes the page to the file of --html. */
static void save_page(const struct report_set *set, const struct tool_table tables[TABLES])
{
    struct cshim_output output;
    tool_spare_file("--html", html, PAGE_MARK);
    tool_open_output(&output, html);
    write_page(set, tables, output.stream);
    tool_close_output(&output);
}

/* Prints the learned choices of all reports. If several have the same class, the first counts. */
static void print_learned(const struct report_set *set)
{
    size_t count = 0;
    puts("; How jobs made their calls, by what these took: for COMPSHIM_MACHINE.\n"
         "; library ranks/nodes dtype codec bytes rule = algorithm codec");
    for (size_t i = 0; i < set->count; i++) {
        const json_t *lines = json_object_get(set->reports[i], "learned");
        for (size_t at = 0; at < json_array_size(lines); at++) {
            const char *line = json_string_value(json_array_get(lines, at));
            char *text = line != NULL ? tool_printable(tool_format("%s", line)) : NULL;
            count += text != NULL && puts(text) >= 0;
            free(text);
        }
    }
    if (count == 0)
        warnx("nothing was learned: no class of calls had enough of them, or all said worth = "
              "always");
}

static bool is_report(const char *path)
{
    char message[TOOL_JSON_MESSAGE_MAX];
    bool unreadable;
    json_t *report = tool_is_regular(path) ? ledger_open(path, &unreadable, message) : NULL;
    json_decref(report);
    return report != NULL;
}

static int run_report(char **words)
{
    size_t count = 0;
    if (csv + (html != NULL) + json + learned + markdown > 1)
        tool_misuse("--csv, --html, --json, --learned and --markdown exclude each other");
    /* Before 0.2 --html had no argument, and the page went to standard output. An old command line
     * must not overwrite a report. */
    const bool is_printed = html != NULL && is_report(html);
    if (is_printed)
        *--words = (char *)html;
    if (*words == NULL)
        tool_misuse(
            html == NULL ? "no report given" : "--html %s names the page: name reports, too", html);
    while (words[count] != NULL)
        count++;
    json_t **reports = tool_allocate(count, sizeof(json_t *));
    for (size_t i = 0; i < count; i++)
        reports[i] = ledger_load(words[i]);
    const struct report_set set = {words, reports, count};
    struct tool_table tables[TABLES] = {[SUMMARY] = summary_table(&set)};
    for (enum table which = SUMMARY + 1; which < TABLES; which++)
        tables[which] = array_table(&set, which, csv);
    if (csv)
        tool_table_print_csv(&tables[ROWS], stdout);
    else if (is_printed)
        write_page(&set, tables, stdout);
    else if (html != NULL)
        save_page(&set, tables);
    else if (learned)
        print_learned(&set);
    else if (json)
        tool_json_print(make_json(&set));
    else
        print_tables(tables);
    for (enum table which = 0; which < TABLES; which++)
        tool_table_free(&tables[which]);
    for (size_t i = 0; i < count; i++)
        json_decref(reports[i]);
    free(reports);
    return tool_finish(TOOL_GOOD);
}

const struct tool_command tool_report = {
    .name = "report",
    .summary = "show the JSON reports of one or several runs side by side",
    .usage = "[OPTION...] FILE...",
    .details = "COMPSHIM_REPORT=FILE makes a run write such a report. Bytes on the wire are those "
               "that the compressed calls of all ranks sent; native bytes are those that a ring "
               "all-reduce would have sent for the same calls. compshim-report(5) describes all "
               "fields.\n",
    .options = options,
    .run = run_report,
};
