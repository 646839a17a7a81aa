/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCHS_LIMIT = 100000, BATCH_LIMIT = 4096, IMAGES_LIMIT = 2000000000 };

static const char help[] =
    "  --data DIR      folder of the four MNIST files, gzipped or not; `generated`: drawn digits\n"
    "                  (default: $MNIST_DIR, data/mnist, else drawn digits)\n"
    "  --model NAME    conv: two convolutions, two dense layers; mlp: two dense layers (conv)\n"
    "  --epochs N      passes over the training images (3)\n"
    "  --batch N       images per step, all ranks together (64)\n"
    "  --lr X          learning rate of the first epoch; each later one has 0.5 of the one before "
    "(0.05)\n"
    "  --momentum X    momentum of the gradient descent (0.9)\n"
    "  --seed N        seed of weights, order and dropout (1)\n"
    "  --limit N       train on the first N images only\n"
    "  --log FILE      write time, loss and running accuracy of each step as CSV\n"
    "  --quiet         print the last line only\n"
    "  --help          print this\n";

static bool parse_integer(const char *text, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

/* Reads a number from 1 up. */
static bool parse_count(const char *text, uint64_t highest, int *value)
{
    uint64_t wide = 0;
    const bool good = parse_integer(text, &wide) && wide >= 1 && wide <= highest;
    *value = (int)wide;
    return good;
}

static bool parse_real(const char *text, double highest, double *value)
{
    char *end = NULL;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*value) && *value >= 0 && *value <= highest;
}

static bool parse_model(const char *text, enum network_model *model)
{
    *model = strcmp(text, "mlp") == 0 ? NETWORK_MLP : NETWORK_CONV;
    return strcmp(text, "mlp") == 0 || strcmp(text, "conv") == 0;
}

static const struct option known[] = {
    {"data", required_argument, NULL, 'd'},     {"log", required_argument, NULL, 'o'},
    {"model", required_argument, NULL, 'm'},    {"epochs", required_argument, NULL, 'e'},
    {"batch", required_argument, NULL, 'b'},    {"lr", required_argument, NULL, 'r'},
    {"momentum", required_argument, NULL, 'u'}, {"seed", required_argument, NULL, 's'},
    {"limit", required_argument, NULL, 'l'},    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};

/* Stores one option; returns NULL, or what its value should have been. */
static const char *store(int letter, const char *value, struct options *options)
{
    switch (letter) {
    case 'd':
        options->data = value;
        return NULL;
    case 'o':
        options->log = value;
        return NULL;
    case 'm':
        return parse_model(value, &options->model) ? NULL : "conv or mlp";
    case 'e':
        return parse_count(value, EPOCHS_LIMIT, &options->epochs) ? NULL
                                                                  : "a number from 1 to 100000";
    case 'b':
        return parse_count(value, BATCH_LIMIT, &options->batch) ? NULL : "a number from 1 to 4096";
    case 'l':
        return parse_count(value, IMAGES_LIMIT, &options->limit) ? NULL : "a number, 1 or more";
    case 's':
        return parse_integer(value, &options->seed) ? NULL : "a number, 0 or more";
    case 'r':
        return parse_real(value, 1e6, &options->learning_rate) ? NULL : "a number, 0 or more";
    case 'u':
        return parse_real(value, 1, &options->momentum) ? NULL : "a number from 0 to 1";
    case 'q':
        options->quiet = true;
        return NULL;
    default:
        options->help = true;
        return NULL;
    }
}

void options_print_help(const char *where)
{
    const char *name = program_invocation_short_name;
    printf("usage: %s [options]\n       mpirun -n RANKS %s [options]\n"
           "Trains a network on the MNIST digits, data parallel over the ranks of an MPI job.\n"
           "%s%s",
           name, name, where, help);
}

bool options_parse(int argc, char **argv, struct options *options, char *error, size_t error_size)
{
    *options = (struct options){.model = NETWORK_CONV,
                                .epochs = 3,
                                .batch = 64,
                                .learning_rate = 0.05,
                                .momentum = 0.9,
                                .seed = 1};
    int letter = 0, index = 0;
    optind = 1;
    while ((letter = getopt_long(argc, argv, ":", known, &index)) != -1) {
        if (letter == ':' || letter == '?') {
            snprintf(error, error_size, "%s %s",
                     letter == ':' ? "a value is missing after" : "unknown option",
                     argv[optind - 1]);
            return false;
        }
        const char *wanted = store(letter, optarg, options);
        if (wanted != NULL) {
            snprintf(error, error_size, "--%s takes %s, not '%s'", known[index].name, wanted,
                     optarg);
            return false;
        }
    }
    if (optind < argc) {
        snprintf(error, error_size, "unexpected argument '%s'", argv[optind]);
        return false;
    }
    return true;
}
