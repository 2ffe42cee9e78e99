/* dbpg_job - what a thread computes in a job. See dbpg.h. */
#include "linear/dbpg_job.h"

#include <math.h>
#include <stdlib.h>

#include "common/dense.h"
#include "linear/coordinate.h"
#include "linear/losses.h"

/* First derivative of a row's loss, and the bound of the second one, both with the weight of the example. */
struct dbpg_slope {
    float first, second;
};

enum {
    GROWTHS = 32,
    MANY_ROWS = 16, /* more pairs than this share of the rows are many */
};

static const float MAX_LOGISTIC = 80; /* of what dense_logistic() takes */

/* ---- Memory ----------------------------------------------------------------------------------- */

static void free_flights(struct dbpg_flight *flights, size_t n_flights)
{
    for (size_t i = 0; flights != NULL && i < n_flights; i++) {
        free(flights[i].features);
        free(flights[i].keys);
        free(flights[i].rows);
    }
    free(flights);
}

static struct dbpg_flight *make_flights(size_t n_flights, size_t n_most)
{
    struct dbpg_flight *flights = calloc(n_flights, sizeof *flights);
    bool ok = flights != NULL;
    for (size_t i = 0; ok && i < n_flights; i++) {
        struct dbpg_flight *flight = &flights[i];
        flight->features = malloc(n_most * sizeof *flight->features);
        flight->keys = malloc(n_most * sizeof *flight->keys);
        flight->rows = malloc(n_most * COORDINATE_LENGTH * sizeof *flight->rows);
        ok = flight->features != NULL && flight->keys != NULL && flight->rows != NULL;
    }
    if (ok)
        return flights;
    free_flights(flights, n_flights);
    return NULL;
}

bool dbpg_space_init(struct dbpg_space *space, const struct dbpg *dbpg, size_t thread)
{
    const size_t n_flights = (size_t)dbpg->options->delay + 1;
    const size_t n_rows = dbpg->columns.slices[thread].n_rows + 1;
    size_t n_most = 1;
    for (size_t b = 0; b < dbpg->columns.n_blocks; b++) {
        size_t n = dbpg->columns.block_start[b + 1] - dbpg->columns.block_start[b];
        n_most = n > n_most ? n : n_most;
    }
    const size_t n_at_once = thread == 0 && n_most < DBPG_AT_ONCE ? DBPG_AT_ONCE : n_most;
    *space =
        (struct dbpg_space){.features = malloc(n_at_once * sizeof *space->features),
                            .keys = malloc(n_at_once * sizeof *space->keys),
                            .rows = malloc(n_at_once * COORDINATE_LENGTH * sizeof *space->rows),
                            .partials = malloc(2 * n_most * sizeof *space->partials),
                            .n_active = calloc(n_rows, sizeof *space->n_active),
                            .n_flying = calloc(n_rows, sizeof *space->n_flying),
                            .touched = malloc(n_rows * sizeof *space->touched),
                            .logistic = malloc(n_rows * sizeof *space->logistic),
                            .slopes = malloc(n_rows * sizeof *space->slopes),
                            .asked = make_flights(n_flights, n_most),
                            .sent = make_flights(n_flights, n_most)};
    return space->features != NULL && space->keys != NULL && space->rows != NULL &&
           space->partials != NULL && space->n_active != NULL && space->n_flying != NULL &&
           space->touched != NULL && space->logistic != NULL && space->slopes != NULL &&
           space->asked != NULL && space->sent != NULL;
}

void dbpg_space_fini(struct dbpg_space *space, const struct dbpg *dbpg)
{
    const size_t n_flights = (size_t)dbpg->options->delay + 1;
    free_flights(space->asked, n_flights);
    free_flights(space->sent, n_flights);
    free(space->features);
    free(space->keys);
    free(space->rows);
    free(space->partials);
    free(space->n_active);
    free(space->n_flying);
    free(space->touched);
    free(space->logistic);
    free(space->slopes);
}

/* ---- Rows ------------------------------------------------------------------------------------- */

static const uint64_t *gather_keys(const struct dbpg *dbpg, const uint32_t *features, size_t n,
                                   uint64_t *keys)
{
    for (size_t i = 0; i < n; i++)
        keys[i] = dbpg->columns.keys[features[i]];
    return keys;
}

static void pull_plain(const struct dbpg *dbpg, const uint32_t *features, size_t n, double *rows)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < COORDINATE_LENGTH; k++)
            rows[i * COORDINATE_LENGTH + k] =
                dbpg->rows[features[i] * (size_t)COORDINATE_LENGTH + k];
}

