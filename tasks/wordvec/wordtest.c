/* wordtest - how good word vectors are. See wordtest.h. */
#include "wordvec/wordtest.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/dense.h"
#include "common/input.h"
#include "common/list.h"
#include "common/team.h"
#include "wordvec/excerpt.h"

enum {
    BLOCK_QUESTIONS = 64,
    BLOCK_WORDS = 240,
    FETCH_ROWS = 512,
    N_ANALOGY_MEASURES = 3,
};

/* ---- Reading --------------------------------------------------------------------------------- */

static uint32_t find_word(const struct names *words, const char *word)
{
    char lower[256];
    size_t length = strlen(word);
    uint32_t number = names_find(words, word, length);
    if (number != NAMES_NONE || length >= sizeof lower)
        return number;
    for (size_t i = 0; i < length; i++)
        lower[i] = (char)tolower((unsigned char)word[i]);
    return names_find(words, lower, length);
}

/* Cuts a line at blanks, of which several count as one. At most `max` fields are filled in, but all
 * are counted. */
static size_t cut(char *line, const char *separators, char **fields, size_t max)
{
    size_t n = 0;
    for (char *field; (field = strsep(&line, separators)) != NULL;) {
        if (field[0] == '\0')
            continue;
        if (n < max)
            fields[n] = field;
        n++;
    }
    return n;
}

/* A file that is being read, and where its lines go. */
struct reading {
    struct input input;
    struct wordtest *test;
    const struct names *words;
    struct pair_list *list; /* of pairs */
    bool is_syntactic;      /* the section of questions at hand */
};

/* Calls `each` for every line that is not empty. */
static bool read_lines(struct reading *reading, const char *path,
                       bool (*each)(struct reading *reading, char *line))
{
    enum input_result result = INPUT_FAILED;
    char *line;
    size_t length;
    if (!input_open(&reading->input, path))
        return false;
    bool ok = true;
    while (ok && (result = input_line(&reading->input, &line, &length)) == INPUT_LINE)
        ok = line[strspn(line, " \t")] == '\0' || each(reading, line);
    ok = ok && result == INPUT_END;
    input_close(&reading->input);
    return ok;
}

static bool read_question(struct reading *reading, char *line)
{
    struct wordtest *test = reading->test;
    struct analogy analogy;
    char *words[4] = {0};
    if (line[0] == ':') {
        reading->is_syntactic = strncmp(line + 1 + strspn(line + 1, " "), "gram", 4) == 0;
        return true;
    }
    size_t n = cut(line, " \t", words, 4);
    if (n != 4)
        return input_fail(&reading->input, "a question has four words, but this line has %zu", n);
    analogy.is_syntactic = reading->is_syntactic;
    for (size_t i = 0; i < 4; i++) {
        analogy.words[i] = find_word(reading->words, words[i]);
        if (analogy.words[i] >= test->n_candidates) {
            test->n_unknown++;
            return true;
        }
    }
    struct analogy *analogies = list_grow(test->analogies, sizeof *analogies, test->n_analogies,
                                          &test->analogy_capacity, "the test of words");
    if (analogies == NULL)
        return false;
    test->analogies = analogies;
    test->analogies[test->n_analogies++] = analogy;
    return true;
}

static bool read_pair(struct reading *reading, char *line)
{
    struct pair_list *list = reading->list;
    char *fields[3] = {0}, *end = NULL;
    size_t n = cut(line, " \t,", fields, 3);
    if (n != 3)
        return input_fail(&reading->input,
                          "a pair is two words and a number, but this line has %zu fields", n);
    struct rated_pair pair = {.rating = strtod(fields[2], &end)};
    if (end == fields[2] || *end != '\0' || !isfinite(pair.rating))
        return input_fail(&reading->input, "'%s' is not a number", fields[2]);
    for (size_t i = 0; i < 2; i++) {
        pair.words[i] = find_word(reading->words, fields[i]);
        if (pair.words[i] == NAMES_NONE) {
            list->n_unknown++;
            return true;
        }
    }
    struct rated_pair *pairs =
        list_grow(list->pairs, sizeof *pairs, list->n, &list->capacity, "the test of words");
    if (pairs == NULL)
        return false;
    list->pairs = pairs;
    list->pairs[list->n++] = pair;
    return true;
}

/* "WS-353" of "data/WS-353.txt". */
static void set_name(struct pair_list *list, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    size_t n = strcspn(name, ".");
    n = n < sizeof list->name ? n : sizeof list->name - 1;
    memcpy(list->name, name, n);
    list->name[n] = '\0';
}

