/*
 * Sketches of files: what keys and counts a line has, which names are kept, and which files are accepted.
 */
#include "support/check.h"

#include <unistd.h>

#include "common/sentence.h"
#include "fuzz/replay.h"
#include "sketch/sketch_file.h"
#include "sketch/sketch_lines.h"
#include "sketch/sketch_names.h"

int fuzz_sketch(const uint8_t *data, size_t size);
#define LLVMFuzzerTestOneInput fuzz_sketch
#include "fuzz/fuzz_sketch.c"
#undef LLVMFuzzerTestOneInput

static void corpus_of_sketch_holds(void **state)
{
    (void)state;
    replay(fuzz_sketch, "sketch");
}

static bool parse(const char *text, struct sketch_line *line)
{
    char copy[64];
    struct sketch_block block = {.text = copy, .n = 1, .path = "f", .first = 7};
    snprintf(copy, sizeof copy, "%s", text);
    block.begins[1] = strlen(text) + 1;
    return sketch_parse(&block, 0, line);
}

static void lines_have_keys_and_counts(void **state)
{
    struct sketch_line line;
    (void)state;
    assert_true(parse("12", &line) && line.key == 12 && line.count == 1 && !line.text);
    assert_true(parse(" 18446744073709551615\t3 ", &line) && line.key == UINT64_MAX &&
                line.count == 3 && !line.text);
    assert_true(parse("18446744073709551616", &line) && line.text && line.text_bytes == 20);
    assert_true(parse("0", &line) && line.key == 0 && !line.text);
    assert_true(parse("00", &line) && line.text && line.text_bytes == 2);
    assert_true(parse("pear 0", &line) && line.count == 0 && line.text_bytes == 4);
    assert_true(parse("  ", &line) && line.count < 0);
    static const struct {
        const char *line, *word;
    } bad[] = {{"a -1", "negative"},
               {"a 1.5", "whole number"},
               {"a 9223372036854775808", "2^63"},
               {"a b c", "more"},
               {"a\x01z", "control"}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(parse(bad[i].line, &line));
        assert_true(strstr(task_error(), "f:7: ") && strstr(task_error(), bad[i].word));
    }
}

static void names_of_chosen_keys_are_kept(void **state)
{
    enum { N = 5000 };
    struct sketch_names names = {0};
    uint64_t kept[N / 10 + 1];
    size_t n = 0;
    (void)state;
    for (uint64_t i = 0; i < 2 * N; i++) {
        char text[32];
        const int bytes = snprintf(text, sizeof text, "name%d", (int)(i % N));
        assert_true(sketch_names_add(&names, i % N, text, (size_t)bytes));
        if (i < N && i % 10 == 0)
            kept[n++] = i;
    }
    kept[n++] = N + 1; /* which has no name */
    assert_int_equal(names.n, N);
    assert_true(sketch_names_keep(&names, kept, n) && names.n == n - 1);
    assert_string_equal(sketch_names_find(&names, 4990)->text, "name4990");
    assert_null(sketch_names_find(&names, 4991));
    assert_null(sketch_names_find(&names, N + 1));
    sketch_names_fini(&names);
}

static void a_file_is_read_as_it_was_written(void **state)
{
    char path[] = "/tmp/tern-sketch-XXXXXX";
    const struct sketch_shape shape = {.width = 3, .depth = 2, .seed = 9, .is_conservative = true};
    const struct sketch_heavy heavy[] = {{5, 8, 1, "five", 4}, {7, 2, 0, "", 0}};
    const int64_t cells[] = {8, 2, 0, 10, 0, 0};
    struct sketch_writer writer;
    struct sketch_view view;
    struct sketch_heavy found[2];
    uint8_t *bytes;
    (void)state;
    close(mkstemp(path));
    assert_true(sketch_writer_open(&writer, path));
    sketch_write_header(&writer, &shape, 10, heavy, 2);
    sketch_write_cells(&writer, cells, 6);
    sketch_write_heavy(&writer, heavy, 2);
    assert_true(sketch_writer_commit(&writer));
    assert_true(sketch_read_file(path, &bytes, &view));
    sketch_view_heavy(&view, found);
    assert_true(view.sum == 10 && view.shape.width == 3 && view.shape.depth == 2 &&
                view.shape.seed == 9 && view.shape.is_conservative);
    assert_memory_equal(view.cells, cells, sizeof cells);
    assert_true(found[0].key == 5 && found[0].count == 8 && found[0].error == 1 &&
                found[1].key == 7 && !found[1].name_bytes);
    assert_memory_equal(found[0].name, "five", 4);
    free(bytes);
    /* A file that is being written and then is not leaves the old one. */
    assert_true(sketch_writer_open(&writer, path));
    sketch_write_cells(&writer, cells, 6);
    sketch_writer_discard(&writer);
    assert_true(sketch_read_file(path, &bytes, &view));
    free(bytes);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corpus_of_sketch_holds),
        cmocka_unit_test(lines_have_keys_and_counts),
        cmocka_unit_test(names_of_chosen_keys_are_kept),
        cmocka_unit_test(a_file_is_read_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
