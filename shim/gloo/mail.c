/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/mail.h"

#include <stdlib.h>
#include <string.h>

/* A sent message, which is kept until it has been received. */
struct cshim_gloo_letter {
    struct cshim_gloo_letter *next;
    struct cshim_gloo_buffer *buffer;
    unsigned sends;
    unsigned char message[];
};

/* Returns true if there is no exception. Otherwise frees it and marks the mail as broken. */
static bool note_exception(struct cshim_gloo_mail *mail, void *exception)
{
    if (exception == NULL)
        return true;
    cshim_gloo_drop(exception);
    mail->is_broken = true;
    return false;
}

void cshim_gloo_mail_send(struct cshim_gloo_mail *mail, uint64_t slot, int first, int end,
                          const void *message, size_t bytes)
{
    void *exception = NULL;
    if (mail->is_broken || first >= end)
        return;
    struct cshim_gloo_letter *letter = calloc(1, sizeof *letter + bytes);
    if (letter == NULL) { /* other ranks may wait for the message */
        mail->is_broken = true;
        return;
    }
    memcpy(letter->message, message, bytes);
    letter->next = mail->sent;
    mail->sent = letter;
    letter->buffer = cshim_gloo_buffer_make(mail->context, letter->message, bytes, &exception);
    for (int to = first; to < end && exception == NULL; to++)
        if (cshim_gloo_send(letter->buffer, to, slot, 0, bytes, &exception) == 0)
            letter->sends++;
    note_exception(mail, exception);
}

void cshim_gloo_mail_expect(struct cshim_gloo_mail *mail, struct cshim_gloo_inbox *inbox, int from,
                            uint64_t slot, void *message, size_t bytes, size_t arrival)
{
    void *exception = NULL;
    cshim_gloo_inbox_free(inbox);
    if (mail->is_broken)
        return;
    memset(message, 0, bytes);
    inbox->buffer = cshim_gloo_buffer_make(mail->context, message, bytes, &exception);
    if (inbox->buffer != NULL)
        cshim_gloo_receive(inbox->buffer, from, slot, 0, bytes, &exception);
    if (note_exception(mail, exception))
        inbox->arrival = (const uint8_t *)message + arrival;
}

/* gloo cannot test for a message, and closes the context's connections if a wait exceeds its time
 * limit. So this function polls one byte, which gloo's thread writes. The other bytes may be read
 * only after gloo's own wait, which synchronises the two threads. */
bool cshim_gloo_mail_has_come(struct cshim_gloo_mail *mail, struct cshim_gloo_inbox *inbox,
                              int64_t timeout)
{
    return !mail->is_broken && inbox->arrival != NULL &&
           __atomic_load_n(inbox->arrival, __ATOMIC_ACQUIRE) != 0 &&
           cshim_gloo_mail_await(mail, inbox, timeout);
}

bool cshim_gloo_mail_await(struct cshim_gloo_mail *mail, struct cshim_gloo_inbox *inbox,
                           int64_t timeout)
{
    void *exception = NULL;
    if (mail->is_broken || inbox->arrival == NULL)
        return false;
    const int status = cshim_gloo_wait_received(inbox->buffer, timeout, &exception);
    if (status == CSHIM_GLOO_WOKEN && exception == NULL)
        exception = cshim_gloo_exception("gloo was aborted");
    inbox->arrival = NULL;
    return note_exception(mail, exception);
}

void cshim_gloo_mail_look(struct cshim_gloo_mail *mail, const struct cshim_gloo_inbox *inbox)
{
    void *exception = NULL;
    if (mail->is_broken || inbox->arrival == NULL)
        return;
    cshim_gloo_look(inbox->buffer, &exception);
    note_exception(mail, exception);
}

void cshim_gloo_mail_finish(struct cshim_gloo_mail *mail, int64_t timeout)
{
    void *exception = NULL;
    for (struct cshim_gloo_letter *letter = mail->sent; letter != NULL; letter = letter->next)
        for (; letter->sends > 0 && !mail->is_broken; letter->sends--)
            if (cshim_gloo_wait_sent(letter->buffer, timeout, &exception) != 0)
                note_exception(mail, exception);
    if (!mail->is_broken)
        cshim_gloo_mail_free(mail);
}

void cshim_gloo_inbox_free(struct cshim_gloo_inbox *inbox)
{
    cshim_gloo_buffer_free(inbox->buffer);
    *inbox = (struct cshim_gloo_inbox){.buffer = NULL};
}

void cshim_gloo_mail_free(struct cshim_gloo_mail *mail)
{
    while (mail->sent != NULL) {
        struct cshim_gloo_letter *letter = mail->sent;
        mail->sent = letter->next;
        cshim_gloo_buffer_free(letter->buffer);
        free(letter);
    }
}
