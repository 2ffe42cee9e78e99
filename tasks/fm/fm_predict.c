/* fm_predict - predicts the labels of examples by a model that was saved. See fm.h. */
#include <stdlib.h>
#include <string.h>

#include "common/prediction.h"
#include "fm/fm_files.h"
#include "fm/fm_step.h"

/* A feature of the model. */
struct feature {
    uint64_t key;
    float weight;
    uint32_t n_tiers;
    size_t vectors; /* where its numbers are */
};

struct query {
    const struct fm_question *question;
    struct fm_info info;
    struct fm_step step;
    struct feature *features; /* by key */
    size_t n, capacity;
    float *vectors;
    size_t n_numbers, number_capacity;
    struct prediction prediction;
};

/* ---- The model -------------------------------------------------------------------------------- */

/* Makes room for n elements. */
static bool extend(void *array, size_t *capacity, size_t n, size_t element_bytes)
{
    void **at = array;
    if (n <= *capacity)
        return true;
    void *larger = realloc(*at, 2 * n * element_bytes);
    if (larger == NULL)
        return task_fail_memory("the model");
    *at = larger;
    *capacity = 2 * n;
    return true;
}

static bool add_feature(void *context, const struct fm_feature *feature)
{
    struct query *query = context;
    const size_t n = fm_info_dims(&query->info, feature->n_tiers);
    if (!extend(&query->features, &query->capacity, query->n + 1, sizeof *query->features) ||
        !extend(&query->vectors, &query->number_capacity, query->n_numbers + n,
                sizeof *query->vectors))
        return false;
    query->features[query->n++] = (struct feature){feature->key, feature->weight,
                                                   (uint32_t)feature->n_tiers, query->n_numbers};
    if (n > 0)
        memcpy(query->vectors + query->n_numbers, feature->vectors, n * sizeof *query->vectors);
    query->n_numbers += n;
    return true;
}

static int compare(const void *left, const void *right)
{
    const struct feature *a = left, *b = right;
    return a->key < b->key ? -1 : a->key > b->key;
}

/* Fills in weight and vectors of feature i of the step. */
static void fill(struct query *query, size_t i)
{
    struct fm_step *step = &query->step;
    const struct feature wanted = {.key = step->features.keys[i]};
    const struct feature *found =
        query->n > 0 ? bsearch(&wanted, query->features, query->n, sizeof wanted, compare) : NULL;
    size_t at = found != NULL ? found->vectors : 0;
    step->weights[i] = found != NULL ? found->weight : 0;
    for (size_t t = 0; t < step->n_tiers; t++) {
        struct fm_vectors *tier = &step->tiers[t];
        const bool has = found != NULL && t < found->n_tiers;
        tier->rows[i] = has ? (uint32_t)tier->n_rows : FM_NONE;
        if (!has)
            continue;
        memcpy(tier->values + tier->n_rows++ * tier->n_dims, query->vectors + at,
               tier->n_dims * sizeof *tier->values);
        at += tier->n_dims;
    }
}

/* ---- Predictions ------------------------------------------------------------------------------ */

/* Predicts the examples of a list, one line each. */
static bool answer(void *context, const struct examples *list)
{
    struct query *query = context;
    struct fm_step *step = &query->step;
    if (list->n == 0)
        return true;
    if (!fm_step_list(step, list, 0, list->n))
        return false;
    for (size_t t = 0; t < step->n_tiers; t++)
        step->tiers[t].n_rows = 0;
    for (size_t i = 0; i < step->features.n_keys; i++)
        fill(query, i);
    fm_step_prepare(step);
    for (size_t row = 0; row < list->n; row++) {
        const double margin = fm_step_margin(step, row);
        prediction_add(&query->prediction, list, row, margin);
    }
    return true;
}

static bool read_examples(struct query *query)
{
    struct examples_options reading = query->question->examples;
    reading.hash_bits = (uint32_t)query->info.hash_bits;
    reading.n_grams = (uint32_t)query->info.n_grams;
    reading.constant = FM_INTERCEPT_KEY;
    reading.is_binary = loss_is_binary((enum loss_kind)query->info.loss);
    if (reading.format == EXAMPLES_DETECT)
        reading.format = (enum examples_format)query->info.format;
    return prediction_read(query->question->data, &reading, answer, query);
}

/* Reads the model, and makes room for its vectors. */
static bool open_query(struct query *query)
{
    const char *folder = query->question->folder;
    struct fm_options options = {0};
    if (!fm_files_read_info(folder, &query->info) ||
        !prediction_init(&query->prediction, (enum loss_kind)query->info.loss,
                         query->question->json, query->question->margins))
        return false;
    options.n_tiers = (size_t)query->info.n_tiers;
    for (size_t t = 0; t < options.n_tiers; t++)
        options.tiers[t].n_dims = (uint32_t)query->info.n_dims[t];
    if (!fm_step_init(&query->step, &options) ||
        !fm_files_read(folder, &query->info, add_feature, query))
        return false;
    if (query->n > 0)
        qsort(query->features, query->n, sizeof *query->features, compare);
    return true;
}

bool fm_predict(const struct fm_question *question)
{
    struct query query = {.question = question};
    bool ok = open_query(&query) && read_examples(&query);
    if (ok)
        prediction_end(&query.prediction);
    free(query.features);
    free(query.vectors);
    fm_step_fini(&query.step);
    prediction_fini(&query.prediction);
    return ok;
}
