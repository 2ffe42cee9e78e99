/* test_wordvec_files - vectors written, read again in every format, compared and examined. */
#include "support/folder.h"

#include <math.h>
#include <sys/stat.h>

#include "wordvec/lexicon.h"
#include "wordvec/wordfiles.h"
#include "wordvec/wordtest.h"

enum { DIM = 3, WIDTH = 8 };

/* ---- A model: royalty and sex are directions, so that analogies hold --------------------------- */

static const char *const words[] = {"man", "woman", "king", "queen", "fish"};
static const float vectors[][DIM] = {{1, 0, 0}, {1, 1, 0}, {1, 0, 1}, {1, 1, 1}, {-1, 0.5f, 0}};

static void put_vector(void *context, uint64_t key, void *value, size_t length)
{
    float *row = value;
    (void)context;
    memset(row, 0, length * sizeof *row);
    for (size_t i = 0; i < DIM; i++)
        row[i] = key % 2 == 0 ? vectors[key / 2][i] : (float)key;
}

static void put_zero(void *context, uint64_t key, void *value, size_t length)
{
    (void)context, (void)key;
    memset(value, 0, length * sizeof(float));
}

struct model {
    struct names names;
    struct params params;
    struct wordfiles files;
};

static struct model *make_model(tern_init_function *init)
{
    struct model *model = array_of(1, sizeof *model);
    for (size_t i = 0; i < COUNT(words); i++) {
        uint32_t number;
        assert_true(names_add(&model->names, words[i], strlen(words[i]), &number));
    }
    assert_true(
        params_open(&model->params, NULL, NULL, "words", 2 * COUNT(words), WIDTH, init, NULL));
    model->files = (struct wordfiles){.dim = DIM,
                                      .formats = WORDFILES_TEXT | WORDFILES_BINARY,
                                      .names = &model->names,
                                      .params = &model->params};
    return model;
}

static void free_model(struct model *model)
{
    names_fini(&model->names);
    params_close(&model->params);
    free(model);
}

static void a_model_comes_back_as_it_was(void **state)
{
    struct model *one = make_model(put_vector), *other = make_model(put_zero);
    int64_t n_epochs = 0;
    (void)state;
    assert_true(wordfiles_write(&one->files, path_of("model"), 7));
    assert_true(wordfiles_read(&other->files, path_of("model"), &n_epochs));
    assert_int_equal(n_epochs, 7);
    assert_memory_equal(one->params.values, other->params.values,
                        2 * COUNT(words) * WIDTH * sizeof(float));
    free_model(one);
    free_model(other);
}

static void a_model_of_other_words_is_refused(void **state)
{
    struct model *model = make_model(put_vector);
    uint32_t number;
    int64_t n_epochs;
    (void)state;
    assert_true(wordfiles_write(&model->files, path_of("model"), 7));
    model->files.dim = 4;
    assert_false(wordfiles_read(&model->files, path_of("model"), &n_epochs));
    assert_non_null(strstr(task_error(), "--dim"));
    model->files.dim = DIM;
    assert_true(names_add(&model->names, "more", 4, &number));
    assert_false(wordfiles_read(&model->files, path_of("model"), &n_epochs));
    assert_non_null(strstr(task_error(), "the words are not those of the data"));
    put_text("model/model.txt", "dim 3\nepochs x\n");
    assert_false(wordfiles_read(&model->files, path_of("model"), &n_epochs));
    assert_non_null(strstr(task_error(), "model.txt:2"));
    free_model(model);
}

/* ---- Neighbours ------------------------------------------------------------------------------ */

/* The n words that are closest to a sum of words, into `best`; best_fini() is due. */
static void find_nearest(const struct lexicon *lexicon, struct term *terms, size_t n_terms,
                         size_t n, struct best *best)
{
    assert_true(lexicon_find(lexicon, "file", terms, n_terms));
    assert_true(best_init(best, n));
    assert_true(lexicon_nearest(lexicon, terms, n_terms, best));
}

