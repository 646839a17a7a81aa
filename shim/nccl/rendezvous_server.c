/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that answers the ranks of all ids that this process makes. A connection carries
 * requests; "ready" is held until it is decided, and "wait" for a while. What is no
 * request of a rank is hung up on. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/nccl/rendezvous_wire.h"

/* Somebody who has not said what they want within this is not a rank; nor do so many wait to say
 * it. */
#define REQUEST_SECONDS 5.0
#define STRANGERS_MAX 256
/* A rank takes its answer within this. */
#define ANSWER_SECONDS 30.0
/* Without room for another connection, none is taken for so long. */
#define PAUSE_SECONDS 0.1

enum state { READING, HELD, WRITING, CLOSED };

struct connection {
    int socket;
    enum state state;
    double since; /* it is in this state */
    bool known;   /* has made a request */
    size_t done;  /* bytes read or written */
    struct cshim_request request;
    struct cshim_reply reply;
    const struct cshim_offer *offer; /* whose text follows, or NULL */
};

struct server {
    struct cshim_tag tag; /* where it listens */
    int listener;
    double paused; /* no connections are taken before */
    struct connection **connections;
    size_t count;
    size_t room;
    struct pollfd *polled; /* room + 1 */
    struct server *next;
};

/* A policy as it was offered: never freed, most programs have one. */
struct kept_offer {
    struct cshim_offer offer;
    struct kept_offer *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of these, and sessions */
static struct server *servers;                           /* never freed: one for each address */
static struct kept_offer *offers;

static void enter(struct connection *connection, enum state state)
{
    connection->state = state;
    connection->since = cshim_seconds();
    connection->done = 0;
}

/* What a complete request asks for. */
static void handle(struct connection *connection)
{
    const struct cshim_request *request = &connection->request;
    struct cshim_session *session = cshim_session_find(request->nonce);
    if (request->magic != CSHIM_REQUEST_MAGIC || request->kind >= CSHIM_REQUEST_KINDS ||
        session == NULL || !cshim_session_hear(session, request, cshim_seconds())) {
        connection->state = CLOSED;
        return;
    }
    connection->known = true;
    connection->offer = NULL;
    memset(&connection->reply, 0, sizeof connection->reply);
    switch ((enum cshim_request_kind)request->kind) {
    case CSHIM_REQUEST_READY:
    case CSHIM_REQUEST_WAIT:
        enter(connection, HELD);
        break;
    case CSHIM_REQUEST_HELLO:
        enter(connection, WRITING);
        break;
    case CSHIM_REQUEST_DONE:
    case CSHIM_REQUEST_KINDS:
        connection->state = CLOSED;
        break;
    }
}

static void hang_up(struct connection *connection)
{
    struct cshim_session *session =
        connection->known ? cshim_session_find(connection->request.nonce) : NULL;
    if (session != NULL)
        cshim_session_break(session, connection->request.hello.rank, cshim_seconds());
    connection->state = CLOSED;
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static void read_more(struct connection *connection)
{
    struct cshim_request next;
    uint8_t *place = (uint8_t *)&connection->request + connection->done;
    size_t wanted = sizeof connection->request - connection->done;
    if (connection->state != READING) { /* nothing is due: its end, or rubbish */
        place = (uint8_t *)&next;
        wanted = 1;
    }
    const ssize_t got = recv(connection->socket, place, wanted, MSG_DONTWAIT);
    if (got < 0 && would_block())
        return;
    if (got <= 0 || connection->state != READING) {
        hang_up(connection);
        return;
    }
    connection->done += (size_t)got;
    if (connection->done >= sizeof connection->request.magic &&
        connection->request.magic != CSHIM_REQUEST_MAGIC)
        connection->state = CLOSED;
    else if (connection->done == sizeof connection->request)
        handle(connection);
}

/* The reply, and behind it the policy's text if there is one. */
static void write_more(struct connection *connection)
{
    const size_t head = sizeof connection->reply;
    const char *from = (const char *)&connection->reply + connection->done;
    size_t left = head - connection->done;
    if (connection->done >= head && connection->offer != NULL) {
        from = connection->offer->text + (connection->done - head);
        left = connection->offer->length - (connection->done - head);
    }
    const ssize_t sent = send(connection->socket, from, left, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && would_block())
        return;
    if (sent < 0) {
        hang_up(connection);
        return;
    }
    connection->done += (size_t)sent;
    if (connection->done == head + (connection->offer != NULL ? connection->offer->length : 0))
        enter(connection, READING);
}

/* Makes room by hanging up on the one that has been a stranger for longest. Returns false if all
 * are ranks. */
static bool drop_stranger(struct server *server)
{
    for (size_t i = 0; i < server->count; i++) {
        struct connection *connection = server->connections[i];
        if (connection->known || connection->state == CLOSED)
            continue;
        connection->state = CLOSED;
        close(connection->socket);
        connection->socket = -1;
        return true;
    }
    return false;
}

static size_t strangers(const struct server *server)
{
    size_t count = 0;
    for (size_t i = 0; i < server->count; i++)
        count += !server->connections[i]->known && server->connections[i]->state != CLOSED;
    return count;
}

static bool make_room(struct server *server)
{
    const size_t room = server->room == 0 ? 16 : 2 * server->room;
    if (server->polled != NULL && server->count < server->room)
        return true;
    void *connections = realloc(server->connections, room * sizeof(struct connection *));
    if (connections == NULL)
        return false;
    server->connections = connections;
    void *polled = realloc(server->polled, (room + 1) * sizeof *server->polled);
    if (polled == NULL)
        return false;
    server->polled = polled;
    server->room = room;
    return true;
}

static void take(struct server *server)
{
    const int accepted = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct connection *connection = NULL;
    if (accepted < 0) {
        const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (full && !drop_stranger(server))
            server->paused = cshim_seconds() + PAUSE_SECONDS;
        return;
    }
    if (strangers(server) >= STRANGERS_MAX)
        drop_stranger(server);
    if (make_room(server))
        connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        close(accepted);
        return;
    }
    connection->socket = accepted;
    enter(connection, READING);
    server->connections[server->count++] = connection;
}

/* Answers a connection that is held, if there is an answer. Returns when there will be one at the
 * latest. */
static double settle_held(struct connection *connection)
{
    const struct cshim_request *request = &connection->request;
    struct cshim_session *session = cshim_session_find(request->nonce);
    if (session == NULL) { /* forgotten */
        connection->state = CLOSED;
        return 0;
    }
    const bool ready = request->kind == CSHIM_REQUEST_READY;
    const bool due = ready ? cshim_session_decide(session, cshim_seconds(), &connection->reply)
                           : cshim_session_absent(session, connection->since, cshim_seconds(),
                                                  &connection->reply);
    if (!due)
        return ready ? cshim_session_deadline(session)
                     : connection->since + cshim_session_patience(session);
    connection->offer = connection->reply.on ? cshim_session_offer(session) : NULL;
    enter(connection, WRITING);
    write_more(connection);
    return connection->since + ANSWER_SECONDS;
}

/* What time has brought: answers, and ends of patience. Returns when to look again; 0: never. */
static double settle(struct connection *connection)
{
    double due = 0;
    if (connection->state == HELD)
        return settle_held(connection);
    if (connection->state == WRITING)
        due = connection->since + ANSWER_SECONDS;
    else if (connection->state == READING && (!connection->known || connection->done > 0))
        due = connection->since + REQUEST_SECONDS;
    if (due > 0 && cshim_seconds() >= due)
        hang_up(connection);
    return due;
}

static void sweep(struct server *server)
{
    size_t kept = 0;
    for (size_t i = 0; i < server->count; i++) {
        struct connection *connection = server->connections[i];
        if (connection->state != CLOSED) {
            server->connections[kept++] = connection;
            continue;
        }
        if (connection->socket >= 0)
            close(connection->socket);
        free(connection);
    }
    server->count = kept;
}

/* Settles all, and says what is to be waited for. Returns the milliseconds; -1: for ever. */
static int prepare_poll(struct server *server, struct pollfd *polled)
{
    double due = server->paused;
    for (size_t i = 0; i < server->count; i++) {
        const double one = settle(server->connections[i]);
        if (one > 0 && (due <= 0 || one < due))
            due = one;
    }
    sweep(server);
    polled[0] = (struct pollfd){.fd = server->paused > 0 ? -1 : server->listener, .events = POLLIN};
    for (size_t i = 0; i < server->count; i++) {
        const struct connection *connection = server->connections[i];
        polled[i + 1] = (struct pollfd){.fd = connection->socket,
                                        .events = connection->state == WRITING ? POLLOUT : POLLIN};
    }
    if (due <= 0)
        return -1;
    const double left = due - cshim_seconds();
    return left > 0 ? (int)(left * 1000) + 1 : 0;
}

static void *serve(void *data)
{
    struct server *server = data;
    for (;;) {
        pthread_mutex_lock(&lock);
        const int wait = prepare_poll(server, server->polled);
        const size_t count = server->count;
        pthread_mutex_unlock(&lock);
        const int ready = poll(server->polled, count + 1, wait);
        pthread_mutex_lock(&lock);
        for (size_t i = 0; i < count && ready > 0; i++) {
            struct connection *connection = server->connections[i];
            if (server->polled[i + 1].revents == 0)
                continue;
            if (connection->state == WRITING)
                write_more(connection);
            else
                read_more(connection);
        }
        if (ready > 0 && server->polled[0].revents != 0)
            take(server);
        if (server->paused > 0 && cshim_seconds() >= server->paused)
            server->paused = 0;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static int listen_at(struct cshim_tag *tag)
{
    union cshim_address address;
    socklen_t size = cshim_tag_get_address(tag, &address);
    const int listener = socket(tag->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0)
        return -1;
    if (bind(listener, &address.any, size) != 0 || listen(listener, SOMAXCONN) != 0 ||
        getsockname(listener, &address.any, &size) != 0) {
        const int saved = errno;
        close(listener);
        errno = saved;
        return -1;
    }
    tag->port = tag->family == AF_INET ? address.four.sin_port : address.six.sin6_port;
    return listener;
}

/* The thread takes none of the program's signals. */
static bool start_thread(struct server *server)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&thread, &attributes, serve, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return errno == 0;
}

/* The server at the tag's address, started if there is none. */
static struct server *find_server(const struct cshim_tag *tag)
{
    struct server *server = servers;
    while (server != NULL && (server->tag.family != tag->family ||
                              memcmp(server->tag.address, tag->address, sizeof tag->address) != 0))
        server = server->next;
    if (server != NULL || (server = calloc(1, sizeof *server)) == NULL)
        return server;
    server->tag = *tag;
    server->tag.port = 0;
    server->listener = make_room(server) ? listen_at(&server->tag) : -1;
    if (server->listener >= 0 && start_thread(server)) {
        server->next = servers;
        servers = server;
        return server;
    }
    const int saved = errno;
    if (server->listener >= 0)
        close(server->listener);
    free(server->connections);
    free(server->polled);
    free(server);
    errno = saved;
    return NULL;
}

static const struct cshim_offer *keep_offer(const struct cshim_offer *offer)
{
    struct kept_offer *kept = offers;
    while (kept != NULL &&
           (kept->offer.length != offer->length || kept->offer.observe != offer->observe ||
            memcmp(kept->offer.text, offer->text, offer->length) != 0 ||
            strcmp(kept->offer.source, offer->source) != 0))
        kept = kept->next;
    if (kept != NULL)
        return &kept->offer;
    kept = calloc(1, sizeof *kept);
    char *text = malloc(offer->length + 1);
    char *source = strdup(offer->source);
    if (kept == NULL || text == NULL || source == NULL) {
        free(kept);
        free(text);
        free(source);
        return NULL;
    }
    memcpy(text, offer->text, offer->length);
    kept->offer = *offer;
    kept->offer.text = text;
    kept->offer.source = source;
    kept->next = offers;
    offers = kept;
    return &kept->offer;
}

bool cshim_rendezvous_start_server(struct cshim_tag *tag, const struct cshim_offer *offer)
{
    bool started = false;
    pthread_mutex_lock(&lock);
    errno = EMSGSIZE;
    struct server *server = offer->length < CSHIM_WIRE_POLICY_MAX ? find_server(tag) : NULL;
    if (server != NULL) {
        const struct cshim_offer *kept = keep_offer(offer);
        tag->port = server->tag.port;
        started = kept != NULL && cshim_session_add(tag->nonce, kept) != NULL;
    }
    pthread_mutex_unlock(&lock);
    return started;
}

void cshim_rendezvous_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

/* The child has no such thread, and must not keep the parent's connections open. */
void cshim_rendezvous_after_fork(bool child)
{
    for (struct server *server = servers; server != NULL && child; server = server->next) {
        for (size_t i = 0; i < server->count; i++)
            close(server->connections[i]->socket);
        close(server->listener);
    }
    if (child)
        servers = NULL;
    pthread_mutex_unlock(&lock);
}
