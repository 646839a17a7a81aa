/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are replaced atomically if possible: a reader finds the old or the complete new file,
 * and if several jobs end together the last one's file remains.
 *
 * The text is written to a temporary file in the same folder, which is renamed at the end. If that
 * would change more than the text (other links to the file, access control lists) or is not
 * possible (a folder that is not writable), the text is kept in memory, and at the end written in
 * place, by one process at a time. Devices, pipes and links to a file that this process writes
 * (/dev/stdout) get the text directly. */
#ifndef CSHIM_OUTPUT_H
#define CSHIM_OUTPUT_H

#include <stdio.h>

#include "shim/core/signals.h"

struct cshim_output {
    FILE *stream;     /* the caller writes the text to it */
    const char *path; /* path as the user named it */
    const char *mark;
    char *target;    /* path with links resolved; NULL: the stream writes to the file directly */
    char *temporary; /* path of the temporary file; NULL: there is none */
    int there;       /* descriptor of the existing file; -1: none */
    bool is_guarded; /* until the file is closed, failing writes send no signal to this thread */
    struct cshim_write_guard guard;
};

/* Opens a file for replacement. `path` and `mark` have to stay until the file is closed.
 *
 * `mark` is a text that every file of this kind has in its first 63 bytes. It protects files of the
 * program and of other users: a file without the mark (unless it is empty), a file of another
 * owner, and a file that the program has open for writing (below descriptor 1024) are not replaced;
 * a link is followed only if the user or root made it; a pipe without a reader is an error, and
 * failing writes send no signal, if the thread that opens the file closes it. If `mark` is NULL
 * nothing is checked, and a pipe whose reader ends sends SIGPIPE.
 *
 * Returns NULL, or the reason of a failure, which is valid until the next error; then there is
 * nothing to close. */
const char *cshim_output_open(struct cshim_output *output, const char *path, const char *mark);

/* Returns true if a regular file exists, is not empty and does not have the mark in its first 63
 * bytes, so that it was not written by compshim; also if it can be written but not read. */
bool cshim_is_foreign(const char *path, const char *mark);

/* Returns true if the path is a link to a file that this process has open for writing, such as
 * /dev/stdout: cshim_output_open() then writes to that file directly. */
bool cshim_output_is_direct(const char *path);

/* Closes and publishes the file. Returns NULL, or why it could not be written: then the previous
 * file is unchanged, unless it was written in place or directly. */
const char *cshim_output_close(struct cshim_output *output);

#endif
