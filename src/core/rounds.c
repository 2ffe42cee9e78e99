/* rounds - see rounds.h. */
#include "core/rounds.h"

#include "base/log.h"
#include "core/defect.h"

enum { IDLE_MS = 50, INTENT_MS = 2, QUIET_MS = 1000 };

#define MS UINT64_C(1000000)
#define BUSY_NS (MS / 20) /* the pause when there is something to do */
#define COLLECT_MAX_NS (20 * MS)
#define COLLECT_SHARE 80 /* of the time, one part is spent on collecting, by all shards */

void rounds_init(struct rounds *rounds, struct lanes *lanes, struct server *server,
                 struct intents **intents, unsigned max_passes, const struct io *io, void *driver)
{
    *rounds = (struct rounds){
        .lanes = lanes, .server = server, .intents = intents, .io = io, .driver = driver};
    round_init(&rounds->round, lanes->client->core, lanes->client, max_passes);
}

void rounds_fini(struct rounds *rounds)
{
    round_fini(&rounds->round);
}

static uint64_t now_ns(const struct rounds *rounds)
{
    return rounds->io->now_ns(rounds->driver);
}

/* ---- When --------------------------------------------------------------------------------------- */

void rounds_want(struct rounds *rounds)
{
    atomic_store_explicit(&rounds->next_ns, 0, memory_order_relaxed);
}

void rounds_hurry(struct rounds *rounds)
{
    atomic_store_explicit(&rounds->is_hurried, true, memory_order_relaxed);
}

static uint64_t next_pause(struct rounds *rounds)
{
    const struct round *round = &rounds->round;
    if (round->busy || round->left_over) {
        rounds->exchanged_ns = rounds->ended_ns;
        return rounds->pace.pause_ns;
    }
    if (defect(DEFECT_PAUSE_ENDLESS))
        return UINT32_MAX * MS;
    const bool is_quiet = rounds->ended_ns > rounds->exchanged_ns + QUIET_MS * MS;
    const bool is_awaited = round->awaits || (round->intends && !is_quiet);
    const uint64_t most_ns = (is_awaited ? INTENT_MS : IDLE_MS) * MS;
    const uint64_t next = 2 * rounds->pause_ns + BUSY_NS;
    return next < most_ns ? next : most_ns;
}

uint64_t rounds_next_ns(const struct rounds *rounds, bool works)
{
    const struct round *round = &rounds->round;
    const uint64_t next_ns = atomic_load_explicit(&rounds->next_ns, memory_order_relaxed);
    const uint64_t intent_ns = rounds->ended_ns + INTENT_MS * MS;
    if (atomic_load_explicit(&rounds->is_hurried, memory_order_relaxed))
        return 0;
    if (!round->intends || !next_ns || (!works && (round->left_over || round->awaits)))
        return next_ns;
    return works == (intent_ns < next_ns) ? intent_ns : next_ns;
}

/* ---- One round ---------------------------------------------------------------------------------- */

/* Collects what is due, or everything if somebody waits for it to be told or heard. */
static void collect(struct rounds *rounds, uint64_t now)
{
    const bool is_flushing = rounds->n_flushing && !defect(DEFECT_FLUSH_UNCOLLECTED);
    const bool is_awaited =
        rounds->round.n_sweeps < rounds->last_sweep || round_is_awaited(&rounds->round);
    const uint64_t begin_ns = now_ns(rounds);
    if (!round_collect(&rounds->round, &rounds->pace, now, is_flushing || is_awaited))
        return;
    const uint64_t taken_ns = (now_ns(rounds) - begin_ns) * core_shards(rounds->round.core);
    const uint64_t pause_ns = COLLECT_SHARE * taken_ns;
    round_put_off(&rounds->round, now + (pause_ns < COLLECT_MAX_NS ? pause_ns : COLLECT_MAX_NS));
}

static void begin_round(struct rounds *rounds, uint64_t now)
{
    const uint64_t next_ns = atomic_load_explicit(&rounds->next_ns, memory_order_relaxed);
    const struct round_need need = round_need(&rounds->round);
    rounds->due_ns = next_ns ? next_ns : now;
    pace_plan(&rounds->pace, rounds->round.ahead_ns, need.max_age_ns, need.least_ns);
    atomic_store_explicit(&rounds->is_hurried, false, memory_order_relaxed);
    rounds->n_begun++;
    rounds->io->enter(rounds->driver);
    const uint64_t horizon_ns = pace_horizon_ns(&rounds->pace, rounds->pause_ns);
    round_begin(&rounds->round, rounds->intents, now, need.follows ? 2 * horizon_ns : horizon_ns,
                rounds->holds_rows);
    collect(rounds, now);
    /* How far the workers are is to be known before what they have changed until then. */
    round_ask(&rounds->round, rounds->io->clock(rounds->driver), now);
    rounds->io->leave(rounds->driver);
}

