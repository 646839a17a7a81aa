/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous of an NCCL communicator's ranks, as threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>

#include "shim/nccl/rendezvous.h"
#include "shim/nccl/rendezvous_wire.h"

#define POLICY "[rule all]\ncodec = fp16\n"

static const struct cshim_offer offer = {
    .text = POLICY, .length = sizeof POLICY - 1, .source = "policy.ini", .observe = true};

/* An id as NCCL makes it: eight bytes, and the address it waits at. */
static void make_id(uint8_t id[CSHIM_ID_BYTES])
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(4242), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memset(id, 0, CSHIM_ID_BYTES);
    memset(id, 0x5a, 8);
    memcpy(id + 8, &address, sizeof address);
}

static void serve(uint8_t id[CSHIM_ID_BYTES])
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX] = "";
    make_id(id);
    if (!cshim_rendezvous_serve(id, &offer, why))
        fail_msg("%s", why);
}

/* One rank: says hello, and asks once all have. */
struct rank {
    pthread_t thread;
    const uint8_t *id;
    struct cshim_hello hello;
    pthread_barrier_t *joined;
    struct cshim_decision decision;
};

static void *run_rank(void *data)
{
    struct rank *rank = data;
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    struct cshim_member *member = cshim_rendezvous_join(rank->id, &rank->hello, why);
    pthread_barrier_wait(rank->joined); /* what the real ncclCommInitRank does */
    if (member != NULL)
        rank->decision = cshim_rendezvous_decide(member);
    return NULL;
}

/* Runs ranks 0 to present - 1 of `ranks`; change, where given, alters the last one's hello. */
static void run(struct rank *all, uint32_t present, uint32_t ranks,
                void (*change)(struct cshim_hello *))
{
    uint8_t id[CSHIM_ID_BYTES];
    pthread_barrier_t joined;
    serve(id);
    pthread_barrier_init(&joined, NULL, present);
    for (uint32_t i = 0; i < present; i++) {
        all[i] = (struct rank){.id = id,
                               .joined = &joined,
                               .hello = {.version = 7, .host = i / 4, .ranks = ranks, .rank = i}};
        if (change != NULL && i == present - 1)
            change(&all[i].hello);
        assert_int_equal(pthread_create(&all[i].thread, NULL, run_rank, &all[i]), 0);
    }
    for (uint32_t i = 0; i < present; i++)
        pthread_join(all[i].thread, NULL);
    pthread_barrier_destroy(&joined);
}

static void all_ranks_get_the_policy(void **state)
{
    struct rank ranks[9];
    (void)state;
    run(ranks, 9, 9, NULL);
    for (int i = 0; i < 9; i++) {
        assert_true(ranks[i].decision.on);
        assert_true(ranks[i].decision.observe);
        assert_int_equal(ranks[i].decision.nodes, 3);
        assert_string_equal(ranks[i].decision.text, POLICY);
        assert_int_equal(ranks[i].decision.length, strlen(POLICY));
        assert_string_equal(ranks[i].decision.source, "policy.ini");
        free(ranks[i].decision.text);
    }
}

static void all_are_told(const struct rank *ranks, int count, const char *what)
{
    for (int i = 0; i < count; i++) {
        assert_false(ranks[i].decision.on);
        assert_null(ranks[i].decision.text);
        assert_non_null(strstr(ranks[i].decision.why, what));
    }
}

static void ranks_without_the_shim_are_named(void **state)
{
    struct rank ranks[3];
    (void)state;
    run(ranks, 3, 5, NULL);
    all_are_told(ranks, 3, "rank 3, 4 without compshim");
}

static void make_other_version(struct cshim_hello *hello)
{
    hello->version++;
}

static void make_nonblocking(struct cshim_hello *hello)
{
    hello->nonblocking = 1;
}

static void another_version_is_named(void **state)
{
    struct rank ranks[3];
    (void)state;
    run(ranks, 3, 3, make_other_version);
    all_are_told(ranks, 3, "with another version of compshim");
}

static void a_nonblocking_rank_is_named(void **state)
{
    struct rank ranks[2];
    (void)state;
    run(ranks, 2, 2, make_nonblocking);
    all_are_told(ranks, 2, "rank 1 with a non-blocking communicator");
}

static void an_id_made_without_the_shim_is_known(void **state)
{
    uint8_t id[CSHIM_ID_BYTES];
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    const struct cshim_hello hello = {.ranks = 2};
    (void)state;
    make_id(id);
    assert_null(cshim_rendezvous_join(id, &hello, why));
    assert_non_null(strstr(why, "does not have compshim"));
}

static void an_id_without_room_is_left_alone(void **state)
{
    uint8_t id[CSHIM_ID_BYTES], before[CSHIM_ID_BYTES];
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    (void)state;
    make_id(id);
    id[CSHIM_ID_BYTES - 1] = 1;
    memcpy(before, id, sizeof id);
    assert_false(cshim_rendezvous_serve(id, &offer, why));
    assert_memory_equal(id, before, sizeof id);
}

static void nccls_part_of_the_id_stays(void **state)
{
    uint8_t id[CSHIM_ID_BYTES], fresh[CSHIM_ID_BYTES];
    (void)state;
    make_id(fresh);
    serve(id);
    assert_memory_equal(id, fresh, 88);
}

/* Whoever has not the id's secret does not count as a rank. */
static void a_stranger_is_no_rank(void **state)
{
    uint8_t id[CSHIM_ID_BYTES], other[CSHIM_ID_BYTES];
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    struct cshim_hello hello = {.version = 7, .ranks = 2, .rank = 0};
    (void)state;
    serve(id);
    memcpy(other, id, sizeof other);
    struct cshim_tag *tag = (struct cshim_tag *)(other + sizeof other - sizeof *tag);
    tag->nonce++;
    struct cshim_member *first = cshim_rendezvous_join(id, &hello, why);
    hello.rank = 1;
    struct cshim_member *stranger = cshim_rendezvous_join(other, &hello, why);
    const struct cshim_decision decision = cshim_rendezvous_decide(first);
    assert_false(decision.on);
    assert_non_null(strstr(decision.why, "rank 1 without compshim"));
    if (stranger != NULL)
        cshim_rendezvous_leave(stranger);
}

static void a_rank_that_comes_late_is_told(void **state)
{
    uint8_t id[CSHIM_ID_BYTES];
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    struct cshim_hello hello = {.version = 7, .ranks = 2, .rank = 0};
    (void)state;
    serve(id);
    assert_false(cshim_rendezvous_decide(cshim_rendezvous_join(id, &hello, why)).on);
    hello.rank = 1;
    struct cshim_member *late = cshim_rendezvous_join(id, &hello, why);
    assert_non_null(late);
    assert_false(cshim_rendezvous_decide(late).on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_get_the_policy),
        cmocka_unit_test(ranks_without_the_shim_are_named),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(a_nonblocking_rank_is_named),
        cmocka_unit_test(an_id_made_without_the_shim_is_known),
        cmocka_unit_test(an_id_without_room_is_left_alone),
        cmocka_unit_test(nccls_part_of_the_id_stays),
        cmocka_unit_test(a_stranger_is_no_rank),
        cmocka_unit_test(a_rank_that_comes_late_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
