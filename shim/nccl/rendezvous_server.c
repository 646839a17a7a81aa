/* SPDX-License-Identifier: Apache-2.0 */
/* The server of the rendezvous: a thread that answers the ranks of all ids that this process makes,
 * and of all communicators whose durations it collects.
 *
 * A connection carries one request after the other. Its state is READING a request, HELD until the
 * reply is due, or WRITING the reply and the offer, if it follows. Connections that send anything
 * but a rank's requests are closed. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/core/signals.h"
#include "shim/nccl/rendezvous_wire.h"

/* A stranger is a connection on which no request about a known communicator has come yet. It is
 * closed after REQUEST_SECONDS without a whole request. The oldest stranger is also closed when a
 * connection is accepted and there are STRANGERS_MAX, or if there are no descriptors or no memory
 * to accept one. */
#define REQUEST_SECONDS 5.0
#define STRANGERS_MAX 256
/* Time limit for writing a reply. */
#define ANSWER_SECONDS 30.0
/* Interval after which accept is tried again if the server is full (is_full). */
#define PAUSE_SECONDS 0.1
/* Bytes of the thread's stack. */
#define STACK_BYTES ((size_t)1 << 20)

struct connection {
    int socket;      /* -1: closed, to be freed */
    uint64_t number; /* in the order of accept, from 1 */
    enum { READING, HELD, WRITING } state;
    double since;      /* time at which it entered the state, or began another request */
    bool known;        /* it has sent a request about a known communicator: no stranger */
    size_t done;       /* bytes of the request that are read, or of the reply that are written */
    size_t offer_done; /* bytes of the offer that are written */
    struct cshim_request request;
    struct cshim_reply reply;
    struct cshim_kept_offer *offer; /* follows the reply; or NULL */
    struct connection *next;        /* older */
};

/* Guards all variables below, all sessions and all collections. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cshim_kept_offer *offers; /* one in most programs */
static bool is_running;
/* Addresses at which the server listens, for the tags of ids and of collections of durations. */
static struct listener {
    int socket;
    struct cshim_tag at;
    struct listener *next;
} * listeners;
static int poller;   /* epoll instance of the listeners and all connections */
static bool is_full; /* in the latest round of accepts, one lacked descriptors or memory, and there
                        was no stranger to close */
static struct connection *connections;

/* Changes a connection's state, and the events that epoll reports for it; resets its counts. */
static void enter_state(struct connection *connection, int state)
{
    struct epoll_event wanted = {.events = state == WRITING ? EPOLLOUT : EPOLLIN,
                                 .data.ptr = connection};
    connection->state = state;
    connection->since = cshim_seconds();
    connection->done = connection->offer_done = 0;
    epoll_ctl(poller, EPOLL_CTL_MOD, connection->socket, &wanted);
}

static void close_connection(struct connection *connection)
{
    if (connection->known)
        cshim_session_break(&connection->request, connection->number, cshim_seconds());
    /* close() does not remove a socket from epoll while a forked child has a copy of it. */
    epoll_ctl(poller, EPOLL_CTL_DEL, connection->socket, NULL);
    close(connection->socket);
    connection->socket = -1;
}

/* Makes the reply to an ASK request and starts to write it. */
static void answer_question(struct connection *connection)
{
    memset(&connection->reply, 0, sizeof connection->reply);
    cshim_collection_answer(&connection->request, &connection->reply.answer);
    connection->offer = NULL;
    connection->known = connection->known || connection->reply.answer.is_known;
    enter_state(connection, WRITING);
}

/* Handles a request when it is complete. Closes the connection after a request that gets no reply,
 * such as DONE; a wrong magic is detected before the request is complete. */
static void handle_request(struct connection *connection)
{
    const struct cshim_request *request = &connection->request;
    const bool is_stranger =
        connection->done >= sizeof request->magic && request->magic != CSHIM_REQUEST_MAGIC;
    if (!is_stranger && connection->done < sizeof *request)
        return;
    if (!is_stranger && request->kind == CSHIM_REQUEST_ASK) {
        answer_question(connection);
        return;
    }
    if (is_stranger || request->kind >= CSHIM_REQUEST_KINDS ||
        !cshim_session_hear(request, connection->number, cshim_seconds()) ||
        request->kind == CSHIM_REQUEST_DONE) {
        close_connection(connection);
        return;
    }
    connection->known = true;
    enter_state(connection, HELD);
}

/* Reads from a connection. Closes a connection that can be read while it is HELD: a rank sends
 * nothing then, so the connection has ended or is no rank's. */
