/*
 * A checkpoint of one node: every index, type and updater comes back bit by bit; bad input is a sentence and has no effect.
 * tests/cluster/test_checkpoint.sh has many nodes.
 */
#include "support/check.h"

#include <dirent.h>
#include <sys/stat.h>

enum { N_KEYS = 300, LENGTH = 5 };

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/tern-checkpoint-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* A node with a worker and a table "t". */
struct opened {
    struct tern_node *node;
    struct tern_worker *worker;
    struct tern_table *table;
};

static struct opened open_all(const struct tern_table_options *options)
{
    struct opened place;
    ok(tern_node_open(NULL, &place.node));
    ok(tern_worker_open(place.node, &place.worker));
    ok(tern_table_open(place.node, "t", options, &place.table));
    return place;
}

static void close_all(const struct opened *place)
{
    ok(tern_worker_close(place->worker));
    ok(tern_node_close(place->node));
}

static void write_checkpoint(const struct opened *place, const char *name)
{
    ok(tern_checkpoint_start(place->node, in_folder(name), NULL, 0));
    ok(tern_checkpoint_wait(place->node));
}

static uint64_t key_of(const struct tern_table_options *options, uint64_t i)
{
    return options->index == TERN_SPARSE ? UINT64_MAX - i * i * 977 : i;
}

static void push_some(const struct opened *place, const struct tern_table_options *options)
{
    double bytes[LENGTH]; /* room for any type */
    for (uint64_t i = 0; i < N_KEYS; i += 1 + i % 3) {
        const uint64_t key = key_of(options, i);
        for (size_t j = 0; j < LENGTH; j++)
            switch (options->type) {
            case TERN_F32:
                ((float *)bytes)[j] = 0.25F * (float)(i + j);
                break;
            case TERN_F64:
                bytes[j] = 0.25 * (double)(i + j);
                break;
            case TERN_I32:
                ((int32_t *)bytes)[j] = (int32_t)(i * j);
                break;
            case TERN_I64:
                ((int64_t *)bytes)[j] = (int64_t)(i * j);
                break;
            }
        ok(tern_push(place->worker, place->table, &key, 1, bytes));
    }
}

/* All values of the keys that may be there. */
static void pull_all(const struct opened *place, const struct tern_table_options *options,
                     char *values)
{
    uint64_t keys[N_KEYS];
    for (uint64_t i = 0; i < N_KEYS; i++)
        keys[i] = key_of(options, i);
    ok(tern_pull(place->worker, place->table, keys, N_KEYS, values));
}

/* Writes, goes on, restores elsewhere and goes on there: the same bits. */
static void comes_back(const struct tern_table_options *options, const char *name)
{
    static char expected[N_KEYS * LENGTH * 8], found[N_KEYS * LENGTH * 8];
    struct tern_checkpoint *checkpoint;
    struct opened first = open_all(options);
    push_some(&first, options);
    push_some(&first, options);
    write_checkpoint(&first, name);
    push_some(&first, options);
    pull_all(&first, options, expected);
    close_all(&first);

    struct opened second = open_all(options);
    ok(tern_checkpoint_open(in_folder(name), &checkpoint));
    ok(tern_checkpoint_verify(checkpoint));
    ok(tern_checkpoint_restore(second.table, checkpoint));
    ok(tern_checkpoint_close(checkpoint));
    push_some(&second, options);
    pull_all(&second, options, found);
    close_all(&second);
    assert_memory_equal(expected, found, sizeof found);
}

static void every_kind_of_table_comes_back(void **state)
{
    const struct tern_updater updaters[] = {{0},
                                            tern_updater_adagrad(0.1, 1e-6),
                                            tern_updater_adam(0.1, 0.9, 0.99, 1e-6),
                                            tern_updater_ftrl(0.1, 1, 0.01, 0.01)};
    char name[40];
    (void)state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++)
        for (int type = TERN_F32; type <= TERN_I64; type++)
            for (size_t u = 0; u < (type <= TERN_F64 ? COUNT(updaters) : 1); u++) {
                const struct tern_table_options options = {
                    .struct_size = sizeof options,
                    .index = (enum tern_index)index,
                    .type = (enum tern_type)type,
                    .n_keys = index == TERN_DENSE ? N_KEYS : 0,
                    .length = LENGTH,
                    .init = {.kind = TERN_INIT_UNIFORM, .seed = 3, .a = 1, .b = 9},
                    .updater = updaters[u]};
                snprintf(name, sizeof name, "kind-%d-%d-%zu", index, type, u);
                comes_back(&options, name);
            }
}

