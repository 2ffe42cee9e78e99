/* rounds - see rounds.h. */
#include "sim/rounds.h"

enum { MAX_PASSES = 1 }; /* fewer than in node/round_driver.c: much takes several rounds */

/* ---- The driver of core/rounds.h ---------------------------------------------------------------- */

static uint64_t io_now_ns(void *driver)
{
    const struct sim_rounds *rounds = driver;
    return sim_now_ns(rounds->sim_node->sim);
}

/* There is one thread. */
static void io_enter(void *driver)
{
    (void)driver;
}

static void io_wake(void *driver)
{
    struct sim_rounds *rounds = driver;
    service_retry(&rounds->callee->service);
}

static struct node_clock io_clock(void *driver)
{
    struct sim_rounds *rounds = driver;
    return worker_clocks_now(&rounds->sim_node->clocks);
}

static const struct io sim_io = {
    .now_ns = io_now_ns, .enter = io_enter, .leave = io_enter, .wake = io_wake, .clock = io_clock};

void sim_rounds_init(struct sim_rounds *rounds)
{
    struct sim_node *sim_node = rounds->sim_node;
    rounds_init(&rounds->rounds, &rounds->caller.lanes, &rounds->callee->service.server,
                &sim_node->intents[rounds->shard], MAX_PASSES, &sim_io, rounds);
    rounds->rounds.lane_number = rounds->caller.id;
    rounds->callee->service.backup.rounds = &rounds->rounds;
    sim_node->rounds[rounds->shard] = &rounds->rounds;
}

void sim_rounds_fini(struct sim_rounds *rounds)
{
    caller_fini(&rounds->caller);
    rounds_fini(&rounds->rounds);
}

/* Sets the timer for the next round. */
static void set_timer(struct sim_rounds *rounds, bool works)
{
    struct sim *sim = rounds->sim_node->sim;
    const uint64_t now = sim_now_ns(sim), next_ns = rounds_next_ns(&rounds->rounds, works);
    if (rounds->rounds.round.runs || rounds->rounds.trouble ||
        (rounds->due_ns > now && rounds->due_ns <= next_ns))
        return;
    rounds->due_ns = next_ns > now ? next_ns : now + 1;
    sim_timer(sim, rounds->sim_node->core->node, rounds->due_ns - now, rounds->tag);
}

bool sim_rounds_run(struct sim_rounds *rounds, bool works)
{
    struct sim_node *sim_node = rounds->sim_node;
    const uint32_t bit = 1u << rounds->shard;
    if (!round_is_needed(&rounds->rounds.round))
        return false;
    if (sim_node->round_wanted & bit && !rounds->rounds.round.runs) {
        sim_node->round_wanted &= ~bit;
        rounds_want(&rounds->rounds);
    }
    if (sim_node->round_soon & bit)
        rounds_hurry(&rounds->rounds);
    sim_node->round_soon &= ~bit;
    bool begun = rounds_step(&rounds->rounds, sim_now_ns(sim_node->sim), works);
    if (rounds->rounds.trouble && !sim_node->rounds_over) {
        sim_node->rounds_over = true;
        sim_node_ended(sim_node, rounds_status(&rounds->rounds), "a round");
    }
    set_timer(rounds, works);
    lanes_advance(&rounds->caller.lanes);
    return begun;
}
