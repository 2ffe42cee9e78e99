/*
 * managed - the technique of tables whose keys come and go: `adaptive`, `relocate`, `multi` and the ablations. Each shard
 * of a table has a manager (manager.h), which does the work; this file is about the table as a whole.
 *
 * `multi` keeps replicas of some keys at every node: those that are listed or frequent when the table is opened, or else
 * those that are found to be hot while keys are localized (hot.h).
 */
#include "core/technique.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/defect.h"
#include "core/manager_internal.h"

/* ---- Opening and closing ------------------------------------------------------------------------ */

static void want(struct core_table *table, uint32_t shard, const uint64_t *keys, size_t n)
{
    manager_want(managed_shard(table, shard), keys, n);
}

static void want_everywhere(struct core_table *table, const uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        want(table, store_shard(&table->store, keys[i]), &keys[i], 1);
}

static double factor_of(const struct tern_table_options *options)
{
    return options->hot_factor > 0 ? options->hot_factor : HOT_FACTOR;
}

/* The keys that are hot by the frequencies that are given, to be freed; NULL when memory runs out. */
static uint64_t *frequent_keys(const struct tern_table_options *options, size_t *n)
{
    /* No more keys than that can be so much above the mean. */
    const double factor = factor_of(options), n_keys = (double)options->n_keys;
    const size_t most = (size_t)(factor > 1 ? n_keys / factor : n_keys) + 1;
    uint64_t *hot = malloc(most * sizeof *hot);
    if (hot)
        *n = hot_among(options->frequencies, options->n_keys, factor, hot, most);
    return hot;
}

/* Every node wants the keys that should be everywhere for good, so each gets a replica. */
static bool want_listed(struct core_table *table, const struct tern_table_options *options)
{
    struct managed *managed = table->state;
    if (options->n_replicated) {
        want_everywhere(table, options->replicated, options->n_replicated);
        return true;
    }
    if (!options->frequencies) {
        hot_init(&managed->hot, options->n_keys, factor_of(options));
        return true;
    }
    size_t n;
    uint64_t *hot = frequent_keys(options, &n);
    if (hot)
        want_everywhere(table, hot, n);
    free(hot);
    return hot;
}

/* The keys that are used so often that what is changed in them is exchanged before that of others. */
static bool note_often(struct core_table *table, const struct tern_table_options *options)
{
    struct managed *managed = table->state;
    const uint64_t rare_ns = (uint64_t)options->rare_staleness_ms * 1000000;
    if (rare_ns < 2 * table->staleness_ns)
        return true;
    size_t n;
    uint64_t *hot = frequent_keys(options, &n);
    managed->often = calloc(options->n_keys / 64 + 1, sizeof *managed->often);
    const bool ok = hot && managed->often;
    for (size_t i = 0; ok && i < n; i++)
        managed->often[hot[i] / 64] |= UINT64_C(1) << hot[i] % 64;
    free(hot);
    for (uint32_t i = 0; ok && i < table->store.n_shards; i++) {
        managed->managers[i]->often = managed->often;
        managed->managers[i]->rare_every = rare_ns / table->staleness_ns;
    }
    return ok;
}

static void close_table(struct core_table *table)
{
    struct managed *managed = table->state;
    for (uint32_t i = STORE_MAX_SHARDS; i-- > 0;)
        manager_free(managed->managers[i]);
    free(managed->often);
    hot_fini(&managed->hot);
    free(managed);
}

static bool open_table(struct core *core, struct core_table *table,
                       const struct technique_setup *setup)
{
    struct managed *managed = calloc(1, sizeof *managed);
    table->state = managed;
    for (uint32_t i = 0; managed && i < table->store.n_shards; i++) {
        struct manager *manager =
            manager_new(core, &table->store, table->policy, i, managed->managers[0]);
        managed->managers[i] = manager;
        if (!manager || !manager_filter(manager, table))
            return false;
        manager_trace(manager)->clock = setup->time_ns;
        if (setup->round_bytes)
            manager->round_bytes = setup->round_bytes;
    }
    return managed && note_often(table, setup->options) &&
           (table->policy->replica != REPLICA_OF_LISTED || want_listed(table, setup->options));
}

/* ---- Keys --------------------------------------------------------------------------------------- */

