/* follower - see follower.h. */
#include "core/follower.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/pages.h"
#include "core/defect.h"
#include "core/manager_internal.h"
#include "core/reply.h"
#include "store/shared.h"

enum {
    MOST_KEYS = 1 << 14, /* of a kind in one message */
    CLEAN_ROUNDS = 2,    /* of the leader: one may have begun before, */
    NEXT_SWEEP = 1,      /* but not the next sweep */
};

/* Keys to tell, in the order in which they came. */
struct told {
    uint64_t *keys;
    size_t first, n, max;
};

struct following_shard {
    struct told begun, ended, here;
    struct keymap counts; /* of a sparse table: this process's active intents for a key */
    size_t n_wanted;      /* keys with some */
    bool has_told;        /* the leader something */
    bool waits;           /* somebody waits for rounds, */
    uint64_t clean;       /* until the leader has had so many clean ones; 0: nobody waits */
    uint64_t sweep;       /* of the leader, with which the present one is over */
    bool is_closed;       /* the leader has closed the table, */
    bool is_retired;      /* or this process is about to */
    bool out_of_memory;
};

struct following {
    const struct core *member;
    struct store *store;
    uint32_t *counts; /* dense: the same by key, of all shards */
    size_t most;      /* keys of a kind in one message */
    struct hot hot;
    struct following_shard shards[STORE_MAX_SHARDS];
};

static struct following *following(const struct core_table *table)
{
    return table->state;
}

static struct shared_rounds *rounds_of(const struct core_table *table, uint32_t shard)
{
    return &table->store.home.shared->rounds[shard];
}

/* ---- Opening and closing ------------------------------------------------------------------------ */

static bool open_table(struct core *core, struct core_table *table,
                       const struct technique_setup *setup)
{
    const struct tern_table_options *options = setup->options;
    struct following *made = calloc(1, sizeof *made);
    table->state = made;
    if (!made)
        return false;
    made->member = core;
    for (uint32_t i = 0; defect(DEFECT_MARKS_PRIVATE) && i < table->store.n_shards; i++)
        marks_init(&table->store.changed[i], table->store.home.shared->n_slots);
    made->store = &table->store;
    made->most = setup->round_bytes ? setup->round_bytes / 64 : MOST_KEYS;
    if (made->most < 1 || made->most > MOST_KEYS)
        made->most = made->most ? MOST_KEYS : 1;
    if (table->policy->replica == REPLICA_OF_LISTED && !options->n_replicated &&
        !options->frequencies)
        hot_init(&made->hot, options->n_keys,
                 options->hot_factor > 0 ? options->hot_factor : HOT_FACTOR);
    if (table->store.index == TERN_DENSE && table->store.home.rows_move)
        made->counts = pages_new(table->store.n_keys * sizeof *made->counts);
    return made->counts || table->store.index != TERN_DENSE || !table->store.home.rows_move;
}

static void close_table(struct core_table *table)
{
    struct following *made = following(table);
    for (uint32_t i = 0; i < STORE_MAX_SHARDS; i++) {
        struct following_shard *shard = &made->shards[i];
        free(shard->begun.keys);
        free(shard->ended.keys);
        free(shard->here.keys);
        keymap_free(&shard->counts);
    }
    if (made->counts)
        pages_free(made->counts, table->store.n_keys * sizeof *made->counts);
    hot_fini(&made->hot);
    free(made);
}

/* ---- What is wanted ----------------------------------------------------------------------------- */

static void tell(struct following_shard *shard, struct told *list, uint64_t key)
{
    if (list->n == list->max) {
        const size_t max = list->max ? 2 * list->max : 256;
        uint64_t *keys = realloc(list->keys, max * sizeof *keys);
        if (!keys) {
            shard->out_of_memory = true;
            return;
        }
        list->keys = keys;
        list->max = max;
    }
    list->keys[list->n++] = key;
}

