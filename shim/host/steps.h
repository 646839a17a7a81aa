/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a schedule on one segment, in three stages. Between the stages its messages travel,
 * while other segments are worked on. All functions return an error of the transport. */
#ifndef CSHIM_HOST_STEPS_H
#define CSHIM_HOST_STEPS_H

#include "shim/host/segment.h"

/* Encode and exchange: receives are posted, then parts are encoded and sent. */
int cshim_steps_begin(struct cshim_exchange *exchange, const struct cshim_segment *segment);
/* Sum and collect: the parts have come; the owner adds them and sends the sum on. *done says
 * whether the stage is over: a nonblocking exchange takes a stage again that is not. */
int cshim_steps_sum(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                    bool *done);
/* Decode: the sums have come, and what was sent is gone. */
int cshim_steps_finish(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       bool *done);

/* Inside a node the library itself adds the elements of a segment, and gathers the job's sums of
 * all shares. Around the stages above, in hierarchical. */
int cshim_steps_reduce_inside(struct cshim_exchange *exchange, const struct cshim_segment *segment);
int cshim_steps_gather_inside(struct cshim_exchange *exchange, const struct cshim_segment *segment);

#endif
