/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that `compshim report` makes of some reports. */
#ifndef TOOL_REPORT_H
#define TOOL_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/lib/ledger_file.h"
#include "tools/lib/tool.h"

/* The reports side by side. */
struct report_set {
    const struct ledger_file *ledgers;
    size_t count;
};

/* The tables in the order in which they are shown. */
enum report_table {
    REPORT_TABLE_SUMMARY,
    REPORT_TABLE_ROWS,
    REPORT_TABLE_WATCHED,  /* what verify and check_ranks found */
    REPORT_TABLE_MOVED,    /* by max_rel_error */
    REPORT_TABLE_OBSERVED, /* by COMPSHIM=observe */
    REPORT_TABLE_COUNT
};

/* Makes a table of the reports. It has only headings if there is nothing to show. The caller frees
 * it with tool_table_free. */
struct tool_table report_table(const struct report_set *set, enum report_table which);
/* Makes the table of compressed rows with all their figures, in bytes and seconds, for CSV. */
struct tool_table report_exact_table(const struct report_set *set);

/* A table's title for readers, and its name in the data of the page. */
const char *report_table_title(enum report_table which);
const char *report_table_name(enum report_table which);

#endif
