/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how the ranks of an NCCL communicator agree, and connections by strangers. */
#include "tests/unit/test_rendezvous_ranks.h"

TEST(all_ranks_get_the_policy)
{
    struct rank ranks[9];
    run_ranks(ranks, 9, 9, NULL);
    for (int i = 0; i < 9; i++) {
        assert_true(ranks[i].decision.offer.observe);
        assert_int_equal(ranks[i].decision.nodes, 3);
        assert_int_equal(ranks[i].decision.offer.length, strlen(POLICY));
        assert_string_equal(ranks[i].decision.offer.source, "policy.ini");
    }
    all_are_on(ranks, 9);
}

/* Tests a policy of a million bytes. */
TEST(a_long_policy_arrives)
{
    enum { LENGTH = 1000000 };
    struct rank ranks[3];
    uint8_t id[CSHIM_ID_BYTES];
    char *text = malloc(LENGTH);
    for (int i = 0; i < LENGTH; i++)
        text[i] = (char)('a' + i % 23);
    const struct cshim_offer large = {.text = text, .length = LENGTH, .source = "large.ini"};
    serve_offer(id, &large);
    run_on(id, ranks, 3, 3, NULL);
    for (int i = 0; i < 3; i++) {
        assert_true(ranks[i].decision.on);
        assert_int_equal(ranks[i].decision.offer.length, LENGTH);
        assert_memory_equal(ranks[i].decision.offer.text, text, LENGTH);
        free(ranks[i].decision.offer.text);
    }
    free(text);
}

/* Tries every shorter message, and one whose text would end behind it. */
TEST(a_malformed_offer_is_refused)
{
    const struct cshim_offer sent = {.text = "policy",
                                     .length = 6,
                                     .source = "policy.ini",
                                     .learned = "learned",
                                     .learned_length = 7};
    const uint64_t bytes = cshim_offer_packed_bytes(&sent);
    struct cshim_offer received;
    char *packed = malloc(bytes);
    cshim_offer_pack(&sent, packed);
    for (uint64_t shorter = 0; shorter < bytes - 7; shorter++)
        assert_false(cshim_offer_unpack(&received, packed, shorter));
    assert_true(cshim_offer_unpack(&received, packed, bytes));
    assert_string_equal(received.text, "policy");
    assert_string_equal(received.learned, "learned");
    assert_int_equal(received.learned_length, 7);
    cshim_offer_free(&received);
    const uint64_t too_long = bytes;
    memcpy(packed, &too_long, sizeof too_long); /* the length of the policy's text */
    assert_false(cshim_offer_unpack(&received, packed, bytes));
    free(packed);
}

TEST(ranks_without_the_shim_are_named)
{
    struct rank ranks[3];
    run_ranks(ranks, 3, 5, NULL);
    all_are_told(ranks, 3, "rank 3, 4 without compshim");
}

static void make_other_version(struct rank *rank)
{
    rank->hello.version++;
}

static void make_unable(struct rank *rank)
{
    rank->unable = "no memory on the device";
}

static void make_smaller(struct rank *rank)
{
    rank->hello.ranks = rank->hello.ranks + 1;
}

/* The message names the rank, its host, and what is wrong with it. */
TEST(an_odd_rank_is_named)
{
    static const struct {
        void (*change)(struct rank *);
        const char *text;
    } cases[] = {
        {make_other_version, "with another version of compshim"},
        {make_unable, "cannot compress: no memory on the device"},
    };
    struct rank ranks[3];
    char machine[33] = "", who[64];
    gethostname(machine, sizeof machine - 1);
    snprintf(who, sizeof who, "rank 2 on %s ", machine);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_ranks(ranks, 3, 3, cases[i].change);
        all_are_told(ranks, 3, cases[i].text);
        all_are_told(ranks, 3, who);
    }
    run_ranks(ranks, 3, 3, make_smaller); /* the order of arrival decides who is named */
    all_are_told(ranks, 3, " ranks, others are of ");
}

TEST(an_id_made_without_the_shim_is_known)
{
    uint8_t id[CSHIM_ID_BYTES];
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    const struct cshim_hello hello = {.ranks = 2};
    make_id(id);
    assert_null(cshim_rendezvous_join(id, &hello, why));
    assert_non_null(strstr(why, "does not have compshim"));
}

TEST(an_id_without_room_is_left_alone)
{
    uint8_t id[CSHIM_ID_BYTES], before[CSHIM_ID_BYTES];
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    make_id(id);
    id[CSHIM_ID_BYTES - 1] = 1;
    memcpy(before, id, sizeof id);
    assert_false(cshim_rendezvous_serve(id, &offer, why));
    assert_memory_equal(id, before, sizeof id);
}

TEST(nccls_part_of_the_id_stays)
{
    uint8_t id[CSHIM_ID_BYTES], fresh[CSHIM_ID_BYTES];
    make_id(fresh);
    serve(id);
    assert_memory_equal(id, fresh, 88);
}

TEST(a_rank_that_comes_late_is_told)
{
    uint8_t id[CSHIM_ID_BYTES];
    serve(id);
    assert_false(decide_and_leave(join(id, 0, 2)).on);
    assert_false(decide_and_leave(join(id, 1, 2)).on);
}