uint32_t technique_where_managed(const struct core *core, const struct core_table *table,
                                 uint64_t key, struct key_range *range)
{
    const struct store *store = &table->store;
    uint32_t location;
    struct entry *entry;
    *range = (struct key_range){0};
    if (store_location(store, key, &location))
        return location_node(location);
    if (entry_has_row(store_look(store, key, &entry)))
        return core->node;
    return core_home(core, store, key);
}

enum intent_kind technique_intent_managed(const struct policy *policy, enum wanted_by by)
{
    if (by == BY_LOCALIZE)
        return policy->main == MAIN_ON_LOCALIZE ? INTENT_HERE : INTENT_NONE;
    if (by == BY_MISS)
        return INTENT_NONE;
    if (policy->main != MAIN_ON_INTENT && policy->replica != REPLICA_ON_INTENT)
        return INTENT_NONE;
    return policy->timing == TIMING_AT_ONCE ? INTENT_AT_ONCE : INTENT_TIMED;
}

static void unwant(struct core_table *table, uint32_t shard, const uint64_t *keys, size_t n)
{
    manager_unwant(managed_shard(table, shard), keys, n);
}

static void localize(struct core_table *table, uint32_t shard, const uint64_t *keys, size_t n)
{
    manager_fetch(managed_shard(table, shard), keys, n);
}

static size_t learn(struct core_table *table, const uint64_t *keys, size_t n, uint64_t *wanted,
                    size_t most)
{
    struct hot *hot = &((struct managed *)table->state)->hot;
    bool is_time = hot_is_open(hot) && hot_add(hot, keys, n);
    return is_time ? hot_look(hot, wanted, most) : 0;
}

static bool has_unregistered(const struct core_table *table, uint32_t shard, const uint64_t *keys,
                             size_t n)
{
    return manager_has_unregistered(managed_shard(table, shard), keys, n);
}

static enum whereabouts find(struct core_table *table, uint32_t shard, uint64_t key,
                             uint32_t *location, uint64_t *round)
{
    struct manager *manager = managed_shard(table, shard);
    *round = manager_counts(manager)->rounds;
    return manager_find(manager, key, location);
}

/* Of a write that was executed before it is not known any more whether its node was behind. */
static bool wrote(struct core_table *table, uint32_t shard, uint32_t by, const uint64_t *keys,
                  size_t n, bool again)
{
    return again || manager_written(managed_shard(table, shard), by, keys, n);
}

/* ---- Rounds ------------------------------------------------------------------------------------- */

static void begin_sweep(struct core_table *table, uint32_t shard)
{
    manager_begin_sweep(managed_shard(table, shard));
}

static void be_exact(struct core_table *table, uint32_t shard, bool is_awaited)
{
    manager_be_exact(managed_shard(table, shard), is_awaited);
}

static enum tern_status collect(struct core_table *table, uint32_t shard, bool is_due,
                                bool is_awaited)
{
    (void)is_awaited;
    return manager_begin_round(managed_shard(table, shard), is_due);
}

static bool has_question(const struct core_table *table, uint32_t shard, uint32_t peer,
                         uint64_t now_ns)
{
    (void)now_ns;
    return manager_has_request(managed_shard(table, shard), peer);
}

static enum tern_status ask(struct core_table *table, uint32_t shard, uint32_t peer,
                            uint64_t now_ns, struct buffer *body, struct frame *frame, bool *more)
{
    (void)now_ns;
    (void)more;
    const struct manager *manager = managed_shard(table, shard);
    const bool is_exact = sifter_rounds(&manager->sifter) && manager->sifter.is_exact;
    frame->fields.round.step = manager->is_brief ? FRAME_BRIEF : is_exact ? FRAME_EXACT : 0;
    return manager_request(managed_shard(table, shard), peer, body);
}

static enum tern_status absorb(struct core_table *table, uint32_t shard, uint32_t peer,
                               const struct round_answer *answer, bool *more)
{
    struct manager *manager = managed_shard(table, shard);
    manager_note_staleness(manager, peer, answer->sent_ns, answer->now_ns);
    return manager_answer(manager, peer, answer->sent, answer->frame, answer->body, more);
}

/* An ask or a delta that met a node which is not the owner may now be for another peer. */
static bool has_todo(const struct core_table *table, uint32_t shard, uint32_t peer)
{
    return manager_has_todo(managed_shard(table, shard), peer);
}

