/* replica - see replica.h. */
#include "core/replica.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/defect.h"
#include "core/reply.h"
#include "core/sifter.h"
#include "core/sweep.h"
#include "core/technique.h"
#include "wire/keys.h"

/* Aimed at for a request or an answer, unless a test chooses less. */
enum { BODY_BYTES = 256 << 10 };

/* Keys of one owner that this node has changed and not sent yet. */
struct changed {
    uint64_t *keys;
    size_t n, capacity;
};

/* What is missing at one node, to be told in the order of slots, round and round. */
struct missing {
    struct marks slots; /* see the header */
    struct marks_turn turn;
    struct marks rounded; /* it has, but rounded */
};

struct replication {
    struct core *core;
    struct core_table *table;
    struct store *store; /* of the table */
    const struct view *view;
    struct sifter sifter; /* of what this node has changed; the owner's has values for others */
    struct sifter owner_sifter;
    size_t body_bytes;       /* BODY_BYTES */
    struct changed *changed; /* one per node */
    struct sweep *sweeps;    /* one per node: through the values it has for this one */
    struct missing *missing; /* one per node */
    uint64_t *keys;          /* room for those of a request or answer */
    struct buffer values;    /* aligned */
    uint64_t *server_keys;   /* the same for the owner's side, which another thread runs */
    struct buffer server_values;
    uint32_t *slots;
    struct replication_counts counts;
};

struct replication *replication_new(struct core *core, struct core_table *table)
{
    struct replication *made = calloc(1, sizeof *made);
    const struct store *store = &table->store;
    if (!made)
        return NULL;
    made->core = core;
    made->table = table;
    made->store = &table->store;
    made->view = core->view;
    const uint32_t capacity = view_capacity(core->view);
    made->body_bytes = BODY_BYTES;
    made->changed = calloc(capacity, sizeof *made->changed);
    made->sweeps = calloc(capacity, sizeof *made->sweeps);
    made->missing = calloc(capacity, sizeof *made->missing);
    made->keys = malloc(FRAME_MAX_KEYS * sizeof *made->keys);
    made->server_keys = malloc(FRAME_MAX_KEYS * sizeof *made->server_keys);
    made->slots = malloc(FRAME_MAX_KEYS * sizeof *made->slots);
    bool complete = made->changed && made->sweeps && made->missing && made->keys &&
                    made->server_keys && made->slots &&
                    sifter_init(&made->sifter, table, core, 0) &&
                    sifter_init(&made->owner_sifter, table, core, 1);
    const uint64_t n_slots = 64 * store->changed[0].n_words;
    for (uint32_t i = 0; complete && i < capacity; i++)
        complete =
            marks_init(&made->missing[i].slots, n_slots) &&
            (!sifter_rounds(&made->sifter) || marks_init(&made->missing[i].rounded, n_slots));
    if (complete)
        return made;
    replication_free(made);
    return NULL;
}

void replication_free(struct replication *replication)
{
    if (!replication)
        return;
    for (uint32_t i = 0; i < view_capacity(replication->view); i++) {
        if (replication->changed)
            free(replication->changed[i].keys);
        if (replication->missing)
            marks_fini(&replication->missing[i].slots);
        if (replication->missing)
            marks_fini(&replication->missing[i].rounded);
    }
    sifter_fini(&replication->sifter);
    sifter_fini(&replication->owner_sifter);
    free(replication->changed);
    free(replication->sweeps);
    free(replication->missing);
    free(replication->keys);
    free(replication->server_keys);
    free(replication->slots);
    buffer_free(&replication->values);
    buffer_free(&replication->server_values);
    free(replication);
}

static void count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

const struct replication_counts *replication_counts(const struct replication *replication)
{
    return &replication->counts;
}

/* Notes that nobody but `knows` has the present value of a row at home here; NOBODY if all others lack it. */
static void tell_all_but(struct replication *replication, uint32_t knows, uint32_t slot)
{
    view_each (i, replication->view)
        if (i != knows && i != replication->core->node)
            marks_add(&replication->missing[i].slots, slot);
}

