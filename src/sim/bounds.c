/* bounds - see bounds.h. */
#include "sim/bounds.h"

#include "core/technique.h"
#include "sim/machine.h"

/* How long a worker waits for others. Where nobody may fail they may still wait themselves, each for a node
 * that is away for a while; who waits for ever is found all the same. */
static uint64_t patience_ns(const struct sim_node *sim_node)
{
    return (sim_node->check->lenient ? 1 : 4) * SIM_DEADLINE_NS;
}

bool bounds_are_kept(struct worker *worker, struct slot *slot, enum tern_status *status)
{
    struct sim_node *sim_node = worker->sim_node;
    struct core_table *table = &sim_node->tables[slot->operation.table];
    const uint64_t now_ns = sim_now_ns(sim_node->sim);
    uint32_t stale[MAX_KEYS];
    struct access *access = &slot->access;
    access->clock = worker->clock;
    access->min_clock = sim_node->clocks.min.lowest;
    access->keys = slot->keys;
    access->n = slot->operation.n;
    access->stale = stale;
    *status = TERN_OK;
    bool kept =
        slot->kind == FRAME_PULL
            ? table->technique->admit(table, access)
            : table->technique->admit_update(table, &worker->unseen[table->number], worker->clock);
    const uint64_t fetch_round = access->fetch_round;
    if (!kept && slot->kind == FRAME_PULL)
        kept = admit_fetch(table, access, sim_node->rounds[0]->n_ended, status);
    if (kept || *status)
        return kept;
    sim_node->round_soon |= access->fetch_round != fetch_round || !slot->since_ns;
    if (!slot->since_ns)
        slot->since_ns = now_ns;
    if (sim_node->rounds_over || now_ns > slot->since_ns + patience_ns(sim_node))
        *status = fail(TERN_LATE, "others are behind");
    return false;
}

void bounds_pushed(struct worker *worker, const struct slot *slot)
{
    const struct core_table *table = &worker->sim_node->tables[slot->operation.table];
    if (slot->kind != FRAME_PULL && table->technique->updated)
        table->technique->updated(table, &worker->unseen[table->number], slot->keys,
                                  slot->operation.n, slot->operation.values);
}

void bounds_advance(struct worker *worker)
{
    struct sim_node *sim_node = worker->sim_node;
    if (!admit_advance(sim_node->core, worker->unseen, worker->clock))
        return;
    worker->clock++;
    sim_node->round_soon |=
        worker_clocks_set(&sim_node->clocks, worker->clock_index, worker->clock);
}

void bounds_rest(struct worker *worker)
{
    if (worker->rests)
        return;
    worker->rests = true;
    worker->sim_node->round_soon |=
        worker_clocks_set(&worker->sim_node->clocks, worker->clock_index, CLOCK_RESTS);
}

/* A worker that cannot come back does nothing more. */
static bool wait_to_return(struct worker *worker)
{
    struct sim_node *sim_node = worker->sim_node;
    const uint64_t now_ns = sim_now_ns(sim_node->sim);
    if (!worker->rests_since_ns)
        worker->rests_since_ns = now_ns;
    if (sim_node->rounds_over || now_ns > worker->rests_since_ns + patience_ns(sim_node)) {
        sim_node_ended(sim_node, fail(TERN_LATE, "others do not answer"), "coming back");
        worker->n_left = 0;
    }
    return false;
}

bool bounds_return(struct worker *worker)
{
    struct sim_node *sim_node = worker->sim_node;
    if (!worker->rests)
        return true;
    worker->rests = !admit_return(sim_node->core, &sim_node->clocks, &worker->clock);
    if (!worker->rests)
        worker->rests_since_ns = 0;
    sim_node->round_soon |=
        worker_clocks_set(&sim_node->clocks, worker->clock_index, worker->clock);
    return worker->rests ? wait_to_return(worker) : true;
}

void bounds_reopen(struct worker *worker)
{
    struct sim_node *sim_node = worker->sim_node;
    uint32_t number = sim_node->clocks.numbers[worker->clock_index];
    worker_clocks_close(&sim_node->clocks, worker->clock_index);
    worker->clock = 0;
    worker->rests = true;
    check_that(sim_node->check,
               worker_clocks_open(&sim_node->clocks, number, CLOCK_RESTS, &worker->clock_index),
               "no memory for a worker");
    sim_node->round_soon |= 1;
}
