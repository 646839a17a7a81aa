/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a segment: headers, sends, receives, and waiting for them. `transfer` says which
 * message (segment.h); `from` and `to` are indices in this rank's row or column. */
#ifndef CSHIM_HOST_MESSAGE_H
#define CSHIM_HOST_MESSAGE_H

#include "shim/host/segment.h"

/* Returns the bytes of `elements` encoded elements of a kind of message; `encoded` points to them.
 */
size_t cshim_message_bytes(const struct cshim_exchange *exchange, enum cshim_message kind,
                           uint64_t elements, const uint8_t *encoded);

/* Returns the number of a transfer's request with index 0; the other indices follow. */
unsigned cshim_message_request(const struct cshim_exchange *exchange,
                               const struct cshim_segment *segment, enum cshim_transfer transfer);

/* Returns the peer at an index of this rank's row or column. */
int cshim_message_peer(const struct cshim_exchange *exchange, enum cshim_dimension dimension,
                       int place);

/* Returns true if the other ranks of this node read this rank's messages in place (shared memory).
 */
bool cshim_message_is_read_in_place(const struct cshim_exchange *exchange);

/* Returns the scratch of another peer if both ranks read each other's in place; otherwise NULL. */
const uint8_t *cshim_message_scratch(const struct cshim_exchange *exchange, int peer);

/* Writes the header of a message with `elements` elements. */
void cshim_message_write_header(const struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_message kind,
                                uint64_t elements, uint8_t *message);

/* Starts to receive the message of a transfer; does nothing if it has no elements. Returns an error
 * of the transport. */
int cshim_message_receive(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          enum cshim_transfer transfer, int from);

/* Starts to send a message of `bytes` bytes, and counts them. Sends the header only, if the
 * receiver reads the rest in place. Returns an error of the transport. */
int cshim_message_send(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       enum cshim_transfer transfer, const uint8_t *message, int to, size_t bytes);

/* Checks the header of a received message, and returns its encoded elements: in the sender's
 * scratch, if they are read in place. For this rank's own index, returns its own elements. If the
 * message belongs to another call, sets exchange->failed, and nothing may be decoded. */
const uint8_t *cshim_message_elements(struct cshim_exchange *exchange,
                                      const struct cshim_segment *segment,
                                      enum cshim_transfer transfer, int from);

/* Warns that rank `rank` has waited CSHIM_SLOW_SECONDS for the awaited transfer, and names the
 * peers from which nothing has arrived. `rank_of` converts a peer to a rank that the user knows.
 * May be called by any thread while cshim_message_complete() runs. */
void cshim_message_report_wait(const struct cshim_exchange *exchange, int rank,
                               int (*rank_of)(const struct cshim_exchange *exchange, int peer));

/* Completes a transfer with all peers. Waits, unless the exchange is nonblocking; then sets *done.
 * If a message was longer than its buffer, checks its header. Returns an error of the transport. */
int cshim_message_complete(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                           enum cshim_transfer transfer, bool *done);

#endif
