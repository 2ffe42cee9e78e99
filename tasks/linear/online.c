/* online - learns from a stream of examples in small batches. See online.h. */
#include "linear/online.h"

#include <stdlib.h>
#include <string.h>

#include "common/checkpoints.h"
#include "common/distinct.h"
#include "common/loss.h"
#include "linear/emso.h"

enum {
    PLAIN_BITS = 22,
    PULL_AT_ONCE = 1024,
    MAX_LENGTH = 2,
    LARGE_BATCH = 64, /* larger ones are of several chunks, and end where a chunk ends */
};

static const double EPSILON = 1e-6; /* of the updaters that divide by a root */

/* What a thread needs: the features of a batch, their weights and slopes. */
struct online_space {
    struct distinct features;
    float *weights, *slopes;
    float *rows;     /* as pulled and pushed, where a row is more than the weight */
    double *exact;   /* emso: the weights */
    size_t capacity; /* of them */
    struct emso_space emso;
    struct rng rng;
    double n_seen; /* emso: examples so far */
    double n_each; /* emso: of an epoch; 0: not known yet */
};

static bool is_emso(const struct online *online)
{
    return online->options->solver != LINEAR_ONLINE;
}

static bool is_held(const struct online *online)
{
    return online->options->hold.kind != HOLD_NONE;
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

/* Numbers that an updater keeps for a weight. */
static size_t n_state(const struct tern_updater *updater)
{
    return updater->state_per_element + updater->state_per_row;
}

static bool push(struct online *online, struct tern_worker *worker, const uint64_t *keys, size_t n,
                 const float *slopes)
{
    const struct tern_updater *updater = &online->updater;
    if (online->table != NULL)
        return !tern_push(worker, online->table, keys, n, slopes) || task_fail_tern("cannot push");
    for (size_t i = 0; i < n; i++) {
        size_t slot = online_slot(online, keys[i]);
        if (updater->apply == NULL)
            online->values[slot] += slopes[i];
        else
            updater->apply(updater, TERN_F32, 1, online->values + slot,
                           online->states + slot * n_state(updater), slopes + i);
    }
    return true;
}

bool online_pull(struct online *online, struct tern_worker *worker, const uint64_t *keys, size_t n,
                 double *weights)
{
    float values[PULL_AT_ONCE * MAX_LENGTH];
    for (size_t done = 0, step; done < n; done += step) {
        step = n - done < PULL_AT_ONCE ? n - done : PULL_AT_ONCE;
        if (!pull(online, worker, keys + done, step, values))
            return false;
        for (size_t i = 0; i < step; i++)
            weights[done + i] = (double)values[i * online->length];
    }
    return true;
}

/* The weights of a batch's features. */
static bool pull_batch(struct online *online, struct tern_worker *worker,
                       struct online_space *space)
{
    const size_t n = space->features.n_keys, length = online->length;
    if (length == 1)
        return pull(online, worker, space->features.keys, n, space->weights);
    if (!pull(online, worker, space->features.keys, n, space->rows))
        return false;
    for (size_t i = 0; i < n; i++)
        space->weights[i] = space->rows[i * length];
    return true;
}

/* Pushes the slopes of a batch, with what was pulled behind the weights, now or later. */
static bool push_batch(struct online *online, struct tern_worker *worker,
                       struct online_space *space)
{
    const size_t n = space->features.n_keys, length = online->length;
    for (size_t i = 0; length > 1 && i < n; i++)
        space->rows[i * length] = space->slopes[i];
    const float *rows = length > 1 ? space->rows : space->slopes;
    return is_held(online) ? hold_keep(&online->hold, space->features.keys, n, rows)
                           : push(online, worker, space->features.keys, n, rows);
}

/* ---- Learning --------------------------------------------------------------------------------- */

/* Makes room for the weights of a batch. */
static bool reserve(struct online_space *space)
{
    const size_t n = space->features.capacity;
    if (n <= space->capacity)
        return true;
    space->capacity = 0;
    if (!array_renew(&space->weights, n, sizeof *space->weights) ||
        !array_renew(&space->exact, n, sizeof *space->exact) ||
        !array_renew(&space->rows, n * MAX_LENGTH, sizeof *space->rows) ||
        !array_renew(&space->slopes, n, sizeof *space->slopes))
        return false;
    space->capacity = n;
    return true;
}

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
            margin +=
                (double)space->weights[space->features.numbers[i - base]] * (double)list->values[i];
        sum += weight * loss_value(online->options->loss, margin, label);
        float slope = (float)(weight * loss_slope(online->options->loss, margin, label));
        for (size_t i = from; i < to; i++)
            space->slopes[space->features.numbers[i - base]] += slope * list->values[i];
    }
    return sum;
}

