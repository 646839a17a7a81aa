/* SPDX-License-Identifier: Apache-2.0 */
/* mnist_train and mnist_train_nccl: train a small network on handwritten digits with MPI, on
 * processors or GPUs. Ordinary programs that know nothing of compshim.
 *
 * Training is data-parallel: each rank computes the gradients of its share of each batch, an
 * all-reduce sums them, and every rank makes the same step. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/mnist/images.h"
#include "examples/mnist/network.h"
#include "examples/mnist/rng.h"

enum { STATUS_GOOD = 0, STATUS_FAILED = 1, STATUS_USAGE = 2, STATUS_NO_DEVICE = 3 };

/* Factor of the learning rate from one epoch to the next. */
static const double learning_rate_decay = 0.5;

/* Minimum seconds between two progress lines on a terminal. */
static const double progress_interval = 0.2;

/* Options of the command line. */
struct options {
    const char *data; /* NULL: the default folders */
    const char *log;  /* NULL: no log */
    enum network_model model;
    int epochs;
    int batch; /* images per step, over all ranks */
    int limit; /* maximum number of training images; 0: all */
    double learning_rate;
    double momentum;
    uint64_t seed;
    bool quiet;
    bool help;
};

struct trainer {
    const struct options *options;
    const struct dataset *dataset;
    struct network *network;
    int rank, ranks;
    int capacity;           /* maximum number of images of this rank in one pass */
    int steps_per_epoch;    /* the last step may be smaller */
    int *order;             /* the epoch's permutation of the training images */
    const uint8_t **pixels; /* images of one pass */
    uint8_t *labels;        /* labels of one pass */
    struct score *scores;   /* score of each step in the epoch */
    double *seconds;        /* training time at the end of each step */
    int *images;            /* images of each step */
    double train_seconds, allreduce_seconds;
    FILE *log;             /* rank 0's CSV file, or NULL */
    bool prints;           /* rank 0: prints a line per epoch */
    bool shows_progress;   /* prints progress to a terminal */
    double progress_shown; /* training seconds at the last progress line */
};

/* Returns the first item of share `part`, if `count` items are divided into `parts` nearly equal
 * shares. */
static int part_begin(int count, int part, int parts)
{
    return (int)((long long)count * part / parts);
}

static void trainer_init(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    MPI_Comm_rank(MPI_COMM_WORLD, &trainer->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &trainer->ranks);
    trainer->prints = trainer->rank == 0 && !options->quiet;
    trainer->shows_progress = trainer->prints && isatty(STDERR_FILENO);
    int images = trainer->dataset->training.count;
    trainer->capacity = (options->batch + trainer->ranks - 1) / trainer->ranks;
    trainer->steps_per_epoch = (images + options->batch - 1) / options->batch;
    trainer->network = network_new(options->model, trainer->capacity, options->seed);
    const int capacity = trainer->capacity;
    const size_t steps = (size_t)trainer->steps_per_epoch;
    trainer->order = host_memory(capacity, (size_t)images, sizeof *trainer->order);
    trainer->pixels = host_memory(capacity, (size_t)capacity, sizeof *trainer->pixels);
    trainer->labels = host_memory(capacity, (size_t)capacity, 1);
    trainer->scores = host_memory(capacity, steps, sizeof *trainer->scores);
    trainer->seconds = host_memory(capacity, steps, sizeof *trainer->seconds);
    trainer->images = host_memory(capacity, steps, sizeof *trainer->images);
}

/* Shuffles the training images (Fisher-Yates), equally on all ranks. */
static void shuffle(struct trainer *trainer, int epoch)
{
    uint64_t stream = rng_stream(trainer->options->seed, RNG_SHUFFLE, (uint64_t)epoch);
    int count = trainer->dataset->training.count;
    for (int i = 0; i < count; i++)
        trainer->order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int other = (int)(rng_bits(stream, (uint64_t)i) % ((uint64_t)i + 1));
        int kept = trainer->order[i];
        trainer->order[i] = trainer->order[other];
        trainer->order[other] = kept;
    }
}

/* Returns images `begin` to `end - 1` of a set, in the given order; NULL: as stored. */
static struct batch gather(const struct trainer *trainer, const struct image_set *set,
                           const int *order, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        int image = order != NULL ? order[i] : i;
        trainer->pixels[i - begin] = set->pixels + (size_t)image * IMAGE_PIXELS;
        trainer->labels[i - begin] = set->labels[image];
    }
    return (struct batch){end - begin, trainer->pixels, trainer->labels};
}

