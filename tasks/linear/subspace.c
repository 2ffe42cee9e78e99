/* subspace - a Newton step over the span of the last epochs' changes. See subspace.h. */
#include "linear/subspace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "common/team.h"
#include "linear/coordinate.h"
#include "linear/dbpg.h"
#include "linear/dbpg_job.h"
#include "linear/losses.h"

enum { N_HALVINGS = 6, REFRESH_EVERY = 32 };

/* A newest direction smaller than this, beside the margins, has too few digits left to go on along it. */
static const double LEAST_CHANGE = 1e-7;

/* What is added up over rows and features: the objective, its slopes and its curvature along the directions. */
struct sums {
    double value;
    double size, newest; /* squares of the margins, and of how they have changed last */
    double slopes[SUBSPACE_MAX];
    double curvature[SUBSPACE_MAX][SUBSPACE_MAX];
    double n_failed; /* nodes */
};

enum { N_SUMS = sizeof(struct sums) / sizeof(double) };

/* What threads are given. */
struct pass {
    struct dbpg *dbpg;
    size_t slot;        /* of the direction that is made */
    const double *step; /* of each direction */
    double length;      /* how much of the step is tried */
    struct sums sums[]; /* by thread */
};

/* ---- Memory ----------------------------------------------------------------------------------- */

bool subspace_init(struct dbpg *dbpg)
{
    struct subspace *space = &dbpg->subspace;
    const size_t n = dbpg->columns.n_features + 1, n_slices = dbpg->columns.n_slices;
    space->weights = calloc(n, sizeof *space->weights);
    space->weight_changes = large_zeros(n * SUBSPACE_MAX, sizeof *space->weight_changes);
    space->has_changed = calloc(n, sizeof *space->has_changed);
    space->margins = calloc(n_slices, sizeof *space->margins);
    space->margin_changes = calloc(n_slices, sizeof *space->margin_changes);
    bool ok = space->weights != NULL && space->weight_changes != NULL &&
              space->has_changed != NULL && space->margins != NULL && space->margin_changes != NULL;
    for (size_t i = 0; ok && i < n_slices; i++) {
        const size_t n_rows = dbpg->columns.slices[i].n_rows + 1;
        space->margins[i] = calloc(n_rows, sizeof **space->margins);
        space->margin_changes[i] =
            large_zeros(n_rows * SUBSPACE_MAX, sizeof **space->margin_changes);
        ok = space->margins[i] != NULL && space->margin_changes[i] != NULL;
    }
    return ok;
}

void subspace_fini(struct dbpg *dbpg)
{
    struct subspace *space = &dbpg->subspace;
    for (size_t i = 0; i < dbpg->columns.n_slices; i++) {
        if (space->margins != NULL)
            free(space->margins[i]);
        if (space->margin_changes != NULL)
            free(space->margin_changes[i]);
    }
    free(space->margins);
    free(space->margin_changes);
    free(space->weights);
    free(space->weight_changes);
    free(space->has_changed);
}

void subspace_reset(struct dbpg *dbpg)
{
    struct subspace *space = &dbpg->subspace;
    space->n = space->next = 0;
    memcpy(space->weights, dbpg->weights, dbpg->columns.n_features * sizeof *space->weights);
    for (size_t i = 0; i < dbpg->columns.n_slices; i++) {
        const struct slice *slice = &dbpg->columns.slices[i];
        memcpy(space->margins[i], slice->margins, slice->n_rows * sizeof *slice->margins);
    }
}

/* ---- Directions ------------------------------------------------------------------------------- */

/* Takes features whose weights are 0 out of the directions of the margins. */
static void take_out_zeros(const struct dbpg *dbpg, size_t thread)
{
    const struct slice *slice = &dbpg->columns.slices[thread];
    double *changes = dbpg->subspace.margin_changes[thread];
    for (size_t j = 0; j < dbpg->columns.n_features; j++) {
        const double *change = dbpg->subspace.weight_changes + j * SUBSPACE_MAX;
        if (dbpg->weights[j] != 0 || !dbpg->subspace.has_changed[j])
            continue;
        for (size_t k = 0; k < SUBSPACE_MAX; k++)
            for (size_t i = slice->start[j]; change[k] != 0 && i < slice->start[j + 1]; i++)
                changes[slice->rows[i] * (size_t)SUBSPACE_MAX + k] -=
                    change[k] * (double)slice->values[i];
    }
}

/*
 * Computes margins and their directions from the weights again. Each step rounds them off in another way than the weights,
 * and since a direction is made of steps, which are made of directions, the difference would grow without bound.
 */
