/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of `compshim compare`: modes, numbers of ranks, and the runs of each mode on
 * each number of ranks. Memory that the functions allocate lives until the tool ends. */
#ifndef TOOL_COMPARE_H
#define TOOL_COMPARE_H

#include <jansson.h>
#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "codecs/codec.h"
#include "tools/lib/launch.h"
#include "tools/lib/tool.h"

/* Figures of a run. The program prints those before COMPARE_METRIC_COUNT. */
enum compare_figure {
    COMPARE_FIGURE_TIME, /* seconds; of whole commands if an output does not match --metric-time */
    COMPARE_FIGURE_STEP, /* milliseconds */
    COMPARE_FIGURE_ACCURACY, /* per cent */
    COMPARE_METRIC_COUNT,
    COMPARE_FIGURE_NATIVE = COMPARE_METRIC_COUNT, /* bytes, from compshim's report */
    COMPARE_FIGURE_WIRE,
    COMPARE_FIGURE_SPEED_UP, /* time of mode off with as many ranks, divided by the time */
    COMPARE_FIGURE_RATIO,    /* native bytes / bytes on the wire */
    COMPARE_FIGURE_COUNT
};

/* Values of the command line. */
struct compare_options {
    const char *modes, *policy, *ranks;
    const char *serial; /* command for sh -c, or NULL */
    const char *json, *markdown, *html;
    const char *title, *link;
    const char *metrics[COMPARE_METRIC_COUNT]; /* regular expressions, or NULL */
    uint32_t repeat;
    uint64_t min_size; /* bytes */
};

/* A mode: how the program is run. */
struct compare_mode {
    const char *name;  /* "off", a codec or a policy, as the user wrote it; or "serial" */
    const char *label; /* name in the tables: "fp16 (16 bit)" */
    bool is_serial;
    bool has_shim;             /* compshim is preloaded */
    enum cshim_codec_id codec; /* codec of a codec's mode, else none */
    const char *policy;        /* value of COMPSHIM_POLICY; NULL without the shim */
};

/* Runs of one mode with one number of ranks. */
struct compare_cell {
    const struct compare_mode *mode;
    uint32_t ranks;
    const struct compare_cell *native; /* cell of mode off with as many ranks, or NULL */
    bool is_wanted;
    json_t *runs; /* array of the finished runs, from compare_run_once() */
};

/* A comparison: its runs and their results. */
struct compare_plan {
    const struct compare_options *options;
    char **command; /* NULL-terminated, with {ranks}, {mode} and {log} */
    size_t mode_count;
    struct compare_mode *modes;
    size_t rank_count;
    uint32_t *ranks;
    size_t cell_count;
    struct compare_cell *cells; /* [mode * rank_count + rank] */
    regex_t metrics[COMPARE_METRIC_COUNT];
    char *library;       /* libcompshim.so; NULL if no mode needs it */
    char *folder;        /* folder of temporary files, removed at the end */
    json_t *environment; /* description of the machine: texts by name */
    bool is_complete;    /* all runs were finished */
};

/* Returns true if a word of a command contains `part`. */
bool compare_has(char *const *command, const char *part);

/* Runs the program once, with a progress line that shows `left` seconds for this run and those
 * after it (negative: unknown). If the run ends well, appends its object to the cell: "command",
 * "wall_seconds", the figures that the program printed, the totals and "rows" of compshim's
 * reports, "accuracy_over_time" (from the log of steps) and "output_tail". Unknown figures, totals
 * and rows are null. */
enum child_end compare_run_once(const struct compare_plan *plan, struct compare_cell *cell,
                                const char *progress, double left);

/* Returns true if the output of any run has no match for the metric. If it returns true for the
 * time, the time of each run is that of the whole command. */
bool compare_misses(const struct compare_plan *plan, enum compare_figure metric);

/* Names of the figures in JSON. */
extern const char *const compare_figure_names[COMPARE_FIGURE_COUNT];

/* Returns a description of the machine, its software and the link. */
json_t *compare_environment(const char *link);
/* Reads the machine's load, and keeps the first and the highest value. Called before the runs and
 * while they last. */
void compare_watch_load(void);
/* Adds the first and the highest load to the environment. */
void compare_add_load(json_t *environment);

#define COMPARE_MARKDOWN_MARK "<!-- Tables of compshim compare -->" /* for tool_spare_file() */

/* Write the results: tables as text or as Markdown; everything as JSON; a page with plots. */
void compare_write_text(const struct compare_plan *plan, FILE *file);
void compare_write_markdown(const struct compare_plan *plan, FILE *file);
void compare_write_json(const struct compare_plan *plan, FILE *file);
void compare_write_page(const struct compare_plan *plan, FILE *file);

#endif
