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

/* ---- Checkpoints of changes --------------------------------------------------------------------- */

static void write_changes(const struct opened *place, const char *name)
{
    ok(tern_checkpoint_start_changes(place->node, in_folder(name), NULL, 0));
    ok(tern_checkpoint_wait(place->node));
}

/* The bytes of those of a checkpoint's files that no other one has. */
static uint64_t own_bytes(const char *name)
{
    char path[512];
    uint64_t bytes = 0;
    DIR *entries = opendir(in_folder(name));
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries));) {
        struct stat about;
        snprintf(path, sizeof path, "%s/%s/%s", folder, name, entry->d_name);
        assert_int_equal(stat(path, &about), 0);
        if (S_ISREG(about.st_mode) && about.st_nlink == 1 && strstr(path, "part-"))
            bytes += (uint64_t)about.st_size;
    }
    closedir(entries);
    return bytes;
}

static void remove_checkpoint(const char *name)
{
    char command[512];
    snprintf(command, sizeof command, "rm -r '%s/%s'", folder, name);
    assert_int_equal(system(command), 0);
}

/* What a checkpoint has is what the table had when it was written: restored, and read row by row. */
static void has_exactly(const char *name, const struct tern_table_options *options,
                        const char *expected, size_t n_bytes, uint64_t n_rows)
{
    static char found[N_KEYS * LENGTH * 8];
    static double values[7 * LENGTH];
    struct tern_checkpoint *checkpoint;
    struct tern_checkpoint_table table = {.struct_size = sizeof table};
    uint64_t keys[7], n_read = 0, last = 0;
    size_t n;
    struct opened place = open_all(options);
    ok(tern_checkpoint_open(in_folder(name), &checkpoint));
    ok(tern_checkpoint_verify(checkpoint));
    ok(tern_checkpoint_restore(place.table, checkpoint));
    pull_all(&place, options, found);
    assert_memory_equal(expected, found, n_bytes);
    ok(tern_checkpoint_get_table(checkpoint, 0, &table));
    assert_int_equal(table.n_rows, n_rows);
    do {
        ok(tern_checkpoint_read(checkpoint, 0, n_read, 7, keys, values, NULL, &n));
        for (size_t i = 0; i < n; i++) {
            ok(tern_pull(place.worker, place.table, &keys[i], 1, found));
            assert_memory_equal(found, (char *)values + i * table.length * 4, table.length * 4);
            last ^= keys[i];
        }
        n_read += n;
    } while (n);
    assert_int_equal(n_read, n_rows);
    /* From somewhere in the middle, and back at the beginning: the same rows. */
    for (uint64_t first = n_rows; first-- > 0;) {
        ok(tern_checkpoint_read(checkpoint, 0, first, 1, keys, NULL, NULL, &n));
        assert_int_equal(n, 1);
        last ^= keys[0];
    }
    assert_int_equal(last, 0);
    ok(tern_checkpoint_close(checkpoint));
    close_all(&place);
}

static void push_one(const struct opened *place, uint64_t key)
{
    const float update[LENGTH] = {0.5F, 1, 2, 3, 4};
    ok(tern_push(place->worker, place->table, &key, 1, update));
}

/* Five checkpoints, each of a few more changes; any of them is complete when the others are gone. */
static void only_changes_are_written(void **state)
{
    static char expected[5][N_KEYS * LENGTH * 4];
    char name[40];
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const struct tern_table_options options = {
            .struct_size = sizeof options,
            .index = kind % 2 ? TERN_SPARSE : TERN_DENSE,
            .n_keys = kind % 2 ? 0 : N_KEYS,
            .length = LENGTH,
            .init = {.kind = TERN_INIT_UNIFORM, .seed = 3, .a = 1, .b = 9},
            .updater = kind < 2 ? (struct tern_updater){0} : tern_updater_adagrad(0.1, 1e-6)};
        uint64_t n_rows[5] = {0}, n_first = 0;
        struct opened place = open_all(&options);
        push_some(&place, &options);
        for (uint64_t i = 0; i < 5; i++) {
            struct tern_table_stats stats = {.struct_size = sizeof stats};
            for (uint64_t j = 0; j < 2 * i; j++)
                push_one(&place, key_of(&options, (31 * i + 7 * j) % N_KEYS));
            snprintf(name, sizeof name, "changes-%d-%d", kind, (int)i);
            pull_all(&place, &options, expected[i]); /* makes rows of all keys */
            write_changes(&place, name);
            ok(tern_table_get_stats(place.table, &stats));
            n_rows[i] = kind % 2 ? stats.rows : N_KEYS;
            if (i == 0)
                n_first = own_bytes(name);
            else
                assert_true(own_bytes(name) * 5 < n_first);
        }
        close_all(&place);
        for (int i = 0; i < 5; i++) {
            snprintf(name, sizeof name, "changes-%d-%d", kind, i);
            has_exactly(name, &options, expected[i], sizeof expected[i], n_rows[i]);
            remove_checkpoint(name);
        }
    }
}