static void refresh_margins(const struct dbpg *dbpg, size_t thread)
{
    const struct slice *slice = &dbpg->columns.slices[thread];
    double *changes = dbpg->subspace.margin_changes[thread];
    memset(slice->margins, 0, slice->n_rows * sizeof *slice->margins);
    memset(changes, 0, slice->n_rows * SUBSPACE_MAX * sizeof *changes);
    for (size_t j = 0; j < dbpg->columns.n_features; j++) {
        const double *change = dbpg->subspace.weight_changes + j * SUBSPACE_MAX;
        if (dbpg->weights[j] == 0 && !dbpg->subspace.has_changed[j])
            continue;
        dbpg_move(slice, j, dbpg->weights[j]);
        for (size_t i = slice->start[j]; i < slice->start[j + 1]; i++) {
            double *row = changes + slice->rows[i] * (size_t)SUBSPACE_MAX;
            for (size_t k = 0; k < SUBSPACE_MAX; k++)
                row[k] += change[k] * (double)slice->values[i];
        }
    }
}

/* How the margins have changed in the epoch becomes a direction. */
static bool note_margins(void *context, size_t thread)
{
    const struct pass *pass = context;
    const struct slice *slice = &pass->dbpg->columns.slices[thread];
    const double *before = pass->dbpg->subspace.margins[thread];
    double *changes = pass->dbpg->subspace.margin_changes[thread] + pass->slot;
    for (size_t i = 0; i < slice->n_rows; i++)
        changes[i * SUBSPACE_MAX] = slice->margins[i] - before[i];
    if (pass->dbpg->subspace.n_steps % REFRESH_EVERY == 0)
        refresh_margins(pass->dbpg, thread);
    take_out_zeros(pass->dbpg, thread);
    return true;
}

/* The same for the weights, before the margins; weights of 0 are taken out after them. */
static void note_weights(struct dbpg *dbpg, size_t slot)
{
    const struct subspace *space = &dbpg->subspace;
    for (size_t j = 0; j < dbpg->columns.n_features; j++) {
        const double change = dbpg->weights[j] - space->weights[j];
        if (change == 0 && !space->has_changed[j])
            continue;
        space->has_changed[j] = true;
        space->weight_changes[j * SUBSPACE_MAX + slot] = change;
    }
}

static void take_out_zero_weights(struct dbpg *dbpg)
{
    const struct subspace *space = &dbpg->subspace;
    for (size_t j = 0; j < dbpg->columns.n_features; j++)
        if (dbpg->weights[j] == 0 && space->has_changed[j]) {
            memset(space->weight_changes + j * SUBSPACE_MAX, 0, SUBSPACE_MAX * sizeof(double));
            space->has_changed[j] = false;
        }
}

/* ---- Sums ------------------------------------------------------------------------------------- */

static void add_point(struct sums *sums, size_t n, const double *along, double slope,
                      double curvature)
{
    for (size_t k = 0; k < n; k++) {
        const double scaled = curvature * along[k];
        sums->slopes[k] += slope * along[k];
        for (size_t l = 0; l <= k; l++)
            sums->curvature[k][l] += scaled * along[l];
    }
}

static bool add_rows(void *context, size_t thread)
{
    struct pass *pass = context;
    const struct slice *slice = &pass->dbpg->columns.slices[thread];
    struct losses losses;
    const double *changes = pass->dbpg->subspace.margin_changes[thread];
    struct sums *sums = &pass->sums[thread];
    const size_t n = pass->dbpg->subspace.n;
    *sums = (struct sums){0};
    for (size_t first = 0, n_some; first < slice->n_rows; first += n_some) {
        n_some = slice->n_rows - first < LOSSES_AT_ONCE ? slice->n_rows - first : LOSSES_AT_ONCE;
        losses_find(pass->dbpg->options->loss, slice, first, n_some, &losses);
        for (size_t i = 0; i < n_some; i++) {
            const double *along = changes + (first + i) * SUBSPACE_MAX;
            const double margin = slice->margins[first + i], newest = along[pass->slot];
            sums->size += margin * margin;
            sums->newest += newest * newest;
            sums->value += losses.values[i];
            add_point(sums, n, along, losses.slopes[i], losses.curvatures[i]);
        }
    }
    return true;
}

/* The penalties of a feature: its share of them if several nodes have it; 0 if it is free. */
static double penalty_share(const struct dbpg *dbpg, size_t feature)
{
    const bool is_free = dbpg->options->intercept == LINEAR_FREE &&
                         dbpg->columns.keys[feature] == LINEAR_INTERCEPT_KEY;
    return is_free ? 0 : 1 / (double)dbpg->n_sharers[feature];
}

static double penalty(const struct dbpg *dbpg, double weight)
{
    return dbpg->options->l1 * fabs(weight) + dbpg->options->l2 / 2 * weight * weight;
}

