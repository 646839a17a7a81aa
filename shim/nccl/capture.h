/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are captured into a CUDA graph. Their kernels and messages become nodes of the graph.
 * A graph may be launched at any time, also beside calls that are not captured. So the messages of
 * its calls lie in a workspace that belongs to the graph. */
#ifndef CSHIM_NCCL_CAPTURE_H
#define CSHIM_NCCL_CAPTURE_H

#include "shim/nccl/describe.h"

/* Looks whether a call is captured, and sets its capture_id and graph. Returns
 * CSHIM_REASON_COMPRESS if it can be compressed: nothing may be made or waited for while a stream
 * is captured, so the communicator must have been prepared before. NCCL has all ranks capture
 * alike. */
enum cshim_reason cshim_capture_look(struct cshim_nccl_call *call);

/* The workspace of a captured call: that of its communicator's last captured call if the graph is
 * the same one, else a new one. The graph gives it back when it ends. Returns NULL after an error
 * message if there is none to be had. */
struct cshim_workspace *cshim_capture_workspace(const struct cshim_nccl_call *call);

#endif
