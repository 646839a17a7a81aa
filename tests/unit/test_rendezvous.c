/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous of an NCCL communicator's ranks: as threads, and as processes that end, are
 * stopped, or never come; and strangers at its door. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void serve_offer(uint8_t id[CSHIM_ID_BYTES], const struct cshim_offer *what)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX] = "";
    make_id(id);
    if (!cshim_rendezvous_serve(id, what, why))
        fail_msg("%s", why);
}

static void serve(uint8_t id[CSHIM_ID_BYTES])
{
    serve_offer(id, &offer);
}

static struct cshim_tag *tag_of(uint8_t id[CSHIM_ID_BYTES])
{
    return (struct cshim_tag *)(id + CSHIM_ID_BYTES - sizeof(struct cshim_tag));
}

static struct cshim_member *join(const uint8_t id[CSHIM_ID_BYTES], uint32_t rank, uint32_t ranks)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    const struct cshim_hello hello = {.version = 7, .ranks = ranks, .rank = rank};
    return cshim_rendezvous_join(id, &hello, why);
}

static struct cshim_decision decide_and_leave(struct cshim_member *member)
{
    assert_non_null(member);
    struct cshim_decision decision = cshim_rendezvous_decide(member);
    cshim_rendezvous_leave(member);
    free(decision.text);
    decision.text = NULL;
    return decision;
}

/* One rank: says hello, and asks once all have. */
struct rank {
    pthread_t thread;
    const uint8_t *id;
    struct cshim_hello hello;
    const char *unable;
    pthread_barrier_t *joined;
    struct cshim_decision decision;
};

static void *run_rank(void *data)
{
    struct rank *rank = data;
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    struct cshim_member *member = cshim_rendezvous_join(rank->id, &rank->hello, why);
    pthread_barrier_wait(rank->joined); /* what the real ncclCommInitRank does */
    if (member == NULL)
        return NULL;
    cshim_rendezvous_ready(member, rank->unable);
    rank->decision = cshim_rendezvous_decide(member);
    cshim_rendezvous_leave(member);
    return NULL;
}