static void add_features(const struct dbpg *dbpg, struct sums *sums)
{
    const double l1 = dbpg->options->l1, l2 = dbpg->options->l2;
    for (size_t j = 0; j < dbpg->columns.n_features; j++) {
        const double weight = dbpg->weights[j];
        if (weight == 0)
            continue;
        const double share = penalty_share(dbpg, j);
        sums->value += share * penalty(dbpg, weight);
        add_point(sums, dbpg->subspace.n, dbpg->subspace.weight_changes + j * SUBSPACE_MAX,
                  share * (l2 * weight + (weight > 0 ? l1 : -l1)), share * l2);
    }
}

/* Sums n numbers over all nodes; the last one says how many have failed: to agree on that first would take a round trip more. */
static bool sum_up(const struct dbpg *dbpg, bool ok, size_t n, double *numbers)
{
    if (!train_sum(dbpg->train, n, numbers))
        return false;
    return numbers[n - 1] == 0 || (ok ? task_fail("%s", "") : false);
}

static bool add_all(struct pass *pass, bool ok, struct sums *all)
{
    struct dbpg *dbpg = pass->dbpg;
    double *numbers = (double *)all;
    ok = team_run(dbpg->columns.n_slices, add_rows, NULL, pass) && ok;
    *all = (struct sums){0};
    for (size_t i = 0; i < dbpg->columns.n_slices; i++)
        for (size_t k = 0; k < N_SUMS; k++)
            numbers[k] += ((const double *)&pass->sums[i])[k];
    add_features(dbpg, all);
    all->n_failed = ok ? 0 : 1;
    ok = sum_up(dbpg, ok, N_SUMS, numbers);
    for (size_t k = 0; k < SUBSPACE_MAX; k++)
        for (size_t l = k + 1; l < SUBSPACE_MAX; l++)
            all->curvature[k][l] = all->curvature[l][k];
    return ok;
}

/* ---- The step --------------------------------------------------------------------------------- */

bool subspace_solve(size_t n, double a[SUBSPACE_MAX][SUBSPACE_MAX], const double *b, double *x)
{
    double scale[SUBSPACE_MAX], low[SUBSPACE_MAX][SUBSPACE_MAX];
    for (size_t i = 0; i < n; i++)
        scale[i] = a[i][i] > 0 ? 1 / sqrt(a[i][i]) : 0;
    for (size_t i = 0; i < n; i++) { /* the factor of Cholesky, and L y = b */
        double rest = b[i] * scale[i];
        for (size_t j = 0; j <= i; j++) {
            double sum = i == j ? 1 + 1e-9 : a[i][j] * scale[i] * scale[j];
            for (size_t k = 0; k < j; k++)
                sum -= low[i][k] * low[j][k];
            if (i == j && !(sum > 0))
                return false;
            low[i][j] = i == j ? sqrt(sum) : sum / low[j][j];
        }
        for (size_t k = 0; k < i; k++)
            rest -= low[i][k] * x[k];
        x[i] = rest / low[i][i];
    }
    for (size_t i = n; i-- > 0;) {
        for (size_t k = i + 1; k < n; k++)
            x[i] -= low[k][i] * x[k];
        x[i] /= low[i][i];
    }
    for (size_t i = 0; i < n; i++)
        x[i] *= scale[i];
    return true;
}

static double combine(const double *along, const double *step, size_t n)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += step[k] * along[k];
    return sum;
}

/* The direction of the step replaces the margins before the epoch. */
static bool direct_margins(void *context, size_t thread)
{
    const struct pass *pass = context;
    const struct subspace *space = &pass->dbpg->subspace;
    for (size_t i = 0; i < pass->dbpg->columns.slices[thread].n_rows; i++)
        space->margins[thread][i] =
            combine(space->margin_changes[thread] + i * SUBSPACE_MAX, pass->step, space->n);
    return true;
}

static void direct_weights(const struct pass *pass)
{
    const struct subspace *space = &pass->dbpg->subspace;
    for (size_t j = 0; j < pass->dbpg->columns.n_features; j++)
        space->weights[j] =
            space->has_changed[j]
                ? combine(space->weight_changes + j * SUBSPACE_MAX, pass->step, space->n)
                : 0;
}

/* The sum of losses some way along the direction. */
static bool try_rows(void *context, size_t thread)
{
    struct pass *pass = context;
    const struct slice *slice = &pass->dbpg->columns.slices[thread];
    const double *along = pass->dbpg->subspace.margins[thread];
    pass->sums[thread].value = losses_sum(pass->dbpg->options->loss, slice, along, pass->length);
    return true;
}

