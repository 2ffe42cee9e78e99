/* test_wordvec_learn - what a step of word vectors learns from, and that it learns what it should. */
#include "support/check.h"

#include <math.h>

#include "common/sentence.h"
#include "wordvec/skipgram.h"

enum { N_WORDS = 300, WINDOW = 4, N_NEGATIVES = 7, LINE_WORDS = 50, STEP_TOKENS = 500 };

/* ---- A text ---------------------------------------------------------------------------------- */

static char path[] = "/tmp/test_wordvec.XXXXXX";

/* Lines of words w0, w1, ..., of which small numbers are frequent. */
static int write_text(void **state)
{
    struct dice dice = {3};
    FILE *file = fdopen(mkstemp(path), "wb");
    (void)state;
    assert_non_null(file);
    for (int line = 0; line < 1000; line++)
        for (int i = 0; i < LINE_WORDS; i++) {
            double x = dice_unit(&dice);
            fprintf(file, "w%d%c", (int)(N_WORDS * x * x * x), i == LINE_WORDS - 1 ? '\n' : ' ');
        }
    return fclose(file);
}

static int remove_text(void **state)
{
    (void)state;
    return unlink(path);
}

/* A stream of excerpts and the one at hand. */
struct reading {
    struct text text;
    struct vocab vocab;
    struct excerpts excerpts;
    struct excerpt excerpt;
};

static struct reading *open_file(const char *file, size_t n_negatives, uint64_t worker,
                                 uint64_t n_workers, uint64_t most_kept)
{
    struct reading *reading = array_of(1, sizeof *reading);
    const struct excerpts_settings settings = {.window = WINDOW,
                                               .n_negatives = n_negatives,
                                               .worker = worker,
                                               .n_workers = n_workers,
                                               .seed = 5,
                                               .n_epochs = 2};
    const struct vocab_settings kept = {.min_count = 5,
                                        .sample = 0.01,
                                        .n_workers = n_workers,
                                        .first_own = worker,
                                        .n_own = 1,
                                        .most_kept = most_kept};
    assert_true(text_init(&reading->text, file));
    assert_true(vocab_read(&reading->vocab, &reading->text, &kept));
    assert_true(excerpts_init(&reading->excerpts, &reading->text, &reading->vocab, &settings));
    assert_true(excerpt_init(&reading->excerpt, n_negatives));
    return reading;
}

static struct reading *open_reading(size_t n_negatives, uint64_t worker, uint64_t n_workers)
{
    return open_file(path, n_negatives, worker, n_workers, UINT64_MAX);
}

/* Reads the next excerpt and draws its negatives. */
static bool next(struct reading *reading)
{
    if (!excerpts_next(&reading->excerpts, &reading->excerpt))
        return false;
    uint64_t *pool = malloc(excerpt_max_pool(reading->excerpts.n_negatives) * sizeof *pool);
    assert_non_null(pool);
    excerpts_draw(&reading->excerpts, &reading->excerpt, pool);
    excerpts_complete(&reading->excerpts, &reading->excerpt, pool);
    free(pool);
    return true;
}

static void close_reading(struct reading *reading)
{
    excerpt_fini(&reading->excerpt);
    excerpts_fini(&reading->excerpts);
    vocab_fini(&reading->vocab);
    text_fini(&reading->text);
    free(reading);
}

/* ---- Excerpts -------------------------------------------------------------------------------- */

static void check_keys(const struct reading *reading)
{
    const struct excerpt *excerpt = &reading->excerpt;
    uint8_t seen[2 * N_WORDS] = {0};
    for (size_t i = 0; i < excerpt->n_keys; i++) {
        assert_true(excerpt->keys[i] < 2 * reading->vocab.names.n);
        assert_int_equal(seen[excerpt->keys[i]]++, 0);
        assert_int_equal(excerpt->keys[i] % 2, i >= excerpt->n_words);
    }
    for (size_t i = 0; i < excerpt->n_words; i++)
        assert_int_equal(excerpt->keys[i] + 1, excerpt->keys[excerpt->n_words + i]);
}

static void check_tokens(const struct reading *reading)
{
    const struct excerpt *excerpt = &reading->excerpt;
    const uint32_t *negatives = excerpt->negatives;
    for (size_t i = 0; i < excerpt->n_tokens; i++) {
        const struct token *token = &excerpt->tokens[i];
        assert_true(token->word < excerpt->n_words);
        assert_true(token->before <= WINDOW && token->before <= i);
        assert_true(token->after <= WINDOW && i + token->after < excerpt->n_tokens);
        assert_true(token->n_negatives <= N_NEGATIVES);
        for (size_t k = 0; k < token->n_negatives; k++) {
            assert_true(negatives[k] < excerpt->n_keys - excerpt->n_words);
            assert_int_not_equal(negatives[k], token->word);
            for (size_t j = 0; j < k; j++)
                assert_int_not_equal(negatives[k], negatives[j]);
        }
        negatives += token->n_negatives;
    }
}