static void run_on(const uint8_t id[CSHIM_ID_BYTES], struct rank *all, uint32_t present,
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

/* Runs ranks 0 to present - 1 of `ranks`; change, where given, alters the last one. */
static void run(struct rank *all, uint32_t present, uint32_t ranks, void (*change)(struct rank *))
{
    uint8_t id[CSHIM_ID_BYTES];
    serve(id);
    run_on(id, all, present, ranks, change);
}

static void all_are_on(struct rank *ranks, int count)
{
    for (int i = 0; i < count; i++) {
        assert_true(ranks[i].decision.on);
        assert_string_equal(ranks[i].decision.text, POLICY);
        free(ranks[i].decision.text);
    }
}

static void all_ranks_get_the_policy(void **state)
{
    struct rank ranks[9];
    (void)state;
    run(ranks, 9, 9, NULL);
    for (int i = 0; i < 9; i++) {
        assert_true(ranks[i].decision.observe);
        assert_int_equal(ranks[i].decision.nodes, 3);
        assert_int_equal(ranks[i].decision.length, strlen(POLICY));
        assert_string_equal(ranks[i].decision.source, "policy.ini");
    }
    all_are_on(ranks, 9);
}

/* More than sockets take at once. */
static void a_long_policy_arrives(void **state)
{
    enum { LENGTH = 1000000 };
    struct rank ranks[3];
    uint8_t id[CSHIM_ID_BYTES];
    char *text = malloc(LENGTH);
    (void)state;
    for (int i = 0; i < LENGTH; i++)
        text[i] = (char)('a' + i % 23);
    const struct cshim_offer large = {.text = text, .length = LENGTH, .source = "large.ini"};
    serve_offer(id, &large);
    run_on(id, ranks, 3, 3, NULL);
    for (int i = 0; i < 3; i++) {
        assert_true(ranks[i].decision.on);
        assert_int_equal(ranks[i].decision.length, LENGTH);
        assert_memory_equal(ranks[i].decision.text, text, LENGTH);
        free(ranks[i].decision.text);
    }
    free(text);
}

static void all_are_told(const struct rank *ranks, int count, const char *what)
{
    for (int i = 0; i < count; i++) {
        assert_true(ranks[i].decision.known);
        assert_false(ranks[i].decision.on);
        assert_null(ranks[i].decision.text);
        if (strstr(ranks[i].decision.why, what) == NULL)
            fail_msg("'%s' is not in '%s'", what, ranks[i].decision.why);
    }
}

static void ranks_without_the_shim_are_named(void **state)
{
    struct rank ranks[3];
    (void)state;
    run(ranks, 3, 5, NULL);
    all_are_told(ranks, 3, "rank 3, 4 without compshim");
}

static void make_other_version(struct rank *rank)
{
    rank->hello.version++;
}

static void make_nonblocking(struct rank *rank)
{
    rank->hello.nonblocking = 1;
}

static void make_unable(struct rank *rank)
{
    rank->unable = "no memory on the device";
}

static void make_smaller(struct rank *rank)
{
    rank->hello.ranks = rank->hello.ranks + 1;
}

/* Who it is, where, and what is wrong with it. */
static void an_odd_rank_is_named(void **state)
{
    static const struct {
        void (*change)(struct rank *);
        const char *text;
    } cases[] = {
        {make_other_version, "with another version of compshim"},
        {make_nonblocking, "with a non-blocking communicator"},
        {make_unable, "cannot compress: no memory on the device"},
        {make_smaller, "is of 4 ranks, others are of 3"},
    };
    struct rank ranks[3];
    char machine[33] = "", who[64];
    (void)state;
    gethostname(machine, sizeof machine - 1);
    snprintf(who, sizeof who, "rank 2 on %s ", machine);
    for (size_t i = 0; i < 3; i++) {
        run(ranks, 3, 3, cases[i].change);
        all_are_told(ranks, 3, cases[i].text);
        all_are_told(ranks, 3, who);
    }
    run(ranks, 3, 3, make_smaller);
    all_are_told(ranks, 3, " ranks, others are of ");
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

/* Whoever has not the id's secret is hung up on, and does not count as a rank. */
static void a_stranger_is_no_rank(void **state)
{
    uint8_t id[CSHIM_ID_BYTES], other[CSHIM_ID_BYTES];
    (void)state;
    serve(id);
    memcpy(other, id, sizeof other);
    tag_of(other)->nonce++;
    struct cshim_member *first = join(id, 0, 2);
    assert_null(join(other, 1, 2));
    const struct cshim_decision decision = decide_and_leave(first);
    assert_false(decision.on);
    assert_non_null(strstr(decision.why, "rank 1 without compshim"));
}

static void a_rank_that_comes_late_is_told(void **state)
{
    uint8_t id[CSHIM_ID_BYTES];
    (void)state;
    serve(id);
    assert_false(decide_and_leave(join(id, 0, 2)).on);
    assert_false(decide_and_leave(join(id, 1, 2)).on);
}

/* A rank that is out of ncclCommInitRank and never ready: the others wait for it, and no longer
 * than they say. */
static void a_rank_that_is_never_ready_is_named(void **state)
{
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_decision decision;
    (void)state;
    serve(id);
    struct cshim_member *first = join(id, 0, 2), *second = join(id, 1, 2);
    decision = decide_and_leave(first);
    assert_true(decision.known);
    assert_false(decision.on);
    assert_non_null(strstr(decision.why, "rank 1 on "));
    assert_non_null(strstr(decision.why, "did not come out of ncclCommInitRank"));
    decision = decide_and_leave(second); /* it goes on after all, and hears the same */
    assert_true(decision.known);
    assert_false(decision.on);
}

/* Two communicators, in another order on each rank: nobody waits for himself. */
static void any_order_will_do(void **state)
{
    uint8_t ids[2][CSHIM_ID_BYTES];
    struct cshim_member *members[2][2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        serve(ids[i]);
        for (uint32_t rank = 0; rank < 2; rank++)
            members[i][rank] = join(ids[i], rank, 2);
    }
    for (int i = 0; i < 4; i++)
        cshim_rendezvous_ready(members[i / 2][i % 2], NULL);
    for (int i = 0; i < 4; i++)
        assert_true(decide_and_leave(members[i / 2][i % 2]).on);
}

static int connect_to(uint8_t id[CSHIM_ID_BYTES])
{
    union cshim_address address;
    const socklen_t size = cshim_tag_get_address(tag_of(id), &address);
    const int stranger = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(stranger >= 0);
    assert_int_equal(connect(stranger, &address.any, size), 0);
    return stranger;
}

/* Scanners connect and say nothing, or rubbish, or half a request, or hang up. */
static void strangers_do_no_harm(void **state)
{
    enum { STRANGERS = 400 };
    static const char rubbish[4096] = "GET / HTTP/1.0\r\n\r\n";
    struct cshim_request half = {.magic = CSHIM_REQUEST_MAGIC};
    struct rank ranks[3];
    uint8_t id[CSHIM_ID_BYTES];
    int strangers[STRANGERS];
    (void)state;
    serve(id);
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = connect_to(id);
        if (i % 4 == 1)
            (void)!send(strangers[i], rubbish, sizeof rubbish, MSG_NOSIGNAL);
        if (i % 4 == 2)
            (void)!send(strangers[i], &half, sizeof half / 2, MSG_NOSIGNAL);
        if (i % 4 == 3)
            shutdown(strangers[i], SHUT_RDWR);
    }
    run_on(id, ranks, 3, 3, NULL);
    all_are_on(ranks, 3);
    for (int i = 0; i < STRANGERS; i++)
        close(strangers[i]);
}

/* A child without the parent's server. */
static pid_t fork_apart(void)
{
    cshim_rendezvous_before_fork();
    const pid_t child = fork();
    cshim_rendezvous_after_fork(child == 0);
    return child;
}

/* The process that serves has no room for another file: ranks come in when there is some again. */
static void without_files_ranks_come_in_later(void **state)
{
    struct rlimit all, few;
    struct rank ranks[2];
    uint8_t id[CSHIM_ID_BYTES];
    int ready[2];
    (void)state;
    assert_int_equal(pipe(ready), 0);
    const pid_t server = fork_apart();
    if (server == 0) {
        serve(id);
        getrlimit(RLIMIT_NOFILE, &all);
        few = (struct rlimit){.rlim_cur = (rlim_t)ready[1] + 1, .rlim_max = all.rlim_max};
        setrlimit(RLIMIT_NOFILE, &few);
        (void)!write(ready[1], id, sizeof id);
        sleep(1);
        setrlimit(RLIMIT_NOFILE, &all);
        pause();
    }
    assert_int_equal(read(ready[0], id, sizeof id), sizeof id);
    run_on(id, ranks, 2, 2, NULL);
    all_are_on(ranks, 2);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

/* A process that makes an id, and is at hand to be ended; its id in `id`. */
static pid_t serve_apart(uint8_t id[CSHIM_ID_BYTES])
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t server = fork_apart();
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

static void end_process(pid_t process)
{
    kill(process, SIGKILL);
    waitpid(process, NULL, 0);
}

/* Before the ranks are ready nobody can have been told "on": all go on natively. */
static void the_maker_ends_before_the_decision(void **state)
{
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_member *members[2];
    (void)state;
    const pid_t server = serve_apart(id);
    for (uint32_t rank = 0; rank < 2; rank++)
        members[rank] = join(id, rank, 2);
    end_process(server);
    assert_null(join(id, 0, 2));
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct cshim_decision decision = decide_and_leave(members[rank]);
        assert_true(decision.known);
        assert_false(decision.on);
        assert_non_null(strstr(decision.why, "no answer from the process that made the unique id"));
    }
}

/* One rank has said that it is ready, and hears nothing more: it does not know what others heard. */
static void the_maker_ends_at_the_decision(void **state)
{
    uint8_t id[CSHIM_ID_BYTES];
    (void)state;
    const pid_t server = serve_apart(id);
    struct cshim_member *first = join(id, 0, 2), *second = join(id, 1, 2);
    cshim_rendezvous_ready(first, NULL);
    end_process(server);
    assert_false(decide_and_leave(first).known);
    const struct cshim_decision decision = decide_and_leave(second);
    assert_true(decision.known);
    assert_false(decision.on);
}

static void the_makers_end_after_the_decision_is_no_matter(void **state)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    uint8_t id[CSHIM_ID_BYTES];
    (void)state;
    const pid_t server = serve_apart(id);
    struct cshim_member *first = join(id, 0, 2), *second = join(id, 1, 2);
    cshim_rendezvous_ready(first, NULL);
    cshim_rendezvous_ready(second, NULL);
    const struct cshim_decision decision = cshim_rendezvous_decide(first);
    assert_true(decision.on);
    free(decision.text);
    assert_true(decide_and_leave(second).on);
    end_process(server);
    cshim_rendezvous_come(first);
    assert_int_equal(cshim_rendezvous_wait(first, why), CSHIM_NO_ANSWER);
    cshim_rendezvous_leave(first);
}

