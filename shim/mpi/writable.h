/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSHIM_MPI_WRITABLE_H
#define CSHIM_MPI_WRITABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Returns true if this process may write to all of a buffer: it is neither constant data nor mapped
 * to be read only. Changes nothing. Where the system does not allow to ask, it returns false. */
bool cshim_is_writable(void *buffer, size_t bytes);

#endif
