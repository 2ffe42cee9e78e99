/* linear_predict - predicts the labels of examples by a model that was saved. See linear.h. */
#include <stdlib.h>

#include "common/prediction.h"
#include "linear/linear_files.h"

struct weight {
    uint64_t key;
    double value;
};

struct query {
    const struct linear_question *question;
    struct linear_info info;
    struct weight *weights; /* by key */
    size_t n, capacity;
    struct prediction prediction;
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
static bool answer(void *context, const struct examples *list)
{
    struct query *query = context;
    for (size_t row = 0; row < list->n; row++) {
        double margin = 0;
        for (size_t i = list->start[row]; i < list->start[row + 1]; i++)
            margin += weight_of(query, list->keys[i]) * (double)list->values[i];
        prediction_add(&query->prediction, list, row, margin);
    }
    return true;
}

static bool read_examples(struct query *query)
{
    struct examples_options reading = query->question->examples;
    reading.hash_bits = (uint32_t)query->info.hash_bits;
    reading.n_grams = (uint32_t)query->info.n_grams;
    reading.constant = LINEAR_INTERCEPT_KEY;
    reading.is_binary = loss_is_binary((enum loss_kind)query->info.loss);
    if (reading.format == EXAMPLES_DETECT)
        reading.format = (enum examples_format)query->info.format;
    return prediction_read(query->question->data, &reading, answer, query);
}

bool linear_predict(const struct linear_question *question)
{
    struct query query = {.question = question};
    bool ok = linear_files_read_info(question->folder, &query.info) &&
              prediction_init(&query.prediction, (enum loss_kind)query.info.loss, question->json,
                              question->margins) &&
              linear_files_read_weights(question->folder, add_weights, &query);
    if (ok && query.n > 0)
        qsort(query.weights, query.n, sizeof *query.weights, compare);
    ok = ok && read_examples(&query);
    if (ok)
        prediction_end(&query.prediction);
    free(query.weights);
    prediction_fini(&query.prediction);
    return ok;
}