/* It goes on after a while: so do the ranks, which have waited. */
static void the_maker_is_stopped_for_a_while(void **state)
{
    uint8_t id[CSHIM_ID_BYTES];
    (void)state;
    const pid_t server = serve_apart(id);
    struct cshim_member *first = join(id, 0, 2), *second = join(id, 1, 2);
    kill(server, SIGSTOP);
    cshim_rendezvous_ready(first, NULL);
    cshim_rendezvous_ready(second, NULL);
    kill(server, SIGCONT);
    assert_true(decide_and_leave(first).on);
    assert_true(decide_and_leave(second).on);
    end_process(server);
}

/* The first call: two members that are on. */
static void turn_on(uint8_t id[CSHIM_ID_BYTES], struct cshim_member *members[2])
{
    serve(id);
    for (uint32_t rank = 0; rank < 2; rank++)
        members[rank] = join(id, rank, 2);
    for (uint32_t rank = 0; rank < 2; rank++)
        cshim_rendezvous_ready(members[rank], NULL);
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct cshim_decision decision = cshim_rendezvous_decide(members[rank]);
        assert_true(decision.on);
        free(decision.text);
    }
}

static void who_has_not_come_is_named(void **state)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_member *members[2];
    (void)state;
    turn_on(id, members);
    cshim_rendezvous_come(members[0]);
    assert_int_equal(cshim_rendezvous_wait(members[0], why), CSHIM_RANKS_MISSING);
    assert_non_null(strstr(why, "rank 1 on "));
    assert_non_null(strstr(why, " not there yet"));
    cshim_rendezvous_come(members[1]);
    assert_int_equal(cshim_rendezvous_wait(members[1], why), CSHIM_ALL_HERE);
    assert_int_equal(cshim_rendezvous_wait(members[0], why), CSHIM_ALL_HERE);
    cshim_rendezvous_done(members[0], NULL);
    assert_int_equal(cshim_rendezvous_wait(members[1], why), CSHIM_ALL_HERE);
    cshim_rendezvous_leave(members[0]);
    cshim_rendezvous_leave(members[1]);
}

