/* fm_rows - the weights and vectors of features. See fm_rows.h. */
#include "fm/fm_rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/checkpoints.h"
#include "common/rng.h"

enum {
    PLAIN_BITS = 22,
    ABSENT_MOST =
        1 << 22, /* features without a vector that a thread remembers, of 8 to 16 bytes each */
};

/* ---- Opening ---------------------------------------------------------------------------------- */

/* The initial value of a vector, the same in tables and arrays. */
static void start_vector(void *context, uint64_t key, void *value, size_t length)
{
    const struct fm_rows *rows = context;
    struct rng rng = rng_seed((uint64_t)rows->train->options->seed + length, key);
    const float scale = (float)rows->options->v_scale;
    for (size_t j = 0; j < length; j++)
        ((float *)value)[j] = scale * (2 * rng_unit_float(&rng) - 1);
}

static bool open_array(struct fm_array *array, size_t n_slots, size_t length, uint32_t threshold,
                       const struct tern_updater *updater)
{
    const size_t n = n_slots + 1;
    *array =
        (struct fm_array){.length = length,
                          .threshold = threshold,
                          .values = calloc(n * length, sizeof(float)),
                          .states = calloc(n * length * updater->state_per_element, sizeof(float)),
                          .has = calloc(n, 1),
                          .counts = threshold > 0 ? calloc(n, sizeof(uint32_t)) : NULL};
    return (array->values != NULL && array->states != NULL && array->has != NULL &&
            (threshold == 0 || array->counts != NULL)) ||
           task_fail_memory("the model");
}

static void close_array(struct fm_array *array)
{
    free(array->values);
    free(array->states);
    free(array->has);
    free(array->counts);
}

static bool open_arrays(struct fm_rows *rows)
{
    const struct fm_options *options = rows->options;
    const uint32_t bits = options->examples.hash_bits;
    rows->n_slots = (size_t)1 << (bits > 0 && bits < 40 ? bits : PLAIN_BITS);
    bool ok = open_array(&rows->weight_array, rows->n_slots, 1, (uint32_t)options->min_count - 1,
                         &rows->weight_updater);
    for (size_t t = 0; ok && t < options->n_tiers; t++)
        ok = open_array(&rows->tier_arrays[t], rows->n_slots, options->tiers[t].n_dims,
                        options->tiers[t].threshold, &rows->vector_updater);
    return ok;
}

static bool open_table(struct fm_rows *rows, const char *name, struct tern_table_options *options,
                       struct tern_table **table)
{
    options->expected_keys = options->admit > 0 ? (uint64_t)rows->options->n_expected : 0;
    bool ok = !tern_table_open(rows->train->node, name, options, table) ||
              task_fail_tern("cannot open a table");
    if (ok)
        train_watch(rows->train, *table);
    return checkpoints_restore(rows->train, *table, ok);
}

/* The intercept has a weight however often it was counted. */
static bool start_intercept(struct fm_rows *rows)
{
    const uint64_t key = FM_INTERCEPT_KEY;
    const float zero = 0;
    return !rows->options->has_intercept || rows->train->self != 0 ||
           rows->train->checkpoint != NULL ||
           fm_rows_set(rows, train_worker(rows->train, 0), key, zero, NULL, 0);
}

static bool open_tables(struct fm_rows *rows)
{
    const struct fm_options *options = rows->options;
    const struct tern_placement placement = placement_of_keys(&rows->train->placement);
    const bool is_placed = rows->train->placement.folder != NULL;
    struct tern_table_options table = {.struct_size = sizeof table,
                                       .placement = is_placed ? &placement : NULL,
                                       .index = TERN_SPARSE,
                                       .length = 1,
                                       .updater = rows->weight_updater,
                                       .admit = (uint32_t)options->min_count - 1,
                                       .policy = rows->train->options->policy,
                                       .backups = (uint32_t)rows->train->options->backups,
                                       .recover = checkpoints_recover(rows->train),
                                       .filters = rows->train->options->filters};
    bool ok = open_table(rows, "weights", &table, &rows->weights);
    table.updater = rows->vector_updater;
    table.init =
        (struct tern_init){.kind = TERN_INIT_FUNCTION, .function = start_vector, .context = rows};
    for (size_t t = 0; ok && t < options->n_tiers; t++) {
        const char name[] = {'t', 'i', 'e', 'r', (char)('1' + t), '\0'};
        table.length = options->tiers[t].n_dims;
        table.admit = options->tiers[t].threshold;
        ok = open_table(rows, name, &table, &rows->tiers[t]);
    }
    return ok;
}

