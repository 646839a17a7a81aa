/* SPDX-License-Identifier: Apache-2.0 */
/* compshim run stays beside the command, to say at its end if nothing was caught. */
#ifndef TOOL_WATCH_RUN_H
#define TOOL_WATCH_RUN_H

#include <stdbool.h>

/* Opens the socket that the library tells of processes which come to MPI or NCCL, and puts its name
 * into the environment. Returns it, or -1 where there can be none. */
int watch_run_open(void);

/* Starts a command and waits for its end. Signals for this process are the command's, and it stops
 * when the command stops. Warns if nothing came to the socket, unless the command was interrupted.
 * Returns the command's exit status; where a signal ended it, this process ends by the same. Exits
 * with TOOL_SYSTEM if the command cannot be started. dlsym: the run has the hook already. */
int watch_run(char **words, int receiver, bool dlsym);

#endif