static void who_fails_is_named(void **state)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_member *members[2];
    (void)state;
    turn_on(id, members);
    cshim_rendezvous_done(members[1], "it failed: no such luck");
    cshim_rendezvous_come(members[0]);
    assert_int_equal(cshim_rendezvous_wait(members[0], why), CSHIM_RANK_LOST);
    assert_non_null(strstr(why, "rank 1 on "));
    assert_non_null(strstr(why, ": it failed: no such luck"));
    cshim_rendezvous_leave(members[0]);
    cshim_rendezvous_leave(members[1]);
}

/* Its connection ends with its process. */
static void who_ends_in_the_first_call_is_named(void **state)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_member *members[2];
    enum cshim_absence absence;
    (void)state;
    turn_on(id, members);
    cshim_rendezvous_come(members[1]);
    cshim_rendezvous_leave(members[1]);
    cshim_rendezvous_come(members[0]);
    do {
        absence = cshim_rendezvous_wait(members[0], why);
    } while (absence == CSHIM_RANKS_MISSING || absence == CSHIM_ALL_HERE);
    assert_int_equal(absence, CSHIM_RANK_LOST);
    assert_non_null(strstr(why, "rank 1 on "));
    assert_non_null(strstr(why, ": its process has ended"));
    cshim_rendezvous_leave(members[0]);
}