static bool try_length(struct pass *pass, double *value)
{
    const struct dbpg *dbpg = pass->dbpg;
    bool ok = team_run(dbpg->columns.n_slices, try_rows, NULL, pass);
    double numbers[2] = {0, ok ? 0 : 1};
    for (size_t i = 0; i < dbpg->columns.n_slices; i++)
        numbers[0] += pass->sums[i].value;
    for (size_t j = 0; j < dbpg->columns.n_features; j++)
        if (dbpg->weights[j] != 0)
            numbers[0] +=
                penalty_share(dbpg, j) *
                penalty(dbpg, dbpg->weights[j] + pass->length * dbpg->subspace.weights[j]);
    ok = sum_up(dbpg, ok, 2, numbers);
    *value = numbers[0];
    return ok;
}

/* Moves the margins, and makes what has happened since the last step the newest direction. */
static bool move_margins(void *context, size_t thread)
{
    const struct pass *pass = context;
    const struct slice *slice = &pass->dbpg->columns.slices[thread];
    double *along = pass->dbpg->subspace.margins[thread];
    double *changes = pass->dbpg->subspace.margin_changes[thread] + pass->slot;
    for (size_t i = 0; i < slice->n_rows; i++) {
        changes[i * SUBSPACE_MAX] += pass->length * along[i];
        slice->margins[i] += pass->length * along[i];
        along[i] = slice->margins[i];
    }
    return true;
}

/* Sets the weights that have moved, from feature *at on, as many as are pushed at a time: a push for each block would take a
 * round trip for each of them. */
static bool set_some(struct dbpg *dbpg, const struct pass *pass, size_t *at)
{
    const struct dbpg_space *space = &dbpg->spaces[0];
    size_t n = 0;
    for (; *at < dbpg->columns.n_features && n < DBPG_AT_ONCE; ++*at) {
        const size_t j = *at;
        const double change = pass->length * dbpg->subspace.weights[j];
        if (change != 0) {
            dbpg->weights[j] += change;
            dbpg->subspace.weight_changes[j * SUBSPACE_MAX + pass->slot] += change;
            coordinate_set(dbpg->weights[j], space->rows + n * COORDINATE_LENGTH);
            space->features[n++] = (uint32_t)j;
        }
        dbpg->subspace.weights[j] = dbpg->weights[j];
    }
    return n == 0 || dbpg_push_rows(dbpg, 0, space->features, n);
}

static bool move(struct pass *pass)
{
    struct dbpg *dbpg = pass->dbpg;
    bool ok = team_run(dbpg->columns.n_slices, move_margins, NULL, pass);
    for (size_t at = 0; ok && at < dbpg->columns.n_features;)
        ok = set_some(dbpg, pass, &at);
    return train_agree(dbpg->train, ok);
}

/* Looks for a length at which the objective falls by a tenth of what its slope promises; 0 if there is none. */
static bool find_length(struct pass *pass, const struct sums *sums, double descent)
{
    bool ok = team_run(pass->dbpg->columns.n_slices, direct_margins, NULL, pass);
    direct_weights(pass);
    pass->length = 1;
    for (int i = 0; ok && i < N_HALVINGS; i++, pass->length /= 2) {
        double value = 0;
        ok = try_length(pass, &value);
        if (value <= sums->value + 0.1 * pass->length * descent)
            return ok;
    }
    pass->length = 0;
    return ok;
}

bool subspace_step(struct dbpg *dbpg, bool ok)
{
    struct subspace *space = &dbpg->subspace;
    struct sums sums;
    double step[SUBSPACE_MAX], descent = 0;
    struct pass *pass = malloc(sizeof *pass + dbpg->columns.n_slices * sizeof *pass->sums);
    ok = ok && (pass != NULL || task_fail_memory("the step"));
    if (!train_agree(dbpg->train, ok)) {
        free(pass);
        return false;
    }
    *pass = (struct pass){.dbpg = dbpg, .slot = space->next, .step = step};
    space->next = (space->next + 1) % SUBSPACE_MAX;
    space->n += space->n < SUBSPACE_MAX;
    space->n_steps++;
    note_weights(dbpg, pass->slot);
    ok = team_run(dbpg->columns.n_slices, note_margins, NULL, pass);
    take_out_zero_weights(dbpg);
    ok = add_all(pass, ok, &sums);
    if (sums.newest <= LEAST_CHANGE * LEAST_CHANGE * sums.size) {
        subspace_reset(dbpg);
        free(pass);
        return ok;
    }
    const bool is_solved = subspace_solve(space->n, sums.curvature, sums.slopes, step);
    for (size_t k = 0; k < space->n; k++) {
        step[k] = is_solved ? -step[k] : 0;
        descent += step[k] * sums.slopes[k];
    }
    ok = ok && find_length(pass, &sums, descent) && move(pass);
    free(pass);
    return ok;
}
