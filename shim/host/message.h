/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a segment: headers, receives, sends, and waiting for them; and the time that a call
 * spends in its phases. The functions that take an operation execute part of it
 * (shim/core/operation.h). */
#ifndef CSHIM_HOST_MESSAGE_H
#define CSHIM_HOST_MESSAGE_H

#include "shim/host/exchange.h"

/* Requests (transport.h) belong to transfers: transfer 2 m has the receives of messages of type m
 * (enum cshim_message), transfer 2 m + 1 the sends. Each transfer has a request for each segment in
 * flight and each index of the row or column. Requests are numbered by transfer, then slot, then
 * index. */
#define CSHIM_ROW_TRANSFERS (2 * CSHIM_ROW_MESSAGES)
#define CSHIM_TRANSFERS (2 * CSHIM_MESSAGES)

/* Upper bound of the number of requests of all segments in flight between `peers` peers. A grid of
 * p peers has twice the transfers, but at most p / 2 + 1 indices. */
#define CSHIM_REQUESTS(peers)                                                                      \
    (CSHIM_SEGMENTS_IN_FLIGHT * CSHIM_ROW_TRANSFERS * ((unsigned)(peers) + 2))

/* Returns the bytes of `elements` encoded elements of a type of message; `encoded` points to them.
 */
size_t cshim_message_bytes(const struct cshim_exchange *exchange, enum cshim_message type,
                           uint64_t elements, const uint8_t *encoded);

/* Returns true if the other ranks of this node read this rank's messages in place (shared memory).
 */
bool cshim_message_is_read_in_place(const struct cshim_exchange *exchange);

/* Returns the shared scratch of another peer if this rank may read messages there; otherwise NULL.
 * The header of each message says whether its elements are there (cshim_header_is_shared). */
const uint8_t *cshim_message_scratch(const struct cshim_exchange *exchange, uint32_t peer);

/* Writes the header of a message into the segment's scratch. */
void cshim_message_write_header(const struct cshim_exchange *exchange,
                                const struct cshim_flight *flight,
                                const struct cshim_operation *operation);

/* Starts to receive a message. Returns 0 or a transport error. */
int cshim_message_receive(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                          const struct cshim_operation *operation);

/* Starts to send a message of `bytes` bytes, and counts them. Sends the header only, if the
 * receiver reads the rest in place. Returns 0 or a transport error. */
int cshim_message_send(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                       const struct cshim_operation *operation, size_t bytes);

/* Checks the header of a received message, and returns its encoded elements: in the sender's
 * scratch, if they are read in place. Returns this rank's own message unchecked. If the message
 * belongs to another call, sets exchange->failed, and nothing may be decoded. */
const uint8_t *cshim_message_elements(struct cshim_exchange *exchange,
                                      const struct cshim_flight *flight,
                                      const struct cshim_operation *operation);

/* Warns that rank `rank` has waited CSHIM_SLOW_SECONDS for the awaited messages, and names the
 * peers from which nothing has arrived. `rank_of` converts a peer to a rank that the user knows.
 * May be called by any thread while cshim_message_wait() runs. */
void cshim_message_report_wait(const struct cshim_exchange *exchange, int rank,
                               int (*rank_of)(const struct cshim_exchange *exchange, int peer));

/* Executes the flight's next operation, a WAIT. Waits, unless the exchange is nonblocking. Sets
 * *done to whether the operation is complete. If MPI finds a message longer than its buffer, checks
 * the message's header. Returns 0 or a transport error. */
int cshim_message_wait(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                       bool *done);

/* Adds the time since exchange->mark to a phase and, if there is a trace, traces it unless it is
 * below 2 us. Called when the phase ends or is interrupted. */
void cshim_phase_end(struct cshim_exchange *exchange, enum cshim_phase phase);

#endif
