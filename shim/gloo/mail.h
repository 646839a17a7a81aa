/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the ranks of a context that may not all have the shim. Sending never waits, and
 * a rank can test whether a message has arrived.
 *
 * gloo announces a message to the receiver, and sends it only when the receiver asks for it. So a
 * message to a rank that lacks the shim does not disturb that rank. Not thread-safe. */
#ifndef CSHIM_GLOO_MAIL_H
#define CSHIM_GLOO_MAIL_H

#include "shim/gloo/abi.h"

struct cshim_gloo_letter; /* mail.c */

struct cshim_gloo_mail {
    const void *context; /* gloo::Context */
    bool is_broken; /* no more messages: gloo threw, there was no memory, or the owner set it */
    struct cshim_gloo_letter *sent;
};

/* A receive. All zero: none. */
struct cshim_gloo_inbox {
    struct cshim_gloo_buffer *buffer;
    const uint8_t *arrival; /* byte that cshim_gloo_mail_has_come() polls; NULL: none expected */
};

/* Sends a message to the ranks from `first` to before `end`. Does nothing once the mail is broken.
 */
void cshim_gloo_mail_send(struct cshim_gloo_mail *mail, uint64_t slot, int first, int end,
                          const void *message, size_t bytes);
/* Starts to receive a message of at most `bytes` bytes. cshim_gloo_mail_has_come() needs a message
 * whose byte at offset `arrival` is not 0; cshim_gloo_mail_await() takes any message. */
void cshim_gloo_mail_expect(struct cshim_gloo_mail *mail, struct cshim_gloo_inbox *inbox, int from,
                            uint64_t slot, void *message, size_t bytes, size_t arrival);
/* Returns true, once, if the expected message has arrived. Waits, at most `timeout` milliseconds,
 * only if its byte at offset `arrival` is there and the rest is not. */
bool cshim_gloo_mail_has_come(struct cshim_gloo_mail *mail, struct cshim_gloo_inbox *inbox,
                              int64_t timeout);
/* Waits for an expected message, at most `timeout` milliseconds. Returns false if none is expected,
 * or if it does not arrive, which breaks the mail. */
bool cshim_gloo_mail_await(struct cshim_gloo_mail *mail, struct cshim_gloo_inbox *inbox,
                           int64_t timeout);
/* Checks that the sender's connection is still open; if not, marks the mail as broken. */
void cshim_gloo_mail_look(struct cshim_gloo_mail *mail, const struct cshim_gloo_inbox *inbox);
/* Waits until all sent messages have been received, at most `timeout` milliseconds for each, and
 * frees them. Frees none if the mail is broken. */
void cshim_gloo_mail_finish(struct cshim_gloo_mail *mail, int64_t timeout);
/* Frees a receive, also of a message that never arrives. */
void cshim_gloo_inbox_free(struct cshim_gloo_inbox *inbox);
/* Frees the sent messages. Messages that have not been received may be freed only after gloo has
 * freed the context. */
void cshim_gloo_mail_free(struct cshim_gloo_mail *mail);

#endif