static void excerpts_cover_every_epoch(void **state)
{
    struct reading *reading = open_reading(N_NEGATIVES, 0, 1);
    (void)state;
    for (int epoch = 0; epoch < 3; epoch++) {
        uint64_t n_read = 0, n_tokens = 0;
        float progress = (float)epoch / 2;
        do {
            assert_true(next(reading));
            check_keys(reading);
            check_tokens(reading);
            assert_true(reading->excerpt.progress >= progress);
            progress = reading->excerpt.progress;
            n_read += reading->excerpt.n_read;
            n_tokens += reading->excerpt.n_tokens;
        } while (!reading->excerpt.ends_epoch);
        assert_int_equal(n_read, reading->vocab.n_words);
        assert_true(n_tokens > n_read / 2 && n_tokens < n_read);
        assert_true(progress <= (float)(epoch + 1) / 2);
    }
    close_reading(reading);
}

/* Reads on until an epoch is over or something fails. */
static bool read_epoch(struct reading *reading)
{
    bool ok = true;
    do {
        ok = next(reading);
    } while (ok && !reading->excerpt.ends_epoch);
    return ok;
}

static void a_text_that_loses_words_is_noticed(void **state)
{
    char file[] = "/tmp/test_wordvec.XXXXXX";
    const char *words = "a b a b a b\na b a b\n";
    int fd = mkstemp(file);
    (void)state;
    assert_int_equal(write(fd, words, strlen(words)), strlen(words));
    struct reading *reading = open_file(file, N_NEGATIVES, 0, 1, 5);
    assert_true(read_epoch(reading));
    assert_int_equal(ftruncate(fd, 10), 0);
    assert_false(read_epoch(reading));
    assert_non_null(strstr(task_error(), "of 10 words that a worker had there are 5"));
    close_reading(reading);
    close(fd);
    unlink(file);
}

static void sentences_are_not_mixed(void **state)
{
    struct reading *reading = open_reading(1, 0, 1);
    size_t n_first = 0, n_last = 0;
    (void)state;
    assert_true(next(reading));
    for (size_t i = 0; i < reading->excerpt.n_tokens; i++) {
        const struct token *token = &reading->excerpt.tokens[i];
        n_first += token->before == 0;
        n_last += token->after == 0;
        if (token->after == 0 && i + 1 < reading->excerpt.n_tokens)
            assert_int_equal(token[1].before, 0);
    }
    assert_int_equal(n_first, n_last);
    assert_int_equal(n_first, reading->excerpt.n_read / LINE_WORDS);
    close_reading(reading);
}

static void read_alike(struct reading *one, struct reading *other)
{
    for (int i = 0; i < 30; i++) {
        assert_true(next(one));
        assert_true(next(other));
        assert_int_equal(one->excerpt.n_read, other->excerpt.n_read);
        assert_int_equal(one->excerpt.ends_epoch, other->excerpt.ends_epoch);
        assert_int_equal(one->excerpt.n_keys, other->excerpt.n_keys);
        assert_memory_equal(one->excerpt.keys, other->excerpt.keys,
                            one->excerpt.n_keys * sizeof *one->excerpt.keys);
        assert_int_equal(one->excerpt.n_tokens, other->excerpt.n_tokens);
        for (size_t k = 0; k < one->excerpt.n_tokens; k++) {
            const struct token *a = &one->excerpt.tokens[k], *b = &other->excerpt.tokens[k];
            assert_int_equal(a->word, b->word);
            assert_int_equal(a->before, b->before);
            assert_int_equal(a->after, b->after);
            assert_int_equal(a->n_negatives, b->n_negatives);
        }
    }
    close_reading(one);
    close_reading(other);
}

static void the_same_seed_gives_the_same_excerpts(void **state)
{
    (void)state;
    read_alike(open_reading(N_NEGATIVES, 1, 2), open_reading(N_NEGATIVES, 1, 2));
}

