/*
 * Who learns from what: all workers together visit every cell once in every epoch, rows have one worker,
 * and batches are as their users expect them.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "mf/feed.h"

enum { N_ROWS = 3000, N_COLUMNS = 50, N_CELLS = 60000, N_TESTS = 2000 };

/* Cells whose values tell them apart. Column 0 is much more frequent than others, and so is row 0. */
static struct ratings make_ratings(void)
{
    struct ratings ratings = {.rows.n = N_ROWS, .columns.n = N_COLUMNS};
    struct rng rng = rng_seed(1, 1);
    ratings.train.at = malloc(N_CELLS * sizeof *ratings.train.at);
    ratings.test.at = malloc(N_TESTS * sizeof *ratings.test.at);
    for (size_t i = 0; i < N_CELLS; i++) {
        uint64_t row = i % 20 == 0 ? 0 : rng_below(&rng, N_ROWS);
        uint64_t column = i % 4 == 0 ? 0 : rng_below(&rng, N_COLUMNS);
        ratings.train.at[ratings.train.n++] =
            (struct rating){(uint32_t)row, (uint32_t)column, (float)i};
    }
    for (size_t i = 0; i < N_TESTS; i++)
        ratings.test.at[ratings.test.n++] = (struct rating){
            (uint32_t)rng_below(&rng, N_ROWS), (uint32_t)rng_below(&rng, N_COLUMNS), (float)i};
    return ratings;
}

/* What the batches of epochs have shown so far. */
struct audit {
    const struct ratings *ratings;
    uint32_t *key_of_row;
    size_t n_seen[N_CELLS];   /* times a cell was visited */
    size_t worker_of[N_ROWS]; /* 1 + the one that visited the row with this key */
    size_t n_batches_left;    /* of the band */
};

static void audit_batch(struct audit *audit, const struct mf_batch *batch, size_t worker)
{
    const struct cell *cell = batch->cells;
    assert_in_range(batch->n_visits, 1, BATCH_VISITS);
    assert_in_range(batch->n_cells, 1, BATCH_CELLS);
    if (batch->n_batches > 0) {
        assert_int_equal(audit->n_batches_left, 0);
        audit->n_batches_left = batch->n_batches;
    }
    assert_true(audit->n_batches_left-- > 0);
    assert_int_equal(batch->ends_band, audit->n_batches_left == 0);
    for (size_t i = 0; i < batch->n_visits; i++) {
        for (uint32_t k = 0; k < batch->n_cells_of[i]; k++, cell++) {
            size_t number = (size_t)cell->value;
            uint64_t key = batch->first_row + cell->row;
            assert_true(cell->row < batch->n_rows);
            assert_int_equal(audit->ratings->train.at[number].column, batch->columns[i]);
            assert_int_equal(audit->key_of_row[audit->ratings->train.at[number].row], key);
            assert_true(audit->worker_of[key] == 0 || audit->worker_of[key] == worker + 1);
            audit->worker_of[key] = worker + 1;
            audit->n_seen[number]++;
        }
    }
    assert_ptr_equal(cell, batch->cells + batch->n_cells);
}

/* One worker's epoch; its cells, in the order of their visits, by value. */
static size_t run_epoch(struct audit *audit, struct feed *feed, size_t worker, float *order)
{
    static struct mf_batch batch;
    size_t n = 0;
    do {
        feed_next(feed, &batch);
        audit_batch(audit, &batch, worker);
        for (size_t i = 0; i < batch.n_cells; i++)
            order[n++] = batch.cells[i].value;
    } while (!batch.ends_epoch);
    return n;
}

static void audit_worker(struct audit *audit, const struct plan *plan, size_t part, size_t worker)
{
    struct feed feed;
    float *orders = malloc(2 * N_CELLS * sizeof *orders);
    assert_true(feed_init(&feed, plan, part, 0, rng_seed(3, worker)));
    assert_int_equal(run_epoch(audit, &feed, worker, orders), plan->parts[part].n_cells);
    assert_int_equal(run_epoch(audit, &feed, worker, orders + N_CELLS), plan->parts[part].n_cells);
    assert_memory_not_equal(orders, orders + N_CELLS, plan->parts[part].n_cells * sizeof *orders);
    feed_fini(&feed);
    free(orders);
}

static size_t audit_tests(const struct audit *audit, const struct part *part, size_t worker)
{
    for (size_t i = 0; i < part->n_tests; i++) {
        struct rating test = part->tests[i], original = audit->ratings->test.at[(size_t)test.value];
        assert_int_equal(test.column, original.column);
        assert_int_equal(test.row, audit->key_of_row[original.row]);
        assert_true(audit->worker_of[test.row] == 0 || audit->worker_of[test.row] == worker + 1);
    }
    return part->n_tests;
}