/* "similarity_ws_353": lower case, and underscores for all but letters and digits. The number tells lists of
 * the same name apart. */
static void set_measure_name(struct wordtest *test, size_t number)
{
    struct pair_list *list = &test->lists[number];
    char name[sizeof list->measure_name];
    bool is_taken = false;
    for (size_t i = 0; i < number; i++)
        is_taken |= strcmp(test->lists[i].name, list->name) == 0;
    if (is_taken)
        snprintf(name, sizeof name, "similarity_%s_%zu", list->name, number + 1);
    else
        snprintf(name, sizeof name, "similarity_%s", list->name);
    memcpy(list->measure_name, name, sizeof name);
    for (char *c = list->measure_name; *c != '\0'; c++)
        *c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '_';
}

static bool read_list(struct reading *reading, const char *path)
{
    struct wordtest *test = reading->test;
    if (test->n_lists == WORDTEST_MAX_LISTS)
        return task_fail("there are more than %d files of pairs of words", WORDTEST_MAX_LISTS);
    reading->list = &test->lists[test->n_lists++];
    set_name(reading->list, path);
    set_measure_name(test, test->n_lists - 1);
    if (!read_lines(reading, path, read_pair))
        return false;
    return reading->list->n > 1 ||
           task_fail("of the pairs of words in %s, %zu are known, which is too few to measure",
                     path, reading->list->n);
}

static bool read_lists(struct reading *reading, const char *paths)
{
    char *copy = strdup(paths), *rest = copy;
    if (copy == NULL)
        return task_fail_memory("the names of files");
    bool ok = true;
    for (char *path; ok && (path = strsep(&rest, ",")) != NULL;)
        ok = read_list(reading, path);
    free(copy);
    return ok;
}

static void list_measures(struct wordtest *test)
{
    static const struct train_measure of_questions[] = {
        {.name = "analogies", .title = "analogies"},
        {.name = "analogies_semantic", .title = "semantic"},
        {.name = "analogies_syntactic", .title = "syntactic"}};
    for (size_t i = 0; test->has_questions && i < N_ANALOGY_MEASURES; i++)
        test->measures[test->n_measures++] = of_questions[i];
    if (test->n_lists > 0)
        test->measures[test->n_measures++] =
            (struct train_measure){.name = "similarity", .title = "similarity"};
    for (size_t i = 0; i < test->n_lists; i++)
        test->measures[test->n_measures++] =
            (struct train_measure){test->lists[i].measure_name, test->lists[i].name, true};
}

bool wordtest_read(struct wordtest *test, const struct names *words, const char *questions,
                   const char *similarity, uint64_t n_candidates)
{
    struct reading reading = {.test = test, .words = words};
    *test = (struct wordtest){
        .n_candidates = n_candidates < words->n ? (uint32_t)n_candidates : words->n,
        .has_questions = questions != NULL,
    };
    if (questions != NULL && !read_lines(&reading, questions, read_question))
        return false;
    if (questions != NULL && test->n_analogies == 0)
        return task_fail("of the questions in %s, none has only words that are known and among "
                         "the %u most frequent",
                         questions, test->n_candidates);
    if (similarity != NULL && !read_lists(&reading, similarity))
        return false;
    list_measures(test);
    return true;
}

void wordtest_fini(struct wordtest *test)
{
    free(test->analogies);
    for (size_t i = 0; i < test->n_lists; i++)
        free(test->lists[i].pairs);
    *test = (struct wordtest){0};
}

/* ---- Vectors --------------------------------------------------------------------------------- */

/* Fills in the vectors of words first .. first + n - 1, each of length 1. */
static bool get_vectors(const struct params *params, struct tern_worker *worker, size_t dim,
                        uint32_t first, size_t n, float *vectors)
{
    size_t length = params->length;
    float *rows = malloc(2 * FETCH_ROWS * length * sizeof *rows);
    bool ok = rows != NULL || task_fail_memory("the test of words");
    for (size_t done = 0, step; ok && done < n; done += step) {
        step = n - done < FETCH_ROWS ? n - done : FETCH_ROWS;
        ok = params_get(params, worker, predicting_key((uint32_t)(first + done)), 2 * step - 1,
                        rows);
        for (size_t i = 0; ok && i < step; i++) {
            const float *row = rows + 2 * i * length;
            float square = dense_dot(row, row, dim);
            float factor = square > 0 ? 1 / sqrtf(square) : 0;
            for (size_t k = 0; k < dim; k++)
                vectors[(done + i) * dim + k] = factor * row[k];
        }
    }
    free(rows);
    return ok;
}

