/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* Number of descriptors among which find_descriptor searches. */
#define DESCRIPTORS_MOST 1024
/* Maximum wait for the lock of a file that another process writes in place, in units of 10 ms. */
#define LOCK_TRIES 1000
#define NAMES_TRIED 100
/* Maximum bytes of the target's name in the name of a temporary file. They leave room for two dots
 * and a number: a file name has at most 255 bytes. */
#define NAME_KEPT 240

/* Returns a descriptor by which this process writes to the file, or -1. */
static int find_descriptor(const struct stat *file)
{
    struct stat facts;
    for (int descriptor = 0; descriptor < DESCRIPTORS_MOST; descriptor++) {
        const int flags = fcntl(descriptor, F_GETFL);
        if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && fstat(descriptor, &facts) == 0 &&
            facts.st_dev == file->st_dev && facts.st_ino == file->st_ino)
            return descriptor;
    }
    return -1;
}

bool cshim_is_foreign(const char *path, const char *mark)
{
    char beginning[64] = "";
    struct stat facts;
    if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size == 0)
        return false;
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return access(path, W_OK) == 0; /* a file that cannot be written is refused later */
    beginning[fread(beginning, 1, sizeof beginning - 1, stream)] = '\0';
    fclose(stream);
    return strstr(beginning, mark) == NULL;
}

bool cshim_output_is_direct(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) == 0 && S_ISLNK(facts.st_mode) && stat(path, &facts) == 0 &&
           S_ISREG(facts.st_mode) && find_descriptor(&facts) >= 0;
}

/* Returns why a regular file is not replaced, or NULL. */
static const char *refusal(const char *path, const char *mark, const struct stat *facts)
{
    if (facts->st_uid != geteuid())
        return "it is no file of yours";
    return cshim_is_foreign(path, mark)
               ? "the program, or somebody else, has put something else there"
               : NULL;
}

/* Opens the stream for a descriptor. If that fails, or the descriptor is -1, closes the descriptor
 * and returns false with errno set. */
static bool open_stream(struct cshim_output *output, int descriptor)
{
    output->stream = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (output->stream == NULL && descriptor >= 0)
        close(descriptor);
    return output->stream != NULL;
}

/* Gives the new file the old one's owner, group and mode. Returns false if that fails, or if
 * replacing the old file would lose other links to it or its access control list. If the
 * old file has no link left, another process has replaced it since it was opened. */
static bool takes_place(int file, const char *target, const struct stat *old)
{
    struct stat new;
    if (old->st_nlink > 1 || getxattr(target, "system.posix_acl_access", NULL, 0) > 0 ||
        fstat(file, &new) != 0)
        return false;
    if ((new.st_uid != old->st_uid || new.st_gid != old->st_gid) &&
        fchown(file, old->st_uid, old->st_gid) != 0)
        return false;
    return fchmod(file, old->st_mode & 07777) == 0;
}

/* Creates a temporary file in the target's folder. Returns its descriptor, or -1. */
static int make_beside(struct cshim_output *output)
{
    const char *slash = strrchr(output->target, '/');
    const int folder = slash != NULL ? (int)(slash + 1 - output->target) : 0;
    int descriptor = -1;
    for (int i = 0; i < NAMES_TRIED && descriptor < 0; i++) {
        uint32_t chance;
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != (ssize_t)sizeof chance)
            chance = (uint32_t)now.tv_nsec ^ (uint32_t)getpid() << 16;
        free(output->temporary);
        if (asprintf(&output->temporary, "%.*s.%.*s.%08x", folder, output->target, NAME_KEPT,
                     output->target + folder, chance) < 0) {
            output->temporary = NULL;
            errno = ENOMEM;
            break;
        }
        /* The kernel applies the umask, which a thread cannot read without changing it. */
        descriptor = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno != EEXIST)
            break;
    }
    return descriptor;
}

static void forget_temporary(struct cshim_output *output)
{
    if (output->temporary != NULL)
        unlink(output->temporary);
    free(output->temporary);
    output->temporary = NULL;
}

/* Begins the new text: in a temporary file beside the target, or in memory if it must be written in
 * place. Returns false, with errno set, if that fails. */
static bool begin_text(struct cshim_output *output, const struct stat *old)
{
    int descriptor = make_beside(output);
    const int error = errno;
    if (descriptor >= 0 && (old == NULL || takes_place(descriptor, output->target, old)))
        return open_stream(output, descriptor);
    if (descriptor >= 0) {
        close(descriptor);
        forget_temporary(output);
    } else {
        free(output->temporary);
        output->temporary = NULL;
        errno = error;
        if (old == NULL || (error != EACCES && error != EPERM && error != EROFS))
            return false;
    }
    return open_stream(output, memfd_create("compshim output", MFD_CLOEXEC));
}

/* Opens the existing file for writing; creates it if the path is a dangling link. Waits for a
 * pipe's reader only without a mark. Returns -1, with errno set, if that fails. */
static int open_there(const char *path, bool has_mark, bool is_link)
{
    const int descriptor = open(path,
                                O_WRONLY | O_CLOEXEC | (is_link ? O_CREAT : 0) |
                                    (has_mark ? O_NONBLOCK | (is_link ? 0 : O_NOFOLLOW) : 0),
                                0666);
    if (descriptor >= 0 && has_mark)
        fcntl(descriptor, F_SETFL, 0); /* wait for a slow reader of a pipe */
    return descriptor;
}

