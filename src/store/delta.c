/*
 * delta - what replicas exchange with the owner of a row: see store.h.
 *
 * The arithmetic is elementwise in the table's type; integer sums are exact, so that nothing is lost
 * or counted twice however often a row is exchanged.
 */
#include <string.h>

#include "store/evict.h"

/* x -= y. */
#define SUBTRACT(name, type)                               \
    static void name(void *to, const void *from, size_t n) \
    {                                                      \
        type *x = to;                                      \
        const type *y = from;                              \
        for (size_t i = 0; i < n; i++)                     \
            x[i] = (type)(x[i] - y[i]);                    \
    }

SUBTRACT(subtract_f32, float)
SUBTRACT(subtract_f64, double)
SUBTRACT(subtract_i32, uint32_t)
SUBTRACT(subtract_i64, uint64_t)

static void (*const subtract[])(void *, const void *, size_t) = {
    [TERN_F32] = subtract_f32,
    [TERN_F64] = subtract_f64,
    [TERN_I32] = subtract_i32,
    [TERN_I64] = subtract_i64,
};

/*
 * Where all nodes agree on the bases.
 *
 * changed: what was changed in a row since they last did; nothing where value and base are equal, even infinite.
 * settle: raises the base by the sum of all, and the row by what of that is not its own. Each element is read once, and
 * written only if it changes: a program may write in place what nobody else does.
 */
#define AGREE(type_name, type)                                                                \
    static inline type minus_##type_name(type x, type y)                                      \
    {                                                                                         \
        return x == y ? 0 : (type)(x - y);                                                    \
    }                                                                                         \
    static void changed_##type_name(void *delta, const void *row, const void *base, size_t n) \
    {                                                                                         \
        type *d = delta;                                                                      \
        const type *v = row, *b = base;                                                       \
        for (size_t i = 0; i < n; i++)                                                        \
            d[i] = minus_##type_name(v[i], b[i]);                                             \
    }                                                                                         \
    static void settle_##type_name(void *row, void *base, const void *sum, const void *own,   \
                                   size_t n)                                                  \
    {                                                                                         \
        type *v = row, *b = base;                                                             \
        const type *s = sum, *o = own;                                                        \
        for (size_t i = 0; i < n; i++) {                                                      \
            const type old = v[i];                                                            \
            type since = minus_##type_name(old, b[i]);                                        \
            if (o)                                                                            \
                since = minus_##type_name(since, o[i]);                                       \
            b[i] = (type)(b[i] + s[i]);                                                       \
            const type new = since == 0 ? b[i] : (type)(b[i] + since);                        \
            if (memcmp(&new, &old, sizeof new) != 0)                                          \
                v[i] = new;                                                                   \
        }                                                                                     \
    }

AGREE(f32, float)
AGREE(f64, double)
AGREE(i32, uint32_t)
AGREE(i64, uint64_t)

static void (*const changed[])(void *, const void *, const void *, size_t) = {
    [TERN_F32] = changed_f32,
    [TERN_F64] = changed_f64,
    [TERN_I32] = changed_i32,
    [TERN_I64] = changed_i64,
};

static void (*const settle[])(void *, void *, const void *, const void *, size_t) = {
    [TERN_F32] = settle_f32,
    [TERN_F64] = settle_f64,
    [TERN_I32] = settle_i32,
    [TERN_I64] = settle_i64,
};

/* Whether any of n bytes, a multiple of 4, is not zero. */
static bool any_set(const void *bytes, size_t n)
{
    const uint32_t *words = bytes;
    uint32_t all = 0;
    for (size_t i = 0; i < n / sizeof *words; i++)
        all |= words[i];
    return all;
}

bool store_has_delta(const struct store *store, uint32_t slot)
{
    const char *row = slabs_at(&store->rows, slot), *base = slabs_at(&store->bases, slot);
    return store->updater.apply ? any_set(base, store->value_bytes)
                                : memcmp(row, base, store->value_bytes) != 0;
}

/* Takes the delta of a latched row; false if it is zero. */
static bool take(struct store *store, uint32_t slot, void *delta)
{
    char *row = slabs_at(&store->rows, slot), *base = slabs_at(&store->bases, slot);
    if (!store->updater.apply)
        return store->kernel->take[store->type](delta, base, row, store->length);
    memcpy(delta, base, store->value_bytes);
    bool any = any_set(base, store->value_bytes);
    memset(base, 0, store->value_bytes);
    return any;
}

bool store_take_delta(struct store *store, uint64_t key, void *delta)
{
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    if (!entry)
        return false;
    bool any = take(store, entry_slot(word), delta);
    entry_release_same(entry, word);
    return any;
}

enum marked store_marked(struct store *store, uint32_t slot, uint64_t *key, uint32_t *location)
{
    const struct slot_facts *facts = store_facts(store, slot);
    *key = store_key_of(store, slot);
    uint64_t word;
    struct entry *entry = store_latch_row(store, *key, NULL, &word);
    if (!entry)
        return MARKED_NOTHING;
    enum marked marked = MARKED_NOTHING;
    /* The slot may have another row by now. */
    if (entry_slot(word) == slot && entry_state(word) == ENTRY_SHARED) {
        marked = MARKED_MAIN;
    } else if (entry_slot(word) == slot && entry_state(word) == ENTRY_REPLICA) {
        *location = atomic_load_explicit(&facts->location, memory_order_relaxed);
        marked = MARKED_REPLICA;
    }
    entry_release_same(entry, word);
    return marked;
}

/* What must be sent of a latched row; false if that is nothing. */
static bool look(const struct store *store, uint32_t slot, void *delta)
{
    const char *row = slabs_at(&store->rows, slot), *base = slabs_at(&store->bases, slot);
    if (store->updater.apply)
        memcpy(delta, base, store->value_bytes);
    else
        changed[store->type](delta, row, base, store->length);
    return any_set(delta, store->value_bytes);
}