static void take_answers(struct rounds *rounds, uint64_t now)
{
    lanes_advance(rounds->lanes);
    lanes_look(rounds->lanes, false);
    if (!round_has_answers(&rounds->round))
        return;
    rounds->io->enter(rounds->driver);
    round_step(&rounds->round, now);
    rounds->io->leave(rounds->driver);
}

/* Sends the questions that are queued, those about all tables together. */
static void send_questions(struct rounds *rounds)
{
    const struct client *client = rounds->lanes->client;
    for (uint32_t i = 0; i < client->n_lanes; i++) {
        if (!client->lanes[i].unsent)
            continue;
        lanes_note_waiting(rounds->lanes, &client->lanes[i]);
        lanes_advance_one(rounds->lanes, &client->lanes[i]);
    }
}

static void end_round(struct rounds *rounds, uint64_t now)
{
    const struct round *round = &rounds->round;
    struct server *server = rounds->server;
    rounds->io->enter(rounds->driver);
    round_end(&rounds->round);
    if (round->awaits)
        round_fail(&rounds->round, peers_check_dead(rounds->lanes->peers));
    server->rounds_status = round->status;
    server->why_no_rounds = round->sentence;
    const bool held = server->holds_for_round;
    server->holds_for_round = false;
    rounds->io->leave(rounds->driver);
    rounds->ended_ns = now;
    pace_note(&rounds->pace, rounds->due_ns, now);
    rounds->pause_ns = next_pause(rounds);
    rounds->n_ended++;
    if (!round->left_over && !round->awaits && !round->status) {
        rounds->n_clean++;
        rounds->last_clean = rounds->n_ended;
    }
    rounds->trouble = round->status;
    if (rounds->trouble)
        log_line("a round failed, and is the last: %s", round->sentence);
    atomic_store_explicit(&rounds->next_ns, now + rounds->pause_ns, memory_order_relaxed);
    if (held && !defect(DEFECT_ROUND_HELD_DROPPED))
        rounds->io->wake(rounds->driver);
}

bool rounds_step(struct rounds *rounds, uint64_t now, bool works)
{
    const bool runs = rounds->round.runs;
    if (rounds->trouble || (!runs && now < rounds_next_ns(rounds, works)))
        return false;
    if (runs)
        take_answers(rounds, now);
    else
        begin_round(rounds, now);
    send_questions(rounds);
    if (round_is_over(&rounds->round))
        end_round(rounds, now);
    return !runs;
}

void rounds_end_questions(struct rounds *rounds, uint32_t arc, uint64_t executed)
{
    struct client *client = rounds->lanes->client;
    struct lane *lane = client_lane(client, arc);
    round_settle_questions(&rounds->round, arc, lane->is_known ? executed : 0);
    lane_fail(client, lane, TERN_PEER, "its node was given up");
    round_drop_questions(&rounds->round, arc);
}

/* ---- Waiting for rounds ------------------------------------------------------------------------- */

uint64_t rounds_begin_flush(struct rounds *rounds)
{
    rounds->n_flushing++;
    /* One that runs began before. */
    return rounds->n_clean + 2 + rounds->round.runs;
}

void rounds_end_flush(struct rounds *rounds)
{
    rounds->n_flushing--;
}

uint64_t rounds_hold(struct rounds *rounds)
{
    rounds->holds_rows = true;
    return rounds->n_ended + rounds->round.runs;
}

void rounds_release(struct rounds *rounds)
{
    rounds->holds_rows = false;
    rounds_want(rounds);
}

uint64_t rounds_next_sweep(const struct rounds *rounds)
{
    return rounds->round.n_sweeps_begun + 1;
}

void rounds_await_sweep(struct rounds *rounds, uint64_t sweep)
{
    if (rounds->last_sweep < sweep)
        rounds->last_sweep = sweep;
}

enum tern_status rounds_status(const struct rounds *rounds)
{
    return rounds->trouble ? fail(rounds->trouble, "%s", rounds->round.sentence) : TERN_OK;
}
