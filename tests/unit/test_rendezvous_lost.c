/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that end, are stopped, or never come while the ranks of an NCCL communicator agree. */
#include "tests/unit/test_rendezvous_ranks.h"

/* A rank that is out of ncclCommInitRank and never ready: the others wait for it, and no longer
 * than they say. */
TEST(a_rank_that_is_never_ready_is_named)
{
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_decision decision;
    serve(id);
    struct cshim_member *first = join(id, 0, 2), *second = join(id, 1, 2);
    decision = decide_and_leave(first);
    assert_true(decision.known);
    assert_false(decision.on);
    assert_non_null(strstr(decision.why, "rank 1 on "));
    assert_non_null(strstr(decision.why, "did not come out of ncclCommInitRank"));
    assert_int_equal(decision.speaker, 0);
    decision = decide_and_leave(second); /* it goes on after all, and hears the same */
    assert_true(decision.known);
    assert_false(decision.on);
}

/* The one who tells the user is not the one who is lost. */
TEST(a_rank_that_waits_speaks)
{
    uint8_t id[CSHIM_ID_BYTES];
    serve(id);
    struct cshim_member *lost = join(id, 0, 2);
    const struct cshim_decision decision = decide_and_leave(join(id, 1, 2));
    assert_non_null(strstr(decision.why, "rank 0 on "));
    assert_int_equal(decision.speaker, 1);
    cshim_rendezvous_leave(lost);
}

/* Before the ranks are ready nobody can have been told "on": all go on natively. */
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
        const struct cshim_decision decision = decide_and_leave(members[rank]);
        assert_true(decision.known);
        assert_false(decision.on);
        assert_non_null(strstr(decision.why, "no answer from the process that made the unique id"));
        assert_int_equal(decision.speaker, rank); /* it alone knows */
    }
}

/* One rank has said that it is ready, and hears nothing more: it does not know what others heard.
 */
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
    free(decision.text);
    assert_true(decide_and_leave(second).on);
    end_process(server);
    cshim_rendezvous_come(first);
    assert_int_equal(cshim_rendezvous_wait(first, why), CSHIM_NO_ANSWER);
    cshim_rendezvous_leave(first);
}

/* It goes on after a while: so do the ranks, which have waited. */
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

TEST(who_fails_is_named)
{
    char why[CSHIM_RENDEZVOUS_WHY_MAX];
    uint8_t id[CSHIM_ID_BYTES];
    struct cshim_member *members[2];
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