static bool add_changed(struct changed *changed, uint64_t key)
{
    if (changed->n == changed->capacity) {
        size_t capacity = changed->capacity ? 2 * changed->capacity : 256;
        uint64_t *keys = realloc(changed->keys, capacity * sizeof *keys);
        if (!keys)
            return false;
        changed->keys = keys;
        changed->capacity = capacity;
    }
    changed->keys[changed->n++] = key;
    return true;
}

/* Whether there are changes to send that were taken in an earlier round. */
static bool is_left_over(const struct replication *replication)
{
    bool is_left_over = false;
    view_each_while (i, replication->view, !is_left_over)
        is_left_over = replication->changed[i].n > 0;
    return is_left_over;
}

void replication_be_exact(struct replication *replication, bool is_exact)
{
    sifter_begin_round(&replication->sifter, true, is_exact);
}

enum tern_status replication_take(struct replication *replication)
{
    struct store *store = replication->store;
    const struct core *core = replication->core;
    if (is_left_over(replication))
        return TERN_OK;
    size_t n_words = store_mark_words(store);
    uint64_t bits;
    for (size_t i = 0; (bits = marks_take(&store->changed[0], &i, n_words)) != 0; i++) {
        for (; bits; bits &= bits - 1) {
            uint32_t slot = (uint32_t)(64 * i + (size_t)__builtin_ctzll(bits));
            uint64_t key = store_key_of(store, slot);
            uint32_t home = core_home(core, store, key);
            if (home == core->node) {
                tell_all_but(replication, NOBODY, slot);
            } else if (!add_changed(&replication->changed[home], key)) {
                /* Nothing is lost: what was not noted is marked again. */
                marks_put(&store->changed[0], i, bits);
                return fail(TERN_NO_MEMORY, "no memory for the changes of table '%s'", store->name);
            }
        }
    }
    return TERN_OK;
}

void replication_limit(struct replication *replication, size_t body_bytes)
{
    replication->body_bytes = body_bytes;
}

