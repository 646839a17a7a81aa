/* SPDX-License-Identifier: Apache-2.0 */
/* Memory use of this process, for tests that memory stays flat. */
#ifndef MEMORY_USE_H
#define MEMORY_USE_H

#include <stdio.h>
#include <unistd.h>

struct memory {
    long mapped;   /* KiB of address space */
    long resident; /* KiB of physical memory */
};

/* Returns the memory in use now, or zeros if /proc cannot be read. */
static inline struct memory memory_now(void)
{
    struct memory now = {0, 0};
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL)
        return now;
    if (fscanf(file, "%ld %ld", &now.mapped, &now.resident) != 2)
        now = (struct memory){0, 0};
    fclose(file);
    const long page = sysconf(_SC_PAGESIZE) / 1024;
    return (struct memory){now.mapped * page, now.resident * page};
}

#endif