static void check_neighbours(const char *path)
{
    struct lexicon lexicon;
    struct best best;
    struct term queen[] = {{.name = words[3]}}, first[] = {{.name = words[0]}};
    assert_true(lexicon_read(&lexicon, path));
    assert_int_equal(lexicon.names.n, COUNT(words));
    find_nearest(&lexicon, queen, 1, 10, &best);
    assert_int_equal(best.n, 4);
    assert_int_equal(best.at[3].number, 4);
    assert_true(fabs((double)best.at[3].score - (-0.5 / sqrt(3 * 1.25))) < 1e-6);
    assert_true(fabs((double)best.at[0].score - 2 / sqrt(6)) < 1e-6);
    best_fini(&best);
    find_nearest(&lexicon, first, 1, 2, &best);
    assert_int_equal(best.n, 2);
    assert_true(best.at[0].score >= best.at[1].score);
    best_fini(&best);
    lexicon_fini(&lexicon);
}

/* king - man + woman is queen, in a small world. */
static void words_can_be_added_and_subtracted(void **state)
{
    struct lexicon lexicon;
    struct best best;
    struct term sum[] = {
        {.name = "king"}, {.name = "man", .is_subtracted = true}, {.name = "woman"}};
    struct term nothing[] = {{.name = "king"}, {.name = "king", .is_subtracted = true}};
    (void)state;
    put_text("v", "6 2\nman 1 0\nwoman 0 1\nking 1 0.1\nfish -1 -1\nqueen 0.1 1\nsir 1 0.2\n");
    assert_true(lexicon_read(&lexicon, path_of("v")));
    find_nearest(&lexicon, sum, 3, 1, &best);
    assert_string_equal(names_at(&lexicon.names, best.at[0].number), "queen");
    best_fini(&best);
    assert_true(best_init(&best, 1) && lexicon_find(&lexicon, "v", nothing, 2));
    assert_false(lexicon_nearest(&lexicon, nothing, 2, &best));
    assert_non_null(strstr(task_error(), "the sum of the vectors is zero"));
    best_fini(&best);
    sum[2].name = "womam";
    assert_false(lexicon_find(&lexicon, "v", sum, 3));
    assert_non_null(
        strstr(task_error(), "no vector of 'womam' among the 6 in v; did you mean 'woman'"));
    lexicon_fini(&lexicon);
}

static void every_format_has_the_same_neighbours(void **state)
{
    struct model *model = make_model(put_vector);
    (void)state;
    assert_true(wordfiles_write(&model->files, path_of("model"), 1));
    check_neighbours(path_of("model/words.npy"));
    check_neighbours(path_of("model/words.vec"));
    check_neighbours(path_of("model/words.bin"));
    free_model(model);
}

static void lexicon_refused(const char *path, const char *why)
{
    struct lexicon lexicon;
    assert_false(lexicon_read(&lexicon, path));
    if (strstr(task_error(), why) == NULL)
        print_error("'%s' does not say '%s'\n", task_error(), why);
    assert_non_null(strstr(task_error(), why));
    lexicon_fini(&lexicon);
}

static void files_that_are_no_vectors_are_refused(void **state)
{
    char long_name[9000];
    (void)state;
    memset(long_name, 'x', sizeof long_name);
    lexicon_refused(path_of("nowhere"), "cannot open");
    lexicon_refused(put_text("v", ""), "rows and columns");
    lexicon_refused(put_text("v", "2 x\na 1 2\n"), "rows and columns");
    lexicon_refused(put_text("v", "-2 2\na 1 2\n"), "rows and columns");
    lexicon_refused(put_text("v", "2 99999999999\na 1 2\n"), "rows and columns");
    lexicon_refused(put_text("v", "2 2\na 1 2\n"), "ends after 1 of 2");
    lexicon_refused(put_text("v", "2 2\na 1 2\nb 1\n"), "middle of a vector");
    lexicon_refused(put_text("v", "2 2\na 1 2\nb 1 z\n"), "'z' is not a number");
    lexicon_refused(put_bytes("v", "2 2\na \1\2\3\4\5\6\7", 13), "middle of a vector");
    memcpy(long_name, "2 2\n", 4);
    lexicon_refused(put_bytes("v", long_name, sizeof long_name), "excessive length");
    put_text("v.txt", "a\nb\n");
    lexicon_refused(put_bytes("v.npy", "\x93NUMPY\x01\0\x02\0{}", 12), "v.npy");
}

