/*
 * part - the documents of one worker, and the topics of their words.
 *
 * Each worker has one range of documents, with about as many words as the others (of its group, bags_arrange()). Its documents are cut into bands,
 * so small that the topics of a band's documents stay in the cache. A band is sampled word by word: a visit is the
 * occurrences of one word in the documents of a band. So a worker needs the counts of a word seldom, and then for many
 * occurrences.
 *
 * Topics are in the order of the documents, and within a document in the order of the words' numbers, whichever
 * worker has sampled them.
 */
#ifndef TASKS_LDA_PART_H
#define TASKS_LDA_PART_H

#include "lda/bags.h"
#include "lda/gibbs.h"

enum { MAX_VISIT = 2048 }; /* occurrences; a word with more of them in a band has several visits */

/* Tokens first .. first + n - 1 of the part are occurrences of a word. */
struct visit {
    uint32_t word, n;
    uint32_t first;
};

/* Visits first .. first + n - 1, in the order of their words. */
struct band {
    uint32_t first, n;
};

struct part {
    const struct bags *bags;
    size_t n_topics;
    uint32_t first_document, n_documents;
    uint64_t first_token; /* among those of all documents */
    uint32_t n_tokens;
    uint32_t *documents; /* of each token, in the order of visits; counted from first_document */
    uint16_t *topics;    /* of each token */
    struct mixtures mixtures;
    struct visit *visits;
    struct band *bands;
    uint32_t n_visits, n_bands;
    size_t visit_capacity, band_capacity;
};

/* The part of worker `worker` of n_workers. The lengths of documents in `bags` must stay. All topics are 0 and in no mixture until part_set_topics().
 * part_fini() is due in any case. */
bool part_make(struct part *part, const struct bags *bags, size_t worker, size_t n_workers,
               size_t n_topics);
void part_fini(struct part *part);

/* Sets the topics of all tokens, and copies them: in the order in which they are saved. */
bool part_set_topics(struct part *part, const uint16_t *topics);
bool part_get_topics(const struct part *part, uint16_t *topics);

#endif
