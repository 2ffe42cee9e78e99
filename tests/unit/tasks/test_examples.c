/* test_examples - every format gives the examples that it says, shares are disjoint and complete, and what is wrong is named. */
#include "support/folder.h"

#include <float.h>
#include <math.h>
#include <zlib.h>

#include "common/examples.h"
#include "common/example_lines.h"
#include "common/rng.h"
#include "common/sentence.h"

static bool read_with(const char *paths, const struct examples_options *options,
                      struct examples *examples)
{
    struct examples_source source;
    if (!examples_open(&source, paths, options))
        return false;
    bool ok = examples_read_all(&source, 1, examples);
    examples_close(&source);
    return ok;
}

/* Reads a text, which must fail with a sentence that has these words. */
static void fails_with(const char *text, const struct examples_options *options, const char *word)
{
    struct examples examples = {0};
    bool ok = read_with(put_text("bad", text), options, &examples);
    examples_fini(&examples);
    assert_false(ok);
    if (strstr(task_error(), word) == NULL)
        print_error("'%s' does not name '%s'\n", task_error(), word);
    assert_non_null(strstr(task_error(), word));
}

static struct examples read_text(const char *text, const struct examples_options *options)
{
    struct examples examples = {0};
    bool ok = read_with(put_text("good", text), options, &examples);
    if (!ok)
        print_error("%s\n", task_error());
    assert_true(ok);
    return examples;
}

static void expect_example(const struct examples *examples, size_t i, float label, float weight,
                           size_t n)
{
    assert_true(i < examples->n);
    assert_true(isnan(label) ? isnan(examples->labels[i]) : examples->labels[i] == label);
    assert_true(examples->weights[i] == weight);
    assert_int_equal(examples->start[i + 1] - examples->start[i], n);
}

static void expect_feature(const struct examples *examples, size_t i, uint64_t key, float value,
                           uint32_t field)
{
    assert_int_equal(examples->keys[i], key);
    assert_true(examples->values[i] == value);
    assert_int_equal(examples->fields[i], field);
}

static uint64_t hash(const char *text, uint64_t seed)
{
    return examples_hash(text, strlen(text), seed);
}

/* ---- Numbers ---------------------------------------------------------------------------------- */

static void numbers_are_those_of_the_library(void **state)
{
    struct rng rng = rng_seed(1, 0);
    (void)state;
    for (int i = 0; i < 100000; i++) {
        char text[64];
        double value = (rng_unit(&rng) - 0.5) * pow(10, (double)rng_below(&rng, 40) - 20);
        snprintf(text, sizeof text, i % 2 ? "%.*g" : "%.*e", (int)rng_below(&rng, 20), value);
        const char *at = text;
        double number = 0;
        assert_true(example_real(&at, text + strlen(text), &number));
        assert_true(number == strtod(text, NULL));
        assert_int_equal(*at, '\0');
    }
}

static void numbers_end_where_they_end(void **state)
{
    static const struct {
        const char *text;
        double number;
        size_t length; /* 0: there is none */
    } cases[] = {{"1", 1, 1},        {"-1.5x", -1.5, 4}, {"+.5", 0.5, 3},   {"5.", 5, 2},
                 {".", 0, 0},        {"-", 0, 0},        {"", 0, 0},        {"e5", 0, 0},
                 {"1e", 1, 1},       {"1e+", 1, 1},      {"1e2", 100, 3},   {"nan", 0, 0},
                 {"inf", 0, 0},      {"0x10", 0, 1},     {"1e39", 0, 0},    {"1e-400", 0, 6},
                 {"1e999999", 0, 0}, {"00001", 1, 5},    {"1.2.3", 1.2, 3}, {"-0", 0, 2}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *at = cases[i].text;
        double number = 0;
        assert_int_equal(example_real(&at, at + strlen(at), &number), cases[i].length > 0);
        assert_int_equal(at - cases[i].text, cases[i].length);
        assert_true(number == cases[i].number);
    }
}

/* ---- Formats ---------------------------------------------------------------------------------- */

static void reads_libsvm(void **state)
{
    const struct examples_options options = {0};
    struct examples examples = read_text("+1 1:0.5 3:-2e-1 # 9:9\n"
                                         "\n# a comment\n"
                                         "-1:2.5 qid:7 18446744073709551615:1 3:1 3:1  \r\n"
                                         "0\n",
                                         &options);
    (void)state;
    assert_int_equal(examples.n, 3);
    expect_example(&examples, 0, 1, 1, 2);
    expect_feature(&examples, 0, 1, 0.5f, 0);
    expect_feature(&examples, 1, 3, -0.2f, 0);
    expect_example(&examples, 1, -1, 2.5f, 3);
    expect_feature(&examples, 2, UINT64_MAX, 1, 0);
    expect_example(&examples, 2, 0, 1, 0);
    examples_fini(&examples);
}