static void read_more(struct connection *connection)
{
    struct cshim_request *request = &connection->request;
    if (connection->known && connection->done == 0)
        connection->since = cshim_seconds(); /* it may have been idle between its requests */
    if (connection->state == HELD || cshim_move(connection->socket, false, request, sizeof *request,
                                                &connection->done) == CSHIM_GONE)
        close_connection(connection);
    else
        handle_request(connection);
}

static void write_more(struct connection *connection)
{
    struct cshim_kept_offer *offer = connection->offer;
    struct cshim_reply *reply = &connection->reply;
    enum cshim_moved moved =
        cshim_move(connection->socket, true, reply, sizeof *reply, &connection->done);
    if (moved == CSHIM_MOVED_ALL && offer != NULL)
        moved = cshim_move(connection->socket, true, offer->packed, offer->bytes,
                           &connection->offer_done);
    if (moved == CSHIM_GONE)
        close_connection(connection);
    else if (moved == CSHIM_MOVED_ALL)
        enter_state(connection, READING);
}

/* Starts to write a reply that is due, or closes a connection after its time limit. Returns the
 * time at which to call this again; 0: not needed. */
static double settle_connection(struct connection *connection)
{
    const double now = cshim_seconds();
    double due = 0;
    if (connection->state == HELD) {
        due = cshim_session_answer(&connection->request, connection->since, now, &connection->reply,
                                   &connection->offer);
        if (due < 0) { /* its session is not remembered */
            close_connection(connection);
            return 0;
        }
        if (due > 0)
            return due;
        enter_state(connection, WRITING);
    }
    if (connection->state == WRITING)
        due = connection->since + ANSWER_SECONDS;
    else if (!connection->known || connection->done > 0)
        due = connection->since + REQUEST_SECONDS;
    if (due > 0 && now >= due)
        close_connection(connection);
    return due;
}

/* Closes the oldest stranger if there are at least `least` of them. Returns true if it did. */
static bool drop_stranger(size_t least)
{
    struct connection *oldest = NULL;
    size_t strangers = 0;
    for (struct connection *one = connections; one != NULL; one = one->next) {
        if (one->known || one->socket < 0)
            continue;
        oldest = one;
        strangers++;
    }
    if (oldest == NULL || strangers < least)
        return false;
    close_connection(oldest);
    return true;
}

/* Returns true for errors of accept() on a descriptor that the program has closed, and perhaps used
 * again. */
static bool is_closed(int error)
{
    return error == EBADF || error == ENOTSOCK || error == EINVAL || error == EOPNOTSUPP;
}

/* Accepts a connection; sets is_full if that fails because the server is full. Returns true if
 * there may be another one to accept. */
static bool accept_connection(const struct listener *listener)
{
    static uint64_t accepted_count;
    const int accepted = accept4(listener->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    const int error = accepted < 0 ? errno : 0;
    const bool lacks = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
    if (lacks && !drop_stranger(1))
        is_full = true;
    if (accepted < 0)
        return !is_full && error != EAGAIN && !is_closed(error);
    drop_stranger(STRANGERS_MAX);
    struct connection *connection = calloc(1, sizeof *connection);
    struct epoll_event wanted = {.data.ptr = connection};
    if (connection == NULL || epoll_ctl(poller, EPOLL_CTL_ADD, accepted, &wanted) != 0) {
        close(accepted);
        free(connection);
        return true;
    }
    connection->socket = accepted;
    connection->number = ++accepted_count;
    enter_state(connection, READING);
    connection->next = connections;
    connections = connection;
    return true;
}

/* Settles all connections, and frees those that are closed. Returns the number of milliseconds
 * until it must be called again; -1: only after an event. */
static int settle_all(void)
{
    double due = is_full ? cshim_seconds() + PAUSE_SECONDS : 0;
    for (struct connection **link = &connections, *one; (one = *link) != NULL;) {
        const double next = one->socket >= 0 ? settle_connection(one) : 0;
        if (next > 0 && (due <= 0 || next < due))
            due = next;
        if (one->socket >= 0) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        free(one);
    }
    if (due <= 0)
        return -1;
    const double left = due - cshim_seconds();
    return left > 0 ? (int)(left * 1000) + 1 : 0;
}

/* The server's thread, the only thread that adds and frees connections. Ends when it finds that the
 * program has closed its descriptor. */
static void *serve_ranks(void *data)
{
    struct epoll_event events[64];
    pthread_mutex_lock(&lock);
    for (;;) {
        const int wait = settle_all();
        pthread_mutex_unlock(&lock);
        const int ready = epoll_wait(poller, events, sizeof events / sizeof *events, wait);
        const bool is_lost = ready < 0 && errno != EINTR;
        pthread_mutex_lock(&lock);
        if (is_lost)
            break;
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (connection != NULL)
                (connection->state == WRITING ? write_more : read_more)(connection);
        }
        is_full = false;
        for (const struct listener *one = listeners; one != NULL; one = one->next)
            while (accept_connection(one))
                ;
    }
    connections = NULL;
    listeners = NULL;
    is_running = false;
    pthread_mutex_unlock(&lock);
    return data;
}