static void push_plain(struct dbpg *dbpg, const uint32_t *features, size_t n, const double *updates)
{
    for (size_t i = 0; i < n; i++)
        dbpg->updater.apply(&dbpg->updater, TERN_F64, COORDINATE_LENGTH,
                            dbpg->rows + features[i] * (size_t)COORDINATE_LENGTH,
                            dbpg->states + features[i] * (size_t)COORDINATE_STATE,
                            updates + i * COORDINATE_LENGTH);
}

bool dbpg_pull_rows(struct dbpg *dbpg, size_t thread, const uint32_t *features, size_t n)
{
    const struct dbpg_space *space = &dbpg->spaces[thread];
    if (dbpg->table != NULL)
        return !tern_pull(train_worker(dbpg->train, thread), dbpg->table,
                          gather_keys(dbpg, features, n, space->keys), n, space->rows) ||
               task_fail_tern("cannot pull");
    pull_plain(dbpg, features, n, space->rows);
    return true;
}

bool dbpg_push_rows(struct dbpg *dbpg, size_t thread, const uint32_t *features, size_t n)
{
    const struct dbpg_space *space = &dbpg->spaces[thread];
    if (dbpg->table != NULL)
        return !tern_push(train_worker(dbpg->train, thread), dbpg->table,
                          gather_keys(dbpg, features, n, space->keys), n, space->rows) ||
               task_fail_tern("cannot push");
    push_plain(dbpg, features, n, space->rows);
    return true;
}

static struct dbpg_flight *flight_of(const struct dbpg *dbpg, struct dbpg_flight *flights,
                                     uint64_t number)
{
    return &flights[number % ((uint64_t)dbpg->options->delay + 1)];
}

size_t dbpg_list(const struct dbpg *dbpg, size_t thread, const struct dbpg_job *job)
{
    const size_t *start = &dbpg->columns.block_start[job->block];
    uint32_t *features = dbpg->spaces[thread].features;
    size_t n = 0;
    for (size_t j = start[0]; j < start[1]; j++) {
        features[n] = (uint32_t)j;
        n += job->is_full || dbpg->radii[j] > 0;
    }
    return n;
}

/* The thread's share of n things: *first .. the result - 1. */
static size_t share(const struct dbpg *dbpg, size_t thread, size_t n, size_t *first)
{
    *first = n * thread / dbpg->columns.n_slices;
    return n * (thread + 1) / dbpg->columns.n_slices;
}

/* ---- Fetching --------------------------------------------------------------------------------- */

bool dbpg_ask(struct dbpg *dbpg, size_t thread, uint64_t number, const struct dbpg_job *job)
{
    struct dbpg_flight *flight = flight_of(dbpg, dbpg->spaces[thread].asked, number);
    const size_t *start = &dbpg->columns.block_start[job->block];
    size_t first, end = share(dbpg, thread, start[1] - start[0], &first), n = 0;
    for (size_t j = start[0] + first; j < start[0] + end; j++) {
        flight->features[n] = (uint32_t)j;
        n += job->is_full || dbpg->radii[j] > 0;
    }
    flight->n = n;
    if (dbpg->table != NULL)
        return !tern_pull_start(train_worker(dbpg->train, thread), dbpg->table,
                                gather_keys(dbpg, flight->features, n, flight->keys), n,
                                flight->rows, &flight->ticket) ||
               task_fail_tern("cannot pull");
    pull_plain(dbpg, flight->features, n, flight->rows);
    return true;
}

bool dbpg_take(struct dbpg *dbpg, size_t thread, uint64_t number, const struct dbpg_job *job)
{
    struct dbpg_flight *flight = flight_of(dbpg, dbpg->spaces[thread].asked, number);
    const size_t *start = &dbpg->columns.block_start[job->block];
    size_t first, end = share(dbpg, thread, start[1] - start[0], &first);
    if (flight->ticket != 0 && tern_wait(train_worker(dbpg->train, thread), flight->ticket))
        return task_fail_tern("cannot pull");
    flight->ticket = 0;
    for (size_t j = start[0] + first; j < start[0] + end; j++)
        dbpg->changes[j] = 0;
    for (size_t i = 0; i < flight->n; i++) {
        const double *row = flight->rows + i * COORDINATE_LENGTH;
        const uint32_t feature = flight->features[i];
        dbpg->changes[feature] = row[COORDINATE_WEIGHT] - dbpg->weights[feature];
        dbpg->weights[feature] = row[COORDINATE_WEIGHT];
        dbpg->radii[feature] = row[COORDINATE_RADIUS];
        dbpg->violations[feature] = row[COORDINATE_VIOLATION];
    }
    return true;
}

void dbpg_move(const struct slice *slice, size_t feature, double change)
{
    if (change == 0)
        return;
    for (size_t i = slice->start[feature]; i < slice->start[feature + 1]; i++)
        slice->margins[slice->rows[i]] += change * (double)slice->values[i];
}

