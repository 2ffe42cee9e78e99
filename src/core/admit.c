/* admit - see admit.h. */
#include "core/admit.h"

#include <inttypes.h>

#include "core/defect.h"
#include "core/rounds.h"
#include "core/technique.h"

void admit_tell(const struct waiter *waiter, uint64_t clock)
{
    if (waiter->io->tell(waiter->driver, clock))
        waiter->io->hurry(waiter->driver);
}

/* ---- Whether it may go on ------------------------------------------------------------------------ */

static uint64_t n_rounds(const struct waiter *waiter)
{
    return waiter->rounds ? atomic_load_explicit(&waiter->rounds->n_ended, memory_order_acquire)
                          : 0;
}

/* Asks for the keys of a read that was not admitted; true if it can be made now. */
static bool fetch(const struct waiter *waiter, struct core_table *table, struct access *access,
                  enum tern_status *status)
{
    /* The round under way may be past this table. */
    const uint64_t fetch_round = n_rounds(waiter) + 2;
    waiter->io->enter_shard(waiter->driver, 0);
    *status = table->technique->fetch(table, access);
    /* What is at home here can be read as soon as it was asked for. */
    const bool admitted = !*status && table->technique->admit(table, access);
    waiter->io->leave_shard(waiter->driver, 0);
    access->fetch_round = fetch_round;
    waiter->io->hurry(waiter->driver);
    return admitted;
}

static bool may_read(const struct waiter *waiter, struct wait *wait, enum tern_status *status)
{
    struct access *access = &wait->access;
    access->min_clock = waiter->io->min_clock(waiter->driver);
    if (wait->table->technique->admit(wait->table, access))
        return true;
    return access->n_stale && n_rounds(waiter) >= access->fetch_round &&
           fetch(waiter, wait->table, access, status);
}

static struct core_table *table_at(const struct core *core, size_t slot)
{
    return atomic_load_explicit(&core->tables[slot], memory_order_acquire);
}

bool admit_advance(const struct core *core, const struct unseen *unseen, uint64_t clock)
{
    bool admitted = true;
    for (size_t i = 0; admitted && i < TERN_MAX_TABLES; i++) {
        /* A table may be closed meanwhile, so it is looked up each time. */
        const struct core_table *table =
            unseen[i].epochs[0] || unseen[i].epochs[1] ? table_at(core, i) : NULL;
        if (table && table->technique->admit_update)
            admitted = table->technique->admit_update(table, &unseen[i], clock, 0);
    }
    return admitted;
}

static bool may_update(const struct waiter *waiter, const struct wait *wait)
{
    const uint64_t clock = wait->access.clock;
    waiter->io->enter_shard(waiter->driver, 0);
    const bool admitted =
        wait->table
            ? wait->table->technique->admit_update(wait->table, wait->unseen, clock, wait->size)
            : admit_advance(waiter->core, wait->unseen, clock);
    waiter->io->leave_shard(waiter->driver, 0);
    return admitted;
}

/* Whether all homes know that the worker works again; *clock is raised to one that nobody has passed. */
static bool are_told(const struct waiter *waiter, uint64_t *clock)
{
    const struct core *core = waiter->core;
    const struct node_clock now = waiter->io->clock(waiter->driver);
    uint64_t highest = now.clock != CLOCK_RESTS ? now.clock : core ? 0 : now.highest;
    bool awaited = true;
    waiter->io->enter_shard(waiter->driver, 0);
    for (size_t i = 0; core && i < TERN_MAX_TABLES; i++) {
        const struct core_table *table = table_at(core, i);
        if (table && table->technique->awaits_workers)
            awaited &= table->technique->awaits_workers(table, &highest);
    }
    waiter->io->leave_shard(waiter->driver, 0);
    if (highest > *clock)
        *clock = highest;
    return awaited || defect(DEFECT_RETURNS_AT_ONCE);
}

static bool may_return(const struct waiter *waiter, struct wait *wait)
{
    const bool returned = are_told(waiter, &wait->access.clock);
    admit_tell(waiter, wait->access.clock);
    return returned;
}

static bool may_go_on(const struct waiter *waiter, struct wait *wait, enum tern_status *status)
{
    switch (wait->turn) {
    case TURN_TO_READ:
        return may_read(waiter, wait, status);
    case TURN_TO_UPDATE:
        return may_update(waiter, wait);
    case TURN_TO_RETURN:
        return may_return(waiter, wait);
    }
    return true;
}

/* ---- Patience ------------------------------------------------------------------------------------ */

static uint64_t patience_ns(const struct waiter *waiter)
{
    if (waiter->peers && !peers_dead(waiter->peers) && !defect(DEFECT_WAIT_SHORT))
        return 2 * waiter->deadline_ns;
    return waiter->deadline_ns;
}

static void begin(const struct waiter *waiter, struct wait *wait, uint64_t now)
{
    wait->begin_ns = wait->since_ns = wait->looked_ns = now;
    /* What it has told may be older, if it began before there were bounded tables. */
    if (wait->turn == TURN_TO_READ && !wait->rests)
        admit_tell(waiter, wait->access.clock);
    waiter->io->hurry(waiter->driver);
}

/* Whether a node has still to open the table or, if it is NULL, one of all. */
static bool awaits_opening(const struct waiter *waiter, const struct core_table *table)
{
    if (table && table->technique->awaits_opening)
        return table->technique->awaits_opening(table);
    if (!waiter->rounds)
        return false;
    waiter->io->enter_rounds(waiter->driver);
    const bool awaits = round_waits_for_table(&waiter->rounds->round, table);
    waiter->io->leave_rounds(waiter->driver);
    return awaits;
}

