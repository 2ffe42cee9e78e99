/*
 * lda_predict - the topics of a document that a saved model has not seen. See lda.h.
 *
 * The topics stay as they are: the probability of word w in topic k is (n_wk + beta) / (n_k + W beta), from
 * the counts of the model. The topics of the document's words are drawn by Gibbs sampling, with
 * probabilities in proportion to (n_dk + alpha) times that; the shares of the document are means over the
 * second half of the passes.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/best.h"
#include "common/input.h"
#include "common/list.h"
#include "common/modelfile.h"
#include "common/quoted.h"
#include "common/rng.h"
#include "common/sentence.h"
#include "common/vectors.h"
#include "lda/lda.h"
#include "lda/lda_files.h"

struct inference {
    const struct lda_question *question;
    struct lda_info info;
    struct names words;
    float *counts;  /* a row per word */
    double *totals; /* by topic */
    /* The document. */
    uint32_t *tokens;
    size_t n_tokens, capacity;
    size_t n_unknown;
    uint16_t *topics;    /* of the tokens */
    double *in_document; /* by topic: tokens */
    double *shares;      /* by topic */
    double *weights;
};

/* ---- The model ------------------------------------------------------------------------------- */

static bool read_counts(struct inference *inference)
{
    struct npy npy;
    size_t n_topics = inference->info.n_topics;
    uint64_t n = inference->info.n_words;
    if (!model_open_vectors(inference->question->folder, "words", ".npy", n, n_topics, &npy))
        return false;
    inference->counts = malloc((n * n_topics + 1) * sizeof *inference->counts);
    inference->totals = calloc(n_topics, sizeof *inference->totals);
    bool ok = inference->counts != NULL && inference->totals != NULL
                  ? npy_read(&npy, n, inference->counts)
                  : task_fail_memory("the model");
    for (uint64_t i = 0; ok && i < n * n_topics; i++) {
        ok = inference->counts[i] >= 0 || task_fail("%s has a count below 0", npy.path);
        inference->totals[i % n_topics] += (double)inference->counts[i];
    }
    npy_close(&npy);
    return ok;
}

static bool open_model(struct inference *inference)
{
    const char *folder = inference->question->folder;
    struct lda_info *info = &inference->info;
    if (!lda_files_read_info(folder, info))
        return false;
    if (info->n_topics == 0 || info->n_topics > UINT16_MAX)
        return task_fail("%s/model.txt has an impossible number of topics", folder);
    if (!model_read_names(folder, "words", info->n_words, &inference->words) ||
        !read_counts(inference))
        return false;
    inference->in_document = calloc(info->n_topics, sizeof(double));
    inference->shares = calloc(info->n_topics, sizeof(double));
    inference->weights = calloc(info->n_topics, sizeof(double));
    return (inference->in_document != NULL && inference->shares != NULL &&
            inference->weights != NULL) ||
           task_fail_memory("the topics");
}

/* ---- The document ---------------------------------------------------------------------------- */

static bool add_word(struct inference *inference, const char *word, size_t length)
{
    uint32_t number = names_find(&inference->words, word, length);
    if (number == NAMES_NONE) {
        inference->n_unknown++;
        return true;
    }
    uint32_t *tokens = list_grow(inference->tokens, sizeof *tokens, inference->n_tokens,
                                 &inference->capacity, "the document");
    if (tokens == NULL)
        return false;
    inference->tokens = tokens;
    inference->tokens[inference->n_tokens++] = number;
    return true;
}

/* A word as it stands between blanks, if the model knows it; else its runs of letters in lower case, as
 * `tern data bow` makes words. */
static bool add_token(struct inference *inference, char *token)
{
    if (names_find(&inference->words, token, strlen(token)) != NAMES_NONE)
        return add_word(inference, token, strlen(token));
    bool ok = true;
    for (size_t i = 0, n = 0; ok; i++) {
        if (isalpha((unsigned char)token[i])) {
            token[i] = (char)tolower((unsigned char)token[i]);
            n++;
            continue;
        }
        if (n > 0)
            ok = add_word(inference, token + i - n, n);
        n = 0;
        if (token[i] == '\0')
            break;
    }
    return ok;
}

static bool read_document(struct inference *inference)
{
    const char *path = inference->question->path;
    struct input input;
    enum input_result result = INPUT_FAILED;
    char *line;
    size_t length;
    if (!input_open(&input, strcmp(path, "-") == 0 ? "/dev/stdin" : path))
        return false;
    bool ok = true;
    while (ok && (result = input_line(&input, &line, &length)) == INPUT_LINE)
        for (char *token; ok && (token = strsep(&line, " \t\v\f")) != NULL;)
            ok = token[0] == '\0' || add_token(inference, token);
    input_close(&input);
    if (!ok || result != INPUT_END)
        return false;
    return inference->n_tokens > 0 ||
           task_fail("the model in %s knows none of the %zu words of %s",
                     inference->question->folder, inference->n_unknown, path);
}

