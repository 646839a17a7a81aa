/* SPDX-License-Identifier: Apache-2.0 */
/* The error of sums by every codec against float64, for data of many kinds: each element within the
 * published bound. Prints the relative L2 error of each codec and kind, for comparing numbers of
 * ranks.
 *
 *   mpi_sum_error ALGORITHM [--policy]
 *
 * With --policy it prints the policy to run it under. */

#include <mpi.h>

#include "tests/mpi/job.h"
#include "tests/mpi/lossy.h"

enum data { NORMAL, HEAVY, SPARSE, TINY, HUGE_VALUES, CANCELLING, DATA_COUNT };
static const char *const data_names[] = {"normal", "heavy", "sparse", "tiny", "huge", "cancelling"};

static enum cshim_algorithm algorithm;

/* One element. `own` is this rank's stream of random numbers, `common` one that all ranks share. */
static double element(enum data data, unsigned short own[3], unsigned short common[3])
{
    switch (data) {
    case HEAVY: /* Student's t with 3 degrees of freedom: outliers in every block */
        return lossy_normal(own) / sqrt((pow(lossy_normal(own), 2) + pow(lossy_normal(own), 2) +
                                         pow(lossy_normal(own), 2)) /
                                        3);
    case SPARSE: /* 19 in 20 are zero, on different places on each rank */
        return erand48(own) < 0.05 ? lossy_normal(own) : 0;
    case TINY: /* below float32's normal range */
        return lossy_normal(own) * 1e-40;
    case HUGE_VALUES: /* signs alternate, so that no partial sum leaves float32's range */
        return (rank % 2 != 0 ? -1e38 : 1e38) * (0.5 + 0.5 * erand48(own));
    case CANCELLING: /* what every second rank has, the next takes away, but for a thousandth */
        return (rank % 2 != 0 ? -1 : 1) * lossy_normal(common) + 1e-3 * lossy_normal(own);
    case NORMAL:
    case DATA_COUNT:
        break;
    }
    return lossy_normal(own);
}

static void make_data(enum data data, enum cshim_codec_id codec, float *values, size_t count)
{
    unsigned short own[3], common[3];
    lossy_seed((unsigned)rank + 1, (unsigned)data, (unsigned)codec, own);
    lossy_seed(0, (unsigned)data, (unsigned)codec, common);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)element(data, own, common);
}

static void compare(const struct lossy_reference *reference, enum data data,
                    enum cshim_codec_id codec, const float *result, size_t count)
{
    double errors = 0, sums = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        const double error = fabs((double)result[i] - reference->sum[i]);
        const double scale = data == TINY ? 0x1p130 : data == HUGE_VALUES ? 0x1p-120 : 1;
        errors += pow(error * scale, 2);
        sums += pow(reference->sum[i] * scale, 2);
        if (error > 0)
            worst = fmax(worst, error / reference->bound[i]);
        if (!(error <= reference->bound[i]) && failures++ < 10)
            fprintf(stderr, "%s by %s, %s, element %zu: got %.9g, want %.9g, bound %.3g\n",
                    cshim_codec_name(codec), cshim_algorithm_name(algorithm), data_names[data], i,
                    result[i], reference->sum[i], reference->bound[i]);
    }
    printf("error %s %s %.6e of the bound at most %.3f\n", cshim_codec_name(codec),
           data_names[data], sqrt(errors / sums), worst);
}

static void run(enum data data, enum cshim_codec_id codec)
{
    const size_t count = lossy_count(codec, LOSSY_MEDIUM);
    float *own = malloc(count * sizeof *own), *result = malloc(count * sizeof *result);
    float *all = malloc(count * sizeof *all * (size_t)ranks);
    make_data(data, codec, own, count);
    MPI_Gather(own, (int)count, MPI_FLOAT, all, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    MPI_Allreduce(own, result, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        const struct lossy_reference reference =
            lossy_reference(cshim_codec_info(codec), algorithm, all, ranks, count);
        compare(&reference, data, codec, result, count);
        free(reference.sum), free(reference.bound);
    }
    free(own), free(result), free(all);
}

int main(int argc, char **argv)
{
    algorithm = lossy_arguments(argc, argv);
    job_begin(&argc, &argv);
    for (int codec = 1; codec < CSHIM_CODEC_COUNT; codec++) {
        for (int data = 0; data < DATA_COUNT; data++) {
            if (lossy_has((enum cshim_codec_id)codec, algorithm))
                run((enum data)data, (enum cshim_codec_id)codec);
        }
    }
    return job_end("");
}