/* Values of 4 bytes are in the index itself. */
static void inline_values_come_back(void **state)
{
    struct tern_table_options options = {.struct_size = sizeof options, .n_keys = 50, .length = 1};
    struct tern_checkpoint *checkpoint;
    (void)state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        options.index = (enum tern_index)index;
        options.n_keys = index == TERN_DENSE ? 50 : 0;
        struct opened place = open_all(&options);
        for (uint64_t key = 0; key < 50; key += 2) {
            const float update = (float)key + 1;
            ok(tern_push(place.worker, place.table, &key, 1, &update));
        }
        write_checkpoint(&place, index == TERN_DENSE ? "inline-dense" : "inline-sparse");
        close_all(&place);
        place = open_all(&options);
        ok(tern_checkpoint_open(in_folder(index == TERN_DENSE ? "inline-dense" : "inline-sparse"),
                                &checkpoint));
        ok(tern_checkpoint_restore(place.table, checkpoint));
        ok(tern_checkpoint_close(checkpoint));
        for (uint64_t key = 0; key < 50; key++) {
            float value = -1;
            ok(tern_pull(place.worker, place.table, &key, 1, &value));
            assert_true(value == (key % 2 ? 0 : (float)key + 1));
        }
        close_all(&place);
    }
}

static const struct tern_table_options plain = {
    .struct_size = sizeof plain, .n_keys = N_KEYS, .length = LENGTH};

static void contents_can_be_read_without_a_node(void **state)
{
    struct tern_checkpoint *checkpoint;
    struct tern_checkpoint_info info = {.struct_size = sizeof info};
    struct tern_checkpoint_table table = {.struct_size = sizeof table};
    const struct tern_note notes[] = {{"position", "line 12", 8}, {"nothing", NULL, 0}};
    uint64_t keys[64], n_rows = 0;
    float values[64][LENGTH];
    char text[8];
    size_t n;
    (void)state;
    struct opened place = open_all(&plain);
    push_some(&place, &plain);
    ok(tern_worker_advance(place.worker, NULL));
    ok(tern_checkpoint_start(place.node, in_folder("read"), notes, 2));
    refused(tern_checkpoint_start(place.node, in_folder("other"), NULL, 0), TERN_BUSY, "read");
    ok(tern_checkpoint_wait(place.node));
    close_all(&place);
    ok(tern_checkpoint_open(in_folder("read"), &checkpoint));
    ok(tern_checkpoint_get_info(checkpoint, &info));
    assert_int_equal(info.n_nodes, 1);
    assert_int_equal(info.n_tables, 1);
    assert_int_equal(info.lowest_clock, 1);
    ok(tern_checkpoint_get_table(checkpoint, 0, &table));
    assert_string_equal(table.name, "t");
    assert_int_equal(table.n_rows, N_KEYS);
    do {
        ok(tern_checkpoint_read(checkpoint, 0, n_rows, 64, keys, values, NULL, &n));
        for (size_t i = 0; i < n; i++)
            assert_int_equal(keys[i], n_rows + i);
        n_rows += n;
    } while (n);
    assert_int_equal(n_rows, N_KEYS);
    ok(tern_checkpoint_get_note(checkpoint, 0, "position", text, sizeof text, &n));
    assert_string_equal(text, "line 12");
    refused(tern_checkpoint_get_note(checkpoint, 0, "position", text, 3, &n), TERN_LIMIT, "8");
    refused(tern_checkpoint_get_note(checkpoint, 1, "position", text, 8, &n), TERN_INVALID, "no");
    refused(tern_checkpoint_get_table(checkpoint, 1, &table), TERN_INVALID, "1");
    ok(tern_checkpoint_close(checkpoint));
    refused(tern_checkpoint_verify(checkpoint), TERN_CLOSED, "checkpoint");
}

