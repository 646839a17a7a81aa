/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of HTML in one file that fetches nothing. A page is the template page.html, which is built
 * into the tool, filled with data as JSON. The template's script draws the tables and the plots.
 */
#ifndef TOOL_PAGE_H
#define TOOL_PAGE_H

#include <jansson.h>
#include <stdio.h>

#include "tools/lib/tool.h"

/* Returns the text as a JSON string, which the caller releases. A byte above 0x7f becomes '?' if
 * the text is not UTF-8. */
json_t *page_text(const char *text);

/* A page that is being made. */
struct page {
    json_t *data; /* for the script */
    FILE *text;   /* what readers see where scripts do not run: a stream into buffer */
    char *buffer;
    size_t length;
};

/* Starts a page. `data` becomes the page's: an object with either "comparison" (the results as
 * `compshim compare --json` writes them) or "reports" (as `compshim report --json` prints them). */
void page_start(struct page *page, json_t *data);

/* Adds a table and the title above it. The script finds it by its name. A table without rows below
 * its headings is left out. */
void page_add_table(struct page *page, const char *name, const char *title,
                    const struct tool_table *table);

/* Writes the page and releases what it holds. The caller finds write errors by ferror and fclose.
 */
void page_finish(struct page *page, const char *title, FILE *file);

#endif