static enum tern_status answer(struct core_table *table, uint32_t shard,
                               struct round_question *question)
{
    struct manager *manager = managed_shard(table, shard);
    manager->only_takes = question->was_for_another && !defect(DEFECT_ANSWERS_CROSS);
    enum tern_status status =
        manager_serve(manager, question->from, question->frame, question->body, question->out);
    question->written = manager_merged(manager, &question->n_written);
    return status;
}

static void unanswered(struct core_table *table, uint32_t shard, uint32_t peer,
                       const struct buffer *sent, bool was_taken)
{
    manager_unanswered(managed_shard(table, shard), peer, sent, was_taken);
}

static void make_room(struct core_table *table, uint32_t shard, uint32_t arc)
{
    manager_make_room(managed_shard(table, shard), table->backup, arc);
}

static void change_view(struct core_table *table, uint32_t shard, const struct view *before)
{
    manager_change_view(managed_shard(table, shard), before);
}

static void end_round(struct core_table *table, uint32_t shard, struct round_end *end)
{
    struct manager *manager = managed_shard(table, shard);
    end->left_over = manager_is_busy(manager);
    end->intends = manager_is_sharing(manager);
    manager_round_ended(manager);
    end->sweeps = !manager_is_swept(manager);
}

static void peer_closed(struct core_table *table, uint32_t shard, uint32_t peer)
{
    manager_forget_peer(managed_shard(table, shard), peer);
}

/* ---- Figures ------------------------------------------------------------------------------------ */

static void stats(const struct core_table *table, uint32_t shard, struct tern_table_stats *stats)
{
    const struct manager_counts *counts = manager_counts(managed_shard(table, shard));
    if (stats->rounds < counts->rounds)
        stats->rounds = counts->rounds;
    stats->messages += counts->messages;
    stats->sent_bytes += counts->bytes_sent;
    stats->received_bytes += counts->bytes_received;
    stats->moved_here += counts->moved_here;
    stats->moved_away += counts->moved_away;
    stats->replicas_made += counts->replicas_made;
    stats->replicas_ended += counts->replicas_ended;
    stats->deltas_sent += counts->deltas_sent;
    stats->values_received += counts->values_received;
    stats->redirected += counts->redirected;
    for (int i = 0; i < TERN_STALENESS_STEPS; i++)
        stats->staleness_ms[i] += counts->staleness[i];
    stats->staleness_ms_mean += counts->staleness_ns_sum / 1e6;
}

/* ---- Explanation -------------------------------------------------------------------------------- */

enum {
    LAST_EVENTS = 8,   /* that are told */
    LISTED_NODES = 16, /* likewise */
};

static void say_location(struct text *text, const struct key_facts *facts)
{
    if (facts->copy == COPY_MAIN)
        text_add(text, "The main copy is here");
    else
        text_add(text, "%s; the main copy is believed to be at node %" PRIu32,
                 facts->copy == COPY_REPLICA ? "A replica is here" : "It is not here",
                 facts->owner);
    if (facts->n_moves)
        text_add(text, ", after %" PRIu32 " move%s.\n", facts->n_moves,
                 facts->n_moves == 1 ? "" : "s");
    else
        text_add(text, ", as it has been from the start.\n");
}

/* What the owner knows of others. */
static void say_others(struct text *text, const struct manager *manager, uint64_t key,
                       const struct key_facts *facts)
{
    if (!facts->n_wanting) {
        text_add(text, "No other node wants it.\n");
        return;
    }
    bool has_replicas = manager->policy->replica != REPLICA_NEVER;
    text_add(text, "Other nodes want it%s:",
             has_replicas ? " and have replicas" : ", but this policy makes no replicas");
    uint32_t n = 0;
    view_each_while (i, manager->view, n < LISTED_NODES) {
        bool is_behind = false;
        if (!manager_wanted_by(manager, key, i, &is_behind))
            continue;
        text_add(text, "%s %" PRIu32 "%s", n++ ? "," : "", i,
                 is_behind && has_replicas ? " (which will get a value in its next round)" : "");
    }
    if (n < facts->n_wanting)
        text_add(text, " and %" PRIu32 " more", facts->n_wanting - n);
    text_add(text, ".\n");
}

