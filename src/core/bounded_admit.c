/* bounded_admit - the technique of tables with bounded reads: `ssp`, `essp` and `vap`. See bounded.h. */
#include <inttypes.h>
#include <math.h>

#include "core/bounded_peer.h"

/* Before its home has run the updater, a replica would show a value that breaks the promise. */
static enum tern_status check(const struct policy *policy, const char *name,
                              const struct tern_table_options *options)
{
    if (!options->updater.apply)
        return TERN_OK;
    return fail(TERN_INVALID,
                "table '%s': policy '%s' is for tables that are added to, not for updater '%s', "
                "which runs at the main copy alone",
                name, policy->name, options->updater.name);
}

static bool open_table(struct core *core, struct core_table *table,
                       const struct technique_setup *setup)
{
    struct bounded *made = bounded_new(core, table);
    table->state = made;
    if (made && setup->round_bytes)
        made->round_bytes = setup->round_bytes;
    return made;
}

static void close_table(struct core_table *table)
{
    bounded_free(table->state);
}

/* ---- What workers wait for ---------------------------------------------------------------------- */

static bool admit(const struct core_table *table, struct access *access)
{
    const struct bounded *bounded = table->state;
    for (int i = 0; i < BOUNDED_STEPS; i++)
        access->ages[i] = 0;
    access->n_stale = bounded_check(bounded, access->clock, access->min_clock, access->keys,
                                    access->n, access->stale, access->ages);
    if (!access->n_stale)
        return true;
    if (!is_eager(bounded) && !bounded_may_read(bounded, access->clock, access->min_clock))
        access->n_stale = 0;
    return false;
}

static enum tern_status fetch(struct core_table *table, const struct access *access)
{
    /* What was wanted before is asked for first, so that no key is wanted again and again of a home that is late. */
    if (access->fetch_round && !bounded_has_asked(table->state))
        return TERN_OK;
    return bounded_want(table->state, access->keys, access->stale, access->n_stale);
}

static double size(const struct core_table *table, const uint64_t *keys, size_t n,
                   const void *updates)
{
    const struct store *store = &table->store;
    double sum = updates ? 0 : (double)INFINITY;
    if (table->policy->bound != BOUND_VALUE)
        return 0;
    for (size_t done = 0; updates && done < n; done += BOUNDED_BLOCK)
        sum += bounded_size(store, keys + done, n - done < BOUNDED_BLOCK ? n - done : BOUNDED_BLOCK,
                            (const char *)updates + done * store->value_bytes);
    return sum;
}

static bool admit_update(const struct core_table *table, const struct unseen *unseen,
                         uint64_t clock, double more)
{
    return bounded_may_go_on(table->state, unseen, clock, more);
}

static void updated(const struct core_table *table, struct unseen *unseen, double more)
{
    if (more > 0)
        bounded_pushed(table->state, unseen, more);
}

static bool awaits_workers(const struct core_table *table, uint64_t *clock)
{
    const uint64_t highest = bounded_highest(table->state);
    if (highest > *clock)
        *clock = highest;
    return bounded_is_awaited(table->state);
}

static void settle(struct core_table *table)
{
    bounded_settle(table->state);
}

static void inquire(struct core_table *table)
{
    bounded_inquire(table->state);
}

static enum tern_status blame(const struct core *core, struct core_table *table,
                              const struct access *access, struct node_clock now, double seconds)
{
    struct bounded *bounded = table->state;
    struct standing standing = {.clock = now.clock, .worker = now.slowest, .node = core->node};
    if (bounded_needs(bounded, access->clock) <= access->min_clock)
        standing = bounded_slowest(bounded);
    if (access->n_stale && bounded_needs(bounded, access->clock) <= standing.clock)
        return fail(
            TERN_LATE,
            "table '%s': node %" PRIu32
            " has not sent the value of a key that a read at clock %" PRIu64
            " has waited %.1f s for",
            table->store.name,
            view_home(core->view, core_home(core, &table->store, access->keys[access->stale[0]])),
            access->clock, seconds);
    const struct node_clock slowest = {.clock = standing.clock, .slowest = standing.worker};
    return admit_fail_slow(table, access, slowest, standing.node, seconds);
}

/* ---- Rounds ------------------------------------------------------------------------------------- */

static enum tern_status begin(struct core_table *table, uint32_t shard, struct node_clock clock,
                              uint64_t now_ns)
{
    struct bounded *bounded = table->state;
    (void)shard;
    (void)now_ns;
    if (bounded->out_of_memory)
        return fail(TERN_NO_MEMORY, "no memory for a round of table '%s'", table->store.name);
    return bounded_take(bounded, clock);
}

