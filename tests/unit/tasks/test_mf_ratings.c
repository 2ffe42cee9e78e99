/*
 * Ratings: the forms people have them in, the split into train and test, and what is said about files
 * that are not as they should be.
 */
#include "support/folder.h"

#include <unistd.h>

#include "common/sentence.h"
#include "mf/ratings.h"

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

/* Reads a file with this content, all of it to learn from. */
static bool read_text(const char *text, size_t n, struct ratings *ratings)
{
    put_bytes("ratings", text, n);
    const struct ratings_source source = {.data = path_of("ratings")};
    bool ok = ratings_read(ratings, &source);
    assert_int_equal(unlink(path_of("ratings")), 0);
    return ok;
}

static void same_in_all_forms(void **state)
{
    static const char *const forms[] = {
        "anna::the film::4::978300760\nbo::x::2.5::978302109\nanna::x::-1::978301968\n",
        "anna\tthe film\t4\nbo\tx\t2.5\nanna\tx\t-1\n",
        "anna\tthe film\t4\t881250949\r\nbo\tx\t2.5\t891717742\r\nanna\tx\t-1\t8\r\n",
        "userId,movieId,rating,timestamp\nanna,the film,4,1\nbo,x,2.5,2\nanna,x,-1,3",
        "\"user\",\"item\",\"rating\"\n\"anna\",\"the film\",\"4\"\n\"bo\",\"x\",2.5\nanna,x,-1\n",
        "anna;\"the film\";\"4\"\nbo;\"x\";\"2.5\"\n\"anna\";\"x\";\"-1\"\n",
        "user\titem\tfeedback_value\nanna\tthe film\t4\nbo\tx\t2.5\nanna\tx\t-1\n",
    };
    static const struct rating wanted[] = {{0, 0, 4}, {1, 1, 2.5f}, {0, 1, -1}};
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct ratings ratings;
        assert_true(read_text(forms[i], strlen(forms[i]), &ratings));
        assert_int_equal(ratings.train.n, 3);
        for (size_t k = 0; k < 3; k++) {
            assert_int_equal(ratings.train.at[k].row, wanted[k].row);
            assert_int_equal(ratings.train.at[k].column, wanted[k].column);
            assert_true(ratings.train.at[k].value == wanted[k].value);
        }
        assert_string_equal(names_at(&ratings.rows, 0), "anna");
        assert_string_equal(names_at(&ratings.columns, 0), "the film");
        assert_true(ratings.low == -1 && ratings.high == 4);
        assert_true(ratings.mean > 1.8333 && ratings.mean < 1.8334);
        ratings_fini(&ratings);
    }
}

static void quotes_enclose_separators(void **state)
{
    static const char text[] = "\"a, b\",\"say \"\"x\"\"\",1\n\"\"\"\",y,2\n";
    struct ratings ratings;
    (void)state;
    assert_true(read_text(text, sizeof text - 1, &ratings));
    assert_string_equal(names_at(&ratings.rows, 0), "a, b");
    assert_string_equal(names_at(&ratings.columns, 0), "say \"x\"");
    assert_string_equal(names_at(&ratings.rows, 1), "\"");
    ratings_fini(&ratings);
}

