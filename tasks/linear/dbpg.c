/* dbpg - the delayed block proximal gradient method: epochs, jobs and the table. See dbpg.h; dbpg_job.c computes. */
#include "linear/dbpg.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/rng.h"
#include "linear/coordinate.h"
#include "linear/dbpg_job.h"

enum { REOPEN_EVERY = 8, PULL_AT_ONCE = 1024 };

static const char FUNCTION[] = "linear-job";

/* ---- Opening ---------------------------------------------------------------------------------- */

static bool open_table(struct dbpg *dbpg)
{
    const struct tern_placement placement = placement_of_keys(&dbpg->train->placement);
    const bool is_placed = dbpg->train->placement.folder != NULL;
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .index = TERN_SPARSE,
                                               .placement = is_placed ? &placement : NULL,
                                               .type = TERN_F64,
                                               .length = COORDINATE_LENGTH,
                                               .updater = dbpg->updater,
                                               .policy = "static",
                                               .filters = dbpg->train->options->filters};
    if (tern_table_open(dbpg->train->node, "weights", &options, &dbpg->table))
        return task_fail_tern("cannot open a table");
    train_watch(dbpg->train, dbpg->table);
    return true;
}

static bool allocate(struct dbpg *dbpg)
{
    const size_t n = dbpg->columns.n_features + 1, n_blocks = dbpg->columns.n_blocks;
    const bool plain = dbpg->train->node == NULL;
    dbpg->rows = calloc(plain ? n * COORDINATE_LENGTH : 1, sizeof *dbpg->rows);
    dbpg->states = calloc(plain ? n * COORDINATE_STATE : 1, sizeof *dbpg->states);
    dbpg->weights = calloc(n, sizeof *dbpg->weights);
    dbpg->radii = calloc(n, sizeof *dbpg->radii);
    dbpg->violations = calloc(n, sizeof *dbpg->violations);
    dbpg->changes = calloc(n, sizeof *dbpg->changes);
    dbpg->n_sharers = calloc(n, sizeof *dbpg->n_sharers);
    dbpg->last_job = calloc(n_blocks, sizeof *dbpg->last_job);
    dbpg->jobs = calloc(n_blocks, sizeof *dbpg->jobs);
    dbpg->spaces = calloc(dbpg->columns.n_slices, sizeof *dbpg->spaces);
    bool ok = dbpg->rows != NULL && dbpg->states != NULL && dbpg->weights != NULL &&
              dbpg->radii != NULL && dbpg->violations != NULL && dbpg->changes != NULL &&
              dbpg->n_sharers != NULL && dbpg->last_job != NULL && dbpg->jobs != NULL &&
              dbpg->spaces != NULL;
    for (size_t i = 0; ok && i < dbpg->columns.n_slices; i++)
        ok = dbpg_space_init(&dbpg->spaces[i], dbpg, i);
    ok = ok && subspace_init(dbpg);
    return ok || task_fail_memory("the solver");
}

/* Lists the features from `first` on, as many as are pushed or pulled at a time: block by block would take a round trip for each
 * of them. */
static size_t list_some(struct dbpg *dbpg, size_t first)
{
    const size_t left = dbpg->columns.n_features - first;
    const size_t n = left < DBPG_AT_ONCE ? left : DBPG_AT_ONCE;
    for (size_t i = 0; i < n; i++)
        dbpg->spaces[0].features[i] = (uint32_t)(first + i);
    return n;
}

/* Tells some features that this node will push to them. */
static bool join_some(struct dbpg *dbpg, size_t first)
{
    const struct dbpg_space *space = &dbpg->spaces[0];
    const size_t n = list_some(dbpg, first);
    const bool is_free = dbpg->options->intercept == LINEAR_FREE;
    for (size_t i = 0; i < n; i++)
        coordinate_join(is_free && dbpg->columns.keys[space->features[i]] == LINEAR_INTERCEPT_KEY,
                        space->rows + i * COORDINATE_LENGTH);
    return dbpg_push_rows(dbpg, 0, space->features, n);
}

