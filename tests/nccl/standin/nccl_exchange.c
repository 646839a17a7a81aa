/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: concurrent messages between ranks. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "tests/nccl/standin/nccl_internal.h"

/* Interval at which aborts are noticed. */
enum { WAKE_MS = 10 };

/* Waits until the communicator is aborted (on the data channel, or revoked), as NCCL's kernel does
 * after a connection has ended. */
static enum standin_outcome wait_for_abort(ncclComm_t comm, enum standin_channel channel, int peer)
{
    const struct timespec pause = {0, WAKE_MS * 1000000L};
    if (!standin_is_stopped(comm, channel))
        fprintf(stderr, "standin libnccl: rank %d lost its connection to rank %d\n", comm->rank,
                peer);
    standin_set_async(comm, ncclRemoteError);
    while (!standin_is_stopped(comm, channel))
        nanosleep(&pause, NULL);
    return STANDIN_LOST;
}

/* Returns the index of the first unfinished transfer to (or from) a peer; `count` if there is none.
 */
static size_t find_pending(const struct standin_transfer *transfers, size_t count, int peer,
                           bool is_send)
{
    for (size_t i = 0; i < count; i++)
        if (transfers[i].peer == peer && transfers[i].is_send == is_send &&
            transfers[i].done < transfers[i].length)
            return i;
    return count;
}

/* Transfers what is possible without waiting. Returns false if the connection has ended or failed.
 */
static bool advance_transfer(int fd, struct standin_transfer *transfer)
{
    uint8_t *place = (uint8_t *)transfer->bytes + transfer->done;
    const size_t left = transfer->length - transfer->done;
    const ssize_t moved = transfer->is_send ? send(fd, place, left, MSG_NOSIGNAL | MSG_DONTWAIT)
                                            : recv(fd, place, left, MSG_DONTWAIT);
    if (moved > 0)
        transfer->done += (size_t)moved;
    return moved > 0 || (moved < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool matches(const struct standin_transfer *transfer)
{
    return transfer->expected == NULL || transfer->done < transfer->length ||
           memcmp(transfer->bytes, transfer->expected, sizeof *transfer->expected) == 0;
}

/* Fills in the sockets of the peers that have unfinished transfers, with their poll events. Returns
 * their number. */
static nfds_t watch_peers(ncclComm_t comm, enum standin_channel channel,
                          const struct standin_transfer *transfers, size_t count,
                          struct pollfd *sockets, int *peers)
{
    nfds_t used = 0;
    for (int peer = 0; peer < comm->ranks; peer++) {
        short events = 0;
        if (peer == comm->rank)
            continue;
        if (find_pending(transfers, count, peer, true) < count)
            events |= POLLOUT;
        if (find_pending(transfers, count, peer, false) < count)
            events |= POLLIN;
        if (events != 0) {
            sockets[used] = (struct pollfd){comm->sockets[channel][peer], events, 0};
            peers[used++] = peer;
        }
    }
    return used;
}

/* Progresses the transfers of one peer. After headers that do not match, goes on if nothing more is
 * to be received from the peer: in a collective this rank's header is still sent, and both sides
 * report the mismatch. */
static enum standin_outcome serve_peer(ncclComm_t comm, enum standin_channel channel,
                                       const struct pollfd *socket, int peer,
                                       struct standin_transfer *transfers, size_t count,
                                       size_t *failed)
{
    for (int is_send = 0; is_send < 2; is_send++) {
        const short ready = is_send ? POLLOUT | POLLERR : POLLIN | POLLHUP | POLLERR;
        const size_t at = find_pending(transfers, count, peer, is_send != 0);
        if (at == count || (socket->revents & ready) == 0)
            continue;
        if (!advance_transfer(socket->fd, &transfers[at]))
            return *failed < count ? STANDIN_MISMATCH : wait_for_abort(comm, channel, peer);
        if (!matches(&transfers[at])) {
            *failed = at;
            if (find_pending(transfers, count, peer, false) < count)
                return STANDIN_MISMATCH; /* the following bytes cannot be interpreted */
        }
    }
    return STANDIN_DONE;
}

enum standin_outcome standin_exchange(ncclComm_t comm, enum standin_channel channel,
                                      struct standin_transfer *transfers, size_t count,
                                      size_t *failed)
{
    struct pollfd sockets[STANDIN_RANKS_MAX];
    int peers[STANDIN_RANKS_MAX];
    *failed = count;
    for (;;) {
        const nfds_t used = watch_peers(comm, channel, transfers, count, sockets, peers);
        if (used == 0)
            return *failed < count ? STANDIN_MISMATCH : STANDIN_DONE;
        if (standin_is_stopped(comm, channel))
            return STANDIN_ABORTED;
        if (poll(sockets, used, WAKE_MS) <= 0)
            continue;
        for (nfds_t i = 0; i < used; i++) {
            const enum standin_outcome outcome =
                serve_peer(comm, channel, &sockets[i], peers[i], transfers, count, failed);
            if (outcome != STANDIN_DONE)
                return outcome;
        }
    }
}
