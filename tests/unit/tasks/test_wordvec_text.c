/* test_wordvec_text - words of text: cut, shared between workers, counted and drawn. */
#include "support/folder.h"

#include <math.h>
#include <sys/stat.h>
#include <zlib.h>

#include "common/sentence.h"
#include "wordvec/corpus.h"
#include "wordvec/vocab.h"

/* ---- Files ----------------------------------------------------------------------------------- */

/* All of the text as this worker sees it: words followed by blanks, ends of sentences as '|'. */
static char *read_all(struct text_reader *reader)
{
    size_t capacity = 1 << 20, n = 0;
    char *all = array_of(capacity, 1);
    enum text_part part;
    const char *word;
    size_t length;
    while ((part = text_next(reader, &word, &length)) != TEXT_END) {
        assert_int_not_equal(part, TEXT_FAILED);
        assert_true(n + length + 2 < capacity);
        if (part == TEXT_WORD) {
            memcpy(all + n, word, length);
            n += length;
        }
        all[n++] = part == TEXT_WORD ? ' ' : '|';
    }
    return all;
}

static char *read_share(const char *data, uint64_t worker, uint64_t n_workers)
{
    struct text text;
    struct text_reader *reader = array_of(1, sizeof *reader);
    assert_true(text_init(&text, data));
    text_open(reader, &text, worker, n_workers);
    char *all = read_all(reader);
    char *again = read_all(reader);
    assert_string_equal(all, again);
    text_close(reader);
    text_fini(&text);
    free(again), free(reader);
    return all;
}

static void reads_as(const char *data, const char *wanted)
{
    char *all = read_share(data, 0, 1);
    assert_string_equal(all, wanted);
    free(all);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void lines_are_sentences_of_words(void **state)
{
    (void)state;
    reads_as(put_text("a", "the cat\tsat \r\n\n \non the mat"), "the cat sat |on the mat |");
    reads_as(put_text("a", "caf\xc3\xa9 \x01x\x02\n"), "caf\xc3\xa9 x |");
    reads_as(put_text("a", ""), "");
    reads_as(put_text("a", "\n\n \n"), "");
}

static void several_files_and_folders(void **state)
{
    char list[200];
    (void)state;
    snprintf(list, sizeof list, "%s,%s", put_text("one", "a b"), put_text("two", "c\n"));
    reads_as(list, "a b |c |");
    assert_int_equal(mkdir(path_of("books"), 0777), 0);
    put_text("books/2", "second\n");
    put_text("books/1", "first\n");
    put_text("books/.hidden", "hidden\n");
    reads_as(path_of("books"), "first |second |");
}

static void long_words_are_cut(void **state)
{
    size_t n = 3 * TEXT_PIECE;
    char *text = array_of(n + 1, 1), wanted[TEXT_WORD_MAX + 20] = "";
    (void)state;
    memset(text, 'x', n);
    memcpy(text, "a ", 2);
    memcpy(text + n - 2, " b", 2);
    memset(wanted, 'x', TEXT_WORD_MAX + 2);
    memcpy(wanted, "a ", 2);
    memcpy(wanted + TEXT_WORD_MAX + 2, " b |", 4);
    reads_as(put_text("long", text), wanted);
    free(text);
}

/* Words are numbers in their order, so that who reads them can tell which are missing. */
static char *numbered_text(uint64_t *n_words)
{
    struct dice dice = {1};
    size_t size = 5 * TEXT_PIECE / 2, n = 0;
    char *text = array_of(size + 64, 1);
    for (*n_words = 0; n < size; (*n_words)++)
        n += (size_t)sprintf(text + n, "%0*d%c", 1 + (int)dice_below(&dice, 30), (int)*n_words,
                             dice_below(&dice, 20) == 0 ? '\n' : ' ');
    return text;
}

/* Marks the words of a share; those of a sentence must follow each other. */
static void tick_off(const char *share, uint8_t *seen, uint64_t n_words)
{
    long last = -1;
    for (const char *at = share; *at != '\0';) {
        char *end;
        if (*at == '|') {
            last = -1;
            at++;
            continue;
        }
        long word = strtol(at, &end, 10);
        assert_true(word >= 0 && (uint64_t)word < n_words);
        assert_true(last < 0 || word == last + 1);
        assert_int_equal(seen[word]++, 0);
        last = word;
        at = end + 1;
    }
}

static void workers_share_every_word_once(void **state)
{
    uint64_t n_words;
    char *text = numbered_text(&n_words);
    const char *path = put_text("numbered", text);
    (void)state;
    for (uint64_t n_workers = 1; n_workers < 6; n_workers++) {
        uint8_t *seen = array_of(n_words, 1);
        for (uint64_t worker = 0; worker < n_workers; worker++) {
            char *share = read_share(path, worker, n_workers);
            tick_off(share, seen, n_words);
            free(share);
        }
        for (uint64_t i = 0; i < n_words; i++)
            assert_int_equal(seen[i], 1);
        free(seen);
    }
    free(text);
}

static void compressed_text_is_shared_alike(void **state)
{
    uint64_t n_words;
    char *text = numbered_text(&n_words);
    const char *plain = put_text("numbered", text), *packed = path_of("numbered.gz");
    gzFile file = gzopen(packed, "wb");
    (void)state;
    assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), strlen(text));
    assert_int_equal(gzclose(file), Z_OK);
    for (uint64_t worker = 0; worker < 3; worker++) {
        char *one = read_share(plain, worker, 3), *other = read_share(packed, worker, 3);
        assert_string_equal(one, other);
        free(one), free(other);
    }
    free(text);
}

