/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist/images.h"

#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Numbers of generated images, as in MNIST. */
enum { DRAWN_TRAINING = 60000, DRAWN_TEST = 10000 };
enum { MESSAGE_BYTES = PATH_MAX + 256 };

static const char images[] = "images-idx3", labels[] = "labels-idx1";

/* Finds a file of a folder, gzipped or plain. Returns false if there is neither; `path` then names
 * the plain file. */
static bool find_file(const char *directory, const char *set, const char *kind, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s-%s-ubyte.gz", directory, set, kind);
    if (access(path, F_OK) == 0)
        return true;
    snprintf(path, PATH_MAX, "%s/%s-%s-ubyte", directory, set, kind);
    return access(path, F_OK) == 0;
}

static bool read_pair(const char *directory, const char *name, struct image_set *set, char *error)
{
    char image_path[PATH_MAX], label_path[PATH_MAX];
    const char *missing = !find_file(directory, name, images, image_path)   ? image_path
                          : !find_file(directory, name, labels, label_path) ? label_path
                                                                            : NULL;
    if (missing == NULL)
        return idx_read_set(image_path, label_path, set, error, MESSAGE_BYTES);
    snprintf(error, MESSAGE_BYTES, "%s: no such file, nor with .gz (examples/get_mnist.sh gets it)",
             missing);
    return false;
}

static bool draw_all(int limit, struct dataset *dataset, char *error)
{
    int training = limit > 0 && limit < DRAWN_TRAINING ? limit : DRAWN_TRAINING;
    if (digits_draw(0, training, &dataset->training) &&
        digits_draw(DRAWN_TRAINING, DRAWN_TEST, &dataset->test))
        return true;
    snprintf(error, MESSAGE_BYTES, "no memory for %d images", training + DRAWN_TEST);
    return false;
}

/* Returns the first default folder that has MNIST's training images; if none has, returns NULL and
 * writes a list of the folders to `searched`. */
static const char *find_directory(char searched[MESSAGE_BYTES])
{
    const char *places[] = {getenv("MNIST_DIR"), "data/mnist"};
    char path[PATH_MAX];
    for (size_t i = 0; i < 2; i++)
        if (places[i] != NULL && find_file(places[i], "train", images, path))
            return places[i];
    snprintf(searched, MESSAGE_BYTES, "%s%s%s", places[0] != NULL ? places[0] : "",
             places[0] != NULL ? " or " : "", places[1]);
    return NULL;
}

/* Reads or generates the images, on rank 0. */
static bool obtain(const char *directory, int limit, bool quiet, struct dataset *dataset,
                   char *error)
{
    char searched[MESSAGE_BYTES];
    bool draw = directory != NULL && strcmp(directory, "generated") == 0;
    if (directory == NULL) {
        directory = find_directory(searched);
        draw = directory == NULL;
        if (draw)
            printf("no MNIST found in %s: training on generated digits\n", searched);
    } else if (draw) {
        printf("training on generated digits\n");
    }
    if (draw ? !draw_all(limit, dataset, error)
             : !read_pair(directory, "train", &dataset->training, error) ||
                   !read_pair(directory, "t10k", &dataset->test, error))
        return false;
    if (limit > 0 && limit < dataset->training.count)
        dataset->training.count = limit;
    if (!quiet)
        printf("data: %d training and %d test images %s%s\n", dataset->training.count,
               dataset->test.count, draw ? "drawn" : "from ", draw ? "" : directory);
    fflush(stdout);
    return true;
}

static void broadcast_set(struct image_set *set, int rank)
{
    MPI_Bcast(&set->count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank != 0) {
        set->pixels = malloc((size_t)set->count * IMAGE_PIXELS);
        set->labels = malloc((size_t)set->count);
        if (set->pixels == NULL || set->labels == NULL) {
            fprintf(stderr, "%s: rank %d: no memory for %d images\n", program_invocation_short_name,
                    rank, set->count);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    MPI_Bcast(set->pixels, set->count * IMAGE_PIXELS, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Bcast(set->labels, set->count, MPI_BYTE, 0, MPI_COMM_WORLD);
}

bool dataset_load(const char *directory, int limit, bool quiet, struct dataset *dataset)
{
    char error[MESSAGE_BYTES];
    int rank = 0, good = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        good = obtain(directory, limit, quiet, dataset, error);
        if (!good)
            fprintf(stderr, "%s: %s\n", program_invocation_short_name, error);
    }
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!good)
        return false;
    broadcast_set(&dataset->training, rank);
    broadcast_set(&dataset->test, rank);
    return true;
}
