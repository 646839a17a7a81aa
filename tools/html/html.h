/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of HTML that need nothing but themselves: style, tables and plots are in the file, there
 * is no script, and nothing is fetched. They are well-formed XML too. All text given is escaped
 * here; write errors are found by the caller (ferror, fclose).
 */
#ifndef TOOL_HTML_H
#define TOOL_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tools/lib/tool.h"

/* Text for an element or a quoted attribute. */
void html_text(FILE *file, const char *text);
/* <tag class="class">text</tag>; the class may be NULL. */
void html_element(FILE *file, const char *tag, const char *class, const char *text);

/* The page down to its heading; and its end, which names the program. */
void html_begin(FILE *file, const char *title);
void html_end(FILE *file);

/* A table, which scrolls by itself where it is too wide. The first cell of a row is its heading.
 * Above the last line of headings, one with empty cells to its right stands above them too. */
void html_table(FILE *file, const struct tool_table *table);
/* The same behind a line to click on. */
void html_folded_table(FILE *file, const struct tool_table *table, const char *summary);

/* Between these two stand figures, side by side where there is room. */
void html_figures_begin(FILE *file);
void html_figures_end(FILE *file);

/* A line of a plot. Colours are counted from 0; from 8 on they come again, dashed. */
struct html_line {
    const char *name; /* for the legend: lines next to each other may share one */
    size_t colour;
    size_t count;
    const double *x; /* finite, as y is */
    const double *y;
};

struct html_lines {
    const char *title;
    const char *note;   /* one line that explains it */
    const char *x_name; /* with its unit, as y_name */
    const char *y_name;
    size_t count;
    const struct html_line *lines;
};

/* A figure of lines over numeric axes; `figures` holds its numbers. At least one line has a
 * point. */
void html_lines(FILE *file, const struct html_lines *plot, const struct tool_table *figures);

/* A bar, or a dot on a logarithmic axis. */
struct html_bar {
    const char *group; /* a heading, where it is another than the bar's before */
    const char *name;
    size_t colour;
    double value; /* finite, at least 0 */
    double lowest;
    double highest; /* a thin line goes from lowest to highest if these are apart */
    char text[32];  /* the value with its unit */
};

struct html_bars {
    const char *title;
    const char *note;
    bool logarithmic; /* dots; values of 0 stand at the left end */
    size_t count;
    struct html_bar *bars;
};

/* Adds a bar; its texts are copied. */
void html_bars_add(struct html_bars *plot, const struct html_bar *bar);
/* Adds a bar of one value. */
void html_bars_add_value(struct html_bars *plot, const char *group, const char *name, size_t colour,
                         double value, const char *text);
void html_bars_free(struct html_bars *plot);

/* A figure of horizontal bars from 0; nothing if there are none. Without `figures` a table of the
 * bars themselves goes with it. */
void html_bars(FILE *file, const struct html_bars *plot, const struct tool_table *figures);

/* For the two above. */
void html_figure_begin(FILE *file, const char *title, const char *note);
void html_figure_end(FILE *file, const struct tool_table *figures);
/* Begins an SVG picture; "</svg>" ends it. */
void html_picture_begin(FILE *file, const char *title, double height);
void html_colour(FILE *file, const char *class, size_t colour);

/* Width of all plots in their own units; a character of a label takes about so many. */
#define HTML_PLOT_WIDTH 380.0
#define HTML_CHARACTER_WIDTH 8.2

#endif
