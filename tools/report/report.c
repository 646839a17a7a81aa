/* SPDX-License-Identifier: Apache-2.0 */
/* compshim report: the JSON reports of one or several runs, side by side. */
#include <stdlib.h>

#include "tools/html/page.h"
#include "tools/lib/tool.h"
#include "tools/report/report.h"

struct report_options {
    bool csv;
    bool html;
    bool json;
    bool markdown;
};

#define OPTION(field) offsetof(struct report_options, field)

static const struct tool_option options[] = {
    {"csv", 0, TOOL_FLAG, OPTION(csv), NULL,
     "print the compressed rows as comma-separated values, sizes in bytes, times in seconds"},
    {"html", 0, TOOL_FLAG, OPTION(html), NULL, "print a page with tables and plots"},
    {"json", 0, TOOL_FLAG, OPTION(json), NULL, "print the reports as one JSON document"},
    {"markdown", 0, TOOL_FLAG, OPTION(markdown), NULL, "print the tables as Markdown"},
    {0},
};

static void print_tables(const struct report_set *set, bool markdown)
{
    for (enum report_table which = 0; which < REPORT_TABLE_COUNT; which++) {
        struct tool_table table = report_table(set, which);
        if (which == REPORT_TABLE_SUMMARY && !markdown)
            tool_table_print(&table, stdout);
        else
            tool_table_print_titled(&table, report_table_title(which), markdown, stdout);
        if (which == REPORT_TABLE_ROWS && table.rows <= table.headings)
            puts("\nNothing was compressed.");
        tool_table_free(&table);
    }
}

static void print_csv(const struct report_set *set)
{
    struct tool_table table = report_exact_table(set);
    tool_table_print_csv(&table, stdout);
    tool_table_free(&table);
}

/* {"reports": [{"file": ..., "report": ...}]}, which the caller releases. */
static json_t *make_json(const struct report_set *set)
{
    json_t *reports = json_array();
    for (size_t i = 0; i < set->count; i++) {
        json_t *file = json_string(set->ledgers[i].path); /* NULL if it is not UTF-8 */
        json_array_append_new(reports,
                              json_pack("{s:o, s:O}", "file", file != NULL ? file : json_null(),
                                        "report", set->ledgers[i].root));
    }
    return json_pack("{s:o}", "reports", reports);
}

static void print_json(const struct report_set *set)
{
    json_t *root = make_json(set);
    json_dumpf(root, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(root);
}

static void print_page(const struct report_set *set)
{
    struct page page;
    page_start(&page, make_json(set));
    for (enum report_table which = 0; which < REPORT_TABLE_COUNT; which++) {
        struct tool_table table = report_table(set, which);
        page_add_table(&page, report_table_name(which), report_table_title(which), &table);
        tool_table_free(&table);
    }
    char *title = set->count == 1 ? tool_format("Report %s", set->ledgers[0].path)
                                  : tool_format("%zu reports", set->count);
    page_finish(&page, title, stdout);
    free(title);
}

static void print_set(const struct report_set *set, const struct report_options *chosen)
{
    if (chosen->csv)
        print_csv(set);
    else if (chosen->html)
        print_page(set);
    else if (chosen->json)
        print_json(set);
    else
        print_tables(set, chosen->markdown);
}

static int run(int argc, char **argv)
{
    struct report_options chosen = {0};
    int first = tool_parse(&tool_report, argc, argv, &chosen);
    if (chosen.csv + chosen.html + chosen.json + chosen.markdown > 1)
        tool_misuse("report", "--csv, --html, --json and --markdown exclude each other");
    if (first == argc)
        tool_misuse("report", "no report given");
    size_t count = (size_t)(argc - first);
    struct ledger_file *ledgers = tool_allocate(count, sizeof *ledgers);
    for (size_t i = 0; i < count; i++) {
        bool unreadable = false;
        char message[LEDGER_MESSAGE_MAX];
        if (!ledger_open(argv[first + (int)i], &ledgers[i], &unreadable, message))
            tool_fail(unreadable ? TOOL_SYSTEM : TOOL_NOT_SO, "%s", message);
    }
    print_set(&(struct report_set){ledgers, count}, &chosen);
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
        "what a ring all-reduce\nwould have sent for the same calls. compshim-report(5) tells "
        "what else is in it.\n",
    .options = options,
    .run = run,
};