bool fm_rows_open(struct fm_rows *rows, struct train *train, const struct fm_options *options)
{
    *rows = (struct fm_rows){
        .options = options,
        .train = train,
        .weight_updater = tern_updater_ftrl(options->rate, options->beta, options->l1, options->l2),
        .vector_updater = tern_updater_adagrad(options->v_rate, options->v_beta)};
    return (train->node != NULL ? open_tables(rows) : open_arrays(rows)) && start_intercept(rows);
}

void fm_rows_close(struct fm_rows *rows)
{
    close_array(&rows->weight_array);
    for (size_t t = 0; t < FM_MAX_TIERS; t++)
        close_array(&rows->tier_arrays[t]);
}

/* Where no key was at another node, asking costs less than remembering. */
bool fm_rows_begin(struct fm_rows *rows, bool is_counting)
{
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    rows->is_counting = is_counting;
    if (rows->weights != NULL && tern_table_get_stats(rows->weights, &stats))
        return task_fail_tern("cannot read the statistics of a table");
    rows->knows_absent = !is_counting && stats.remote_keys > 0;
    return true;
}

/* ---- Arrays ----------------------------------------------------------------------------------- */

static size_t slot_of(const struct fm_rows *rows, uint64_t key)
{
    return key == FM_INTERCEPT_KEY ? rows->n_slots : key & (rows->n_slots - 1);
}

/* Gives a row its initial value, as a table does when it admits the key. */
static void start_row(struct fm_rows *rows, struct fm_array *array, size_t slot)
{
    if (array != &rows->weight_array)
        start_vector(rows, slot, array->values + slot * array->length, array->length);
    array->has[slot] = 1;
}

static bool array_has(struct fm_rows *rows, struct fm_array *array, size_t slot)
{
    if (!array->has[slot] && array->threshold == 0)
        start_row(rows, array, slot);
    return array->has[slot] != 0;
}

static void array_pull(struct fm_rows *rows, struct fm_array *array, const uint64_t *keys, size_t n,
                       float *values, bool *present)
{
    for (size_t i = 0; i < n; i++) {
        const size_t slot = slot_of(rows, keys[i]);
        present[i] = array_has(rows, array, slot);
        if (present[i])
            memcpy(values + i * array->length, array->values + slot * array->length,
                   array->length * sizeof *values);
        else
            memset(values + i * array->length, 0, array->length * sizeof *values);
    }
}

static void array_push(struct fm_rows *rows, struct fm_array *array,
                       const struct tern_updater *updater, const uint64_t *keys, size_t n,
                       const float *slopes)
{
    const size_t length = array->length;
    for (size_t i = 0; i < n; i++) {
        const size_t slot = slot_of(rows, keys[i]);
        updater->apply(updater, TERN_F32, length, array->values + slot * length,
                       array->states + slot * length * updater->state_per_element,
                       slopes + i * length);
    }
}

static void array_count(struct fm_rows *rows, struct fm_array *array, const uint64_t *keys,
                        size_t n, const uint32_t *counts)
{
    for (size_t i = 0; i < n; i++) {
        const size_t slot = slot_of(rows, keys[i]);
        array->counts[slot] += counts[i];
        if (!array->has[slot] && array->counts[slot] > array->threshold)
            start_row(rows, array, slot);
    }
}

/* ---- Pulling ---------------------------------------------------------------------------------- */

/* Tier t, or the weights where t is n_tiers: copies rows and says which there are. */
static bool pull_rows(struct fm_rows *rows, struct tern_worker *worker, size_t t,
                      const uint64_t *keys, size_t n, float *values, bool *present)
{
    const struct fm_options *options = rows->options;
    const bool is_weight = t == options->n_tiers;
    const uint32_t admit =
        is_weight ? (uint32_t)options->min_count - 1 : options->tiers[t].threshold;
    struct tern_table *table = is_weight ? rows->weights : rows->tiers[t];
    if (table == NULL) {
        array_pull(rows, is_weight ? &rows->weight_array : &rows->tier_arrays[t], keys, n, values,
                   present);
        return true;
    }
    memset(present, 1, n * sizeof *present);
    return !(admit > 0 ? tern_pull_present(worker, table, keys, n, values, present)
                       : tern_pull(worker, table, keys, n, values)) ||
           task_fail_tern("cannot pull");
}

