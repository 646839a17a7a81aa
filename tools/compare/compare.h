/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `compshim compare` share: the matrix of modes and rank counts, and its runs. */
#ifndef TOOL_COMPARE_H
#define TOOL_COMPARE_H

#include <jansson.h>
#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "codecs/codec.h"

/* What the command line says. */
struct compare_options {
    const char *modes;
    const char *policy;
    const char *ranks;
    const char *serial;
    const char *json;
    const char *markdown;
    const char *html;
    const char *title;
    const char *link;
    const char *accuracy;
    const char *time;
    const char *step;
    uint32_t repeat;
    uint64_t min_size;
};

/* One way to run the program. */
struct compare_mode {
    char *name;  /* as given: "off", a codec or a policy file; "serial" */
    char *label; /* for the table: "fp16 (16 bit)" */
    bool is_serial;
    bool shim;                 /* preloaded */
    enum cshim_codec_id codec; /* of a codec's mode, else none */
    char *policy;              /* absolute file name, with the shim */
};

/* Accuracy over time, from a log of the program's steps. */
struct compare_curve {
    size_t count; /* at most COMPARE_CURVE_MAX */
    double *seconds;
    double *accuracy; /* per cent */
};

#define COMPARE_CURVE_MAX 200

/* One finished run of the program. */
struct compare_run {
    char *command; /* as a shell would be given it */
    double wall;   /* seconds, of the whole command */
    bool has_time; /* the program's own figures, if its output has them */
    bool has_accuracy;
    bool has_step;
    double time;
    double accuracy;
    double step;                /* milliseconds */
    struct compare_curve curve; /* empty without {log} */
    bool has_report;            /* the figures of the shim's report */
    double calls;
    double compressed_calls;
    double bytes_native;
    double bytes_wire;
    json_t *rows; /* of the report: an array of objects, or NULL */
    char *tail;   /* last lines of the output */
};

/* The runs of one mode with one number of ranks. */
struct compare_cell {
    bool wanted;
    size_t count;
    struct compare_run *runs;
};

struct compare_plan {
    const char *title;
    const char *link;
    char **command;     /* NULL-terminated, with {ranks}, {mode} and {log} */
    const char *serial; /* for sh -c, or NULL */
    uint32_t repeat;
    size_t mode_count;
    struct compare_mode *modes;
    size_t rank_count;
    uint32_t *ranks;
    struct compare_cell *cells; /* [mode * rank_count + rank] */
    regex_t accuracy;
    regex_t time;
    regex_t step;
    char *library; /* the shim's; NULL if no mode needs it */
    char *folder;  /* for temporary files, removed at the end */
};

/* Makes the matrix of runs, finding here everything that can be wrong with the options, and the
 * temporary files. `command` and what the options point to must outlive the plan. */
void compare_plan_make(struct compare_plan *plan, const struct compare_options *chosen,
                       char **command);
/* Frees it with all results, and removes the temporary files. */
void compare_plan_free(struct compare_plan *plan);

/* How a run ended. */
enum compare_end {
    COMPARE_DONE,
    COMPARE_FAILED, /* the message has been printed */
    COMPARE_STOPPED /* by a signal: compare_stop_signal() */
};

/* Makes SIGINT, SIGTERM and SIGHUP stop the run in progress instead of this program. */
void compare_catch_signals(void);
/* The signal that asked to stop, or 0. */
int compare_stop_signal(void);

/* The progress line of a run. */
struct compare_progress {
    char *text;
    double left; /* seconds that this run and those after it will take; negative: not known */
};

/* Runs the program once; on COMPARE_DONE *result is filled and owned by the caller. */
enum compare_end compare_run_once(const struct compare_plan *plan, const struct compare_mode *mode,
                                  uint32_t ranks, const struct compare_progress *progress,
                                  struct compare_run *result);

/* A child process: its command, what is added to the environment, and what came of it. */
struct compare_child {
    char **command;
    const char *preload; /* LD_PRELOAD; NULL leaves it unset */
    const char *policy;  /* COMPSHIM_POLICY, or NULL */
    const char *report;  /* COMPSHIM_REPORT, or NULL */
    const struct compare_progress *progress;
    char *output; /* stdout and stderr together, the last part if it is long; the caller frees it */
    int status;   /* as of waitpid */
    double wall;
};

/* Runs a child to its end. Returns false if it was stopped by a signal to this program. */
bool compare_child_run(struct compare_child *child);

/* Finds the last match of a metric's expression in the output, and the number that its group 1
 * says. */
bool compare_metric(const regex_t *expression, const char *output, double *value);

/* The last lines of a text; the caller frees them. */
char *compare_tail(const char *output);

/* Reads a log of steps: CSV whose first line names the columns `seconds` and `accuracy` (0 to 1).
 * Returns false with a message printed if it is none. On success the caller frees the curve. */
bool compare_curve_read(const char *path, struct compare_curve *curve);
void compare_curve_free(struct compare_curve *curve);

/* A figure that runs have. */
enum compare_figure {
    COMPARE_FIGURE_TIME, /* seconds; see compare_uses_wall */
    COMPARE_FIGURE_STEP,
    COMPARE_FIGURE_ACCURACY,
    COMPARE_FIGURE_NATIVE,
    COMPARE_FIGURE_WIRE
};

/* A figure of the runs of a cell. */
struct compare_spread {
    double median; /* negative: not known, and then the others are not either */
    double lowest;
    double highest;
};
struct compare_spread compare_spread(const struct compare_plan *plan, size_t mode, size_t rank,
                                     enum compare_figure figure);

/* How many times as fast as off with as many ranks; negative if it is not known. */
double compare_speed_up(const struct compare_plan *plan, size_t mode, size_t rank);

const struct compare_cell *compare_cell(const struct compare_plan *plan, size_t mode, size_t rank);

/* The mode that runs the program with all its ranks, but without the shim; mode_count if there is
 * none. */
size_t compare_native_mode(const struct compare_plan *plan);

/* Whether times are of the whole command, because some output has no match for --metric-time. */
bool compare_uses_wall(const struct compare_plan *plan);

/* What the measurements were made on: an object of text by name; the caller releases it. */
json_t *compare_environment(const struct compare_plan *plan);

/* The results as tables, in the order in which they are shown. */
enum compare_table {
    COMPARE_TABLE_ENVIRONMENT,
    COMPARE_TABLE_TIME,
    COMPARE_TABLE_ACCURACY,
    COMPARE_TABLE_BYTES,
    COMPARE_TABLE_RULES,
    COMPARE_TABLE_COUNT
};

/* A table of everything that is finished; it has only headings if there is nothing to show. The
 * caller frees it with tool_table_free. */
struct tool_table compare_table(const struct compare_plan *plan, const json_t *environment,
                                enum compare_table which);
/* What stands above the table. The caller frees it. */
char *compare_table_title(const struct compare_plan *plan, enum compare_table which);

/* Prints all tables to stdout. */
void compare_print(const struct compare_plan *plan, const json_t *environment);

/* These write all results to a file: tables as Markdown; tables and every single run as JSON; one
 * page of HTML with plots. Each returns false with a message printed if that fails. */
bool compare_write_markdown(const struct compare_plan *plan, const json_t *environment,
                            const char *path);
bool compare_write_json(const struct compare_plan *plan, json_t *environment, const char *path,
                        bool complete);
bool compare_write_html(const struct compare_plan *plan, const json_t *environment,
                        const char *path, bool complete);

/* The plots of that page, each with its figures as a table. */
void compare_write_plots(FILE *file, const struct compare_plan *plan);

#endif