static void malformed_lines_are_named(void **state)
{
    static const struct {
        const char *text;
        size_t n; /* 0: up to the NUL */
        const char *sentence;
    } cases[] = {
        {"a,b,1\nc,d\n", 0, "ratings:2: a rating is user, item and a number"},
        {"a,b,1\n\nc,d,1\n", 0, "ratings:2: a rating is user, item and a number"},
        {"a,b,1\nc,d,good\n", 0, "ratings:2: 'good' is not a number"},
        {"a,b,1\nc,d,1x\n", 0, "ratings:2: '1x' is not a number"},
        {"a,b,1\nc,d,\n", 0, "ratings:2: '' is not a number"},
        {"a,b,1\nc,d,nan\n", 0, "ratings:2: 'nan' is not a number"},
        {"a,b,1\nc,d,1e99\n", 0, "ratings:2: '1e99' is too large for a rating"},
        {"a,b,1\n,d,1\n", 0, "ratings:2: the name of the user is empty"},
        {"a,b,1\nc,,1\n", 0, "ratings:2: the name of the item is empty"},
        {"a,b,1\n\"c,d,1\n", 0, "ratings:2: field 1 has a quote out of place"},
        {"a,b,1\nc,\"d\"e,1\n", 0, "ratings:2: field 2 has a quote out of place"},
        {"a,b,1\nc,d\0d,1\n", 14, "ratings:2: the line has a NUL character"},
        {"", 0, "there are no ratings in "},
        {"user,item,rating\n", 0, "there are no ratings in "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ratings ratings;
        size_t n = cases[i].n > 0 ? cases[i].n : strlen(cases[i].text);
        assert_false(read_text(cases[i].text, n, &ratings));
        if (strstr(task_error(), cases[i].sentence) == NULL)
            fail_msg("'%s' does not contain '%s'", task_error(), cases[i].sentence);
        ratings_fini(&ratings);
    }
}

/* ---- Train and test -------------------------------------------------------------------------- */

enum { N_SPLIT = 20000 };

static void write_many(void)
{
    FILE *file = fopen(path_of("many"), "w");
    assert_non_null(file);
    for (int i = 0; i < N_SPLIT; i++)
        fprintf(file, "u%d\ti%d\t%d\n", i % 100, i / 100, i);
    assert_int_equal(fclose(file), 0);
}

static void read_split(double share, uint64_t seed, struct ratings *ratings)
{
    const struct ratings_source source = {
        .data = path_of("many"), .test_share = share, .seed = seed};
    assert_true(ratings_read(ratings, &source));
}

static void a_split_is_random_and_complete(void **state)
{
    struct ratings first, again, other;
    bool *seen = calloc(N_SPLIT, sizeof *seen);
    size_t n_common = 0;
    (void)state;
    write_many();
    read_split(0.1, 7, &first);
    read_split(0.1, 7, &again);
    read_split(0.1, 8, &other);
    assert_in_range(first.test.n, N_SPLIT / 10 - 200, N_SPLIT / 10 + 200);
    assert_int_equal(first.train.n + first.test.n, N_SPLIT);
    for (size_t i = 0; i < N_SPLIT; i++) {
        struct rating rating =
            i < first.test.n ? first.test.at[i] : first.train.at[i - first.test.n];
        assert_false(seen[(size_t)rating.value]);
        seen[(size_t)rating.value] = true;
    }
    assert_int_equal(again.test.n, first.test.n);
    assert_memory_equal(again.test.at, first.test.at, first.test.n * sizeof *first.test.at);
    for (size_t i = 0, k = 0; i < first.test.n; i++) {
        while (k < other.test.n && other.test.at[k].value < first.test.at[i].value)
            k++;
        n_common += k < other.test.n && other.test.at[k].value == first.test.at[i].value;
    }
    assert_in_range(n_common, N_SPLIT / 100 - 100, N_SPLIT / 100 + 100);
    free(seen);
    ratings_fini(&first);
    ratings_fini(&again);
    ratings_fini(&other);
    assert_int_equal(unlink(path_of("many")), 0);
}

static void unknown_names_in_a_test_file(void **state)
{
    struct ratings ratings;
    struct ratings_source source = {.data = folder, .test_share = 0.5};
    (void)state;
    put_bytes("train.csv", "a,x,1\nb,y,2\n", 12);
    put_bytes("test.csv", "a,y,1\nc,y,2\nb,z,3\n", 18);

    assert_false(ratings_read(&ratings, &source));
    assert_non_null(
        strstr(task_error(), "test.csv:2: user 'c' does not occur in the training ratings"));
    ratings_fini(&ratings);

    source.unknown = RATINGS_SKIP;
    assert_true(ratings_read(&ratings, &source));
    assert_int_equal(ratings.train.n, 2);
    assert_int_equal(ratings.test.n, 1);
    assert_int_equal(ratings.n_unknown, 2);
    ratings_fini(&ratings);

    source.unknown = RATINGS_ADD;
    assert_true(ratings_read(&ratings, &source));
    assert_int_equal(ratings.test.n, 3);
    assert_int_equal(ratings.rows.n, 3);
    assert_int_equal(ratings.columns.n, 3);
    assert_int_equal(ratings.n_unknown, 2);
    assert_int_equal(ratings.n_trained_rows, 2);
    assert_int_equal(ratings.n_trained_columns, 2);
    ratings_fini(&ratings);
    assert_int_equal(unlink(path_of("train.csv")), 0);
    assert_int_equal(unlink(path_of("test.csv")), 0);
}

static void a_folder_without_ratings(void **state)
{
    struct ratings ratings;
    const struct ratings_source source = {.data = folder};
    (void)state;
    assert_false(ratings_read(&ratings, &source));
    assert_non_null(strstr(task_error(), "there is neither 'train' nor 'ratings'"));
    ratings_fini(&ratings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_in_all_forms),
        cmocka_unit_test(quotes_enclose_separators),
        cmocka_unit_test(malformed_lines_are_named),
        cmocka_unit_test(a_split_is_random_and_complete),
        cmocka_unit_test(unknown_names_in_a_test_file),
        cmocka_unit_test(a_folder_without_ratings),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