static void say_intents(struct text *text, const struct key_facts *facts)
{
    if (facts->n_intents)
        text_add(text, "This node has %" PRIu32 " active intent%s for it", facts->n_intents,
                 facts->n_intents == 1 ? "" : "s");
    else
        text_add(text, "This node has no active intent for it");
    if (facts->is_asked_for)
        text_add(text, ", and has asked for it without an answer yet");
    if (facts->is_ending)
        text_add(text, ", and is telling the owner that it does not want it any more");
    text_add(text, ".\n");
}

static const char *sentence_of(enum trace_kind kind)
{
    switch (kind) {
    case TRACE_MAIN_CAME:
        return "the main copy came from node";
    case TRACE_MAIN_LEFT:
        return "the main copy left for node";
    case TRACE_REPLICA_MADE:
        return "a replica was made here, of the main copy at node";
    case TRACE_REPLICA_ENDED:
        return "the replica here ended, as agreed with node";
    case TRACE_OTHER_WANTS:
        return "the main copy stayed, and was wanted as well by node";
    case TRACE_OTHER_LEAVES:
        return "the key was not wanted any more by node";
    case TRACE_INTENT_BEGAN:
    case TRACE_INTENT_ENDED:
        break;
    }
    return "something happened with node";
}

static void say_events(struct text *text, const struct trace *trace, uint64_t key)
{
    struct trace_event events[LAST_EVENTS];
    const size_t n = trace_last(trace, key, events, LAST_EVENTS);
    const uint64_t now_ns = trace->clock ? trace->clock() : 0;
    if (!n) {
        text_add(text, "Of the last %d moves and replicas seen here none was of this key.\n",
                 (int)TRACE_RING);
        return;
    }
    text_add(text, "What was seen of it here last:\n");
    for (size_t i = 0; i < n; i++) {
        uint64_t age_ns = now_ns > events[i].time_ns ? now_ns - events[i].time_ns : 0;
        text_add(text, "  %.6f s ago %s %" PRIu32 "\n", (double)age_ns / 1e9,
                 sentence_of((enum trace_kind)events[i].kind), events[i].node);
    }
}

static void explain(const struct core *core, const struct core_table *table, uint64_t key,
                    struct text *text)
{
    struct manager *manager = managed_shard(table, store_shard(&table->store, key));
    struct key_facts facts;
    manager_facts(manager, key, &facts);
    text_add(text,
             "is under policy %s, as node %" PRIu32 " of %" PRIu32
             " sees it. Its home is node %" PRIu32 ".\n",
             table->policy->name, core->node, view_n_nodes(manager->view), facts.home);
    say_location(text, &facts);
    if (facts.copy == COPY_MAIN)
        say_others(text, manager, key, &facts);
    say_intents(text, &facts);
    say_events(text, manager_trace(manager), key);
}

static enum copy copy(const struct core *core, const struct core_table *table, uint64_t key,
                      bool *is_wanted)
{
    struct key_facts facts;
    (void)core;
    manager_facts(managed_shard(table, store_shard(&table->store, key)), key, &facts);
    *is_wanted = facts.n_intents > 0;
    return facts.copy;
}

static struct trace *trace(const struct core_table *table, uint32_t shard)
{
    return manager_trace(managed_shard(table, shard));
}

static bool is_idle(const struct core_table *table, uint32_t shard, size_t *n_spare)
{
    const struct manager *manager = managed_shard(table, shard);
    *n_spare = manager->pool.n;
    return !manager_is_sharing(manager) && !manager_is_busy(manager);
}

const struct technique technique_managed = {
    .rows = ROWS_MOVE,
    .sends_sections = true,
    .open = open_table,
    .close = close_table,
    .where = technique_where_managed,
    .intent = technique_intent_managed,
    .want = want,
    .unwant = unwant,
    .localize = localize,
    .learn = learn,
    .has_unregistered = has_unregistered,
    .find = find,
    .wrote = wrote,
    .begin_sweep = begin_sweep,
    .be_exact = be_exact,
    .collect = collect,
    .has_question = has_question,
    .ask = ask,
    .absorb = absorb,
    .has_todo = has_todo,
    .answer = answer,
    .unanswered = unanswered,
    .make_room = make_room,
    .change_view = change_view,
    .end = end_round,
    .peer_closed = peer_closed,
    .is_idle = is_idle,
    .stats = stats,
    .explain = explain,
    .copy = copy,
    .trace = trace,
};
