/* emso - minimizes over a minibatch without going far from where it was. See emso.h. */
#include "linear/emso.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"
#include "common/loss.h"

enum { MAX_HALVINGS = 30 };

/* The largest step of a weight: Newton's step is meant for small ones. */
static const double MAX_STEP = 1;

/* ---- Memory ----------------------------------------------------------------------------------- */

static bool resize(void *array, size_t n, size_t element_bytes)
{
    void **at = array;
    free(*at);
    *at = calloc(n, element_bytes);
    return *at != NULL;
}

static bool reserve(struct emso_space *space, size_t n_rows, size_t n_keys, size_t n_pairs)
{
    if (n_rows <= space->n_rows && n_keys <= space->n_keys && n_pairs <= space->n_pairs)
        return true;
    n_rows *= 2;
    n_keys *= 2;
    n_pairs *= 2;
    space->n_rows = 0;
    if (!resize(&space->start, n_keys + 2, sizeof *space->start) ||
        !resize(&space->order, n_keys, sizeof *space->order) ||
        !resize(&space->before, n_keys, sizeof *space->before) ||
        !resize(&space->slopes, n_keys, sizeof *space->slopes) ||
        !resize(&space->tried, n_keys, sizeof *space->tried) ||
        !resize(&space->rows, n_pairs, sizeof *space->rows) ||
        !resize(&space->values, n_pairs, sizeof *space->values) ||
        !resize(&space->margins, n_rows, sizeof *space->margins) ||
        !resize(&space->tried_margins, n_rows, sizeof *space->tried_margins))
        return task_fail_memory("a batch");
    space->n_rows = n_rows;
    space->n_keys = n_keys;
    space->n_pairs = n_pairs;
    return true;
}

void emso_space_fini(struct emso_space *space)
{
    free(space->start);
    free(space->order);
    free(space->before);
    free(space->slopes);
    free(space->tried);
    free(space->rows);
    free(space->values);
    free(space->margins);
    free(space->tried_margins);
    *space = (struct emso_space){0};
}

/* ---- Sums ------------------------------------------------------------------------------------- */

static double label_of(const struct emso_batch *batch, size_t row)
{
    return (double)batch->list->labels[batch->first + row];
}

static double weight_of(const struct emso_batch *batch, size_t row)
{
    const double weight = (double)batch->list->weights[batch->first + row];
    return label_of(batch, row) > 0 ? weight * batch->positive_weight : weight;
}

/* The number of features before example `row` of the batch. */
static size_t pair_of(const struct emso_batch *batch, size_t row)
{
    return batch->list->start[batch->first + row] - batch->list->start[batch->first];
}

static void compute_margins(const struct emso_batch *batch, const double *weights, double *margins)
{
    const float *values = batch->list->values + batch->list->start[batch->first];
    for (size_t row = 0; row < batch->end - batch->first; row++) {
        double sum = 0;
        for (size_t i = pair_of(batch, row); i < pair_of(batch, row + 1); i++)
            sum += weights[batch->numbers[i]] * (double)values[i];
        margins[row] = sum;
    }
}

static double value_at(const struct emso_batch *batch, const double *before, const double *weights,
                       const double *margins)
{
    double sum = 0;
    for (size_t row = 0; row < batch->end - batch->first; row++)
        sum += weight_of(batch, row) * loss_value(batch->loss, margins[row], label_of(batch, row));
    for (size_t j = 0; j < batch->n_keys; j++) {
        const double weight = weights[j], change = weight - before[j];
        sum += batch->gamma / 2 * change * change;
        if (j != batch->free_key)
            sum += batch->l1 * fabs(weight) + batch->l2 / 2 * weight * weight;
    }
    return sum;
}

/* Makes room, and notes where the weights were. */
static bool begin(const struct emso_batch *batch, struct emso_space *space)
{
    const size_t n_rows = batch->end - batch->first;
    if (!reserve(space, n_rows, batch->n_keys, pair_of(batch, n_rows)))
        return false;
    memcpy(space->before, batch->weights, batch->n_keys * sizeof *space->before);
    compute_margins(batch, batch->weights, space->margins);
    return true;
}

double emso_value(const struct emso_batch *batch, struct emso_space *space)
{
    if (!begin(batch, space))
        return HUGE_VAL;
    return value_at(batch, space->before, batch->weights, space->margins);
}

/* The weight that minimizes slope * d + curvature / 2 * d^2 + l1 |w + d|. */
static double shrink(double weight, double slope, double curvature, double l1)
{
    const double pull = curvature * weight - slope;
    if (fabs(pull) <= l1)
        return 0;
    return (pull > 0 ? pull - l1 : pull + l1) / curvature;
}

/* ---- Coordinates ------------------------------------------------------------------------------ */

