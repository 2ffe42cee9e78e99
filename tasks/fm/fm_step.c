/* fm_step - margins and gradients of a batch of examples. See fm_step.h. */
#include "fm/fm_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/dense.h"
#include "common/sentence.h"

/* ---- Memory ----------------------------------------------------------------------------------- */

bool fm_step_init(struct fm_step *step, const struct fm_options *options)
{
    bool ok = true;
    *step = (struct fm_step){.n_tiers = options->n_tiers};
    for (size_t t = 0; ok && t < step->n_tiers; t++) {
        struct fm_vectors *tier = &step->tiers[t];
        tier->n_dims = options->tiers[t].n_dims;
        ok = array_renew(&tier->sum, tier->n_dims, sizeof *tier->sum);
    }
    return ok;
}

void fm_step_fini(struct fm_step *step)
{
    distinct_fini(&step->features);
    free(step->counts);
    free(step->last);
    free(step->present);
    free(step->found);
    free(step->some_keys);
    free(step->some_counts);
    free(step->weights);
    free(step->slopes);
    free(step->entries);
    free(step->starts);
    for (size_t t = 0; t < step->n_tiers; t++) {
        struct fm_vectors *tier = &step->tiers[t];
        free(tier->rows);
        free(tier->keys);
        free(tier->features);
        free(tier->values);
        free(tier->slopes);
        free(tier->squares);
        free(tier->own);
        free(tier->sum);
        key_set_fini(&tier->absent);
    }
}

static bool reserve_tier(struct fm_vectors *tier, size_t n)
{
    return array_renew(&tier->rows, n, sizeof *tier->rows) &&
           array_renew(&tier->keys, n, sizeof *tier->keys) &&
           array_renew(&tier->features, n, sizeof *tier->features) &&
           array_renew(&tier->values, n * tier->n_dims, sizeof *tier->values) &&
           array_renew(&tier->slopes, n * tier->n_dims, sizeof *tier->slopes) &&
           array_renew(&tier->squares, n, sizeof *tier->squares) &&
           array_renew(&tier->own, n, sizeof *tier->own);
}

/* Makes room for as many features as the list of keys has room for. */
static bool reserve(struct fm_step *step)
{
    const size_t n = step->features.capacity;
    if (n <= step->capacity)
        return true;
    step->capacity = 0;
    bool ok = array_renew(&step->counts, n, sizeof *step->counts) &&
              array_renew(&step->last, n, sizeof *step->last) &&
              array_renew(&step->present, n, sizeof *step->present) &&
              array_renew(&step->found, n, sizeof *step->found) &&
              array_renew(&step->some_keys, n, sizeof *step->some_keys) &&
              array_renew(&step->some_counts, n, sizeof *step->some_counts) &&
              array_renew(&step->weights, n, sizeof *step->weights) &&
              array_renew(&step->slopes, n, sizeof *step->slopes);
    for (size_t t = 0; ok && t < step->n_tiers; t++)
        ok = reserve_tier(&step->tiers[t], n);
    step->capacity = ok ? n : 0;
    return ok;
}

static bool reserve_entries(struct fm_step *step, size_t n_entries, size_t n_starts)
{
    if (n_entries > step->entry_capacity) {
        step->entry_capacity = 0;
        if (!array_renew(&step->entries, 2 * n_entries, sizeof *step->entries))
            return false;
        step->entry_capacity = 2 * n_entries;
    }
    if (n_starts > step->start_capacity) {
        step->start_capacity = 0;
        if (!array_renew(&step->starts, 2 * n_starts, sizeof *step->starts))
            return false;
        step->start_capacity = 2 * n_starts;
    }
    return true;
}

/* ---- Features --------------------------------------------------------------------------------- */

bool fm_step_keys(struct fm_step *step, const uint64_t *keys, size_t n)
{
    return distinct_list(&step->features, keys, n) && reserve(step);
}

/* Adds an entry of the example that begins at `start`, or adds to the one that is there: the square of a repeated
 * feature is that of the sum of its values. */
static size_t add_entry(struct fm_step *step, size_t start, size_t end, uint32_t feature,
                        float value)
{
    if (step->counts[feature] > 0 && step->last[feature] >= start) {
        step->entries[step->last[feature]].value += value;
        return end;
    }
    step->last[feature] = end;
    step->entries[end] = (struct fm_entry){feature, value};
    step->counts[feature]++;
    return end + 1;
}

bool fm_step_list(struct fm_step *step, const struct examples *list, size_t first, size_t end)
{
    const size_t base = list->start[first], n = list->start[end] - base;
    if (!fm_step_keys(step, list->keys + base, n) || !reserve_entries(step, n, end - first + 1))
        return false;
    memset(step->counts, 0, step->features.n_keys * sizeof *step->counts);
    size_t at = 0;
    for (size_t row = first; row < end; row++) {
        const size_t start = at;
        step->starts[row - first] = start;
        for (size_t i = list->start[row]; i < list->start[row + 1]; i++)
            at = add_entry(step, start, at, step->features.numbers[i - base], list->values[i]);
    }
    step->starts[end - first] = at;
    step->n_examples = end - first;
    return true;
}

