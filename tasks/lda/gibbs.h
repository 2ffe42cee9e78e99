/*
 * gibbs - draws new topics for the occurrences of one word: collapsed Gibbs sampling.
 *
 * An occurrence of word w in document d gets topic k with probability in proportion to
 *
 *   (n_dk + alpha) (n_wk + beta) / (n_k + W beta)
 *
 * where n_dk, n_wk and n_k count all other occurrences that have topic k: in the document, of the word,
 * in all. This is F+LDA, word by word (Yu et al., WWW 2015): with share_k = (n_wk + beta) / (n_k + W beta)
 * the sum is cut in two,
 *
 *   sum of n_dk share_k      over the topics that the document has; few, so it is formed anew each time
 *   sum of alpha share_k     over all topics; it belongs to the word, and an occurrence changes two terms
 *
 * The second is kept as sums of blocks of topics. So an occurrence costs about as much as its document
 * has topics, however many there are; the word itself costs one step per topic for each visit. Where
 * topics are few, and a document has most of them, it has a count for each, and the probabilities are
 * formed as they stand above, eight at a time: that is faster than to look for those it has.
 *
 * Everything here works on the caller's memory, and does not know where it comes from.
 */
#ifndef TASKS_LDA_GIBBS_H
#define TASKS_LDA_GIBBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rng.h"

enum {
    GIBBS_MAX_TOPICS = 65535,
    GIBBS_DENSE = 256,
    GIBBS_LANES = 8,  /* entries that are worked on at once */
    GIBBS_BLOCK = 32, /* topics whose shares have a common sum */
};

/*
 * The topics of a document: its entries, in one of two forms, filled up to a multiple of GIBBS_LANES.
 *
 *   dense   a count for each topic; n is the number of topics. For documents of at least half as many
 *           words as there are topics, if these are at most GIBBS_DENSE
 *   list    count << topic_bits | topic for each topic that it has, in no order; n is their number.
 *           Behind the last one are blank entries
 */
struct mixture {
    uint32_t first; /* among the entries of all documents */
    uint32_t n;
};

struct mixtures {
    struct mixture *of; /* by document */
    uint32_t *entries;
};

/* One thread's sampler. */
struct gibbs {
    size_t n_topics;
    unsigned topic_bits; /* 2^topic_bits > n_topics, so that there is a number that is no topic */
    float alpha, beta, beta_sum;
    int32_t *totals;          /* n_k; the caller keeps them up to date */
    float *shares;            /* of the word at hand; 0 behind the last topic */
    float *sums;              /* of blocks of shares */
    float *products;          /* of the document at hand, an entry each */
    float lanes[GIBBS_LANES]; /* sums of every eighth product */
    struct rng rng;
};

/* gibbs_fini() is due in any case. */
bool gibbs_init(struct gibbs *gibbs, size_t n_topics, uint32_t n_words, double alpha, double beta,
                struct rng rng);
void gibbs_fini(struct gibbs *gibbs);

/* How many bits of an entry are the topic. */
unsigned gibbs_topic_bits(size_t n_topics);

/* Entries of a document of n words. */
size_t gibbs_room(size_t n_topics, size_t n_words);

/* Makes a document of up to n_words words, which has none yet; `first` is filled in. */
void gibbs_clear(const struct mixtures *mixtures, uint32_t document, size_t n_topics,
                 size_t n_words);

/* Adds a word with this topic to a document. */
void gibbs_add(const struct mixtures *mixtures, uint32_t document, size_t n_topics, uint32_t topic);

/* Whether a document has the dense form. */
static inline bool gibbs_is_dense(const struct mixture *mixture, size_t n_topics)
{
    return n_topics <= GIBBS_DENSE && mixture->n == n_topics;
}

/* How many words of its topic entry i of a document stands for. */
static inline uint32_t gibbs_count(const struct mixtures *mixtures, uint32_t document,
                                   size_t n_topics, unsigned topic_bits, uint32_t i)
{
    const struct mixture *mixture = &mixtures->of[document];
    uint32_t entry = mixtures->entries[mixture->first + i];
    return gibbs_is_dense(mixture, n_topics) ? entry : entry >> topic_bits;
}

/*
 * Visits n occurrences of a word: the i-th is in documents[i] and has topics[i]. `row` has the word's
 * count of each topic. Row, totals, topics and mixtures are changed. Returns the sum of the
 * logarithms of what the probabilities above add up to.
 */
double gibbs_visit(struct gibbs *gibbs, int32_t *row, const uint32_t *documents, uint16_t *topics,
                   size_t n, const struct mixtures *mixtures);

#endif