void dbpg_apply(struct dbpg *dbpg, size_t thread, const struct dbpg_job *job)
{
    const size_t *start = &dbpg->columns.block_start[job->block];
    for (size_t j = start[0]; j < start[1]; j++)
        dbpg_move(&dbpg->columns.slices[thread], j, dbpg->changes[j]);
}

/* ---- Slopes ----------------------------------------------------------------------------------- */

/* Counts the active features of each row; lists the rows that have some. Where they are many, a pass over all rows lists them in
 * ascending order, in which what is known of them is read faster. */
static size_t touch_rows(const struct dbpg *dbpg, size_t thread, size_t n_active)
{
    const struct slice *slice = &dbpg->columns.slices[thread];
    const struct dbpg_space *space = &dbpg->spaces[thread];
    size_t n = 0, n_pairs = 0;
    for (size_t k = 0; k < n_active; k++)
        n_pairs += slice->start[space->features[k] + 1] - slice->start[space->features[k]];
    const bool are_many = n_pairs > slice->n_rows / MANY_ROWS;
    for (size_t k = 0; k < n_active; k++) {
        const uint32_t feature = space->features[k];
        for (size_t i = slice->start[feature]; i < slice->start[feature + 1]; i++) {
            const uint32_t row = slice->rows[i];
            if (!are_many) {
                space->touched[n] = row;
                n += space->n_active[row] == 0;
            }
            space->n_active[row]++;
        }
    }
    for (uint32_t row = 0; are_many && row < slice->n_rows; row++) {
        space->touched[n] = row;
        n += space->n_active[row] != 0;
    }
    return n;
}

void dbpg_land(struct dbpg *dbpg, size_t thread, const struct dbpg_job *job)
{
    const struct slice *slice = &dbpg->columns.slices[thread];
    const struct dbpg_space *space = &dbpg->spaces[thread];
    const size_t n_active = dbpg->options->delay > 0 ? dbpg_list(dbpg, thread, job) : 0;
    for (size_t k = 0; k < n_active; k++) {
        const uint32_t feature = space->features[k];
        for (size_t i = slice->start[feature]; i < slice->start[feature + 1]; i++)
            space->n_flying[slice->rows[i]]--;
    }
}

/* How many features share the change of a row: those of the block, and those of jobs that are not fetched yet, before this
 * one and, on average as many, after it. Takes note of the row's features and forgets their number. */
static uint32_t count_sharers(const struct dbpg *dbpg, const struct dbpg_space *space, uint32_t row)
{
    const uint32_t n_own = space->n_active[row], n_flying = space->n_flying[row];
    space->n_active[row] = 0;
    if (dbpg->options->delay > 0)
        space->n_flying[row] += n_own;
    return n_own + 2 * n_flying;
}

/* The largest change of a margin that one active feature may make. */
static double largest_move(const struct dbpg *dbpg, size_t thread, size_t n_active)
{
    double largest = 0;
    for (size_t k = 0; k < n_active; k++) {
        const uint32_t feature = dbpg->spaces[thread].features[k];
        largest =
            fmax(largest, fabs(dbpg->radii[feature]) * (double)dbpg->columns.largest[feature]);
    }
    return largest;
}

/* Within a distance r, p(1 - p) grows by at most e^r, and it is never above 1/4. */
static void logistic_slopes(const struct dbpg *dbpg, size_t thread, size_t n, double move)
{
    const struct slice *slice = &dbpg->columns.slices[thread];
    const struct dbpg_space *space = &dbpg->spaces[thread];
    float growth[GROWTHS];
    for (int i = 0; i < GROWTHS; i++)
        growth[i] = (float)fmin(exp(i * move), 1e30);
    for (size_t i = 0; i < n; i++) {
        const uint32_t row = space->touched[i];
        float margin = -slice->labels[row] * (float)slice->margins[row];
        margin = margin > -MAX_LOGISTIC ? margin : -MAX_LOGISTIC; /* no call of fmaxf */
        space->logistic[i] = margin < MAX_LOGISTIC ? margin : MAX_LOGISTIC;
    }
    dense_sigmoid(space->logistic, n);
    for (size_t i = 0; i < n; i++) {
        const uint32_t row = space->touched[i], count = count_sharers(dbpg, space, row);
        const float p = space->logistic[i], weight = slice->weights[row];
        const float bound = p * (1 - p) * growth[count < GROWTHS ? count : GROWTHS - 1];
        space->slopes[row].first = -slice->labels[row] * p * weight;
        space->slopes[row].second =
            weight * (float)count * (count < GROWTHS && bound < 0.25f ? bound : 0.25f);
    }
}

