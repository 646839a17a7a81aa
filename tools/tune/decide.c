/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a policy from measurements. */
#include <math.h>
#include <string.h>

#include "shim/core/schedule.h"
#include "tools/lib/tool.h"
#include "tools/tune/tune.h"
#include "version.h"

/* Two measurements of the same call may differ by this factor. */
#define MARGIN 1.05
/* Required gain, and smallest size, on one node: there a codec takes processors from the program,
 * which the benchmark does not show, and the time of a small call is mostly waiting. */
#define MARGIN_OF_ONE_NODE 1.5
#define LEAST_OF_ONE_NODE ((uint64_t)1 << 20)

double tune_error(const struct tune_way *way, uint32_t ranks)
{
    const struct cshim_schedule *schedule = cshim_schedule_of(CSHIM_ALLREDUCE, way->algorithm);
    const unsigned quantizations = schedule->quantizations != 0 ? schedule->quantizations : ranks;
    return cshim_codec_info(way->codec)->typical * sqrt(quantizations);
}

static bool is_eligible(const struct tune_measured *measured, const struct tune_size *size,
                        size_t way, double max_rel_error)
{
    const bool one_node = measured->nodes == 1;
    const double margin = one_node ? MARGIN_OF_ONE_NODE : MARGIN;
    if (one_node && size->bytes < LEAST_OF_ONE_NODE)
        return false;
    return isfinite(size->ways[way]) && size->ways[way] * margin < size->native &&
           tune_error(&measured->ways[way], measured->ranks) <= max_rel_error;
}

static size_t choose(const struct tune_measured *measured, const struct tune_size *size,
                     double max_rel_error, size_t larger)
{
    double fastest = INFINITY, least_error = INFINITY;
    size_t choice = TUNE_NATIVE;
    for (size_t way = 0; way < measured->way_count; way++)
        if (is_eligible(measured, size, way, max_rel_error))
            fastest = fmin(fastest, size->ways[way]);
    for (size_t way = 0; way < measured->way_count; way++) {
        const double error = tune_error(&measured->ways[way], measured->ranks);
        if (!is_eligible(measured, size, way, max_rel_error) || size->ways[way] > fastest * MARGIN)
            continue;
        if (way == larger)
            return way;
        if (error < least_error || (error == least_error && size->ways[way] < size->ways[choice])) {
            least_error = error;
            choice = way;
        }
    }
    return choice;
}

void tune_choose(const struct tune_measured *measured, double max_rel_error,
                 size_t choices[TUNE_SIZES_MAX])
{
    size_t larger = TUNE_NATIVE;
    for (size_t i = measured->size_count; i-- > 0; larger = choices[i])
        choices[i] = choose(measured, &measured->sizes[i], max_rel_error, larger);
    /* Compression pays from some size on: an isolated gain at a smaller size is chance. */
    for (size_t i = 0; i + 1 < measured->size_count; i++)
        if (choices[i + 1] == TUNE_NATIVE && (i == 0 || choices[i - 1] == TUNE_NATIVE))
            choices[i] = TUNE_NATIVE;
}

/* Returns a size as in "64KiB", in the largest unit that divides it. */
static char *size_text(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    size_t unit = 0;
    while (bytes > 0 && bytes % 1024 == 0 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        unit++;
    }
    return tool_format("%llu%s", (unsigned long long)bytes, units[unit]);
}

/* Returns the algorithm of `auto` for a codec and size, on the measured ranks. */
static enum cshim_algorithm automatic(const struct tune_measured *measured,
                                      enum cshim_codec_id codec, uint64_t bytes)
{
    char message[CSHIM_MESSAGE_MAX];
    const char *text = tool_format("[rule all]\ncodec = %s\n", cshim_codec_name(codec));
    const struct cshim_policy *policy = cshim_policy_parse(text, strlen(text), "auto", message);
    const struct cshim_call call = {
        .library = CSHIM_MPI,
        .collective = CSHIM_ALLREDUCE,
        .dtype = CSHIM_FLOAT32,
        .op = CSHIM_SUM,
        .bytes = bytes,
        .ranks = measured->ranks,
        .nodes = measured->nodes,
        .ranks_per_node = measured->ranks / measured->nodes,
    };
    return cshim_plan_call(policy, &call, bytes / sizeof(float)).algorithm;
}

/* Adds a size's row: the size, the choice, the native time, and for each codec the time of its
 * fastest algorithm. */