/* Listens at a tag's address and sets the tag's port. The listener is edge-triggered, so that a
 * full server does not spin. Returns false and sets errno on an error. */
static bool listen_at(struct cshim_tag *tag)
{
    union cshim_address address;
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLET};
    struct listener *made = calloc(1, sizeof *made);
    tag->port = 0;
    socklen_t size = cshim_tag_get_address(tag, &address);
    const int listener =
        made != NULL ? socket(tag->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
    if (listener < 0 || bind(listener, &address.any, size) != 0 ||
        listen(listener, SOMAXCONN) != 0 || getsockname(listener, &address.any, &size) != 0 ||
        epoll_ctl(poller, EPOLL_CTL_ADD, listener, &wanted) != 0) {
        const int saved = errno;
        if (listener >= 0)
            close(listener);
        free(made);
        errno = saved;
        return false;
    }
    tag->port = tag->family == AF_INET ? address.four.sin_port : address.six.sin6_port;
    *made = (struct listener){.socket = listener, .at = *tag, .next = listeners};
    listeners = made;
    return true;
}

/* Lets the server listen at a tag's address, and starts it unless it is running. Sets the tag's
 * magic and port. Returns false and sets errno on an error. */
static bool serve_at(struct cshim_tag *tag)
{
    const struct listener *one = listeners;
    if (!is_running) {
        poller = epoll_create1(EPOLL_CLOEXEC);
        if (poller >= 0)
            errno = cshim_thread_start(serve_ranks, NULL, STACK_BYTES);
        is_running = poller >= 0 && errno == 0;
    }
    if (!is_running) {
        const int saved = errno;
        close(poller);
        errno = saved;
        return false;
    }
    tag->magic = CSHIM_TAG_MAGIC;
    while (one != NULL && (one->at.family != tag->family ||
                           memcmp(one->at.address, tag->address, sizeof tag->address) != 0))
        one = one->next;
    if (one == NULL)
        return listen_at(tag);
    tag->port = one->at.port;
    return true;
}

/* Returns the copy of an offer, and makes it if there is none; NULL without memory. */
static struct cshim_kept_offer *keep_offer(const struct cshim_offer *offer)
{
    const uint64_t bytes = cshim_offer_packed_bytes(offer);
    struct cshim_kept_offer *made = malloc(sizeof *made + bytes), *kept = offers;
    if (made == NULL)
        return NULL;
    cshim_offer_pack(offer, made->packed);
    while (kept != NULL && (kept->bytes != bytes || memcmp(kept->packed, made->packed, bytes) != 0))
        kept = kept->next;
    if (kept != NULL) {
        free(made);
        return kept;
    }
    made->bytes = bytes;
    made->next = offers;
    return offers = made;
}

bool cshim_rendezvous_start_server(struct cshim_tag *tag, const struct cshim_offer *offer)
{
    bool is_served = false;
    pthread_mutex_lock(&lock);
    errno = EMSGSIZE;
    if (cshim_offer_packed_bytes(offer) <= CSHIM_OFFER_PACKED_MAX && serve_at(tag)) {
        struct cshim_kept_offer *kept = keep_offer(offer);
        is_served = kept != NULL && cshim_session_add(tag->nonce, kept);
    }
    pthread_mutex_unlock(&lock);
    return is_served;
}

bool cshim_durations_collect(const struct cshim_tag *at, uint32_t ranks, struct cshim_tag *tag)
{
    struct cshim_tag own = *at;
    if (at->family == 0 || getrandom(&own.nonce, sizeof own.nonce, 0) != sizeof own.nonce)
        return false;
    pthread_mutex_lock(&lock);
    const bool is_collected = serve_at(&own) && cshim_collection_add(own.nonce, ranks);
    pthread_mutex_unlock(&lock);
    if (is_collected)
        *tag = own;
    return is_collected;
}

void cshim_durations_end(const struct cshim_tag *tag)
{
    pthread_mutex_lock(&lock);
    cshim_collection_drop(tag->nonce);
    pthread_mutex_unlock(&lock);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* A forked child has no server thread. It closes its copies of the sockets, so that the parent's
 * connections end when the parent closes them. */
static void in_child(void)
{
    for (const struct connection *one = connections; one != NULL; one = one->next)
        close(one->socket);
    for (const struct listener *one = listeners; one != NULL; one = one->next)
        close(one->socket);
    connections = NULL;
    listeners = NULL;
    if (is_running)
        close(poller);
    is_running = false;
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}
