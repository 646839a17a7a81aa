/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `compshim compare` share: the matrix of modes and rank counts, and its runs. */
#ifndef TOOL_COMPARE_H
#define TOOL_COMPARE_H

#include <jansson.h>
#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/codec.h"

/* What the command line says. */
struct compare_options {
    const char *modes;
    const char *policy;
    const char *ranks;
    const char *serial;
    const char *json;
    const char *title;
    const char *link;
    const char *accuracy;
    const char *time;
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

/* One finished run of the program. */
struct compare_run {
    char *command; /* as a shell would be given it */
    double wall;   /* seconds, of the whole command */
    bool has_time; /* the program's own figures, if its output has them */
    bool has_accuracy;
    double time;
    double accuracy;
    bool has_report; /* the figures of the shim's report */
    double calls;
    double compressed_calls;
    double bytes_native;
    double bytes_wire;
    char *tail; /* last lines of the output */
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
    char **command;     /* NULL-terminated, with {ranks} and {mode} */
    const char *serial; /* for sh -c, or NULL */
    uint32_t repeat;
    size_t mode_count;
    struct compare_mode *modes;
    size_t rank_count;
    uint32_t *ranks;
    struct compare_cell *cells; /* [mode * rank_count + rank] */
    regex_t accuracy;
    regex_t time;
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

/* Runs the program once; on COMPARE_DONE *result is filled and owned by the caller. `progress` is
 * the text of the progress line. */
enum compare_end compare_run_once(const struct compare_plan *plan, const struct compare_mode *mode,
                                  uint32_t ranks, const char *progress, struct compare_run *result);

/* A child process: its command, what is added to the environment, and what came of it. */
struct compare_child {
    char **command;
    const char *preload; /* LD_PRELOAD; NULL leaves it unset */
    const char *policy;  /* COMPSHIM_POLICY, or NULL */
    const char *report;  /* COMPSHIM_REPORT, or NULL */
    const char *progress;
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

/* The medians of a cell; a negative value is "not known". */
struct compare_medians {
    double time;
    double accuracy;
    double speed_up; /* against off with as many ranks */
    double bytes_native;
    double bytes_wire;
};
struct compare_medians compare_medians(const struct compare_plan *plan, size_t mode, size_t rank);

/* Whether times are of the whole command, because some output has no match for --metric-time. */
bool compare_uses_wall(const struct compare_plan *plan);

/* What the measurements were made on: an object of text by name; the caller releases it. */
json_t *compare_environment(const struct compare_plan *plan);

/* Prints the tables of everything that is finished to stdout. */
void compare_print(const struct compare_plan *plan, const json_t *environment);

/* Writes the same and every single run as JSON. Returns false with a message printed. */
bool compare_write_json(const struct compare_plan *plan, json_t *environment, const char *path,
                        bool complete);

#endif
