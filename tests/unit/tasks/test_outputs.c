/* test_outputs - files appear complete or not at all, and vectors can be read again. */
#include "support/check.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "common/outputs.h"
#include "common/sentence.h"
#include "common/vectors.h"

static char folder[] = "/tmp/tern-outputs-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int drop_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static size_t n_files(const char *path)
{
    size_t n = 0;
    DIR *open = opendir(path);
    assert_non_null(open);
    while (readdir(open) != NULL)
        n++;
    closedir(open);
    return n - 2;
}

static size_t read_file(const char *path, char *content, size_t size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(content, 1, size, file);
    fclose(file);
    return n;
}

static void writes_all_files(void **state)
{
    struct outputs outputs;
    char content[64] = "";
    (void)state;
    for (int round = 0; round < 2; round++) {
        assert_true(outputs_open(&outputs, path_of("all")));
        struct outfile *a = outputs_add(&outputs, "a"), *b = outputs_add(&outputs, "b");
        assert_non_null(a);
        assert_non_null(b);
        outfile_print(a, "round %d", round);
        outfile_write(b, "b", 1);
        assert_true(outputs_commit(&outputs));
        assert_int_equal(n_files(path_of("all")), 2);
    }
    read_file(path_of("all/a"), content, sizeof content);
    assert_string_equal(content, "round 1");
}

static void leaves_nothing_when_discarded(void **state)
{
    struct outputs outputs;
    struct stat status;
    (void)state;
    assert_true(outputs_open(&outputs, path_of("none")));
    outfile_print(outputs_add(&outputs, "a"), "text");
    outputs_discard(&outputs);
    assert_int_equal(stat(path_of("none"), &status), -1);
}

/* What a full disk does: every write fails. The files of the last time stay as they were. */
static void keeps_the_old_files_when_writing_fails(void **state)
{
    struct outputs outputs;
    char content[64] = "";
    (void)state;
    assert_true(outputs_open(&outputs, path_of("kept")));
    outfile_print(outputs_add(&outputs, "a"), "old");
    assert_true(outputs_commit(&outputs));
    FILE *full = fopen("/dev/full", "wb");
    if (full == NULL)
        skip();
    assert_true(outputs_open(&outputs, path_of("kept")));
    struct outfile *fine = outputs_add(&outputs, "a"), *out = outputs_add(&outputs, "b");
    outfile_print(fine, "new");
    fclose(out->file);
    out->file = full;
    outfile_print(out, "text");
    assert_false(outputs_commit(&outputs));
    assert_non_null(strstr(task_error(), "kept/b: "));
    assert_non_null(strstr(task_error(), strerror(ENOSPC)));
    assert_int_equal(n_files(path_of("kept")), 1);
    read_file(path_of("kept/a"), content, sizeof content);
    assert_string_equal(content, "old");
}

/* A name that cannot be had is found before any file gets its own. */
static void keeps_the_old_files_when_a_name_is_taken(void **state)
{
    struct outputs outputs;
    char content[64] = "";
    (void)state;
    assert_true(outputs_open(&outputs, path_of("taken")));
    outfile_print(outputs_add(&outputs, "a"), "old");
    assert_true(outputs_commit(&outputs));
    assert_int_equal(mkdir(path_of("taken/b"), 0777), 0);
    assert_true(outputs_open(&outputs, path_of("taken")));
    outfile_print(outputs_add(&outputs, "a"), "new");
    outfile_print(outputs_add(&outputs, "b"), "new");
    outfile_print(outputs_add(&outputs, "c"), "new");
    assert_false(outputs_commit(&outputs));
    assert_non_null(strstr(task_error(), "taken/b: it is a folder"));
    assert_int_equal(n_files(path_of("taken")), 2);
    read_file(path_of("taken/a"), content, sizeof content);
    assert_string_equal(content, "old");
}

/* What an interrupted run has left is written over; what one under way writes is not. */
static void uses_what_was_left_again(void **state)
{
    struct outputs first, second;
    char content[64] = "";
    (void)state;
    assert_int_equal(mkdir(path_of("left"), 0777), 0);
    FILE *left = fopen(path_of("left/.a.new"), "wb");
    assert_non_null(left);
    fprintf(left, "half of something long");
    fclose(left);
    assert_true(outputs_open(&first, path_of("left")));
    outfile_print(outputs_add(&first, "a"), "whole");
    assert_true(outputs_open(&second, path_of("left")));
    assert_null(outputs_add(&second, "a"));
    assert_non_null(strstr(task_error(), "another program is writing"));
    outputs_discard(&second);
    assert_true(outputs_commit(&first));
    assert_int_equal(n_files(path_of("left")), 1);
    read_file(path_of("left/a"), content, sizeof content);
    assert_string_equal(content, "whole");
}

