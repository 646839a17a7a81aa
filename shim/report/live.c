/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report/live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/core/environment.h"
#include "shim/core/log.h"
#include "shim/core/signals.h"
#include "shim/report/file.h"
#include "version.h"

/* Names the file of this process. Process ids are unique in their namespace only, and containers
 * may share the folder. */
static void name_file(char *path, size_t size, const char *library, const char *suffix)
{
    struct stat namespace = {0};
    (void)stat("/proc/self/ns/pid", &namespace);
    snprintf(path, size, "%s/%s%u-%ld-%lx-%s%s", CSHIM_LIVE_FOLDER, CSHIM_LIVE_PREFIX,
             (unsigned)geteuid(), (long)getpid(), (unsigned long)namespace.st_ino, library, suffix);
}

/* Creates a file, with a descriptor above those of the standard streams: the program may have
 * closed these, and would then write its output to the file. Returns -1 with errno set on an
 * error. */
static int create_file(const char *path)
{
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || file > STDERR_FILENO)
        return file;
    const int moved = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    if (moved < 0)
        unlink(path);
    close(file);
    errno = error;
    return moved;
}

/* Reserves the memory of the file, so that no write to it can fail later. Sets errno if it returns
 * false. */
static bool take_room(int file)
{
    int error;
    struct cshim_write_guard guard;
    cshim_write_guard_begin(&guard);
    do
        error = posix_fallocate(file, 0, sizeof(struct cshim_live));
    while (error == EINTR);
    cshim_write_guard_end(&guard);
    errno = error;
    return error == 0;
}

/* Creates, locks and maps the file. The descriptor stays open, because closing it would release the
 * lock. On an error removes the file and returns NULL with errno set. */
static struct cshim_live *map_file(const char *path, int *file)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    unlink(path); /* an earlier process with this id may have left one */
    *file = create_file(path);
    if (*file < 0)
        return NULL;
    void *memory = MAP_FAILED;
    if (fcntl(*file, F_SETLK, &lock) == 0 && take_room(*file))
        memory =
            mmap(NULL, sizeof(struct cshim_live), PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
    if (memory != MAP_FAILED)
        return memory;
    const int error = errno;
    unlink(path);
    close(*file);
    errno = error;
    return NULL;
}

static void fill(struct cshim_live *live, const struct cshim_policy *policy, const char *library)
{
    memcpy(live->magic, CSHIM_LIVE_MAGIC, sizeof live->magic);
    live->size = sizeof *live;
    live->pid = getpid();
    live->started = cshim_seconds();
    snprintf(live->version, sizeof live->version, "%s", CSHIM_VERSION);
    snprintf(live->library, sizeof live->library, "%s", library);
    snprintf(live->program, sizeof live->program, "%s", program_invocation_short_name);
    snprintf(live->job, sizeof live->job, "%s", cshim_report_job());
    /* Without a number the job is identified by the parent process. */
    if (strcmp(live->job, "0") == 0)
        snprintf(live->job, sizeof live->job, "by %d", (int)getppid());
    snprintf(live->policy, sizeof live->policy, "%.255s", policy->source);
    live->rule_count =
        policy->rule_count < CSHIM_LIVE_RULES ? policy->rule_count : CSHIM_LIVE_RULES;
    for (size_t i = 0; i < live->rule_count; i++) {
        memcpy(live->rules[i].name, policy->rules[i].name, sizeof live->rules[i].name);
        live->rules[i].codec = policy->rules[i].codec;
    }
}

struct cshim_live *cshim_live_open(const struct cshim_policy *policy, const char *library, int rank,
                                   int ranks, int nodes)
{
    const char *wanted = secure_getenv("COMPSHIM_LIVE");
    char path[128], unfinished[136];
    int file;
    if (wanted == NULL || *wanted == '\0' || cshim_mode_of(wanted) != CSHIM_MODE_ON)
        return NULL;
    name_file(path, sizeof path, library, "");
    name_file(unfinished, sizeof unfinished, library, ".new");
    struct cshim_live *live = map_file(unfinished, &file);
    if (live != NULL) {
        fill(live, policy, library);
        live->rank = rank;
        live->ranks = ranks;
        live->nodes = nodes;
        if (rename(unfinished, path) == 0)
            return live;
        const int error = errno;
        unlink(unfinished);
        munmap(live, sizeof *live);
        close(file);
        errno = error;
    }
    cshim_log(CSHIM_LOG_WARN, "compshim top will not see this process: %s: %s", path,
              strerror(errno));
    return NULL;
}

void cshim_live_withdraw(const struct cshim_live *live)
{
    char path[128];
    if (live == NULL)
        return;
    name_file(path, sizeof path, live->library, "");
    unlink(path);
}
