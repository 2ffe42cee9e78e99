/* rounds - see rounds.h. */
#include "sim/rounds.h"

#include "core/defect.h"

#define MS UINT64_C(1000000)

enum { BUSY_MS = 2, INTENT_MS = 3, IDLE_MS = 50 };
enum { MAX_PASSES = 1 }; /* fewer than in node/sync.c: much takes several rounds */

void rounds_init(struct rounds *rounds)
{
    round_init(&rounds->round, rounds->site->core, &rounds->caller.client, MAX_PASSES);
}

void rounds_fini(struct rounds *rounds)
{
    caller_fini(&rounds->caller);
    round_fini(&rounds->round);
}

static uint64_t next_pause(const struct rounds *rounds)
{
    if (rounds->round.busy || rounds->round.left_over)
        return BUSY_MS * MS;
    uint64_t most = (rounds->round.intends || rounds->round.awaits ? INTENT_MS : IDLE_MS) * MS;
    uint64_t next = 2 * rounds->pause_ns + MS;
    return next < most ? next : most;
}

/* Sets the timer for the next round. */
static void rest(struct rounds *rounds)
{
    struct sim *sim = rounds->site->sim;
    rounds->pause_ns = next_pause(rounds);
    rounds->next_ns = sim_now_ns(sim) + rounds->pause_ns;
    sim_timer(sim, rounds->site->core->node, rounds->pause_ns, rounds->tag);
}

/* The next round comes as soon as when there is much to do. */
static void hasten(struct rounds *rounds)
{
    struct sim *sim = rounds->site->sim;
    if (rounds->next_ns <= sim_now_ns(sim) + BUSY_MS * MS)
        return;
    rounds->next_ns = sim_now_ns(sim) + BUSY_MS * MS;
    sim_timer(sim, rounds->site->core->node, BUSY_MS * MS, rounds->tag);
}

/* What workers and plans wait for. */
static struct progress *tell_site(const struct rounds *rounds)
{
    struct progress *progress = &rounds->site->progress[rounds->shard];
    progress->n_sweeps_begun = rounds->round.n_sweeps_begun;
    progress->n_sweeps = rounds->round.n_sweeps;
    return progress;
}

/* A failure ends the rounds for good, as in node/sync.c. */
static void end_round(struct rounds *rounds)
{
    struct site *site = rounds->site;
    const struct round *round = &rounds->round;
    round_end(&rounds->round);
    struct progress *progress = tell_site(rounds);
    progress->n_ended++;
    if (!round->left_over && !round->awaits && !round->status) {
        progress->n_clean++;
        progress->last_clean = progress->n_ended;
    }
    site->rounds_over |= round->status != TERN_OK;
    if (round->status)
        site_ended(site, fail(round->status, "%s", round->sentence), "a round");
    else
        rest(rounds);
    bool held = rounds->service->server.holds_for_round;
    rounds->service->server.holds_for_round = false;
    if (held && !defect(DEFECT_ROUND_HELD_DROPPED))
        service_retry(rounds->service);
}

static void begin_round(struct rounds *rounds)
{
    struct site *site = rounds->site;
    site->round_wanted &= ~(1u << rounds->shard);
    round_begin(&rounds->round, &site->intents[rounds->shard]);
    tell_site(rounds)->n_begun++;
    round_collect(&rounds->round);
    round_ask(&rounds->round, pace_now(&site->pace), sim_now_ns(site->sim));
}

bool rounds_run(struct rounds *rounds)
{
    struct site *site = rounds->site;
    const uint32_t bit = 1u << rounds->shard;
    if (rounds->service->server.wants_round)
        site->round_soon |= bit;
    rounds->service->server.wants_round = false;
    if (site->round_soon & bit && !rounds->round.runs) {
        site->round_soon &= ~bit;
        hasten(rounds);
    }
    bool begins = !rounds->round.runs && !site->rounds_over && round_is_needed(&rounds->round) &&
                  (site->round_wanted & bit || sim_now_ns(site->sim) >= rounds->next_ns);
    if (begins)
        begin_round(rounds);
    else if (rounds->round.runs)
        round_step(&rounds->round, sim_now_ns(site->sim), 0);
    if (rounds->round.runs && round_is_over(&rounds->round))
        end_round(rounds);
    caller_pump(&rounds->caller);
    return begins;
}