static void reads_libffm(void **state)
{
    const struct examples_options options = {.hash_bits = 4};
    struct examples examples = read_text("1 0:3:1 7:19:0.25\n", &options);
    (void)state;
    expect_example(&examples, 0, 1, 1, 2);
    expect_feature(&examples, 0, 3, 1, 0);
    expect_feature(&examples, 1, 3, 0.25f, 7);
    examples_fini(&examples);
}

static void reads_vowpal_wabbit(void **state)
{
    const struct examples_options options = {.n_grams = 2};
    struct examples examples = read_text("1 2.5 'tag|user:0.5 age:4 anna |f 7:2\n"
                                         "| a b\n"
                                         "-1 tagged| 5\n"
                                         "tag| 5\n",
                                         &options);
    (void)state;
    expect_example(&examples, 0, 1, 2.5f, 4);
    uint64_t user = hash("user", 0);
    expect_feature(&examples, 0, hash("age", user), 2, 'u');
    expect_feature(&examples, 1, hash("anna", user), 0.5f, 'u');
    assert_true(examples.values[2] == 1); /* the pair (age, anna) */
    expect_feature(&examples, 3, hash("f", 0) + 7, 2, 'f');
    expect_example(&examples, 1, NAN, 1, 3);
    expect_feature(&examples, 4, hash("a", 0), 1, ' ');
    expect_example(&examples, 2, -1, 1, 1);
    expect_feature(&examples, 7, 5, 1, ' ');
    expect_example(&examples, 3, NAN, 1, 1);
    examples_fini(&examples);
}

static void reads_columns(void **state)
{
    const struct examples_options options = {
        .label = "y", .weight = "w", .numeric = "age,\"n\"", .ignore = "id"};
    struct examples examples = read_text("id,y,city,age,w,\"\"\"n\"\"\"\r\n"
                                         "1,1,\"Bonn, Rhein\",0.5,2,-3\r\n"
                                         "2,0,,,1,4\n",
                                         &options);
    (void)state;
    assert_int_equal(examples.n, 2);
    expect_example(&examples, 0, 1, 2, 3);
    expect_feature(&examples, 0, hash("Bonn, Rhein", hash("city", 0)), 1, 2);
    expect_feature(&examples, 1, hash("age", 0), 0.5f, 3);
    expect_feature(&examples, 2, hash("\"n\"", 0), -3, 5);
    expect_example(&examples, 1, 0, 1, 1);
    examples_fini(&examples);
    const struct examples_options none = {0};
    examples = read_text("Label\tcity\n1\tBonn\n", &none);
    expect_example(&examples, 0, 1, 1, 1);
    expect_feature(&examples, 0, hash("Bonn", hash("city", 0)), 1, 1);
    examples_fini(&examples);
}

static void reads_criteo(void **state)
{
    const struct examples_options options = {0};
    char text[400] = "0\t2\t\t100";
    for (int i = 4; i <= 13; i++)
        strcat(text, "\t");
    for (int i = 1; i <= 26; i++)
        strcat(text, i == 26 ? "\t68fd1e64\n" : "\t");
    struct examples examples = read_text(text, &options);
    (void)state;
    expect_example(&examples, 0, 0, 1, 3);
    expect_feature(&examples, 0, hash("=2", hash("I1", 0)), 1, 1);
    expect_feature(&examples, 1, hash("21", hash("I3", 0)), 1, 3); /* log(100)^2 = 21.2 */
    expect_feature(&examples, 2, hash("68fd1e64", hash("C26", 0)), 1, 39);
    examples_fini(&examples);
}

