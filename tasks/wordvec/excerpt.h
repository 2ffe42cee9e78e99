/*
 * excerpt - some sentences as one step learns from them, and the stream of them that a worker reads.
 *
 * A token is a word where it stands in a sentence. It is predicted from the tokens around it, at most
 * `window` away; how far is drawn anew for each, from 1 to `window`. Words that are unknown or left out by
 * sub-sampling are not there at all: the others move together. All of that is as in word2vec.
 *
 * The wrong words (negatives) that a token is told from are shared twofold. All tokens around it tell it
 * from the same ones, so that its scores are a product of two small matrices. And an excerpt has only a
 * pool of them, from which each token picks its own at random; EXCERPT_USES says how often one of the
 * pool is used in the mean. Otherwise most rows that a step needs would be those of negatives.
 *
 * An excerpt is made in two steps, because it is read some time before it is used and Tern's sampling manager names its
 * negatives when it is used: excerpts_next() reads the words, excerpts_complete() takes the pool.
 *
 * The parameters have two rows for each word: with key 2w the vector by which word w predicts (the one
 * that is kept in the end), with key 2w + 1 that by which it is predicted. An excerpt lists the keys it
 * uses, each once: first the predicting rows of its n_words words, then their predicted rows, then
 * those of negatives that are none of them.
 */
#ifndef TASKS_WORDVEC_EXCERPT_H
#define TASKS_WORDVEC_EXCERPT_H

#include "wordvec/vocab.h"

enum {
    EXCERPT_TOKENS = 2000,       /* when there are so many, it ends with the sentence */
    EXCERPT_SENTENCE_MAX = 1000, /* longer sentences are cut, as in word2vec */
    EXCERPT_TOKENS_MAX = EXCERPT_TOKENS + EXCERPT_SENTENCE_MAX,
    EXCERPT_USES = 16,
};

/* Predicted from so many tokens before and after it. */
struct token {
    uint32_t word; /* among the words of the excerpt */
    uint16_t before, after;
    uint16_t n_negatives;
};

struct excerpt {
    uint64_t n_read; /* words of the text it is made of, with those that are left out */
    bool ends_epoch;
    float progress; /* from 0 to 1, over all epochs, where it begins */
    size_t n_tokens;
    struct token *tokens;
    uint32_t *negatives; /* n_negatives for each token: which of the predicted rows */
    size_t n_pool;       /* how many the tokens pick from */
    uint64_t order;      /* of the pool, at the sampling manager */
    struct rng rng;      /* for what follows when it is used: picking, and with --plain drawing */
    size_t n_words;      /* distinct ones */
    size_t n_keys;
    uint64_t *keys;
};

static inline uint64_t predicting_key(uint32_t word)
{
    return 2 * (uint64_t)word;
}

static inline uint64_t predicted_key(uint32_t word)
{
    return 2 * (uint64_t)word + 1;
}

static inline uint32_t word_of(uint64_t key)
{
    return (uint32_t)(key / 2);
}

/* Keys that an excerpt has at most, and keys of its pool. */
size_t excerpt_max_keys(size_t n_negatives);
size_t excerpt_max_pool(size_t n_negatives);

bool excerpt_init(struct excerpt *excerpt, size_t n_negatives);
void excerpt_fini(struct excerpt *excerpt);

/* ---- The stream ------------------------------------------------------------------------------ */

/* Where a word stands in the excerpt that is being made: a hash table, emptied by a new stamp. */
struct word_slot {
    uint32_t word, stamp, position;
};

struct excerpts {
    const struct vocab *vocab;
    size_t window, n_negatives;
    uint64_t n_own; /* words of the worker's share of the text */
    double n_epochs;
    uint64_t epoch, n_read; /* epochs that are over; words read in this one */
    uint64_t seed, worker;
    struct rng rng;
    uint32_t stamp;
    size_t n_slots; /* a power of two */
    struct word_slot *slots;
    uint32_t *pool;                      /* positions of its words */
    const struct transcript *transcript; /* of the worker's share; NULL: the text is read */
    size_t at;                           /* in it */
    struct text_reader reader;
};

struct excerpts_settings {
    size_t window, n_negatives;
    uint64_t worker, n_workers, seed;
    int64_t n_epochs, n_epochs_done;
};

bool excerpts_init(struct excerpts *excerpts, const struct text *text, const struct vocab *vocab,
                   const struct excerpts_settings *settings);
void excerpts_fini(struct excerpts *excerpts);

/* The next one, whose keys are those of its words. After the last of an epoch comes the first of the next. */
bool excerpts_next(struct excerpts *excerpts, struct excerpt *excerpt);

/* Draws the excerpt's pool: predicted keys, by the words' frequencies. */
void excerpts_draw(const struct excerpts *excerpts, struct excerpt *excerpt, uint64_t *pool);

/* Completes the excerpt with its pool; excerpt_max_pool() has room for any. */
void excerpts_complete(struct excerpts *excerpts, struct excerpt *excerpt, const uint64_t *pool);

#endif
