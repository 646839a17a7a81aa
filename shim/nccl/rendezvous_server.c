/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that answers the ranks of all ids that this process makes.
 *
 * A connection carries requests, one after the other. It goes round: READING a request, HELD until
 * there is an answer, WRITING the reply, and behind it the policy's text if that was asked for.
 * What does not send requests of a rank is hung up on. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/nccl/rendezvous_wire.h"

/* A stranger is a connection without a request so far. It is no rank after REQUEST_SECONDS, and so
 * many are kept at once. */
#define REQUEST_SECONDS 5.0
#define STRANGERS_MAX 256
/* A rank takes its answer within this. */
#define ANSWER_SECONDS 30.0
/* Without room for another connection, none is taken for so long. */
#define PAUSE_SECONDS 0.1

struct connection {
    int socket; /* -1: closed, to be forgotten */
    enum { READING, HELD, WRITING } state;
    double since; /* it is in this state */
    bool known;   /* it has made a request */
    size_t done;  /* bytes read or written */
    struct cshim_request request;
    struct cshim_reply reply;
    const struct cshim_offer *offer; /* its text follows the reply, or NULL */
};

/* A policy as it was offered. Never freed: most programs have one. */
struct kept_offer {
    struct cshim_offer offer;
    struct kept_offer *next;
    char text[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of this, and sessions */
static struct kept_offer *offers;
static bool is_running;
static struct cshim_tag listening; /* where */
static int listener;
static double paused; /* no connections are taken before this time; 0: they are */
static struct connection **connections;
static size_t count;
static size_t room;
static struct pollfd *polled; /* room + 1 of them: the listener's is the first */

static void enter(struct connection *connection, int state)
{
    connection->state = state;
    connection->since = cshim_seconds();
    connection->done = 0;
}

static void close_connection(struct connection *connection)
{
    close(connection->socket);
    connection->socket = -1;
}

/* The other side is gone, or does not behave. */
static void hang_up(struct connection *connection)
{
    struct cshim_session *session =
        connection->known ? cshim_session_find(connection->request.nonce) : NULL;
    if (session != NULL)
        cshim_session_break(session, connection->request.hello.rank, cshim_seconds());
    close_connection(connection);
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* Takes in a request. It may be incomplete, but its first bytes tell strangers. */
static void handle(struct connection *connection)
{
    const struct cshim_request *request = &connection->request;
    if (connection->done < sizeof request->magic)
        return;
    if (request->magic != CSHIM_REQUEST_MAGIC) {
        close_connection(connection);
        return;
    }
    if (connection->done < sizeof *request)
        return;
    struct cshim_session *session = cshim_session_find(request->nonce);
    if (session == NULL || request->kind >= CSHIM_REQUEST_KINDS ||
        !cshim_session_hear(session, request, cshim_seconds()) ||
        request->kind == CSHIM_REQUEST_DONE) {
        close_connection(connection);
        return;
    }
    connection->known = true;
    enter(connection, HELD);
}

/* From a connection that is HELD nothing is due: it has ended, or sends rubbish. */
static void read_more(struct connection *connection)
{
    const bool is_due = connection->state == READING;
    uint8_t unwanted, *request = (uint8_t *)&connection->request;
    const ssize_t got =
        recv(connection->socket, is_due ? request + connection->done : &unwanted,
             is_due ? sizeof connection->request - connection->done : 1, MSG_DONTWAIT);
    if (got < 0 && would_block())
        return;
    if (got <= 0 || !is_due) {
        hang_up(connection);
        return;
    }
    connection->done += (size_t)got;
    handle(connection);
}

static void write_more(struct connection *connection)
{
    const size_t head = sizeof connection->reply, done = connection->done;
    const size_t text = connection->offer != NULL ? connection->offer->length : 0;
    const char *from = (const char *)&connection->reply + done;
    size_t left = head - done;
    if (done >= head && text > 0) {
        from = connection->offer->text + (done - head);
        left = text - (done - head);
    }
    const ssize_t sent = send(connection->socket, from, left, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && would_block())
        return;
    if (sent < 0) {
        hang_up(connection);
        return;
    }
    connection->done += (size_t)sent;
    if (connection->done == head + text)
        enter(connection, READING);
}

/* Finds what is due on a connection: an answer, or the end of patience. Returns when to look again;
 * 0: never. */
static double settle(struct connection *connection)
{
    const double now = cshim_seconds();
    double due = 0;
    if (connection->state == HELD) {
        struct cshim_session *session = cshim_session_find(connection->request.nonce);
        if (session == NULL) { /* forgotten */
            close_connection(connection);
            return 0;
        }
        due = cshim_session_answer(session, &connection->request, connection->since, now,
                                   &connection->reply);
        if (due > 0)
            return due;
        connection->offer = connection->reply.on ? cshim_session_offer(session) : NULL;
        enter(connection, WRITING);
    }
    if (connection->state == WRITING)
        due = connection->since + ANSWER_SECONDS;
    else if (!connection->known || connection->done > 0)
        due = connection->since + REQUEST_SECONDS;
    if (due > 0 && now >= due)
        hang_up(connection);
    return due;
}

/* Hangs up on the stranger that has been there for longest, if there are so many of them. */
static bool drop_stranger(size_t least)
{
    struct connection *oldest = NULL;
    size_t strangers = 0;
    for (size_t i = 0; i < count; i++) {
        if (connections[i]->known || connections[i]->socket < 0)
            continue;
        oldest = oldest == NULL ? connections[i] : oldest;
        strangers++;
    }
    if (oldest == NULL || strangers < least)
        return false;
    close_connection(oldest);
    return true;
}

static bool make_room(void)
{
    const size_t more = room == 0 ? 16 : 2 * room;
    if (count < room)
        return true;
    void *grown = realloc(connections, more * sizeof(struct connection *));
    if (grown == NULL)
        return false;
    connections = grown;
    grown = realloc(polled, (more + 1) * sizeof *polled);
    if (grown == NULL)
        return false;
    polled = grown;
    room = more;
    return true;
}

static void take_connection(void)
{
    const int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted < 0) {
        const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (full && !drop_stranger(1))
            paused = cshim_seconds() + PAUSE_SECONDS;
        return;
    }
    drop_stranger(STRANGERS_MAX);
    struct connection *connection = make_room() ? calloc(1, sizeof *connection) : NULL;
    if (connection == NULL) {
        close(accepted);
        return;
    }
    connection->socket = accepted;
    enter(connection, READING);
    connections[count++] = connection;
}

static void forget_closed(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (connections[i]->socket >= 0)
            connections[kept++] = connections[i];
        else
            free(connections[i]);
    }
    count = kept;
}

/* Settles all connections, and sets what is to be polled. Returns for how many milliseconds; -1:
 * for ever. */
static int prepare_poll(void)
{
    double due = paused;
    for (size_t i = 0; i < count; i++) {
        const double one = settle(connections[i]);
        if (one > 0 && (due <= 0 || one < due))
            due = one;
    }
    forget_closed();
    polled[0] = (struct pollfd){.fd = paused > 0 ? -1 : listener, .events = POLLIN};
    for (size_t i = 0; i < count; i++)
        polled[i + 1] =
            (struct pollfd){.fd = connections[i]->socket,
                            .events = connections[i]->state == WRITING ? POLLOUT : POLLIN};
    if (due <= 0)
        return -1;
    const double left = due - cshim_seconds();
    return left > 0 ? (int)(left * 1000) + 1 : 0;
}

/* Only this thread adds and forgets connections. */
static void *serve(void *data)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        const int wait = prepare_poll();
        const size_t waiting = count;
        pthread_mutex_unlock(&lock);
        const int ready = poll(polled, waiting + 1, wait);
        pthread_mutex_lock(&lock);
        for (size_t i = 0; i < waiting && ready > 0; i++) {
            if (polled[i + 1].revents != 0)
                (connections[i]->state == WRITING ? write_more : read_more)(connections[i]);
        }
        if (ready > 0 && polled[0].revents != 0)
            take_connection();
        if (paused > 0 && cshim_seconds() >= paused)
            paused = 0;
        pthread_mutex_unlock(&lock);
    }
    return data;
}