static void tries_a_folder_and_leaves_it_as_it_was(void **state)
{
    struct stat status;
    (void)state;
    assert_true(outputs_try(path_of("tried")));
    assert_int_equal(stat(path_of("tried"), &status), -1);
    assert_false(outputs_try(path_of("no/where")));
}

static void names_a_folder_it_cannot_make(void **state)
{
    struct outputs outputs;
    (void)state;
    assert_false(outputs_open(&outputs, path_of("no/where")));
    assert_non_null(strstr(task_error(), "no/where: No such file"));
}

static const float vectors[2][3] = {{1, -2.5f, 0.5f}, {0, 1024, 0.1f}};

static void write_vectors(const char *name, enum vectors_format format)
{
    struct outputs outputs;
    assert_true(outputs_open(&outputs, folder));
    struct outfile *out = outputs_add(&outputs, name);
    vectors_begin(out, format, 2, 3);
    vectors_add(out, format, "one word", vectors[0], 3);
    vectors_add(out, format, "two", vectors[1], 3);
    assert_true(outputs_commit(&outputs));
}

static void reads_npy_again(void **state)
{
    struct npy npy;
    float read[6];
    (void)state;
    write_vectors("v.npy", VECTORS_NPY);
    assert_true(npy_open(&npy, path_of("v.npy")));
    assert_int_equal(npy.n_rows, 2);
    assert_int_equal(npy.n_columns, 3);
    assert_true(npy_read(&npy, 2, read));
    assert_memory_equal(read, vectors, sizeof vectors);
    assert_false(npy_read(&npy, 1, read));
    npy_close(&npy);
    struct stat status;
    assert_int_equal(stat(path_of("v.npy"), &status), 0);
    assert_int_equal(status.st_size, 128 + sizeof vectors);
}

static void writes_word2vec_formats(void **state)
{
    char content[256];
    (void)state;
    write_vectors("v.vec", VECTORS_TEXT);
    size_t n = read_file(path_of("v.vec"), content, sizeof content);
    static const char text[] = "2 3\none_word 1 -2.5 0.5\ntwo 0 1024 0.100000001\n";
    assert_int_equal(n, strlen(text));
    assert_memory_equal(content, text, n);
    write_vectors("v.bin", VECTORS_BINARY);
    n = read_file(path_of("v.bin"), content, sizeof content);
    assert_int_equal(n, 4 + 9 + 12 + 1 + 4 + 12 + 1);
    assert_memory_equal(content, "2 3\none_word ", 13);
    assert_memory_equal(content + 13, vectors[0], 12);
    assert_memory_equal(content + 25, "\ntwo ", 5);
    assert_memory_equal(content + 30, vectors[1], 12);
}

static void refuses_what_is_not_npy(void **state)
{
    static const char *const heads[] = {
        "",
        "no npy at all, but a text",
        "\x93NUMPY\x01\x00\x05\x00{",
        "\x93NUMPY\x01\x00\x40\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }      "
        " ",
        "\x93NUMPY\x01\x00\x40\x00{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }       "
        " ",
        "\x93NUMPY\x01\x00\x40\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4), }   "
        " ",
        "\x93NUMPY\x01\x00\x40\x00{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }     "
        " ",
    };
    static const size_t lengths[] = {0, 25, 11, 74, 74, 74, 74};
    struct npy npy;
    (void)state;
    for (size_t i = 0; i < COUNT(heads); i++) {
        FILE *file = fopen(path_of("bad.npy"), "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(heads[i], 1, lengths[i], file), lengths[i]);
        fclose(file);
        assert_false(npy_open(&npy, path_of("bad.npy")));
        assert_non_null(strstr(task_error(), "bad.npy is not an .npy file"));
    }
    assert_false(npy_open(&npy, path_of("missing.npy")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_all_files),
        cmocka_unit_test(leaves_nothing_when_discarded),
        cmocka_unit_test(keeps_the_old_files_when_writing_fails),
        cmocka_unit_test(keeps_the_old_files_when_a_name_is_taken),
        cmocka_unit_test(uses_what_was_left_again),
        cmocka_unit_test(tries_a_folder_and_leaves_it_as_it_was),
        cmocka_unit_test(names_a_folder_it_cannot_make),
        cmocka_unit_test(reads_npy_again),
        cmocka_unit_test(writes_word2vec_formats),
        cmocka_unit_test(refuses_what_is_not_npy),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
