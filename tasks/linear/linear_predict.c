/* linear_predict - predicts the labels of examples by a model that was saved. See linear.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linear/linear_files.h"
#include "common/loss.h"
#include "common/scores.h"

struct weight {
    uint64_t key;
    double value;
};

struct query {
    const struct linear_question *question;
    struct linear_info info;
    struct weight *weights; /* by key */
    size_t n, capacity;
    struct scores scores;
    double n_labelled;
};

static bool add_weights(void *context, const uint64_t *keys, const double *weights, size_t n)
{
    struct query *query = context;
    if (query->n + n > query->capacity) {
        size_t capacity = 2 * (query->n + n);
        struct weight *larger = realloc(query->weights, capacity * sizeof *larger);
        if (larger == NULL)
            return task_fail_memory("the model");
        query->weights = larger;
        query->capacity = capacity;
    }
    for (size_t i = 0; i < n; i++)
        query->weights[query->n++] = (struct weight){keys[i], weights[i]};
    return true;
}

static int compare(const void *left, const void *right)
{
    const struct weight *a = left, *b = right;
    return a->key < b->key ? -1 : a->key > b->key;
}

static double weight_of(const struct query *query, uint64_t key)
{
    const struct weight wanted = {.key = key};
    const struct weight *found =
        query->n > 0 ? bsearch(&wanted, query->weights, query->n, sizeof wanted, compare) : NULL;
    return found != NULL ? found->value : 0;
}

/* Predicts the examples of a list, one line each. */
static void answer(struct query *query, const struct examples *list)
{
    const bool is_margin = query->question->margins || query->info.loss == LOSS_SQUARED;
    for (size_t row = 0; row < list->n; row++) {
        double margin = 0;
        for (size_t i = list->start[row]; i < list->start[row + 1]; i++)
            margin += weight_of(query, list->keys[i]) * (double)list->values[i];
        if (!isnan(list->labels[row])) {
            scores_add(&query->scores, margin, (double)list->labels[row],
                       (double)list->weights[row]);
            query->n_labelled++;
        }
        if (!query->question->json)
            printf("%.6g\n", is_margin ? margin : loss_probability(margin));
    }
}

static void print_scores(const struct query *query)
{
    const struct scores *scores = &query->scores;
    printf("{\"examples\":%.0f", query->n_labelled);
    if (query->n_labelled > 0 && query->info.loss == LOSS_SQUARED)
        printf(",\"rmse\":%.6f", scores_rmse(scores));
    else if (query->n_labelled > 0) {
        double auc = scores_auc(scores);
        printf(",\"log_loss\":%.6f,\"accuracy\":%.6f", scores_log_loss(scores),
               scores_accuracy(scores));
        if (isfinite(auc))
            printf(",\"auc\":%.6f", auc);
    }
    printf("}\n");
}

static bool read_examples(struct query *query)
{
    struct examples_options reading = query->question->examples;
    struct examples_source source;
    struct examples_chunk chunk = {0};
    struct examples list = {0};
    const char *path = query->question->data;
    reading.hash_bits = (uint32_t)query->info.hash_bits;
    reading.n_grams = (uint32_t)query->info.n_grams;
    reading.constant = LINEAR_INTERCEPT_KEY;
    reading.is_binary = loss_is_binary((enum loss_kind)query->info.loss);
    if (reading.format == EXAMPLES_DETECT)
        reading.format = (enum examples_format)query->info.format;
    if (!examples_open(&source, strcmp(path, "-") == 0 ? "/dev/stdin" : path, &reading))
        return false;
    bool ok = true;
    do {
        examples_clear(&list);
        ok = examples_take(&source, &chunk) && examples_parse(&source, &chunk, &list);
        if (ok)
            answer(query, &list);
    } while (ok && chunk.n_bytes > 0);
    examples_close(&source);
    examples_chunk_fini(&chunk);
    examples_fini(&list);
    return ok;
}

bool linear_predict(const struct linear_question *question)
{
    struct query query = {.question = question};
    bool ok = scores_init(&query.scores) && linear_files_read_info(question->folder, &query.info) &&
              linear_files_read_weights(question->folder, add_weights, &query);
    if (ok && query.n > 0)
        qsort(query.weights, query.n, sizeof *query.weights, compare);
    ok = ok && read_examples(&query);
    if (ok && question->json)
        print_scores(&query);
    free(query.weights);
    scores_fini(&query.scores);
    return ok;
}
