/*
 * The coordinator under random schedules: trying again and sending again change nothing, after a death everybody gets an
 * answer, and hostile requests are answered, not followed.
 */
#include "groups.h"

/* ---- Random schedules ------------------------------------------------------------------------ */

/*
 * All members run the same script. A held request is tried again only when the group says that
 * something has changed, so a change it does not report shows as a hang. In between, any request that
 * was ever sent is sent again: one that was answered must get the same bytes, except that sums and
 * broadcasts that all have left behind may be past.
 */
enum { MAX_STEPS = 40 };

struct step {
    enum frame_kind kind;
    uint64_t a, b;
    size_t bytes;
};

struct actor {
    size_t at;    /* its step; n_steps: done */
    size_t end;   /* where it dies, or n_steps */
    bool waiting; /* the step is held */
    char *answers[MAX_STEPS];
    size_t answer_bytes[MAX_STEPS];
};

struct play {
    struct scene scene;
    struct dice dice;
    uint32_t n_nodes;
    size_t n_steps;
    struct step steps[MAX_STEPS];
    struct actor actors[MAX_NODES];
    bool buried; /* who dies has died, and the group knows */
    uint64_t n_answered, n_repeated, n_failed;
};

static void write_script(struct play *play)
{
    static const enum frame_kind kinds[] = {FRAME_TABLE, FRAME_BARRIER, FRAME_REDUCE,
                                            FRAME_BROADCAST};
    uint64_t numbers[FRAME_KINDS] = {0};
    play->n_steps = 3 + dice_below(&play->dice, MAX_STEPS - 3);
    play->steps[0] = (struct step){.kind = FRAME_JOIN};
    for (size_t i = 1; i + 1 < play->n_steps; i++) {
        struct step *step = &play->steps[i];
        step->kind = kinds[dice_below(&play->dice, COUNT(kinds))];
        step->a = ++numbers[step->kind];
        step->b = step->kind == FRAME_REDUCE ? dice_below(&play->dice, 4)
                                             : dice_below(&play->dice, play->n_nodes);
        step->bytes = 8 * dice_below(&play->dice, 20);
    }
    play->steps[play->n_steps - 1] = (struct step){.kind = FRAME_BYE};
}

/* What a node gives to a reduction or broadcast: small integers of the type, or any bytes. */
static void fill_payload(const struct step *step, uint32_t node, uint64_t *payload)
{
    enum tern_type type = step->kind == FRAME_REDUCE ? (enum tern_type)step->b : TERN_I64;
    for (size_t i = 0; i < step->bytes / element_size(type); i++)
        element_put(type, payload, i, (double)(scattered(step->a * 100 + i) % 1000 + node));
}

static struct reply perform(struct play *play, uint32_t node, size_t at)
{
    const struct step *step = &play->steps[at];
    uint64_t payload[20] = {0};
    play->scene.number = at; /* the same request has the same number */
    switch (step->kind) {
    case FRAME_JOIN:
        return join(&play->scene, node);
    case FRAME_TABLE: {
        char name[2] = {(char)('a' + step->b), 0};
        return open_table(&play->scene, node, name, name, 1);
    }
    case FRAME_REDUCE:
        fill_payload(step, node, payload);
        return ask(&play->scene, node, FRAME_REDUCE, step->a, step->b, payload, step->bytes);
    case FRAME_BROADCAST:
        fill_payload(step, node, payload);
        return ask(&play->scene, node, FRAME_BROADCAST, step->a, step->b, payload,
                   node == step->b ? step->bytes : 0);
    default:
        return ask(&play->scene, node, step->kind, step->a, 0, NULL, 0);
    }
}

static void check_answer(const struct play *play, size_t at, struct reply reply)
{
    const struct step *step = &play->steps[at];
    uint64_t expected[20] = {0}, part[20] = {0};
    switch (step->kind) {
    case FRAME_JOIN:
        assert_roster(reply, play->n_nodes);
        return;
    case FRAME_REDUCE: {
        enum tern_type type = (enum tern_type)step->b;
        for (uint32_t node = 0; node < play->n_nodes; node++) {
            fill_payload(step, node, part);
            for (size_t i = 0; i < step->bytes / element_size(type); i++)
                element_put(type, expected, i,
                            element_get(type, expected, i) + element_get(type, part, i));
        }
        assert_values(reply, expected, step->bytes);
        return;
    }
    case FRAME_BROADCAST:
        fill_payload(step, (uint32_t)step->b, expected);
        assert_values(reply, expected, step->bytes);
        return;
    default:
        assert_done(reply);
    }
}

