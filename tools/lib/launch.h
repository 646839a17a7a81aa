/* SPDX-License-Identifier: Apache-2.0 */
/* How the shim gets into a program: finds its library, and makes the value of LD_PRELOAD. Runs a
 * program that is measured, with the shim or without. Texts that are returned are the caller's. */
#ifndef TOOL_LAUNCH_H
#define TOOL_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/policy.h"

/* The absolute path of a file in one of the folders, which are relative to that of this tool's
 * executable ("" or "/../lib"). Exits with TOOL_SYSTEM if it is in none: "no NAME in FOLDER,
 * ADVICE". */
char *launch_find(const char *name, const char *const *folders, size_t count, const char *advice);

/* The absolute path of libcompshim.so, looked for beside the executable of this tool and in the lib
 * folders beside its folder. Exits with TOOL_SYSTEM, naming the folders, if it is in none. */
char *launch_find_library(void);

/* The library's name, a colon and that of libcompshim_dl.so, from beside it. Exits with TOOL_SYSTEM
 * if there is none. */
char *launch_with_dlsym(const char *library);

/* The value of LD_PRELOAD: the library (NULL: none) and then the entries of `existing` (may be
 * NULL) that are not the shim's own libraries; empty if there are none. */
char *launch_preload(const char *library, const char *existing);

/* Loads and parses the policy that a run would use (path as for cshim_policy_load). Prints the
 * error and exits with TOOL_NOT_SO if it is not good. */
struct cshim_policy *launch_load_policy(const char *path);

/* What COMPSHIM_POLICY is to name for a policy that was loaded: a built-in one's name, or the
 * file's absolute name. Exits if there is no such file. */
char *launch_name_policy(const char *path);

/* The absolute name of an existing file. Exits if there is none. */
char *launch_absolute(const char *path);

/* Open MPI's launchers refuse to run as root, and to start more ranks than there are cores. If the
 * command names such a launcher, this sets the variables of Open MPI 4 and 5 that allow it, each
 * only if it is not set and is needed, in this process's environment. `is_local`: all ranks run on
 * this host, so that its cores count. Prints a line if it lets root run. */
void launch_permit_mpirun(char *const *command, bool is_local);

/* A program to run in a process group of its own, and what came of it. */
struct child {
    char **command;
    bool is_local;       /* all its ranks run on this host: launch_permit_mpirun */
    const char *library; /* the shim's, to be preloaded; NULL: it is not */
    const char *policy;  /* COMPSHIM_POLICY, or NULL */
    const char *report;  /* COMPSHIM_REPORT, or NULL */
    const char *progress;
    double left;         /* seconds, for the progress line; negative: not known */
    void (*watch)(void); /* called about ten times a second while it runs; NULL: nothing is */
    char *output;        /* stdout and stderr together, the last part if it is long */
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
/* The last lines of a text. */
char *child_tail(const char *output);
/* Prints "WHAT failed (exit status 1)", `between`, and the last lines of the output. */
void child_tell_failure(const struct child *child, const char *what, const char *between);

#endif