static bool has_question(const struct core_table *table, uint32_t shard, uint32_t peer,
                         uint64_t now_ns)
{
    (void)shard;
    (void)now_ns;
    return bounded_has_request(table->state, peer);
}

static enum tern_status ask(struct core_table *table, uint32_t shard, uint32_t peer,
                            uint64_t now_ns, struct buffer *body, struct frame *frame, bool *more)
{
    (void)shard;
    (void)now_ns;
    (void)frame;
    (void)more;
    return bounded_request(table->state, peer, body);
}

static enum tern_status absorb(struct core_table *table, uint32_t shard, uint32_t peer,
                               const struct round_answer *answer, bool *more)
{
    (void)shard;
    enum tern_status status = bounded_is_unanswered(table->state, peer, answer->frame)
                                  ? bounded_unanswered(table->state, peer, answer->sent, true)
                                  : bounded_answer(table->state, peer, answer->frame, answer->body);
    *more = bounded_has_request(table->state, peer);
    return status;
}

static enum tern_status answer(struct core_table *table, uint32_t shard,
                               struct round_question *question)
{
    struct bounded *bounded = table->state;
    (void)shard;
    enum tern_status status = question->was_for_another
                                  ? bounded_serve_other(bounded, question->from, question->frame,
                                                        question->body, question->out)
                                  : bounded_serve(bounded, question->from, question->frame,
                                                  question->body, question->out);
    question->written = bounded->taken.keys;
    question->n_written = bounded->taken.n;
    question->wants_round = bounded_is_busy(bounded) || bounded->is_inquired;
    bounded->is_inquired = false;
    return status;
}

/* Without memory the next round fails. */
static void unanswered(struct core_table *table, uint32_t shard, uint32_t peer,
                       const struct buffer *sent, bool was_taken)
{
    struct bounded *bounded = table->state;
    (void)shard;
    bounded->out_of_memory |= bounded_unanswered(bounded, peer, sent, was_taken) != TERN_OK;
}

static void change_view(struct core_table *table, uint32_t shard, const struct view *before)
{
    struct bounded *bounded = table->state;
    (void)shard;
    bounded->out_of_memory |= bounded_change_view(bounded, before) != TERN_OK;
}

static bool confirmed(struct core_table *table, uint32_t shard)
{
    (void)shard;
    return bounded_make_safe(table->state);
}

static void end_round(struct core_table *table, uint32_t shard, struct round_end *end)
{
    (void)shard;
    end->left_over = bounded_is_busy(table->state);
}

static void peer_closed(struct core_table *table, uint32_t shard, uint32_t peer)
{
    (void)shard;
    bounded_forget_peer(table->state, peer);
}

/* ---- What is told ------------------------------------------------------------------------------- */

static void stats(const struct core_table *table, uint32_t shard, struct tern_table_stats *stats)
{
    const struct bounded_counts *counts = &((const struct bounded *)table->state)->counts;
    (void)shard;
    stats->messages = counts->questions + counts->answers;
    stats->sent_bytes = counts->bytes_sent;
    stats->received_bytes = counts->bytes_received;
    stats->deltas_sent = counts->deltas_sent;
    stats->values_received = counts->values_received;
}

static void explain(const struct core *core, const struct core_table *table, uint64_t key,
                    struct text *text)
{
    text_add(text,
             "is at its home, node %" PRIu32
             ", by policy %s, with replicas at nodes that have used it.\n",
             view_home(core->view, core_home(core, &table->store, key)), table->policy->name);
}

static enum copy copy(const struct core *core, const struct core_table *table, uint64_t key,
                      bool *is_wanted)
{
    *is_wanted = false;
    return view_home(core->view, core_home(core, &table->store, key)) == core->node ? COPY_MAIN
                                                                                    : COPY_NONE;
}

const struct technique technique_bounded = {
    .rows = ROWS_EVERYWHERE,
    .sends_sections = true,
    .check = check,
    .open = open_table,
    .close = close_table,
    .where = technique_where_home,
    .admit = admit,
    .fetch = fetch,
    .size = size,
    .admit_update = admit_update,
    .updated = updated,
    .awaits_workers = awaits_workers,
    .settle = settle,
    .inquire = inquire,
    .blame = blame,
    .begin = begin,
    .has_question = has_question,
    .ask = ask,
    .absorb = absorb,
    .answer = answer,
    .unanswered = unanswered,
    .change_view = change_view,
    .confirmed = confirmed,
    .end = end_round,
    .peer_closed = peer_closed,
    .stats = stats,
    .explain = explain,
    .copy = copy,
};