/* ---- Analogies ------------------------------------------------------------------------------- */

struct exam {
    const struct wordtest *test;
    struct train *train;
    const struct params *params;
    size_t dim;
    float *vectors;     /* of the candidates */
    double (*score)[2]; /* by thread: right answers in semantic and in syntactic sections */
};

/* Fetches one thread's part of the candidates. */
static bool fetch(void *context, size_t thread)
{
    struct exam *exam = context;
    size_t n = exam->test->n_candidates, n_threads = exam->train->n_threads;
    size_t begin = n * thread / n_threads, end = n * (thread + 1) / n_threads;
    return get_vectors(exam->params, train_worker(exam->train, thread), exam->dim, (uint32_t)begin,
                       end - begin, exam->vectors + begin * exam->dim);
}

static void ask(const struct exam *exam, const struct analogy *analogies, size_t n,
                float *questions)
{
    size_t dim = exam->dim;
    for (size_t i = 0; i < n; i++) {
        const float *vectors[3];
        for (size_t k = 0; k < 3; k++)
            vectors[k] = exam->vectors + analogies[i].words[k] * dim;
        for (size_t k = 0; k < dim; k++)
            questions[i * dim + k] = vectors[1][k] - vectors[0][k] + vectors[2][k];
    }
}

/* The closest candidate so far. */
struct guess {
    uint32_t word;
    float score;
};

static void improve(struct guess *guess, const struct analogy *analogy, const float *scores,
                    uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t word = first + i;
        if (scores[i] > guess->score && word != analogy->words[0] && word != analogy->words[1] &&
            word != analogy->words[2])
            *guess = (struct guess){word, scores[i]};
    }
}

/* Answers at most BLOCK_QUESTIONS. */
static void answer(const struct exam *exam, const struct analogy *analogies, size_t n,
                   float *questions, float *scores, double *right)
{
    struct guess guesses[BLOCK_QUESTIONS];
    uint32_t n_candidates = exam->test->n_candidates;
    ask(exam, analogies, n, questions);
    for (size_t i = 0; i < n; i++)
        guesses[i] = (struct guess){NAMES_NONE, -INFINITY};
    for (uint32_t first = 0, step; first < n_candidates; first += step) {
        step = n_candidates - first < BLOCK_WORDS ? n_candidates - first : BLOCK_WORDS;
        dense_rows_by_rows(questions, n, exam->vectors + first * exam->dim, step, exam->dim,
                           scores);
        for (size_t i = 0; i < n; i++)
            improve(&guesses[i], &analogies[i], scores + i * step, first, step);
    }
    for (size_t i = 0; i < n; i++)
        right[analogies[i].is_syntactic] += guesses[i].word == analogies[i].words[3];
}

/* Answers one thread's part of the questions. */
static bool answer_part(void *context, size_t thread)
{
    struct exam *exam = context;
    struct train *train = exam->train;
    size_t n = exam->test->n_analogies, part = train->rank * train->n_threads + thread;
    size_t n_parts = train->n_present * train->n_threads, end = n * (part + 1) / n_parts;
    float *questions = malloc(BLOCK_QUESTIONS * (exam->dim + BLOCK_WORDS) * sizeof *questions);
    if (questions == NULL)
        return task_fail_memory("the test of words");
    for (size_t i = n * part / n_parts, step; i < end; i += step) {
        step = end - i < BLOCK_QUESTIONS ? end - i : BLOCK_QUESTIONS;
        answer(exam, exam->test->analogies + i, step, questions,
               questions + BLOCK_QUESTIONS * exam->dim, exam->score[thread]);
        progress_add(&train->progress, thread, step, 0);
    }
    free(questions);
    return true;
}

