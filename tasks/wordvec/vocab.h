/*
 * vocab - the words that get vectors, how often each is trained, and how often each is drawn as a negative.
 *
 * A word that occurs at least min_count times is known. Known words are numbered from the most frequent one down; words of
 * equal count in the order of their bytes. So all nodes that have read the same text agree.
 *
 * Sub-sampling leaves frequent words out now and then, as word2vec does: a word that is the share f of the text is kept
 * with probability sqrt(t/f) + t/f. Negatives are drawn with probabilities proportional to count^0.75, by an alias table.
 *
 * Unless the text is too long, a node keeps its workers' shares as numbers, 4 bytes a word. Then an epoch reads no file and
 * looks up no word.
 */
#ifndef TASKS_WORDVEC_VOCAB_H
#define TASKS_WORDVEC_VOCAB_H

#include "common/names.h"
#include "common/rng.h"
#include "wordvec/text.h"

/* Place i of the table is i itself in `share` of 2^32 cases, otherwise `other`. */
struct alias {
    uint32_t share, other;
};

/* A worker's share of the text: numbers of words, NAMES_NONE for unknown ones, VOCAB_SENTENCE_END behind each sentence. */
struct transcript {
    uint32_t *numbers;
    size_t n, capacity;
};

#define VOCAB_SENTENCE_END (NAMES_NONE - 1)

struct vocab {
    struct names names;   /* the known words */
    uint64_t *counts;     /* of each */
    uint64_t n_words;     /* of the text */
    uint64_t n_known;     /* of these, known ones */
    uint64_t *n_words_of; /* of the text, by worker */
    uint32_t *keep;       /* in how many of 2^32 cases a word is kept; UINT32_MAX: always */
    struct alias *aliases;
    uint64_t first_own, n_own;      /* workers of this node */
    struct transcript *transcripts; /* of each of them; NULL: the text is not kept */
};

struct vocab_settings {
    uint64_t min_count;
    double sample;             /* t; 0: all words are kept */
    uint64_t n_workers;        /* of all nodes */
    uint64_t first_own, n_own; /* those of this node */
    uint64_t most_kept;        /* words and ends of sentences that transcripts may have */
};

/* Reads the text once. vocab_fini() is due in any case. */
bool vocab_read(struct vocab *vocab, const struct text *text,
                const struct vocab_settings *settings);
/* Counts the shares of so many workers, for which the text is read again; from then on it is not kept. */
bool vocab_share_out(struct vocab *vocab, const struct text *text, uint64_t n_workers);

void vocab_fini(struct vocab *vocab);

/* The share of a worker, or NULL if it is not kept. */
static inline const struct transcript *vocab_transcript(const struct vocab *vocab, uint64_t worker)
{
    uint64_t own = worker - vocab->first_own;
    return vocab->transcripts != NULL && own < vocab->n_own ? &vocab->transcripts[own] : NULL;
}

static inline bool vocab_keeps(const struct vocab *vocab, uint32_t word, struct rng *rng)
{
    uint32_t keep = vocab->keep[word];
    return keep == UINT32_MAX || (uint32_t)(rng_next(rng) >> 32) < keep;
}

static inline uint32_t vocab_draw(const struct vocab *vocab, struct rng *rng)
{
    uint64_t random = rng_next(rng);
    uint32_t place = (uint32_t)((random >> 32) * vocab->names.n >> 32);
    const struct alias *alias = &vocab->aliases[place];
    return (uint32_t)random < alias->share ? place : alias->other;
}

#endif