/* One word less than there is, and what was kept so far is given up. */
static void a_text_that_is_not_kept_gives_the_same_excerpts(void **state)
{
    (void)state;
    for (uint64_t worker = 0; worker < 3; worker++) {
        struct reading *kept = open_reading(N_NEGATIVES, worker, 3);
        const struct transcript *transcript = vocab_transcript(&kept->vocab, worker);
        assert_non_null(transcript);
        struct reading *read = open_file(path, N_NEGATIVES, worker, 3, transcript->n - 1);
        assert_null(vocab_transcript(&read->vocab, worker));
        read_alike(kept, read);
    }
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Learns from one token and a group of predicted rows, in double precision. */
static void learn_group(const struct token *token, const double *label, double **group, size_t n,
                        double **rows, size_t width, double rate)
{
    double *around[2 * WINDOW], steps[2 * WINDOW][SKIPGRAM_GROUP];
    double *sums = array_of((2 * WINDOW + n) * width, sizeof *sums);
    size_t n_around = 0;
    for (int i = 1; i <= token->before; i++)
        around[n_around++] = rows[token[-i].word];
    for (int i = 1; i <= token->after; i++)
        around[n_around++] = rows[token[i].word];
    for (size_t i = 0; i < n_around; i++)
        for (size_t j = 0; j < n; j++) {
            double score = 0;
            for (size_t k = 0; k < width; k++)
                score += around[i][k] * group[j][k];
            steps[i][j] = rate * (label[j] - 1 / (1 + exp(-score)));
        }
    for (size_t i = 0; i < n_around; i++)
        for (size_t j = 0; j < n; j++)
            for (size_t k = 0; k < width; k++) {
                sums[i * width + k] += steps[i][j] * group[j][k];
                sums[(2 * WINDOW + j) * width + k] += steps[i][j] * around[i][k];
            }
    for (size_t k = 0; k < width; k++) {
        for (size_t i = 0; i < n_around; i++)
            around[i][k] += sums[i * width + k];
        for (size_t j = 0; j < n; j++)
            group[j][k] += sums[(2 * WINDOW + j) * width + k];
    }
    free(sums);
}

static void learn_slowly(const struct excerpt *excerpt, double **rows, size_t width, double rate)
{
    const uint32_t *negatives = excerpt->negatives;
    double **predicted = rows + excerpt->n_words;
    for (size_t i = 0; i < excerpt->n_tokens; i++) {
        const struct token *token = &excerpt->tokens[i];
        double *group[SKIPGRAM_GROUP] = {predicted[token->word]}, label[SKIPGRAM_GROUP] = {1};
        size_t n = 1;
        for (size_t k = 0; k < token->n_negatives; k++) {
            if (n == SKIPGRAM_GROUP) {
                learn_group(token, label, group, n, rows, width, rate);
                label[0] = 0;
                n = 0;
            }
            group[n++] = predicted[negatives[k]];
        }
        learn_group(token, label, group, n, rows, width, rate);
        negatives += token->n_negatives;
    }
}

/* Rows of an excerpt with random values, in both precisions. */
struct rows {
    size_t n, width;
    float *values, **single;
    double *wanted, **twice;
};

static void make_rows(struct rows *rows, size_t n, size_t dim)
{
    struct dice dice = {n};
    size_t width = skipgram_width(dim);
    *rows = (struct rows){n,
                          width,
                          array_of(n * width, sizeof *rows->values),
                          array_of(n, sizeof *rows->single),
                          array_of(n * width, sizeof *rows->wanted),
                          array_of(n, sizeof *rows->twice)};
    for (size_t i = 0; i < n; i++) {
        rows->single[i] = rows->values + i * width;
        rows->twice[i] = rows->wanted + i * width;
        for (size_t k = 0; k < dim; k++) {
            rows->single[i][k] = (float)(dice_unit(&dice) - 0.5);
            rows->twice[i][k] = (double)rows->single[i][k];
        }
    }
}

static void free_rows(struct rows *rows)
{
    free(rows->values), free(rows->single), free(rows->wanted), free(rows->twice);
}

/* Sum of the distances between what was learned and what should have been. */
static double distance(const struct rows *rows)
{
    double sum = 0;
    for (size_t i = 0; i < rows->n * rows->width; i++)
        sum += fabs((double)rows->values[i] - rows->wanted[i]);
    return sum;
}

/* A word that stands twice around a token learns twice, one after the other, which differs from the
 * sum of both by the square of the rate; hence a small rate, and some tolerance. */
static void a_step_agrees_with_double_precision(void **state)
{
    static const size_t dims[] = {1, 8, 20, 100};
    const float rate = 1e-3f;
    (void)state;
    for (size_t n_negatives = 1; n_negatives < 16; n_negatives++) {
        struct reading *reading = open_reading(n_negatives, 0, 1);
        struct excerpt *excerpt = &reading->excerpt;
        size_t dim = dims[n_negatives % COUNT(dims)];
        struct rows rows;
        assert_true(next(reading));
        excerpt->n_tokens = STEP_TOKENS; /* what both differ by grows with their number */
        make_rows(&rows, excerpt->n_keys, dim);
        double loss = skipgram_learn(excerpt, rows.single, rows.width, rate);
        double change = distance(&rows);
        learn_slowly(excerpt, rows.twice, rows.width, (double)rate);
        assert_true(distance(&rows) < 0.002 * change);
        assert_true(loss > 0.3 * (double)(1 + n_negatives) && isfinite(loss));
        for (size_t i = 0; i < rows.n; i++)
            for (size_t k = dim; k < rows.width; k++)
                assert_false(rows.single[i][k] < 0 || rows.single[i][k] > 0);
        free_rows(&rows);
        close_reading(reading);
    }
}

static void what_is_not_a_number_shows_in_the_loss(void **state)
{
    struct reading *reading = open_reading(5, 0, 1);
    struct excerpt *excerpt = &reading->excerpt;
    (void)state;
    assert_true(next(reading));
    float *values = array_of(excerpt->n_keys * 8, sizeof *values);
    float **rows = array_of(excerpt->n_keys, sizeof *rows);
    for (size_t i = 0; i < excerpt->n_keys; i++) {
        rows[i] = values + i * 8;
        rows[i][0] = NAN;
    }
    assert_true(isnan(skipgram_learn(excerpt, rows, 8, 0.1f)));
    assert_true(isnan(rows[0][0]));
    free(values), free(rows);
    close_reading(reading);
}

/* ---- What is learned ------------------------------------------------------------------------- */

enum { GROUP_WORDS = 20, DIM = 16 };

/* Lines of ten words: either of a0, a1, ... or of b0, b1, ... */
static void write_two_groups(char *file)
{
    struct dice dice = {4};
    FILE *out = fdopen(mkstemp(file), "wb");
    assert_non_null(out);
    for (int line = 0; line < 2000; line++)
        for (int i = 0; i < 10; i++)
            fprintf(out, "%c%d%c", line % 2 ? 'a' : 'b', (int)(GROUP_WORDS * dice_unit(&dice)),
                    i == 9 ? '\n' : ' ');
    assert_int_equal(fclose(out), 0);
}

/* Goes through the text so often, on rows that are all the words'. */
static void learn_epochs(struct reading *reading, float *values, int n_epochs)
{
    float **rows = array_of(excerpt_max_keys(5), sizeof *rows);
    for (int n_done = 0; n_done < n_epochs; n_done += reading->excerpt.ends_epoch) {
        assert_true(next(reading));
        for (size_t i = 0; i < reading->excerpt.n_keys; i++)
            rows[i] = values + reading->excerpt.keys[i] * DIM;
        skipgram_learn(&reading->excerpt, rows, DIM, 0.05f);
    }
    free(rows);
}

static double cosine(const float *x, const float *y)
{
    double xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < DIM; i++) {
        xy += (double)x[i] * (double)y[i];
        xx += (double)x[i] * (double)x[i];
        yy += (double)y[i] * (double)y[i];
    }
    return xy / sqrt(xx * yy);
}

