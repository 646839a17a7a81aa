/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: how ranks find each other. A thread of the process that made the id waits for all ranks,
 * and sends all addresses to each of them. As with the real NCCL, an id consists of a magic number
 * and an address (36 bytes); the other bytes are zero and ignored. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/nccl/standin/nccl_internal.h"

enum { WAKE_MS = 10, BACKLOG = 256 };

struct handle {
    uint64_t magic;
    struct sockaddr_in6 address;
};
_Static_assert(sizeof(struct handle) == 40, "36 bytes and padding");
enum { HANDLE_BYTES = 36 };

struct hello {
    uint64_t magic;
    int rank, ranks;
    struct standin_place place;
};

struct greeting { /* first message on a connection between ranks */
    int rank, channel;
};

/* Reads or writes all bytes. Returns false if the connection ends or *aborted is set before. */
static bool transfer(const int *aborted, int fd, void *bytes, size_t length, bool is_send)
{
    for (size_t done = 0; done < length;) {
        struct pollfd socket = {fd, is_send ? POLLOUT : POLLIN, 0};
        if (aborted != NULL && __atomic_load_n(aborted, __ATOMIC_ACQUIRE))
            return false;
        if (poll(&socket, 1, WAKE_MS) <= 0)
            continue;
        uint8_t *place = (uint8_t *)bytes + done;
        const ssize_t moved = is_send ? send(fd, place, length - done, MSG_NOSIGNAL)
                                      : recv(fd, place, length - done, 0);
        if (moved == 0 || (moved < 0 && errno != EINTR && errno != EAGAIN))
            return false;
        done += moved > 0 ? (size_t)moved : 0;
    }
    return true;
}

static int open_listener(struct sockaddr_in6 *address)
{
    socklen_t length = sizeof *address;
    *address = (struct sockaddr_in6){.sin6_family = AF_INET};
    struct sockaddr_in local = {.sin_family = AF_INET};
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&local, sizeof local) != 0 ||
        listen(fd, BACKLOG) != 0 || getsockname(fd, (struct sockaddr *)address, &length) != 0) {
        perror("standin libnccl: cannot listen on 127.0.0.1");
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

static int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* The rendezvous ------------------------------------------------------------------------------- */
struct root {
    uint64_t magic;
    int listener;
};

struct reply {
    int status; /* ncclResult_t */
    struct standin_place places[STANDIN_RANKS_MAX];
};

static void *serve_root(void *argument)
{
    const struct root root = *(struct root *)argument;
    struct reply reply = {.status = ncclSuccess};
    int fds[STANDIN_RANKS_MAX], arrived = 0, ranks = 1;
    bool here[STANDIN_RANKS_MAX] = {false};
    free(argument);
    while (arrived < ranks) {
        struct hello hello;
        const int fd = accept(root.listener, NULL, NULL);
        if (fd < 0)
            continue;
        if (!transfer(NULL, fd, &hello, sizeof hello, false) || hello.magic != root.magic) {
            close(fd);
            continue;
        }
        ranks = arrived == 0 ? hello.ranks : ranks;
        fds[arrived++] = fd;
        if (hello.ranks != ranks || here[hello.rank]) {
            fprintf(stderr, "standin libnccl: rendezvous: rank %d of %d does not fit: %d ranks%s\n",
                    hello.rank, hello.ranks, ranks, here[hello.rank] ? ", rank taken" : "");
            reply.status = ncclInvalidArgument;
            break;
        }
        here[hello.rank] = true;
        reply.places[hello.rank] = hello.place;
    }
    for (int i = 0; i < arrived; i++) {
        transfer(NULL, fds[i], &reply, sizeof reply, true);
        close(fds[i]);
    }
    close(root.listener);
    return NULL;
}

STANDIN_EXPORT ncclResult_t pncclGetUniqueId(ncclUniqueId *id)
{
    STANDIN_CHECK(standin_since("ncclGetUniqueId", 0));
    if (id == NULL)
        return ncclInvalidArgument;
    struct handle handle = {0};
    struct root *root = malloc(sizeof *root);
    pthread_t thread;
    if (root == NULL || getrandom(&handle.magic, sizeof handle.magic, 0) < 0)
        abort();
    *root = (struct root){handle.magic, open_listener(&handle.address)};
    if (root->listener < 0 || pthread_create(&thread, NULL, serve_root, root) != 0) {
        free(root);
        return ncclSystemError;
    }
    pthread_detach(thread);
    memset(id, 0, sizeof *id); /* as the real NCCL does */
    memcpy(id->internal, &handle, HANDLE_BYTES);
    return ncclSuccess;
}
STANDIN_NCCL(ncclGetUniqueId);

ncclResult_t standin_rendezvous(ncclComm_t comm, const ncclUniqueId *id,
                                const struct standin_place *mine, struct standin_place *all)
{
    struct handle handle = {0};
    struct reply reply;
    memcpy(&handle, id->internal, HANDLE_BYTES);
    struct hello hello = {handle.magic, comm->rank, comm->ranks, *mine};
    const int fd = connect_to(ntohs(handle.address.sin6_port));
    const bool good = fd >= 0 && transfer(&comm->aborted, fd, &hello, sizeof hello, true) &&
                      transfer(&comm->aborted, fd, &reply, sizeof reply, false);
    if (fd >= 0)
        close(fd);
    if (!good) {
        fprintf(stderr, "standin libnccl: rank %d: no answer from the rendezvous of this id\n",
                comm->rank);
        return ncclRemoteError;
    }
    memcpy(all, reply.places, (size_t)comm->ranks * sizeof *all);
    return (ncclResult_t)reply.status;
}

/* Connections ---------------------------------------------------------------------------------- */
static uint64_t host_hash(void)
{
    char name[256] = "";
    const char *given = getenv("NCCL_HOSTID");
    gethostname(name, sizeof name - 1);
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *text = given != NULL && *given != 0 ? given : name; *text != 0; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    return hash;
}

int standin_listen(ncclComm_t comm, struct standin_place *place)
{
    struct sockaddr_in6 address;
    const int fd = open_listener(&address);
    *place = (struct standin_place){ntohs(address.sin6_port), comm->device, host_hash()};
    return fd;
}

/* Refuses two ranks on one device, as NCCL 2.28.9 does. */
static ncclResult_t check_devices(ncclComm_t comm, const struct standin_place *all)
{
    for (int peer = 0; peer < comm->ranks; peer++)
        if (peer != comm->rank && all[peer].host == all[comm->rank].host &&
            all[peer].device == all[comm->rank].device) {
            fprintf(stderr,
                    "standin libnccl: duplicate GPU: ranks %d and %d both on device %d "
                    "(STANDIN_DEVICES makes more, NCCL_HOSTID parts them)\n",
                    comm->rank, peer, comm->device);
            return ncclInvalidUsage;
        }
    return ncclSuccess;
}

static bool call_peer(ncclComm_t comm, int peer, int port)
{
    for (int channel = 0; channel < STANDIN_CHANNELS; channel++) {
        struct greeting greeting = {comm->rank, channel};
        comm->sockets[channel][peer] = connect_to(port);
        if (comm->sockets[channel][peer] < 0 ||
            !transfer(&comm->aborted, comm->sockets[channel][peer], &greeting, sizeof greeting,
                      true))
            return false;
    }
    return true;
}

static bool answer_peer(ncclComm_t comm, int listener)
{
    struct greeting greeting;
    struct pollfd waiting = {listener, POLLIN, 0};
    const int on = 1;
    while (poll(&waiting, 1, WAKE_MS) <= 0)
        if (__atomic_load_n(&comm->aborted, __ATOMIC_ACQUIRE))
            return false;
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 || !transfer(&comm->aborted, fd, &greeting, sizeof greeting, false))
        return false;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    comm->sockets[greeting.channel][greeting.rank] = fd;
    return true;
}

