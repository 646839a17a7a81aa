/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of the rendezvous: ids, and ranks as threads. */
#ifndef TEST_RENDEZVOUS_RANKS_H
#define TEST_RENDEZVOUS_RANKS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/nccl/rendezvous.h"
#include "shim/nccl/rendezvous_wire.h"
#include "tests/unit/unit.h"

#define POLICY "[rule all]\ncodec = fp16\n"

static const struct cshim_offer offer = {
    .text = POLICY, .length = sizeof POLICY - 1, .source = "policy.ini", .observe = true};

/* Makes an id like NCCL's: eight bytes, then the address of its listening socket. */
static inline void make_id(uint8_t id[CSHIM_ID_BYTES])
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(4242), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memset(id, 0, CSHIM_ID_BYTES);
    memset(id, 0x5a, 8);
    memcpy(id + 8, &address, sizeof address);
}

static inline void serve_offer(uint8_t id[CSHIM_ID_BYTES], const struct cshim_offer *what)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX] = "";
    make_id(id);
    if (!cshim_rendezvous_serve(id, what, why))
        fail_msg("%s", why);
}

static inline void serve(uint8_t id[CSHIM_ID_BYTES])
{
    serve_offer(id, &offer);
}

static inline struct cshim_tag *tag_of(uint8_t id[CSHIM_ID_BYTES])
{
    return (struct cshim_tag *)&id[CSHIM_ID_BYTES - sizeof(struct cshim_tag)];
}

static inline int connect_to(uint8_t id[CSHIM_ID_BYTES])
{
    union cshim_address address;
    const socklen_t size = cshim_tag_get_address(tag_of(id), &address);
    const int stranger = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(stranger >= 0);
    assert_int_equal(connect(stranger, &address.any, size), 0);
    return stranger;
}

/* Sends bytes `from` to `to` - 1 of a request of a rank to the server of the id. */
static inline void send_request(int connection, uint8_t id[CSHIM_ID_BYTES],
                                enum cshim_request_kind kind, struct cshim_hello hello, size_t from,
                                size_t to)
{
    const struct cshim_request request = {
        .magic = CSHIM_REQUEST_MAGIC, .kind = kind, .nonce = tag_of(id)->nonce, .hello = hello};
    assert_int_equal(send(connection, (const char *)&request + from, to - from, MSG_NOSIGNAL),
                     to - from);
}

static inline struct cshim_member *join(const uint8_t id[CSHIM_ID_BYTES], uint32_t rank,
                                        uint32_t ranks)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    const struct cshim_hello hello = {.version = 7, .ranks = ranks, .rank = rank};
    return cshim_rendezvous_join(id, &hello, why);
}

static inline struct cshim_decision decide_and_leave(struct cshim_member *member)
{
    assert_non_null(member);
    struct cshim_decision decision = cshim_rendezvous_decide(member);
    cshim_rendezvous_leave(member);
    free(decision.offer.text);
    decision.offer.text = NULL;
    return decision;
}

/* A rank: joins, waits for all others, then gets the decision. */
struct rank {
    pthread_t thread;
    const uint8_t *id;
    struct cshim_hello hello;
    const char *unable;
    pthread_barrier_t *joined;
    struct cshim_member *member;
    struct cshim_decision decision;
};

static inline void *run_rank(void *data)
{
    struct rank *rank = data;
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    rank->member = cshim_rendezvous_join(rank->id, &rank->hello, why);
    pthread_barrier_wait(rank->joined); /* waits for the others, like the real ncclCommInitRank */
    if (rank->member == NULL)
        return NULL;
    cshim_rendezvous_ready(rank->member, rank->unable);
    rank->decision = cshim_rendezvous_decide(rank->member);
    cshim_rendezvous_leave(rank->member);
    return NULL;
}

static inline void run_on(const uint8_t id[CSHIM_ID_BYTES], struct rank *all, uint32_t present,
                          uint32_t ranks, void (*change)(struct rank *))
{
    pthread_barrier_t joined;
    pthread_barrier_init(&joined, NULL, present);
    for (uint32_t i = 0; i < present; i++) {
        all[i] = (struct rank){.id = id,
                               .joined = &joined,
                               .hello = {.version = 7, .host = i / 4, .ranks = ranks, .rank = i}};
        if (change != NULL && i == present - 1)
            change(&all[i]);
        assert_int_equal(pthread_create(&all[i].thread, NULL, run_rank, &all[i]), 0);
    }
    for (uint32_t i = 0; i < present; i++)
        pthread_join(all[i].thread, NULL);
    pthread_barrier_destroy(&joined);
}

/* Runs ranks 0 to present - 1 of `ranks`. `change`, if not NULL, alters the last of them. */
static inline void run_ranks(struct rank *all, uint32_t present, uint32_t ranks,
                             void (*change)(struct rank *))
{
    uint8_t id[CSHIM_ID_BYTES];
    serve(id);
    run_on(id, all, present, ranks, change);
}

static inline void all_are_on(struct rank *ranks, int count)
{
    for (int i = 0; i < count; i++) {
        assert_true(ranks[i].decision.on);
        assert_string_equal(ranks[i].decision.offer.text, POLICY);
        free(ranks[i].decision.offer.text);
    }
}

static inline void all_are_told(const struct rank *ranks, int count, const char *what)
{
    for (int i = 0; i < count; i++) {
        assert_true(ranks[i].decision.known);
        assert_false(ranks[i].decision.on);
        assert_null(ranks[i].decision.offer.text);
        if (strstr(ranks[i].decision.why, what) == NULL)
            fail_msg("'%s' is not in '%s'", what, ranks[i].decision.why);
    }
}

/* Starts a process that makes and serves an id, and that a test can kill. Returns its process id;
 * sets `id`. */
static inline pid_t serve_apart(uint8_t id[CSHIM_ID_BYTES])
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t server = fork();
    if (server == 0) {
        serve(id);
        (void)!write(ready[1], id, CSHIM_ID_BYTES);
        pause();
    }
    assert_int_equal(read(ready[0], id, CSHIM_ID_BYTES), CSHIM_ID_BYTES);
    close(ready[0]);
    close(ready[1]);
    return server;
}

static inline void end_process(pid_t process)
{
    kill(process, SIGKILL);
    waitpid(process, NULL, 0);
}

#endif