static void names_what_is_wrong(void **state)
{
    const struct examples_options none = {0}, from_one = {.first_index = 1},
                                  svm = {.format = EXAMPLES_LIBSVM}, binary = {.is_binary = true},
                                  labelled = {.needs_labels = true},
                                  wrong_label = {.label = "clicked"},
                                  wrong_number = {.numeric = "n,m"};
    (void)state;
    fails_with("1 1:1\n1 2:x\n", &none, "bad:2: '2:x' is no feature");
    fails_with("1 1:1\n1 0:1\n", &from_one, "bad:2: the index 0 is below");
    fails_with("1 18446744073709551616:1\n", &none, "below 2^64");
    fails_with("1 1:nan\n", &none, "bad:1");
    fails_with("nan 1:1\n", &svm, "'nan' is no label");
    fails_with("1:-1 1:1\n", &none, "is no label");
    fails_with("1 5\n", &svm, "'5' is no feature");
    fails_with("", &none, "has no example");
    fails_with("\n \n", &none, "has no example");
    fails_with("1 1:1\n0 1:1\n2 1:1\n", &binary, "bad:3: the label 2 is none of -1, 0 and 1");
    fails_with("1 |a b\n| a\n", &labelled, "bad:2: the example has no label");
    fails_with("1 |a b\n1 c\n", &none, "bad:2: there is no |");
    fails_with("x 1 |a b\n", &none, "'x' is no label");
    fails_with("1 |a b:c\n", &none, "'b:c' does not end with");
    fails_with("label,n\n1,2,3\n", &none, "bad:2: the row has more than 2 fields");
    fails_with("label,n\n1\n", &none, "bad:2: the row has 1 fields");
    fails_with("label,n\n1,\"a\n", &none, "a double quote is not closed");
    fails_with("label,n\n1,\"a\"b\n", &none, "a separator must follow");
    fails_with("label,n\n,2\n", &none, "the label is empty");
    fails_with("label,n\nyes,2\n", &none, "'yes' is not a finite number");
    fails_with("label,n\n1,2\n", &wrong_label, "no column 'clicked'");
    fails_with("label,n\n1,2\n", &wrong_number, "only 1 columns of the numeric ones");
    fails_with("label,label\n1,2\n", &none, "2 columns of the label");
}

static void refuses_two_formats(void **state)
{
    const struct examples_options none = {0};
    struct examples examples = {0};
    char paths[300];
    (void)state;
    put_text("one", "1 1:1\n");
    put_text("two", "1 |a b\n");
    snprintf(paths, sizeof paths, "%s/one,%s/two", folder, folder);
    assert_false(read_with(paths, &none, &examples));
    assert_non_null(strstr(task_error(), "two looks like vw, but the file before it like libsvm"));
    examples_fini(&examples);
}

/* ---- Shares ----------------------------------------------------------------------------------- */

enum { N_LINES = 20000 };

/* Writes two files, one of them packed: example i has the label i and the feature i. */
static void put_many(char *paths, size_t size)
{
    char *text = array_of(N_LINES, 24);
    size_t used = 0;
    for (int i = 0; i < N_LINES; i++) {
        used += (size_t)sprintf(text + used, "%d %d:1\n", i, i);
        if (i == N_LINES / 2 || i == N_LINES - 1) {
            char name[160];
            snprintf(name, sizeof name, "%s/many%d.gz", folder, i == N_LINES - 1);
            gzFile file = gzopen(name, "wb");
            assert_non_null(file);
            assert_int_equal(gzwrite(file, text, (unsigned)used), used);
            assert_int_equal(gzclose(file), Z_OK);
            used = 0;
        }
    }
    free(text);
    snprintf(paths, size, "%s/many0.gz,%s/many1.gz", folder, folder);
}

static void shares_are_disjoint_and_complete(void **state)
{
    enum { PARTS = 3, THREADS = 2 };
    char paths[300];
    int *seen = array_of(N_LINES, sizeof *seen);
    memset(seen, 0, N_LINES * sizeof *seen);
    (void)state;
    put_many(paths, sizeof paths);
    for (uint32_t part = 0; part < PARTS; part++) {
        const struct examples_options options = {.part = part, .n_parts = PARTS};
        struct examples lists[THREADS] = {{0}};
        struct examples_source source;
        size_t n = 0;
        assert_true(examples_open(&source, paths, &options));
        assert_true(examples_read_all(&source, THREADS, lists));
        for (size_t t = 0; t < THREADS; t++) {
            for (size_t i = 0; i < lists[t].n; i++) {
                assert_true(lists[t].labels[i] == (float)lists[t].keys[i]);
                seen[lists[t].keys[i]]++;
            }
            n += lists[t].n;
            examples_fini(&lists[t]);
        }
        assert_in_range(n, N_LINES / PARTS / 2, N_LINES / PARTS * 2);
        examples_close(&source);
    }
    for (int i = 0; i < N_LINES; i++)
        assert_int_equal(seen[i], 1);
    free(seen);
}

static void errors_in_later_chunks_name_the_line(void **state)
{
    const struct examples_options none = {0};
    char *text = array_of(N_LINES, 24);
    size_t used = 0;
    (void)state;
    for (int i = 1; i < N_LINES; i++)
        used += (size_t)sprintf(text + used, "%d %d:%s\n", i, i, i == 17777 ? "x" : "1");
    fails_with(text, &none, "bad:17777: '17777:x'");
    free(text);
}

/* ---- Hostile input ---------------------------------------------------------------------------- */