/* The plans of n_nodes; there were n_before of them when the plans were made. */
static void audit_shares(size_t n_before, size_t n_nodes, size_t n_threads)
{
    struct ratings ratings = make_ratings();
    struct audit *audit = calloc(1, sizeof *audit);
    size_t n_tests = 0, n_all = n_nodes * n_threads;
    audit->ratings = &ratings;
    for (size_t node = 0; node < n_nodes; node++) {
        struct plan plan;
        struct plan_workers workers = {node * n_threads, n_threads, n_before * n_threads, NULL};
        assert_true(plan_make(&plan, &ratings, workers, 5));
        workers.n_all = n_all;
        if (n_before > n_nodes)
            assert_true(plan_share_out(&plan, &ratings, workers));
        audit->key_of_row = plan.key_of_row;
        for (size_t i = 0; i < n_threads; i++) {
            assert_in_range(plan.parts[i].n_cells, N_CELLS / n_all * 9 / 10,
                            N_CELLS / n_all * 11 / 10);
            audit_worker(audit, &plan, i, workers.first + i);
            n_tests += audit_tests(audit, &plan.parts[i], workers.first + i);
        }
        plan_fini(&plan);
    }
    for (size_t i = 0; i < N_CELLS; i++)
        assert_int_equal(audit->n_seen[i], 2);
    assert_int_equal(n_tests, N_TESTS);
    free(audit);
    ratings_fini(&ratings);
}

static void audit_workers(size_t n_nodes, size_t n_threads)
{
    audit_shares(n_nodes, n_nodes, n_threads);
}

static void those_who_are_left_share_all_cells(void **state)
{
    (void)state;
    audit_shares(2, 1, 1);
    audit_shares(4, 3, 2);
}

static void every_cell_once_per_epoch(void **state)
{
    (void)state;
    audit_workers(1, 1);
    audit_workers(1, 3);
    audit_workers(2, 1);
    audit_workers(3, 2);
}

static void bands_leave_many_cells_to_a_visit(void **state)
{
    struct ratings ratings = make_ratings();
    struct plan plan;
    (void)state;
    assert_true(plan_make(&plan, &ratings, (struct plan_workers){0, 1, 1, NULL}, 5));
    assert_true(plan.parts[0].n_bands > 1);
    for (size_t i = 0; i < plan.parts[0].n_bands; i++) {
        const struct band *band = &plan.parts[0].bands[i];
        size_t n_cells = 0;
        for (size_t k = 0; k < band->n_visits; k++)
            n_cells += band->visits[k].n;
        assert_true(n_cells >= 40 * band->n_visits);
    }
    plan_fini(&plan);
    ratings_fini(&ratings);
}

/* The blocks that a worker goes through in its next band, each once: their numbers. */
static size_t follow_band(const struct plan *plan, struct feed *feed, size_t *blocks)
{
    static struct mf_batch batch;
    size_t n = 0;
    do {
        feed_next(feed, &batch);
        for (size_t i = 0; i < batch.n_visits; i++) {
            const size_t block = plan->piece_of_column[batch.columns[i]] / BLOCK_PIECES;
            if (n == 0 || blocks[n - 1] != block)
                blocks[n++] = block;
        }
    } while (!batch.ends_band);
    return n;
}

static void workers_are_in_different_blocks(void **state)
{
    enum { N_WORKERS = 3 };
    struct ratings ratings = make_ratings();
    (void)state;
    for (size_t worker = 0; worker < N_WORKERS; worker++) {
        struct plan plan;
        struct feed feed;
        size_t blocks[N_CELLS];
        assert_true(
            plan_make(&plan, &ratings, (struct plan_workers){worker, 1, N_WORKERS, NULL}, 5));
        assert_true(feed_init(&feed, &plan, 0, 0, rng_seed(3, worker)));
        for (size_t band = 0; band < 2 * plan.parts[0].n_bands; band++) {
            assert_int_equal(follow_band(&plan, &feed, blocks), N_WORKERS);
            for (size_t i = 0; i < N_WORKERS; i++)
                assert_int_equal(blocks[band % 2 == 0 ? i : N_WORKERS - 1 - i],
                                 (worker + i) % N_WORKERS);
        }
        feed_fini(&feed);
        plan_fini(&plan);
    }
    ratings_fini(&ratings);
}

static void workers_without_rows(void **state)
{
    struct rating cells[2] = {{0, 0, 1}, {1, 0, 2}};
    struct ratings ratings = {.rows.n = 2, .columns.n = 1, .train = {2, 2, cells}};
    struct plan plan;
    size_t n_cells = 0;
    (void)state;
    assert_true(plan_make(&plan, &ratings, (struct plan_workers){0, 7, 7, NULL}, 5));
    for (size_t i = 0; i < 7; i++)
        n_cells += plan.parts[i].n_cells;
    assert_int_equal(n_cells, 2);
    plan_fini(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_once_per_epoch),
        cmocka_unit_test(those_who_are_left_share_all_cells),
        cmocka_unit_test(bands_leave_many_cells_to_a_visit),
        cmocka_unit_test(workers_are_in_different_blocks),
        cmocka_unit_test(workers_without_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
