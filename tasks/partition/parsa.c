/*
 * parsa - see parsa.h.
 *
 * The thesis keeps, for each part, the rows in a doubly linked list ordered by cost, the number of keys that a row
 * would add. Here each part has a list for each cost instead, and moving a row to the list of its new cost leaves
 * the old link behind: a link counts while the row is not assigned and has that cost. Rows never become dearer,
 * so taking the cheapest row of a part looks at every link at most once, and an assignment touches no other part.
 */
#include "partition/parsa.h"

#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"

enum { NONE = UINT32_MAX, ASSIGNED = UINT16_MAX };

/* A row among those that had one cost in one part. */
struct link {
    uint32_t row, next;
};

/* The rows as one part sees them. */
struct queue {
    uint32_t *costs; /* by row */
    uint32_t *heads; /* the first link of each cost; NONE: none */
    uint32_t lowest; /* no row has a lower cost */
};

struct state {
    const struct block *block;
    uint32_t n_parts, n_costs; /* costs are below n_costs; dearer rows count as the dearest */
    size_t n_words;
    uint64_t *sets, *loads;
    uint16_t *parts;
    struct queue *queues;
    uint32_t *numbers; /* room of all queues */
    struct link *links;
    size_t n_links, max_links;
};

/* Costs above this are not told apart: few rows have them, and all are too dear. */
enum { MAX_COSTS = 1000 };

static uint32_t bucket(const struct state *state, uint32_t cost)
{
    return cost < state->n_costs ? cost : state->n_costs - 1;
}

static bool add_link(struct state *state, struct queue *queue, uint32_t row, uint32_t cost)
{
    if (state->n_links == state->max_links) {
        size_t max = 2 * state->max_links + 1024;
        struct link *links = max < NONE ? realloc(state->links, max * sizeof *links) : NULL;
        if (links == NULL)
            return task_fail_memory("the costs of rows");
        state->links = links;
        state->max_links = max;
    }
    uint32_t at = bucket(state, cost);
    state->links[state->n_links] = (struct link){row, queue->heads[at]};
    queue->heads[at] = (uint32_t)state->n_links++;
    if (at < queue->lowest)
        queue->lowest = at;
    return true;
}

static uint32_t largest_degree(const struct block *block)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < block->n_rows; r++)
        most = block_degree(block, r) > most ? block_degree(block, r) : most;
    return most;
}

static bool make_queues(struct state *state)
{
    const size_t n_rows = state->block->n_rows;
    uint32_t most = largest_degree(state->block);
    state->n_costs = (most < MAX_COSTS ? most : MAX_COSTS) + 1;
    const size_t each = n_rows + state->n_costs;
    state->queues = malloc(state->n_parts * sizeof *state->queues);
    state->numbers = malloc(state->n_parts * each * sizeof *state->numbers);
    state->max_links = state->n_parts * n_rows + 1;
    state->links = state->max_links < NONE ? malloc(state->max_links * sizeof *state->links) : NULL;
    if (state->queues == NULL || state->numbers == NULL || state->links == NULL)
        return task_fail_memory("the costs of rows");
    for (uint32_t i = 0; i < state->n_parts; i++) {
        struct queue *queue = &state->queues[i];
        *queue = (struct queue){.costs = state->numbers + i * each, .lowest = state->n_costs};
        queue->heads = queue->costs + n_rows;
        memset(queue->heads, 0xff, state->n_costs * sizeof *queue->heads);
    }
    return true;
}

/* Puts every row into the queue of every part. */
static bool fill_queues(struct state *state)
{
    const struct block *block = state->block;
    uint32_t used[MAX_PARTS];
    for (uint32_t r = block->n_rows; r-- > 0;) {
        memset(used, 0, state->n_parts * sizeof *used);
        for (uint32_t i = block->row_begin[r]; i < block->row_begin[r + 1]; i++)
            set_count(state->sets + block->row_keys[i] * state->n_words, state->n_words, used);
        for (uint32_t p = 0; p < state->n_parts; p++) {
            uint32_t cost = block_degree(block, r) - used[p];
            state->queues[p].costs[r] = cost;
            if (!add_link(state, &state->queues[p], r, cost))
                return false;
        }
    }
    return true;
}

/* Takes the cheapest row that is left. There is one. */
static uint32_t take_cheapest(struct state *state, struct queue *queue)
{
    for (;; queue->lowest++) {
        uint32_t *head = &queue->heads[queue->lowest];
        while (*head != NONE) {
            const struct link link = state->links[*head];
            *head = link.next;
            if (state->parts[link.row] == ASSIGNED &&
                bucket(state, queue->costs[link.row]) == queue->lowest)
                return link.row;
        }
    }
}

/* The part uses a key from now on: it is no cost any more. */
static bool cheapen(struct state *state, struct queue *queue, uint32_t key)
{
    const struct block *block = state->block;
    for (uint32_t i = block->key_begin[key]; i < block->key_begin[key + 1]; i++) {
        uint32_t row = block->key_rows[i];
        if (state->parts[row] != ASSIGNED)
            continue;
        uint32_t cost = --queue->costs[row];
        if (cost + 1 < state->n_costs && !add_link(state, queue, row, cost))
            return false;
    }
    return true;
}

/* Gives a row to the part. */
static bool assign(struct state *state, uint32_t part, enum balance balance)
{
    const struct block *block = state->block;
    struct queue *queue = &state->queues[part];
    uint32_t row = take_cheapest(state, queue);
    state->parts[row] = (uint16_t)part;
    state->loads[part] += row_load(block, row, balance);
    for (uint32_t i = block->row_begin[row]; i < block->row_begin[row + 1]; i++) {
        uint64_t *set = state->sets + block->row_keys[i] * state->n_words;
        if (set_has(set, part))
            continue;
        set_add(set, part);
        if (!cheapen(state, queue, block->row_keys[i]))
            return false;
    }
    return true;
}

static uint32_t least_loaded(const uint64_t *loads, uint32_t n_parts)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < n_parts; i++)
        least = loads[i] < loads[least] ? i : least;
    return least;
}

bool parsa_assign(const struct block *block, uint32_t n_parts, enum balance balance, uint64_t *sets,
                  uint64_t *loads, uint16_t *parts)
{
    struct state state = {.block = block,
                          .n_parts = n_parts,
                          .n_words = set_words(n_parts),
                          .sets = sets,
                          .loads = loads,
                          .parts = parts};
    for (uint32_t r = 0; r < block->n_rows; r++)
        parts[r] = ASSIGNED;
    bool ok = make_queues(&state) && fill_queues(&state);
    for (uint32_t n = 0; ok && n < block->n_rows; n++)
        ok = assign(&state, least_loaded(loads, n_parts), balance);
    free(state.queues);
    free(state.numbers);
    free(state.links);
    return ok;
}
