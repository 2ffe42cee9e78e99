/* vocab - the words that get vectors. See vocab.h. */
#include "wordvec/vocab.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"

/* All words of a text with their counts. */
struct census {
    struct names names;
    uint64_t *counts;
    size_t capacity; /* of counts */
};

static void census_fini(struct census *census)
{
    names_fini(&census->names);
    free(census->counts);
}

/* ---- Counting -------------------------------------------------------------------------------- */

static bool count_word(struct census *census, const char *word, size_t length)
{
    uint32_t number = 0;
    if (!names_add(&census->names, word, length, &number))
        return false;
    if (number >= census->capacity) {
        size_t capacity = 2 * census->capacity + 1024;
        uint64_t *counts = realloc(census->counts, capacity * sizeof *counts);
        if (counts == NULL)
            return task_fail_memory("the counts of words");
        memset(counts + census->capacity, 0, (capacity - census->capacity) * sizeof *counts);
        census->counts = counts;
        census->capacity = capacity;
    }
    census->counts[number]++;
    return true;
}

static bool count_text(struct vocab *vocab, struct text_reader *reader, uint64_t n_workers,
                       struct census *census)
{
    enum text_part part = TEXT_FAILED;
    const char *word;
    size_t length;
    bool ok = true;
    while (ok && (part = text_next(reader, &word, &length)) != TEXT_END && part != TEXT_FAILED) {
        if (part != TEXT_WORD)
            continue;
        vocab->n_words++;
        vocab->n_words_of[reader->piece % n_workers]++;
        ok = count_word(census, word, length);
    }
    return ok && part == TEXT_END;
}

static bool take_census(struct vocab *vocab, const struct text *text, uint64_t n_workers,
                        struct census *census)
{
    struct text_reader *reader = malloc(sizeof *reader);
    vocab->n_words_of = calloc(n_workers, sizeof *vocab->n_words_of);
    if (reader == NULL || vocab->n_words_of == NULL) {
        free(reader);
        return task_fail_memory("the text");
    }
    text_open(reader, text, 0, 1);
    bool ok = count_text(vocab, reader, n_workers, census);
    text_close(reader);
    free(reader);
    return ok;
}

/* ---- Known words ----------------------------------------------------------------------------- */

struct candidate {
    const char *word;
    uint64_t count;
};

static int compare_candidates(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return strcmp(a->word, b->word);
}

/* The words of at least min_count, sorted; *n of them, to be freed. */
static struct candidate *choose(const struct census *census, uint64_t min_count, size_t *n)
{
    struct candidate *candidates = malloc((census->names.n + (size_t)1) * sizeof *candidates);
    *n = 0;
    if (candidates == NULL)
        return NULL;
    for (uint32_t i = 0; i < census->names.n; i++)
        if (census->counts[i] >= min_count)
            candidates[(*n)++] = (struct candidate){names_at(&census->names, i), census->counts[i]};
    qsort(candidates, *n, sizeof *candidates, compare_candidates);
    return candidates;
}

static bool adopt(struct vocab *vocab, const struct candidate *candidates, size_t n)
{
    vocab->counts = malloc((n + 1) * sizeof *vocab->counts);
    if (vocab->counts == NULL)
        return task_fail_memory("the counts of words");
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        uint32_t number;
        vocab->counts[i] = candidates[i].count;
        vocab->n_known += candidates[i].count;
        ok = names_add(&vocab->names, candidates[i].word, strlen(candidates[i].word), &number);
    }
    return ok;
}

static bool know(struct vocab *vocab, const struct census *census, uint64_t min_count)
{
    size_t n;
    struct candidate *candidates = choose(census, min_count, &n);
    if (candidates == NULL)
        return task_fail_memory("the words");
    bool ok = adopt(vocab, candidates, n);
    free(candidates);
    return ok;
}

/* ---- Chances --------------------------------------------------------------------------------- */

static bool set_keep(struct vocab *vocab, double sample)
{
    uint32_t n = vocab->names.n;
    vocab->keep = malloc(n * sizeof *vocab->keep);
    if (vocab->keep == NULL)
        return task_fail_memory("the words");
    for (uint32_t i = 0; i < n; i++) {
        double ratio = sample * (double)vocab->n_known / (double)vocab->counts[i];
        double chance = sample > 0 ? sqrt(ratio) + ratio : 1;
        vocab->keep[i] = chance < 1 ? (uint32_t)(chance * UINT32_MAX) : UINT32_MAX;
    }
    return true;
}

/* Weights, scaled to a mean of 1, are levelled out: each place that has less than 1 is filled up from one
 * that has more. */
static void level_out(struct alias *aliases, double *weights, uint32_t *order, uint32_t n)
{
    uint32_t n_small = 0, n_large = n;
    for (uint32_t i = 0; i < n; i++)
        order[weights[i] < 1 ? n_small++ : --n_large] = i;
    while (n_small > 0 && n_large < n) {
        uint32_t small = order[--n_small], large = order[n_large];
        aliases[small] = (struct alias){(uint32_t)(weights[small] * UINT32_MAX), large};
        weights[large] -= 1 - weights[small];
        if (weights[large] < 1) {
            n_large++;
            order[n_small++] = large;
        }
    }
    while (n_large < n)
        weights[order[n_large++]] = 1;
}

static bool set_aliases(struct vocab *vocab)
{
    uint32_t n = vocab->names.n;
    double sum = 0, *weights = malloc(n * sizeof *weights);
    uint32_t *order = malloc(n * sizeof *order);
    vocab->aliases = malloc(n * sizeof *vocab->aliases);
    bool ok = weights != NULL && order != NULL && vocab->aliases != NULL;
    for (uint32_t i = 0; ok && i < n; i++) {
        weights[i] = pow((double)vocab->counts[i], 0.75);
        sum += weights[i];
        vocab->aliases[i] = (struct alias){UINT32_MAX, i};
    }
    for (uint32_t i = 0; ok && i < n; i++)
        weights[i] *= n / sum;
    if (ok)
        level_out(vocab->aliases, weights, order, n);
    free(weights);
    free(order);
    return ok || task_fail_memory("the words");
}

/* ---- The whole ------------------------------------------------------------------------------- */

bool vocab_read(struct vocab *vocab, const struct text *text, uint64_t min_count, double sample,
                uint64_t n_workers)
{
    struct census census = {0};
    *vocab = (struct vocab){0};
    bool ok = take_census(vocab, text, n_workers, &census) && know(vocab, &census, min_count);
    census_fini(&census);
    if (!ok)
        return false;
    if (vocab->n_words == 0)
        return task_fail("there are no words in %s", text->paths[0]);
    if (vocab->names.n < 2)
        return task_fail("of the %" PRIu64 " words of the text, %s occurs %" PRIu64
                         " times (--min-count)",
                         vocab->n_words, vocab->names.n == 0 ? "none" : "only one", min_count);
    return set_keep(vocab, sample) && set_aliases(vocab);
}

void vocab_fini(struct vocab *vocab)
{
    names_fini(&vocab->names);
    free(vocab->counts);
    free(vocab->n_words_of);
    free(vocab->keep);
    free(vocab->aliases);
    *vocab = (struct vocab){0};
}
