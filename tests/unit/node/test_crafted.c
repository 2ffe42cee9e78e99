/* Keys that were made to collide take no longer than others: the hash of a table's index is a secret. */
#include "support/check.h"

#include <time.h>

enum { N_KEYS = 40000 };

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The number by which `x`, which is odd, must be multiplied to give 1. */
static uint64_t inverse(uint64_t x)
{
    uint64_t y = x;
    for (int i = 0; i < 6; i++)
        y *= 2 - x * y;
    return y;
}

static double push_seconds(struct tern_node *node, const char *name, uint64_t factor)
{
    struct tern_table_options options = {
        .struct_size = sizeof options, .index = TERN_SPARSE, .length = 2};
    struct tern_table *table;
    struct tern_worker *worker;
    const float ones[2] = {1, 1};
    ok(tern_table_open(node, name, &options, &table));
    ok(tern_worker_open(node, &worker));
    double begin = cpu_s();
    for (uint64_t i = 0; i < N_KEYS; i++)
        ok(tern_push(worker, table, &(uint64_t){i * factor}, 1, ones));
    double seconds = cpu_s() - begin;
    ok(tern_worker_close(worker));
    return seconds;
}

static void crafted_keys_are_as_fast_as_others(void **state)
{
    (void)state;
    struct tern_node *node;
    ok(tern_node_open(NULL, &node));
    const double others = push_seconds(node, "others", 1);
    /* The multiplier of the hash when it is not secret: these keys' hashes are 0, 1, 2, ... */
    const double crafted = push_seconds(node, "crafted", inverse(UINT64_C(0x9e3779b97f4a7c15)));
    print_message("%d keys: %.3f s, crafted ones: %.3f s\n", N_KEYS, others, crafted);
    assert_true(crafted < 50 * others);
    ok(tern_node_close(node));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crafted_keys_are_as_fast_as_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