static void words_of_one_company_become_alike(void **state)
{
    char file[] = "/tmp/test_wordvec.XXXXXX";
    struct dice dice = {9};
    double sums[2] = {0}, counts[2] = {0};
    (void)state;
    write_two_groups(file);
    struct reading *reading = open_file(file, 5, 0, 1, UINT64_MAX);
    const struct names *names = &reading->vocab.names;
    assert_int_equal(names->n, 2 * GROUP_WORDS);
    float *values = array_of((size_t)2 * names->n * DIM, sizeof *values);
    for (size_t i = 0; i < (size_t)2 * names->n * DIM; i++)
        values[i] = i / DIM % 2 ? 0 : (float)((dice_unit(&dice) - 0.5) / DIM);
    learn_epochs(reading, values, 10);
    for (uint32_t i = 0; i < names->n; i++)
        for (uint32_t j = 0; j < i; j++) {
            bool same = names_at(names, i)[0] == names_at(names, j)[0];
            sums[same] +=
                cosine(values + predicting_key(i) * DIM, values + predicting_key(j) * DIM);
            counts[same]++;
        }
    assert_true(sums[true] / counts[true] > 0.75);
    assert_true(sums[false] / counts[false] < 0.4);
    free(values);
    close_reading(reading);
    assert_int_equal(unlink(file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(excerpts_cover_every_epoch),
        cmocka_unit_test(a_text_that_loses_words_is_noticed),
        cmocka_unit_test(sentences_are_not_mixed),
        cmocka_unit_test(the_same_seed_gives_the_same_excerpts),
        cmocka_unit_test(a_text_that_is_not_kept_gives_the_same_excerpts),
        cmocka_unit_test(a_step_agrees_with_double_precision),
        cmocka_unit_test(what_is_not_a_number_shows_in_the_loss),
        cmocka_unit_test(words_of_one_company_become_alike),
    };
    return cmocka_run_group_tests(tests, write_text, remove_text);
}