ncclResult_t standin_connect(ncclComm_t comm, const struct standin_place *all, int listener)
{
    ncclResult_t result = check_devices(comm, all);
    const int calls = STANDIN_CHANNELS * (comm->ranks - 1 - comm->rank);
    for (int peer = 0; peer < comm->rank && result == ncclSuccess; peer++)
        result = call_peer(comm, peer, all[peer].port) ? ncclSuccess : ncclRemoteError;
    for (int call = 0; call < calls && result == ncclSuccess; call++)
        result = answer_peer(comm, listener) ? ncclSuccess : ncclRemoteError;
    close(listener);
    return result;
}

void standin_disconnect(ncclComm_t comm)
{
    for (int channel = 0; channel < STANDIN_CHANNELS; channel++)
        for (int peer = 0; peer < STANDIN_RANKS_MAX; peer++) {
            if (comm->sockets[channel][peer] >= 0)
                close(comm->sockets[channel][peer]);
            comm->sockets[channel][peer] = -1;
        }
}

ncclResult_t standin_all_gather(ncclComm_t comm, const int *members, int count, const void *mine,
                                void *all, size_t bytes)
{
    struct standin_transfer transfers[2 * STANDIN_RANKS_MAX];
    size_t used = 0, failed = 0;
    uint8_t *copy = malloc(bytes); /* struct standin_transfer has no const pointers */
    if (copy == NULL)
        abort();
    memcpy(copy, mine, bytes);
    for (int i = 0; i < count; i++) {
        uint8_t *place = (uint8_t *)all + (size_t)i * bytes;
        if (members[i] == comm->rank) {
            memcpy(place, mine, bytes);
            continue;
        }
        transfers[used++] = (struct standin_transfer){members[i], true, copy, bytes, 0, NULL};
        transfers[used++] = (struct standin_transfer){members[i], false, place, bytes, 0, NULL};
    }
    const enum standin_outcome outcome =
        standin_exchange(comm, STANDIN_CONTROL, transfers, used, &failed);
    free(copy);
    return outcome == STANDIN_DONE ? ncclSuccess : ncclRemoteError;
}