static bool is_failure(struct reply reply)
{
    return reply.served == SERVED && reply.frame.kind == FRAME_ERROR;
}

static void keep_answer(struct play *play, uint32_t node, struct reply reply)
{
    struct actor *actor = &play->actors[node];
    const size_t bytes = buffer_size(&play->scene.out);
    if (is_failure(reply)) {
        assert_int_equal(reply.frame.status, TERN_PEER);
        play->n_failed++;
    } else {
        check_answer(play, actor->at, reply);
    }
    actor->answers[actor->at] = array_of(bytes, 1);
    memcpy(actor->answers[actor->at], buffer_head(&play->scene.out), bytes);
    actor->answer_bytes[actor->at] = bytes;
    actor->waiting = false;
    actor->at++;
    play->n_answered++;
}

/* Tries the step of a member; true if others should try theirs. */
static bool try_step(struct play *play, uint32_t node)
{
    struct actor *actor = &play->actors[node];
    struct reply reply = perform(play, node, actor->at);
    assert_int_not_equal(reply.served, REFUSED);
    actor->waiting = reply.served == HELD;
    if (reply.served == SERVED)
        keep_answer(play, node, reply);
    return reply.changed;
}

static void try_held(struct play *play)
{
    for (bool changed = true; changed;) {
        changed = false;
        const uint32_t first = (uint32_t)dice_below(&play->dice, play->n_nodes);
        for (uint32_t i = 0; i < play->n_nodes; i++) {
            uint32_t node = (first + i) % play->n_nodes;
            if (play->actors[node].waiting)
                changed |= try_step(play, node);
        }
    }
}

/* Whether the group knows that the member has died. */
static bool is_gone(const struct play *play, uint32_t node)
{
    return play->buried && play->actors[node].end < play->n_steps;
}

static bool is_past(const struct play *play, size_t at)
{
    if (play->steps[at].kind != FRAME_REDUCE && play->steps[at].kind != FRAME_BROADCAST)
        return false;
    for (uint32_t i = 0; i < play->n_nodes; i++)
        if (play->actors[i].at <= at && !is_gone(play, i))
            return false;
    return true;
}

/* Sends a step again that is answered or held. */
static bool repeat_step(struct play *play, uint32_t node)
{
    struct actor *actor = &play->actors[node];
    const size_t n_sent = actor->at + actor->waiting;
    if (n_sent == 0)
        return false;
    const size_t at = dice_below(&play->dice, n_sent);
    if (at == actor->at)
        return try_step(play, node);
    struct reply reply = perform(play, node, at);
    play->n_repeated++;
    assert_false(reply.changed);
    assert_int_equal(reply.served, SERVED);
    if (is_failure(reply) && reply.frame.status == TERN_INVALID) {
        assert_true(is_past(play, at));
        assert_error(reply, TERN_INVALID, "is past");
        return false;
    }
    assert_int_equal(buffer_size(&play->scene.out), actor->answer_bytes[at]);
    assert_memory_equal(buffer_head(&play->scene.out), actor->answers[at], actor->answer_bytes[at]);
    return false;
}

static bool is_finished(const struct actor *actor)
{
    return actor->at >= actor->end;
}

static bool all_wait(const struct play *play)
{
    for (uint32_t i = 0; i < play->n_nodes; i++)
        if (!is_finished(&play->actors[i]) && !play->actors[i].waiting)
            return false;
    return true;
}

/* Time passes in which only those are heard of that will not die. */
static void bury(struct play *play)
{
    unsigned living = 0;
    for (uint32_t i = 0; i < play->n_nodes; i++)
        if (play->actors[i].end == play->n_steps)
            living |= 1u << i;
    assert_true(pass(&play->scene, DEADLINE, living));
    play->buried = true;
    for (uint32_t i = 0; i < play->n_nodes; i++)
        if (play->actors[i].end < play->n_steps)
            play->actors[i].waiting = false;
}

