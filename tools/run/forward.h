/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers do with the environment of compshim run, and what it takes for the preload to
 * reach the ranks that they start. */
#ifndef TOOL_FORWARD_H
#define TOOL_FORWARD_H

#include <stdbool.h>

/* Looks for launchers in a command line, up to the program that they start, after LD_PRELOAD and
 * COMPSHIM_* are set. Where srun would leave these out they are added to its --export, in words or
 * in SLURM_EXPORT_ENV; of what cannot be mended it warns. verbose: says of each launcher what
 * becomes of the variables. Words that are replaced are never freed: they are for execvp(3). */
void forward_prepare(char **words, bool verbose);

#endif
