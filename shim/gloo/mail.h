/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the ranks of a context that may not all have the shim: nobody waits to send one,
 * and a rank can look whether one has come.
 *
 * gloo announces a message before it sends it, and sends nothing that nobody asks for. So a rank
 * may send to one that lacks the shim, which is not disturbed. Not thread-safe. */
#ifndef CSHIM_GLOO_MAIL_H
#define CSHIM_GLOO_MAIL_H

#include "shim/gloo/abi.h"

struct cshim_gloo_letter; /* mail.c */

struct cshim_gloo_mail {
    const void *context; /* gloo::Context */
    bool is_broken;      /* gloo has thrown: the program's own call will find the same */
    struct cshim_gloo_letter *sent;
};

/* One message that is received. Zeros: none. */
struct cshim_gloo_inbox {
    struct cshim_gloo_buffer *buffer;
    const uint8_t *arrival; /* a byte of the message that is never 0 */
};

/* Sends a message to the ranks from `first` to before `end`. Does nothing once the mail is broken.
 */
void cshim_gloo_mail_send(struct cshim_gloo_mail *mail, uint64_t slot, int first, int end,
                          const void *message, size_t bytes);
/* Starts to receive a message of at most so many bytes, whose byte at `arrival` is never 0. */
void cshim_gloo_mail_expect(struct cshim_gloo_mail *mail, struct cshim_gloo_inbox *inbox, int from,
                            uint64_t slot, void *message, size_t bytes, size_t arrival);
/* Returns true if an expected message has come. Does not wait for one. */
bool cshim_gloo_mail_has_come(struct cshim_gloo_mail *mail, struct cshim_gloo_inbox *inbox,
                              int64_t timeout);
/* Waits for a message that is sure to come. Returns false if it did not. */
bool cshim_gloo_mail_await(struct cshim_gloo_mail *mail, struct cshim_gloo_inbox *inbox,
                           int64_t timeout);
/* Finds out whether the sender's connection is still open; if not, the mail is broken. */
void cshim_gloo_mail_look(struct cshim_gloo_mail *mail, const struct cshim_gloo_inbox *inbox);
/* Waits until all messages have been received by the ranks they were sent to, and frees them. */
void cshim_gloo_mail_finish(struct cshim_gloo_mail *mail, int64_t timeout);
/* Frees an inbox whose message does not come any more. */
void cshim_gloo_inbox_free(struct cshim_gloo_inbox *inbox);
/* Frees the messages. Those that nobody has asked for must last until gloo has freed the context.
 */
void cshim_gloo_mail_free(struct cshim_gloo_mail *mail);

#endif
