/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a schedule on one segment, in stages. Between the stages the segment's messages
 * travel, while other segments are worked on. All functions return an error of the transport. */
#ifndef CSHIM_HOST_STEPS_H
#define CSHIM_HOST_STEPS_H

#include "shim/host/segment.h"

/* Encodes and sends: receives are posted, then parts are encoded and sent. */
int cshim_steps_begin(struct cshim_exchange *exchange, const struct cshim_segment *segment);
/* Adds a row's or column's parts once they have come, at their owner, and sends the sum on.
 * *done says whether the stage is over: a nonblocking exchange takes a stage again that is not. */
int cshim_steps_sum(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                    enum cshim_level level, bool *done);
/* Sends the sums of a column along the row once they have come. */
int cshim_steps_forward(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                        bool *done);
/* Decodes the sums once they have come, and what was sent is gone. */
int cshim_steps_finish(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       bool *done);

/* Returns true if ranks of a node may read each other's messages of a plan in the sender's scratch.
 */
bool cshim_steps_may_share(const struct cshim_plan *plan);
/* Follows all segments of an exchange that does: waits until no rank reads this rank's scratch any
 * more. The first call has `begins`; *done says whether the wait is over. */
int cshim_steps_close(struct cshim_exchange *exchange, bool begins, bool *done);

#endif
