/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of lines over two numeric axes. */
#include <math.h>
#include <string.h>

#include "tools/html/html.h"

#define HEIGHT 260.0
#define TOP 26.0 /* the name of the upright axis stands above it */
#define RIGHT (HTML_PLOT_WIDTH - 12.0)
#define BOTTOM (HEIGHT - 44.0)
#define TICKS 5 /* about so many */

struct axis {
    double low; /* both of them ticks */
    double high;
    double step;
    int digits; /* behind the point */
    double begin;
    double end; /* where low and high are in the picture */
};

static double place(const struct axis *axis, double value)
{
    return axis->begin + (value - axis->low) / (axis->high - axis->low) * (axis->end - axis->begin);
}

/* Ticks at multiples of 1, 2 or 5 times a power of ten. */
static void set_ticks(struct axis *axis)
{
    if (axis->high - axis->low < 1e-9 * (1 + fabs(axis->high)))
        axis->high = axis->low + 1;
    double rough = (axis->high - axis->low) / TICKS;
    double power = pow(10, floor(log10(rough)));
    double share = rough / power;
    axis->step = power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
    axis->low = axis->step * floor(axis->low / axis->step + 1e-9);
    axis->high = axis->step * ceil(axis->high / axis->step - 1e-9);
    axis->digits = axis->step >= 1 ? 0 : (int)ceil(-log10(axis->step) - 1e-9);
}

static void widen(struct axis *axis, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        axis->low = values[i] < axis->low ? values[i] : axis->low;
        axis->high = values[i] > axis->high ? values[i] : axis->high;
    }
}

static size_t tick_count(const struct axis *axis)
{
    return (size_t)lround((axis->high - axis->low) / axis->step) + 1;
}

static void write_axes(FILE *file, const struct html_lines *plot, const struct axis *x,
                       const struct axis *y)
{
    for (size_t i = 0; i < tick_count(y); i++) {
        double value = y->low + (double)i * y->step;
        fprintf(file,
                "<path class=\"%s\" d=\"M%.1f,%.1fH%.1f\"/>"
                "<text class=\"faint\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">%.*f</text>\n",
                i == 0 ? "axis" : "grid", x->begin, place(y, value), x->end, x->begin - 6,
                place(y, value) + 4.5, y->digits, value);
    }
    for (size_t i = 0; i < tick_count(x); i++) {
        double value = x->low + (double)i * x->step;
        fprintf(file,
                "<path class=\"axis\" d=\"M%.1f,%.1fv4\"/>"
                "<text class=\"faint\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">%.*f</text>\n",
                place(x, value), BOTTOM, place(x, value), BOTTOM + 18, x->digits, value);
    }
    fputs("<text class=\"faint\" x=\"0\" y=\"13\">", file);
    html_text(file, plot->y_name);
    fprintf(file, "</text>\n<text class=\"faint\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">",
            (x->begin + x->end) / 2, HEIGHT - 6);
    html_text(file, plot->x_name);
    fputs("</text>\n", file);
}

static void write_line(FILE *file, const struct html_line *line, const struct axis *x,
                       const struct axis *y)
{
    if (line->count == 0)
        return;
    fputs("<polyline", file);
    html_colour(file, "curve", line->colour);
    fputs(" points=\"", file);
    for (size_t i = 0; i < line->count; i++)
        fprintf(file, "%s%.1f,%.1f", i > 0 ? " " : "", place(x, line->x[i]), place(y, line->y[i]));
    fputs("\"><title>", file);
    html_text(file, line->name);
    fputs("</title></polyline>\n", file);
}

static void write_legend(FILE *file, const struct html_lines *plot)
{
    fputs("<ul class=\"legend\">", file);
    for (size_t i = 0; i < plot->count; i++) {
        const struct html_line *line = &plot->lines[i];
        if (i > 0 && strcmp(line->name, plot->lines[i - 1].name) == 0)
            continue;
        fputs("<li><svg viewBox=\"0 0 24 10\" aria-hidden=\"true\"><path d=\"M0,5H24\"", file);
        html_colour(file, "curve", line->colour);
        fputs("/></svg>", file);
        html_text(file, line->name);
        fputs("</li>", file);
    }
    fputs("</ul>\n", file);
}

void html_lines(FILE *file, const struct html_lines *plot, const struct tool_table *figures)
{
    struct axis x = {.low = 0, .high = 0, .end = RIGHT};
    struct axis y = {.low = INFINITY, .high = -INFINITY, .begin = BOTTOM, .end = TOP};
    for (size_t i = 0; i < plot->count; i++) {
        widen(&x, plot->lines[i].x, plot->lines[i].count);
        widen(&y, plot->lines[i].y, plot->lines[i].count);
    }
    set_ticks(&x);
    set_ticks(&y);
    size_t widest = (size_t)snprintf(NULL, 0, "%.*f", y.digits, y.high);
    x.begin = (double)widest * HTML_CHARACTER_WIDTH + 12;
    html_figure_begin(file, plot->title, plot->note);
    write_legend(file, plot);
    html_picture_begin(file, plot->title, HEIGHT);
    write_axes(file, plot, &x, &y);
    for (size_t i = 0; i < plot->count; i++)
        write_line(file, &plot->lines[i], &x, &y);
    fputs("</svg>\n", file);
    html_figure_end(file, figures);
}