static void another_shape_or_updater_is_refused(void **state)
{
    struct tern_checkpoint *checkpoint;
    struct tern_table_options others[5];
    const char *words[] = {"dense", "F32", "300", "adagrad", "values"};
    (void)state;
    for (size_t i = 0; i < COUNT(others); i++)
        others[i] = plain;
    struct opened place = open_all(&plain);
    write_checkpoint(&place, "shape");
    close_all(&place);
    others[0].index = TERN_SPARSE;
    others[0].n_keys = 0;
    others[1].type = TERN_F64;
    others[2].n_keys = N_KEYS + 1;
    others[3].updater = tern_updater_adagrad(1, 1);
    others[4].length = LENGTH + 1;
    ok(tern_checkpoint_open(in_folder("shape"), &checkpoint));
    for (size_t i = 0; i < COUNT(others); i++) {
        place = open_all(&others[i]);
        refused(tern_checkpoint_restore(place.table, checkpoint), TERN_MISMATCH, "'t'", words[i]);
        close_all(&place);
    }
    ok(tern_node_open(NULL, &place.node));
    ok(tern_table_open(place.node, "u", &plain, &place.table));
    refused(tern_checkpoint_restore(place.table, checkpoint), TERN_MISMATCH, "no table 'u'");
    ok(tern_node_close(place.node));
    ok(tern_checkpoint_close(checkpoint));
}

/* New workers begin at the lowest clock, under every kind of policy; bounds hold from there on. */
static void clocks_come_back(void **state)
{
    (void)state;
    const char *const policies[] = {"adaptive", "static", "ssp:2", "essp:0"};
    const uint64_t key = 3;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        const struct tern_table_options options = {
            .struct_size = sizeof options, .n_keys = N_KEYS, .length = 1, .policy = policies[i]};
        struct opened place = open_all(&options);
        struct tern_worker *ahead;
        struct tern_checkpoint *checkpoint;
        uint64_t clock;
        char name[16];
        float value = 1;
        ok(tern_worker_open(place.node, &ahead));
        for (int n = 0; n < 1007; n++) {
            if (n < 1005)
                ok(tern_worker_advance(place.worker, NULL));
            ok(tern_worker_advance(ahead, NULL));
        }
        ok(tern_worker_close(ahead));
        snprintf(name, sizeof name, "clocks-%zu", i);
        write_checkpoint(&place, name);
        close_all(&place);

        place = open_all(&options);
        ok(tern_checkpoint_open(in_folder(name), &checkpoint));
        ok(tern_checkpoint_restore(place.table, checkpoint));
        ok(tern_checkpoint_restore_clock(place.worker, checkpoint));
        ok(tern_worker_clock(place.worker, &clock));
        assert_int_equal(clock, 1005);
        ok(tern_push(place.worker, place.table, &key, 1, &value));
        ok(tern_worker_advance(place.worker, &clock));
        assert_int_equal(clock, 1006);
        value = 0;
        ok(tern_pull(place.worker, place.table, &key, 1, &value));
        assert_float_equal(value, 1, 0);
        refused(tern_checkpoint_restore_clock(place.worker, checkpoint), TERN_INVALID, "1006");
        refused(tern_checkpoint_restore_clock(NULL, checkpoint), TERN_INVALID, "worker");
        refused(tern_checkpoint_restore_clock(place.worker, NULL), TERN_INVALID, "checkpoint");
        ok(tern_checkpoint_close(checkpoint));
        close_all(&place);
    }
}

