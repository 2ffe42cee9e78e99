/* bounds - see bounds.h. */
#include "sim/bounds.h"

#include "core/technique.h"
#include "sim/machine.h"

/* ---- The driver of core/admit.h ----------------------------------------------------------------- */

static uint64_t io_now_ns(void *driver)
{
    const struct worker *worker = driver;
    return sim_now_ns(worker->sim_node->sim);
}

static void io_hurry(void *driver)
{
    const struct worker *worker = driver;
    worker->sim_node->round_soon |= 1;
}

static struct node_clock io_clock(void *driver)
{
    const struct worker *worker = driver;
    return worker_clocks_now(&worker->sim_node->clocks);
}

static uint64_t io_min_clock(void *driver)
{
    const struct worker *worker = driver;
    return worker->sim_node->clocks.min.lowest;
}

static bool io_tell(void *driver, uint64_t clock)
{
    const struct worker *worker = driver;
    return worker_clocks_set(&worker->sim_node->clocks, worker->clock_index, clock);
}

/* There is one thread. */
static void io_enter_shard(void *driver, uint32_t shard)
{
    (void)driver;
    (void)shard;
}

static void io_enter_rounds(void *driver)
{
    (void)driver;
}

const struct io bounds_io = {.now_ns = io_now_ns,
                             .hurry = io_hurry,
                             .clock = io_clock,
                             .min_clock = io_min_clock,
                             .tell = io_tell,
                             .enter_shard = io_enter_shard,
                             .leave_shard = io_enter_shard,
                             .enter_rounds = io_enter_rounds,
                             .leave_rounds = io_enter_rounds};

static struct waiter waiter_of(struct worker *worker)
{
    const struct sim_node *sim_node = worker->sim_node;
    return (struct waiter){.core = sim_node->core,
                           .rounds = sim_node->rounds[0],
                           .peers = worker->caller.lanes.peers,
                           .deadline_ns = SIM_DEADLINE_NS,
                           .io = &bounds_io,
                           .driver = worker};
}

/* ---- Operations --------------------------------------------------------------------------------- */

bool bounds_are_kept(struct worker *worker, struct slot *slot, enum tern_status *status)
{
    const struct waiter waiter = waiter_of(worker);
    struct core_table *table = &worker->sim_node->tables[slot->operation.table];
    struct wait *wait = &slot->wait;
    wait->turn = slot->kind == FRAME_PULL ? TURN_TO_READ : TURN_TO_UPDATE;
    wait->table = table;
    wait->unseen = &worker->unseen[table->number];
    if (slot->kind != FRAME_PULL)
        wait->size =
            table->technique->size(table, slot->keys, slot->operation.n, slot->operation.values);
    wait->worker = worker->index % WORKERS;
    wait->rests = worker->rests;
    wait->access.clock = worker->clock;
    wait->access.keys = slot->keys;
    wait->access.n = slot->operation.n;
    wait->access.stale = slot->stale;
    return admit_look(&waiter, wait, status);
}

void bounds_pushed(struct worker *worker, const struct slot *slot)
{
    const struct core_table *table = &worker->sim_node->tables[slot->operation.table];
    if (slot->kind != FRAME_PULL && table->technique->updated)
        table->technique->updated(table, &worker->unseen[table->number], slot->wait.size);
}

static void tell(struct worker *worker, uint64_t clock)
{
    const struct waiter waiter = waiter_of(worker);
    admit_tell(&waiter, clock);
}

void bounds_advance(struct worker *worker)
{
    if (!admit_advance(worker->sim_node->core, worker->unseen, worker->clock))
        return;
    worker->clock++;
    tell(worker, worker->clock);
}

void bounds_rest(struct worker *worker)
{
    if (worker->rests)
        return;
    worker->rests = true;
    tell(worker, CLOCK_RESTS);
}

bool bounds_return(struct worker *worker)
{
    const struct waiter waiter = waiter_of(worker);
    struct wait *wait = &worker->returning;
    enum tern_status status;
    if (!worker->rests)
        return true;
    wait->turn = TURN_TO_RETURN;
    wait->access.clock = worker->clock;
    worker->rests = !admit_look(&waiter, wait, &status);
    worker->clock = wait->access.clock;
    if (status) {
        sim_node_ended(worker->sim_node, status, "coming back");
        worker->n_left = 0;
    }
    if (status || !worker->rests)
        *wait = (struct wait){0};
    return !worker->rests;
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