/* Makes one step; `step` counts within the epoch, `total` over all epochs. */
static void train_step(struct trainer *trainer, int step, int total, float learning_rate)
{
    const struct options *options = trainer->options;
    const struct image_set *set = &trainer->dataset->training;
    int first = step * options->batch;
    int size = set->count - first < options->batch ? set->count - first : options->batch;
    int begin = part_begin(size, trainer->rank, trainer->ranks);
    int end = part_begin(size, trainer->rank + 1, trainer->ranks);
    struct batch batch = gather(trainer, set, trainer->order, first + begin, first + end);

    /* The mean over ranks must be the mean over the batch, even if the ranks' shares differ. */
    float scale = (float)trainer->ranks / (float)size;
    uint64_t dropout = rng_stream(options->seed, RNG_DROPOUT, (uint64_t)total);
    trainer->scores[step] =
        network_step(trainer->network, &batch, scale, dropout, begin, learning_rate,
                     (float)options->momentum, &trainer->allreduce_seconds);
    trainer->images[step] = size;
}

/* Returns the test accuracy in percent, on rank 0. */
static double evaluate(struct trainer *trainer)
{
    const struct image_set *set = &trainer->dataset->test;
    int end = part_begin(set->count, trainer->rank + 1, trainer->ranks);
    int correct = 0, total = 0, count = 0;
    for (int i = part_begin(set->count, trainer->rank, trainer->ranks); i < end; i += count) {
        count = end - i < trainer->capacity ? end - i : trainer->capacity;
        struct batch batch = gather(trainer, set, NULL, i, i + count);
        correct += (int)network_evaluate(trainer->network, &batch).correct;
    }
    MPI_Reduce(&correct, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    return 100.0 * total / set->count;
}

/* Sums the ranks' scores of the epoch on rank 0. Returns the epoch's mean loss there. */
static double collect_scores(struct trainer *trainer)
{
    double loss = 0;
    int values = trainer->steps_per_epoch * (int)(sizeof *trainer->scores / sizeof(double));
    MPI_Reduce(trainer->rank == 0 ? MPI_IN_PLACE : trainer->scores, trainer->scores, values,
               MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; i < trainer->steps_per_epoch; i++)
        loss += trainer->scores[i].loss;
    return loss / trainer->dataset->training.count;
}

/* Prints the progress of the epoch, at most a few times per second. */
static void show_progress(struct trainer *trainer, int epoch, int step)
{
    double seconds = trainer->seconds[step];
    if (!trainer->shows_progress || seconds - trainer->progress_shown < progress_interval)
        return;
    trainer->progress_shown = seconds;
    fprintf(stderr, "\repoch %d/%d  step %d/%d  loss %.4f  %.0f s\033[K", epoch + 1,
            trainer->options->epochs, step + 1, trainer->steps_per_epoch,
            trainer->scores[step].loss * trainer->ranks / trainer->images[step], seconds);
}

/* Appends the steps of an epoch to the log, each with the mean accuracy of it and of up to 31 steps
 * before it in the epoch. */
static void log_steps(const struct trainer *trainer, int epoch)
{
    double correct = 0, images = 0;
    for (int i = 0; i < trainer->steps_per_epoch; i++) {
        correct += trainer->scores[i].correct - (i >= 32 ? trainer->scores[i - 32].correct : 0);
        images += trainer->images[i] - (i >= 32 ? trainer->images[i - 32] : 0);
        fprintf(trainer->log, "%d,%d,%.6f,%.9g,%.6f\n", epoch * trainer->steps_per_epoch + i + 1,
                epoch + 1, trainer->seconds[i], trainer->scores[i].loss / trainer->images[i],
                correct / images);
    }
    fflush(trainer->log);
}

static void train_epoch(struct trainer *trainer, int epoch, double *loss, double *accuracy)
{
    int steps = trainer->steps_per_epoch;
    double before = trainer->train_seconds, begin = MPI_Wtime();
    float rate = (float)(trainer->options->learning_rate * pow(learning_rate_decay, epoch));
    shuffle(trainer, epoch);
    for (int step = 0; step < steps; step++) {
        train_step(trainer, step, epoch * steps + step, rate);
        trainer->seconds[step] = before + MPI_Wtime() - begin;
        show_progress(trainer, epoch, step);
    }
    trainer->train_seconds = before + MPI_Wtime() - begin;
    *loss = collect_scores(trainer);
    *accuracy = evaluate(trainer);
    if (trainer->shows_progress)
        fprintf(stderr, "\r\033[K");
    if (trainer->prints) {
        printf("epoch %d/%d  loss %.4f  test accuracy %.2f %%  %.1f s\n", epoch + 1,
               trainer->options->epochs, *loss, *accuracy, trainer->train_seconds - before);
        fflush(stdout);
    }
    if (trainer->log != NULL)
        log_steps(trainer, epoch);
}

static void print_network(const struct trainer *trainer)
{
    struct model model = model_of(trainer->options->model);
    printf("model: %s, %zu parameters in %d tensors; batch %d, ranks %d\n",
           trainer->options->model == NETWORK_CONV ? "conv" : "mlp", model.parameters,
           2 * model.layer_count, trainer->options->batch, trainer->ranks);
    fflush(stdout);
}

/* Returns rank 0's value on all ranks. */
static bool agree(bool good)
{
    int verdict = good;
    MPI_Bcast(&verdict, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return verdict != 0;
}

/* Opens the log, if there is one. On failure rank 0 prints why, and all ranks return false. */
static bool open_log(struct trainer *trainer)
{
    const char *path = trainer->rank == 0 ? trainer->options->log : NULL;
    if (path != NULL)
        trainer->log = fopen(path, "w");
    if (trainer->log != NULL)
        fprintf(trainer->log, "step,epoch,seconds,loss,accuracy\n");
    else if (path != NULL)
        fprintf(stderr, "%s: %s: cannot be written: %s\n", program_invocation_short_name, path,
                strerror(errno));
    return agree(path == NULL || trainer->log != NULL);
}

/* Closes the log. If not all of it was written, rank 0 prints so, and all ranks return false. */
static bool close_log(struct trainer *trainer)
{
    bool failed = trainer->log != NULL && ferror(trainer->log) != 0;
    failed = (trainer->log != NULL && fclose(trainer->log) != 0) || failed;
    if (failed)
        fprintf(stderr, "%s: %s: not all of the log could be written\n",
                program_invocation_short_name, trainer->options->log);
    return agree(!failed);
}

/* Trains and prints results (collective over MPI_COMM_WORLD). There must not be more ranks than
 * images in a batch. Returns false on all ranks, after a message of rank 0, if the log cannot be
 * written; a rank that has no memory aborts the job. */
static bool train(const struct options *options, const struct dataset *dataset)
{
    struct trainer trainer = {.options = options, .dataset = dataset};
    double loss = 0, accuracy = 0;
    trainer_init(&trainer);
    bool good = open_log(&trainer);
    if (good && trainer.prints)
        print_network(&trainer);
    for (int epoch = 0; good && epoch < options->epochs; epoch++)
        train_epoch(&trainer, epoch, &loss, &accuracy);
    good = close_log(&trainer) && good;
    if (good && trainer.rank == 0) {
        double steps = (double)trainer.steps_per_epoch * options->epochs;
        printf("final: test accuracy %.2f %%  loss %.4f  train time %.3f s  step %.1f ms  "
               "allreduce %.1f %%\n",
               accuracy, loss, trainer.train_seconds, 1e3 * trainer.train_seconds / steps,
               100 * trainer.allreduce_seconds / trainer.train_seconds);
    }
    network_end(trainer.network);
    return good;
}

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
    "  --log FILE      write time, loss and accuracy of each step as CSV\n"
    "  --quiet         print the last line only\n"
    "  --help          print this\n";

static bool parse_integer(const char *text, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

/* Reads an integer from 1 to `highest`. Returns false for any other text. */
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

static const struct option known[] = {
    {"data", required_argument, NULL, 'd'},     {"log", required_argument, NULL, 'o'},
    {"model", required_argument, NULL, 'm'},    {"epochs", required_argument, NULL, 'e'},
    {"batch", required_argument, NULL, 'b'},    {"lr", required_argument, NULL, 'r'},
    {"momentum", required_argument, NULL, 'u'}, {"seed", required_argument, NULL, 's'},
    {"limit", required_argument, NULL, 'l'},    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};

/* Stores an option. Returns NULL, or a description of the values that it takes. */
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
        options->model = strcmp(value, "mlp") == 0 ? NETWORK_MLP : NETWORK_CONV;
        return options->model == NETWORK_MLP || strcmp(value, "conv") == 0 ? NULL : "conv or mlp";
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

/* Prints the text of --help. */
static void print_help(void)
{
    const char *name = program_invocation_short_name;
    printf("usage: %s [options]\n       mpirun -n RANKS %s [options]\n"
           "Trains a network on the MNIST digits, data parallel over the ranks of an MPI job.\n"
           "%s%s",
           name, name, device_help, help);
}

/* Reads the command line; strings point into argv. Returns false, with a one-line message, if an
 * option or its value is wrong. Uses getopt's globals: not thread-safe. */
static bool parse_options(int argc, char **argv, struct options *options, char *error,
                          size_t error_size)
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

static int run(int argc, char **argv)
{
    struct options options;
    struct dataset dataset;
    char error[256];
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bool is_good = parse_options(argc, argv, &options, error, sizeof error);
    if (is_good && ranks > options.batch) {
        is_good = false;
        snprintf(error, sizeof error,
                 "a batch of %d images cannot be shared by %d ranks: use --batch %d or fewer ranks",
                 options.batch, ranks, ranks);
    }
    if (!is_good) {
        if (rank == 0)
            fprintf(stderr, "%s: %s\n%s --help lists the options\n", program_invocation_short_name,
                    error, program_invocation_short_name);
        return STATUS_USAGE;
    }
    if (options.help) {
        if (rank == 0)
            print_help();
        return STATUS_GOOD;
    }
    if (!device_start())
        return STATUS_NO_DEVICE;
    if (!dataset_load(options.data, options.limit, options.quiet, &dataset))
        return STATUS_FAILED;
    return train(&options, &dataset) ? STATUS_GOOD : STATUS_FAILED;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int status = run(argc, argv);
    MPI_Finalize();
    return status;
}