static void other_slopes(const struct dbpg *dbpg, size_t thread, size_t n, double move)
{
    const struct slice *slice = &dbpg->columns.slices[thread];
    const struct dbpg_space *space = &dbpg->spaces[thread];
    const enum loss_kind loss = dbpg->options->loss;
    for (size_t i = 0; i < n; i++) {
        const uint32_t row = space->touched[i], count = count_sharers(dbpg, space, row);
        const double label = (double)slice->labels[row], margin = slice->margins[row];
        const double weight = (double)slice->weights[row];
        double second = 1;
        if (loss == LOSS_SQUARED_HINGE)
            second = 1 - label * margin > -(double)count * move ? 2 : 0;
        space->slopes[row].first = (float)(weight * loss_slope(loss, margin, label));
        space->slopes[row].second = (float)(weight * (double)count * second);
    }
}

static void add_up(const struct slice *slice, const struct dbpg_slope *slopes, size_t feature,
                   double partial[2])
{
    double first = 0, second = 0;
    for (size_t i = slice->start[feature]; i < slice->start[feature + 1]; i++) {
        const struct dbpg_slope slope = slopes[slice->rows[i]];
        const float value = slice->values[i];
        first += (double)(slope.first * value);
        second += (double)(slope.second * value * value);
    }
    partial[0] = first;
    partial[1] = second;
}

size_t dbpg_measure(struct dbpg *dbpg, size_t thread, const struct dbpg_job *job)
{
    const struct dbpg_space *space = &dbpg->spaces[thread];
    const size_t n_active = dbpg_list(dbpg, thread, job);
    const size_t n_touched = touch_rows(dbpg, thread, n_active);
    const double move = largest_move(dbpg, thread, n_active);
    if (dbpg->options->loss == LOSS_LOGISTIC)
        logistic_slopes(dbpg, thread, n_touched, move);
    else
        other_slopes(dbpg, thread, n_touched, move);
    for (size_t k = 0; k < n_active; k++)
        add_up(&dbpg->columns.slices[thread], space->slopes, space->features[k],
               space->partials + 2 * k);
    return n_active;
}

/* The thread's share of what all threads have measured. */
static void add_partials(const struct dbpg *dbpg, size_t thread, size_t n_active,
                         struct dbpg_flight *flight)
{
    size_t first, end = share(dbpg, thread, n_active, &first);
    flight->n = end - first;
    for (size_t k = first; k < end; k++) {
        double *update = flight->rows + (k - first) * COORDINATE_LENGTH;
        flight->features[k - first] = dbpg->spaces[thread].features[k];
        update[COORDINATE_SLOPE] = update[COORDINATE_CURVATURE] = update[COORDINATE_VIOLATION] = 0;
        for (size_t s = 0; s < dbpg->columns.n_slices; s++) {
            update[COORDINATE_SLOPE] += dbpg->spaces[s].partials[2 * k];
            update[COORDINATE_CURVATURE] += dbpg->spaces[s].partials[2 * k + 1];
        }
    }
}

bool dbpg_send(struct dbpg *dbpg, size_t thread, uint64_t number, size_t n_active)
{
    struct dbpg_space *space = &dbpg->spaces[thread];
    struct dbpg_flight *flight = flight_of(dbpg, space->sent, number);
    add_partials(dbpg, thread, n_active, flight);
    space->n_sent = number;
    if (dbpg->table != NULL)
        return !tern_push_start(train_worker(dbpg->train, thread), dbpg->table,
                                gather_keys(dbpg, flight->features, flight->n, flight->keys),
                                flight->n, flight->rows, &flight->ticket) ||
               task_fail_tern("cannot push");
    push_plain(dbpg, flight->features, flight->n, flight->rows);
    return true;
}

bool dbpg_confirm(struct dbpg *dbpg, size_t thread, bool waits, bool *has_arrived)
{
    struct dbpg_space *space = &dbpg->spaces[thread];
    struct dbpg_flight *flight = flight_of(dbpg, space->sent, space->n_confirmed + 1);
    *has_arrived = true;
    if (flight->ticket != 0) {
        struct tern_worker *worker = train_worker(dbpg->train, thread);
        if (waits ? tern_wait(worker, flight->ticket)
                  : tern_test(worker, flight->ticket, has_arrived))
            return task_fail_tern("cannot push");
    }
    if (*has_arrived) {
        flight->ticket = 0;
        space->n_confirmed++;
    }
    return true;
}

double dbpg_loss(const struct dbpg *dbpg, size_t thread)
{
    return losses_sum(dbpg->options->loss, &dbpg->columns.slices[thread], NULL, 0);
}
