/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of horizontal bars, and of dots on a logarithmic axis: every label has a line of its own,
 * so that none can overlap, and every value stands beside its bar. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/html/html.h"

#define ROW_HEIGHT 24.0
#define BAR_HEIGHT 14.0
#define NAME_CHARACTERS 19 /* longer names are cut; the table has them in full */
#define GROUP_CHARACTERS 44
#define GAP 8.0
#define AXIS_HEIGHT 22.0

/* Where things stand: names from 0, the axis from left to right, values behind. */
struct frame {
    double left;
    double right;
    double height;
    double low; /* of the axis; decades if it is logarithmic */
    double high;
    bool logarithmic;
};

void html_bars_add(struct html_bars *plot, const struct html_bar *bar)
{
    struct html_bar *larger = realloc(plot->bars, (plot->count + 1) * sizeof *larger);
    if (larger == NULL)
        tool_fail(TOOL_SYSTEM, "out of memory");
    plot->bars = larger;
    larger[plot->count] = *bar;
    larger[plot->count].group = tool_copy(bar->group);
    larger[plot->count].name = tool_copy(bar->name);
    plot->count++;
}

void html_bars_add_value(struct html_bars *plot, const char *group, const char *name, size_t colour,
                         double value, const char *text)
{
    struct html_bar bar = {.group = group,
                           .name = name,
                           .colour = colour,
                           .value = value,
                           .lowest = value,
                           .highest = value};
    snprintf(bar.text, sizeof bar.text, "%s", text);
    html_bars_add(plot, &bar);
}

void html_bars_free(struct html_bars *plot)
{
    for (size_t i = 0; i < plot->count; i++) {
        free((char *)plot->bars[i].group);
        free((char *)plot->bars[i].name);
    }
    free(plot->bars);
    plot->bars = NULL;
    plot->count = 0;
}

static bool starts_group(const struct html_bars *plot, size_t bar)
{
    return bar == 0 || strcmp(plot->bars[bar].group, plot->bars[bar - 1].group) != 0;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void set_decades(const struct html_bars *plot, struct frame *frame)
{
    double least = INFINITY;
    double most = 0;
    for (size_t i = 0; i < plot->count; i++) {
        if (plot->bars[i].value <= 0)
            continue;
        least = plot->bars[i].value < least ? plot->bars[i].value : least;
        most = larger(most, plot->bars[i].value);
    }
    frame->low = most > 0 ? floor(log10(least)) : 0;
    frame->high = most > 0 ? ceil(log10(most)) : 1;
    if (frame->high <= frame->low)
        frame->high = frame->low + 1;
}

static struct frame make_frame(const struct html_bars *plot)
{
    struct frame frame = {.height = plot->logarithmic ? AXIS_HEIGHT : 0,
                          .logarithmic = plot->logarithmic};
    double names = 0;
    double values = 0;
    for (size_t i = 0; i < plot->count; i++) {
        const struct html_bar *bar = &plot->bars[i];
        names = larger(names, (double)tool_text_width(bar->name));
        values = larger(values, (double)strlen(bar->text));
        frame.high = larger(frame.high, larger(bar->value, bar->highest));
        frame.height += starts_group(plot, i) ? 2 * ROW_HEIGHT : ROW_HEIGHT;
    }
    names = names < NAME_CHARACTERS ? names : NAME_CHARACTERS;
    frame.left = names * HTML_CHARACTER_WIDTH + GAP;
    frame.right = HTML_PLOT_WIDTH - values * HTML_CHARACTER_WIDTH - GAP;
    if (plot->logarithmic)
        set_decades(plot, &frame);
    else if (frame.high <= 0)
        frame.high = 1;
    return frame;
}

static double place(const struct frame *frame, double value)
{
    double on_axis = value;
    if (frame->logarithmic)
        on_axis = value > 0 ? log10(value) : frame->low;
    double share = (on_axis - frame->low) / (frame->high - frame->low);
    share = share < 0 ? 0 : (share > 1 ? 1 : share);
    return frame->left + share * (frame->right - frame->left);
}

static void write_name(FILE *file, const char *name, size_t width, const char *class, double y)
{
    char *cut = tool_shorten(name, width);
    fprintf(file, "<text class=\"%s\" x=\"0\" y=\"%.1f\">", class, y);
    html_text(file, cut);
    fputs("</text>\n", file);
    free(cut);
}

static void write_whisker(FILE *file, const struct frame *frame, const struct html_bar *bar,
                          double middle)
{
    double low = place(frame, bar->lowest);
    double high = place(frame, bar->highest);
    if (high - low < 1)
        return;
    fprintf(file, "<path class=\"whisker\" d=\"M%.1f,%.1fv6m0,-3H%.1fm0,-3v6\"/>\n", low,
            middle - 3, high);
}

static void write_bar(FILE *file, const struct frame *frame, const struct html_bar *bar,
                      double middle)
{
    double end = place(frame, bar->value);
    write_name(file, bar->name, NAME_CHARACTERS, "name", middle + 4.5);
    if (frame->logarithmic) {
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\"", end, middle);
    } else {
        fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\"",
                frame->left, middle - BAR_HEIGHT / 2, larger(end - frame->left, 1), BAR_HEIGHT);
    }
    html_colour(file, "fill", bar->colour);
    fputs("/>\n", file);
    write_whisker(file, frame, bar, middle);
    double text = frame->logarithmic ? frame->right : larger(end, place(frame, bar->highest));
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\">", text + GAP, middle + 4.5);
    html_text(file, bar->text);
    fputs("</text>\n", file);
}

