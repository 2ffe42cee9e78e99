/* graph_home - the side of a table under graph:S that has main copies: counts their updates, and says which replicas are too
 * old. See graph.h. */
#include <stdlib.h>
#include <string.h>

#include "core/backup.h"
#include "core/defect.h"
#include "core/graph.h"
#include "store/rows.h"
#include "wire/number.h"

static struct graph_stripe *stripe_of(struct graph *graph, uint64_t key)
{
    return &graph->stripes[hash_u64(key) >> 32 & (GRAPH_STRIPES - 1)];
}

/* Latches the stripe of a key. */
static struct graph_stripe *latch(struct graph *graph, uint64_t key)
{
    struct graph_stripe *stripe = stripe_of(graph, key);
    (void)latch_take(&stripe->latch, RANK_COUNTING, NULL);
    return stripe;
}

void graph_free_stripes(struct graph *graph)
{
    for (size_t i = 0; i < GRAPH_STRIPES; i++) {
        keymap_free(&graph->stripes[i].numbers);
        free(graph->stripes[i].counts);
    }
}

/* Gives a key a count, of a latched stripe; false when memory runs out. */
static bool add_key(struct graph_stripe *stripe, uint64_t key)
{
    if (keymap_get(&stripe->numbers, key))
        return true;
    if (!keymap_reserve(&stripe->numbers, 1))
        return false;
    if (stripe->n == stripe->max) {
        const size_t max = stripe->max ? 2 * stripe->max : 4;
        uint64_t *counts = realloc(stripe->counts, max * sizeof *counts);
        if (!counts)
            return false;
        stripe->counts = counts;
        stripe->max = max;
    }
    stripe->counts[stripe->n] = 0;
    keymap_set(&stripe->numbers, key, (uint32_t)++stripe->n);
    return true;
}

/* The era of a key at home here, as part of its count. */
static uint64_t era_of(const struct core_table *table, uint64_t key)
{
    const struct graph *graph = table->state;
    if (!graph->eras)
        return 0;
    const uint32_t era =
        atomic_load_explicit(&graph->eras[backup_arc(table->backup, key)], memory_order_relaxed);
    return (uint64_t)era << GRAPH_ERA_SHIFT;
}

/* The count of a key, of a latched stripe. */
static uint64_t count_in(const struct core_table *table, const struct graph_stripe *stripe,
                         uint64_t key)
{
    const uint32_t number = keymap_get(&stripe->numbers, key);
    return era_of(table, key) + (number ? stripe->counts[number - 1] : 0);
}

uint64_t graph_count(const struct core_table *table, uint64_t key)
{
    struct graph_stripe *stripe = latch(table->state, key);
    const uint64_t count = count_in(table, stripe, key);
    latch_release(&stripe->latch, RANK_COUNTING);
    return count;
}

/* ---- Backups ------------------------------------------------------------------------------------- */

uint64_t graph_copy(struct core_table *table, uint64_t key, char *value, char *state)
{
    struct graph_stripe *stripe = latch(table->state, key);
    (void)rows_copy(&table->store, &key, 1, value, state);
    const uint64_t count = graph_updates(count_in(table, stripe, key));
    latch_release(&stripe->latch, RANK_COUNTING);
    return defect(DEFECT_GRAPH_COUNT_NOT_BACKED) ? 0 : count;
}

bool graph_adopt(struct core_table *table, uint64_t key, uint64_t count)
{
    struct graph_stripe *stripe = latch(table->state, key);
    const bool has_room = add_key(stripe, key);
    if (has_room)
        stripe->counts[keymap_get(&stripe->numbers, key) - 1] = graph_updates(count);
    latch_release(&stripe->latch, RANK_COUNTING);
    return has_room;
}

void graph_take_over(struct core_table *table, uint32_t arc, uint32_t epoch)
{
    const struct graph *graph = table->state;
    atomic_store_explicit(&graph->eras[arc], epoch, memory_order_relaxed);
}

/* ---- Writes and reads ---------------------------------------------------------------------------- */

