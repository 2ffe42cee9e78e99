/*
 * Documents in both formats are the same, what is wrong with a file is said with its line, and text
 * becomes documents.
 */
#include "support/folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/sentence.h"
#include "lda/bags.h"
#include "lda/bow.h"

static void assert_text(const char *name, const char *expected)
{
    char text[512] = "";
    FILE *file = fopen(path_of(name), "rb");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_string_equal(text, expected);
}

static const char *const vocab = "sea\nwind\nsail\n";

/* ---- Reading --------------------------------------------------------------------------------- */

static void both_formats_are_the_same(void **state)
{
    static const char *const forms[] = {
        "3\n3\n3\n1 2 4\n3 1 1\n3 3 2\n",
        "3\r\n3\r\n3\r\n1 2 4\r\n3 1 1\r\n3 3 2",
        "3\n3\n4\n1\t2\t4\n2 1 0\n3 1 1\n3 3 2\n",
        "1 1:4\n0\n2 0:1 2:2\n",
        "1 1:4\r\n0\r\n2 0:1 2:2",
    };
    (void)state;
    put_text("vocab.txt", vocab);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct bags bags;
        put_text("docword.txt", forms[i]);
        assert_true(bags_read(&bags, i % 2 ? folder : path_of("docword.txt"), NULL));
        assert_int_equal(bags.n_documents, 3);
        assert_int_equal(bags.n_tokens, 7);
        assert_int_equal(bags.words.n, 3);
        assert_int_equal(bags_length(&bags, 0), 4);
        assert_int_equal(bags_length(&bags, 1), 0);
        assert_int_equal(bags_length(&bags, 2), 3);
        assert_int_equal(bags.first_pair[3], 3);
        assert_int_equal(bags.pairs[0].word, 1);
        assert_int_equal(bags.pairs[2].word, 2);
        assert_int_equal(bags.pairs[2].n, 2);
        bags_fini(&bags);
    }
}

static void the_vocabulary_is_found(void **state)
{
    static const char *const names[] = {"vocab", "vocab.txt", "vocab.harbour.txt"};
    char given[256];
    struct bags bags;
    (void)state;
    put_text("docword.harbour.txt", "1\n1\n1\n1 1 1\n");
    unlink(path_of("vocab.txt"));
    assert_false(bags_read(&bags, path_of("docword.harbour.txt"), NULL));
    assert_non_null(strstr(task_error(), "--vocab FILE"));
    bags_fini(&bags);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        put_text(names[i], i == 2 ? "quay\n" : "pier\n");
        assert_true(bags_read(&bags, path_of("docword.harbour.txt"), NULL));
        assert_string_equal(names_at(&bags.words, 0), i == 2 ? "quay" : "pier");
        bags_fini(&bags);
    }
    snprintf(given, sizeof given, "%s/vocab", folder);
    assert_true(bags_read(&bags, path_of("docword.harbour.txt"), given));
    assert_string_equal(names_at(&bags.words, 0), "pier");
    bags_fini(&bags);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_of(names[i]));
}