static size_t keys_per_body(const struct replication *replication)
{
    size_t n = replication->body_bytes / replication->store->value_bytes;
    return n < 1 ? 1 : n > FRAME_MAX_KEYS ? FRAME_MAX_KEYS : n;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Takes what was changed under n keys as the filters let it out; how many rows are sent. */
static size_t take_sifted(struct replication *replication, const uint64_t *keys, size_t n,
                          char *deltas)
{
    const struct store *store = replication->store;
    struct sifter *sifter = &replication->sifter;
    for (size_t i = 0; i < n; i++)
        if (store_look_delta(store, keys[i], sifter_room(sifter)))
            sifter_add(sifter, keys[i]);
    const size_t n_sent = sifter_take(sifter);
    for (size_t i = 0; i < n_sent; i++) {
        replication->keys[i] = sifter_key(sifter, i);
        memcpy(deltas + i * store->value_bytes, sifter_row(sifter, i), store->value_bytes);
    }
    return n_sent;
}

static size_t take_exactly(struct replication *replication, const uint64_t *keys, size_t n,
                           char *deltas)
{
    struct store *store = replication->store;
    size_t n_sent = 0;
    for (size_t i = 0; i < n; i++)
        if (store_take_delta(store, keys[i], deltas + n_sent * store->value_bytes))
            replication->keys[n_sent++] = keys[i];
    return n_sent;
}

enum tern_status replication_request(struct replication *replication, uint32_t owner,
                                     struct buffer *body, struct frame *frame, bool *more)
{
    struct store *store = replication->store;
    struct sifter *sifter = &replication->sifter;
    struct changed *changed = &replication->changed[owner];
    size_t most = keys_per_body(replication), n = changed->n < most ? changed->n : most;
    uint64_t *keys = n ? changed->keys + (changed->n - n) : NULL;
    if (n > 1)
        qsort(keys, n, sizeof *keys, compare_keys);
    body->begin = body->end = 0;
    replication->values.begin = replication->values.end = 0;
    char *deltas = (char *)buffer_reserve(&replication->values, n * store->value_bytes + 1);
    uint8_t *out =
        buffer_reserve(body, keys_max_bytes(n) + core_rows_room(replication->table, n) + 1);
    const bool sifts = sifter_is_on(sifter) && sifter_clear(sifter, n + 1);
    if (!deltas || !out)
        return fail(TERN_NO_MEMORY, "no memory for a round of table '%s'", store->name);
    const size_t n_sent = sifts ? take_sifted(replication, keys, n, deltas)
                                : take_exactly(replication, keys, n, deltas);
    changed->n -= n;
    *more = changed->n > 0;
    *frame = (struct frame){.kind = FRAME_ROUND, .count = (uint32_t)n_sent};
    if (sifter_rounds(sifter) && sifter->is_exact)
        frame->fields.round.step = FRAME_EXACT;
    frame->keys_bytes = (uint32_t)keys_encode(replication->keys, n_sent, out, &frame->flags);
    frame->body_bytes =
        frame->keys_bytes +
        (uint32_t)core_put_rows(replication->table, deltas, n_sent, out + frame->keys_bytes);
    body->end = frame->body_bytes;
    count(&replication->counts.messages, 1);
    count(&replication->counts.bytes_sent, FRAME_HEADER_BYTES + frame->body_bytes);
    count(&replication->counts.deltas_sent, n_sent);
    return TERN_OK;
}

/* Room for n rows of a message, and the scratch to decode them; NULL when memory runs out. */
static uint8_t *reserve_rows(const struct replication *replication, struct buffer *buffer, size_t n)
{
    buffer->begin = buffer->end = 0;
    return buffer_reserve(buffer, n * replication->store->value_bytes +
                                      core_rows_room(replication->table, n) + 1);
}

/* Decodes the rows of a message to such room; false if they do not fit. */
static bool read_rows(const struct replication *replication, const struct frame *frame,
                      const uint8_t *body, uint8_t *rows)
{
    uint8_t *const scratch = rows + frame->count * replication->store->value_bytes;
    return frame->keys_bytes <= frame->body_bytes &&
           core_get_rows(replication->table, body + frame->keys_bytes, frame_payload_bytes(frame),
                         frame->count, scratch, rows);
}

enum tern_status replication_answer(struct replication *replication, uint32_t owner,
                                    const struct frame *answer, const uint8_t *body)
{
    struct store *store = replication->store;
    uint8_t *rows = reserve_rows(replication, &replication->values, answer->count);
    if (!rows)
        return fail(TERN_NO_MEMORY, "no memory for news of table '%s'", store->name);
    if (answer->kind != FRAME_ROUND_REPLY || !read_rows(replication, answer, body, rows) ||
        !keys_decode(body, answer->keys_bytes, answer->flags, answer->count, replication->keys))
        return fail(TERN_PEER, "an answer to a ROUND of table '%s' makes no sense", store->name);
    const char *values = (const char *)replication->values.bytes;
    for (uint32_t i = 0; i < answer->count; i++) {
        if (replication->keys[i] > store->last_key)
            return fail(TERN_PEER, "news of key %" PRIu64 " outside table '%s'",
                        replication->keys[i], store->name);
        enum tern_status status =
            store_refresh(store, replication->keys[i], values + i * store->value_bytes);
        if (status)
            return status;
    }
    sweep_hear(&replication->sweeps[owner], answer->fields.round_reply.passed,
               answer->fields.round_reply.left);
    count(&replication->counts.bytes_received, FRAME_HEADER_BYTES + answer->body_bytes);
    count(&replication->counts.values_received, answer->count);
    return TERN_OK;
}

void replication_begin_sweep(struct replication *replication)
{
    view_each (i, replication->view)
        sweep_begin(&replication->sweeps[i]);
}

bool replication_is_swept(const struct replication *replication)
{
    bool is_swept = true;
    view_each_while (i, replication->view, is_swept)
        is_swept = sweep_is_over(&replication->sweeps[i]);
    return is_swept;
}

bool replication_round_ended(struct replication *replication)
{
    view_each (i, replication->view)
        sweep_round_ended(&replication->sweeps[i]);
    count(&replication->counts.rounds, 1);
    return is_left_over(replication);
}

enum tern_status replication_merge(struct replication *replication, uint32_t from,
                                   const uint64_t *keys, size_t n, const void *deltas)
{
    struct store *store = replication->store;
    /* What an updater makes of a delta is known here alone. */
    uint32_t knows = store->updater.apply && !defect(DEFECT_UPDATE_UNTOLD) ? NOBODY : from;
    for (size_t i = 0; i < n; i++) {
        uint32_t slot;
        enum tern_status status =
            store_merge_delta(store, keys[i], (const char *)deltas + i * store->value_bytes, &slot);
        if (status)
            return status;
        tell_all_but(replication, knows, slot);
    }
    return TERN_OK;
}

void replication_written(struct replication *replication, const uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct entry *entry;
        tell_all_but(replication, NOBODY,
                     entry_slot(store_look(replication->store, keys[i], &entry)));
    }
}

