/*
 * logistic - learns to tell what a definition defines: an animal, a feeling, a movement ...
 *
 * Trains sparse logistic regression (learner.h) on the definitions of WordNet (wordnet.h) with
 * several threads on one node, tests it on definitions it has not seen, and shows what it learned.
 *
 *   logistic                                     train, test, show what was learned
 *   logistic "a small animal that eats nuts"     and say what these words define
 */
#include <getopt.h>
#include <time.h>
#include <unistd.h>

#include <tern/tern.h>

#include "learner.h"
#include "wordnet.h"

static struct {
    const char *data;
    int passes;
    int threads;
} args = {.data = "/usr/share/wordnet", .passes = 5};

struct digits {
    char text[32];
};

/* 1234567 as "1,234,567". */
static struct digits grouped(size_t number)
{
    struct digits plain, result = {""};
    int n = snprintf(plain.text, sizeof plain.text, "%zu", number);
    for (int i = 0, at = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            result.text[at++] = ',';
        result.text[at++] = plain.text[i];
    }
    return result;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool train(const struct model *model, const struct corpus *corpus, struct score *test)
{
    double seconds = 0;
    printf("  pass   training seconds   million row updates/s   test accuracy   test log loss\n");
    fflush(stdout);
    for (int pass = 1; pass <= args.passes; pass++) {
        struct score score;
        double start_s = now_s();
        if (!go_through(model, &corpus->train, true, args.threads, &score))
            return false;
        double pass_s = now_s() - start_s;
        seconds += pass_s;
        if (!go_through(model, &corpus->test, false, args.threads, test))
            return false;
        printf("  %4d   %16.2f   %21.2f   %12.1f%%   %13.3f\n", pass, seconds,
               (double)score.n_updates / pass_s * 1e-6,
               100.0 * (double)test->n_right / (double)test->n, test->loss / (double)test->n);
        fflush(stdout);
    }
    return true;
}

/* ---- What was learned ------------------------------------------------------------------------ */

#define N_TELLING 6       /* words shown for a kind */
#define N_SHOWN 16        /* kinds shown */
#define N_PICKED 8        /* test definitions shown */
#define ROWS_AT_ONCE 8192 /* of the table, when it is read as a whole */

/* The features with the greatest weights for a kind, the greatest first. */
struct telling {
    uint64_t key[N_TELLING];
    float weight[N_TELLING];
    char words[N_TELLING][64];
};

/* What the whole table holds. */
struct census {
    size_t n_rows, n_live_rows, n_weights, n_live_weights;
    struct telling telling[N_KINDS];
};

static void keep_telling(struct telling *telling, uint64_t key, float weight)
{
    int at = N_TELLING;
    while (at > 0 && weight > telling->weight[at - 1])
        at--;
    for (int i = N_TELLING - 1; i > at; i--) {
        telling->weight[i] = telling->weight[i - 1];
        telling->key[i] = telling->key[i - 1];
    }
    if (at < N_TELLING) {
        telling->weight[at] = weight;
        telling->key[at] = key;
    }
}

static void count_row(struct census *census, uint64_t key, const float *row)
{
    size_t n_live = 0;
    for (int k = 0; k < N_KINDS; k++) {
        n_live += row[k] != 0;
        if (key != BIAS_KEY)
            keep_telling(&census->telling[k], key, row[k]);
    }
    census->n_rows++;
    census->n_live_rows += n_live > 0;
    census->n_weights += N_KINDS;
    census->n_live_weights += n_live;
}

/* Reads every row there is, in the order of the keys. */
static bool take_census(struct tern_worker *worker, const struct model *model,
                        struct census *census)
{
    uint64_t *keys = malloc(ROWS_AT_ONCE * sizeof *keys);
    float(*rows)[N_KINDS] = malloc(ROWS_AT_ONCE * sizeof *rows);
    bool ok = keys != NULL && rows != NULL;
    if (!ok)
        fprintf(stderr, "logistic: no memory to read the table\n");
    *census = (struct census){0};
    size_t n = ROWS_AT_ONCE;
    for (uint64_t begin = 0; ok && n == ROWS_AT_ONCE; begin = n > 0 ? keys[n - 1] + 1 : 0) {
        ok = tern_pull_range(worker, model->table, begin, UINT64_MAX, ROWS_AT_ONCE, keys, rows,
                             &n) == TERN_OK ||
             complain("read the table");
        for (size_t i = 0; ok && i < n; i++)
            count_row(census, keys[i], rows[i]);
    }
    free(keys);
    free(rows);
    return ok;
}

/* The table knows words by their hash; the definitions know how they are written. */
static void name_feature(void *context, uint64_t key, const char *words, size_t length)
{
    struct census *census = context;
    for (int k = 0; k < N_KINDS; k++) {
        struct telling *telling = &census->telling[k];
        for (int i = 0; i < N_TELLING; i++)
            if (telling->key[i] == key && telling->words[i][0] == '\0')
                snprintf(telling->words[i], sizeof telling->words[i], "%.*s", (int)length, words);
    }
}

static void name_telling(struct census *census, const struct corpus *corpus)
{
    for (size_t i = 0; i < corpus->train.n; i++)
        features_of(corpus->train.at[i].text, name_feature, census);
}

static int commonest_kind(const struct score *score)
{
    int best = 0;
    for (int k = 1; k < N_KINDS; k++)
        best = score->n_of_kind[k] > score->n_of_kind[best] ? k : best;
    return best;
}

static double percent(size_t part, size_t whole)
{
    return whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
}

static void print_result(const struct model *model, const struct score *test,
                         const struct census *census)
{
    int commonest = commonest_kind(test);
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    printf(
        "\nOf %s definitions it had never seen, it filed %.1f%% under the right one of %d kinds.\n",
        grouped(test->n).text, percent(test->n_right, test->n), N_KINDS);
    printf("Always saying %s, the commonest, gets %.1f%% right.\n\n", kind_names[commonest],
           percent(test->n_of_kind[commonest], test->n));
    printf("  rows     %10s words and pairs of words; %s have a weight that is not zero\n",
           grouped(census->n_rows).text, grouped(census->n_live_rows).text);
    printf("  weights  %10s; FTRL left %s of them (%.1f%%) not zero\n",
           grouped(census->n_weights).text, grouped(census->n_live_weights).text,
           percent(census->n_live_weights, census->n_weights));
    if (tern_table_get_stats(model->table, &stats) == TERN_OK)
        printf("  memory   %10.0f MB, with FTRL's state\n", (double)stats.memory_bytes * 1e-6);
}

static void print_telling(const struct census *census, const struct score *test)
{
    bool shown[N_KINDS] = {false};
    printf(
        "\nThe %d commonest kinds, how many of their definitions it recognised, and the words and\n"
        "pairs of words that tell most (^ is the beginning of a definition):\n\n",
        N_SHOWN);
    for (int i = 0; i < N_SHOWN; i++) {
        int kind = -1;
        for (int k = 0; k < N_KINDS; k++)
            if (!shown[k] && (kind < 0 || test->n_of_kind[k] > test->n_of_kind[kind]))
                kind = k;
        shown[kind] = true;
        printf("  %-18s  %3.0f%%  ", kind_names[kind],
               percent(test->n_right_of_kind[kind], test->n_of_kind[kind]));
        for (int j = 0; j < N_TELLING && census->telling[kind].words[j][0] != '\0'; j++)
            printf("%s%s", j > 0 ? ", " : "", census->telling[kind].words[j]);
        printf("\n");
    }
}

/* ---- Single definitions ---------------------------------------------------------------------- */

static bool guess(struct tern_worker *worker, const struct model *model,
                  const struct definition *definition, int *kind, float *confidence)
{
    static uint64_t keys[MAX_FEATURES + 1];
    static float rows[MAX_FEATURES + 1][N_KINDS];
    float probability[N_KINDS];
    size_t n = append_keys(definition, keys);
    if (tern_pull(worker, model->table, keys, n, rows) != TERN_OK)
        return complain("pull");
    predict(n, rows, probability);
    *kind = likeliest(probability);
    *confidence = probability[*kind];
    return true;
}

static bool print_picked(struct tern_worker *worker, const struct model *model,
                         const struct corpus *corpus)
{
    printf("\nSome of the definitions kept aside, drawn by lot:\n\n");
    for (size_t i = 0; i < N_PICKED && i < corpus->test.n; i++) {
        const struct definition *definition = &corpus->test.at[i];
        int kind;
        float confidence;
        if (!guess(worker, model, definition, &kind, &confidence))
            return false;
        printf("  %s: %s\n    %s (%.0f%% sure)", definition->word, definition->text,
               kind_names[kind], 100.0 * (double)confidence);
        if (kind == definition->kind)
            printf(", right\n");
        else
            printf(", wrong: it is %s\n", kind_names[definition->kind]);
    }
    return true;
}

static bool print_own(struct tern_worker *worker, const struct model *model, char *text)
{
    struct definition definition = {.text = text};
    int kind;
    float confidence;
    if (!definition_features(&definition)) {
        fprintf(stderr, "logistic: no memory for '%s'\n", text);
        return false;
    }
    bool ok = guess(worker, model, &definition, &kind, &confidence);
    free(definition.features);
    if (ok)
        printf("  %s\n    %s (%.0f%% sure)\n", text, kind_names[kind], 100.0 * (double)confidence);
    return ok;
}

static bool report(struct tern_worker *worker, const struct model *model,
                   const struct corpus *corpus, const struct score *test, char **texts)
{
    struct census *census = malloc(sizeof *census);
    bool ok = census != NULL && take_census(worker, model, census);
    if (ok) {
        name_telling(census, corpus);
        print_result(model, test, census);
        print_telling(census, test);
        ok = print_picked(worker, model, corpus);
    }
    free(census);
    if (ok && *texts != NULL)
        printf("\nYours:\n\n");
    for (; ok && *texts != NULL; texts++)
        ok = print_own(worker, model, *texts);
    return ok;
}

/* ---- The program ----------------------------------------------------------------------------- */

static void print_help(void)
{
    printf(
        "Usage: logistic [OPTION]... [TEXT]...\n\n"
        "Learns from WordNet's definitions to tell what kind of thing a definition defines, shows\n"
        "what it learned, and says what each TEXT defines.\n\n"
        "  --passes N    times to go through the training definitions (default: %d)\n"
        "  --threads N   threads (default: as many as there are processors, at most %d)\n"
        "  --data DIR    folder with WordNet's data.* files (default: %s)\n"
        "  --help        print this text\n",
        args.passes, MAX_THREADS, args.data);
}

static bool read_number(const char *option, const char *text, int max, int *value)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || number < 1 || number > max) {
        fprintf(stderr, "logistic: --%s takes a whole number from 1 to %d, not '%s'\n", option, max,
                text);
        return false;
    }
    *value = (int)number;
    return true;
}

