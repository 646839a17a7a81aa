/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how ranks agree on durations (shim/nccl/rendezvous_durations.h): asked in any order, and
 * more than once, all ranks decide in the same window and by the same durations, before any rank
 * has begun that window. The last tests ask over sockets. */
#include <math.h>

#include "tests/unit/test_rendezvous_ranks.h"

#define NONCE 42u
#define RANKS_MAX 4
#define DECISIONS 6

/* A rank that asks as shim/nccl/choose.c does. */
struct asking {
    uint32_t decision; /* number of decisions that are in force */
    uint32_t window;   /* latest window begun while the next decision is due */
    uint32_t known_at; /* first window at whose beginning the rank knows its durations */
    struct cshim_answer
        answer; /* answer about the next window; is_known is false before the rank asks */
};

/* First window in which each decision is in force, by the first answer that said so; 0: no answer
 * has said so yet. */
static uint32_t in_force[DECISIONS];
static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

static float duration_of(uint32_t rank, uint32_t decision)
{
    return 1 + (float)((rank * 7 + decision * 3) % 5);
}

static float least_duration(uint32_t ranks, uint32_t decision)
{
    float least = INFINITY;
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (duration_of(rank, decision) < least)
            least = duration_of(rank, decision);
    return least;
}

static struct cshim_answer ask(uint32_t rank, uint32_t ranks, uint32_t decision, uint32_t window)
{
    struct cshim_answer answer;
    struct cshim_request request = {.kind = CSHIM_REQUEST_ASK,
                                    .nonce = NONCE,
                                    .hello = {.ranks = ranks, .rank = rank},
                                    .ask = {.class = 3,
                                            .decision = decision,
                                            .window = window,
                                            .samples = 2,
                                            .seconds = {duration_of(rank, decision), INFINITY}}};
    cshim_collection_answer(&request, &answer);
    assert_int_equal(answer.is_known, 1);
    assert_int_equal(answer.class, 3);
    return answer;
}

/* Asks about the next window up to three times, as after a broken connection. The answer must stay
 * the same. */
static void ask_about_next(struct asking *ranks, uint32_t count, uint32_t number)
{
    struct asking *rank = &ranks[number];
    const uint32_t window = rank->window + 1;
    rank->answer = ask(number, count, rank->decision, window);
    for (uint32_t times = draw(3); times > 0; times--)
        assert_int_equal(ask(number, count, rank->decision, window).is_in_force,
                         rank->answer.is_in_force);
    if (!rank->answer.is_in_force)
        return;
    for (uint32_t i = 0; i < count && in_force[rank->decision] == 0; i++)
        assert_true(ranks[i].decision == rank->decision && ranks[i].window < window);
    if (in_force[rank->decision] == 0)
        in_force[rank->decision] = window;
    assert_int_equal(in_force[rank->decision], window);
    assert_true(rank->answer.seconds[0] == least_duration(count, rank->decision));
    assert_true(isinf(rank->answer.seconds[1]));
}

/* Takes a rank from one window to the next. Returns true if that ended its last decision. */
static bool begin_window(struct asking *ranks, uint32_t count, uint32_t number)
{
    struct asking *rank = &ranks[number];
    const struct cshim_answer answer = rank->answer;
    if (answer.is_in_force) {
        *rank = (struct asking){.decision = rank->decision + 1, .known_at = draw(5)};
        return rank->decision == DECISIONS;
    }
    rank->window++;
    assert_true(in_force[rank->decision] == 0 || rank->window < in_force[rank->decision]);
    if (answer.is_known || rank->window >= rank->known_at)
        ask_about_next(ranks, count, number);
    return false;
}

TEST(ranks_decide_alike_in_any_order)
{
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct asking ranks[RANKS_MAX];
        uint32_t done = 0, steps = 0;
        random_state = seed;
        memset(in_force, 0, sizeof in_force);
        const uint32_t count = 1 + draw(RANKS_MAX);
        for (uint32_t i = 0; i < count; i++)
            ranks[i] = (struct asking){.known_at = draw(5)};
        assert_true(cshim_collection_add(NONCE, count));
        while (done < count) {
            const uint32_t number = draw(count);
            assert_true(++steps < 100000);
            if (ranks[number].decision < DECISIONS)
                done += begin_window(ranks, count, number);
        }
        cshim_collection_drop(NONCE);
    }
}

TEST(what_is_not_a_rank_of_the_communicator_gets_no_decision)
{
    struct cshim_answer answer;
    struct cshim_request request = {.nonce = NONCE, .ask = {.window = 1}};
    cshim_collection_answer(&request, &answer);
    assert_int_equal(answer.is_known, 0); /* the communicator has ended, or never began */
    assert_true(cshim_collection_add(NONCE, 1));
    request.hello.rank = 1;
    cshim_collection_answer(&request, &answer);
    assert_int_equal(answer.is_known, 0);
    request.hello.rank = 0;
    request.ask.class = CSHIM_CLASSES_MAX;
    cshim_collection_answer(&request, &answer);
    assert_int_equal(answer.is_known, 0);
    request.ask.class = CSHIM_CLASSES_MAX - 1;
    request.ask.samples = CSHIM_CHOICE_SAMPLES_MAX + 1;
    cshim_collection_answer(&request, &answer);
    assert_int_equal(answer.is_known, 0);
    request.ask.samples = CSHIM_CHOICE_SAMPLES_MAX;
    cshim_collection_answer(&request, &answer);
    assert_int_equal(answer.is_known, 1);
    assert_int_equal(answer.is_in_force, 1);
    cshim_collection_drop(NONCE);
    cshim_collection_answer(&request, &answer);
    assert_int_equal(answer.is_known, 0);
    cshim_collection_drop(NONCE);
}