/* Changes some bytes of a good text: each parser returns, with or without a sentence, and lists stay consistent. */
static void survives_any_bytes(void **state)
{
    static const char *const texts[] = {
        "1:2 qid:1 1:0.5 3:-2e-1 # 9:9\n-1 4:1\n",
        "1 0:3:1 7:19:0.25\n0 1:1:1\n",
        "1 2.5 'tag|user:0.5 age:4 anna |f 7:2\n",
        "label,b,\"c\"\"d\"\n1,\"x,\"\"y\",3\n0,,\n",
        "label\tb\n1\tx\n",
        "0\t1\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\ta\n"};
    static const char some[] = "0123456789.:|,\"'\t #-+eE\n\r";
    struct rng rng = rng_seed(7, 0);
    size_t n_read = 0;
    (void)state;
    for (int round = 0; round < 1500; round++) {
        char text[128];
        const char *model = texts[rng_below(&rng, COUNT(texts))];
        size_t length = strlen(model);
        memcpy(text, model, length);
        for (uint64_t i = rng_below(&rng, 6); i > 0; i--)
            text[rng_below(&rng, length)] = rng_below(&rng, 4) > 0
                                                ? some[rng_below(&rng, sizeof some - 1)]
                                                : (char)rng_below(&rng, 256);
        length -= rng_below(&rng, length / 2);
        const struct examples_options options = {
            .format = (enum examples_format)rng_below(&rng, EXAMPLES_CRITEO + 1),
            .n_grams = (uint32_t)rng_below(&rng, 4),
            .hash_bits = (uint32_t)rng_below(&rng, 65)};
        struct examples examples = {0};
        bool is_good = read_with(put_bytes("any", text, length), &options, &examples);
        for (size_t i = 0; is_good && i < examples.n; i++) {
            assert_true(examples.start[i] <= examples.start[i + 1]);
            assert_true(fabsf(examples.labels[i]) <= FLT_MAX || isnan(examples.labels[i]));
        }
        n_read += is_good;
        examples_fini(&examples);
    }
    assert_true(n_read > 25);
}

/* ---- Names ------------------------------------------------------------------------------------ */

static char named[4096]; /* "NAME;" of each feature that was named */
static const struct examples *named_list;

static bool note_name(void *context, uint64_t key, const char *name, size_t length)
{
    (void)context;
    assert_true(key == named_list->keys[named_list->n_features - 1]);
    assert_true(strlen(named) + length + 2 < sizeof named);
    strncat(named, name, length);
    strcat(named, ";");
    return true;
}

static const char *names_in(const char *text, struct examples_options options)
{
    struct examples examples = {0};
    named[0] = '\0';
    named_list = &examples;
    options.namer = note_name;
    assert_true(read_with(put_text("named", text), &options, &examples));
    examples_fini(&examples);
    return named;
}

static void tells_names(void **state)
{
    (void)state;
    assert_string_equal(names_in("1 |a red:2 x |b:3 12 |  q\n", (struct examples_options){0}),
                        "a^red;a^x;b^12;q;");
    assert_string_equal(names_in("1 |a u:2 v  w\n", (struct examples_options){.n_grams = 3}),
                        "a^u;a^v;a^w;a^u^v;a^v^w;a^u^v^w;");
    assert_string_equal(names_in("label,city,age\n1,\"New \"\"York\",3\n0,,4\n",
                                 (struct examples_options){.numeric = "age"}),
                        "city=New \"York;age;age;");
    assert_string_equal(names_in("1 3:1 4:1\n", (struct examples_options){0}), "");
    const char *criteo = "1\t1\t\t20\t\t\t\t\t\t\t\t\t\t\t"
                         "ab\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\tcd\n";
    assert_string_equal(names_in(criteo, (struct examples_options){0}), "I1=1;I3~8;C1=ab;C26=cd;");
}

/* A name has at most 1024 bytes; longer ones, and any bytes in them, are cut and passed on. */
static void names_have_a_limit(void **state)
{
    char text[3000] = "1 |a ";
    (void)state;
    memset(text + 5, 'x', 2000);
    strcpy(text + 2005, "\n");
    assert_int_equal(strlen(names_in(text, (struct examples_options){0})), 1024 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_library),
        cmocka_unit_test(numbers_end_where_they_end),
        cmocka_unit_test(reads_libsvm),
        cmocka_unit_test(reads_libffm),
        cmocka_unit_test(reads_vowpal_wabbit),
        cmocka_unit_test(reads_columns),
        cmocka_unit_test(reads_criteo),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(refuses_two_formats),
        cmocka_unit_test(shares_are_disjoint_and_complete),
        cmocka_unit_test(errors_in_later_chunks_name_the_line),
        cmocka_unit_test(survives_any_bytes),
        cmocka_unit_test(tells_names),
        cmocka_unit_test(names_have_a_limit),
    };
    return cmocka_run_group_tests_name("examples", tests, make_folder, drop_folder);
}
