/* SPDX-License-Identifier: Apache-2.0 */
/* Self-contained HTML pages. A page is the template page.html, which is built into the tool, with
 * data as JSON. The template's script draws the tables and plots. */
#ifndef TOOL_PAGE_H
#define TOOL_PAGE_H

#include <jansson.h>
#include <stdio.h>

#include "tools/lib/tool.h"

#define PAGE_MARK "<!-- A page of compshim" /* for tool_spare_file() */

/* Writes a page, and releases `data`, the script's data: an object with either "comparison" (the
 * results as `compshim compare --json` writes them) or "reports" (as `compshim report --json`
 * prints them). Readers without scripts see the note ("": none) and the tables as text. Tables
 * without rows are left out. The caller checks for write errors by ferror and fclose. */
void page_write(const char *title, json_t *data, const char *note, const struct tool_table *tables,
                size_t count, FILE *file);

#endif