/* ---- Sampling -------------------------------------------------------------------------------- */

/* Draws a topic for a word whose own topic does not count. */
static uint16_t draw(struct inference *inference, uint32_t word, struct rng *rng)
{
    const struct lda_info *info = &inference->info;
    const float *row = inference->counts + word * info->n_topics;
    double sum = 0, beta_sum = info->beta * (double)info->n_words;
    for (size_t k = 0; k < info->n_topics; k++) {
        sum += (inference->in_document[k] + info->alpha) * ((double)row[k] + info->beta) /
               (inference->totals[k] + beta_sum);
        inference->weights[k] = sum;
    }
    double at = rng_unit(rng) * sum;
    size_t k = 0;
    while (k + 1 < info->n_topics && inference->weights[k] <= at)
        k++;
    return (uint16_t)k;
}

static bool sample(struct inference *inference)
{
    size_t n = inference->n_tokens, n_passes = (size_t)inference->question->n_passes;
    struct rng rng = rng_seed((uint64_t)inference->question->seed, 0);
    inference->topics = malloc(n * sizeof *inference->topics);
    if (inference->topics == NULL)
        return task_fail_memory("the document");
    for (size_t i = 0; i < n; i++)
        inference
            ->in_document[inference->topics[i] = draw(inference, inference->tokens[i], &rng)]++;
    for (size_t pass = 0; pass < n_passes; pass++) {
        for (size_t i = 0; i < n; i++) {
            inference->in_document[inference->topics[i]]--;
            inference->topics[i] = draw(inference, inference->tokens[i], &rng);
            inference->in_document[inference->topics[i]]++;
        }
        for (size_t k = 0; pass >= n_passes / 2 && k < inference->info.n_topics; k++)
            inference->shares[k] += inference->in_document[k];
    }
    double n_counted = (double)n * (double)(n_passes - n_passes / 2);
    for (size_t k = 0; k < inference->info.n_topics; k++)
        inference->shares[k] /= n_counted;
    return true;
}

/* ---- Printing -------------------------------------------------------------------------------- */

static bool print_words(const struct inference *inference, uint32_t topic)
{
    struct best best;
    size_t n_topics = inference->info.n_topics;
    bool json = inference->question->json;
    if (!best_init(&best, (size_t)inference->question->n_words))
        return false;
    for (uint32_t i = 0; i < inference->words.n; i++)
        if (inference->counts[i * n_topics + topic] > 0)
            best_offer(&best, i, inference->counts[i * n_topics + topic]);
    for (size_t i = 0; i < best.n; i++) {
        const char *word = names_at(&inference->words, best.at[i].number);
        fputs(i == 0 ? "" : json ? "," : " ", stdout);
        if (json)
            print_quoted(word);
        else
            fputs(word, stdout);
    }
    best_fini(&best);
    return true;
}

static bool print_topics(const struct inference *inference)
{
    struct best best;
    bool json = inference->question->json;
    bool ok = best_init(&best, (size_t)inference->question->n_topics);
    for (uint32_t k = 0; ok && k < inference->info.n_topics; k++)
        if (inference->shares[k] > 0)
            best_offer(&best, k, (float)inference->shares[k]);
    for (size_t i = 0; ok && i < best.n; i++) {
        uint32_t topic = best.at[i].number;
        double share = (double)best.at[i].score;
        if (json)
            printf("{\"topic\":%u,\"share\":%.6f,\"words\":[", topic, share);
        else
            printf("%5.1f%%  topic %u:  ", 100 * share, topic);
        ok = print_words(inference, topic);
        puts(json ? "]}" : "");
    }
    best_fini(&best);
    return ok;
}

bool lda_predict(const struct lda_question *question)
{
    struct inference inference = {.question = question};
    bool ok = open_model(&inference) && read_document(&inference) && sample(&inference);
    if (ok && !question->json)
        fprintf(stderr, "%zu of %zu words are known to the model\n", inference.n_tokens,
                inference.n_tokens + inference.n_unknown);
    ok = ok && print_topics(&inference);
    names_fini(&inference.words);
    free(inference.counts);
    free(inference.totals);
    free(inference.tokens);
    free(inference.topics);
    free(inference.in_document);
    free(inference.shares);
    free(inference.weights);
    return ok;
}
