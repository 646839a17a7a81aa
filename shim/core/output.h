/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are replaced as a whole: a reader finds what was there before or all of what is new,
 * and of jobs that end together the last one's file is left.
 *
 * The text is written to a file beside, which takes the name at the end. Where that would change
 * more than the text (another link to the file, a folder that cannot be written, access control
 * lists), or where the path leads to a descriptor of this process, the text is put into the file
 * that is there, by one process at a time. Devices and pipes get the text as it is written. */
#ifndef CSHIM_OUTPUT_H
#define CSHIM_OUTPUT_H

#include <stdio.h>

struct cshim_output {
    FILE *stream;     /* takes the text */
    const char *path; /* as the user named it */
    const char *mark;
    char *target;    /* the path without links; NULL: the stream writes to where the text stays */
    char *temporary; /* the file beside; NULL: the text is kept in memory */
    int there;       /* a descriptor of the file that is there; -1: there is none */
};

/* Opens a file for replacement. `path` and `mark` have to stay until the file is closed.
 *
 * With a mark, which every file of its kind begins with, nothing of other people or of the program
 * is lost: a file without the mark, somebody else's file, and a file that the program has open are
 * not replaced, a link is followed only if the user or root made it, and a pipe without a reader is
 * an error. With NULL the path is taken as it is.
 *
 * Returns NULL, or why that is not possible: a string that stays until the next error. Then there
 * is nothing to close. */
const char *cshim_output_open(struct cshim_output *output, const char *path, const char *mark);

/* Ends the file and gives it its name. Returns NULL, or why not all of it could be written: what
 * was at the path before is then still there, unless it had to be written to in place. */
const char *cshim_output_close(struct cshim_output *output);

#endif
