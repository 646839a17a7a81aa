/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/writable.h"

#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGES 128 /* that one system call asks about; the kernel takes up to 1024 */

/* Has the kernel copy one byte of each page to where it is, which fails where the page cannot be
 * written. /proc/self/maps says the same, but takes a millisecond in a process with a thousand
 * mappings. */
bool cshim_is_writable(void *buffer, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *next = buffer;
    const uint8_t *end = next + bytes;
    struct iovec pages[PAGES];
    while (next < end) {
        unsigned count = 0;
        for (; count < PAGES && next < end; count++) {
            pages[count] = (struct iovec){next, 1};
            next += page - (uintptr_t)next % page;
        }
        if (process_vm_readv(getpid(), pages, count, pages, count, 0) != (ssize_t)count)
            return false;
    }
    return true;
}