static void what_is_wrong_is_said(void **state)
{
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"", "there are no words"},
        {"0\n", "there are no words"},
        {"2\n3\n", "ends before its head is complete"},
        {"2\n4\n1\n1 1 1\n", ":3: there should be 4 words, but the vocabulary has 3"},
        {"2\n3\n2\n1 1 1\n", "should have 2 lines after its head, but has 1"},
        {"2\n3\n1\n3 1 1\n", ":4: document 3 is not one of the 2"},
        {"2\n3\n1\n0 1 1\n", ":4: document 0 is not one of the 2"},
        {"2\n3\n1\n1 4 1\n", ":4: word 4 is not one of the 3"},
        {"2\n3\n2\n2 1 1\n1 1 1\n", ":5: document 1 comes after document 2"},
        {"2\n3\n1\n1 1\n", ":4: '' is not a number"},
        {"2\n3\n1\n1 one 1\n", ":4: 'one 1' is not a number"},
        {"2\n3\n1\n1 -1 1\n", ":4: '-1 1' is not a number"},
        {"2\n3\n1\n1 1 1 1\n", ":4: '1' is too much"},
        {"2\n3\n2\n1 1 2147483647\n1 2 1\n", ":5: up to here there are more than"},
        {"2 0:1\n", ":1: the line should have 2 words, but has 1"},
        {"1 0:1 1:1\n", ":1: '1:1' is too much"},
        {"1 0:1\n1 3:1\n", ":2: word 3 is not in the vocabulary"},
        {"1 0-1\n", ":1: a word and its count are separated by ':'"},
        {"1 0:99999999999999999999\n", ":1: '99999999999999999999' is not a number"},
    };
    struct bags bags;
    (void)state;
    put_text("vocab.txt", vocab);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text("docword.txt", cases[i].text);
        assert_false(bags_read(&bags, folder, NULL));
        if (strstr(task_error(), cases[i].sentence) == NULL)
            fail_msg("case %zu: %s", i, task_error());
        bags_fini(&bags);
    }
    assert_false(bags_read(&bags, path_of("nowhere"), NULL));
    assert_non_null(strstr(task_error(), "nowhere"));
    bags_fini(&bags);
    unlink(path_of("docword.txt"));
    assert_false(bags_read(&bags, folder, NULL));
    assert_non_null(strstr(task_error(), "there is no docword"));
    bags_fini(&bags);
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* Makes `name`/docword.txt and so on of the file or folder `from`. */
static bool make(const char *from, int64_t min_documents, double max_share, const char *name)
{
    char *path = strdup(path_of(from));
    const struct bow_options options = {path, min_documents, max_share};
    bool ok = bow_make(&options, path_of(name));
    free(path);
    return ok;
}

static void lines_become_documents(void **state)
{
    (void)state;
    /* "the" is in too many documents, "an" too short, "once" in too few. */
    put_text("text", "The sail, the WIND: an x-sail\n\nthe wind; 12wind\nonce the sea\n"
                     "the sea's sail\n");
    assert_true(make("text", 2, 0.6, "bags"));
    assert_text("bags/vocab.txt", "sail\nwind\nsea\n");
    assert_text("bags/docword.txt", "5\n3\n6\n1 1 2\n1 2 1\n3 2 2\n4 3 1\n5 1 1\n5 3 1\n");
    assert_int_not_equal(access(path_of("bags/documents.txt"), F_OK), 0);
}

static void files_become_documents(void **state)
{
    char expected[512];
    (void)state;
    assert_int_equal(mkdir(path_of("tree"), 0777), 0);
    assert_int_equal(mkdir(path_of("tree/below"), 0777), 0);
    put_text("tree/z", "sea\nsea\n");
    put_text("tree/below/a", "wind\n");
    assert_true(make("tree", 1, 1, "bags"));
    assert_text("bags/vocab.txt", "wind\nsea\n");
    assert_text("bags/docword.txt", "2\n2\n2\n1 1 1\n2 2 2\n");
    snprintf(expected, sizeof expected, "%s/tree/below/a\n%s/tree/z\n", folder, folder);
    assert_text("bags/documents.txt", expected);
}

static void text_without_words_is_refused(void **state)
{
    (void)state;
    put_text("text", "a bc 123\n");
    assert_false(make("text", 2, 1, "none"));
    assert_non_null(strstr(task_error(), "there are no words"));
    put_text("text", "sea\nwind\n");
    assert_false(make("text", 2, 1, "none"));
    assert_non_null(strstr(task_error(), "--min-documents"));
    assert_int_not_equal(access(path_of("none"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_formats_are_the_same),
        cmocka_unit_test(the_vocabulary_is_found),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(lines_become_documents),
        cmocka_unit_test(files_become_documents),
        cmocka_unit_test(text_without_words_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
