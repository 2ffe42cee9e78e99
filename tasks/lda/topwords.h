/*
 * topwords - the most frequent words of each topic, which tell people what it is about.
 */
#ifndef TASKS_LDA_TOPWORDS_H
#define TASKS_LDA_TOPWORDS_H

#include "common/names.h"
#include "lda/counts.h"

struct topword {
    int32_t n; /* occurrences of the word with the topic; 0: there are no more words */
    uint32_t word;
};

struct topwords {
    const struct names *names;
    size_t n_topics, n_top;
    struct topword *words; /* n_top of each topic, the most frequent first */
    uint64_t *totals;      /* words of each topic */
    uint64_t n_tokens;     /* words of all */
};

/* Reads all rows. topwords_fini() is due in any case. */
bool topwords_find(struct topwords *top, const struct counts *rows, struct tern_worker *worker,
                   const struct names *names, size_t n_top);
void topwords_fini(struct topwords *top);

/* The i-th word of a topic; NULL behind the last. */
const char *topwords_at(const struct topwords *top, size_t topic, size_t i);

/* Prints a line for each topic, as text or as JSON. */
void topwords_print(const struct topwords *top, bool json);

#endif
