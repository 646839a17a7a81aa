/* SPDX-License-Identifier: Apache-2.0 */
/* Tests processes that end, stop, or never come while the ranks of an NCCL communicator agree. */
#include "tests/unit/test_rendezvous_ranks.h"

/* Checks that compression is off, and that this rank knows the reason and which rank prints it. */
static void assert_told(const struct cshim_decision *decision, const char *why, uint32_t speaker)
{
    assert_true(decision->known);
    assert_false(decision->on);
    assert_non_null(strstr(decision->why, why));
    assert_int_equal(decision->speaker, speaker);
}

static void *decide(void *data)
{
    struct rank *rank = data;
    rank->decision = decide_and_leave(rank->member);
    return NULL;
}

/* Two communicators wait concurrently, until the time limit, for a rank that joined and is not
 * ready. The third does not wait for a rank that never joined. */
TEST(who_is_not_ready_is_named)
{
    uint8_t ids[3][CSHIM_ID_BYTES], other[CSHIM_ID_BYTES];
    struct rank ranks[3];
    for (int i = 0; i < 3; i++)
        serve(ids[i]);
    /* Rank 1 joins, but is not ready at the time limit. */
    ranks[0].member = join(ids[0], 0, 2);
    struct cshim_member *late = join(ids[0], 1, 2);
    /* Rank 0 joins, but never becomes ready, so rank 1 prints the message. */
    struct cshim_member *lost = join(ids[1], 0, 2);
    ranks[1].member = join(ids[1], 1, 2);
    /* A connection without the id's secret is closed, and does not count as a rank. */
    memcpy(other, ids[2], sizeof other);
    tag_of(other)->nonce++;
    ranks[2].member = join(ids[2], 0, 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, decide, &ranks[i]), 0);
    assert_null(join(other, 1, 2));
    for (int i = 0; i < 3; i++)
        pthread_join(ranks[i].thread, NULL);
    assert_told(&ranks[0].decision, "rank 1 on ", 0);
    assert_told(&ranks[0].decision, "did not come out of ncclCommInitRank", 0);
    assert_told(&ranks[1].decision, "rank 0 on ", 1);
    assert_told(&ranks[2].decision, "rank 1 without compshim", 0);
    const struct cshim_decision decision =
        decide_and_leave(late); /* comes later and gets the same decision */
    assert_true(decision.known);
    assert_false(decision.on);
    cshim_rendezvous_leave(lost);
}

/* Without the stop, the decision would name the rank that is not ready. */
TEST(a_rank_that_is_stopped_waits_no_longer)
{
    uint8_t id[CSHIM_ID_BYTES];
    serve(id);
    struct rank waiting = {.member = join(id, 0, 2)};
    struct cshim_member *other = join(id, 1, 2);
    cshim_rendezvous_ready(waiting.member, NULL);
    assert_int_equal(pthread_create(&waiting.thread, NULL, decide, &waiting), 0);
    cshim_rendezvous_stop(waiting.member);
    pthread_join(waiting.thread, NULL);
    assert_false(waiting.decision.known);
    cshim_rendezvous_leave(other);
}

/* Before the ranks are ready, nobody can have received "on", so all continue uncompressed. */
TEST(the_maker_ends_before_the_decision)
{
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_member *members[2];
    const pid_t server = serve_apart(id);
    for (uint32_t rank = 0; rank < 2; rank++)
        members[rank] = join(id, rank, 2);
    end_process(server);
    assert_null(join(id, 0, 2));
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct cshim_decision decision =
            decide_and_leave(members[rank]); /* each rank reports it */
        assert_told(&decision, "no answer from the process that made the unique id", rank);
    }
}

/* One rank has reported that it is ready and gets no answer. It does not know which answer the
 * others got. */
TEST(the_maker_ends_at_the_decision)
{
    uint8_t id[CSHIM_ID_BYTES];
    const pid_t server = serve_apart(id);
    struct cshim_member *first = join(id, 0, 2), *second = join(id, 1, 2);
    cshim_rendezvous_ready(first, NULL);
    end_process(server);
    assert_false(decide_and_leave(first).known);
    const struct cshim_decision decision = decide_and_leave(second);
    assert_true(decision.known);
    assert_false(decision.on);
}

