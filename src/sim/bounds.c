/* bounds - see bounds.h. */
#include "sim/bounds.h"

#include "core/defect.h"
#include "sim/machine.h"

/* How long a worker waits for others. Where nobody may fail they may still wait themselves, each for a node
 * that is away for a while; who waits for ever is found all the same. */
static uint64_t patience_ns(const struct site *site)
{
    return (site->check->lenient ? 1 : 4) * SIM_DEADLINE_NS;
}

/* A read can be made if all keys are fresh; else those that are not are asked for. */
static bool is_fresh(struct worker *worker, struct slot *slot, struct bounded *bounded,
                     enum tern_status *status)
{
    struct site *site = worker->site;
    uint32_t stale[MAX_KEYS], ages[BOUNDED_STEPS] = {0};
    const uint64_t here = site->pace.clocks.lowest;
    size_t n_stale =
        bounded_check(bounded, worker->clock, here, slot->keys, slot->deed.n, stale, ages);
    if (!n_stale)
        return true;
    bool may_ask = bounded->policy->refresh == REFRESH_EACH_CLOCK ||
                   bounded_may_read(bounded, worker->clock, here);
    if (may_ask && site->progress[0].n_ended >= slot->want_round) {
        *status = bounded_want(bounded, slot->keys, stale, n_stale);
        slot->want_round = site->progress[0].n_begun + 1;
        site->round_soon |= 1;
        /* What is at home here is there already. */
        return !*status &&
               !bounded_check(bounded, worker->clock, here, slot->keys, slot->deed.n, stale, ages);
    }
    return false;
}

bool bounds_are_kept(struct worker *worker, struct slot *slot, enum tern_status *status)
{
    struct site *site = worker->site;
    struct bounded *bounded = site->tables[slot->deed.table].bounded;
    const uint64_t now_ns = sim_now_ns(site->sim);
    *status = TERN_OK;
    bool kept = slot->kind == FRAME_PULL
                    ? is_fresh(worker, slot, bounded, status)
                    : bounded->policy->bound != BOUND_VALUE ||
                          bounded_may_go_on(bounded, &worker->unseen, worker->clock);
    if (kept || *status)
        return kept;
    bool has_epoch = bounded->epoch || bounded->policy->bound != BOUND_VALUE;
    site->round_soon |= !has_epoch || bounded_is_busy(bounded);
    if (!slot->since_ns)
        slot->since_ns = now_ns;
    if (site->rounds_over || now_ns > slot->since_ns + patience_ns(site))
        *status = fail(TERN_LATE, "others are behind");
    return false;
}

void bounds_pushed(struct worker *worker, const struct slot *slot)
{
    const struct core_table *table = &worker->site->tables[slot->deed.table];
    if (slot->kind != FRAME_PULL && table->policy->bound == BOUND_VALUE)
        bounded_pushed(table->bounded, &worker->unseen,
                       bounded_size(&table->store, slot->keys, slot->deed.n, slot->deed.values));
}

void bounds_advance(struct worker *worker)
{
    struct site *site = worker->site;
    const struct core_table *limited = &site->tables[LIMITED_COUNTS];
    if (limited->policy->bound == BOUND_VALUE &&
        !bounded_may_go_on(limited->bounded, &worker->unseen, worker->clock))
        return;
    worker->clock++;
    site->round_soon |= pace_set(&site->pace, worker->pace_index, worker->clock);
}

void bounds_rest(struct worker *worker)
{
    if (worker->rests)
        return;
    worker->rests = true;
    worker->site->round_soon |= pace_set(&worker->site->pace, worker->pace_index, CLOCK_RESTS);
}

/* A worker that cannot come back does nothing more. */
static bool wait_to_return(struct worker *worker)
{
    struct site *site = worker->site;
    const uint64_t now_ns = sim_now_ns(site->sim);
    if (!worker->rests_since_ns)
        worker->rests_since_ns = now_ns;
    if (site->rounds_over || now_ns > worker->rests_since_ns + patience_ns(site)) {
        site_ended(site, fail(TERN_LATE, "others do not answer"), "coming back");
        worker->n_left = 0;
    }
    return false;
}

bool bounds_return(struct worker *worker)
{
    struct site *site = worker->site;
    if (!worker->rests)
        return true;
    uint64_t clock = worker->clock;
    bool awaited = true;
    if (site->pace.clocks.lowest != CLOCK_RESTS && site->pace.clocks.lowest > clock)
        clock = site->pace.clocks.lowest;
    for (int i = 0; i < N_SIM_TABLES; i++) {
        const struct bounded *bounded = site->tables[i].bounded;
        if (bounded && bounded_highest(bounded) > clock)
            clock = bounded_highest(bounded);
        awaited &= !bounded || bounded_is_awaited(bounded);
    }
    if (awaited)
        worker->rests_since_ns = 0;
    worker->clock = clock;
    worker->rests = !awaited && !defect(DEFECT_RETURNS_AT_ONCE);
    site->round_soon |= pace_set(&site->pace, worker->pace_index, clock);
    return worker->rests ? wait_to_return(worker) : true;
}

void bounds_reopen(struct worker *worker)
{
    struct site *site = worker->site;
    uint32_t number = site->pace.numbers[worker->pace_index];
    pace_close(&site->pace, worker->pace_index);
    worker->clock = 0;
    worker->rests = true;
    check_that(site->check, pace_open(&site->pace, number, CLOCK_RESTS, &worker->pace_index),
               "no memory for a worker");
    site->round_soon |= 1;
}
