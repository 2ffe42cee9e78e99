/* top - see top.h. */
#include "store/top.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static uint32_t cells_for(uint32_t n_counters)
{
    uint32_t n = 4;
    while (n < 2 * n_counters)
        n *= 2;
    return n;
}

uint64_t top_bytes(uint32_t n_counters)
{
    return n_counters ? sizeof(struct top) + n_counters * sizeof(struct top_counter) +
                            cells_for(n_counters) * sizeof(uint32_t)
                      : 0;
}

void top_init(struct top *top, uint32_t n_counters, uint64_t seed)
{
    top->capacity = n_counters;
    top->mask = cells_for(n_counters) - 1;
    top->seed = seed;
}

static uint32_t *cells_of(struct top *top)
{
    return (uint32_t *)&top->counters[top->capacity];
}

static uint32_t first_cell(const struct top *top, uint64_t key)
{
    return (uint32_t)(hash_u64(key ^ top->seed) >> 32) & top->mask;
}

/* The cell that leads to a key, or the free one where it would be put. */
static uint32_t find_cell(struct top *top, uint64_t key)
{
    const uint32_t *cells = cells_of(top);
    uint32_t cell = first_cell(top, key);
    while (cells[cell] && top->counters[cells[cell] - 1].key != key)
        cell = (cell + 1) & top->mask;
    return cell;
}

/* Frees a cell. Those behind it move up, so that every key is found from its first cell on without a gap. */
static void free_cell(struct top *top, uint32_t cell)
{
    uint32_t *cells = cells_of(top);
    for (uint32_t next = (cell + 1) & top->mask; cells[next]; next = (next + 1) & top->mask) {
        struct top_counter *counter = &top->counters[cells[next] - 1];
        const uint32_t first = first_cell(top, counter->key);
        if (((next - first) & top->mask) < ((next - cell) & top->mask))
            continue;
        cells[cell] = cells[next];
        counter->cell = cell;
        cell = next;
    }
    cells[cell] = 0;
}

static void put(struct top *top, uint32_t position, struct top_counter counter)
{
    top->counters[position] = counter;
    cells_of(top)[counter.cell] = position + 1;
}

/* Moves a counter whose count has grown to its position in the heap. */
static void sift_down(struct top *top, uint32_t position)
{
    const struct top_counter moved = top->counters[position];
    for (;;) {
        uint32_t child = 2 * position + 1;
        if (child + 1 < top->n && top->counters[child + 1].count < top->counters[child].count)
            child++;
        if (child >= top->n || top->counters[child].count >= moved.count)
            break;
        put(top, position, top->counters[child]);
        position = child;
    }
    put(top, position, moved);
}

static void sift_up(struct top *top, uint32_t position)
{
    const struct top_counter moved = top->counters[position];
    while (position && top->counters[(position - 1) / 2].count > moved.count) {
        put(top, position, top->counters[(position - 1) / 2]);
        position = (position - 1) / 2;
    }
    put(top, position, moved);
}

static uint64_t add_up(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void top_add(struct top *top, uint64_t key, uint64_t n, uint64_t estimate)
{
    const bool is_full = top->n == top->capacity;
    if (!n || (is_full && estimate <= top->counters[0].count))
        return;
    uint32_t cell = find_cell(top, key);
    if (cells_of(top)[cell]) {
        const uint32_t position = cells_of(top)[cell] - 1;
        struct top_counter *counter = &top->counters[position];
        const uint64_t most = estimate > counter->count ? estimate : counter->count;
        const uint64_t sum = add_up(counter->count, n);
        counter->count = sum < most ? sum : most;
        counter->least = add_up(counter->least, n);
        if (counter->least > counter->count)
            counter->least = counter->count; /* the sketch is saturated */
        sift_down(top, position);
    } else if (!is_full) {
        put(top, top->n, (struct top_counter){key, n, n, cell});
        sift_up(top, top->n++);
    } else {
        const uint64_t sum = add_up(top->counters[0].count, n);
        const uint64_t count = sum < estimate ? sum : estimate;
        free_cell(top, top->counters[0].cell);
        cell = find_cell(top, key);
        put(top, 0, (struct top_counter){key, count, n < count ? n : count, cell});
        sift_down(top, 0);
    }
}

void top_put(struct top *top, struct top_counter counter)
{
    const bool is_full = top->n == top->capacity;
    uint32_t cell = find_cell(top, counter.key);
    if (cells_of(top)[cell] || (is_full && counter.count <= top->counters[0].count))
        return;
    if (is_full) {
        free_cell(top, top->counters[0].cell);
        cell = find_cell(top, counter.key);
    }
    counter.cell = cell;
    put(top, is_full ? 0 : top->n, counter);
    if (is_full)
        sift_down(top, 0);
    else
        sift_up(top, top->n++);
}

void top_clear(struct top *top)
{
    top->n = 0;
    memset(cells_of(top), 0, (size_t)(top->mask + 1) * sizeof(uint32_t));
}

int top_compare(const void *a, const void *b)
{
    const struct top_counter *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return (x->key > y->key) - (x->key < y->key);
}

size_t top_heaviest(const struct top *top, size_t k, struct top_counter *to)
{
    if (top->n)
        memcpy(to, top->counters, top->n * sizeof *to);
    qsort(to, top->n, sizeof *to, top_compare);
    return k < top->n ? k : top->n;
}