/*
 * Solves the conservative subproblem of a batch, and turns the changes of the weights, divided by the number of workers, into
 * what is pushed: so the sum of all pushes moves the weights to the average of the workers' models (M. Li, Algorithm 9). A
 * batch has its share of the penalties: they belong to the examples of an epoch or, in the first one, to those seen so far.
 */
static bool solve(const struct online *online, struct online_space *space,
                  const struct examples *list)
{
    const struct linear_options *options = online->options;
    const double n_workers = (double)online->train->n_nodes * (double)online->train->n_threads;
    const size_t n_keys = space->features.n_keys;
    space->n_seen += (double)list->n;
    const double share = (double)list->n /
                         (space->n_each > 0 ? fmax(space->n_each, (double)list->n) : space->n_seen);
    struct emso_batch batch = {.loss = options->loss,
                               .l1 = share * options->l1,
                               .l2 = share * options->l2,
                               .gamma = options->gamma * sqrt(space->n_seen),
                               .positive_weight = options->positive_weight,
                               .free_key = UINT32_MAX,
                               .list = list,
                               .end = list->n,
                               .numbers = space->features.numbers,
                               .n_keys = n_keys,
                               .weights = space->exact};
    for (size_t j = 0; j < n_keys; j++) {
        space->exact[j] = (double)space->weights[j];
        if (options->intercept == LINEAR_FREE && space->features.keys[j] == LINEAR_INTERCEPT_KEY)
            batch.free_key = (uint32_t)j;
    }
    bool ok = options->solver == LINEAR_EMSO_CD
                  ? emso_descend_coordinates(&batch, &space->emso, &space->rng, EMSO_PASSES)
                  : emso_descend_gradient(&batch, &space->emso, EMSO_STEPS);
    for (size_t j = 0; ok && j < n_keys; j++)
        space->slopes[j] = (float)((space->exact[j] - (double)space->weights[j]) / n_workers);
    return ok;
}

bool online_epoch(struct online *online, size_t thread)
{
    struct online_space *space = &online->spaces[thread];
    bool ok = batches_epoch(&online->batches, thread);
    if (space->n_each <= 0)
        space->n_each = space->n_seen;
    return is_held(online) ? hold_end(&online->hold, ok) : ok;
}

static bool learn(void *context, size_t thread, const struct examples *list, size_t first,
                  size_t end, double *loss)
{
    struct online *online = context;
    struct online_space *space = &online->spaces[thread];
    struct tern_worker *worker = train_worker(online->train, thread);
    const size_t base = list->start[first], n = list->start[end] - base;
    if (!distinct_list(&space->features, list->keys + base, n) || !reserve(space))
        return false;
    if (is_held(online) && !hold_begin(&online->hold, &worker))
        return false;
    if (!pull_batch(online, worker, space))
        return false;
    memset(space->slopes, 0, space->features.n_keys * sizeof *space->slopes);
    *loss = add_slopes(online, space, list, first, end);
    if (is_emso(online) && !solve(online, space, list))
        return false;
    return push_batch(online, worker, space);
}

static bool intend(void *context, size_t thread, const uint64_t *keys, size_t n, uint64_t clock)
{
    struct online *online = context;
    return !tern_intent(train_worker(online->train, thread), online->table, keys, n, clock,
                        clock + 1) ||
           task_fail_tern("cannot signal intent");
}

/* ---- Opening ---------------------------------------------------------------------------------- */

