/*
 * Partitioning: blocks hold just the entries they were given, Parsa and refinement keep their books as a plain count has
 * them, and what is reported is what the rows' parts and the keys' homes say.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/rng.h"
#include "common/sentence.h"
#include "partition/granules.h"
#include "partition/hybrid.h"
#include "partition/read.h"
#include "partition/refine.h"

enum { N_ROWS = 2000, N_KEYS = 700, N_EDGES = 20000, N_PARTS = 5 };

/* Rows of the same remainder by 10 like the same keys, and some keys are used by all. */
static size_t make_edges(struct edge *edges)
{
    struct rng rng = rng_seed(7, 0);
    for (size_t i = 0; i < N_EDGES; i++) {
        uint64_t row = rng_below(&rng, N_ROWS), key = rng_below(&rng, N_KEYS / 10) * 10 + row % 10;
        edges[i] = (struct edge){row, rng_below(&rng, 10) == 0 ? rng_below(&rng, 20) : key};
    }
    return N_EDGES;
}

static int compare_edges(const void *a, const void *b)
{
    const struct edge *one = a, *other = b;
    if (one->row != other->row)
        return one->row < other->row ? -1 : 1;
    return one->key == other->key ? 0 : one->key < other->key ? -1 : 1;
}

static size_t sort_and_dedupe(struct edge *edges, size_t n)
{
    size_t kept = 0;
    qsort(edges, n, sizeof *edges, compare_edges);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || compare_edges(&edges[kept - 1], &edges[i]) != 0)
            edges[kept++] = edges[i];
    return kept;
}

/* The entries of a block, in the order of compare_edges. */
static size_t list_block(const struct block *block, struct edge *edges)
{
    size_t n = 0;
    for (uint32_t r = 0; r < block->n_rows; r++)
        for (uint32_t i = block->row_begin[r]; i < block->row_begin[r + 1]; i++)
            edges[n++] = (struct edge){block->rows[r], block->keys[block->row_keys[i]]};
    return n;
}

static void test_block(void **state)
{
    static struct edge edges[N_EDGES], expected[N_EDGES], listed[N_EDGES];
    struct block block;
    size_t n = make_edges(edges), n_users = 0;
    (void)state;
    memcpy(expected, edges, sizeof edges);
    size_t n_expected = sort_and_dedupe(expected, n);
    assert_true(block_init(&block, edges, n));
    assert_int_equal(block.n_entries, n_expected);
    assert_int_equal(list_block(&block, listed), n_expected);
    assert_memory_equal(listed, expected, n_expected * sizeof *expected);
    for (uint32_t k = 0; k < block.n_keys; k++)
        for (uint32_t i = block.key_begin[k]; i < block.key_begin[k + 1]; i++) {
            const struct edge edge = {block.rows[block.key_rows[i]], block.keys[k]};
            assert_non_null(bsearch(&edge, expected, n_expected, sizeof edge, compare_edges));
            n_users++;
        }
    assert_int_equal(n_users, n_expected);
    block_fini(&block);
    assert_true(block_init(&block, edges, 0));
    assert_int_equal(block.n_rows, 0);
    block_fini(&block);
}

/* All blocks together have all entries, however many there are and wherever these are kept. */
static void check_granules(size_t memory_bytes, size_t n_blocks)
{
    static struct edge edges[N_EDGES], expected[N_EDGES], listed[N_EDGES];
    static struct granules granules;
    size_t n = make_edges(edges), n_listed = 0;
    memcpy(expected, edges, sizeof edges);
    size_t n_expected = sort_and_dedupe(expected, n);
    granules_init(&granules, 3, memory_bytes);
    for (size_t i = 0; i < n; i++)
        assert_true(granules_add(&granules, edges[i].row, edges[i].key));
    assert_int_equal(granules.file != NULL, memory_bytes < n * sizeof *edges);
    assert_true(granules_finish(&granules));
    assert_true(granules.file == NULL || granules.n_slabs == 0);
    for (size_t b = 0; b < n_blocks; b++) {
        struct block block;
        assert_true(granules_load(&granules, n_blocks, b, &block));
        n_listed += list_block(&block, listed + n_listed);
        block_fini(&block);
    }
    assert_int_equal(n_listed, n_expected);
    qsort(listed, n_listed, sizeof *listed, compare_edges);
    assert_memory_equal(listed, expected, n_expected * sizeof *expected);
    granules_fini(&granules);
}