/* Turns the rows of the batch into columns, by counting. */
static void make_columns(const struct emso_batch *batch, struct emso_space *space)
{
    const size_t n_rows = batch->end - batch->first;
    const float *values = batch->list->values + batch->list->start[batch->first];
    memset(space->start, 0, (batch->n_keys + 2) * sizeof *space->start);
    for (size_t i = 0; i < pair_of(batch, n_rows); i++)
        space->start[batch->numbers[i] + 2]++;
    for (size_t j = 0; j < batch->n_keys; j++)
        space->start[j + 2] += space->start[j + 1];
    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = pair_of(batch, row); i < pair_of(batch, row + 1); i++) {
            const size_t at = space->start[batch->numbers[i] + 1]++;
            space->rows[at] = (uint32_t)row;
            space->values[at] = values[i];
        }
}

static void step_coordinate(const struct emso_batch *batch, struct emso_space *space, size_t j)
{
    const double l1 = j == batch->free_key ? 0 : batch->l1,
                 l2 = j == batch->free_key ? 0 : batch->l2;
    const double weight = batch->weights[j];
    double slope = batch->gamma * (weight - space->before[j]) + l2 * weight;
    double curvature = batch->gamma + l2;
    for (size_t i = space->start[j]; i < space->start[j + 1]; i++) {
        const uint32_t row = space->rows[i];
        const double value = (double)space->values[i], label = label_of(batch, row);
        const double own = weight_of(batch, row), margin = space->margins[row];
        slope += own * loss_slope(batch->loss, margin, label) * value;
        curvature += own * loss_curvature(batch->loss, margin, label) * value * value;
    }
    if (curvature <= 0)
        return;
    double change = shrink(weight, slope, curvature, l1) - weight;
    change = fmin(fmax(change, -MAX_STEP), MAX_STEP);
    batch->weights[j] = weight + change;
    for (size_t i = space->start[j]; change != 0 && i < space->start[j + 1]; i++)
        space->margins[space->rows[i]] += change * (double)space->values[i];
}

bool emso_descend_coordinates(const struct emso_batch *batch, struct emso_space *space,
                              struct rng *rng, int n_passes)
{
    if (!begin(batch, space))
        return false;
    make_columns(batch, space);
    for (size_t j = 0; j < batch->n_keys; j++)
        space->order[j] = (uint32_t)j;
    for (int pass = 0; pass < n_passes; pass++)
        for (size_t i = 0; i < batch->n_keys; i++) {
            const size_t pick = i + rng_below(rng, batch->n_keys - i);
            const uint32_t j = space->order[pick];
            space->order[pick] = space->order[i];
            space->order[i] = j;
            step_coordinate(batch, space, j);
        }
    return true;
}

/* ---- Gradients -------------------------------------------------------------------------------- */

/* The slopes of all but the penalty l1. */
static void add_slopes(const struct emso_batch *batch, struct emso_space *space)
{
    const float *values = batch->list->values + batch->list->start[batch->first];
    for (size_t j = 0; j < batch->n_keys; j++)
        space->slopes[j] = batch->gamma * (batch->weights[j] - space->before[j]) +
                           (j == batch->free_key ? 0 : batch->l2 * batch->weights[j]);
    for (size_t row = 0; row < batch->end - batch->first; row++) {
        const double slope = weight_of(batch, row) *
                             loss_slope(batch->loss, space->margins[row], label_of(batch, row));
        for (size_t i = pair_of(batch, row); i < pair_of(batch, row + 1); i++)
            space->slopes[batch->numbers[i]] += slope * (double)values[i];
    }
}

/* Halves the rate until the value falls. */
static bool step_all(const struct emso_batch *batch, struct emso_space *space, double *rate,
                     double *value)
{
    for (int i = 0; i < MAX_HALVINGS; i++, *rate /= 2) {
        for (size_t j = 0; j < batch->n_keys; j++)
            space->tried[j] = shrink(batch->weights[j], space->slopes[j], 1 / *rate,
                                     j == batch->free_key ? 0 : batch->l1);
        compute_margins(batch, space->tried, space->tried_margins);
        const double tried = value_at(batch, space->before, space->tried, space->tried_margins);
        if (tried < *value) {
            *value = tried;
            return true;
        }
    }
    return false;
}

bool emso_descend_gradient(const struct emso_batch *batch, struct emso_space *space, int n_steps)
{
    if (!begin(batch, space))
        return false;
    const size_t n_rows = batch->end - batch->first;
    double value = value_at(batch, space->before, batch->weights, space->margins), rate = 1;
    for (int step = 0; step < n_steps; step++, rate *= 2) {
        add_slopes(batch, space);
        if (!step_all(batch, space, &rate, &value))
            break;
        memcpy(batch->weights, space->tried, batch->n_keys * sizeof *batch->weights);
        memcpy(space->margins, space->tried_margins, n_rows * sizeof *space->margins);
    }
    return true;
}
