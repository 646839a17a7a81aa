/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a schedule on one segment (shim/core/schedule.h), grouped by the stages of a pipeline
 * iteration. Between stages the segment's messages travel while other segments are worked on. For
 * one segment: begin, sum of the row, in a grid sum of the column and forward, finish. Functions
 * that return an int return an error of the transport. A stage that sets *done to false
 * (nonblocking exchanges only) is run again. */
#ifndef CSHIM_HOST_STEPS_H
#define CSHIM_HOST_STEPS_H

#include "shim/host/segment.h"

/* Posts the receives, then encodes and sends the contributions. */
int cshim_steps_begin(struct cshim_exchange *exchange, const struct cshim_segment *segment);
/* Waits for the contributions to this rank's elements, adds them, and sends the sum to those that
 * receive it. */
int cshim_steps_sum(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                    enum cshim_dimension dimension, bool *done);
/* Waits for the sums of the column, and forwards them along the row. */
int cshim_steps_forward(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                        bool *done);
/* Waits for the sums of all owners and decodes them; completes the sends. */
int cshim_steps_finish(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       bool *done);

/* Returns true if ranks of a node may read each other's messages in place, in the sender's scratch.
 */
bool cshim_steps_may_share(const struct cshim_plan *plan);
/* Called after the last segment if messages are read in place: waits until no rank reads this
 * rank's scratch any more. `begins` is true at the first call. */
int cshim_steps_close(struct cshim_exchange *exchange, bool begins, bool *done);

#endif
