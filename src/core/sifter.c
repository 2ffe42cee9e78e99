/* sifter - see sifter.h. */
#include "core/sifter.h"

#include <string.h>

#include "base/rand.h"
#include "core/defect.h"

bool sifter_init(struct sifter *sifter, struct core_table *table, const struct core *core,
                 uint32_t shard)
{
    const struct filters *filters = &table->filters;
    if (!filters->fixed_bits && !(filters->significant > 0) && !table->is_significant)
        return true;
    sifter->stream =
        rand_at(rand_at((uint64_t)core->node << 32 | shard, core->incarnation), table->number);
    sifter->table = table;
    return marks_init(&sifter->waiting, 64 * table->store.changed[0].n_words) &&
           buffer_reserve(&sifter->shown, 2 * table->store.value_bytes);
}

void sifter_fini(struct sifter *sifter)
{
    marks_fini(&sifter->waiting);
    buffer_free(&sifter->keys);
    buffer_free(&sifter->rows);
    buffer_free(&sifter->shown);
}

/* The least element of a change that does not wait; 0: none waits. */
static double least_now(const struct sifter *sifter)
{
    const struct filters *filters = &sifter->table->filters;
    return filters->decays ? filters->significant / (double)sifter->n_rounds : filters->significant;
}

static bool is_power_of_two(uint64_t n)
{
    return (n & (n - 1)) == 0;
}

void sifter_begin_round(struct sifter *sifter, bool exchanges, bool is_exact)
{
    if (!sifter->table)
        return;
    sifter->is_exact = is_exact && !defect(DEFECT_EXACT_SIFTED);
    if (!exchanges)
        return;
    sifter->n_rounds++;
    /* A least change that decays is half of what it was. */
    const bool is_lower = sifter->table->filters.decays && is_power_of_two(sifter->n_rounds);
    if (defect(DEFECT_WAITING_FORGOTTEN) || !(is_exact || is_lower))
        return;
    struct store *store = &sifter->table->store;
    const size_t n_words = store_mark_words(store);
    uint64_t bits;
    for (size_t i = 0; (bits = marks_take(&sifter->waiting, &i, n_words)) != 0; i++)
        for (; bits; bits &= bits - 1)
            store_mark(store, (uint32_t)(64 * i + (size_t)__builtin_ctzll(bits)));
}

/* ---- Changes of replicas ------------------------------------------------------------------------ */

bool sifter_clear(struct sifter *sifter, size_t n)
{
    sifter->n = 0;
    sifter->keys.begin = sifter->keys.end = sifter->rows.begin = sifter->rows.end = 0;
    return buffer_reserve(&sifter->keys, n * sizeof(uint64_t) + 1) &&
           buffer_reserve(&sifter->rows, n * sifter->table->store.value_bytes + 1);
}

void *sifter_row(const struct sifter *sifter, size_t i)
{
    return sifter->rows.bytes + i * sifter->table->store.value_bytes;
}

void *sifter_room(const struct sifter *sifter)
{
    return sifter_row(sifter, sifter->n);
}

void sifter_add(struct sifter *sifter, uint64_t key)
{
    ((uint64_t *)(void *)sifter->keys.bytes)[sifter->n++] = key;
}

/* Something of a row waits. */
static void wait_on(struct sifter *sifter, uint64_t key)
{
    struct entry *entry;
    const uint64_t word = store_look(&sifter->table->store, key, &entry);
    if (!entry_in_slabs(word))
        return;
    marks_add(&sifter->waiting, entry_slot(word));
    if (defect(DEFECT_WAITING_DROPPED))
        store_take_delta(&sifter->table->store, key, sifter_room(sifter));
}

static bool is_significant(const struct sifter *sifter, size_t i, double least)
{
    const struct core_table *table = sifter->table;
    const struct filter_shape shape = core_filter_shape(table);
    uint8_t *value = sifter->shown.bytes, *sent = value + table->store.value_bytes;
    if (least > 0 && !filter_is_significant(&shape, sifter_row(sifter, i), least))
        return false;
    return !table->is_significant ||
           !store_show_change(&table->store, sifter_key(sifter, i), value, sent) ||
           table->is_significant(table->significant_context, sifter_key(sifter, i), value, sent);
}

/* Takes the change of a row: what was rounded, or all there is. False if that is nothing. */
static bool take(struct sifter *sifter, size_t i, bool is_rounded)
{
    struct store *store = &sifter->table->store;
    const uint64_t key = sifter_key(sifter, i);
    bool is_left;
    if (!is_rounded)
        return store_take_delta(store, key, sifter_row(sifter, i));
    if (defect(DEFECT_BASE_UNROUNDED))
        return store_take_delta(store, key, sifter_room(sifter));
    const bool any = store_take_part(store, key, sifter_row(sifter, i), &is_left);
    if (is_left)
        wait_on(sifter, key);
    return any;
}

static void move(struct sifter *sifter, size_t to, size_t from)
{
    uint64_t *keys = (uint64_t *)(void *)sifter->keys.bytes;
    keys[to] = keys[from];
    memmove(sifter_row(sifter, to), sifter_row(sifter, from), sifter->table->store.value_bytes);
}

size_t sifter_take(struct sifter *sifter)
{
    const struct filters *filters = &sifter->table->filters;
    const struct filter_shape shape = core_filter_shape(sifter->table);
    const double least = least_now(sifter);
    size_t n = 0, n_taken = 0;
    for (size_t i = 0; i < sifter->n; i++) {
        if (!is_significant(sifter, i, least))
            wait_on(sifter, sifter_key(sifter, i));
        else
            move(sifter, n++, i);
    }
    const uint64_t waited = (sifter->n - n) * (sizeof(uint64_t) + sifter->table->store.value_bytes);
    filter_count(&sifter->table->saved, &(struct filter_saved){.waited = waited});
    const bool is_rounded = filter_round(filters, &shape, sifter->rows.bytes, n,
                                         rand_at(sifter->stream, sifter->n_drawn++));
    for (size_t i = 0; i < n; i++)
        if (take(sifter, i, is_rounded))
            move(sifter, n_taken++, i);
    return sifter->n = n_taken;
}

/* ---- Values for replicas ------------------------------------------------------------------------ */

bool sifter_round(struct sifter *sifter, uint8_t *values, size_t n, size_t stride)
{
    const struct filter_shape shape = core_filter_shape(sifter->table);
    const size_t bytes = sifter->table->store.value_bytes;
    if (!n || !sifter_clear(sifter, n))
        return false;
    for (size_t i = 0; i < n; i++)
        memcpy(sifter_row(sifter, i), values + i * stride, bytes);
    if (!filter_round(&sifter->table->filters, &shape, sifter->rows.bytes, n,
                      rand_at(sifter->stream, sifter->n_drawn++)))
        return false;
    for (size_t i = 0; i < n; i++)
        memcpy(values + i * stride, sifter_row(sifter, i), bytes);
    return true;
}
