/* SPDX-License-Identifier: Apache-2.0 */
/* How the shim gets into a program: where the library is, and what LD_PRELOAD has to say. */
#ifndef TOOL_LAUNCH_H
#define TOOL_LAUNCH_H

#include <stdbool.h>

#include "policy/policy.h"

/* The absolute path of libcompshim.so, looked for beside the executable of this tool and in the lib
 * folders beside its folder; the caller frees it. Exits with TOOL_SYSTEM, naming the folders, if it
 * is in none. */
char *launch_find_library(void);

/* The library's name, a colon and that of libcompshim_dl.so, from beside it; the caller frees it.
 * Exits with TOOL_SYSTEM if there is none. */
char *launch_with_dlsym(const char *library);

/* The LD_PRELOAD value with the library in front of what is there already (may be NULL), any
 * earlier entries for the shim's libraries left out. library NULL: without the shim. The caller
 * frees it; empty if nothing is to be preloaded. */
char *launch_preload(const char *library, const char *existing);

/* Loads and parses the policy that a run would use (path as for cshim_policy_load). Prints the
 * error and exits with TOOL_NOT_SO if it is not good. The caller frees the policy. */
struct cshim_policy *launch_load_policy(const char *path);

/* The absolute name of an existing file; the caller frees it. Exits if there is none. */
char *launch_absolute(const char *path);

/* Open MPI's launchers refuse to run as root, and to start more ranks than there are cores. If the
 * command names such a launcher, this sets the variables of Open MPI 4 and 5 that allow it, each
 * only if it is not set and is needed, in this process's environment. `is_local`: all ranks run on
 * this host, so that its cores count. Prints a line if it lets root run. */
void launch_permit_mpirun(char *const *command, bool is_local);

#endif