TEST(the_makers_end_after_the_decision_is_no_matter)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    uint8_t id[CSHIM_ID_BYTES];
    const pid_t server = serve_apart(id);
    struct cshim_member *first = join(id, 0, 2), *second = join(id, 1, 2);
    cshim_rendezvous_ready(first, NULL);
    cshim_rendezvous_ready(second, NULL);
    const struct cshim_decision decision = cshim_rendezvous_decide(first);
    assert_true(decision.on);
    free(decision.offer.text);
    assert_true(decide_and_leave(second).on);
    end_process(server);
    cshim_rendezvous_come(first);
    assert_int_equal(cshim_rendezvous_wait(first, why), CSHIM_NO_ANSWER);
    cshim_rendezvous_leave(first);
}

/* The ranks report that they are ready while the serving process is stopped. They get the decision
 * after it continues. */
TEST(the_maker_is_stopped_for_a_while)
{
    uint8_t id[CSHIM_ID_BYTES];
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

/* Serves an id, and brings two members to the decision "on". The members' first call comes next. */
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
        free(decision.offer.text);
    }
}

/* A request that states another number of ranks is not answered after the decision "on". The ranks
 * that ask again still get "on". */
TEST(a_later_request_does_not_change_the_decision)
{
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_member *members[2];
    struct cshim_reply reply;
    turn_on(id, members);
    const int late = connect_to(id);
    send_request(late, id, CSHIM_REQUEST_HELLO, (struct cshim_hello){.ranks = 3, .rank = 2}, 0,
                 sizeof(struct cshim_request));
    const ssize_t received = recv(late, &reply, sizeof reply, MSG_WAITALL);
    for (uint32_t rank = 0; rank < 2; rank++)
        assert_true(decide_and_leave(members[rank]).on);
    assert_int_equal(received, 0);
    close(late);
}

TEST(who_has_not_come_is_named)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_member *members[2];
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

/* Rank 1 fails, if `is_owed` while the server still owes it a reply to WAIT. Rank 0 is told. */
static void check_failure(bool is_owed)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_member *members[2];
    turn_on(id, members);
    if (is_owed)
        cshim_rendezvous_come(members[1]);
    cshim_rendezvous_done(members[1], "it failed: no such luck");
    cshim_rendezvous_come(members[0]);
    assert_int_equal(cshim_rendezvous_wait(members[0], why), CSHIM_RANK_LOST);
    assert_non_null(strstr(why, "rank 1 on "));
    assert_non_null(strstr(why, ": it failed: no such luck"));
    cshim_rendezvous_leave(members[0]);
    cshim_rendezvous_leave(members[1]);
}

TEST(who_fails_is_named)
{
    check_failure(false);
    check_failure(true);
}

/* The rank's connection closes when its process ends. */
TEST(who_ends_in_the_first_call_is_named)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_member *members[2];
    enum cshim_absence absence;
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

/* A rank that was declared lost and comes back gets the answer that it is lost, because the others
 * no longer wait for it. */
TEST(who_was_called_lost_stays_lost)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_member *members[2];
    turn_on(id, members);
    cshim_rendezvous_come(members[0]);
    cshim_rendezvous_come(members[1]);
    cshim_rendezvous_leave(members[1]);
    while (cshim_rendezvous_wait(members[0], why) != CSHIM_RANK_LOST)
        sleep(1);
    members[1] = join(id, 1, 2);
    cshim_rendezvous_come(members[1]);
    assert_int_equal(cshim_rendezvous_wait(members[1], why), CSHIM_RANK_LOST);
    cshim_rendezvous_leave(members[0]);
    cshim_rendezvous_leave(members[1]);
}

/* A rank that has reconnected is not lost when its old connection closes at last. */
TEST(a_former_connection_is_no_matter)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_member *members[2];
    turn_on(id, members);
    cshim_rendezvous_come(members[0]);
    cshim_rendezvous_come(members[1]);
    for (uint32_t rank = 0; rank < 2; rank++)
        assert_int_equal(cshim_rendezvous_wait(members[rank], why), CSHIM_ALL_HERE);
    struct cshim_member *again = join(id, 1, 2);
    cshim_rendezvous_come(again);
    assert_int_equal(cshim_rendezvous_wait(again, why), CSHIM_ALL_HERE);
    cshim_rendezvous_leave(members[1]);
    sleep(7);
    assert_int_equal(cshim_rendezvous_wait(members[0], why), CSHIM_ALL_HERE);
    cshim_rendezvous_leave(members[0]);
    cshim_rendezvous_leave(again);
}
