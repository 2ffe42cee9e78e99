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

/* ---- Transcripts ----------------------------------------------------------------------------- */

/* Writes down what the node's own workers will read, as long as there is room for it. */
struct scribe {
    struct vocab *vocab;
    uint64_t most, n; /* words and ends of sentences: there may be, and there are */
    uint64_t worker;  /* whose sentence is not at its end, */
    struct transcript
        *open; /* and where it stands; NULL: it is not of this node, or there is none */
};

static void forget_transcripts(struct vocab *vocab)
{
    for (uint64_t i = 0; vocab->transcripts != NULL && i < vocab->n_own; i++)
        free(vocab->transcripts[i].numbers);
    free(vocab->transcripts);
    vocab->transcripts = NULL;
}

static bool transcript_reserve(struct transcript *transcript)
{
    if (transcript->n < transcript->capacity)
        return true;
    size_t capacity = 2 * transcript->capacity + 1024;
    uint32_t *numbers = realloc(transcript->numbers, capacity * sizeof *numbers);
    if (numbers == NULL)
        return false;
    transcript->numbers = numbers;
    transcript->capacity = capacity;
    return true;
}

static void put(struct scribe *scribe, struct transcript *transcript, uint32_t number)
{
    if (scribe->n++ < scribe->most && transcript_reserve(transcript)) {
        transcript->numbers[transcript->n++] = number;
        return;
    }
    forget_transcripts(scribe->vocab);
    scribe->open = NULL;
}

static void scribe_end_sentence(struct scribe *scribe)
{
    struct transcript *open = scribe->open;
    scribe->open = NULL;
    if (open != NULL)
        put(scribe, open, VOCAB_SENTENCE_END);
}

/* A sentence ends where the next piece is another worker's. */
static void scribe_take(struct scribe *scribe, uint64_t worker, uint32_t number)
{
    struct vocab *vocab = scribe->vocab;
    uint64_t own = worker - vocab->first_own;
    if (worker != scribe->worker)
        scribe_end_sentence(scribe);
    scribe->worker = worker;
    if (vocab->transcripts == NULL || own >= vocab->n_own)
        return;
    scribe->open = &vocab->transcripts[own];
    put(scribe, scribe->open, number);
}

/* Numbers of the census become those of known words. */
static void translate(struct vocab *vocab, const uint32_t *known_as)
{
    for (uint64_t i = 0; vocab->transcripts != NULL && i < vocab->n_own; i++) {
        struct transcript *transcript = &vocab->transcripts[i];
        for (size_t k = 0; k < transcript->n; k++)
            if (transcript->numbers[k] != VOCAB_SENTENCE_END)
                transcript->numbers[k] = known_as[transcript->numbers[k]];
    }
}

/* ---- Counting -------------------------------------------------------------------------------- */

static bool count_word(struct census *census, const char *word, size_t length, uint32_t *number)
{
    if (!names_add(&census->names, word, length, number))
        return false;
    if (*number >= census->capacity) {
        size_t capacity = 2 * census->capacity + 1024;
        uint64_t *counts = realloc(census->counts, capacity * sizeof *counts);
        if (counts == NULL)
            return task_fail_memory("the counts of words");
        memset(counts + census->capacity, 0, (capacity - census->capacity) * sizeof *counts);
        census->counts = counts;
        census->capacity = capacity;
    }
    census->counts[*number]++;
    return true;
}

/* Counts a word of a worker's share, and returns its number among all; NAMES_NONE after task_fail(). */
static uint32_t count(struct vocab *vocab, struct census *census, uint64_t worker, const char *word,
                      size_t length)
{
    uint32_t number = NAMES_NONE;
    vocab->n_words++;
    vocab->n_words_of[worker]++;
    return count_word(census, word, length, &number) ? number : NAMES_NONE;
}

static bool count_text(struct vocab *vocab, struct text_reader *reader,
                       const struct vocab_settings *settings, struct census *census)
{
    struct scribe scribe = {.vocab = vocab, .most = settings->most_kept};
    enum text_part part;
    const char *word;
    size_t length;
    while ((part = text_next(reader, &word, &length)) == TEXT_WORD || part == TEXT_SENTENCE_END) {
        if (part == TEXT_SENTENCE_END) {
            scribe_end_sentence(&scribe);
            continue;
        }
        const struct placement *placement = reader->text->placement;
        if (placement != NULL && reader->line >= placement->n_rows)
            return task_fail("--placement %s has %" PRIu64 " rows, but the text has a line %" PRIu64
                             "; it is the partition of other data",
                             placement->folder, placement->n_rows, reader->line + 1);
        uint64_t worker = text_worker(reader, settings->n_workers);
        uint32_t number = count(vocab, census, worker, word, length);
        if (number == NAMES_NONE)
            return false;
        scribe_take(&scribe, worker, number);
    }
    return part == TEXT_END;
}