/* A node is to hear everything exactly: it misses the values that it has rounded. */
static void forget_rounded(struct replication *replication, struct missing *missing)
{
    const size_t n_words = store_mark_words(replication->store);
    uint64_t bits;
    for (size_t i = 0; (bits = marks_take(&missing->rounded, &i, n_words)) != 0; i++)
        if (!defect(DEFECT_ROUNDED_KEPT))
            marks_put(&missing->slots, i, bits);
}

bool replication_reply(struct replication *replication, uint32_t to, const struct frame *request,
                       struct buffer *out)
{
    struct store *store = replication->store;
    size_t most = keys_per_body(replication);
    uint8_t *body =
        reply_reserve(out, keys_max_bytes(most) + core_rows_room(replication->table, most));
    uint8_t *values = reserve_rows(replication, &replication->server_values, most);
    if (!body || !values)
        return false;
    struct missing *missing = &replication->missing[to];
    const bool is_exact = request->fields.round.step == FRAME_EXACT;
    if (is_exact && missing->rounded.slots)
        forget_rounded(replication, missing);
    bool is_left;
    size_t n = marks_take_turn(&missing->slots, &missing->turn, store_mark_words(store), most,
                               replication->slots, &is_left);
    for (size_t i = 0; i < n; i++)
        replication->server_keys[i] = store_key_of(store, replication->slots[i]);
    struct frame reply =
        reply_frame(request, view_epoch(replication->core->view), FRAME_ROUND_REPLY);
    reply.table = request->table;
    reply.count = (uint32_t)n;
    /* How many more times the end must be reached until all that are missing now have been taken. */
    reply.fields.round_reply.left = is_left ? 2 : 0;
    reply.fields.round_reply.passed = missing->turn.n_laps;
    reply.keys_bytes = (uint32_t)keys_encode(replication->server_keys, n, body, &reply.flags);
    for (size_t i = 0; i < n; i++)
        store_pull_one(store, replication->server_keys[i], values + i * store->value_bytes);
    if (sifter_rounds(&replication->owner_sifter) && !is_exact &&
        sifter_round(&replication->owner_sifter, values, n, store->value_bytes))
        for (size_t i = 0; i < n; i++)
            marks_add(&missing->rounded, replication->slots[i]);
    reply.body_bytes = reply.keys_bytes + (uint32_t)core_put_rows(replication->table, values, n,
                                                                  body + reply.keys_bytes);
    reply_commit(out, &reply);
    count(&replication->counts.messages, 1);
    count(&replication->counts.bytes_received, FRAME_HEADER_BYTES + request->body_bytes);
    count(&replication->counts.bytes_sent, FRAME_HEADER_BYTES + reply.body_bytes);
    return true;
}

/* ---- The technique ------------------------------------------------------------------------------ */

static bool open_table(struct core *core, struct core_table *table,
                       const struct technique_setup *setup)
{
    struct replication *made = replication_new(core, table);
    table->state = made;
    if (made && setup->round_bytes)
        replication_limit(made, setup->round_bytes);
    return made;
}

static void close_table(struct core_table *table)
{
    replication_free(table->state);
}

/* The writer goes on when it has heard of what it wrote: its copy is older until then. */
static bool wrote(struct core_table *table, uint32_t shard, uint32_t by, const uint64_t *keys,
                  size_t n, bool again)
{
    (void)shard;
    (void)by;
    if (!again)
        replication_written(table->state, keys, n);
    return !defect(DEFECT_WRITER_BEHIND);
}

static void begin_sweep(struct core_table *table, uint32_t shard)
{
    (void)shard;
    replication_begin_sweep(table->state);
}

static void be_exact(struct core_table *table, uint32_t shard, bool is_awaited)
{
    (void)shard;
    replication_be_exact(table->state, is_awaited);
}

