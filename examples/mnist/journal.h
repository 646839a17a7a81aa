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

/* An epoch as it is reported; step i of it has scores[i], summed over the ranks, and so on. */
struct epoch_report {
    int epoch;      /* from 1 */
    int steps;      /* in this epoch */
    int first_step; /* the number of its first step, from 1 over all epochs */
    const struct score *scores;
    const double *seconds; /* training time when the step was done, without the evaluations */
    const int *images;
    double loss;          /* mean over the training images */
    double test_accuracy; /* percent */
    double train_seconds; /* of this epoch */
};

/* Opens the log if a path is given. Returns false after saying why it cannot. */
bool journal_open(struct journal *journal, const char *log_path, int rank, int epochs, bool quiet);

/* Shows how far the epoch is, a few times a second at most. */
void journal_progress(struct journal *journal, int epoch, int step, int steps, double loss,
                      double seconds);

/* Prints an epoch's line and appends its steps to the log. */
void journal_epoch(struct journal *journal, const struct epoch_report *report);

/* Closes the log. Returns false after saying so if not all of it was written. */
bool journal_close(struct journal *journal);

#endif