/* ---- Examinations ---------------------------------------------------------------------------- */

static bool examine(const char *questions, const char *similarity, struct train_quality *quality)
{
    struct model *model = make_model(put_vector);
    struct train train = {.n_nodes = 1, .n_present = 1, .n_threads = 2};
    struct wordtest test;
    assert_true(progress_init(&train.progress, 2, false));
    bool ok = wordtest_read(&test, &model->names, questions, similarity, 1000) &&
              wordtest_run(&test, &train, &model->params, DIM, quality);
    wordtest_fini(&test);
    progress_fini(&train.progress);
    free_model(model);
    return ok;
}

static void analogies_are_answered(void **state)
{
    struct train_quality quality = {0};
    (void)state;
    assert_true(examine(put_text("q", ": royalty\nMan woman KING queen\nman king woman fish\n"
                                      "man king unknown fish\n: gram1-sex\nking queen man woman\n"),
                        NULL, &quality));
    assert_true(fabs(quality.values[0] - 2.0 / 3) < 1e-9);
    assert_true(fabs(quality.values[1] - 0.5) < 1e-9 && fabs(quality.values[2] - 1) < 1e-9);
    assert_false(examine(put_text("q", ": x\nman woman king\n"), NULL, &quality));
    assert_non_null(strstr(task_error(), "q:2: a question has four words"));
    assert_false(examine(put_text("q", "no such words here\n"), NULL, &quality));
    assert_non_null(strstr(task_error(), "none has only words that are known"));
}

static void similarity_is_correlated(void **state)
{
    struct train_quality quality = {0};
    (void)state;
    assert_true(examine(NULL,
                        put_text("pairs.txt", "man woman 5\nman\tfish,1\nKing queen 9\n"
                                              "man nobody 3\n"),
                        &quality));
    assert_true(fabs(quality.values[0] - 1) < 1e-9 && fabs(quality.values[1] - 1) < 1e-9);
    assert_false(examine(NULL, put_text("pairs.txt", "man woman five\n"), &quality));
    assert_non_null(strstr(task_error(), "pairs.txt:1: 'five' is not a number"));
    assert_false(examine(NULL, put_text("pairs.txt", "man woman\n"), &quality));
    assert_non_null(strstr(task_error(), "two words and a number"));
    assert_false(examine(NULL, put_text("pairs.txt", "man woman 1\n"), &quality));
    assert_non_null(strstr(task_error(), "too few"));
}

static void ranks_correlate(void **state)
{
    double a[] = {1, 2, 3, 4, 5}, b[] = {10, 200, 3000, 4000, 50000};
    double c[] = {5, 4, 3, 2, 1}, d[] = {1, 2, 3, 4, 5};
    double ties[] = {1, 1, 2, 2}, others[] = {1, 2, 3, 4};
    double same[] = {7, 7, 7}, any[] = {1, 2, 3};
    (void)state;
    assert_true(fabs(spearman(a, b, 5) - 1) < 1e-12);
    assert_true(fabs(spearman(c, d, 5) + 1) < 1e-12);
    assert_true(fabs(spearman(ties, others, 4) - 0.894427191) < 1e-9);
    assert_true(fabs(spearman(same, any, 3)) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_comes_back_as_it_was),
        cmocka_unit_test(a_model_of_other_words_is_refused),
        cmocka_unit_test(every_format_has_the_same_neighbours),
        cmocka_unit_test(words_can_be_added_and_subtracted),
        cmocka_unit_test(files_that_are_no_vectors_are_refused),
        cmocka_unit_test(analogies_are_answered),
        cmocka_unit_test(similarity_is_correlated),
        cmocka_unit_test(ranks_correlate),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
