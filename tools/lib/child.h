/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program that is measured: in a process group of its own, with the shim or without, and
 * collects its output. All functions are for the tool's only thread. */
#ifndef TOOL_CHILD_H
#define TOOL_CHILD_H

#include <stdbool.h>
#include <stddef.h>

/* A program to run, and what came of it. */
struct child {
    char **command;
    bool is_local;       /* all its ranks run on this host: launch_permit_mpirun */
    const char *library; /* the shim's, to be preloaded; NULL: it is not */
    const char *policy;  /* COMPSHIM_POLICY, or NULL */
    const char *report;  /* COMPSHIM_REPORT, or NULL */
    const char *progress;
    double left;         /* seconds, for the progress line; negative: not known */
    void (*watch)(void); /* called about ten times a second while it runs; NULL: nothing is */
    char *output; /* stdout and stderr together, the last part if it is long; the caller frees it */
    size_t length;
    int status;  /* as waitpid gives it */
    double wall; /* seconds */
};

enum child_end {
    CHILD_DONE,
    CHILD_FAILED,
    CHILD_STOPPED /* by a signal: child_stop_signal() */
};

/* Makes SIGINT, SIGTERM and SIGHUP stop the child instead of this program. */
void child_catch_signals(void);
/* The signal that asked to stop, or 0. */
int child_stop_signal(void);

/* Runs a child to its end, and shows its progress on stderr. */
enum child_end child_run(struct child *child);
/* The last lines of a text; the caller frees them. */
char *child_tail(const char *output);
/* Prints "WHAT failed (exit status 1)", `between`, and the last lines of the output. */
void child_tell_failure(const struct child *child, const char *what, const char *between);

#endif