/* Adds to the count of a key; the count before. */
static uint32_t count(struct following *made, struct following_shard *shard, uint64_t key, int by)
{
    const uint32_t before = made->counts ? made->counts[key] : keymap_get(&shard->counts, key);
    const uint32_t after = before + (uint32_t)by;
    if (before == 0 && by < 0)
        return 0;
    if (made->counts)
        made->counts[key] = after;
    else
        keymap_set(&shard->counts, key, after);
    return before;
}

static void want(struct core_table *table, uint32_t number, const uint64_t *keys, size_t n)
{
    struct following *made = following(table);
    struct following_shard *shard = &made->shards[number];
    if (shard->is_retired)
        return;
    if (!made->counts && !keymap_reserve(&shard->counts, n)) {
        shard->out_of_memory = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (count(made, shard, keys[i], 1) != 0)
            continue;
        shard->n_wanted++;
        if (!defect(DEFECT_FOLLOWER_UNHEARD))
            tell(shard, &shard->begun, keys[i]);
    }
}

static void unwant(struct core_table *table, uint32_t number, const uint64_t *keys, size_t n)
{
    struct following *made = following(table);
    struct following_shard *shard = &made->shards[number];
    for (size_t i = 0; i < n && !shard->is_retired; i++) {
        const uint32_t before = count(made, shard, keys[i], -1);
        if (before != 1 && !(before && defect(DEFECT_FIRST_END_TOLD)))
            continue;
        shard->n_wanted--;
        if (!defect(DEFECT_FOLLOWER_KEEPS))
            tell(shard, &shard->ended, keys[i]);
    }
}

static void localize(struct core_table *table, uint32_t number, const uint64_t *keys, size_t n)
{
    struct following_shard *shard = &following(table)->shards[number];
    for (size_t i = 0; i < n && !shard->is_retired; i++)
        tell(shard, &shard->here, keys[i]);
}

static bool has_said_all(const struct following_shard *shard)
{
    return shard->is_closed || (!shard->begun.n && !shard->ended.n && !shard->here.n);
}

/* Ends all intents that are open. */
static void end_all(struct following *made, uint32_t number)
{
    struct following_shard *shard = &made->shards[number];
    const size_t n_cells = shard->counts.cells ? shard->counts.mask + 1 : 0;
    for (size_t i = 0; i < n_cells; i++)
        if (shard->counts.cells[i].value)
            tell(shard, &shard->ended, shard->counts.cells[i].key);
    for (uint64_t key = 0; made->counts && key < made->store->n_keys; key++)
        if (made->counts[key] && store_shard(made->store, key) == number)
            tell(shard, &shard->ended, key);
    shard->n_wanted = 0;
}

static bool retire(struct core_table *table, uint32_t number)
{
    struct following_shard *shard = &following(table)->shards[number];
    /* A leader that was told nothing may still be about to open the table, and then is not waited for. */
    if (!shard->has_told)
        shard->begun.n = shard->ended.n = shard->here.n = 0;
    else if (!shard->is_retired)
        end_all(following(table), number);
    shard->is_retired = true;
    return !has_said_all(shard) && !shard->out_of_memory;
}

static size_t learn(struct core_table *table, const uint64_t *keys, size_t n, uint64_t *wanted,
                    size_t most)
{
    struct hot *hot = &following(table)->hot;
    return hot_is_open(hot) && hot_add(hot, keys, n) ? hot_look(hot, wanted, most) : 0;
}

/* The leader alone knows which replicas owners know of. */
static bool has_unregistered(const struct core_table *table, uint32_t shard, const uint64_t *keys,
                             size_t n)
{
    (void)shard;
    return store_has_replica(&table->store, keys, n);
}

/* ---- Requests of others ------------------------------------------------------------------------- */

static enum whereabouts find(struct core_table *table, uint32_t shard, uint64_t key,
                             uint32_t *location, uint64_t *round)
{
    (void)shard;
    *round = 0;
    if (!store_location(&table->store, key, location))
        *location = location_make(following(table)->member->node, 0);
    return KEY_AWAY;
}

static enum tern_status answer(struct core_table *table, uint32_t shard,
                               struct round_question *question)
{
    (void)shard;
    return fail(TERN_INVALID,
                "node %" PRIu32 " asked a process about table '%s' that has it from node %" PRIu32,
                question->from, table->store.name, following(table)->member->node);
}