static void what_cannot_be_read_is_named(void **state)
{
    const struct vocab_settings settings = {.min_count = 1, .n_workers = 1};
    struct text text;
    struct vocab vocab;
    (void)state;
    assert_true(text_init(&text, path_of("nowhere")));
    assert_false(vocab_read(&vocab, &text, &settings));
    assert_non_null(strstr(task_error(), "nowhere"));
    vocab_fini(&vocab);
    text_fini(&text);
    put_bytes("cut.gz", "\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b", 11);
    assert_true(text_init(&text, path_of("cut.gz")));
    assert_false(vocab_read(&vocab, &text, &settings));
    assert_non_null(strstr(task_error(), "cut.gz"));
    vocab_fini(&vocab);
    text_fini(&text);
    assert_int_equal(mkdir(path_of("empty"), 0777), 0);
    assert_false(text_init(&text, path_of("empty")));
    assert_non_null(strstr(task_error(), "no file in the folder"));
    text_fini(&text);
}

/* ---- Vocabulary ------------------------------------------------------------------------------ */

static bool read_vocab(struct vocab *vocab, const char *words, uint64_t min_count, double sample,
                       uint64_t n_workers)
{
    const struct vocab_settings settings = {
        .min_count = min_count, .sample = sample, .n_workers = n_workers};
    struct text text;
    assert_true(text_init(&text, put_text("vocab", words)));
    bool ok = vocab_read(vocab, &text, &settings);
    text_fini(&text);
    return ok;
}

static void known_words_come_by_frequency(void **state)
{
    struct vocab vocab;
    (void)state;
    assert_true(read_vocab(&vocab, "b a c a\nrare b a zz zz", 2, 0, 1));
    assert_int_equal(vocab.n_words, 9);
    assert_int_equal(vocab.n_known, 7);
    assert_int_equal(vocab.names.n, 3);
    assert_string_equal(names_at(&vocab.names, 0), "a");
    assert_string_equal(names_at(&vocab.names, 1), "b");
    assert_string_equal(names_at(&vocab.names, 2), "zz");
    assert_int_equal(vocab.counts[0], 3);
    assert_int_equal(vocab.counts[2], 2);
    vocab_fini(&vocab);
}

static void a_text_without_words_to_learn_is_refused(void **state)
{
    struct vocab vocab;
    (void)state;
    assert_false(read_vocab(&vocab, " \n", 1, 0, 1));
    assert_non_null(strstr(task_error(), "no words in"));
    vocab_fini(&vocab);
    assert_false(read_vocab(&vocab, "a b c", 2, 0, 1));
    assert_non_null(strstr(task_error(), "--min-count"));
    vocab_fini(&vocab);
}

static void shares_of_words_add_up(void **state)
{
    uint64_t n_words, sum = 0;
    char *text = numbered_text(&n_words);
    struct vocab vocab;
    (void)state;
    assert_true(read_vocab(&vocab, text, 1, 0, 4));
    for (size_t i = 0; i < 4; i++) {
        char *share = read_share(path_of("vocab"), i, 4);
        uint64_t n = 0;
        for (const char *at = share; *at != '\0'; at++)
            n += *at == ' ';
        assert_int_equal(vocab.n_words_of[i], n);
        sum += n;
        free(share);
    }
    assert_int_equal(sum, n_words);
    vocab_fini(&vocab);
    free(text);
}

