/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist/journal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const double progress_interval = 0.2;

bool journal_open(struct journal *journal, const char *log_path, int rank, int epochs, bool quiet)
{
    *journal = (struct journal){.active = rank == 0,
                                .lines = rank == 0 && !quiet,
                                .progress = rank == 0 && !quiet && isatty(STDERR_FILENO),
                                .log_path = log_path,
                                .epochs = epochs};
    if (!journal->active || log_path == NULL)
        return true;
    journal->log = fopen(log_path, "w");
    if (journal->log == NULL) {
        fprintf(stderr, "%s: %s: cannot be written: %s\n", program_invocation_short_name, log_path,
                strerror(errno));
        return false;
    }
    fprintf(journal->log, "step,epoch,seconds,loss,accuracy\n");
    return true;
}

void journal_progress(struct journal *journal, int epoch, int step, int steps, double loss,
                      double seconds)
{
    if (!journal->progress || seconds - journal->progress_shown < progress_interval)
        return;
    journal->progress_shown = seconds;
    fprintf(stderr, "\repoch %d/%d  step %d/%d  loss %.4f  %.0f s\033[K", epoch, journal->epochs,
            step, steps, loss, seconds);
}

static void log_steps(FILE *log, const struct epoch_report *report)
{
    double correct = 0, images = 0;
    for (int i = 0; i < report->steps; i++) {
        correct += report->scores[i].correct;
        images += report->images[i];
        fprintf(log, "%d,%d,%.6f,%.9g,%.6f\n", report->first_step + i, report->epoch,
                report->seconds[i], report->scores[i].loss / report->images[i], correct / images);
    }
    fflush(log);
}

void journal_epoch(struct journal *journal, const struct epoch_report *report)
{
    if (journal->progress)
        fprintf(stderr, "\r\033[K");
    if (journal->lines) {
        printf("epoch %d/%d  loss %.4f  test accuracy %.2f %%  %.1f s\n", report->epoch,
               journal->epochs, report->loss, report->test_accuracy, report->train_seconds);
        fflush(stdout);
    }
    if (journal->log != NULL)
        log_steps(journal->log, report);
}

bool journal_close(struct journal *journal)
{
    if (journal->log == NULL)
        return true;
    bool failed = ferror(journal->log) != 0;
    failed = fclose(journal->log) != 0 || failed;
    journal->log = NULL;
    if (failed)
        fprintf(stderr, "%s: %s: not all of the log could be written\n",
                program_invocation_short_name, journal->log_path);
    return !failed;
}
