/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 tells of the training: a line per epoch, a progress line on a terminal, a CSV file.
 */
#ifndef MNIST_JOURNAL_H
#define MNIST_JOURNAL_H

#include <stdbool.h>
#include <stdio.h>

#include "examples/mnist/network.h"

struct journal {
    FILE *log; /* NULL: none */
    const char *log_path;
    bool active;   /* this is rank 0 */
    bool lines;    /* print a line per epoch */
    bool progress; /* stderr is a terminal */
    int epochs;
    double progress_shown; /* seconds of the last progress line */
};

/* One step as the log has it. */
struct step_record {
    struct score score; /* summed over the ranks once the epoch is over */
    double seconds;     /* training time when the step was done, without the evaluations */
    int images;
};

/* Opens the log if a path is given. Returns false after saying why it cannot. */
bool journal_open(struct journal *journal, const char *log_path, int rank, int epochs, bool quiet);

/* Shows how far the epoch is, a few times a second at most. */
void journal_progress(struct journal *journal, int epoch, int step, int steps, double loss,
                      double seconds);

/* Prints an epoch's line and appends its steps to the log; first_step counts over all epochs. */
void journal_epoch(struct journal *journal, int epoch, const struct step_record *records, int steps,
                   int first_step, double loss, double test_accuracy, double seconds);

/* Closes the log. Returns false after saying so if not all of it was written. */
bool journal_close(struct journal *journal);

#endif