/* The features that have the tiers before t, and a weight that lets them be used. */
static void list_candidates(const struct fm_rows *rows, struct fm_step *step, size_t t)
{
    struct fm_vectors *tier = &step->tiers[t];
    tier->n_rows = 0;
    for (size_t i = 0; i < step->features.n_keys; i++) {
        const bool may = t > 0 ? step->tiers[t - 1].rows[i] != FM_NONE
                               : step->present[i] && step->features.keys[i] != FM_INTERCEPT_KEY &&
                                     (rows->options->no_shrink || step->weights[i] != 0);
        tier->rows[i] = FM_NONE;
        if (!may || (rows->knows_absent && key_set_has(&tier->absent, step->features.keys[i])))
            continue;
        tier->keys[tier->n_rows] = step->features.keys[i];
        tier->features[tier->n_rows++] = (uint32_t)i;
    }
}

/* Removes candidates that have no row. Once occurrences are not counted any more, they will never have one: the thread
 * does not ask for them again. */
static void keep_present(const struct fm_rows *rows, struct fm_vectors *tier, const bool *present)
{
    size_t n = 0;
    for (size_t i = 0; i < tier->n_rows; i++) {
        if (!present[i] && rows->knows_absent)
            key_set_add(&tier->absent, tier->keys[i], ABSENT_MOST);
        if (!present[i])
            continue;
        if (n < i) {
            tier->keys[n] = tier->keys[i];
            tier->features[n] = tier->features[i];
            memcpy(tier->values + n * tier->n_dims, tier->values + i * tier->n_dims,
                   tier->n_dims * sizeof *tier->values);
        }
        tier->rows[tier->features[n]] = (uint32_t)n;
        n++;
    }
    tier->n_rows = n;
}

bool fm_rows_pull(struct fm_rows *rows, struct tern_worker *worker, struct fm_step *step)
{
    bool ok = pull_rows(rows, worker, step->n_tiers, step->features.keys, step->features.n_keys,
                        step->weights, step->present);
    for (size_t t = 0; ok && t < step->n_tiers; t++) {
        struct fm_vectors *tier = &step->tiers[t];
        list_candidates(rows, step, t);
        ok = pull_rows(rows, worker, t, tier->keys, tier->n_rows, tier->values, step->found);
        keep_present(rows, tier, step->found);
    }
    return ok;
}

/* ---- Pushing ---------------------------------------------------------------------------------- */

static bool push_rows(struct fm_rows *rows, struct tern_worker *worker, size_t t,
                      const uint64_t *keys, size_t n, const float *slopes)
{
    const bool is_weight = t == rows->options->n_tiers;
    struct tern_table *table = is_weight ? rows->weights : rows->tiers[t];
    if (table != NULL)
        return !tern_push(worker, table, keys, n, slopes) || task_fail_tern("cannot push");
    array_push(rows, is_weight ? &rows->weight_array : &rows->tier_arrays[t],
               is_weight ? &rows->weight_updater : &rows->vector_updater, keys, n, slopes);
    return true;
}

/* A push would count a feature without a weight, so only features that have one are pushed. */
static bool push_weights(struct fm_rows *rows, struct tern_worker *worker, struct fm_step *step)
{
    const size_t n = step->features.n_keys, t = rows->options->n_tiers;
    if (rows->options->min_count <= 1)
        return push_rows(rows, worker, t, step->features.keys, n, step->slopes);
    size_t n_present = 0;
    for (size_t i = 0; i < n; i++)
        if (step->present[i]) {
            step->some_keys[n_present] = step->features.keys[i];
            step->slopes[n_present++] = step->slopes[i];
        }
    return push_rows(rows, worker, t, step->some_keys, n_present, step->slopes);
}

