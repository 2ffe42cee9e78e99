/* test_input - lines of plain, gzip and zstd files come out the same, and what is wrong is named. */
#include "support/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "common/input.h"
#include "common/names.h"
#include "common/sentence.h"

static void put_gzip(const char *name, const void *bytes, size_t n)
{
    gzFile file = gzopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)n), n);
    assert_int_equal(gzclose(file), Z_OK);
}

static void put_zstd(const char *name, const void *bytes, size_t n)
{
    size_t bound = ZSTD_compressBound(n);
    char *packed = array_of(bound, 1);
    size_t size = ZSTD_compress(packed, bound, bytes, n, 3);
    assert_false(ZSTD_isError(size));
    put_bytes(name, packed, size);
    free(packed);
}

/* Cuts the last `n` bytes off a file. */
static void shorten(const char *name, off_t n)
{
    struct stat status;
    assert_int_equal(stat(path_of(name), &status), 0);
    assert_int_equal(truncate(path_of(name), status.st_size - n), 0);
}

static void fails_with(bool ok, const char *word)
{
    assert_false(ok);
    if (strstr(task_error(), word) == NULL)
        print_error("'%s' does not name '%s'\n", task_error(), word);
    assert_non_null(strstr(task_error(), word));
}

static void expect_lines(const char *name, const char *const *lines, size_t n)
{
    struct input input;
    char *line;
    size_t length;
    assert_true(input_open(&input, path_of(name)));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(input_line(&input, &line, &length), INPUT_LINE);
        assert_string_equal(line, lines[i]);
        assert_int_equal(length, strlen(lines[i]));
        assert_int_equal(input.line, i + 1);
    }
    assert_int_equal(input_line(&input, &line, &length), INPUT_END);
    input_close(&input);
}

static void reads_every_packing(void **state)
{
    static const char text[] = "one\r\n\ntwo\tthree\nthe last has no end";
    static const char *const lines[] = {"one", "", "two\tthree", "the last has no end"};
    (void)state;
    put_bytes("plain", text, strlen(text));
    put_gzip("gzip", text, strlen(text));
    put_zstd("zstd", text, strlen(text));
    expect_lines("plain", lines, COUNT(lines));
    expect_lines("gzip", lines, COUNT(lines));
    expect_lines("zstd", lines, COUNT(lines));
    put_bytes("empty", "", 0);
    expect_lines("empty", NULL, 0);
}

/* Appends a file to another. */
static void append(const char *name, const char *more)
{
    char command[300];
    snprintf(command, sizeof command, "cat %s/%s >> %s/%s", folder, more, folder, name);
    assert_int_equal(system(command), 0);
}

/* Archives that were put together are one file; what else follows gzip's is left out, as gzip does. */
static void reads_several_archives_as_one(void **state)
{
    static const char *const lines[] = {"one", "two"};
    (void)state;
    put_gzip("first", "one\nt", 5);
    put_gzip("second", "wo\n", 3);
    append("first", "second");
    expect_lines("first", lines, COUNT(lines));
    put_bytes("padding", "\0\0\0\0", 4);
    append("first", "padding");
    expect_lines("first", lines, COUNT(lines));
    put_zstd("first", "one\nt", 5);
    put_zstd("second", "wo\n", 3);
    append("first", "second");
    expect_lines("first", lines, COUNT(lines));
}

