/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of the trainers. */
#ifndef MNIST_OPTIONS_H
#define MNIST_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/mnist/network.h"

struct options {
    const char *data; /* NULL: look in the usual places */
    const char *log;  /* NULL: no log */
    enum network_model model;
    int epochs;
    int batch; /* images per step, all ranks together */
    int limit; /* training images at most; 0: all */
    double learning_rate;
    double momentum;
    uint64_t seed;
    bool quiet;
    bool help;
};

/* Prints what --help asks for; `where` are further lines, of where the program runs. */
void options_print_help(const char *where);

/* Reads the command line; strings point into argv. Returns false and a one-line message if an
 * option or its value is not understood. Uses getopt's globals: not thread-safe. */
bool options_parse(int argc, char **argv, struct options *options, char *error, size_t error_size);

#endif
