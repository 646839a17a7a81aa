/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a page, and its tables. */
#include "tools/html/html.h"

#include <string.h>

#include "version.h"

#define COLOURS 8

static const char style[] =
#include "page_css.h"
    ;

void html_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        case '\'':
            fputs("&#39;", file);
            break;
        default: /* a page may not hold control characters, not even escaped */
            fputc((unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text, file);
        }
    }
}

void html_element(FILE *file, const char *tag, const char *class, const char *text)
{
    fprintf(file, class != NULL ? "<%s class=\"%s\">" : "<%s>", tag, class);
    html_text(file, text);
    fprintf(file, "</%s>\n", tag);
}

/* The policy makes the browser itself see to it that nothing is fetched. */
void html_begin(FILE *file, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
          "<meta http-equiv=\"Content-Security-Policy\" "
          "content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n",
          file);
    html_element(file, "title", NULL, title);
    fprintf(file, "<style>\n%s</style>\n</head>\n<body>\n<main>\n", style);
    html_element(file, "h1", NULL, title);
}

void html_end(FILE *file)
{
    fputs("<footer>Written by compshim " CSHIM_VERSION ".</footer>\n</main>\n</body>\n</html>\n",
          file);
}

static const char *cell(const struct tool_table *table, size_t row, size_t column)
{
    const char *text = table->cells[row * table->columns + column];
    return text != NULL ? text : "";
}

/* With two rows of headings, those of the first begin groups of columns. */
static const char *cell_class(const struct tool_table *table, size_t column)
{
    bool first = table->headings > 1 && *cell(table, 0, column) != '\0';
    bool number = column >= table->numeric_from;
    if (number)
        return first ? " class=\"number first\"" : " class=\"number\"";
    return first ? " class=\"first\"" : "";
}

static void heading_row(FILE *file, const struct tool_table *table, size_t row)
{
    bool last = row + 1 == table->headings;
    fputs("<tr>", file);
    for (size_t column = 0, span = 1; column < table->columns; column += span) {
        const char *text = cell(table, row, column);
        span = 1;
        while (!last && *text != '\0' && column + span < table->columns &&
               *cell(table, row, column + span) == '\0')
            span++;
        if (*text == '\0')
            fputs("<td>", file);
        else if (!last)
            fprintf(file, "<th scope=\"colgroup\" class=\"first%s\" colspan=\"%zu\">",
                    span == 1 ? " number" : "", span);
        else
            fprintf(file, "<th scope=\"col\"%s>", cell_class(table, column));
        html_text(file, text);
        fputs(*text == '\0' ? "</td>" : "</th>", file);
    }
    fputs("</tr>\n", file);
}

static void body_row(FILE *file, const struct tool_table *table, size_t row)
{
    fputs("<tr>", file);
    for (size_t column = 0; column < table->columns; column++) {
        if (column == 0)
            fputs("<th scope=\"row\">", file);
        else
            fprintf(file, "<td%s>", cell_class(table, column));
        html_text(file, cell(table, row, column));
        fputs(column == 0 ? "</th>" : "</td>", file);
    }
    fputs("</tr>\n", file);
}

void html_table(FILE *file, const struct tool_table *table)
{
    fputs("<div class=\"scroll\" tabindex=\"0\"><table>\n", file);
    if (table->headings > 0) {
        fputs("<thead>\n", file);
        for (size_t row = 0; row < table->headings; row++)
            heading_row(file, table, row);
        fputs("</thead>\n", file);
    }
    fputs("<tbody>\n", file);
    for (size_t row = table->headings; row < table->rows; row++)
        body_row(file, table, row);
    fputs("</tbody>\n</table></div>\n", file);
}

void html_folded_table(FILE *file, const struct tool_table *table, const char *summary)
{
    fputs("<details>", file);
    html_element(file, "summary", NULL, summary);
    html_table(file, table);
    fputs("</details>\n", file);
}

void html_figures_begin(FILE *file)
{
    fputs("<div class=\"figures\">\n", file);
}

void html_figures_end(FILE *file)
{
    fputs("</div>\n", file);
}

void html_figure_begin(FILE *file, const char *title, const char *note)
{
    fputs("<figure>\n<figcaption>", file);
    html_element(file, "h3", NULL, title);
    html_element(file, "p", NULL, note);
    fputs("</figcaption>\n", file);
}

void html_figure_end(FILE *file, const struct tool_table *figures)
{
    html_folded_table(file, figures, "The figures as a table");
    fputs("</figure>\n", file);
}

void html_picture_begin(FILE *file, const char *title, double height)
{
    fprintf(file, "<svg role=\"img\" viewBox=\"0 0 %.0f %.0f\" aria-label=\"", HTML_PLOT_WIDTH,
            height);
    html_text(file, title);
    fputs(". The table below has its figures.\" xmlns=\"http://www.w3.org/2000/svg\">\n", file);
}

void html_colour(FILE *file, const char *class, size_t colour)
{
    fprintf(file, " class=\"%s k%zu%s\"", class, colour % COLOURS,
            colour / COLOURS % 2 == 1 ? " dashed" : "");
}
