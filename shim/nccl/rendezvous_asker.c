/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/rendezvous_durations.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/nccl/rendezvous_wire.h"

struct question {
    enum { NONE, TO_SEND, SENT, ANSWERED } state;
    bool has_sent; /* bytes of a question about this decision were sent: rank 0 may have it */
    struct cshim_ask ask;
    struct cshim_answer answer;
};

struct cshim_asker {
    struct cshim_tag tag;
    int socket; /* -1: no connection */
    bool is_lost;
    uint32_t sending;      /* class whose question is being sent; CSHIM_CLASSES_MAX: none */
    size_t sent, received; /* bytes so far of the request being sent, the reply being received */
    struct cshim_request request;
    struct cshim_reply reply;
    struct question questions[CSHIM_CLASSES_MAX];
};

void cshim_durations_reach_inside(struct cshim_tag *at)
{
    const struct in_addr inside = {htonl(INADDR_LOOPBACK)};
    *at = (struct cshim_tag){.family = AF_INET};
    memcpy(at->address, &inside, sizeof inside);
}

struct cshim_asker *cshim_asker_make(const struct cshim_tag *tag, uint32_t rank, uint32_t ranks)
{
    struct cshim_asker *asker = calloc(1, sizeof *asker);
    if (asker == NULL)
        return NULL;
    asker->tag = *tag;
    asker->socket = -1;
    asker->sending = CSHIM_CLASSES_MAX;
    asker->request.magic = CSHIM_REQUEST_MAGIC;
    asker->request.kind = CSHIM_REQUEST_ASK;
    asker->request.nonce = tag->nonce;
    asker->request.hello.rank = rank;
    asker->request.hello.ranks = ranks;
    return asker;
}

static void close_asker(struct cshim_asker *asker)
{
    if (asker->socket >= 0)
        close(asker->socket);
    asker->socket = -1;
}

void cshim_asker_free(struct cshim_asker *asker)
{
    if (asker == NULL)
        return;
    close_asker(asker);
    free(asker);
}

/* Returns the first class whose question is in a state, or CSHIM_CLASSES_MAX. */
static uint32_t first_in(const struct cshim_asker *asker, int state)
{
    uint32_t class = 0;
    while (class < CSHIM_CLASSES_MAX && (int)asker->questions[class].state != state)
        class ++;
    return class;
}

static bool has_open(const struct cshim_asker *asker)
{
    return first_in(asker, TO_SEND) < CSHIM_CLASSES_MAX ||
           first_in(asker, SENT) < CSHIM_CLASSES_MAX;
}

/* Begins a connection; returns false and sets errno if that fails. Questions that were sent on the
 * previous connection but not answered are sent again; rank 0 gives the same answers. */
static bool begin_connection(struct cshim_asker *asker)
{
    asker->socket = cshim_tag_connect(&asker->tag);
    asker->sending = CSHIM_CLASSES_MAX;
    asker->sent = asker->received = 0;
    for (uint32_t class = 0; class < CSHIM_CLASSES_MAX; class ++)
        if (asker->questions[class].state == SENT)
            asker->questions[class].state = TO_SEND;
    return asker->socket >= 0 && (errno == 0 || errno == EINPROGRESS || errno == EINTR);
}

/* Sends the questions in state TO_SEND, as far as possible without waiting. Returns false if the
 * connection is gone. */
static bool send_questions(struct cshim_asker *asker)
{
    for (;;) {
        if (asker->sending == CSHIM_CLASSES_MAX) {
            asker->sending = first_in(asker, TO_SEND);
            if (asker->sending == CSHIM_CLASSES_MAX)
                return true;
            asker->request.ask = asker->questions[asker->sending].ask;
            asker->sent = 0;
        }
        const enum cshim_moved moved =
            cshim_move(asker->socket, true, &asker->request, sizeof asker->request, &asker->sent);
        asker->questions[asker->sending].has_sent |= asker->sent > 0;
        if (moved != CSHIM_MOVED_ALL)
            return moved == CSHIM_MOVED_SOME;
        asker->questions[asker->sending].state = SENT;
        asker->sending = CSHIM_CLASSES_MAX;
    }
}

/* Receives the answers that have come. Returns false if the connection is gone or an answer is not
 * to an open question. */
static bool receive_answers(struct cshim_asker *asker)
{
    while (first_in(asker, SENT) < CSHIM_CLASSES_MAX) {
        const enum cshim_moved moved =
            cshim_move(asker->socket, false, &asker->reply, sizeof asker->reply, &asker->received);
        if (moved != CSHIM_MOVED_ALL)
            return moved == CSHIM_MOVED_SOME;
        const struct cshim_answer *answer = &asker->reply.answer;
        asker->received = 0;
        if (answer->class >= CSHIM_CLASSES_MAX || asker->questions[answer->class].state != SENT)
            return false;
        asker->questions[answer->class].answer = *answer;
        asker->questions[answer->class].state = ANSWERED;
    }
    return true;
}

/* A refused connection means that rank 0's process has ended. After other errors the next call
 * connects again. */
void cshim_asker_advance(struct cshim_asker *asker)
{
    if (asker->is_lost || !has_open(asker))
        return;
    errno = 0; /* still 0 if an answer is invalid */
    if ((asker->socket >= 0 || begin_connection(asker)) && send_questions(asker) &&
        receive_answers(asker))
        return;
    asker->is_lost = errno == ECONNREFUSED;
    close_asker(asker);
}

void cshim_asker_ask(struct cshim_asker *asker, const struct cshim_ask *ask)
{
    struct question *question = &asker->questions[ask->class];
    question->has_sent = question->has_sent && question->ask.decision == ask->decision;
    question->ask = *ask;
    question->state = TO_SEND;
    cshim_asker_advance(asker);
}

enum cshim_asked cshim_asker_take(struct cshim_asker *asker, uint32_t class,
                                  struct cshim_answer *answer)
{
    struct question *question = &asker->questions[class];
    cshim_asker_advance(asker);
    if (!question->has_sent) {
        question->state = NONE;
        asker->sending = asker->sending == class ? CSHIM_CLASSES_MAX : asker->sending;
        *answer = (struct cshim_answer){.is_known = 1, .class = class};
        return CSHIM_ASKED_ANSWERED;
    }
    if (question->state != ANSWERED)
        return asker->is_lost ? CSHIM_ASKED_LOST : CSHIM_ASKED_OPEN;
    *answer = question->answer;
    question->state = NONE;
    if (answer->is_in_force && !has_open(asker))
        close_asker(asker);
    return answer->is_known ? CSHIM_ASKED_ANSWERED : CSHIM_ASKED_LOST;
}

void cshim_asker_wait(const struct cshim_asker *asker, int milliseconds)
{
    const bool is_sending = first_in(asker, TO_SEND) < CSHIM_CLASSES_MAX;
    struct pollfd polled = {.fd = asker->socket, /* poll() ignores -1 */
                            .events = (short)(is_sending ? POLLIN | POLLOUT : POLLIN)};
    poll(&polled, 1, milliseconds);
}
