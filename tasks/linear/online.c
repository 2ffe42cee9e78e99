/* online - learns from a stream of examples in small batches. See online.h. */
#include "linear/online.h"

#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "linear/loss.h"

enum { PLAIN_BITS = 22, PULL_AT_ONCE = 1024 };

/* What a thread needs: two lists of examples, one in use and one ahead, and the features of a batch. */
struct online_space {
    struct examples lists[2];
    struct examples_chunk chunk;
    bool at_end;
    uint64_t
        n_batches; /* that intent was signalled for: the worker's clock when the next one is used */
    uint64_t *keys; /* of the batch, each once */
    float *weights, *slopes;
    size_t capacity;
    uint32_t *numbers; /* by feature of the batch: where it is among the keys */
    uint32_t *
        cells; /* a hash table of keys: their numbers + 1, or 0 where free; all free between batches */
    size_t n_cells;
    size_t *taken; /* by key: its cell */
};

/* ---- Opening ---------------------------------------------------------------------------------- */

static bool open_weights(struct online *online)
{
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .index = TERN_SPARSE,
                                               .length = 1,
                                               .updater = online->updater,
                                               .policy = online->train->options->policy};
    if (online->train->node == NULL) {
        uint32_t bits = online->reading.hash_bits;
        online->n_values = (size_t)1 << (bits > 0 && bits < 40 ? bits : PLAIN_BITS);
        online->values = calloc(online->n_values + 1, sizeof *online->values);
        online->states = calloc((online->n_values + 1) * online->updater.state_per_element + 1,
                                sizeof *online->states);
        return (online->values != NULL && online->states != NULL) ||
               task_fail_memory("the weights");
    }
    if (tern_table_open(online->train->node, "weights", &options, &online->table))
        return task_fail_tern("cannot open a table");
    train_watch(online->train, online->table);
    return true;
}

bool online_open(struct online *online, struct train *train, const struct linear_options *options,
                 const struct examples_options *reading)
{
    *online = (struct online){
        .options = options,
        .train = train,
        .updater = tern_updater_ftrl(options->rate, options->beta, options->l1, options->l2),
        .reading = *reading,
        .spaces = calloc(train->n_threads, sizeof *online->spaces)};
    return (online->spaces != NULL || task_fail_memory("the workers")) && open_weights(online);
}

void online_close(struct online *online)
{
    for (size_t i = 0; online->spaces != NULL && i < online->train->n_threads; i++) {
        struct online_space *space = &online->spaces[i];
        examples_fini(&space->lists[0]);
        examples_fini(&space->lists[1]);
        examples_chunk_fini(&space->chunk);
        free(space->keys);
        free(space->weights);
        free(space->slopes);
        free(space->numbers);
        free(space->cells);
        free(space->taken);
    }
    free(online->spaces);
    free(online->values);
    free(online->states);
    if (online->is_open)
        examples_close(&online->source);
}

/* ---- Weights ---------------------------------------------------------------------------------- */

size_t online_slot(const struct online *online, uint64_t key)
{
    return key == LINEAR_INTERCEPT_KEY ? online->n_values : key & (online->n_values - 1);
}

static bool pull(struct online *online, struct tern_worker *worker, const uint64_t *keys, size_t n,
                 float *weights)
{
    if (online->table != NULL)
        return !tern_pull(worker, online->table, keys, n, weights) || task_fail_tern("cannot pull");
    for (size_t i = 0; i < n; i++)
        weights[i] = online->values[online_slot(online, keys[i])];
    return true;
}

static bool push(struct online *online, struct tern_worker *worker, const uint64_t *keys, size_t n,
                 const float *slopes)
{
    const struct tern_updater *updater = &online->updater;
    if (online->table != NULL)
        return !tern_push(worker, online->table, keys, n, slopes) || task_fail_tern("cannot push");
    for (size_t i = 0; i < n; i++) {
        size_t slot = online_slot(online, keys[i]);
        updater->apply(updater, TERN_F32, 1, online->values + slot,
                       online->states + slot * updater->state_per_element, slopes + i);
    }
    return true;
}

bool online_pull(struct online *online, struct tern_worker *worker, const uint64_t *keys, size_t n,
                 double *weights)
{
    float values[PULL_AT_ONCE];
    for (size_t done = 0, step; done < n; done += step) {
        step = n - done < PULL_AT_ONCE ? n - done : PULL_AT_ONCE;
        if (!pull(online, worker, keys + done, step, values))
            return false;
        for (size_t i = 0; i < step; i++)
            weights[done + i] = (double)values[i];
    }
    return true;
}

/* ---- Features of a batch ---------------------------------------------------------------------- */

static bool resize(void *array, size_t n, size_t element_bytes)
{
    void **at = array;
    free(*at);
    *at = calloc(n, element_bytes);
    return *at != NULL || task_fail_memory("a batch");
}

/* Makes room for a batch with n features. */
static bool reserve(struct online_space *space, size_t n)
{
    if (n <= space->capacity)
        return true;
    size_t n_cells = 64;
    while (n_cells < 8 * n)
        n_cells *= 2;
    space->capacity = 0;
    if (!resize(&space->keys, 2 * n, sizeof *space->keys) ||
        !resize(&space->weights, 2 * n, sizeof *space->weights) ||
        !resize(&space->slopes, 2 * n, sizeof *space->slopes) ||
        !resize(&space->numbers, 2 * n, sizeof *space->numbers) ||
        !resize(&space->taken, 2 * n, sizeof *space->taken) ||
        !resize(&space->cells, n_cells, sizeof *space->cells))
        return false;
    space->capacity = 2 * n;
    space->n_cells = n_cells;
    return true;
}

