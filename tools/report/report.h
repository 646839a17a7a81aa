/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `compshim report` share: the tables of some reports, and the page. */
#ifndef TOOL_REPORT_H
#define TOOL_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tools/lib/ledger_file.h"
#include "tools/lib/tool.h"

/* The reports side by side. */
struct report_set {
    const struct ledger_file *ledgers;
    size_t count;
};

/* In the order in which they are shown. */
enum report_table {
    REPORT_TABLE_SUMMARY,
    REPORT_TABLE_ROWS,
    REPORT_TABLE_WATCHED,  /* what verify and check_ranks found */
    REPORT_TABLE_MOVED,    /* by max_rel_error */
    REPORT_TABLE_OBSERVED, /* by COMPSHIM=observe */
    REPORT_TABLE_COUNT
};

/* A table of the reports; it has only headings if there is nothing to show. The caller frees it
 * with tool_table_free. */
struct tool_table report_table(const struct report_set *set, enum report_table which);
/* What stands above the table. */
const char *report_table_title(enum report_table which);

/* The compressed rows with everything known of them, in bytes and seconds: for CSV. */
struct tool_table report_rows_exact(const struct report_set *set);

/* Writes all tables and plots as one page of HTML. */
void report_write_html(FILE *file, const struct report_set *set);

#endif