/* Reads a file through a pipe that has it in pieces of `step` bytes. */
static void expect_piped_lines(const char *name, size_t step, const char *const *lines, size_t n)
{
    char bytes[256];
    FILE *file = fopen(path_of(name), "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    pid_t writer = fork();
    if (writer == 0) {
        int fd = open(path_of("pipe"), O_WRONLY);
        bool ok = fd >= 0;
        for (size_t i = 0, left; ok && i < size; i += step) {
            left = size - i < step ? size - i : step;
            ok = write(fd, bytes + i, left) == (ssize_t)left;
        }
        _exit(!ok);
    }
    expect_lines("pipe", lines, n);
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    assert_int_equal(unlink(path_of("pipe")), 0);
}

static void reads_every_packing_from_a_pipe(void **state)
{
    static const char text[] = "one\r\n\ntwo\tthree\nthe last has no end";
    static const char *const lines[] = {"one", "", "two\tthree", "the last has no end"};
    static const char *const names[] = {"plain", "gzip", "zstd"};
    (void)state;
    put_bytes("plain", text, strlen(text));
    put_gzip("gzip", text, strlen(text));
    put_zstd("zstd", text, strlen(text));
    for (size_t i = 0; i < COUNT(names); i++) {
        expect_piped_lines(names[i], 1, lines, COUNT(lines));
        expect_piped_lines(names[i], 256, lines, COUNT(lines));
    }
}

/* Longer than any buffer, and an end that falls between buffers. */
static void reads_long_lines(void **state)
{
    enum { N = 3000000 };
    char *text = array_of(N + 3, 1);
    struct input input;
    char *line;
    size_t length;
    (void)state;
    memset(text, 'x', N);
    memcpy(text + N, "\r\ny", 3);
    put_zstd("long", text, N + 3);
    assert_true(input_open(&input, path_of("long")));
    assert_int_equal(input_line(&input, &line, &length), INPUT_LINE);
    assert_int_equal(length, N);
    assert_int_equal(input_line(&input, &line, &length), INPUT_LINE);
    assert_string_equal(line, "y");
    assert_int_equal(input_line(&input, &line, &length), INPUT_END);
    input_close(&input);
    free(text);
}

static bool read_all(const char *name)
{
    struct input input;
    char *line;
    size_t length;
    enum input_result result;
    if (!input_open(&input, path_of(name)))
        return false;
    while ((result = input_line(&input, &line, &length)) == INPUT_LINE)
        ;
    input_close(&input);
    return result == INPUT_END;
}

static void passes_over_a_byte_order_mark(void **state)
{
    static const char bytes[] = "\xef\xbb\xbf"
                                "a\n\xef\xbb\xbf"
                                "b\n";
    static const char *const lines[] = {"a", "\xef\xbb\xbf"
                                             "b"};
    (void)state;
    put_bytes("marked", bytes, sizeof bytes - 1);
    expect_lines("marked", lines, 2);
    put_gzip("marked", bytes, sizeof bytes - 1);
    expect_lines("marked", lines, 2);
    put_bytes("marked", bytes, 3);
    expect_lines("marked", (const char *const[]){""}, 1);
}

static void names_what_is_wrong(void **state)
{
    struct dice dice = {1};
    char noise[65536];
    (void)state;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)dice_roll(&dice);
    put_gzip("cut.gz", noise, sizeof noise);
    shorten("cut.gz", 1000);
    fails_with(read_all("cut.gz"), "cut.gz: cannot read it: the gzip file ends too early");
    put_zstd("cut.zst", noise, sizeof noise);
    shorten("cut.zst", 1000);
    fails_with(read_all("cut.zst"), "cut.zst: cannot read it: the zstd file ends too early");
    put_bytes("bad.zst", "\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff\xff", 10);
    fails_with(read_all("bad.zst"), "bad.zst: cannot read it");
    put_bytes("bad.gz", "\x1f\x8b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 13);
    fails_with(read_all("bad.gz"), "bad.gz: cannot read it");
    fails_with(read_all("missing"), "missing: No such file");
    fails_with(read_all("."), "it is a folder");
}

static void names_file_and_line(void **state)
{
    struct input input;
    char *line;
    size_t length;
    (void)state;
    put_bytes("lines", "a\nb\n", 4);
    assert_true(input_open(&input, path_of("lines")));
    input_line(&input, &line, &length);
    input_line(&input, &line, &length);
    fails_with(input_fail(&input, "%s is no number", line), "/lines:2: b is no number");
    input_close(&input);
}

static void finds_files_of_a_folder(void **state)
{
    char *path;
    (void)state;
    put_bytes("valid.tsv.gz", "", 0);
    assert_true(input_find(folder, "valid", &path));
    assert_string_equal(path, path_of("valid.tsv.gz"));
    free(path);
    put_bytes("valid.txt", "", 0);
    assert_true(input_find(folder, "valid", &path));
    assert_string_equal(path, path_of("valid.txt"));
    free(path);
    assert_true(input_find(folder, "other", &path));
    assert_null(path);
}

static void cuts_fields(void **state)
{
    char line[] = "a\t\tb c";
    char *fields[2];
    (void)state;
    assert_int_equal(input_fields(line, "\t", fields, 2), 3);
    assert_string_equal(fields[0], "a");
    assert_string_equal(fields[1], "");
}

static void reads_numbers(void **state)
{
    static const char *const wrong[] = {
        "-5", "+5", " 5", "5 ", "", "x", "0x5", "5.0", "1125899906842624", "99999999999999999999"};
    struct input input = {.path = "facts", .line = 3};
    uint64_t whole;
    double real;
    (void)state;
    assert_true(input_whole(&input, "0", &whole) && whole == 0);
    assert_true(input_whole(&input, "1125899906842623", &whole) && whole == 1125899906842623);
    for (size_t i = 0; i < COUNT(wrong); i++)
        fails_with(input_whole(&input, wrong[i], &whole), "facts:3: '");
    assert_true(input_real(&input, "-1.5e3", &real) && real == -1500);
    fails_with(input_real(&input, "nan", &real), "facts:3: 'nan' is not a number");
    fails_with(input_real(&input, "1e999", &real), "facts:3: '1e999' is not a number");
    fails_with(input_real(&input, "1x", &real), "facts:3: '1x' is not a number");
}

static void numbers_names_in_their_order(void **state)
{
    enum { N = 100000 };
    struct names names = {0};
    char name[32];
    uint32_t number;
    (void)state;
    assert_int_equal(names_find(&names, "x", 1), NAMES_NONE);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < N; i++) {
            int length = snprintf(name, sizeof name, "name %u", i * 7);
            assert_true(names_add(&names, name, (size_t)length, &number));
            assert_int_equal(number, i);
        }
    }
    assert_int_equal(names.n, N);
    assert_string_equal(names_at(&names, 10), "name 70");
    assert_int_equal(names_find(&names, "name 70", 7), 10);
    assert_int_equal(names_find(&names, "name 7", 6), 1);
    assert_int_equal(names_find(&names, "name 71", 7), NAMES_NONE);
    assert_true(names_add(&names, "", 0, &number));
    assert_string_equal(names_at(&names, N), "");
    names_fini(&names);
}

static void refuses_names_that_cannot_be(void **state)
{
    struct names names = {0};
    (void)state;
    put_bytes("names", "a\nb\na\n", 6);
    fails_with(names_read(&names, path_of("names")), "/names:3: 'a'");
    names_fini(&names);
    put_bytes("names", "a\nb\r\r\n", 6);
    fails_with(names_read(&names, path_of("names")), "/names:2: the name has a carriage return");
    names_fini(&names);
    put_bytes("names", "a\nb\0\n", 5);
    fails_with(names_read(&names, path_of("names")), "/names:2: the name has a NUL character");
    names_fini(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_packing),
        cmocka_unit_test(reads_several_archives_as_one),
        cmocka_unit_test(reads_every_packing_from_a_pipe),
        cmocka_unit_test(reads_long_lines),
        cmocka_unit_test(passes_over_a_byte_order_mark),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(names_file_and_line),
        cmocka_unit_test(finds_files_of_a_folder),
        cmocka_unit_test(cuts_fields),
        cmocka_unit_test(reads_numbers),
        cmocka_unit_test(numbers_names_in_their_order),
        cmocka_unit_test(refuses_names_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