/* ---- Rounds ------------------------------------------------------------------------------------- */

/* Raises a number in shared memory that other followers also raise. */
static void raise(_Atomic uint64_t *number, uint64_t to)
{
    uint64_t now = atomic_load_explicit(number, memory_order_relaxed);
    while (now < to && !atomic_compare_exchange_weak_explicit(
                           number, &now, to, memory_order_relaxed, memory_order_relaxed))
        ;
}

static bool is_reached(const _Atomic uint64_t *number, uint64_t goal)
{
    /* Acquire: what the leader did before it counted has come. */
    return atomic_load_explicit(number, memory_order_acquire) >= goal;
}

static void begin_sweep(struct core_table *table, uint32_t number)
{
    struct following_shard *shard = &following(table)->shards[number];
    const struct shared_rounds *rounds = rounds_of(table, number);
    shard->sweep = atomic_load_explicit(&rounds->n_begun, memory_order_acquire) + NEXT_SWEEP;
}

static enum tern_status collect(struct core_table *table, uint32_t number, bool is_due,
                                bool is_awaited)
{
    struct following_shard *shard = &following(table)->shards[number];
    struct shared_rounds *rounds = rounds_of(table, number);
    (void)is_due;
    shard->waits = is_awaited && !shard->is_closed && !defect(DEFECT_FOLLOWER_FLUSHES_ALONE);
    if (!shard->waits)
        shard->clean = 0;
    if (shard->waits && !shard->clean)
        shard->clean = atomic_load_explicit(&rounds->n_clean, memory_order_acquire) + CLEAN_ROUNDS;
    if (shard->waits) {
        raise(&rounds->clean_wanted, shard->clean);
        raise(&rounds->sweep_wanted, shard->sweep);
    }
    if (shard->out_of_memory)
        return fail(TERN_NO_MEMORY, "no memory to manage the keys of table '%s'",
                    table->store.name);
    return TERN_OK;
}

static bool has_question(const struct core_table *table, uint32_t number, uint32_t peer,
                         uint64_t now_ns)
{
    const struct following *made = following(table);
    const struct following_shard *shard = &made->shards[number];
    (void)now_ns;
    return peer == made->member->node && !shard->is_closed &&
           (shard->waits || !has_said_all(shard));
}

/* Writes the first keys of a list; the place behind them. */
static uint8_t *write_keys(struct told *list, enum section_kind kind, size_t most, uint8_t *out)
{
    const size_t left = list->n - list->first, n = left < most ? left : most;
    if (!n)
        return out;
    section_write(out, kind, (uint32_t)n, 8);
    out += SECTION_HEADER_BYTES;
    for (size_t i = 0; i < n; i++, out += 8)
        section_put(out, list->keys[list->first++]);
    if (list->first == list->n)
        list->first = list->n = 0;
    return out;
}

static enum tern_status ask(struct core_table *table, uint32_t number, uint32_t peer,
                            uint64_t now_ns, struct buffer *body, struct frame *frame, bool *more)
{
    struct following_shard *shard = &following(table)->shards[number];
    const size_t most = following(table)->most;
    (void)peer;
    (void)now_ns;
    frame->fields.round.step = FRAME_BRIEF;
    body->begin = body->end = 0;
    uint8_t *begin = buffer_reserve(body, 3 * (SECTION_HEADER_BYTES + 8 * most));
    if (!begin)
        return fail(TERN_NO_MEMORY, "no memory for a round of table '%s'", table->store.name);
    uint8_t *out = write_keys(&shard->begun, SECTION_ASKS, most, begin);
    if (!shard->begun.n || defect(DEFECT_END_OVERTAKES))
        out = write_keys(&shard->ended, SECTION_ENDS, most, out);
    out = write_keys(&shard->here, SECTION_FETCHES, most, out);
    body->end += (size_t)(out - begin);
    shard->has_told |= out > begin;
    *more = !has_said_all(shard);
    return TERN_OK;
}

