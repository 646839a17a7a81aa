/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for a system without shared memory: preloaded, it refuses System V segments of 32 MiB or
 * more, such as compshim's scratch, to the rank STANDIN_UNSHARED, or to all ranks without that
 * variable. Smaller segments are allowed, because MPICH 5 does not start without those of its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int shmget(key_t key, size_t size, int flags)
{
    const char *refused = getenv("STANDIN_UNSHARED"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (rank == NULL)
        rank = getenv("PMI_RANK");
    if (size < (size_t)32 << 20 ||
        (refused != NULL && (rank == NULL || strcmp(refused, rank) != 0)))
        return (int)syscall(SYS_shmget, key, size, flags);
    errno = ENOSYS;
    return -1;
}