/* False when the program is over, with *status. */
static bool read_arguments(int argc, char **argv, int *status)
{
    static const struct option options[] = {{"passes", required_argument, NULL, 'p'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"data", required_argument, NULL, 'd'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    args.threads = n_processors < 1             ? 1
                   : n_processors > MAX_THREADS ? MAX_THREADS
                                                : (int)n_processors;
    *status = 2;
    for (int letter; (letter = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (letter == 'p' && !read_number("passes", optarg, 1000, &args.passes))
            return false;
        if (letter == 't' && !read_number("threads", optarg, MAX_THREADS, &args.threads))
            return false;
        if (letter == 'd')
            args.data = optarg;
        if (letter == '?')
            return false;
        if (letter == 'h') {
            print_help();
            *status = 0;
            return false;
        }
    }
    return true;
}

static bool run(const struct model *model, const struct corpus *corpus, char **texts)
{
    struct score test;
    struct tern_worker *worker;
    printf("What kind of thing does a definition define? An animal, a feeling, a movement ...\n\n"
           "  %s definitions of WordNet to learn from, %s kept aside for the test\n"
           "  Tern %s (%s), %d thread%s, one sparse table, FTRL\n\n",
           grouped(corpus->train.n).text, grouped(corpus->test.n).text, tern_version(),
           tern_kernel_name(), args.threads, args.threads == 1 ? "" : "s");
    if (!train(model, corpus, &test))
        return false;
    if (tern_worker_open(model->node, &worker) != TERN_OK)
        return complain("open a worker");
    bool ok = report(worker, model, corpus, &test, texts);
    if (tern_worker_close(worker) != TERN_OK)
        ok = complain("close a worker");
    return ok;
}

int main(int argc, char **argv)
{
    int status;
    struct corpus corpus;
    struct model model;
    if (!read_arguments(argc, argv, &status))
        return status;
    fprintf(stderr, "Reading the definitions in %s ...\n", args.data);
    if (!corpus_read(&corpus, args.data))
        return 1;
    bool ok = model_open(&model);
    if (ok) {
        ok = run(&model, &corpus, argv + optind);
        if (tern_node_close(model.node) != TERN_OK)
            ok = complain("close the node");
    }
    corpus_free(&corpus);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "logistic: cannot write to standard output\n");
        ok = false;
    }
    return ok ? 0 : 1;
}