/* Every quarter of the deadline: asks how the homes stand, and looks whether a node has still to open the table. */
static void look_around(const struct waiter *waiter, struct wait *wait, uint64_t now)
{
    const struct technique *technique = wait->table ? wait->table->technique : NULL;
    if (now - wait->looked_ns < waiter->deadline_ns / 4)
        return;
    wait->looked_ns = now;
    if (awaits_opening(waiter, wait->table) && !defect(DEFECT_OPENING_BLAMED))
        wait->since_ns = now;
    if (!waiter->rounds || !technique || !technique->inquire)
        return;
    waiter->io->enter_shard(waiter->driver, 0);
    technique->inquire(wait->table);
    waiter->io->leave_shard(waiter->driver, 0);
    waiter->io->hurry(waiter->driver);
}

/* A node that has not answered for half a deadline; false if there is none. */
static bool find_silent(const struct waiter *waiter, uint64_t now, uint32_t *node)
{
    if (!waiter->rounds)
        return false;
    waiter->io->enter_rounds(waiter->driver);
    const bool found =
        round_find_silent(&waiter->rounds->round, now - waiter->deadline_ns / 2, node);
    waiter->io->leave_rounds(waiter->driver);
    return found;
}

static enum tern_status fail_silent(const struct wait *wait, uint32_t node, double seconds)
{
    const char *name = wait->table ? wait->table->store.name : NULL;
    const char *what = wait->turn == TURN_TO_READ     ? "a read"
                       : wait->turn == TURN_TO_UPDATE ? "an update"
                                                      : "a worker that rested";
    return fail(TERN_LATE,
                "%s%s%s: node %" PRIu32 " does not answer; %s at clock %" PRIu64
                " has waited %.1f s for it",
                name ? "table '" : "bounded tables", name ? name : "", name ? "'" : "", node, what,
                wait->access.clock, seconds);
}

static enum tern_status fail_update(const struct wait *wait, double seconds)
{
    const char *name = wait->table ? wait->table->store.name : NULL;
    return fail(TERN_LATE,
                "%s%s%s: updates of worker %" PRIu32
                " have not been seen by all nodes for %.1f s, and their sum is above the bound",
                name ? "table '" : "tables bounded by value", name ? name : "", name ? "'" : "",
                wait->worker, seconds);
}

enum tern_status admit_fail_slow(const struct core_table *table, const struct access *access,
                                 struct node_clock slowest, uint32_t node, double seconds)
{
    if (slowest.slowest == NO_WORKER)
        return fail(TERN_LATE,
                    "table '%s': a read at clock %" PRIu64 " has waited %.1f s for node %" PRIu32
                    ", which has no worker that works; every node opens one",
                    table->store.name, access->clock, seconds, node);
    return fail(TERN_LATE,
                "table '%s': worker %" PRIu32 " of node %" PRIu32 " holds everybody back: it is at "
                "clock %" PRIu64 ", and a read at clock %" PRIu64 " with a bound of %" PRIu64
                " has waited %.1f s for it",
                table->store.name, slowest.slowest, node, slowest.clock, access->clock,
                table->policy->clocks, seconds);
}

static enum tern_status blame(const struct waiter *waiter, const struct wait *wait, double seconds)
{
    if (wait->turn == TURN_TO_UPDATE)
        return fail_update(wait, seconds);
    if (wait->turn == TURN_TO_RETURN)
        return fail(TERN_LATE,
                    "a worker that rested waits for %.1f s to hear how far the others have come",
                    seconds);
    const struct node_clock now = waiter->io->clock(waiter->driver);
    waiter->io->enter_shard(waiter->driver, 0);
    enum tern_status status =
        wait->table->technique->blame(waiter->core, wait->table, &wait->access, now, seconds);
    waiter->io->leave_shard(waiter->driver, 0);
    return status;
}

static enum tern_status give_up(const struct waiter *waiter, const struct wait *wait, uint64_t now)
{
    const double seconds = (double)(now - wait->begin_ns) / 1e9;
    enum tern_status status = waiter->peers ? peers_check_dead(waiter->peers) : TERN_OK;
    uint32_t silent;
    if (!status && find_silent(waiter, now, &silent))
        status = fail_silent(wait, silent, seconds);
    return status ? status : blame(waiter, wait, seconds);
}

bool admit_look(const struct waiter *waiter, struct wait *wait, enum tern_status *status)
{
    *status = TERN_OK;
    if (may_go_on(waiter, wait, status) || *status)
        return !*status;
    const uint64_t now = waiter->io->now_ns(waiter->driver);
    if (!wait->begin_ns)
        begin(waiter, wait, now);
    if (waiter->peers && peers_held_ns(waiter->peers) > wait->since_ns)
        wait->since_ns = peers_held_ns(waiter->peers);
    if (waiter->core && wait->epoch != view_epoch(waiter->core->view)) {
        wait->epoch = view_epoch(waiter->core->view);
        wait->since_ns = now;
    }
    look_around(waiter, wait, now);
    if (waiter->rounds)
        *status = rounds_status(waiter->rounds);
    if (!*status && now > wait->since_ns && now - wait->since_ns >= patience_ns(waiter))
        *status = give_up(waiter, wait, now);
    if (*status && wait->turn == TURN_TO_RETURN)
        admit_tell(waiter, CLOCK_RESTS);
    return false;
}

void admit_settle(const struct core *core)
{
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table = table_at(core, i);
        if (table && table->technique->settle)
            table->technique->settle(table);
    }
}
