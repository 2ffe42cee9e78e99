/* rows - see rows.h. */
#include "store/rows.h"

#include <stdlib.h>
#include <string.h>

#include "store/undo.h"

/* ---- Which rows --------------------------------------------------------------------------------- */

/* Whether the main copy of a key is here whose entry has `word`, or 0 if it has none. */
static bool is_main(const struct store *store, uint64_t key, uint64_t word)
{
    if (store->home.rows_everywhere)
        return store_tracks_main(store, key);
    if (entry_state(word) == ENTRY_NONE)
        return store_is_home(store, key);
    return entry_is_main(word);
}

bool rows_is_main(const struct store *store, uint64_t key)
{
    struct entry *entry;
    return is_main(store, key, store_look(store, key, &entry));
}

struct listing {
    const struct store *store;
    struct rows_share share;
    struct rows_keys *to;
    size_t capacity;
    bool failed;
};

static void add_key(struct listing *listing, uint64_t key)
{
    struct rows_keys *to = listing->to;
    if (to->n == listing->capacity) {
        size_t capacity = to->n ? 2 * to->n : 64;
        uint64_t *keys = realloc(to->keys, capacity * sizeof *keys);
        listing->failed |= !keys;
        if (!keys)
            return;
        to->keys = keys;
        listing->capacity = capacity;
    }
    to->keys[to->n++] = key;
}

/* Of a sparse table; only entries with a row. */
static void visit(void *context, uint64_t key, uint64_t word)
{
    struct listing *listing = context;
    if (entry_has_row(word) && is_main(listing->store, key, word) &&
        hash_u64(key) % listing->share.n == listing->share.i)
        add_key(listing, key);
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The range of a dense table whose rows do not move. */
static void list_range(const struct store *store, struct rows_share share, struct rows_keys *keys)
{
    uint64_t begin = store->home.rows_everywhere ? store->home.main_begin : store->home.begin;
    uint64_t end = store->home.rows_everywhere ? store->home.main_end : store->home.end;
    uint64_t n = end - begin, each = n / share.n, rest = n % share.n;
    keys->first = begin + share.i * each + (share.i < rest ? share.i : rest);
    keys->n = (size_t)(each + (share.i < rest));
}

/* Keys that follow each other need no list. */
static void drop_list(struct rows_keys *keys)
{
    if (keys->n && keys->keys[keys->n - 1] - keys->keys[0] != keys->n - 1)
        return;
    keys->first = keys->n ? keys->keys[0] : 0;
    free(keys->keys);
    keys->keys = NULL;
}

enum tern_status rows_list(struct store *store, struct rows_share share, struct rows_keys *keys)
{
    struct listing listing = {.store = store, .share = share, .to = keys};
    *keys = (struct rows_keys){0};
    if (store->index == TERN_DENSE && !store->home.rows_move && !store->home.placed &&
        !store->home.backed) {
        list_range(store, share, keys);
        return TERN_OK;
    }
    if (store->index == TERN_DENSE) {
        for (uint64_t key = 0; key < store->n_keys; key++)
            if (rows_is_main(store, key))
                add_key(&listing, key);
    } else {
        store_visit(store, visit, &listing);
        if (keys->n)
            qsort(keys->keys, keys->n, sizeof *keys->keys, compare_keys);
    }
    enum tern_status status = store_check_lost(store);
    if (!status && listing.failed)
        status = fail(TERN_NO_MEMORY, "no memory for the keys of table '%s'", store->name);
    if (status)
        free(keys->keys);
    else
        drop_list(keys);
    return status;
}

size_t rows_state_bytes(const struct store *store)
{
    const struct tern_updater *updater = &store->updater;
    return ((size_t)store->length * updater->state_per_element + updater->state_per_row) *
           type_bytes(store->type);
}

/* ---- Out ---------------------------------------------------------------------------------------- */

void rows_initial(const struct store *store, uint64_t key, char *value, char *state)
{
    init_value(&store->init, store->type, key, store->length, value);
    if (!state)
        return;
    memset(state, 0, rows_state_bytes(store));
    if (store->updater.reset)
        store->updater.reset(&store->updater, store->type, store->length, value, state);
}

/* Value and state at the same moment, under the latch. */
static void copy_with_state(const struct store *store, uint64_t key, char *value, char *state)
{
    uint64_t word;
    const bool entered = store_enter_gate(store, key);
    struct entry *entry = entered ? store_latch_row(store, key, NULL, &word) : NULL;
    if (!entry) {
        rows_initial(store, key, value, state);
        if (entered)
            store_leave_gate(store, key);
        return;
    }
    memcpy(value, slabs_at(&store->rows, entry_slot(word)), store->value_bytes);
    memcpy(state, store_state(store, entry_slot(word)), rows_state_bytes(store));
    entry_release_same(entry, word);
    store_leave_gate(store, key);
}

enum tern_status rows_copy(struct store *store, const uint64_t *keys, size_t n, char *values,
                           char *states)
{
    enum { BLOCK = 1024 };
    uint32_t missed[BLOCK];
    if (store->states.stride) {
        for (size_t i = 0; i < n; i++)
            copy_with_state(store, keys[i], values + i * store->value_bytes,
                            states + i * rows_state_bytes(store));
        return store_check_lost(store);
    }
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t n_block = n - at < BLOCK ? n - at : BLOCK;
        char *block = values + at * store->value_bytes;
        size_t n_missed = store_pull(store, keys + at, n_block, block, missed);
        for (size_t i = 0; i < n_missed; i++)
            rows_initial(store, keys[at + missed[i]], block + missed[i] * store->value_bytes, NULL);
    }
    return store_check_lost(store);
}

/* ---- Back --------------------------------------------------------------------------------------- */

static enum tern_status put_row(struct store *store, uint64_t key, const void *value,
                                const void *state, bool everywhere)
{
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    if (!entry) {
        /* An inline value, or the wait was given up. */
        if (store->inlined && store_set_one(store, key, value))
            return TERN_OK;
        const enum tern_status status = store_check_lost(store);
        return status ? status
                      : fail(TERN_BUSY, "rows of table '%s' move while they are restored",
                             store->name);
    }
    uint32_t slot = entry_slot(word);
    if (store->gates)
        undo_keep(store, key, slot);
    memcpy(slabs_at(&store->rows, slot), value, store->value_bytes);
    if (store->states.stride)
        memcpy(store_state(store, slot), state, rows_state_bytes(store));
    if (everywhere)
        store_begin_base(store, slot);
    if (word & ENTRY_TRACKED && (!everywhere || store->home.backed))
        store_mark(store, slot);
    entry_release_same(entry, word);
    return TERN_OK;
}

enum tern_status rows_put(struct store *store, uint64_t key, const void *value, const void *state,
                          bool everywhere)
{
    enum tern_status status = store_create(store, key);
    if (status)
        return status;
    if (!store_enter_gate(store, key))
        return store_check_lost(store);
    status = put_row(store, key, value, state, everywhere);
    store_leave_gate(store, key);
    return status;
}
