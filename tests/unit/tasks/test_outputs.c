/*
 * test_outputs - a folder of files is replaced as a whole, also by a program that is killed at any step, and
 * vectors can be read again.
 */
#include "support/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/outputs.h"
#include "common/sentence.h"
#include "common/vectors.h"

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

/* ---- Steps at which a program may be killed --------------------------------------------------- */

/* These functions take the place of the C library's in this program. Each call that changes the disk is a step. A
 * child is killed at step `kill_at`; `step_log` has a letter for each step that was made. */
static int kill_at, n_steps;
static bool cannot_exchange;
static char step_log[256];

static void step(char letter)
{
    if (++n_steps == kill_at)
        raise(SIGKILL);
    if ((size_t)n_steps < sizeof step_log)
        step_log[n_steps - 1] = letter;
}

int mkdir(const char *path, mode_t mode)
{
    step('m');
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int fsync(int fd)
{
    struct stat status;
    step(fstat(fd, &status) == 0 && S_ISDIR(status.st_mode) ? 'S' : 's');
    return (int)syscall(SYS_fsync, fd);
}

int linkat(int old, const char *from, int new, const char *to, int flags)
{
    step('l');
    return (int)syscall(SYS_linkat, old, from, new, to, flags);
}

int unlinkat(int fd, const char *path, int flags)
{
    step('u');
    return (int)syscall(SYS_unlinkat, fd, path, flags);
}

int rmdir(const char *path)
{
    step('d');
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int renameat2(int old, const char *from, int new, const char *to, unsigned flags)
{
    step('x');
    if (cannot_exchange && flags != 0) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_renameat2, old, from, new, to, flags);
}

int renameat(int old, const char *from, int new, const char *to)
{
    step('R');
    return (int)syscall(SYS_renameat2, old, from, new, to, 0);
}

int rename(const char *from, const char *to)
{
    step('r');
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bool has_content(const char *name, const char *text)
{
    char content[256] = "";
    return read_file(path_of(name), content, sizeof content - 1) == strlen(text) &&
           strcmp(content, text) == 0;
}

/* Two files of the same version. */
static void write_version(const char *name, const char *version)
{
    struct outputs outputs;
    assert_true(outputs_open(&outputs, path_of(name)));
    outfile_print(outputs_add(&outputs, "a"), "%s", version);
    outfile_print(outputs_add(&outputs, "b"), "%s", version);
    assert_true(outputs_commit(&outputs));
}

static bool is_version(const char *name, const char *version)
{
    char file[64];
    snprintf(file, sizeof file, "%s/a", name);
    bool first = access(path_of(file), F_OK) == 0 && has_content(file, version);
    snprintf(file, sizeof file, "%s/b", name);
    return first && access(path_of(file), F_OK) == 0 && has_content(file, version);
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
    assert_int_equal(access(path_of(".taken.new"), F_OK), -1);
    read_file(path_of("taken/a"), content, sizeof content);
    assert_string_equal(content, "old");
}

/* What an interrupted run has left is removed; what one under way writes is not. */
static void clears_what_was_left(void **state)
{
    struct outputs first, second;
    (void)state;
    assert_int_equal(mkdir(path_of(".left.new"), 0777), 0);
    FILE *left = fopen(path_of(".left.new/b"), "wb");
    assert_non_null(left);
    fprintf(left, "half of something long");
    fclose(left);
    assert_true(outputs_open(&first, path_of("left")));
    outfile_print(outputs_add(&first, "a"), "whole");
    assert_false(outputs_open(&second, path_of("left")));
    assert_non_null(strstr(task_error(), "another program is writing"));
    assert_true(outputs_commit(&first));
    assert_int_equal(n_files(path_of("left")), 1);
    assert_true(has_content("left/a", "whole"));
    assert_int_equal(access(path_of(".left.new"), F_OK), -1);
}

static void write_own(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void keeps_what_is_not_its_own(void **state)
{
    struct outputs outputs;
    (void)state;
    write_version("mixed", "old");
    write_own("mixed/notes", "mine");
    write_own("mixed/old.vec", "of the earlier run");
    assert_int_equal(mkdir(path_of("mixed/more"), 0777), 0);
    write_own("mixed/more/deep", "mine as well");
    assert_int_equal(chmod(path_of("mixed"), 0750), 0);
    assert_true(outputs_open(&outputs, path_of("mixed/")));
    outfile_print(outputs_add(&outputs, "a"), "new");
    outputs_drop(&outputs, "old.vec");
    outputs_drop(&outputs, "b");
    assert_true(outputs_commit(&outputs));
    assert_true(has_content("mixed/a", "new"));
    assert_true(has_content("mixed/notes", "mine"));
    assert_true(has_content("mixed/more/deep", "mine as well"));
    assert_int_equal(n_files(path_of("mixed")), 3);
    assert_int_equal(access(path_of(".mixed.new"), F_OK), -1);
    struct stat status;
    assert_int_equal(stat(path_of("mixed"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0750);
}

static void follows_a_link_to_the_folder(void **state)
{
    struct stat status;
    (void)state;
    write_version("behind", "old");
    assert_int_equal(symlink("behind", path_of("link")), 0);
    write_version("link", "new");
    assert_true(has_content("behind/a", "new"));
    assert_int_equal(lstat(path_of("link"), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
}

static void does_not_replace_the_folder_it_is_in(void **state)
{
    struct outputs outputs;
    char here[PATH_MAX];
    (void)state;
    write_version("here", "old");
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(path_of("here")), 0);
    assert_false(outputs_open(&outputs, "."));
    assert_non_null(strstr(task_error(), "the folder you are in"));
    assert_int_equal(chdir(here), 0);
    assert_true(has_content("here/a", "old"));
}

/* Files and folder are on the disk before the name is, and the name before the old files go. */
static void syncs_before_it_renames(void **state)
{
    (void)state;
    write_version("synced", "old");
    memset(step_log, 0, sizeof step_log);
    n_steps = 0;
    write_version("synced", "new");
    assert_string_equal(step_log, "mssSxSuud");
}

/* Replaces a folder in a child that is killed at step n; whether it was. */
static bool replace_and_kill(const char *name, int n)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        n_steps = 0;
        kill_at = n;
        write_version(name, "new");
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void kill_at_every_step(bool has_old)
{
    bool was_killed = true;
    for (int n = 1; was_killed; n++) {
        char name[32];
        snprintf(name, sizeof name, "kill-%d-%d-%d", cannot_exchange, has_old, n);
        if (has_old) {
            write_version(name, "old");
            write_own(strcat(strcpy((char[64]){0}, name), "/notes"), "mine");
        }
        was_killed = replace_and_kill(name, n);
        outputs_recover(path_of(name)); /* every reader does this first */
        bool is_there = access(path_of(name), F_OK) == 0;
        bool is_new = is_there && is_version(name, "new");
        assert_true(is_new || (has_old ? is_version(name, "old") : !is_there));
        assert_true(was_killed || is_new);
        if (has_old)
            assert_true(has_content(strcat(strcpy((char[64]){0}, name), "/notes"), "mine"));
        /* The next run succeeds and leaves nothing else. */
        write_version(name, "next");
        assert_true(is_version(name, "next"));
        char leftover[64];
        snprintf(leftover, sizeof leftover, ".%s.new", name);
        assert_int_equal(access(path_of(leftover), F_OK), -1);
        snprintf(leftover, sizeof leftover, ".%s.old", name);
        assert_int_equal(access(path_of(leftover), F_OK), -1);
    }
}

static void a_kill_at_any_step_leaves_the_old_or_the_new(void **state)
{
    (void)state;
    kill_at_every_step(true);
    kill_at_every_step(false);
}

static void also_where_folders_cannot_be_exchanged(void **state)
{
    (void)state;
    cannot_exchange = true;
    kill_at_every_step(true);
    cannot_exchange = false;
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
        cmocka_unit_test(clears_what_was_left),
        cmocka_unit_test(keeps_what_is_not_its_own),
        cmocka_unit_test(follows_a_link_to_the_folder),
        cmocka_unit_test(does_not_replace_the_folder_it_is_in),
        cmocka_unit_test(syncs_before_it_renames),
        cmocka_unit_test(a_kill_at_any_step_leaves_the_old_or_the_new),
        cmocka_unit_test(also_where_folders_cannot_be_exchanged),
        cmocka_unit_test(tries_a_folder_and_leaves_it_as_it_was),
        cmocka_unit_test(names_a_folder_it_cannot_make),
        cmocka_unit_test(reads_npy_again),
        cmocka_unit_test(writes_word2vec_formats),
        cmocka_unit_test(refuses_what_is_not_npy),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