/* A text with counts of 1000, 100, 10 and 1. */
static void read_skewed(struct vocab *vocab, double sample)
{
    char text[4 * 1111 + 1] = "", *at = text;
    static const int counts[] = {1000, 100, 10, 1};
    for (size_t i = 0; i < COUNT(counts); i++)
        for (int k = 0; k < counts[i]; k++)
            at += sprintf(at, "w%zu ", i);
    assert_true(read_vocab(vocab, text, 1, sample, 1));
}

static void frequent_words_are_left_out_now_and_then(void **state)
{
    enum { N = 100000 };
    struct vocab vocab;
    struct rng rng = rng_seed(1, 0);
    (void)state;
    read_skewed(&vocab, 0.01);
    for (uint32_t word = 0; word < 4; word++) {
        double f = (double)vocab.counts[word] / 1111, wanted = sqrt(0.01 / f) + 0.01 / f;
        int n = 0;
        for (int i = 0; i < N; i++)
            n += vocab_keeps(&vocab, word, &rng);
        wanted = wanted < 1 ? wanted : 1;
        assert_true(fabs((double)n / N - wanted) < 0.01);
    }
    vocab_fini(&vocab);
    read_skewed(&vocab, 0);
    for (uint32_t word = 0; word < 4; word++)
        assert_true(vocab_keeps(&vocab, word, &rng));
    vocab_fini(&vocab);
}

static void negatives_follow_counts_to_the_three_quarters(void **state)
{
    enum { N = 400000 };
    struct vocab vocab;
    struct rng rng = rng_seed(2, 0);
    int n[4] = {0};
    double sum = 0;
    (void)state;
    read_skewed(&vocab, 0);
    for (int i = 0; i < N; i++)
        n[vocab_draw(&vocab, &rng)]++;
    for (int i = 0; i < 4; i++)
        sum += pow((double)vocab.counts[i], 0.75);
    for (int i = 0; i < 4; i++) {
        double wanted = N * pow((double)vocab.counts[i], 0.75) / sum;
        assert_true(fabs(n[i] - wanted) < 5 * sqrt(wanted) + 1);
    }
    vocab_fini(&vocab);
}

/* ---- Corpora --------------------------------------------------------------------------------- */

static void holds_text(const char *name, const char *wanted)
{
    char got[1000] = "";
    FILE *file = fopen(path_of(name), "rb");
    assert_non_null(file);
    fread(got, 1, sizeof got - 1, file);
    fclose(file);
    assert_string_equal(got, wanted);
}

static void letters_remain_of_any_text(void **state)
{
    (void)state;
    const char *from =
        put_text("raw", "<doc id=\"1\">\nThe Cat's 2 mats,\r\n\n - 7 -\ncaf\xc3\xa9\n");
    assert_true(corpus_from_text(from, folder));
    holds_text("text.txt", "the cat s mats\ncaf\n");
    assert_false(corpus_from_text(path_of("nowhere"), path_of("new")));
    assert_int_equal(access(path_of("new"), F_OK), -1);
}

static void entries_remain_of_the_dictionary(void **state)
{
    (void)state;
    const char *from = put_text(
        "raw",
        "00-database-info\n   About it.\n"
        "Lariat \\Lar\"i*at\\ (l[a^]r\"[i^]*[a^]t), n. [Sp. la reata the\n   rope [see {X}].]\n"
        "   A long rope (of hemp). [Mexico]\n   [1913 Webster]\n\n"
        "Alae \\A\"l[ae]\\, n.\n   Wings of {Larid[ae]}, [unclosed\n");
    assert_true(corpus_from_gcide(from, folder));
    holds_text("gcide.txt", "lariat n a long rope of hemp\nalae n wings of laridae\n");
    assert_false(corpus_from_gcide(put_text("raw", "nothing\n"), folder));
    assert_non_null(strstr(task_error(), "no entries"));
    assert_false(corpus_from_gcide(path_of("nowhere"), folder));
    assert_non_null(strstr(task_error(), "dict-gcide"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_sentences_of_words),
        cmocka_unit_test(several_files_and_folders),
        cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(workers_share_every_word_once),
        cmocka_unit_test(compressed_text_is_shared_alike),
        cmocka_unit_test(what_cannot_be_read_is_named),
        cmocka_unit_test(known_words_come_by_frequency),
        cmocka_unit_test(a_text_without_words_to_learn_is_refused),
        cmocka_unit_test(shares_of_words_add_up),
        cmocka_unit_test(frequent_words_are_left_out_now_and_then),
        cmocka_unit_test(negatives_follow_counts_to_the_three_quarters),
        cmocka_unit_test(letters_remain_of_any_text),
        cmocka_unit_test(entries_remain_of_the_dictionary),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