static void add_comment_row(struct tool_table *table, const struct tune_measured *measured,
                            const struct tune_size *size, const struct tune_way *choice)
{
    char **cells = tool_allocate(table->columns, sizeof *cells);
    size_t column = 3;
    cells[0] = size_text(size->bytes);
    cells[1] = choice != NULL ? tool_copy(cshim_codec_name(choice->codec)) : tool_copy("none");
    cells[2] = tool_format("%.3f", size->native * 1e3);
    for (size_t first = 0, end; first < measured->way_count; first = end, column++) {
        size_t best = first;
        for (end = first;
             end < measured->way_count && measured->ways[end].codec == measured->ways[first].codec;
             end++)
            if (size->ways[end] < size->ways[best] || !isfinite(size->ways[best]))
                best = end;
        if (isfinite(size->ways[best]))
            cells[column] = tool_format("%.3f %s", size->ways[best] * 1e3,
                                        cshim_algorithm_name(measured->ways[best].algorithm));
    }
    tool_table_add(table, cells);
}

static void print_measured(FILE *file, const struct tune_measured *measured, const size_t *choices)
{
    const char *headings = "size,best,native";
    for (size_t i = 0; i < measured->way_count; i++)
        if (i == 0 || measured->ways[i].codec != measured->ways[i - 1].codec)
            headings = tool_format("%s,%s", headings, cshim_codec_name(measured->ways[i].codec));
    struct tool_table table = tool_table_of(headings, SIZE_MAX);
    table.prefix = "; ";
    for (size_t i = 0; i < measured->size_count; i++)
        add_comment_row(&table, measured, &measured->sizes[i],
                        choices[i] != TUNE_NATIVE ? &measured->ways[choices[i]] : NULL);
    tool_table_print(&table, file);
}

/* Writes the rule for sizes [first, end), which have the same choice. If the next size has another
 * compressed choice, the rule ends just below that size; if the next size is native, at its own
 * last size. */
static void print_rule(FILE *file, const struct tune_measured *measured, const size_t *choices,
                       size_t first, size_t end)
{
    const struct tune_way *way = &measured->ways[choices[first]];
    const struct tune_size *sizes = measured->sizes;
    bool is_automatic = true;
    const char *from = size_text(sizes[first].bytes);
    fprintf(file, "\n[rule from_%s]\nmin_size  = %s\n", from, from);
    if (end < measured->size_count)
        fprintf(
            file, "max_size  = %s\n",
            size_text(choices[end] != TUNE_NATIVE ? sizes[end].bytes - 1 : sizes[end - 1].bytes));
    for (size_t i = first; i < end; i++)
        is_automatic &= automatic(measured, way->codec, sizes[i].bytes) == way->algorithm;
    fprintf(file, "dtype     = float32\nop        = sum\n");
    fprintf(file, measured->nodes > 1 ? "nodes     = 2-\n" : "nodes     = 1\n");
    /* If `auto` makes the same choice, it also chooses for other numbers of ranks. */
    if (is_automatic)
        fprintf(file, "ranks     = 2-\n");
    else
        fprintf(file, "ranks     = %u\nalgorithm = %s\n", measured->ranks,
                cshim_algorithm_name(way->algorithm));
    fprintf(file, "codec     = %s\nworth     = always\n", cshim_codec_name(way->codec));
    const struct tune_size *last = &sizes[end - 1];
    fprintf(file, "; at %s %.2f times as fast as natively; expected error %.1e\n",
            size_text(last->bytes), last->native / last->ways[choices[first]],
            tune_error(way, measured->ranks));
}

char *tune_policy(const struct tune_measured *measured, double max_rel_error)
{
    size_t choices[TUNE_SIZES_MAX], length = 0;
    char *text = NULL;
    bool any = false;
    FILE *file = open_memstream(&text, &length);
    if (file == NULL)
        errx(TOOL_SYSTEM, "out of memory");
    tune_choose(measured, max_rel_error, choices);
    fprintf(file,
            "; Written by compshim tune %s for %u ranks on %u node%s, with a relative error of at "
            "most %g.\n"
            "; Milliseconds of an all-reduce of float32, the median of the best round; of each "
            "codec the\n; fastest algorithm's.\n;\n",
            CSHIM_VERSION, measured->ranks, measured->nodes, measured->nodes == 1 ? "" : "s",
            max_rel_error);
    print_measured(file, measured, choices);
    for (size_t first = 0, end; first < measured->size_count; first = end) {
        for (end = first + 1; end < measured->size_count && choices[end] == choices[first];)
            end++;
        if (choices[first] == TUNE_NATIVE)
            continue;
        print_rule(file, measured, choices, first, end);
        any = true;
    }
    if (!any)
        fprintf(file, "\n; %s\n[rule all]\ncodec = none\n",
                measured->nodes > 1 ? "Nothing was faster than the library itself."
                                    : "Within a node, nothing from 1 MiB on was 1.5 times as fast "
                                      "as the library itself.");
    fclose(file);
    return text;
}