static enum tern_status begin(struct core_table *table, uint32_t shard, struct node_clock clock,
                              uint64_t now_ns)
{
    (void)shard;
    (void)clock;
    (void)now_ns;
    return replication_take(table->state);
}

/* An owner may have news in every round. */
static bool has_question(const struct core_table *table, uint32_t shard, uint32_t peer,
                         uint64_t now_ns)
{
    (void)table;
    (void)shard;
    (void)peer;
    (void)now_ns;
    return true;
}

static enum tern_status ask(struct core_table *table, uint32_t shard, uint32_t peer,
                            uint64_t now_ns, struct buffer *body, struct frame *frame, bool *more)
{
    (void)shard;
    (void)now_ns;
    return replication_request(table->state, peer, body, frame, more);
}

static enum tern_status absorb(struct core_table *table, uint32_t shard, uint32_t peer,
                               const struct round_answer *answer, bool *more)
{
    (void)shard;
    *more = answer->frame->fields.round_reply.left != 0;
    return replication_answer(table->state, peer, answer->frame, answer->body);
}

/* Whether the deltas that a peer has sent are of keys at home here, which are decoded. */
static enum tern_status read_deltas(struct replication *replication, const struct frame *request,
                                    const uint8_t *body)
{
    const struct store *store = replication->store;
    uint8_t *rows = reserve_rows(replication, &replication->server_values, request->count);
    if (!rows)
        return fail(TERN_NO_MEMORY, "no memory for a ROUND");
    if (!read_rows(replication, request, body, rows) ||
        !keys_decode(body, request->keys_bytes, request->flags, request->count,
                     replication->server_keys))
        return fail(TERN_INVALID, "a ROUND does not fit table '%s'", store->name);
    for (uint32_t i = 0; i < request->count; i++) {
        const uint64_t key = replication->server_keys[i];
        if (key > store->last_key || !store_may_be_asked(store, key))
            return fail(TERN_PEER, "key %" PRIu64 " of table '%s' is not at node %" PRIu32, key,
                        store->name, replication->core->node);
    }
    return TERN_OK;
}

static enum tern_status answer(struct core_table *table, uint32_t shard,
                               struct round_question *question)
{
    struct replication *replication = table->state;
    (void)shard;
    enum tern_status status = read_deltas(replication, question->frame, question->body);
    if (!status)
        status = replication_merge(replication, question->from, replication->server_keys,
                                   question->frame->count, replication->server_values.bytes);
    if (!status && !replication_reply(replication, question->from, question->frame, question->out))
        status = fail(TERN_NO_MEMORY, "no memory for the answer to a ROUND");
    return status;
}

static void end_round(struct core_table *table, uint32_t shard, struct round_end *end)
{
    (void)shard;
    end->left_over = replication_round_ended(table->state);
    end->sweeps = !replication_is_swept(table->state);
}

static void stats(const struct core_table *table, uint32_t shard, struct tern_table_stats *stats)
{
    const struct replication_counts *counts = replication_counts(table->state);
    (void)shard;
    stats->rounds = counts->rounds;
    stats->messages = counts->messages;
    stats->sent_bytes = counts->bytes_sent;
    stats->received_bytes = counts->bytes_received;
    stats->deltas_sent = counts->deltas_sent;
    stats->values_received = counts->values_received;
}

void replication_explain(const struct core *core, const struct core_table *table, uint64_t key,
                         struct text *text)
{
    text_add(text,
             "is at every node, by policy %s. The main copy is at its home, node %" PRIu32 ".\n",
             table->policy->name, core_home(core, &table->store, key));
}

enum copy replication_copy(const struct core *core, const struct core_table *table, uint64_t key,
                           bool *is_wanted)
{
    *is_wanted = false;
    return core_home(core, &table->store, key) == core->node ? COPY_MAIN : COPY_REPLICA;
}

const struct technique technique_mirrored = {
    .rows = ROWS_EVERYWHERE,
    .sends_keys = true,
    .open = open_table,
    .close = close_table,
    .where = technique_where_home,
    .wrote = wrote,
    .begin_sweep = begin_sweep,
    .be_exact = be_exact,
    .begin = begin,
    .has_question = has_question,
    .ask = ask,
    .absorb = absorb,
    .answer = answer,
    .end = end_round,
    .stats = stats,
    .explain = replication_explain,
    .copy = replication_copy,
};