/* Counts the features that have no row in tier t, or no weight. */
static bool count_absent(struct fm_rows *rows, struct tern_worker *worker, struct fm_step *step,
                         size_t t)
{
    const bool is_weight = t == rows->options->n_tiers;
    size_t n = 0;
    for (size_t i = 0; i < step->features.n_keys; i++) {
        if ((is_weight ? step->present[i] : step->tiers[t].rows[i] != FM_NONE) ||
            step->features.keys[i] == FM_INTERCEPT_KEY)
            continue;
        step->some_keys[n] = step->features.keys[i];
        step->some_counts[n++] = step->counts[i];
    }
    struct tern_table *table = is_weight ? rows->weights : rows->tiers[t];
    if (table != NULL)
        return !tern_count(worker, table, step->some_keys, n, step->some_counts) ||
               task_fail_tern("cannot count");
    array_count(rows, is_weight ? &rows->weight_array : &rows->tier_arrays[t], step->some_keys, n,
                step->some_counts);
    return true;
}

bool fm_rows_push(struct fm_rows *rows, struct tern_worker *worker, struct fm_step *step)
{
    const struct fm_options *options = rows->options;
    bool ok = push_weights(rows, worker, step);
    for (size_t t = 0; ok && t < step->n_tiers; t++) {
        const struct fm_vectors *tier = &step->tiers[t];
        ok = push_rows(rows, worker, t, tier->keys, tier->n_rows, tier->slopes);
        if (ok && rows->is_counting && options->tiers[t].threshold > 0)
            ok = count_absent(rows, worker, step, t);
    }
    return ok && (!rows->is_counting || options->min_count <= 1 ||
                  count_absent(rows, worker, step, step->n_tiers));
}

/* ---- The rest --------------------------------------------------------------------------------- */

bool fm_rows_intend(struct fm_rows *rows, struct tern_worker *worker, const uint64_t *keys,
                    size_t n, uint64_t clock)
{
    bool ok = !tern_intent(worker, rows->weights, keys, n, clock, clock + 1);
    for (size_t t = 0; ok && t < rows->options->n_tiers; t++)
        ok = !tern_intent(worker, rows->tiers[t], keys, n, clock, clock + 1);
    return ok || task_fail_tern("cannot signal intent");
}

static bool set_row(struct fm_rows *rows, struct tern_worker *worker, size_t t, uint64_t key,
                    const float *values)
{
    const bool is_weight = t == rows->options->n_tiers;
    struct tern_table *table = is_weight ? rows->weights : rows->tiers[t];
    if (table != NULL)
        return !tern_set(worker, table, &key, 1, values) || task_fail_tern("cannot set");
    struct fm_array *array = is_weight ? &rows->weight_array : &rows->tier_arrays[t];
    const struct tern_updater *updater = is_weight ? &rows->weight_updater : &rows->vector_updater;
    const size_t slot = slot_of(rows, key), length = array->length;
    float *value = array->values + slot * length;
    array->has[slot] = 1;
    memcpy(value, values, length * sizeof *value);
    if (updater->reset != NULL)
        updater->reset(updater, TERN_F32, length, value,
                       array->states + slot * length * updater->state_per_element);
    return true;
}

bool fm_rows_set(struct fm_rows *rows, struct tern_worker *worker, uint64_t key, float weight,
                 const float *vectors, size_t n_tiers)
{
    bool ok = set_row(rows, worker, rows->options->n_tiers, key, &weight);
    for (size_t t = 0; ok && t < n_tiers; t++) {
        ok = set_row(rows, worker, t, key, vectors);
        vectors += rows->options->tiers[t].n_dims;
    }
    return ok;
}

bool fm_rows_keys(struct fm_rows *rows, struct tern_worker *worker, uint64_t *next, size_t capacity,
                  uint64_t *keys, size_t *n)
{
    *n = 0;
    if (rows->weights != NULL) {
        if (*next != UINT64_MAX &&
            tern_pull_range(worker, rows->weights, *next, UINT64_MAX, capacity, keys, NULL, n))
            return task_fail_tern("cannot pull");
        *next = *n > 0 ? keys[*n - 1] + 1 : *next;
        return true;
    }
    for (; *n < capacity && *next <= rows->n_slots; ++*next)
        if (rows->weight_array.has[*next])
            keys[(*n)++] = *next == rows->n_slots ? FM_INTERCEPT_KEY : *next;
    return true;
}
