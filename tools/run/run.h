/* SPDX-License-Identifier: Apache-2.0 */
/* Inside compshim run. Words are those of a command line, with a NULL behind the last. */
#ifndef TOOL_RUN_H
#define TOOL_RUN_H

#include <stdbool.h>

/* forward.c: sees to it that the launchers in a command line hand LD_PRELOAD and COMPSHIM_*, which
 * are set already, to all ranks. Adds them to srun's --export where that would leave them out: in
 * the words, or in SLURM_EXPORT_ENV. Warns of what it cannot change. verbose: tells of each
 * launcher what it does with the variables. */
void forward_prepare(char **words, bool verbose);

/* witness.c: opens a socket and puts its name into the environment. The preloaded library sends a
 * datagram to it from each process that comes to MPI or NCCL. Returns the socket, or -1 if there
 * can be none. */
int watch_run_open(void);

/* witness.c: starts a command and waits for its end. Hands signals for this process on to the
 * command, and stops when the command stops. At the end warns if nothing came to the socket, unless
 * the command was interrupted. dlsym: whether libcompshim_dl.so is preloaded, too. Returns the
 * command's exit status; if a signal has ended the command, ends this process by the same signal.
 * Exits with TOOL_SYSTEM if the command cannot be started. */
int watch_run(char **words, int receiver, bool dlsym);

#endif