/* Learns the first weights, which a resumed model has, and how many nodes have each feature. */
static bool learn_some(struct dbpg *dbpg, size_t first)
{
    const struct dbpg_space *space = &dbpg->spaces[0];
    const size_t n = list_some(dbpg, first);
    if (!dbpg_pull_rows(dbpg, 0, space->features, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        const double *row = space->rows + i * COORDINATE_LENGTH;
        const uint32_t feature = space->features[i];
        dbpg->weights[feature] = row[COORDINATE_WEIGHT];
        dbpg->radii[feature] = row[COORDINATE_RADIUS];
        dbpg->n_sharers[feature] = (float)row[COORDINATE_VIOLATION];
        for (size_t k = 0; k < dbpg->columns.n_slices; k++)
            dbpg_move(&dbpg->columns.slices[k], feature, row[COORDINATE_WEIGHT]);
    }
    return true;
}

static bool for_all(struct dbpg *dbpg, bool (*function)(struct dbpg *dbpg, size_t first))
{
    bool ok = true;
    for (size_t first = 0; ok && first < dbpg->columns.n_features; first += DBPG_AT_ONCE)
        ok = function(dbpg, first);
    return ok;
}

bool dbpg_begin(struct dbpg *dbpg)
{
    bool ok = train_agree(dbpg->train, for_all(dbpg, join_some)) && train_quiesce(dbpg->train) &&
              train_agree(dbpg->train, for_all(dbpg, learn_some));
    subspace_reset(dbpg);
    dbpg->is_settled = true;
    return ok;
}

static enum tern_status run_task(void *context, struct tern_task *task);

bool dbpg_open(struct dbpg *dbpg, struct train *train, const struct linear_options *options)
{
    dbpg->train = train;
    dbpg->options = options;
    dbpg->updater = coordinate_updater(options->l1, options->l2, options->kkt);
    pthread_mutex_init(&dbpg->gate.lock, NULL);
    pthread_cond_init(&dbpg->gate.moved, NULL);
    dbpg->has_barrier = pthread_barrier_init(&dbpg->barrier, NULL, (unsigned)train->n_threads) == 0;
    bool ok = (dbpg->has_barrier || task_fail_memory("the solver")) && allocate(dbpg) &&
              (train->node == NULL || open_table(dbpg));
    if (ok && train->node != NULL && tern_function_register(train->node, FUNCTION, run_task, dbpg))
        ok = task_fail_tern("cannot register a function");
    return ok;
}

void dbpg_close(struct dbpg *dbpg)
{
    for (size_t i = 0; dbpg->spaces != NULL && i < dbpg->columns.n_slices; i++)
        dbpg_space_fini(&dbpg->spaces[i], dbpg);
    free(dbpg->spaces);
    free(dbpg->rows);
    free(dbpg->states);
    free(dbpg->weights);
    free(dbpg->radii);
    free(dbpg->violations);
    free(dbpg->changes);
    free(dbpg->n_sharers);
    free(dbpg->last_job);
    free(dbpg->jobs);
    if (dbpg->has_barrier) {
        pthread_barrier_destroy(&dbpg->barrier);
        pthread_cond_destroy(&dbpg->gate.moved);
        pthread_mutex_destroy(&dbpg->gate.lock);
    }
    subspace_fini(dbpg);
    columns_fini(&dbpg->columns);
}

/* ---- The order of jobs ------------------------------------------------------------------------ */

bool dbpg_is_full(const struct linear_options *options, int64_t epoch)
{
    return options->kkt >= 1 || options->l1 <= 0 || epoch % REOPEN_EVERY <= 2;
}

static uint32_t n_recent(const struct dbpg *dbpg)
{
    return sizeof dbpg->recent / sizeof *dbpg->recent;
}

/* Draws the blocks of an epoch, the same at all nodes. No block comes again before its last job was fetched. */
static void draw_jobs(struct dbpg *dbpg, int64_t epoch)
{
    struct rng rng = rng_seed((uint64_t)dbpg->train->options->seed, (uint64_t)epoch);
    const size_t n = dbpg->columns.n_blocks;
    const uint64_t apart = (uint64_t)dbpg->options->delay + 1;
    for (size_t i = 0; i < n; i++)
        dbpg->jobs[i] = (struct dbpg_job){i, dbpg_is_full(dbpg->options, epoch)};
    for (size_t i = 0; i < n; i++) {
        const uint64_t number = dbpg->n_jobs + i + 1;
        size_t pick = i + rng_below(&rng, n - i);
        for (uint64_t last;
             (last = dbpg->last_job[dbpg->jobs[pick].block]) > 0 && number - last <= apart;)
            pick = pick + 1 < n ? pick + 1 : i;
        struct dbpg_job job = dbpg->jobs[pick];
        dbpg->jobs[pick] = dbpg->jobs[i];
        dbpg->jobs[i] = job;
        dbpg->last_job[job.block] = number;
    }
}

/* ---- Tasks ------------------------------------------------------------------------------------ */

/* Runs at every node as job t: lets the threads do it, and returns when they have. */
static enum tern_status run_task(void *context, struct tern_task *task)
{
    struct dbpg *dbpg = context;
    struct dbpg_gate *gate = &dbpg->gate;
    uint64_t number;
    memcpy(&number, task->argument, sizeof number);
    pthread_mutex_lock(&gate->lock);
    gate->started[number % (DBPG_MAX_DELAY + 1)] = number;
    pthread_cond_broadcast(&gate->moved);
    while (gate->n_done < number && !gate->has_failed)
        pthread_cond_wait(&gate->moved, &gate->lock);
    const bool ok = !gate->has_failed;
    pthread_mutex_unlock(&gate->lock);
    if (!ok)
        snprintf(task->trouble, sizeof task->trouble, "node %u has failed", dbpg->train->self);
    return ok ? TERN_OK : TERN_PEER;
}

static bool submit_jobs(struct dbpg *dbpg)
{
    struct tern_worker *worker = train_worker(dbpg->train, 0);
    if (tern_task_delay(worker, (uint64_t)dbpg->options->delay))
        return task_fail_tern("cannot set the delay of tasks");
    for (size_t i = 0; i < dbpg->columns.n_blocks; i++) {
        uint64_t number = dbpg->n_jobs + i + 1, id;
        const struct tern_task_options options = {.struct_size = sizeof options,
                                                  .function = FUNCTION,
                                                  .argument = &number,
                                                  .argument_bytes = sizeof number};
        if (tern_task_submit(worker, &options, &id))
            return task_fail_tern("cannot submit a task");
    }
    return true;
}

/* Reads the rows of a block, which are at many nodes: fails when one of them is dead. */
static bool probe(struct dbpg *dbpg)
{
    const size_t n = dbpg_list(dbpg, 0, &(struct dbpg_job){0, true});
    return dbpg_pull_rows(dbpg, 0, dbpg->spaces[0].features, n);
}

/* Waits until job `number` may start, or for a second; says whether it may. */
static bool has_started(struct dbpg *dbpg, uint64_t number, bool waits)
{
    struct dbpg_gate *gate = &dbpg->gate;
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec++;
    pthread_mutex_lock(&gate->lock);
    int error = 0;
    while (waits && error != ETIMEDOUT && !gate->has_failed &&
           gate->started[number % (DBPG_MAX_DELAY + 1)] != number)
        error = pthread_cond_timedwait(&gate->moved, &gate->lock, &deadline);
    const bool has = gate->started[number % (DBPG_MAX_DELAY + 1)] == number || gate->has_failed;
    pthread_mutex_unlock(&gate->lock);
    return has;
}

/* Tells what a thread has confirmed: the tasks of jobs that all threads have confirmed return, and all tasks when something
 * has failed. */
static void open_gate(struct dbpg *dbpg, size_t thread, bool has_failed)
{
    struct dbpg_gate *gate = &dbpg->gate;
    pthread_mutex_lock(&gate->lock);
    dbpg->spaces[thread].n_told = dbpg->spaces[thread].n_confirmed;
    gate->n_done = UINT64_MAX;
    for (size_t i = 0; i < dbpg->columns.n_slices; i++)
        if (dbpg->spaces[i].n_told < gate->n_done)
            gate->n_done = dbpg->spaces[i].n_told;
    gate->has_failed |= has_failed;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}

/* What the first thread waits for counts, where there are others to wait for. */
static double waiting_since(const struct dbpg *dbpg, size_t thread)
{
    return thread == 0 && dbpg->train->n_nodes > 1 ? seconds_now() : 0;
}

static void end_waiting(struct dbpg *dbpg, double since_s)
{
    if (since_s > 0)
        dbpg->waited_s += seconds_now() - since_s;
}

/* ---- Epochs ----------------------------------------------------------------------------------- */

static bool has_failed(struct dbpg *dbpg)
{
    return atomic_load_explicit(&dbpg->has_failed, memory_order_relaxed);
}

/* Notes whether this thread's part has gone well, and waits for the other threads. */
static bool meet(struct dbpg *dbpg, bool ok)
{
    if (!ok)
        atomic_store_explicit(&dbpg->has_failed, true, memory_order_relaxed);
    pthread_barrier_wait(&dbpg->barrier);
    return ok;
}

/* The job that is fetched before job `number`; NULL: none. */
static const struct dbpg_job *job_due(const struct dbpg *dbpg, uint64_t number)
{
    const uint64_t apart = (uint64_t)dbpg->options->delay + 1;
    if (number <= apart || number - apart <= dbpg->n_fetched)
        return NULL;
    return &dbpg->recent[(number - apart) % n_recent(dbpg)];
}

/* Confirms jobs that this thread has sent: those that have arrived; with `waits`, the oldest one at least. */
static bool confirm_some(struct dbpg *dbpg, size_t thread, bool waits)
{
    const struct dbpg_space *space = &dbpg->spaces[thread];
    const uint64_t before = space->n_confirmed;
    bool ok = true, has_arrived = true;
    for (; ok && has_arrived && space->n_confirmed < space->n_sent; waits = false)
        ok = dbpg_confirm(dbpg, thread, waits, &has_arrived);
    if (dbpg->train->n_nodes > 1 && (!ok || space->n_confirmed > before))
        open_gate(dbpg, thread, !ok);
    return ok;
}

/* Waits until job `number` may start. What this thread waits for first is its own pushes, without which others cannot go
 * on; then the first thread looks every second whether the other nodes are still there. */
static bool await_start(struct dbpg *dbpg, size_t thread, uint64_t number)
{
    const struct dbpg_space *space = &dbpg->spaces[thread];
    bool ok = confirm_some(dbpg, thread, false);
    while (ok && !has_started(dbpg, number, space->n_confirmed == space->n_sent)) {
        if (space->n_confirmed < space->n_sent)
            ok = confirm_some(dbpg, thread, true);
        else if (thread == 0)
            ok = probe(dbpg);
    }
    if (!ok)
        open_gate(dbpg, thread, true);
    return ok;
}

/* Asks for the weights that job `number` needs, and later ones of this epoch that have started. */
static bool ask_ahead(struct dbpg *dbpg, size_t thread, uint64_t number)
{
    struct dbpg_space *space = &dbpg->spaces[thread];
    const uint64_t delay = (uint64_t)dbpg->options->delay;
    bool ok = true;
    if (space->n_asked < number - 1)
        space->n_asked = number - 1;
    while (ok && space->n_asked < number + delay) {
        const uint64_t next = space->n_asked + 1;
        if (next > number && (dbpg->train->n_nodes == 1 || !has_started(dbpg, next, false)))
            break;
        const struct dbpg_job *due = job_due(dbpg, next);
        ok = due == NULL || dbpg_ask(dbpg, thread, next - delay - 1, due);
        space->n_asked = next;
    }
    return ok;
}

/* Waits until a job may start, and gets the weights on their way that it and later ones need. */
static bool begin_job(struct dbpg *dbpg, size_t thread, uint64_t number)
{
    const double since_s = waiting_since(dbpg, thread);
    bool ok = dbpg->train->n_nodes == 1 ? confirm_some(dbpg, thread, false)
                                        : await_start(dbpg, thread, number);
    ok = ok && ask_ahead(dbpg, thread, number);
    end_waiting(dbpg, since_s);
    return ok;
}

/* A thread's part of one job; `ok` is whether it has not failed yet. */
static bool do_job(struct dbpg *dbpg, size_t thread, uint64_t number, const struct dbpg_job *job,
                   bool ok)
{
    const bool is_leader = thread == 0;
    const uint64_t due_number = number - (uint64_t)dbpg->options->delay - 1;
    const struct dbpg_job *due = job_due(dbpg, number);
    if (due != NULL)
        dbpg_land(dbpg, thread, due);
    ok = ok && begin_job(dbpg, thread, number);
    meet(dbpg, ok);
    double since_s = waiting_since(dbpg, thread);
    if (due != NULL && !has_failed(dbpg))
        ok = dbpg_take(dbpg, thread, due_number, due) && ok;
    end_waiting(dbpg, since_s);
    meet(dbpg, ok);
    size_t n_active = 0;
    if (!has_failed(dbpg)) {
        if (due != NULL)
            dbpg_apply(dbpg, thread, due);
        n_active = dbpg_measure(dbpg, thread, job);
    }
    meet(dbpg, ok);
    since_s = waiting_since(dbpg, thread);
    if (!has_failed(dbpg))
        ok = dbpg_send(dbpg, thread, number, n_active) && ok;
    end_waiting(dbpg, since_s);
    if (is_leader) {
        dbpg->recent[number % n_recent(dbpg)] = *job;
        if (due != NULL)
            dbpg->n_fetched = due_number;
    }
    meet(dbpg, ok);
    if (has_failed(dbpg) && dbpg->train->n_nodes > 1)
        open_gate(dbpg, thread, true);
    return ok;
}

/* Waits until all that the thread has pushed has arrived. */
static bool confirm_all(struct dbpg *dbpg, size_t thread)
{
    const struct dbpg_space *space = &dbpg->spaces[thread];
    const double since_s = waiting_since(dbpg, thread);
    bool ok = !has_failed(dbpg);
    while (ok && space->n_confirmed < space->n_sent)
        ok = confirm_some(dbpg, thread, true);
    end_waiting(dbpg, since_s);
    return ok;
}

bool dbpg_epoch(struct dbpg *dbpg, size_t thread, int64_t epoch)
{
    struct train *train = dbpg->train;
    const struct slice *slice = &dbpg->columns.slices[thread];
    const size_t n = dbpg->columns.n_blocks;
    const double started_s = seconds_now();
    bool ok = true;
    if (thread == 0)
        draw_jobs(dbpg, epoch);
    if (thread == 0 && train->n_nodes > 1 && train->self == 0)
        ok = submit_jobs(dbpg);
    meet(dbpg, ok);
    const uint64_t first = dbpg->n_jobs + 1;
    for (size_t i = 0; i < n; i++) {
        ok = do_job(dbpg, thread, first + i, &dbpg->jobs[i], ok);
        (void)train_done(train, thread, slice->n_rows * (i + 1) / n - slice->n_rows * i / n, 0);
    }
    ok = confirm_all(dbpg, thread) && ok;
    meet(dbpg, ok);
    if (thread == 0) {
        dbpg->n_jobs += n;
        dbpg->is_settled = false;
        if (train->n_nodes > 1 && train->self == 0 &&
            tern_task_wait(train_worker(train, 0), 0, 0) && ok)
            ok = task_fail_tern("a node could not do its part");
        dbpg->lasted_s += seconds_now() - started_s;
    }
    progress_add(&train->progress, thread, 0, dbpg_loss(dbpg, thread));
    return ok;
}

/* ---- Between epochs --------------------------------------------------------------------------- */

/* Fetches the jobs that are not fetched yet: asks for all of them, and then takes one after the other. */
static bool catch_up(void *context, size_t thread)
{
    struct dbpg *dbpg = context;
    const uint64_t first = dbpg->n_fetched + 1;
    bool ok = true;
    for (uint64_t number = first; ok && number <= dbpg->n_jobs; number++)
        ok = dbpg_ask(dbpg, thread, number, &dbpg->recent[number % n_recent(dbpg)]);
    meet(dbpg, ok);
    for (uint64_t number = first; number <= dbpg->n_jobs; number++) {
        const struct dbpg_job *job = &dbpg->recent[number % n_recent(dbpg)];
        dbpg_land(dbpg, thread, job);
        meet(dbpg, ok);
        if (!has_failed(dbpg))
            ok = dbpg_take(dbpg, thread, number, job) && ok;
        meet(dbpg, ok);
        if (!has_failed(dbpg))
            dbpg_apply(dbpg, thread, job);
        meet(dbpg, ok);
    }
    return ok;
}

bool dbpg_settle(struct dbpg *dbpg)
{
    if (dbpg->is_settled)
        return true;
    bool ok = team_run(dbpg->train->n_threads, catch_up, NULL, dbpg);
    dbpg->n_fetched = dbpg->n_jobs;
    dbpg->is_settled = true;
    return subspace_step(dbpg, ok);
}

void dbpg_sum(const struct dbpg *dbpg, struct dbpg_sums *sums)
{
    const struct linear_options *options = dbpg->options;
    *sums = (struct dbpg_sums){0};
    for (size_t j = 0; j < dbpg->columns.n_features; j++) {
        const double weight = dbpg->weights[j], share = 1 / (double)dbpg->n_sharers[j];
        bool is_free =
            options->intercept == LINEAR_FREE && dbpg->columns.keys[j] == LINEAR_INTERCEPT_KEY;
        if (!is_free)
            sums->penalty +=
                share * (options->l1 * fabs(weight) + options->l2 / 2 * weight * weight);
        sums->n_nonzero += weight != 0 ? share : 0;
        sums->n_active += dbpg->radii[j] > 0 ? share : 0;
        sums->n_features += share;
        sums->violation += dbpg->violations[j];
    }
}

bool dbpg_pull(struct dbpg *dbpg, struct tern_worker *worker, const uint64_t *keys, size_t n,
               double *weights)
{
    double rows[PULL_AT_ONCE * COORDINATE_LENGTH];
    for (size_t i = 0; i < n && dbpg->table == NULL; i++) {
        size_t feature = columns_find(&dbpg->columns, keys[i]);
        weights[i] = feature < dbpg->columns.n_features ? dbpg->weights[feature] : 0;
    }
    for (size_t done = 0, step; done < n && dbpg->table != NULL; done += step) {
        step = n - done < PULL_AT_ONCE ? n - done : PULL_AT_ONCE;
        if (tern_pull(worker, dbpg->table, keys + done, step, rows))
            return task_fail_tern("cannot pull");
        for (size_t i = 0; i < step; i++)
            weights[done + i] = rows[i * COORDINATE_LENGTH + COORDINATE_WEIGHT];
    }
    return true;
}