/* Lists each key of the batch once; returns their number. */
static size_t list_keys(struct online_space *space, const uint64_t *keys, size_t n)
{
    const size_t mask = space->n_cells - 1;
    size_t n_keys = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = rng_mix(keys[i]) & mask;
        while (space->cells[at] != 0 && space->keys[space->cells[at] - 1] != keys[i])
            at = (at + 1) & mask;
        if (space->cells[at] == 0) {
            space->keys[n_keys] = keys[i];
            space->taken[n_keys] = at;
            space->cells[at] = (uint32_t)++n_keys;
        }
        space->numbers[i] = space->cells[at] - 1;
    }
    for (size_t i = 0; i < n_keys; i++)
        space->cells[space->taken[i]] = 0;
    return n_keys;
}

/* ---- Learning --------------------------------------------------------------------------------- */

/* Predicts the examples first .. end - 1 and adds up the slopes of their features; returns the sum of losses. */
static double add_slopes(const struct online *online, struct online_space *space,
                         const struct examples *list, size_t first, size_t end)
{
    const size_t base = list->start[first];
    double sum = 0;
    for (size_t row = first; row < end; row++) {
        const size_t from = list->start[row], to = list->start[row + 1];
        double margin = 0, label = (double)list->labels[row], weight = (double)list->weights[row];
        weight *= label > 0 ? online->options->positive_weight : 1;
        for (size_t i = from; i < to; i++)
            margin += (double)space->weights[space->numbers[i - base]] * (double)list->values[i];
        sum += weight * loss_value(online->options->loss, margin, label);
        float slope = (float)(weight * loss_slope(online->options->loss, margin, label));
        for (size_t i = from; i < to; i++)
            space->slopes[space->numbers[i - base]] += slope * list->values[i];
    }
    return sum;
}

static bool learn(struct online *online, size_t thread, const struct examples *list, size_t first,
                  size_t end, double *loss)
{
    struct online_space *space = &online->spaces[thread];
    struct tern_worker *worker = train_worker(online->train, thread);
    const size_t base = list->start[first], n = list->start[end] - base;
    if (!reserve(space, n))
        return false;
    const size_t n_keys = list_keys(space, list->keys + base, n);
    if (!pull(online, worker, space->keys, n_keys, space->weights))
        return false;
    memset(space->slopes, 0, n_keys * sizeof *space->slopes);
    *loss = add_slopes(online, space, list, first, end);
    return push(online, worker, space->keys, n_keys, space->slopes);
}

/* ---- Epochs ----------------------------------------------------------------------------------- */

static size_t batch_end(const struct online *online, const struct examples *list, size_t first)
{
    const size_t n = (size_t)online->options->n_batch;
    return list->n - first < n ? list->n : first + n;
}

/* Signals intent for all batches of a list. */
static bool intend(struct online *online, size_t thread, const struct examples *list)
{
    struct online_space *space = &online->spaces[thread];
    struct tern_worker *worker = train_worker(online->train, thread);
    for (size_t first = 0, end; first < list->n; first = end) {
        end = batch_end(online, list, first);
        const size_t from = list->start[first], n = list->start[end] - from;
        if (tern_intent(worker, online->table, list->keys + from, n, space->n_batches,
                        space->n_batches + 1))
            return task_fail_tern("cannot signal intent");
        space->n_batches++;
    }
    return true;
}

/* Reads the next chunk into a list, which stays empty at the end. */
static bool read_ahead(struct online *online, size_t thread, struct examples *list)
{
    struct online_space *space = &online->spaces[thread];
    examples_clear(list);
    while (!space->at_end && list->n == 0) {
        if (!examples_take(&online->source, &space->chunk) ||
            !examples_parse(&online->source, &space->chunk, list))
            return false;
        space->at_end = space->chunk.n_bytes == 0;
    }
    return online->train->n_nodes == 1 || list->n == 0 || intend(online, thread, list);
}

/* Learns from all batches of a list; *go_on becomes false when the epoch should end. */
static bool learn_list(struct online *online, size_t thread, const struct examples *list,
                       bool *go_on)
{
    bool ok = true;
    for (size_t first = 0, end; ok && *go_on && first < list->n; first = end) {
        double loss = 0;
        end = batch_end(online, list, first);
        ok = learn(online, thread, list, first, end, &loss);
        *go_on = train_done(online->train, thread, end - first, loss);
    }
    return ok;
}

bool online_begin(struct online *online)
{
    if (online->is_open)
        examples_close(&online->source);
    online->is_open =
        examples_open(&online->source, online->train->options->data, &online->reading);
    return online->is_open;
}

bool online_epoch(struct online *online, size_t thread)
{
    struct online_space *space = &online->spaces[thread];
    struct tern_worker *worker = train_worker(online->train, thread);
    bool go_on = true;
    space->at_end = false;
    if (worker != NULL)
        (void)tern_worker_clock(worker, &space->n_batches);
    size_t current = 0;
    bool ok = read_ahead(online, thread, &space->lists[current]);
    while (ok && go_on && space->lists[current].n > 0) {
        ok = read_ahead(online, thread, &space->lists[1 - current]) &&
             learn_list(online, thread, &space->lists[current], &go_on);
        current = 1 - current;
    }
    return ok;
}