static void test_granules(void **state)
{
    (void)state;
    check_granules(1 << 20, 1);
    check_granules(1 << 20, 7);
    check_granules(1000, 7);
    check_granules(1, GRANULES);
}

static uint64_t count_pairs(const struct block *block, const uint16_t *parts)
{
    static uint8_t uses[N_KEYS + 1][N_PARTS];
    uint64_t n = 0;
    memset(uses, 0, sizeof uses);
    for (uint32_t r = 0; r < block->n_rows; r++)
        for (uint32_t i = block->row_begin[r]; i < block->row_begin[r + 1]; i++)
            uses[block->row_keys[i]][parts[r]] = 1;
    for (uint32_t k = 0; k < block->n_keys; k++) {
        for (uint32_t p = 0; p < N_PARTS; p++)
            n += uses[k][p];
        n--;
    }
    return n;
}

static void count_loads(const struct block *block, enum balance balance, const uint16_t *parts,
                        uint64_t *loads)
{
    memset(loads, 0, N_PARTS * sizeof *loads);
    for (uint32_t r = 0; r < block->n_rows; r++)
        loads[parts[r]] += row_load(block, r, balance);
}

static void check_parsa(enum balance balance)
{
    static struct edge edges[N_EDGES];
    static uint16_t parts[N_ROWS], random[N_ROWS];
    struct block block;
    uint64_t loads[N_PARTS] = {0}, counted[N_PARTS], most = 0, total = 0, biggest = 0;
    assert_true(block_init(&block, edges, make_edges(edges)));
    uint64_t *sets = calloc(block.n_keys, sizeof *sets);
    assert_true(parsa_assign(&block, N_PARTS, balance, sets, loads, parts));
    count_loads(&block, balance, parts, counted);
    assert_memory_equal(loads, counted, sizeof loads);
    for (uint32_t p = 0; p < N_PARTS; p++) {
        most = loads[p] > most ? loads[p] : most;
        total += loads[p];
    }
    for (uint32_t r = 0; r < block.n_rows; r++) {
        random[r] = (uint16_t)(rng_mix(r) % N_PARTS);
        biggest = row_load(&block, r, balance) > biggest ? row_load(&block, r, balance) : biggest;
    }
    /* The least loaded part takes the next row, so none is ahead by more than one row. */
    assert_true(most <= total / N_PARTS + biggest);
    for (uint32_t r = 0; r < block.n_rows; r++)
        for (uint32_t i = block.row_begin[r]; i < block.row_begin[r + 1]; i++)
            assert_true(set_has(&sets[block.row_keys[i]], parts[r]));
    assert_true(count_pairs(&block, parts) < count_pairs(&block, random) * 3 / 4);
    free(sets);
    block_fini(&block);
}

static void test_parsa(void **state)
{
    (void)state;
    check_parsa(BALANCE_ROWS);
    check_parsa(BALANCE_ENTRIES);
}