static void run_play(struct play *play, bool somebody_dies)
{
    for (;;) {
        if (all_wait(play)) {
            if (play->buried || !somebody_dies)
                break;
            bury(play);
            try_held(play);
            continue;
        }
        uint32_t node = (uint32_t)dice_below(&play->dice, play->n_nodes);
        struct actor *actor = &play->actors[node];
        bool changed = false;
        if (dice_below(&play->dice, 3) == 0 && !is_gone(play, node))
            changed = repeat_step(play, node);
        else if (!is_finished(actor) && !actor->waiting)
            changed = try_step(play, node);
        if (changed)
            try_held(play);
    }
    for (uint32_t i = 0; i < play->n_nodes; i++)
        if (play->actors[i].end == play->n_steps)
            assert_int_equal(play->actors[i].at, play->n_steps);
    assert_true(group_is_over(play->scene.group));
}

static void play_seed(uint64_t seed, bool somebody_dies, uint64_t *n_repeated, uint64_t *n_failed)
{
    struct play *play = array_of(1, sizeof *play);
    play->dice.state = seed;
    play->n_nodes = 2 + (uint32_t)dice_below(&play->dice, MAX_NODES - 2);
    scene_open(&play->scene, play->n_nodes);
    write_script(play);
    for (uint32_t i = 0; i < play->n_nodes; i++)
        play->actors[i].end = play->n_steps;
    if (somebody_dies) /* after it joined, and before BYE */
        play->actors[dice_below(&play->dice, play->n_nodes)].end =
            1 + dice_below(&play->dice, play->n_steps - 2);
    run_play(play, somebody_dies);
    if (!somebody_dies)
        assert_int_equal(play->n_answered, play->n_nodes * play->n_steps);
    *n_repeated += play->n_repeated;
    *n_failed += play->n_failed;
    for (uint32_t i = 0; i < play->n_nodes; i++)
        for (size_t at = 0; at < play->n_steps; at++)
            free(play->actors[i].answers[at]);
    scene_close(&play->scene);
    free(play);
}

static void sending_again_at_any_moment_changes_nothing(void **state)
{
    (void)state;
    uint64_t n_repeated = 0, n_failed = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++)
        play_seed(seed, false, &n_repeated, &n_failed);
    assert_int_equal(n_failed, 0);
    assert_true(n_repeated > 10000);
}

static void after_a_death_everybody_gets_an_answer(void **state)
{
    (void)state;
    uint64_t n_repeated = 0, n_failed = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++)
        play_seed(seed, true, &n_repeated, &n_failed);
    assert_true(n_failed > 1000);
    assert_true(n_repeated > 10000);
}

/* ---- Hostile requests ------------------------------------------------------------------------ */

static uint64_t hostile_number(struct dice *dice)
{
    static const uint64_t numbers[] = {0, 1, 2, 3, 4, 255, UINT32_MAX, UINT64_MAX - 1, UINT64_MAX};
    return dice_below(dice, 4) == 0 ? dice_roll(dice) : numbers[dice_below(dice, COUNT(numbers))];
}

static void hostile_requests_get_an_answer(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 4, 8, 64, 255, 256, 600, 4096, MIB, MIB + 8};
    static uint8_t noise[MIB + 8];
    struct dice dice = {3};
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)dice_roll(&dice);
    uint64_t n_served = 0;
    for (int round = 0; round < 100; round++) {
        struct scene s;
        scene_open(&s, 4);
        for (uint32_t i = 0; i < dice_below(&dice, 5); i++)
            join(&s, i);
        for (int i = 0; i < 500; i++) {
            const size_t size = sizes[dice_below(&dice, dice_below(&dice, 8) ? 10 : COUNT(sizes))];
            const size_t skip = dice_below(&dice, sizeof noise - size + 1);
            /* At the end of its memory, so that a sanitizer sees who reads on. */
            uint8_t *body = array_of(size, 1);
            memcpy(body, noise + skip, size);
            if (dice_below(&dice, 2) && size >= 2)
                body[1] = 0;
            enum frame_kind kind = (enum frame_kind)dice_below(&dice, FRAME_KINDS + 1);
            struct reply reply = ask(&s, (uint32_t)dice_below(&dice, 5), kind,
                                     hostile_number(&dice), hostile_number(&dice), body, size);
            n_served += reply.served == SERVED;
            free(body);
            pass(&s, dice_below(&dice, SECOND), (unsigned)dice_below(&dice, 16));
        }
        scene_close(&s);
    }
    assert_true(n_served > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sending_again_at_any_moment_changes_nothing),
        cmocka_unit_test(after_a_death_everybody_gets_an_answer),
        cmocka_unit_test(hostile_requests_get_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