/* All ranks of two communicators join before any is ready: no deadlock. */
TEST(any_order_will_do)
{
    uint8_t ids[2][CSHIM_ID_BYTES];
    struct cshim_member *members[2][2];
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

/* Port scanners connect and send nothing, garbage, or half a request, or disconnect. */
TEST(strangers_do_no_harm)
{
    enum { STRANGERS = 400 };
    static const char rubbish[4096] = "GET / HTTP/1.0\r\n\r\n";
    struct cshim_request half = {.magic = CSHIM_REQUEST_MAGIC};
    struct rank ranks[3];
    uint8_t id[CSHIM_ID_BYTES];
    int strangers[STRANGERS];
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

/* Connects, and asks about the durations of a communicator that the server does not know. */
static int ask_in_vain(void)
{
    static const struct timeval patience = {.tv_sec = 30};
    uint8_t unknown[CSHIM_ID_BYTES];
    struct cshim_reply reply;
    serve(unknown);
    const int stranger = connect_to(unknown);
    setsockopt(stranger, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    send_request(stranger, unknown, CSHIM_REQUEST_ASK, (struct cshim_hello){0}, 0,
                 sizeof(struct cshim_request));
    assert_int_equal(recv(stranger, &reply, sizeof reply, MSG_WAITALL), sizeof reply);
    assert_false(reply.answer.is_known);
    return stranger;
}

/* A rank's connection is idle for longer than a request may take, and the next request arrives in
 * two pieces. A stranger's is closed meanwhile. */
TEST(an_idle_rank_may_send_in_pieces)
{
    static const struct cshim_hello hello = {.version = 7, .ranks = 1};
    const size_t size = sizeof(struct cshim_request);
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_reply reply;
    serve(id);
    const int connection = connect_to(id), stranger = ask_in_vain();
    send_request(connection, id, CSHIM_REQUEST_HELLO, hello, 0, size);
    assert_int_equal(recv(connection, &reply, sizeof reply, MSG_WAITALL), sizeof reply);
    sleep(6);
    assert_int_equal(recv(stranger, &reply, sizeof reply, 0), 0);
    close(stranger);
    send_request(connection, id, CSHIM_REQUEST_READY, hello, 0, size / 2);
    usleep(100000);
    send_request(connection, id, CSHIM_REQUEST_READY, hello, size / 2, size);
    assert_int_equal(recv(connection, &reply, sizeof reply, MSG_WAITALL), sizeof reply);
    assert_true(reply.on);
    close(connection);
}

/* Accepts a connection and receives a request on it. Returns the connection. */
static int accept_request(int listener)
{
    struct cshim_request request;
    const int connection = accept(listener, NULL, NULL);
    (void)!recv(connection, &request, sizeof request, MSG_WAITALL);
    return connection;
}

/* Serves one rank, whose first decision has an offer that is too long, and closes the listener.
 * Returns NULL unless the rank closes each connection before it sends another request. */
static void *serve_an_offer_too_long(void *data)
{
    static const struct cshim_reply replies[] = {
        {.on = 0}, {.on = 1, .offer_bytes = CSHIM_OFFER_PACKED_MAX + 1}, {.on = 0}};
    char closed = 1;
    for (int i = 0; i < 3 && closed; i++) {
        const int connection = accept_request(*(const int *)data);
        (void)!send(connection, &replies[i], sizeof replies[i], MSG_NOSIGNAL);
        closed = recv(connection, &closed, 1, 0) == 0;
        close(connection);
    }
    close(*(const int *)data);
    return closed ? data : NULL;
}

TEST(an_offer_too_long_ends_the_connection)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    uint8_t id[CSHIM_ID_BYTES];
    pthread_t server;
    void *closed;
    serve(id);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 3), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    tag_of(id)->port = address.sin_port;
    assert_int_equal(pthread_create(&server, NULL, serve_an_offer_too_long, &listener), 0);
    const struct cshim_decision decision = decide_and_leave(join(id, 0, 1));
    pthread_join(server, &closed);
    assert_non_null(closed);
    assert_true(decision.known);
    assert_false(decision.on);
}

/* The serving process has no free file descriptor. Ranks are accepted once it has one. */
TEST(without_files_ranks_come_in_later)
{
    struct rlimit all, few;
    struct rank ranks[2];
    uint8_t id[CSHIM_ID_BYTES];
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t server = fork();
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

/* Ids, used or not, hold neither threads nor files. */
TEST(ids_are_cheap)
{
    uint8_t id[CSHIM_ID_BYTES];
    struct rank ranks[2];
    serve(id);
    const unsigned threads = count_in("task"), files = count_in("fd");
    for (int i = 0; i < 2000; i++)
        serve(id);
    for (int i = 0; i < 200; i++) {
        run_ranks(ranks, 2, 2, NULL);
        all_are_on(ranks, 2);
    }
    assert_int_equal(count_in("task"), threads);
    assert_in_range(count_in("fd"), 0, files + 4);
}

/* The oldest ids are forgotten. The calls of ranks with such an id are passed through. */
TEST(not_all_ids_are_remembered)
{
    uint8_t old[CSHIM_ID_BYTES], id[CSHIM_ID_BYTES];
    struct rank ranks[2];
    serve(old);
    for (int i = 0; i < 12; i++) {
        serve(id);
        cshim_rendezvous_leave(join(id, 0, 1 << 14)); /* the other ranks never come */
    }
    run_ranks(ranks, 2, 2, NULL);
    all_are_on(ranks, 2);
    assert_null(join(old, 0, 2));
}