static bool take_census(struct vocab *vocab, const struct text *text,
                        const struct vocab_settings *settings, struct census *census)
{
    struct text_reader *reader = malloc(sizeof *reader);
    vocab->n_words_of = calloc(settings->n_workers, sizeof *vocab->n_words_of);
    vocab->transcripts = calloc(settings->n_own + 1, sizeof *vocab->transcripts);
    if (reader == NULL || vocab->n_words_of == NULL || vocab->transcripts == NULL) {
        free(reader);
        return task_fail_memory("the text");
    }
    text_open(reader, text, 0, 1);
    bool ok = count_text(vocab, reader, settings, census);
    text_close(reader);
    free(reader);
    return ok;
}

/* ---- Known words ----------------------------------------------------------------------------- */

struct candidate {
    const char *word;
    uint64_t count;
    uint32_t number; /* in the census */
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
            candidates[(*n)++] =
                (struct candidate){names_at(&census->names, i), census->counts[i], i};
    qsort(candidates, *n, sizeof *candidates, compare_candidates);
    return candidates;
}

static bool adopt(struct vocab *vocab, const struct candidate *candidates, size_t n,
                  uint32_t *known_as)
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
        known_as[candidates[i].number] = (uint32_t)i;
    }
    return ok;
}

static bool know(struct vocab *vocab, const struct census *census,
                 const struct vocab_settings *settings)
{
    size_t n;
    struct candidate *candidates = choose(census, settings->min_count, &n);
    uint32_t *known_as = malloc((census->names.n + (size_t)1) * sizeof *known_as);
    bool ok = candidates != NULL && known_as != NULL;
    if (ok) {
        memset(known_as, 0xff, census->names.n * sizeof *known_as); /* NAMES_NONE */
        ok = adopt(vocab, candidates, n, known_as);
        translate(vocab, known_as);
    } else {
        task_fail_memory("the words");
    }
    free(candidates);
    free(known_as);
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

bool vocab_read(struct vocab *vocab, const struct text *text, const struct vocab_settings *settings)
{
    struct census census = {0};
    *vocab = (struct vocab){.first_own = settings->first_own, .n_own = settings->n_own};
    bool ok = take_census(vocab, text, settings, &census) && know(vocab, &census, settings);
    census_fini(&census);
    if (!ok)
        return false;
    if (vocab->n_words == 0)
        return task_fail("there are no words in %s", text->paths[0]);
    if (vocab->names.n < 2)
        return task_fail(
            "of the %" PRIu64 " words of the text, %s occurs %" PRIu64 " times (--min-count)",
            vocab->n_words, vocab->names.n == 0 ? "none" : "only one", settings->min_count);
    return set_keep(vocab, settings->sample) && set_aliases(vocab);
}

static bool count_shares(struct text_reader *reader, uint64_t n_workers, uint64_t *n_words_of)
{
    enum text_part part;
    const char *word;
    size_t length;
    while ((part = text_next(reader, &word, &length)) == TEXT_WORD || part == TEXT_SENTENCE_END)
        if (part == TEXT_WORD)
            n_words_of[text_worker(reader, n_workers)]++;
    return part == TEXT_END;
}

bool vocab_share_out(struct vocab *vocab, const struct text *text, uint64_t n_workers)
{
    struct text_reader *reader = malloc(sizeof *reader);
    uint64_t *n_words_of = calloc(n_workers, sizeof *n_words_of);
    bool ok = (reader != NULL && n_words_of != NULL) || task_fail_memory("the text");
    if (ok) {
        text_open(reader, text, 0, 1);
        ok = count_shares(reader, n_workers, n_words_of);
        text_close(reader);
        free(vocab->n_words_of);
        vocab->n_words_of = n_words_of;
        forget_transcripts(vocab);
    } else {
        free(n_words_of);
    }
    free(reader);
    return ok;
}

void vocab_fini(struct vocab *vocab)
{
    names_fini(&vocab->names);
    free(vocab->counts);
    free(vocab->n_words_of);
    free(vocab->keep);
    free(vocab->aliases);
    forget_transcripts(vocab);
    *vocab = (struct vocab){0};
}
