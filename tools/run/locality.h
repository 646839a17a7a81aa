/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_LOCALITY_H
#define TOOL_LOCALITY_H

#include <stdbool.h>

/* Whether all processes that a command line starts run on this host and share its network names, as
 * far as its launchers, their options and the environment tell. In doubt they do not. */
bool locality_is_certain(char **words);

#endif