/* Each pass saves pairs, keeps the counts and loads right and stays below the limit. */
static void test_refine(void **state)
{
    static struct edge edges[N_EDGES];
    static uint16_t parts[N_ROWS];
    struct block block;
    uint64_t loads[N_PARTS], counted[N_PARTS], max_loads[N_PARTS], n_moved = 1;
    (void)state;
    assert_true(block_init(&block, edges, make_edges(edges)));
    int32_t *counts = calloc((size_t)block.n_keys * N_PARTS, sizeof *counts);
    for (uint32_t r = 0; r < block.n_rows; r++) {
        parts[r] = (uint16_t)(rng_mix(r) % N_PARTS);
        for (uint32_t i = block.row_begin[r]; i < block.row_begin[r + 1]; i++)
            counts[block.row_keys[i] * N_PARTS + parts[r]]++;
    }
    count_loads(&block, BALANCE_ROWS, parts, loads);
    for (uint32_t p = 0; p < N_PARTS; p++)
        max_loads[p] = block.n_rows / N_PARTS * 12 / 10;
    uint64_t n_pairs = count_pairs(&block, parts), n_before = n_pairs;
    for (int pass = 0; pass < 20 && n_moved > 0; pass++) {
        assert_true(refine_pass(&block, N_PARTS, BALANCE_ROWS, max_loads, counts, loads, parts,
                                false, &n_moved));
        uint64_t n = count_pairs(&block, parts);
        assert_true(n <= n_pairs);
        n_pairs = n;
        count_loads(&block, BALANCE_ROWS, parts, counted);
        assert_memory_equal(loads, counted, sizeof loads);
    }
    for (uint32_t p = 0; p < N_PARTS; p++)
        assert_true(loads[p] <= max_loads[p]);
    for (uint32_t r = 0; r < block.n_rows; r++)
        for (uint32_t i = block.row_begin[r]; i < block.row_begin[r + 1]; i++)
            counts[block.row_keys[i] * N_PARTS + parts[r]]--;
    for (size_t i = 0; i < (size_t)block.n_keys * N_PARTS; i++)
        assert_int_equal(counts[i], 0);
    assert_true(n_pairs < n_before * 9 / 10);
    free(counts);
    block_fini(&block);
}

/* Random parts, of which none may grow by more than one row: the pairs that are left when so many of ten passes have prices. */
static uint64_t refine_full(const struct block *block, int n_priced)
{
    static uint16_t parts[N_ROWS];
    uint64_t loads[N_PARTS], counted[N_PARTS], max_loads[N_PARTS], n_moved;
    int32_t *counts = calloc((size_t)block->n_keys * N_PARTS, sizeof *counts);
    for (uint32_t r = 0; r < block->n_rows; r++) {
        parts[r] = (uint16_t)(rng_mix(r) % N_PARTS);
        for (uint32_t i = block->row_begin[r]; i < block->row_begin[r + 1]; i++)
            counts[block->row_keys[i] * N_PARTS + parts[r]]++;
    }
    count_loads(block, BALANCE_ROWS, parts, loads);
    for (uint32_t p = 0; p < N_PARTS; p++)
        max_loads[p] = loads[p] + 1;
    for (int pass = 0; pass < 10; pass++) {
        assert_true(refine_pass(block, N_PARTS, BALANCE_ROWS, max_loads, counts, loads, parts,
                                pass < n_priced, &n_moved));
        count_loads(block, BALANCE_ROWS, parts, counted);
        assert_memory_equal(loads, counted, sizeof loads);
        for (uint32_t p = 0; p < N_PARTS; p++)
            assert_true(loads[p] <= max_loads[p]);
    }
    free(counts);
    return count_pairs(block, parts);
}

static void test_prices(void **state)
{
    static struct edge edges[N_EDGES];
    struct block block;
    (void)state;
    assert_true(block_init(&block, edges, make_edges(edges)));
    const uint64_t with = refine_full(&block, 8), without = refine_full(&block, 0);
    print_message("pairs: %u with prices, %u without\n", (unsigned)with, (unsigned)without);
    assert_true(with < without * 95 / 100);
    block_fini(&block);
}

static void test_hybrid(void **state)
{
    static struct edge edges[N_EDGES];
    static uint16_t parts[N_ROWS], random[N_ROWS];
    struct block block;
    uint64_t loads[N_PARTS];
    const struct hybrid_options options = {.n_parts = N_PARTS, .n_rounds = 5, .seed = 1};
    const struct hybrid_options none = {.n_parts = N_PARTS, .n_rounds = 0, .seed = 1};
    (void)state;
    assert_true(block_init(&block, edges, make_edges(edges)));
    assert_true(hybrid_assign(&block, &options, parts) && hybrid_assign(&block, &none, random));
    assert_true(count_pairs(&block, parts) < count_pairs(&block, random) * 8 / 10);
    count_loads(&block, BALANCE_ROWS, parts, loads);
    for (uint32_t p = 0; p < N_PARTS; p++)
        assert_true((double)loads[p] <= 1.05 * block.n_rows / N_PARTS + 1);
    block_fini(&block);
}