static unsigned count_in(const char *folder)
{
    char command[64], text[16] = "";
    snprintf(command, sizeof command, "ls /proc/%d/%s | wc -l", (int)getpid(), folder);
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    assert_non_null(fgets(text, sizeof text, stream));
    pclose(stream);
    return (unsigned)atoi(text);
}

/* Ids, used and not, cost neither threads nor files. */
static void ids_are_cheap(void **state)
{
    uint8_t id[CSHIM_ID_BYTES];
    struct rank ranks[2];
    (void)state;
    serve(id);
    const unsigned threads = count_in("task"), files = count_in("fd");
    for (int i = 0; i < 2000; i++)
        serve(id);
    for (int i = 0; i < 200; i++) {
        run(ranks, 2, 2, NULL);
        all_are_on(ranks, 2);
    }
    assert_int_equal(count_in("task"), threads);
    assert_in_range(count_in("fd"), 0, files + 4);
}

/* The oldest are forgotten; who comes to such a one stays native. */
static void not_all_ids_are_remembered(void **state)
{
    uint8_t old[CSHIM_ID_BYTES], id[CSHIM_ID_BYTES];
    struct rank ranks[2];
    (void)state;
    serve(old);
    for (int i = 0; i < 12; i++) {
        serve(id);
        cshim_rendezvous_leave(join(id, 0, 1 << 14)); /* nobody else will come */
    }
    run(ranks, 2, 2, NULL);
    all_are_on(ranks, 2);
    assert_null(join(old, 0, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_get_the_policy),
        cmocka_unit_test(a_long_policy_arrives),
        cmocka_unit_test(ranks_without_the_shim_are_named),
        cmocka_unit_test(an_odd_rank_is_named),
        cmocka_unit_test(an_id_made_without_the_shim_is_known),
        cmocka_unit_test(an_id_without_room_is_left_alone),
        cmocka_unit_test(nccls_part_of_the_id_stays),
        cmocka_unit_test(a_stranger_is_no_rank),
        cmocka_unit_test(a_rank_that_comes_late_is_told),
        cmocka_unit_test(a_rank_that_is_never_ready_is_named),
        cmocka_unit_test(any_order_will_do),
        cmocka_unit_test(strangers_do_no_harm),
        cmocka_unit_test(without_files_ranks_come_in_later),
        cmocka_unit_test(the_maker_ends_before_the_decision),
        cmocka_unit_test(the_maker_ends_at_the_decision),
        cmocka_unit_test(the_makers_end_after_the_decision_is_no_matter),
        cmocka_unit_test(the_maker_is_stopped_for_a_while),
        cmocka_unit_test(who_has_not_come_is_named),
        cmocka_unit_test(who_fails_is_named),
        cmocka_unit_test(who_ends_in_the_first_call_is_named),
        cmocka_unit_test(ids_are_cheap),
        cmocka_unit_test(not_all_ids_are_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
