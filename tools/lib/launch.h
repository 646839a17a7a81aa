/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the shim's library, makes the value of LD_PRELOAD, and runs measured programs with the shim
 * or without it. The caller owns returned texts. */
#ifndef TOOL_LAUNCH_H
#define TOOL_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/policy.h"

/* Returns the absolute path of a file in one of the folders, which are relative to that of this
 * tool's executable ("" or "/../lib"). Exits with TOOL_SYSTEM if it is in none: "no NAME in FOLDER,
 * ADVICE". */
char *launch_find(const char *name, const char *const *folders, size_t count, const char *advice);

/* Returns the absolute path of libcompshim.so: in the folder of this tool's executable, or in the
 * lib folders next to it. Exits with TOOL_SYSTEM if LD_PRELOAD cannot hold its path, or, naming the
 * folders, if it is in none. */
char *launch_find_library(void);

/* Returns the library's name, a colon and that of libcompshim_dl.so in the same folder. Exits with
 * TOOL_SYSTEM if there is none. */
char *launch_with_dlsym(const char *library);

/* Returns the value of LD_PRELOAD: the library (NULL: none), then the entries of `existing` (may be
 * NULL) that are not the shim's own libraries; empty if there are none. */
char *launch_preload(const char *library, const char *existing);

/* Loads and parses the policy that a run would use (`path` as for cshim_policy_load). Prints the
 * error and exits with TOOL_NOT_SO if it cannot be read or is wrong. */
struct cshim_policy *launch_load_policy(const char *path);
/* Parses a text that cshim_policy_load() has returned with `source` and `message`; otherwise like
 * launch_load_policy(). */
struct cshim_policy *launch_parse_policy(const char *text, size_t length, const char *source,
                                         char message[CSHIM_MESSAGE_MAX]);

/* Returns the value of COMPSHIM_POLICY for a loaded policy: a built-in one's name, or the file's
 * absolute name. Exits if there is no such file. */
char *launch_name_policy(const char *path);

/* Returns the absolute name of an existing file. Exits if there is none. */
char *launch_absolute(const char *path);

/* Makes a folder from a template of mkdtemp(), for the files of runs. Returns its absolute name.
 * Exits if that fails. */
char *launch_make_folder(char *template);

/* Sets the variables by which Open MPI 4 and 5 permit running as root, and more ranks than cores,
 * if `command` contains their launcher; each only if it is unset and needed. `is_local`: all ranks
 * run on this host, so that its cores count. Prints a line if it allows root. Changes this
 * process's environment. */
void launch_permit_mpirun(char *const *command, bool is_local);

/* A program to run in a process group of its own, and its result. */
struct child {
    char **command;
    bool is_local;       /* all its ranks run on this host (launch_permit_mpirun) */
    const char *library; /* libcompshim.so to preload; NULL: none */
    const char *policy;  /* COMPSHIM_POLICY, or NULL */
    const char *report;  /* COMPSHIM_REPORT, or NULL */
    const char *progress;
    double left;         /* remaining seconds, for the progress line; negative: unknown */
    void (*watch)(void); /* called about every 0.1 s or more often while it runs; or NULL */
    char *output;        /* stdout and stderr together; the last part if it is long */
    size_t length;
    int status;  /* status that waitpid returns */
    double wall; /* seconds */
};

enum child_end {
    CHILD_DONE,
    CHILD_FAILED,
    CHILD_STOPPED /* by a signal: child_stop_signal() */
};

/* Makes SIGINT, SIGTERM, SIGHUP and SIGQUIT stop the child instead of this program, which from now
 * on ignores a reader of its output that ends, and Ctrl-Z, because the child would go on. */
void child_catch_signals(void);
/* Returns the signal that asked to stop, or 0. */
int child_stop_signal(void);

/* Runs a child to its end, and shows its progress on stderr. */
enum child_end child_run(struct child *child);
/* Returns the last lines of a text. */
char *child_tail(const char *output);
/* Prints "WHAT failed (exit status 1)", `between`, and the last lines of the output. */
void child_report_failure(const struct child *child, const char *what, const char *between);

#endif