bool store_look_delta(const struct store *store, uint64_t key, void *delta)
{
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    if (!entry)
        return false;
    const bool any = look(store, entry_slot(word), delta);
    entry_release_same(entry, word);
    return any;
}

bool store_show_change(const struct store *store, uint64_t key, void *value, void *sent)
{
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    if (!entry)
        return false;
    const char *row = slabs_at(&store->rows, entry_slot(word));
    const char *base = slabs_at(&store->bases, entry_slot(word));
    memcpy(value, store->updater.apply ? base : row, store->value_bytes);
    if (store->updater.apply)
        memset(sent, 0, store->value_bytes);
    else
        memcpy(sent, base, store->value_bytes);
    entry_release_same(entry, word);
    return true;
}

bool store_take_part(struct store *store, uint64_t key, const void *part, bool *is_left)
{
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    *is_left = false;
    if (!entry)
        return false;
    const uint32_t slot = entry_slot(word);
    char *base = slabs_at(&store->bases, slot);
    const bool any = any_set(part, store->value_bytes);
    if (any && store->updater.apply)
        subtract[store->type](base, part, store->length);
    else if (any)
        store->kernel->add[store->type](base, part, store->length);
    *is_left = store_has_delta(store, slot);
    entry_release_same(entry, word);
    return any;
}

/* Takes, or looks at, the delta of a replica whose main copy is at `node`. */
static bool of_changed(struct store *store, uint64_t key, uint32_t node, bool takes, void *delta,
                       uint32_t *location)
{
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    if (!entry)
        return false;
    bool any = false;
    uint32_t slot = entry_slot(word);
    if (entry_state(word) == ENTRY_REPLICA) {
        uint32_t at =
            atomic_load_explicit(&store_facts(store, slot)->location, memory_order_relaxed);
        if (location_node(at) == node)
            any = takes ? take(store, slot, delta) : look(store, slot, delta);
        else
            *location = at;
    }
    entry_release_same(entry, word);
    return any;
}

bool store_take_changed(struct store *store, uint64_t key, uint32_t node, void *delta,
                        uint32_t *location)
{
    return of_changed(store, key, node, true, delta, location);
}

bool store_look_changed(struct store *store, uint64_t key, uint32_t node, void *delta,
                        uint32_t *location)
{
    return of_changed(store, key, node, false, delta, location);
}

bool store_return_delta(struct store *store, uint64_t key, const void *delta)
{
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    if (!entry)
        return false;
    if (entry_state(word) != ENTRY_REPLICA) {
        entry_release_same(entry, word);
        return false;
    }
    uint32_t slot = entry_slot(word);
    char *base = slabs_at(&store->bases, slot);
    /* Without an updater base -= delta, so that value - base has it again. */
    if (store->updater.apply)
        store->kernel->add[store->type](base, delta, store->length);
    else
        subtract[store->type](base, delta, store->length);
    store_mark(store, slot);
    entry_release_same(entry, word);
    return true;
}

enum tern_status store_merge_delta(struct store *store, uint64_t key, const void *delta,
                                   uint32_t *slot)
{
    uint64_t word;
    struct entry *entry = NULL;
    while (!entry) {
        enum tern_status status = store_create(store, key);
        if (!status && !(entry = store_latch_row(store, key, NULL, &word)))
            status = store_check_lost(store);
        if (status)
            return status;
    }
    *slot = entry_slot(word);
    if (store->evicts)
        evict_stamp(store, *slot, evict_now(store, 1));
    void *row = slabs_at(&store->rows, *slot);
    if (store->updater.apply)
        store->updater.apply(&store->updater, store->type, store->length, row,
                             store_state(store, *slot), delta);
    else
        store->kernel->add[store->type](row, delta, store->length);
    entry_release_same(entry, word);
    return TERN_OK;
}

void store_begin_base(struct store *store, uint32_t slot)
{
    char *base = slabs_at(&store->bases, slot);
    if (store->updater.apply)
        memset(base, 0, store->value_bytes);
    else
        memcpy(base, slabs_at(&store->rows, slot), store->value_bytes);
}

void store_rebase(struct store *store, uint32_t slot, const void *value)
{
    char *row = slabs_at(&store->rows, slot), *base = slabs_at(&store->bases, slot);
    if (store->updater.apply)
        memcpy(row, value, store->value_bytes);
    else
        store->kernel->rebase[store->type](row, base, value, store->length);
}

enum tern_status store_refresh(struct store *store, uint64_t key, const void *value)
{
    enum tern_status status = store_create(store, key);
    if (status)
        return status;
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    if (!entry)
        return store_check_lost(store);
    store_rebase(store, entry_slot(word), value);
    entry_release_same(entry, word);
    return TERN_OK;
}

bool store_peek_delta(const struct store *store, uint64_t key, void *delta)
{
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    if (!entry)
        return false;
    uint32_t slot = entry_slot(word);
    const char *row = slabs_at(&store->rows, slot), *base = slabs_at(&store->bases, slot);
    bool any = memcmp(row, base, store->value_bytes) != 0;
    changed[store->type](delta, row, base, store->length);
    entry_release_same(entry, word);
    return any;
}

enum tern_status store_settle(struct store *store, uint64_t key, const void *sum, const void *own)
{
    enum tern_status status = store_create(store, key);
    if (status)
        return status;
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    if (!entry)
        return store_check_lost(store);
    uint32_t slot = entry_slot(word);
    settle[store->type](slabs_at(&store->rows, slot), slabs_at(&store->bases, slot), sum, own,
                        store->length);
    entry_release_same(entry, word);
    return TERN_OK;
}