/* A row that takes a value which an older file has is written again all the same. */
static void a_value_may_come_back(void **state)
{
    static float expected[N_KEYS * LENGTH];
    const float minus[LENGTH] = {-0.5F, -1, -2, -3, -4};
    const uint64_t key = 17;
    (void)state;
    struct opened place = open_all(&plain);
    push_some(&place, &plain);
    write_changes(&place, "back-0");
    push_one(&place, key);
    write_changes(&place, "back-1");
    ok(tern_push(place.worker, place.table, &key, 1, minus));
    write_changes(&place, "back-2");
    pull_all(&place, &plain, (char *)expected);
    close_all(&place);
    has_exactly("back-2", &plain, (char *)expected, sizeof expected, N_KEYS);
}

/* All rows are written again when files have too many rows, or when the last checkpoint is not there any more. */
static void sometimes_all_rows_are_written(void **state)
{
    static float expected[N_KEYS * LENGTH];
    char name[40];
    uint64_t n_whole = 0, n_first = 0;
    (void)state;
    struct opened place = open_all(&plain);
    push_some(&place, &plain);
    for (int i = 0; i < 12; i++) {
        for (uint64_t key = 0; i && key < N_KEYS / 4; key++)
            push_one(&place, key * 3 % N_KEYS);
        snprintf(name, sizeof name, "whole-%d", i);
        write_changes(&place, name);
        n_first = i ? n_first : own_bytes(name);
        n_whole += own_bytes(name) >= n_first;
    }
    assert_int_equal(n_whole, 3); /* the first one, and each fifth after one: 1 + 4 / 4 rows */
    remove_checkpoint("whole-11");
    write_changes(&place, "after");
    assert_true(own_bytes("after") >= n_first);
    push_one(&place, 5);
    ok(tern_checkpoint_start(place.node, in_folder("plain"), NULL, 0));
    ok(tern_checkpoint_wait(place.node));
    assert_true(own_bytes("plain") >= n_first);
    write_changes(&place, "then");
    assert_true(own_bytes("then") * 5 < n_first);
    pull_all(&place, &plain, (char *)expected);
    close_all(&place);
    has_exactly("then", &plain, (char *)expected, sizeof expected, N_KEYS);
}

static bool is_odd(void *context, uint64_t key, const void *value)
{
    (void)context;
    (void)value;
    return key % 2 == 1;
}

/* A row that left the table is in no later checkpoint. */
static void rows_that_left_stay_away(void **state)
{
    const struct tern_table_options options = {
        .struct_size = sizeof options, .index = TERN_SPARSE, .length = LENGTH};
    struct tern_checkpoint *checkpoint;
    uint64_t keys[N_KEYS], n_removed;
    size_t n;
    (void)state;
    struct opened place = open_all(&options);
    for (uint64_t key = 0; key < 40; key++)
        push_one(&place, key);
    write_changes(&place, "left-0");
    ok(tern_sweep(place.worker, place.table, is_odd, NULL, &n_removed));
    assert_int_equal(n_removed, 20);
    write_changes(&place, "left-1");
    push_one(&place, 3);
    write_changes(&place, "left-2");
    close_all(&place);
    for (int i = 1; i <= 2; i++) {
        ok(tern_checkpoint_open(in_folder(i == 1 ? "left-1" : "left-2"), &checkpoint));
        ok(tern_checkpoint_read(checkpoint, 0, 0, N_KEYS, keys, NULL, NULL, &n));
        assert_int_equal(n, 20);
        for (size_t j = 0; j < n; j++)
            assert_int_equal(keys[j] % 2, 0);
        ok(tern_checkpoint_read(checkpoint, 0, 20, N_KEYS, keys, NULL, NULL, &n));
        assert_int_equal(n, i - 1);
        assert_true(i == 1 || keys[0] == 3);
        ok(tern_checkpoint_close(checkpoint));
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
    refused(tern_checkpoint_open(folder, &checkpoint), TERN_INVALID, folder, "is no checkpoint");
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
        cmocka_unit_test(only_changes_are_written),
        cmocka_unit_test(a_value_may_come_back),
        cmocka_unit_test(sometimes_all_rows_are_written),
        cmocka_unit_test(rows_that_left_stay_away),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(damage_is_found_before_any_row_is_replaced),
        cmocka_unit_test(leftovers_are_cleared),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