/* Lines at the powers of ten, as many of them labelled as there is room for. */
static void write_decades(FILE *file, const struct frame *frame)
{
    int low = (int)frame->low;
    int high = (int)frame->high;
    int every = 1 + (int)((high - low) * 6 * HTML_CHARACTER_WIDTH / (frame->right - frame->left));
    for (int decade = low; decade <= high; decade++) {
        double x = frame->left + (decade - low) * (frame->right - frame->left) / (high - low);
        fprintf(file, "<path class=\"grid\" d=\"M%.1f,0V%.1f\"/>\n", x,
                frame->height - AXIS_HEIGHT);
        if ((decade - low) % every != 0)
            continue;
        fprintf(file, "<text class=\"faint\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">", x,
                frame->height - 6);
        fprintf(file, "1e%d</text>\n", decade);
    }
}

static void write_picture(FILE *file, const struct html_bars *plot)
{
    struct frame frame = make_frame(plot);
    double y = 0;
    html_picture_begin(file, plot->title, frame.height);
    if (plot->logarithmic)
        write_decades(file, &frame);
    for (size_t i = 0; i < plot->count; i++) {
        if (starts_group(plot, i)) {
            write_name(file, plot->bars[i].group, GROUP_CHARACTERS, "group", y + ROW_HEIGHT - 6);
            y += ROW_HEIGHT;
        }
        write_bar(file, &frame, &plot->bars[i], y + ROW_HEIGHT / 2);
        y += ROW_HEIGHT;
    }
    fputs("</svg>\n", file);
}

static struct tool_table bars_table(const struct html_bars *plot)
{
    struct tool_table table = {.columns = 3, .numeric_from = 2};
    for (size_t i = 0; i < plot->count; i++) {
        const struct html_bar *bar = &plot->bars[i];
        char *cells[] = {tool_copy(bar->group), tool_copy(bar->name), tool_copy(bar->text)};
        tool_table_add(&table, cells);
    }
    return table;
}

void html_bars(FILE *file, const struct html_bars *plot, const struct tool_table *figures)
{
    if (plot->count == 0)
        return;
    struct tool_table own = {0};
    if (figures == NULL)
        own = bars_table(plot);
    html_figure_begin(file, plot->title, plot->note);
    write_picture(file, plot);
    html_figure_end(file, figures != NULL ? figures : &own);
    tool_table_free(&own);
}