static enum tern_status absorb(struct core_table *table, uint32_t number, uint32_t peer,
                               const struct round_answer *answered, bool *more)
{
    (void)peer;
    (void)answered;
    *more = !has_said_all(&following(table)->shards[number]);
    return TERN_OK;
}

static void end_round(struct core_table *table, uint32_t number, struct round_end *end)
{
    struct following_shard *shard = &following(table)->shards[number];
    const struct shared_rounds *rounds = rounds_of(table, number);
    end->left_over = !has_said_all(shard);
    end->awaits = shard->waits && !shard->is_closed && !is_reached(&rounds->n_clean, shard->clean);
    /* The next round that somebody waits for has a goal of its own. */
    if (!end->awaits)
        shard->clean = 0;
    end->sweeps = !shard->is_closed && !is_reached(&rounds->n_swept, shard->sweep);
    end->intends = shard->n_wanted > 0;
}

static void peer_closed(struct core_table *table, uint32_t number, uint32_t peer)
{
    struct following *made = following(table);
    if (peer == made->member->node)
        made->shards[number].is_closed = true;
}

/* ---- The leader's side -------------------------------------------------------------------------- */

static void do_section(struct core_table *table, uint32_t shard, const struct section *section)
{
    enum { BLOCK = 256 };
    const struct technique *technique = table->technique;
    uint64_t keys[BLOCK];
    for (uint32_t done = 0; done < section->count;) {
        uint32_t n = 0;
        while (n < BLOCK && done < section->count)
            keys[n++] = section_get(section->items + 8 * done++);
        if (section->kind == SECTION_ENDS && defect(DEFECT_END_COUNTS_TWICE))
            technique->unwant(table, shard, keys, n);
        if (section->kind == SECTION_ASKS)
            technique->want(table, shard, keys, n);
        else if (section->kind == SECTION_ENDS)
            technique->unwant(table, shard, keys, n);
        else
            technique->localize(table, shard, keys, n);
    }
}

enum tern_status follower_serve(struct core_table *table, uint32_t shard, uint32_t epoch,
                                struct round_question *question)
{
    const struct technique *technique = table->technique;
    const struct store *store = &table->store;
    const struct frame *request = question->frame;
    struct section section;
    bool wrong;
    for (size_t at = 0; section_next(question->body, request->body_bytes, &at, &section, &wrong);) {
        wrong = !technique->want || section.item_bytes != 8 ||
                (section.kind != SECTION_ASKS && section.kind != SECTION_ENDS &&
                 section.kind != SECTION_FETCHES);
        for (uint32_t i = 0; !wrong && i < section.count; i++) {
            const uint64_t key = section_get(section.items + 8 * i);
            wrong = key > store->last_key || store_shard(store, key) != shard;
        }
        if (wrong)
            break;
    }
    if (wrong)
        return fail(TERN_INVALID, "a round of table '%s' makes no sense", store->name);
    if (!reply_reserve(question->out, 0))
        return fail(TERN_NO_MEMORY, "no memory to answer a round of table '%s'", store->name);
    for (size_t at = 0; section_next(question->body, request->body_bytes, &at, &section, &wrong);)
        do_section(table, shard, &section);
    struct frame reply = reply_frame(request, epoch, FRAME_ROUND_REPLY);
    reply.table = request->table;
    reply_commit(question->out, &reply);
    question->wants_round = true;
    return TERN_OK;
}

void follower_note_sweep(const struct core_table *table, uint32_t shard)
{
    atomic_fetch_add_explicit(&rounds_of(table, shard)->n_begun, 1, memory_order_release);
}

void follower_note_round(const struct core_table *table, uint32_t shard, bool is_clean,
                         bool is_swept)
{
    struct shared_rounds *rounds = rounds_of(table, shard);
    /* Release: partner of the acquire in is_reached. */
    if (is_swept)
        atomic_store_explicit(&rounds->n_swept,
                              atomic_load_explicit(&rounds->n_begun, memory_order_relaxed),
                              memory_order_release);
    if (is_clean)
        atomic_fetch_add_explicit(&rounds->n_clean, 1, memory_order_release);
}