/* Closes and frees everything, deletes the temporary file, and returns `problem`. */
static const char *abandon(struct cshim_output *output, const char *problem)
{
    if (output->stream != NULL)
        fclose(output->stream);
    if (output->is_guarded)
        cshim_write_guard_end(&output->guard);
    if (output->there >= 0)
        close(output->there);
    forget_temporary(output);
    free(output->target);
    *output = (struct cshim_output){.there = -1};
    return problem;
}

/* Makes the stream write directly to `descriptor`: a device, a pipe, or a file that this process
 * writes. Returns NULL or the problem. */
static const char *open_direct(struct cshim_output *output, int descriptor)
{
    return open_stream(output, descriptor) ? NULL : abandon(output, strerror(errno));
}

const char *cshim_output_open(struct cshim_output *output, const char *path, const char *mark)
{
    struct stat facts;
    const bool is_link = lstat(path, &facts) == 0 && S_ISLNK(facts.st_mode);
    *output = (struct cshim_output){.path = path, .mark = mark, .there = -1};
    if (is_link && mark != NULL && facts.st_uid != geteuid() && facts.st_uid != 0)
        return "it is a link that somebody else has made";
    output->is_guarded = mark != NULL;
    if (output->is_guarded)
        cshim_write_guard_begin(&output->guard);
    const bool exists = stat(path, &facts) == 0;
    if (exists && S_ISREG(facts.st_mode)) {
        const int held = find_descriptor(&facts);
        if (held >= 0 && is_link) /* as /dev/stdout is */
            return open_direct(output, fcntl(held, F_DUPFD_CLOEXEC, 0));
        if (held >= 0 && mark != NULL)
            return abandon(output, "the program has it open");
    }
    if (exists || is_link) {
        output->there = open_there(path, mark != NULL, is_link);
        if (output->there < 0 || fstat(output->there, &facts) != 0)
            return abandon(output, strerror(errno));
        if (!S_ISREG(facts.st_mode)) {
            const int descriptor = output->there;
            output->there = -1;
            if (mark == NULL || S_ISCHR(facts.st_mode) || facts.st_uid == geteuid())
                return open_direct(output, descriptor);
            close(descriptor);
            return abandon(output, "it is no file of yours");
        }
        const char *problem = mark != NULL ? refusal(path, mark, &facts) : NULL;
        if (problem != NULL)
            return abandon(output, problem);
    }
    output->target = output->there >= 0 ? realpath(path, NULL) : strdup(path);
    if (output->target == NULL || !begin_text(output, output->there >= 0 ? &facts : NULL))
        return abandon(output, strerror(errno));
    return NULL;
}

/* Overwrites the existing file with the text. Locks the file meanwhile, if its file system has
 * locks: other processes may write it, too. Returns false on failure, with errno set. */
static bool write_in_place(const struct cshim_output *output, int text)
{
    int tries = 0;
    off_t from = 0;
    struct stat facts;
    while (flock(output->there, LOCK_EX | LOCK_NB) != 0 && errno != ENOSYS && errno != EOPNOTSUPP &&
           errno != ENOLCK) {
        if (errno != EWOULDBLOCK || ++tries == LOCK_TRIES)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    if (fstat(text, &facts) != 0)
        return false;
    while (from < facts.st_size)
        if (sendfile(output->there, text, &from, (size_t)(facts.st_size - from)) <= 0)
            return false;
    /* Truncates last, so that a concurrent reader finds the mark. */
    return ftruncate(output->there, facts.st_size) == 0;
}

/* Copies the temporary file's text to the existing file. */
static bool copy_in_place(const struct cshim_output *output)
{
    const int text = open(output->temporary, O_RDONLY | O_CLOEXEC);
    const bool is_done = text >= 0 && write_in_place(output, text);
    const int error = errno;
    if (text >= 0)
        close(text);
    errno = error;
    return is_done;
}

/* Renames the temporary file, after the stream is closed, because some file systems report write
 * errors only then. Returns false, with errno set, if that fails. */
static bool publish(struct cshim_output *output)
{
    FILE *stream = output->stream;
    output->stream = NULL;
    if (fclose(stream) != 0)
        return false;
    if (output->temporary == NULL)
        return true;
    if (rename(output->temporary, output->target) != 0) /* EBUSY: the target is a mount point */
        return errno == EBUSY && output->there >= 0 && copy_in_place(output);
    free(output->temporary);
    output->temporary = NULL;
    return true;
}

const char *cshim_output_close(struct cshim_output *output)
{
    struct stat facts;
    errno = 0;
    if (fflush(output->stream) != 0 || ferror(output->stream) != 0)
        return abandon(output, strerror(errno != 0 ? errno : EIO));
    /* The program may have put a file of its own there meanwhile. */
    if (output->target != NULL && output->mark != NULL && stat(output->target, &facts) == 0) {
        const char *problem = refusal(output->target, output->mark, &facts);
        if (problem != NULL)
            return abandon(output, problem);
    }
    const bool is_in_memory = output->target != NULL && output->temporary == NULL;
    const bool is_done =
        (!is_in_memory || write_in_place(output, fileno(output->stream))) && publish(output);
    return abandon(output, is_done ? NULL : strerror(errno));
}
