/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded before the shim, breaks the connections by which the ranks of an NCCL communicator
 * agree. It recognises the requests by their size and magic number, and passes everything else
 * through.
 *
 *   BREAK=connect   the first IPv4 connection of the process is refused
 *   BREAK=hello     "hello" is sent, and its connection broken, once
 *   BREAK=ready     "ready" is sent, and its connection broken, once
 *   BREAK=unheard   the connection is broken before "ready" is sent, once
 *   BREAK=stop      the process is stopped for two seconds before it sends "ready", once */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/nccl/rendezvous_wire.h"

#define EXPORT __attribute__((visibility("default")))

static bool breaks_at(const char *step)
{
    const char *wanted = getenv("BREAK");
    return wanted != NULL && strcmp(wanted, step) == 0;
}

/* Prints a line and returns true at the first call in the process; otherwise returns false. */
static bool once(void)
{
    static int done;
    if (__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
        return false;
    fprintf(stderr, "breaker: at %s\n", getenv("BREAK"));
    return true;
}

static void stop_for_a_while(void)
{
    const pid_t stopped = getpid();
    const pid_t waker = fork();
    if (waker == 0) {
        sleep(2);
        kill(stopped, SIGCONT);
        _exit(0);
    }
    kill(stopped, SIGSTOP);
    waitpid(waker, NULL, 0);
}

EXPORT int connect(int socket, const struct sockaddr *address, socklen_t size)
{
    int (*real)(int, const struct sockaddr *, socklen_t) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "connect");
    if (breaks_at("connect") && address->sa_family == AF_INET && once()) {
        errno = ECONNREFUSED;
        return -1;
    }
    return real(socket, address, size);
}

EXPORT ssize_t send(int socket, const void *data, size_t bytes, int flags)
{
    ssize_t (*real)(int, const void *, size_t, int) = NULL;
    struct cshim_request request = {0};
    *(void **)&real = dlsym(RTLD_NEXT, "send");
    if (bytes == sizeof request)
        memcpy(&request, data, sizeof request);
    if (request.magic != CSHIM_REQUEST_MAGIC)
        return real(socket, data, bytes, flags);
    const bool ready = request.kind == CSHIM_REQUEST_READY;
    if (ready && breaks_at("unheard") && once()) {
        shutdown(socket, SHUT_RDWR);
        errno = ECONNRESET;
        return -1;
    }
    if (ready && breaks_at("stop") && once())
        stop_for_a_while();
    const ssize_t sent = real(socket, data, bytes, flags);
    if (((ready && breaks_at("ready")) ||
         (request.kind == CSHIM_REQUEST_HELLO && breaks_at("hello"))) &&
        once())
        shutdown(socket, SHUT_RDWR);
    return sent;
}
