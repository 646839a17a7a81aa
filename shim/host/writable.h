/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSHIM_HOST_WRITABLE_H
#define CSHIM_HOST_WRITABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Returns true if this process may write to all of a buffer, so it is neither constant data nor
 * mapped read-only. Does not change the buffer. Returns false if the system does not allow the
 * test. */
bool cshim_is_writable(void *buffer, size_t bytes);

#endif