static void bad_arguments_are_refused(void **state)
{
    const struct tern_note same[] = {{"a", "x", 1}, {"a", "y", 1}}, unnamed = {"", "x", 1},
                           absent = {"a", NULL, 1};
    struct tern_checkpoint *checkpoint;
    (void)state;
    struct opened place = open_all(&plain);
    struct tern_node *node = place.node;
    refused(tern_checkpoint_start(NULL, "x", NULL, 0), TERN_INVALID, "node");
    refused(tern_checkpoint_start(node, NULL, NULL, 0), TERN_INVALID, "path");
    refused(tern_checkpoint_start(node, "x/", NULL, 0), TERN_INVALID, "path");
    refused(tern_checkpoint_start(node, in_folder("n"), same, 2), TERN_INVALID, "'a'");
    refused(tern_checkpoint_start(node, in_folder("n"), &unnamed, 1), TERN_INVALID, "name");
    refused(tern_checkpoint_start(node, in_folder("n"), &absent, 1), TERN_INVALID, "NULL");
    refused(tern_checkpoint_start(node, in_folder("n"), &absent, 1000), TERN_LIMIT, "1000");
    refused(tern_checkpoint_start(node, folder, NULL, 0), TERN_INVALID, "exists already");
    refused(tern_checkpoint_start(node, in_folder("no/where"), NULL, 0), TERN_INVALID, "No such");
    refused(tern_checkpoint_wait(node), TERN_INVALID, "no checkpoint");
    refused(tern_checkpoint_open(in_folder("none"), &checkpoint), TERN_INVALID, "No such");
    refused(tern_checkpoint_restore(place.table, NULL), TERN_INVALID, "NULL");
    close_all(&place);
}

/* Replaces a file of checkpoint `name`. */
static void spoil(const char *name, const char *file, const char *bytes, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    FILE *spoiled = fopen(path, "r+b");
    assert_non_null(spoiled);
    assert_int_equal(fwrite(bytes, 1, n, spoiled), n);
    assert_int_equal(fclose(spoiled), 0);
}

static void damage_is_found_before_any_row_is_replaced(void **state)
{
    struct tern_checkpoint *checkpoint;
    static float before[N_KEYS][LENGTH], after[N_KEYS][LENGTH];
    (void)state;
    struct opened place = open_all(&plain);
    push_some(&place, &plain);
    write_checkpoint(&place, "damage");
    push_some(&place, &plain);
    pull_all(&place, &plain, (char *)before);
    ok(tern_checkpoint_open(in_folder("damage"), &checkpoint));
    spoil("damage", "part-0-0.safetensors", "\377\377\377\377\377\377\377\177", 8);
    refused(tern_checkpoint_verify(checkpoint), TERN_INVALID, "part-0-0", "damaged");
    refused(tern_checkpoint_restore(place.table, checkpoint), TERN_INVALID, "part-0-0", "header");
    ok(tern_checkpoint_close(checkpoint));
    spoil("damage", "manifest.json", "{]", 2);
    refused(tern_checkpoint_open(in_folder("damage"), &checkpoint), TERN_INVALID, "manifest.json");
    pull_all(&place, &plain, (char *)after);
    assert_memory_equal(before, after, sizeof after);
    close_all(&place);
}

/* What an earlier run left behind is cleared; what is somebody else's is not. */
static void leftovers_are_cleared(void **state)
{
    char path[256];
    struct stat there;
    (void)state;
    struct opened place = open_all(&plain);
    ok(tern_checkpoint_start(place.node, in_folder("left"), NULL, 0));
    close_all(&place); /* gives it up */
    assert_int_not_equal(stat(in_folder("left"), &there), 0);
    assert_int_equal(stat(in_folder("left.new"), &there), 0);
    place = open_all(&plain);
    write_checkpoint(&place, "left");
    assert_int_not_equal(stat(in_folder("left.new"), &there), 0);
    assert_int_equal(mkdir(in_folder("mine.new"), 0777), 0);
    snprintf(path, sizeof path, "%s", in_folder("mine.new/letter"));
    FILE *letter = fopen(path, "w");
    assert_non_null(letter);
    fclose(letter);
    refused(tern_checkpoint_start(place.node, in_folder("mine"), NULL, 0), TERN_INVALID, "mine.new",
            "exists");
    assert_int_equal(stat(path, &there), 0);
    close_all(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_table_comes_back),
        cmocka_unit_test(inline_values_come_back),
        cmocka_unit_test(contents_can_be_read_without_a_node),
        cmocka_unit_test(another_shape_or_updater_is_refused),
        cmocka_unit_test(clocks_come_back),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(damage_is_found_before_any_row_is_replaced),
        cmocka_unit_test(leftovers_are_cleared),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
