/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that waits for the ranks of one id, decides for all of them, and ends. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shim/nccl/rendezvous_wire.h"

/* An id that nobody uses is waited for so long; a hello on its way when the first rank asks; ranks
 * that have yet to ask once it is decided. */
#define IDLE_SECONDS 900
#define GRACE_SECONDS 3
#define LINGER_SECONDS 60

#define RANKS_NAMED 8

struct connection {
    int socket;
    size_t received; /* bytes of the hello */
    struct cshim_wire_hello message;
    bool said_hello;
    bool answered;
    bool gone; /* closed by the other side */
};

struct server {
    int listener;
    uint64_t nonce;
    struct cshim_wire_answer answer;
    char *policy;
    size_t policy_length;
    struct connection *connections;
    size_t count;
    bool asked;
    bool decided;
    double deadline;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static const struct cshim_hello *first_hello(const struct server *server)
{
    for (size_t i = 0; i < server->count; i++) {
        if (server->connections[i].said_hello)
            return &server->connections[i].message.hello;
    }
    return NULL;
}

static const struct cshim_hello *hello_of(const struct server *server, uint32_t rank)
{
    for (size_t i = 0; i < server->count; i++) {
        if (server->connections[i].said_hello && server->connections[i].message.hello.rank == rank)
            return &server->connections[i].message.hello;
    }
    return NULL;
}

static bool all_here(const struct server *server)
{
    const struct cshim_hello *first = first_hello(server);
    for (uint32_t rank = 0; first != NULL && rank < first->ranks; rank++) {
        if (hello_of(server, rank) == NULL)
            return false;
    }
    return first != NULL;
}

/* Names the ranks that `is_odd`, the first few of them. Returns how many there are. */
static unsigned name_ranks(const struct server *server, const char *text,
                           bool (*is_odd)(const struct cshim_hello *, const struct cshim_hello *),
                           char *why, size_t size)
{
    const struct cshim_hello *first = first_hello(server);
    unsigned odd = 0;
    size_t length = 0;
    for (uint32_t rank = 0; rank < first->ranks; rank++) {
        if (!is_odd(first, hello_of(server, rank)))
            continue;
        if (odd++ < RANKS_NAMED && length < size)
            length += (size_t)snprintf(why + length, size - length, "%s%u",
                                       odd > 1 ? ", " : "rank ", rank);
    }
    if (odd > 0 && length < size)
        snprintf(why + length, size - length, "%s %s", odd > RANKS_NAMED ? ", ..." : "", text);
    return odd;
}

static bool is_missing(const struct cshim_hello *first, const struct cshim_hello *hello)
{
    (void)first;
    return hello == NULL;
}

static bool is_other(const struct cshim_hello *first, const struct cshim_hello *hello)
{
    return hello->version != first->version || hello->ranks != first->ranks;
}

static bool is_nonblocking(const struct cshim_hello *first, const struct cshim_hello *hello)
{
    (void)first;
    return hello->nonblocking != 0;
}

static uint32_t count_nodes(const struct server *server)
{
    uint32_t nodes = 0;
    for (size_t i = 0; i < server->count; i++) {
        size_t before = 0;
        while (before < i && server->connections[before].message.hello.host !=
                                 server->connections[i].message.hello.host)
            before++;
        nodes += server->connections[i].said_hello && before == i;
    }
    return nodes;
}

static void decide(struct server *server)
{
    char *why = server->answer.text;
    const size_t size = CSHIM_RENDEZVOUS_WHY_MAX;
    char source[sizeof server->answer.text];
    memcpy(source, server->answer.text, sizeof source);
    server->decided = true;
    server->deadline = now() + LINGER_SECONDS;
    server->answer.on =
        name_ranks(server, "without compshim: is LD_PRELOAD set on every host?", is_missing, why,
                   size) == 0 &&
        name_ranks(server, "with another version of compshim", is_other, why, size) == 0 &&
        name_ranks(server, "with a non-blocking communicator", is_nonblocking, why, size) == 0;
    if (server->answer.on) {
        memcpy(server->answer.text, source, sizeof source);
        server->answer.length = (uint32_t)server->policy_length;
        server->answer.nodes = count_nodes(server);
    }
}

/* The answers are small and sockets have room for them. */
static void answer_all(struct server *server)
{
    for (size_t i = 0; i < server->count; i++) {
        struct connection *connection = &server->connections[i];
        if (!connection->said_hello || connection->answered)
            continue;
        connection->answered = true;
        if (send(connection->socket, &server->answer, sizeof server->answer, MSG_NOSIGNAL) ==
                sizeof server->answer &&
            server->answer.on)
            (void)!send(connection->socket, server->policy, server->policy_length, MSG_NOSIGNAL);
    }
}

/* Whether every rank has had its answer and hung up. */
static bool all_gone(const struct server *server)
{
    for (size_t i = 0; i < server->count; i++) {
        if (!server->connections[i].gone)
            return false;
    }
    return server->decided && all_here(server);
}

static void take(struct server *server)
{
    const int accepted = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    if (accepted < 0)
        return;
    struct connection *grown =
        realloc(server->connections, (server->count + 1) * sizeof *server->connections);
    if (grown == NULL) {
        close(accepted);
        return;
    }
    server->connections = grown;
    server->connections[server->count++] = (struct connection){.socket = accepted};
}

/* Reads what has come. What is no rank's is of no more use. */
static void hear(struct server *server, struct connection *connection)
{
    uint8_t ask = 0;
    uint8_t *place =
        connection->said_hello ? &ask : (uint8_t *)&connection->message + connection->received;
    const size_t wanted =
        connection->said_hello ? 1 : sizeof connection->message - connection->received;
    const ssize_t got = recv(connection->socket, place, wanted, MSG_DONTWAIT);
    if (got <= 0) {
        connection->gone = got == 0 || errno != EAGAIN;
        return;
    }
    if (connection->said_hello && !server->asked) {
        server->asked = true;
        server->deadline = now() + GRACE_SECONDS;
    }
    if (connection->said_hello)
        return;
    connection->received += (size_t)got;
    if (connection->received < sizeof connection->message)
        return;
    connection->said_hello = connection->message.nonce == server->nonce;
    connection->gone = !connection->said_hello;
}

/* One round of waiting. Returns false when everything is said. */
static bool serve_once(struct server *server)
{
    struct pollfd polled[server->count + 1];
    const size_t count = server->count;
    polled[0] = (struct pollfd){.fd = server->listener, .events = POLLIN};
    for (size_t i = 0; i < count; i++) {
        const struct connection *connection = &server->connections[i];
        polled[i + 1].fd = connection->gone ? -1 : connection->socket;
        polled[i + 1].events = POLLIN;
        polled[i + 1].revents = 0;
    }
    const double left = server->deadline - now();
    if (left > 0)
        poll(polled, count + 1, (int)(left * 1000) + 1);
    for (size_t i = 0; i < count; i++) {
        if (polled[i + 1].revents != 0)
            hear(server, &server->connections[i]);
    }
    if (polled[0].revents != 0)
        take(server);
    const bool late = now() >= server->deadline;
    if (!server->decided && server->asked && (late || all_here(server)))
        decide(server);
    else if (late || all_gone(server))
        return false;
    if (server->decided)
        answer_all(server);
    return true;
}

static void *serve(void *data)
{
    struct server *server = data;
    while (serve_once(server))
        ;
    for (size_t i = 0; i < server->count; i++)
        close(server->connections[i].socket);
    close(server->listener);
    free(server->connections);
    free(server->policy);
    free(server);
    return NULL;
}

static int listen_at(struct cshim_tag *tag)
{
    union cshim_address address;
    socklen_t size = cshim_tag_get_address(tag, &address);
    const int listener = socket(tag->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return -1;
    if (bind(listener, &address.any, size) != 0 || listen(listener, SOMAXCONN) != 0 ||
        getsockname(listener, &address.any, &size) != 0) {
        close(listener);
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
    pthread_attr_setstacksize(&attributes, 1 << 18);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&thread, &attributes, serve, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return errno == 0;
}

bool cshim_rendezvous_start_server(struct cshim_tag *tag, const struct cshim_offer *offer)
{
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return false;
    server->nonce = tag->nonce;
    server->deadline = now() + IDLE_SECONDS;
    server->policy_length = offer->length;
    server->policy = malloc(offer->length + 1);
    server->answer.observe = offer->observe;
    snprintf(server->answer.text, sizeof server->answer.text, "%s", offer->source);
    server->listener = listen_at(tag);
    if (server->policy != NULL)
        memcpy(server->policy, offer->text, offer->length);
    if (server->policy != NULL && offer->length < CSHIM_WIRE_POLICY_MAX && server->listener >= 0 &&
        start_thread(server))
        return true;
    const int saved = errno;
    if (server->listener >= 0)
        close(server->listener);
    free(server->policy);
    free(server);
    errno = saved;
    return false;
}
