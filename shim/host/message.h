/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a segment: headers, requests, and what became of them. */
#ifndef CSHIM_HOST_MESSAGE_H
#define CSHIM_HOST_MESSAGE_H

#include "shim/host/segment.h"

/* The bytes that so many elements of a message of a kind take, which are at `encoded`. */
size_t cshim_message_bytes(const struct cshim_exchange *exchange, enum cshim_message kind,
                           uint64_t elements, const uint8_t *encoded);

/* The number of a transfer's request with the peer at place 0; those at the other places follow. */
unsigned cshim_message_request(const struct cshim_exchange *exchange,
                               const struct cshim_segment *segment, enum cshim_transfer transfer);

/* The peer at a place of this rank's row or column. */
int cshim_message_peer(const struct cshim_exchange *exchange, enum cshim_level level, int place);

/* Whether this rank's messages can be read in its scratch. */
bool cshim_message_is_read(const struct cshim_exchange *exchange);

/* The shared scratch of another peer, which this rank's is read by, too; or NULL. */
const uint8_t *cshim_message_scratch(const struct cshim_exchange *exchange, int peer);

/* Writes the header of a message with so many elements. */
void cshim_message_write_header(const struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_message kind,
                                uint64_t elements, uint8_t *message);

/* Starts to receive the message of a transfer with a peer, if there is one. Returns an error of the
 * transport. */
int cshim_message_receive(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          enum cshim_transfer transfer, int from);

/* Starts to send a message of so many bytes to a peer, and counts them. Returns an error of the
 * transport. */
int cshim_message_send(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       enum cshim_transfer transfer, const uint8_t *message, int to, size_t bytes);

/* Checks the header of a peer's message that has come, and returns its elements: where the peer
 * encoded them, if this rank can read that. This rank's own are where a peer's would be. If the
 * message is of another call, exchange->failed is set, and nothing there may be decoded. */
const uint8_t *cshim_message_elements(struct cshim_exchange *exchange,
                                      const struct cshim_segment *segment,
                                      enum cshim_transfer transfer, int from);

/* Warns that rank `rank` has waited CSHIM_SLOW_SECONDS for the message that is awaited, and names
 * the peers of which none of it has come. rank_of gives a peer's rank in the user's terms. Any
 * thread may call it while cshim_message_complete has not returned. */
void cshim_message_report_wait(const struct cshim_exchange *exchange, int rank,
                               int (*rank_of)(const struct cshim_exchange *exchange, int peer));

/* Completes a transfer with all peers: waits for it, unless the exchange is nonblocking; then *done
 * says whether it is complete. What came to a receive that failed is compared with what was to
 * come. Returns an error of the transport. */
int cshim_message_complete(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                           enum cshim_transfer transfer, bool *done);

#endif
