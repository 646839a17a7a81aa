/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a segment: headers, requests, and what became of them. */
#ifndef CSHIM_HOST_MESSAGE_H
#define CSHIM_HOST_MESSAGE_H

#include "shim/host/segment.h"

/* Writes the header of a message with so many elements. */
void cshim_message_write_header(const struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_message kind,
                                uint64_t elements, uint8_t *message);
/* Checks the header of a peer's message with so many elements, and notes the error that its sender
 * knows of. Ranks that disagree about a call are an erroneous program: the job ends, and both views
 * of the call are shown. */
void cshim_message_check_header(struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_message kind,
                                uint64_t elements, const uint8_t *message, int from);
/* Start a transfer of so many elements with a peer; what is sent is counted. Return an error of the
 * transport. */
int cshim_message_receive(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          enum cshim_transfer transfer, int from, uint64_t elements);
int cshim_message_send(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       enum cshim_transfer transfer, const uint8_t *message, int to,
                       uint64_t elements);
/* Completes a transfer with all peers: waits for it, unless the exchange is nonblocking; then *done
 * says whether it is complete. Returns an error of the transport. */
int cshim_message_complete(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                           enum cshim_transfer transfer, bool *done);

#endif
