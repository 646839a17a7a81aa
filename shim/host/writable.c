/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/writable.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGES 128 /* pages in one system call; the kernel allows 1024 */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif

/* Returns true if all pages can be written: lets the kernel copy a byte of each onto itself
 * (process_vm_readv), which fails for a page that cannot be written. */
static bool can_copy(uint8_t *next, const uint8_t *end, size_t page)
{
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

/* First asks the kernel to prepare all pages for writing, which takes less time than the copies.
 * That fails for a page that cannot be written, and always on kernels before 5.14, so then the
 * copies decide. */
bool cshim_is_writable(void *buffer, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t before = (uintptr_t)buffer % page;
    uint8_t *begin = buffer;
    return madvise(begin - before, bytes + before, MADV_POPULATE_WRITE) == 0 ||
           can_copy(begin, begin + bytes, page);
}