/* Listens at a tag's address and sets its port. Returns -1, with errno set, if that cannot be. */
static int listen_at(struct cshim_tag *tag)
{
    union cshim_address address;
    tag->port = 0;
    socklen_t size = cshim_tag_get_address(tag, &address);
    const int made = socket(tag->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0)
        return -1;
    if (bind(made, &address.any, size) != 0 || listen(made, SOMAXCONN) != 0 ||
        getsockname(made, &address.any, &size) != 0) {
        const int saved = errno;
        close(made);
        errno = saved;
        return -1;
    }
    tag->port = tag->family == AF_INET ? address.four.sin_port : address.six.sin6_port;
    return made;
}

/* The thread takes none of the program's signals. */
static bool start_thread(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&thread, &attributes, serve, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return errno == 0;
}

static bool start(const struct cshim_tag *tag)
{
    if (is_running)
        return true;
    listening = *tag;
    listener = make_room() ? listen_at(&listening) : -1;
    is_running = listener >= 0 && start_thread();
    const int saved = errno;
    if (!is_running && listener >= 0)
        close(listener);
    errno = saved;
    return is_running;
}

static const struct cshim_offer *keep_offer(const struct cshim_offer *offer)
{
    struct kept_offer *kept = offers;
    while (kept != NULL &&
           (kept->offer.length != offer->length || kept->offer.observe != offer->observe ||
            memcmp(kept->text, offer->text, offer->length) != 0 ||
            strcmp(kept->offer.source, offer->source) != 0))
        kept = kept->next;
    if (kept != NULL)
        return &kept->offer;
    const size_t source = strlen(offer->source) + 1;
    kept = calloc(1, sizeof *kept + offer->length + source);
    if (kept == NULL)
        return NULL;
    memcpy(kept->text, offer->text, offer->length);
    memcpy(kept->text + offer->length, offer->source, source);
    kept->offer = *offer;
    kept->offer.text = kept->text;
    kept->offer.source = kept->text + offer->length;
    kept->next = offers;
    offers = kept;
    return &kept->offer;
}

bool cshim_rendezvous_start_server(struct cshim_tag *tag, const struct cshim_offer *offer)
{
    bool is_served = false;
    pthread_mutex_lock(&lock);
    errno = EMSGSIZE;
    if (offer->length < CSHIM_WIRE_POLICY_MAX && start(tag)) {
        const uint64_t nonce = tag->nonce;
        const struct cshim_offer *kept = keep_offer(offer);
        *tag = listening;
        tag->nonce = nonce;
        is_served = kept != NULL && cshim_session_add(nonce, kept) != NULL;
    }
    pthread_mutex_unlock(&lock);
    return is_served;
}

void cshim_rendezvous_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

/* The child has no such thread, and must not keep the parent's connections open. */
void cshim_rendezvous_after_fork(bool child)
{
    if (child && is_running) {
        for (size_t i = 0; i < count; i++)
            close(connections[i]->socket);
        close(listener);
        count = 0;
        paused = 0;
        is_running = false;
    }
    pthread_mutex_unlock(&lock);
}