/* Questions over sockets ----------------------------------------------------------------------- */
static struct cshim_tag collect(uint32_t ranks)
{
    struct cshim_tag at, tag;
    cshim_durations_reach_inside(&at);
    assert_true(cshim_durations_collect(&at, ranks, &tag));
    return tag;
}

static void ask_by(struct cshim_asker *asker, uint32_t class, uint32_t window)
{
    const struct cshim_ask question = {
        .class = class, .window = window, .samples = 1, .seconds = {1}};
    cshim_asker_ask(asker, &question);
}

/* Gives the asker time to send its questions. */
static void await_sent(struct cshim_asker *asker)
{
    for (int i = 0; i < 100; i++) {
        cshim_asker_advance(asker);
        cshim_asker_wait(asker, 1);
    }
}

static enum cshim_asked await(struct cshim_asker *asker, uint32_t class,
                              struct cshim_answer *answer)
{
    enum cshim_asked asked = CSHIM_ASKED_OPEN;
    await_sent(asker);
    for (int i = 0; i < 3000 && asked == CSHIM_ASKED_OPEN; i++) {
        asked = cshim_asker_take(asker, class, answer);
        cshim_asker_wait(asker, 1);
    }
    return asked;
}

static void stays_open(struct cshim_asker *asker, uint32_t class)
{
    struct cshim_answer answer;
    cshim_asker_advance(asker);
    for (int i = 0; i < 100; i++) {
        cshim_asker_wait(asker, 1);
        assert_int_equal(cshim_asker_take(asker, class, &answer), CSHIM_ASKED_OPEN);
    }
}

TEST(ranks_ask_by_sockets)
{
    const struct cshim_tag tag = collect(2);
    struct cshim_asker *askers[2] = {cshim_asker_make(&tag, 0, 2), cshim_asker_make(&tag, 1, 2)};
    struct cshim_answer answer;
    for (uint32_t class = 0; class < CSHIM_CLASSES_MAX; class ++)
        ask_by(askers[0], class, 1);
    for (uint32_t class = 0; class < CSHIM_CLASSES_MAX; class ++) {
        assert_int_equal(await(askers[0], class, &answer), CSHIM_ASKED_ANSWERED);
        assert_false(answer.is_in_force);
        assert_int_equal(answer.class, class);
    }
    for (int rank = 1; rank >= 0; rank--) {
        ask_by(askers[rank], 5, 2);
        assert_int_equal(await(askers[rank], 5, &answer), CSHIM_ASKED_ANSWERED);
        assert_true(answer.is_in_force);
        assert_true(answer.seconds[0] == 1);
    }
    cshim_durations_end(&tag);
    ask_by(askers[0], 6, 2);
    assert_int_equal(await(askers[0], 6, &answer), CSHIM_ASKED_LOST);
    cshim_asker_free(askers[0]);
    cshim_asker_free(askers[1]);
}

/* The server then listens on loopback, where other hosts do not reach it. An id must carry the
 * address of NCCL's bootstrap all the same. */
TEST(a_server_started_for_durations_also_serves_ids)
{
    const struct in_addr other = {htonl(INADDR_LOOPBACK + 1)};
    uint8_t id[CSHIM_ID_BYTES];
    char why[CSHIM_RENDEZVOUS_WHY_MAX] = "";
    const struct cshim_tag tag = collect(1);
    make_id(id);
    ((struct sockaddr_in *)&id[8])->sin_addr = other;
    if (!cshim_rendezvous_serve(id, &offer, why))
        fail_msg("%s", why);
    assert_memory_equal(tag_of(id)->address, &other, sizeof other);
    assert_true(decide_and_leave(join(id, 0, 1)).on);
    cshim_durations_end(&tag);
}

/* Returns a listening socket that nobody serves, and its address in *tag. */
static int listen_in_vain(struct cshim_tag *tag)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    cshim_durations_reach_inside(tag);
    tag->port = address.sin_port;
    return listener;
}

TEST(a_rank_that_cannot_ask_goes_on_without_a_decision)
{
    struct cshim_tag tag;
    struct cshim_answer answer;
    close(listen_in_vain(&tag));
    struct cshim_asker *asker = cshim_asker_make(&tag, 1, 2);
    ask_by(asker, 0, 1);
    assert_int_equal(await(asker, 0, &answer), CSHIM_ASKED_ANSWERED);
    assert_false(answer.is_in_force);
    cshim_asker_free(asker);
}

TEST(a_rank_whose_question_may_have_been_heard_needs_the_answer)
{
    struct cshim_tag tag;
    struct cshim_answer answer;
    const int listener = listen_in_vain(&tag);
    struct cshim_asker *asker = cshim_asker_make(&tag, 1, 2);
    ask_by(asker, 0, 1);
    await_sent(asker);
    stays_open(asker, 0);
    const int first = accept(listener, NULL, NULL);
    close(first); /* the asker asks again on another connection */
    await_sent(asker);
    stays_open(asker, 0);
    const int second = accept(listener, NULL, NULL);
    assert_true(second >= 0);
    close(listener);
    close(second);
    assert_int_equal(await(asker, 0, &answer), CSHIM_ASKED_LOST);
    cshim_asker_free(asker);
}
