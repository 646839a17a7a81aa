/* SPDX-License-Identifier: Apache-2.0 */
/* The end of both networks, in float64 on the host and on the GPU. Reentrant. */
#ifndef MNIST_SOFTMAX_H
#define MNIST_SOFTMAX_H

#include <math.h>

#include "examples/mnist/portable.h"

/* Log-softmax and negative log likelihood of one row of `classes` values. Turns the row into its
 * gradient times `scale`, returns the loss, and sets *answer to the likeliest class. */
HOST_AND_DEVICE static inline double softmax_loss(float *row, int classes, int label, float scale,
                                                  int *answer)
{
    int best = 0;
    for (int i = 1; i < classes; i++)
        best = row[i] > row[best] ? i : best;
    float highest = row[best];
    double sum = exp((double)(row[0] - highest));
    for (int i = 1; i < classes; i++)
        sum += exp((double)(row[i] - highest));
    double log_sum = log(sum) + (double)highest;
    double loss = log_sum - (double)row[label];
    for (int i = 0; i < classes; i++)
        row[i] = scale * (float)(exp((double)row[i] - log_sum) - (i == label ? 1.0 : 0.0));
    *answer = best;
    return loss;
}

#endif