uint64_t follower_sweeps(const struct core_table *table, uint32_t shard)
{
    return atomic_load_explicit(&rounds_of(table, shard)->n_swept, memory_order_acquire);
}

bool follower_waits(const struct core_table *table, uint32_t shard)
{
    const struct shared_rounds *rounds = rounds_of(table, shard);
    return !is_reached(&rounds->n_clean,
                       atomic_load_explicit(&rounds->clean_wanted, memory_order_relaxed)) ||
           !is_reached(&rounds->n_swept,
                       atomic_load_explicit(&rounds->sweep_wanted, memory_order_relaxed));
}

/* ---- What is told ------------------------------------------------------------------------------- */

static bool is_idle(const struct core_table *table, uint32_t shard, size_t *n_spare)
{
    *n_spare = 0;
    return has_said_all(&following(table)->shards[shard]) &&
           !following(table)->shards[shard].n_wanted;
}

static enum copy copy(const struct core *core, const struct core_table *table, uint64_t key,
                      bool *is_wanted)
{
    const struct following *made = following(table);
    const struct store *store = &table->store;
    const struct following_shard *shard = &made->shards[store_shard(store, key)];
    struct entry *entry;
    const uint64_t word = store_look(store, key, &entry);
    *is_wanted = made->counts ? made->counts[key] : keymap_get(&shard->counts, key);
    if (store->home.rows_everywhere)
        return core_home(core, store, key) == core->node ? COPY_MAIN : COPY_REPLICA;
    if (entry_is_main(word) || (entry_state(word) == ENTRY_NONE && store_is_home(store, key)))
        return COPY_MAIN;
    return entry_state(word) == ENTRY_REPLICA ? COPY_REPLICA : COPY_NONE;
}

static void explain(const struct core *core, const struct core_table *table, uint64_t key,
                    struct text *text)
{
    bool is_wanted;
    const enum copy here = copy(core, table, key, &is_wanted);
    text_add(text,
             "is under policy %s, managed by node %" PRIu32
             " for the processes of this host. Its home is node %" PRIu32 ".\n",
             table->policy->name, core->node, core_home(core, &table->store, key));
    if (here == COPY_MAIN)
        text_add(text, "The main copy is on this host.\n");
    else
        text_add(text, "%s; the main copy is believed to be at node %" PRIu32 ".\n",
                 here == COPY_REPLICA ? "A replica is on this host" : "It is not on this host",
                 table->technique->where(core, table, key, &(struct key_range){0}));
    if (table->store.home.rows_move)
        text_add(text, "This process has %s intent for it; node %" PRIu32 " knows of others.\n",
                 is_wanted ? "an active" : "no active", core->node);
}

#define FOLLOWING                                                                                 \
    .sends_sections = true, .open = open_table, .close = close_table, .begin_sweep = begin_sweep, \
    .collect = collect, .has_question = has_question, .ask = ask, .absorb = absorb,               \
    .answer = answer, .end = end_round, .peer_closed = peer_closed, .is_idle = is_idle,           \
    .explain = explain, .copy = copy

static const struct technique following_mirrored = {
    .rows = ROWS_EVERYWHERE, .where = technique_where_home, FOLLOWING};

static const struct technique following_managed = {
    .rows = ROWS_MOVE,
    .where = technique_where_managed,
    .intent = technique_intent_managed,
    .want = want,
    .unwant = unwant,
    .localize = localize,
    .retire = retire,
    .learn = learn,
    .has_unregistered = has_unregistered,
    .find = find,
    FOLLOWING,
};

bool follower_is_for(const struct policy *policy)
{
    const struct technique *technique = technique_find(policy, false);
    return !technique->admit && !technique->counting && policy->replica != REPLICA_ON_ACCESS;
}

const struct technique *follower_of(const struct technique *technique)
{
    switch (technique->rows) {
    case ROWS_EVERYWHERE:
        return &following_mirrored;
    case ROWS_MOVE:
        return &following_managed;
    default:
        return technique;
    }
}