/* ---- Margins ---------------------------------------------------------------------------------- */

void fm_step_prepare(struct fm_step *step)
{
    for (size_t t = 0; t < step->n_tiers; t++) {
        struct fm_vectors *tier = &step->tiers[t];
        for (size_t i = 0; i < tier->n_rows; i++) {
            const float *vector = tier->values + i * tier->n_dims;
            tier->squares[i] = dense_dot(vector, vector, tier->n_dims);
        }
    }
}

/* Half of |V x|^2 - sum_i x_i^2 |V_i|^2 of one tier. */
static double interactions(struct fm_vectors *tier, const struct fm_entry *entries, size_t n)
{
    double own = 0;
    size_t n_used = 0;
    memset(tier->sum, 0, tier->n_dims * sizeof *tier->sum);
    for (size_t i = 0; i < n; i++) {
        const uint32_t row = tier->rows[entries[i].feature];
        if (row == FM_NONE)
            continue;
        const float x = entries[i].value;
        dense_axpy(x, tier->values + row * tier->n_dims, tier->sum, tier->n_dims);
        own += (double)(x * x) * (double)tier->squares[row];
        n_used++;
    }
    if (n_used == 0)
        return 0;
    return ((double)dense_dot(tier->sum, tier->sum, tier->n_dims) - own) / 2;
}

double fm_step_margin(struct fm_step *step, size_t example)
{
    const struct fm_entry *entries = step->entries + step->starts[example];
    const size_t n = step->starts[example + 1] - step->starts[example];
    double margin = 0;
    for (size_t i = 0; i < n; i++)
        margin += (double)step->weights[entries[i].feature] * (double)entries[i].value;
    for (size_t t = 0; t < step->n_tiers; t++)
        margin += interactions(&step->tiers[t], entries, n);
    return margin;
}

/* ---- Gradients -------------------------------------------------------------------------------- */

static void add_slopes(struct fm_step *step, size_t example, float slope)
{
    const struct fm_entry *entries = step->entries + step->starts[example];
    const size_t n = step->starts[example + 1] - step->starts[example];
    for (size_t i = 0; i < n; i++)
        step->slopes[entries[i].feature] += slope * entries[i].value;
    for (size_t t = 0; t < step->n_tiers; t++) {
        struct fm_vectors *tier = &step->tiers[t];
        for (size_t i = 0; i < n; i++) {
            const uint32_t row = tier->rows[entries[i].feature];
            if (row == FM_NONE)
                continue;
            const float factor = slope * entries[i].value;
            dense_axpy(factor, tier->sum, tier->slopes + row * tier->n_dims, tier->n_dims);
            tier->own[row] += factor * entries[i].value;
        }
    }
}

/* Dropout and clipping of one vector's gradient. */
static void restrain(float *slopes, size_t n, const struct fm_options *options, struct rng *rng)
{
    const float clip = (float)options->clip;
    for (size_t j = 0; clip > 0 && j < n; j++)
        slopes[j] = fminf(fmaxf(slopes[j], -clip), clip);
    for (size_t j = 0; options->dropout > 0 && j < n; j++)
        slopes[j] = rng_unit(rng) < options->dropout ? 0 : slopes[j];
}

static void finish_tier(const struct fm_step *step, struct fm_vectors *tier,
                        const struct fm_options *options, struct rng *rng)
{
    for (size_t i = 0; i < tier->n_rows; i++) {
        const float *vector = tier->values + i * tier->n_dims;
        float *slopes = tier->slopes + i * tier->n_dims;
        dense_axpy(-tier->own[i], vector, slopes, tier->n_dims);
        for (size_t j = 0; options->normalise && j < tier->n_dims; j++)
            slopes[j] /= (float)step->counts[tier->features[i]];
        restrain(slopes, tier->n_dims, options, rng);
        if (options->v_l2 > 0)
            dense_axpy((float)options->v_l2, vector, slopes, tier->n_dims);
    }
}

double fm_step_learn(struct fm_step *step, const struct fm_options *options,
                     const struct examples *list, size_t first, struct rng *rng)
{
    double sum = 0;
    fm_step_prepare(step);
    memset(step->slopes, 0, step->features.n_keys * sizeof *step->slopes);
    for (size_t t = 0; t < step->n_tiers; t++) {
        struct fm_vectors *tier = &step->tiers[t];
        memset(tier->slopes, 0, tier->n_rows * tier->n_dims * sizeof *tier->slopes);
        memset(tier->own, 0, tier->n_rows * sizeof *tier->own);
    }
    for (size_t row = first; row < first + step->n_examples; row++) {
        double label = (double)list->labels[row], weight = (double)list->weights[row];
        double margin = fm_step_margin(step, row - first);
        weight *= label > 0 ? options->positive_weight : 1;
        sum += weight * loss_value(options->loss, margin, label);
        add_slopes(step, row - first, (float)(weight * loss_slope(options->loss, margin, label)));
    }
    for (size_t t = 0; t < step->n_tiers; t++)
        finish_tier(step, &step->tiers[t], options, rng);
    return sum;
}