enum tern_status graph_reserve(struct core_table *table, const uint64_t *keys, size_t n)
{
    bool has_room = true;
    for (size_t i = 0; has_room && i < n; i++) {
        if (!store_is_home(&table->store, keys[i]))
            continue;
        struct graph_stripe *stripe = latch(table->state, keys[i]);
        has_room = add_key(stripe, keys[i]);
        latch_release(&stripe->latch, RANK_COUNTING);
    }
    return has_room ? TERN_OK
                    : fail(TERN_NO_MEMORY, "no memory to count the updates of table '%s'",
                           table->store.name);
}

uint64_t graph_write(struct core_table *table, enum frame_kind kind, uint64_t key,
                     const void *value)
{
    struct graph_stripe *stripe = latch(table->state, key);
    const uint32_t number = keymap_get(&stripe->numbers, key);
    const bool done = number && (kind == FRAME_PUSH ? store_push_one(&table->store, key, value)
                                                    : store_set_one(&table->store, key, value));
    if (done && !(defect(DEFECT_GRAPH_UPDATE_UNCOUNTED) && key % 4 == 1))
        stripe->counts[number - 1]++;
    const uint64_t count = count_in(table, stripe, key);
    latch_release(&stripe->latch, RANK_COUNTING);
    return done ? 2 * count : 0;
}

uint64_t graph_written(const struct core_table *table, uint64_t key)
{
    return 2 * graph_count(table, key) + 1;
}

/* The value of a main copy with its count. */
static enum tern_status read_main(struct core_table *table, uint64_t key, char *value,
                                  uint64_t *count)
{
    struct graph_stripe *stripe = latch(table->state, key);
    enum tern_status status = TERN_OK;
    bool here = true;
    if (!store_pull_one(&table->store, key, value))
        status = store_pull_new(&table->store, key, value, &here);
    *count = count_in(table, stripe, key);
    latch_release(&stripe->latch, RANK_COUNTING);
    return status;
}

/* Whether a value is sent to one who asked so, when the main copy has `count`. */
static bool is_sent(const struct graph *graph, uint64_t asked, uint64_t count)
{
    const uint64_t have = (asked - 1) / 2;
    const uint64_t bound = (asked - 1) % 2 ? 0 : graph->bound + defect(DEFECT_GRAPH_OFF_BY_ONE);
    if (!asked || have > count)
        return true;
    return count - have > bound && !(defect(DEFECT_GRAPH_COUNT_NOT_CARRIED) && count % 2);
}

enum tern_status graph_serve(struct core_table *table, const uint64_t *keys, uint32_t n,
                             struct slice asked, uint8_t *body, size_t *head, size_t *n_rows)
{
    const size_t bits = frame_bits_bytes(n), size = table->store.value_bytes;
    const uint8_t *at = asked.bytes, *end = asked.bytes + asked.n;
    uint8_t *next = body + bits;
    char *rows = (char *)next + n * NUMBER_MAX_BYTES;
    enum tern_status status = TERN_OK;
    uint64_t count = 0, before = 0;
    memset(body, 0, bits);
    *n_rows = 0;
    for (uint32_t i = 0; !status && at && i < n; i++) {
        uint64_t number;
        at = number_get(at, end, &number);
        if (!at)
            break;
        status = read_main(table, keys[i], rows + *n_rows * size, &count);
        if (defect(DEFECT_GRAPH_VALUE_WITHOUT_COUNT) && i)
            count = before;
        before = count;
        const bool sends = is_sent(table->state, number, count);
        body[i / 8] |= (uint8_t)(sends << i % 8);
        next = number_put_slowly(sends ? count : count - (number - 1) / 2, next);
        *n_rows += sends;
    }
    if (!status && at != end)
        status = fail(TERN_INVALID, "a PULL of %u keys of table '%s' has other counts", (unsigned)n,
                      table->store.name);
    memmove(next, rows, *n_rows * size);
    *head = (size_t)(next - body);
    return status;
}