static bool open_weights(struct online *online)
{
    const struct tern_placement placement = placement_of_keys(&online->train->placement);
    const bool is_placed = online->train->placement.folder != NULL;
    const struct tern_table_options options = {
        .struct_size = sizeof options,
        .index = TERN_SPARSE,
        .length = (uint32_t)online->length,
        .updater = online->updater,
        .policy = online->updater.asks_age ? "static" : online->train->options->policy,
        .filters = online->train->options->filters,
        .backups = (uint32_t)online->train->options->backups,
        .recover = checkpoints_recover(online->train),
        .placement = is_placed ? &placement : NULL};
    if (online->train->node == NULL) {
        uint32_t bits = online->batches.reading.hash_bits;
        online->n_values = (size_t)1 << (bits > 0 && bits < 40 ? bits : PLAIN_BITS);
        online->values = calloc(online->n_values + 1, sizeof *online->values);
        online->states =
            calloc((online->n_values + 1) * n_state(&online->updater) + 1, sizeof *online->states);
        return (online->values != NULL && online->states != NULL) ||
               task_fail_memory("the weights");
    }
    if (tern_table_open(online->train->node, "weights", &options, &online->table))
        return task_fail_tern("cannot open a table");
    train_watch(online->train, online->table);
    return checkpoints_restore(online->train, online->table, true);
}

/* What changes a weight by a slope; emso pushes changes, which are added. */
static struct tern_updater choose_updater(const struct linear_options *options)
{
    if (options->solver != LINEAR_ONLINE)
        return (struct tern_updater){0};
    switch (options->updater) {
    case LINEAR_FTRL:
        return tern_updater_ftrl(options->rate, options->beta, options->l1, options->l2);
    case LINEAR_ADAGRAD:
        return tern_updater_adagrad(options->rate, EPSILON);
    case LINEAR_ASYNCADAGRAD:
        return tern_updater_asyncadagrad(options->rate, EPSILON);
    case LINEAR_ADADELAY:
        return tern_updater_adadelay(options->rate, EPSILON);
    case LINEAR_ADAPTIVEREVISION:
        return tern_updater_adaptiverevision(options->rate, EPSILON);
    case LINEAR_ADAM:
        return tern_updater_adam(options->rate, 0.9, 0.999, EPSILON);
    case LINEAR_MOMENTUM:
        return tern_updater_momentum(options->rate, 0.9);
    case LINEAR_SGD:
        break;
    }
    return tern_updater_sgd(options->rate);
}

bool online_open(struct online *online, struct train *train, const struct linear_options *options,
                 const struct examples_options *reading)
{
    const struct batches_task task = {.context = online,
                                      .gathers = options->solver != LINEAR_ONLINE ||
                                                 options->n_batch > LARGE_BATCH,
                                      .intend = intend,
                                      .learn = learn};
    *online = (struct online){.options = options,
                              .train = train,
                              .updater = choose_updater(options),
                              .length = options->updater == LINEAR_ADAPTIVEREVISION ? 2 : 1,
                              .spaces = calloc(train->n_threads, sizeof *online->spaces)};
    for (size_t i = 0; online->spaces != NULL && i < train->n_threads; i++)
        online->spaces[i].rng =
            rng_seed((uint64_t)train->options->seed, train->self * train->n_threads + i);
    if (is_held(online) && train->n_nodes > 1)
        return task_fail("--hold keeps gradients of one node back; here are %u", train->n_nodes);
    return (online->spaces != NULL || task_fail_memory("the workers")) &&
           batches_open(&online->batches, train, reading, (size_t)options->n_batch, &task) &&
           open_weights(online) &&
           (!is_held(online) || hold_init(&online->hold, options->hold, train->node, online->table,
                                          online->length, (uint64_t)train->options->seed));
}

void online_close(struct online *online)
{
    for (size_t i = 0; online->spaces != NULL && i < online->train->n_threads; i++) {
        struct online_space *space = &online->spaces[i];
        distinct_fini(&space->features);
        free(space->weights);
        free(space->slopes);
        free(space->rows);
        free(space->exact);
        emso_space_fini(&space->emso);
    }
    free(online->spaces);
    free(online->values);
    free(online->states);
    hold_fini(&online->hold);
    batches_close(&online->batches);
}
