/* SPDX-License-Identifier: Apache-2.0 */
/* Inside compshim run: the parent of the command (witness.c). */
#ifndef TOOL_RUN_H
#define TOOL_RUN_H

#include <stdbool.h>

/* Opens a socket and puts its name into the environment. The preloaded library sends a
 * datagram to it from each process that comes to MPI or NCCL. Returns the socket, or -1 if there
 * can be none. */
int watch_run_open(void);

/* Starts a command, whose words end with NULL, and waits for its end. Hands signals for this
 * process on to the command, and stops when the command stops. At the end warns if nothing came to
 * the socket, unless the command was interrupted. dlsym: whether libcompshim_dl.so is preloaded,
 * too. Returns the command's exit status; if a signal has ended the command, ends this process by
 * the same signal. Exits with TOOL_SYSTEM if the command cannot be started. */
int watch_run(char **words, int receiver, bool dlsym);

#endif