/* ---- Reading ----------------------------------------------------------------------------------- */

/* What a file of this text gives: the number of entries, or -1 when it is refused with a sentence that has `why`. */
static int64_t read_text(enum read_format format, bool both_ways, const char *text, const char *why)
{
    static struct granules granules;
    char path[] = "/tmp/test_partition.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    granules_init(&granules, 1, 1 << 20);
    int64_t n = read_rows(path, format, both_ways, &granules) ? (int64_t)granules.n_edges : -1;
    if (why != NULL && strstr(task_error(), why) == NULL)
        fail_msg("'%s' does not say '%s'", task_error(), why);
    granules_fini(&granules);
    unlink(path);
    return n;
}

static void test_formats(void **state)
{
    (void)state;
    assert_int_equal(
        read_text(READ_EDGES, false, "# x\r\n1 2\r\n3,4\r\n5\t18446744073709551615\n", NULL), 3);
    assert_int_equal(read_text(READ_EDGES, false, "nodes,edges,d\n1,2\n1,2,9.5\n", NULL), 2);
    assert_int_equal(read_text(READ_EDGES, true, "1 2\n3 4\n", NULL), 4);
    assert_int_equal(read_text(READ_LISTS, false, "0 7 8 9\n2\n1 7", NULL), 4);
    assert_int_equal(read_text(READ_GRAPH, false, "% x\n3 2\n2 3\n1\n1\n", NULL), 4);
    assert_int_equal(read_text(READ_GRAPH, false, "3 2 011\n5 2 1 3 1\n5 1 1\n5 1 1\n", NULL), 4);
    assert_int_equal(read_text(READ_GRAPH, false, "2 0\n\n\n", NULL), 0);
    assert_int_equal(read_text(READ_LIBSVM, false, "+1 3:1 7:0.5 # x\n-1\n0 qid:3 1:2\n", NULL), 3);
    assert_int_equal(read_text(READ_WORDS, false, "the cat  sat\n\n the end\n", NULL), 5);
}

static void test_bad_input(void **state)
{
    (void)state;
    assert_int_equal(read_text(READ_EDGES, false, "1 2\n3\n", ":2: the line has a row and no key"),
                     -1);
    assert_int_equal(read_text(READ_EDGES, false, "1 2\nx 3\n", ":2: 'x 3' is not a whole number"),
                     -1);
    assert_int_equal(read_text(READ_EDGES, false, "1 -2\n", "is not a whole number"), -1);
    assert_int_equal(read_text(READ_EDGES, false, "1 99999999999999999999\n", "above 64 bits"), -1);
    assert_int_equal(read_text(READ_EDGES, false, "4294967296 1\n", "above the limit of 2^32"), -1);
    assert_int_equal(read_text(READ_GRAPH, false, "", "has no heading"), -1);
    assert_int_equal(read_text(READ_GRAPH, false, "3\n", "numbers of vertices and edges"), -1);
    assert_int_equal(read_text(READ_GRAPH, false, "2 1\n2\n3\n", "not among the vertices 1 to 2"),
                     -1);
    assert_int_equal(read_text(READ_GRAPH, false, "3 1\n2\n1\n", "heading says 3"), -1);
    assert_int_equal(read_text(READ_GRAPH, false, "2 5\n2\n1\n", "heading says 5 edges"), -1);
    assert_int_equal(read_text(READ_GRAPH, false, "2 1\n2\n1\n1\n", "more lines"), -1);
    assert_int_equal(read_text(READ_LIBSVM, false, "1 a:1\n", "index and its value"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block),   cmocka_unit_test(test_granules),
        cmocka_unit_test(test_parsa),   cmocka_unit_test(test_refine),
        cmocka_unit_test(test_prices),  cmocka_unit_test(test_hybrid),
        cmocka_unit_test(test_formats), cmocka_unit_test(test_bad_input),
    };
    return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
