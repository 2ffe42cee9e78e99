/* admission - see admission.h. The second half decides about the keys of a store. */
#include "store/admission.h"

#include "store/store.h"

enum { DEPTH = 4, LINE_BITS = ADMISSION_LINE_WORDS * 64 };

/* Two bytes for each expected key. */
static uint64_t lines_for(const struct tern_table_options *options)
{
    const uint64_t n = options->expected_keys ? options->expected_keys : ADMISSION_EXPECTED_KEYS;
    return (2 * n + LINE_BITS / 8 - 1) / (LINE_BITS / 8);
}

uint64_t admission_bytes(const struct tern_table_options *options)
{
    return options->admit ? sizeof(struct admission) +
                                lines_for(options) * sizeof(uint64_t[ADMISSION_LINE_WORDS])
                          : 0;
}

void admission_init(struct admission *admission, const struct tern_table_options *options,
                    uint64_t seed)
{
    admission->seed = hash_u64(seed);
    admission->n_lines = lines_for(options);
    admission->most = options->admit;
    admission->counter_bits = options->admit < 3     ? 2
                              : options->admit < 15  ? 4
                              : options->admit < 255 ? 8
                                                     : 16;
}

/* A key's counters: the line, and the positions in it. */
struct counters {
    uint64_t *line;
    unsigned at[DEPTH];
};

static struct counters find(struct admission *admission, uint64_t key, size_t *n)
{
    const uint64_t hash = hash_u64(key ^ admission->seed);
    *n = (size_t)((unsigned __int128)hash * admission->n_lines >> 64);
    struct counters found = {.line = admission->lines[*n]};
    const uint64_t positions = hash_u64(hash + admission->seed);
    for (unsigned i = 0; i < DEPTH; i++)
        found.at[i] = (unsigned)(positions >> 16 * i) % (LINE_BITS / admission->counter_bits);
    return found;
}

static uint32_t get(const struct admission *admission, const uint64_t *line, unsigned at)
{
    const unsigned bit = at * admission->counter_bits;
    return (uint32_t)(line[bit / 64] >> bit % 64) & ((UINT32_C(1) << admission->counter_bits) - 1);
}

static void put(const struct admission *admission, uint64_t *line, unsigned at, uint64_t count)
{
    const unsigned bit = at * admission->counter_bits;
    const uint64_t mask = (UINT64_C(1) << admission->counter_bits) - 1;
    uint64_t *word = &line[bit / 64];
    *word = (*word & ~(mask << bit % 64)) | count << bit % 64;
}

bool admission_count(struct admission *admission, uint64_t key, uint32_t n, struct watch *watch)
{
    size_t number;
    const struct counters counters = find(admission, key, &number);
    struct latch *latch = &admission->latches[number % ADMISSION_LATCHES].latch;
    if (!latch_take(latch, RANK_SLOTS, watch))
        return true;
    uint64_t count = UINT64_MAX;
    for (unsigned i = 0; i < DEPTH; i++) {
        const uint64_t found = get(admission, counters.line, counters.at[i]);
        count = found < count ? found : count;
    }
    count += n;
    if (count > admission->most)
        count = (uint64_t)admission->most + 1;
    for (unsigned i = 0; i < DEPTH; i++)
        if (get(admission, counters.line, counters.at[i]) < count)
            put(admission, counters.line, counters.at[i], count);
    latch_release(latch, RANK_SLOTS);
    atomic_fetch_add_explicit(&admission->n_counted, n, memory_order_relaxed);
    return count > admission->most;
}

/* ---- The keys of a store ------------------------------------------------------------------------ */

enum tern_status store_leave(struct store *store, uint64_t key)
{
    (void)store;
    (void)key;
    return TERN_OK;
}

enum tern_status store_reserve_all(struct store *store, const uint64_t *keys, size_t n,
                                   struct entry **entries)
{
    enum tern_status status = TERN_OK;
    for (size_t i = 0; store->admission && !status && i < n; i++)
        if (store_is_home(store, keys[i]))
            status = store_create(store, keys[i]);
    return status ? status : store_reserve(store, keys, n, entries);
}

enum tern_status store_push_new(struct store *store, uint64_t key, const void *update, bool *here)
{
    bool has_counted = !store->admission;
    *here = true;
    while (!store_push_one(store, key, update)) {
        struct entry *entry;
        enum entry_state state = entry_state(store_look(store, key, &entry));
        enum tern_status status = store_check_lost(store);
        if (status)
            return status;
        *here = state != ENTRY_ELSEWHERE;
        if (!*here)
            return TERN_OK;
        if (!has_counted && !admission_count(store->admission, key, 1, store->watch)) {
            atomic_fetch_add_explicit(&store->admission->n_dropped, 1, memory_order_relaxed);
            return TERN_OK;
        }
        has_counted = true;
        status = store_create(store, key);
        if (status)
            return status;
    }
    return TERN_OK;
}

enum tern_status store_set_new(struct store *store, uint64_t key, const void *value)
{
    enum tern_status status = TERN_OK;
    while (!status && !store_set_one(store, key, value)) {
        status = store_check_lost(store);
        if (!status)
            status = store_create(store, key);
    }
    return status;
}

enum tern_status store_count(struct store *store, uint64_t key, uint32_t n)
{
    struct entry *entry;
    if (entry_state(store_look(store, key, &entry)) != ENTRY_NONE || !n ||
        !admission_count(store->admission, key, n, store->watch))
        return store_check_lost(store);
    return store_create(store, key);
}