/* right[0] and right[1] are over all nodes. */
static bool answer_all(struct exam *exam, double right[2])
{
    struct train *train = exam->train;
    size_t n_threads = train->n_threads, n = exam->test->n_analogies;
    const struct progress_phase phase = {.title = "evaluating",
                                         .unit = "questions",
                                         .n_total = n / train->n_nodes,
                                         .n_all = (double)n,
                                         .n_later = -1};
    exam->vectors = malloc(exam->test->n_candidates * exam->dim * sizeof *exam->vectors);
    exam->score = calloc(n_threads, sizeof *exam->score);
    bool ok =
        (exam->vectors != NULL && exam->score != NULL) || task_fail_memory("the test of words");
    ok = train_agree(train, ok && team_run(n_threads, fetch, NULL, exam) &&
                                train_team(train, &phase, answer_part, exam));
    for (size_t i = 0; ok && i < n_threads; i++) {
        right[0] += exam->score[i][0];
        right[1] += exam->score[i][1];
    }
    free(exam->vectors);
    free(exam->score);
    return ok && train_sum(train, 2, right);
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static bool test_analogies(struct exam *exam, struct train_quality *quality)
{
    const struct wordtest *test = exam->test;
    double right[2] = {0}, asked[2] = {0};
    if (!answer_all(exam, right))
        return false;
    for (size_t i = 0; i < test->n_analogies; i++)
        asked[test->analogies[i].is_syntactic]++;
    quality->values[0] = (right[0] + right[1]) / (double)test->n_analogies;
    quality->values[1] = share(right[0], asked[0]);
    quality->values[2] = share(right[1], asked[1]);
    return true;
}

/* ---- Similarity ------------------------------------------------------------------------------ */

struct ranked {
    double value, rank;
    size_t place;
};

static int compare_values(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    return (a->value > b->value) - (a->value < b->value);
}

/* Replaces values by their ranks. */
static bool rank(double *values, size_t n)
{
    struct ranked *sorted = malloc((n + 1) * sizeof *sorted);
    if (sorted == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        sorted[i] = (struct ranked){.value = values[i], .place = i};
    qsort(sorted, n, sizeof *sorted, compare_values);
    for (size_t begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && !(sorted[end].value > sorted[begin].value);)
            end++;
        for (size_t i = begin; i < end; i++)
            values[sorted[i].place] = (double)(begin + end - 1) / 2;
    }
    free(sorted);
    return true;
}

double spearman(double *left, double *right, size_t n)
{
    double products = 0, left_squares = 0, right_squares = 0, mean = ((double)n - 1) / 2;
    if (!rank(left, n) || !rank(right, n))
        return (double)NAN;
    for (size_t i = 0; i < n; i++) {
        products += (left[i] - mean) * (right[i] - mean);
        left_squares += (left[i] - mean) * (left[i] - mean);
        right_squares += (right[i] - mean) * (right[i] - mean);
    }
    double both = sqrt(left_squares * right_squares);
    return both > 0 ? products / both : 0;
}

static bool rate_pairs(const struct exam *exam, const struct pair_list *list, double *ours,
                       double *theirs)
{
    size_t dim = exam->dim;
    struct tern_worker *worker = train_worker(exam->train, 0);
    float *vectors = malloc(2 * dim * sizeof *vectors);
    bool ok = vectors != NULL || task_fail_memory("the test of words");
    for (size_t i = 0; ok && i < list->n; i++) {
        const struct rated_pair *pair = &list->pairs[i];
        ok = get_vectors(exam->params, worker, dim, pair->words[0], 1, vectors) &&
             get_vectors(exam->params, worker, dim, pair->words[1], 1, vectors + dim);
        ours[i] = ok ? (double)dense_dot(vectors, vectors + dim, dim) : 0;
        theirs[i] = pair->rating;
    }
    free(vectors);
    return ok;
}

static bool correlate(const struct exam *exam, const struct pair_list *list, double *correlation)
{
    double *ratings = malloc(2 * list->n * sizeof *ratings);
    bool ok = ratings != NULL || task_fail_memory("the test of words");
    ok = ok && rate_pairs(exam, list, ratings, ratings + list->n);
    if (ok) {
        *correlation = spearman(ratings, ratings + list->n, list->n);
        ok = !isnan(*correlation) || task_fail_memory("the test of words");
    }
    free(ratings);
    return ok;
}

/* All nodes measure all pairs, since these are few. */
static bool test_similarity(struct exam *exam, struct train_quality *quality)
{
    const struct wordtest *test = exam->test;
    double *mean = quality->values + (test->has_questions ? N_ANALOGY_MEASURES : 0);
    for (size_t i = 0; i < test->n_lists; i++) {
        if (!correlate(exam, &test->lists[i], &mean[1 + i]))
            return false;
        *mean += mean[1 + i] / (double)test->n_lists;
    }
    return true;
}

bool wordtest_run(const struct wordtest *test, struct train *train, const struct params *params,
                  size_t dim, struct train_quality *quality)
{
    struct exam exam = {.test = test, .train = train, .params = params, .dim = dim};
    *quality = (struct train_quality){0};
    return (!test->has_questions || test_analogies(&exam, quality)) &&
           train_agree(train, test_similarity(&exam, quality));
}
