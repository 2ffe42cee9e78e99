/* replica - see replica.h. */
#include "core/replica.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/defect.h"
#include "core/reply.h"
#include "core/sweep.h"
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
};

struct replication {
    struct core *core;
    struct store *store;
    uint32_t n_nodes;
    size_t body_bytes;       /* BODY_BYTES */
    struct changed *changed; /* one per node */
    struct sweep *sweeps;    /* one per node: through the values it has for this one */
    struct missing *missing; /* one per node */
    uint64_t *keys;          /* room for those of a request or answer */
    struct buffer values;    /* aligned */
    uint64_t *server_keys;   /* the same for the owner's side, which another thread runs */
    uint32_t *slots;
    struct replication_counts counts;
};

struct replication *replication_new(struct core *core, struct store *store)
{
    struct replication *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->core = core;
    made->store = store;
    made->n_nodes = core->n_nodes;
    made->body_bytes = BODY_BYTES;
    made->changed = calloc(core->n_nodes, sizeof *made->changed);
    made->sweeps = calloc(core->n_nodes, sizeof *made->sweeps);
    made->missing = calloc(core->n_nodes, sizeof *made->missing);
    made->keys = malloc(FRAME_MAX_KEYS * sizeof *made->keys);
    made->server_keys = malloc(FRAME_MAX_KEYS * sizeof *made->server_keys);
    made->slots = malloc(FRAME_MAX_KEYS * sizeof *made->slots);
    bool complete = made->changed && made->sweeps && made->missing && made->keys &&
                    made->server_keys && made->slots;
    for (uint32_t i = 0; complete && i < core->n_nodes; i++)
        complete = marks_init(&made->missing[i].slots, 64 * store->changed[0].n_words);
    if (complete)
        return made;
    replication_free(made);
    return NULL;
}

void replication_free(struct replication *replication)
{
    if (!replication)
        return;
    for (uint32_t i = 0; i < replication->n_nodes; i++) {
        if (replication->changed)
            free(replication->changed[i].keys);
        if (replication->missing)
            marks_fini(&replication->missing[i].slots);
    }
    free(replication->changed);
    free(replication->sweeps);
    free(replication->missing);
    free(replication->keys);
    free(replication->server_keys);
    free(replication->slots);
    buffer_free(&replication->values);
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
    for (uint32_t i = 0; i < replication->core->n_nodes; i++)
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
    for (uint32_t i = 0; !is_left_over && i < replication->n_nodes; i++)
        is_left_over = replication->changed[i].n > 0;
    return is_left_over;
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

enum tern_status replication_request(struct replication *replication, uint32_t owner,
                                     struct buffer *body, struct frame *frame, bool *more)
{
    struct store *store = replication->store;
    struct changed *changed = &replication->changed[owner];
    size_t most = keys_per_body(replication), n = changed->n < most ? changed->n : most;
    uint64_t *keys = n ? changed->keys + (changed->n - n) : NULL;
    if (n > 1)
        qsort(keys, n, sizeof *keys, compare_keys);
    body->begin = body->end = 0;
    replication->values.begin = replication->values.end = 0;
    char *deltas = (char *)buffer_reserve(&replication->values, n * store->value_bytes + 1);
    uint8_t *out = buffer_reserve(body, keys_max_bytes(n) + n * store->value_bytes + 1);
    if (!deltas || !out)
        return fail(TERN_NO_MEMORY, "no memory for a round of table '%s'", store->name);
    size_t n_sent = 0;
    for (size_t i = 0; i < n; i++)
        if (store_take_delta(store, keys[i], deltas + n_sent * store->value_bytes))
            replication->keys[n_sent++] = keys[i];
    changed->n -= n;
    *more = changed->n > 0;
    *frame = (struct frame){.kind = FRAME_SYNC, .count = (uint32_t)n_sent};
    frame->keys_bytes = (uint32_t)keys_encode(replication->keys, n_sent, out, &frame->flags);
    if (n_sent)
        memcpy(out + frame->keys_bytes, deltas, n_sent * store->value_bytes);
    frame->body_bytes = frame->keys_bytes + (uint32_t)(n_sent * store->value_bytes);
    body->end = frame->body_bytes;
    count(&replication->counts.messages, 1);
    count(&replication->counts.bytes_sent, FRAME_HEADER_BYTES + frame->body_bytes);
    count(&replication->counts.deltas_sent, n_sent);
    return TERN_OK;
}

enum tern_status replication_answer(struct replication *replication, uint32_t owner,
                                    const struct frame *answer, const uint8_t *body)
{
    struct store *store = replication->store;
    size_t bytes = answer->count * store->value_bytes;
    if (answer->kind != FRAME_VALUES || frame_payload_bytes(answer) != bytes ||
        !keys_decode(body, answer->keys_bytes, answer->flags, answer->count, replication->keys))
        return fail(TERN_PEER, "an answer to SYNC for table '%s' makes no sense", store->name);
    replication->values.begin = replication->values.end = 0;
    if (!buffer_append(&replication->values, body + answer->keys_bytes, bytes))
        return fail(TERN_NO_MEMORY, "no memory for news of table '%s'", store->name);
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
    sweep_hear(&replication->sweeps[owner], answer->b, answer->a);
    count(&replication->counts.bytes_received, FRAME_HEADER_BYTES + answer->body_bytes);
    count(&replication->counts.values_received, answer->count);
    return TERN_OK;
}

void replication_begin_sweep(struct replication *replication)
{
    for (uint32_t i = 0; i < replication->n_nodes; i++)
        sweep_begin(&replication->sweeps[i]);
}

bool replication_is_swept(const struct replication *replication)
{
    bool is_swept = true;
    for (uint32_t i = 0; is_swept && i < replication->n_nodes; i++)
        is_swept = sweep_is_over(&replication->sweeps[i]);
    return is_swept;
}

bool replication_round_ended(struct replication *replication)
{
    for (uint32_t i = 0; i < replication->n_nodes; i++)
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

bool replication_news(struct replication *replication, uint32_t to, const struct frame *request,
                      struct buffer *out)
{
    struct store *store = replication->store;
    size_t most = keys_per_body(replication);
    uint8_t *body = reply_reserve(out, keys_max_bytes(most) + most * store->value_bytes);
    if (!body)
        return false;
    struct missing *missing = &replication->missing[to];
    bool is_left;
    size_t n = marks_take_turn(&missing->slots, &missing->turn, store_mark_words(store), most,
                               replication->slots, &is_left);
    for (size_t i = 0; i < n; i++)
        replication->server_keys[i] = store_key_of(store, replication->slots[i]);
    struct frame reply = reply_frame(request, replication->core->epoch, FRAME_VALUES);
    reply.table = request->table;
    reply.count = (uint32_t)n;
    /* How many more times the end must be reached until all that are missing now have been taken. */
    reply.a = is_left ? 2 : 0;
    reply.b = missing->turn.n_laps;
    reply.keys_bytes = (uint32_t)keys_encode(replication->server_keys, n, body, &reply.flags);
    reply.body_bytes = reply.keys_bytes + (uint32_t)(n * store->value_bytes);
    char *values = (char *)body + reply.keys_bytes;
    for (size_t i = 0; i < n; i++)
        store_pull_one(store, replication->server_keys[i], values + i * store->value_bytes);
    reply_commit(out, &reply);
    count(&replication->counts.messages, 1);
    count(&replication->counts.bytes_received, FRAME_HEADER_BYTES + request->body_bytes);
    count(&replication->counts.bytes_sent, FRAME_HEADER_BYTES + reply.body_bytes);
    return true;
}
