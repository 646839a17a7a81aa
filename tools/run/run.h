/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of `compshim run`. Functions exit with TOOL_SYSTEM if the system fails. */
#ifndef TOOL_RUN_H
#define TOOL_RUN_H

#include <stdbool.h>

/* Makes the launchers in a command line pass LD_PRELOAD and COMPSHIM_*, which are already set, to
 * all ranks: adds them to srun's --export if that omits them, in the words or in SLURM_EXPORT_ENV.
 * Warns about launchers that it cannot change, and about options of this tool after the command. */
void run_instruct_launchers(char **words, bool is_verbose);

/* Opens a socket and puts its name into the environment. The preloaded library sends it a datagram
 * from each process that uses MPI, NCCL or gloo. Returns the socket, or -1 on failure. */
int run_open_receiver(void);

/* Starts a command, whose words end with NULL, and waits for its end. Forwards signals for this
 * process to the command, and stops when the command stops. At the end warns if no datagram came to
 * `receiver`, unless the command was interrupted or failed. Returns the command's exit status; if a
 * signal has ended the command, ends this process by the same signal. Exits with
 * TOOL_SYSTEM if the command cannot be started. */
int run_watched(char **words, int receiver, bool with_dlsym);

/* Prints why a command could not be started, and exits. */
_Noreturn void run_fail_to_start(const char *name, int error);

#endif
