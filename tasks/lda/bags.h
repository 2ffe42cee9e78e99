/*
 * bags - documents as bags of words: how often each word occurs in each document, and in which order does
 * not matter.
 *
 * Two formats are read, and told apart by the first line:
 *
 *   UCI's docword.txt   three lines with the numbers of documents, words and lines to come; then a line
 *                       "document word count" each, counted from 1, documents in ascending order
 *   lda-c               a line per document: "n word:count word:count ...", with n pairs, words counted
 *                       from 0
 *
 * The names of the words stand in a file of their own, one per line: `vocab`, beside the documents. Of
 * docword.NAME.txt it may be vocab.NAME.txt.
 */
#ifndef TASKS_LDA_BAGS_H
#define TASKS_LDA_BAGS_H

#include "common/names.h"

struct bag_word {
    uint32_t word, n; /* n occurrences of it */
};

struct bags {
    struct names words;
    uint32_t n_documents;
    uint64_t n_tokens; /* occurrences of words, in all documents */
    /* Where a document begins: among the pairs, and among the tokens of all documents. One more than
     * there are documents, so that the next one tells where it ends. */
    uint64_t *first_pair, *first_token;
    struct bag_word *pairs;
    uint64_t n_pairs;
    size_t pair_capacity, document_capacity;
    /* After bags_arrange(): the number of each document in the file, where each of the file is now, and the first document
     * of each group, and one more. */
    uint32_t *numbers, *positions, *first_of_group;
    uint32_t n_groups;
};

/* `data` is a file of documents, or a folder with the file docword; `vocab` the file of names, or NULL:
 * it is looked for. bags_fini() is due in any case. */
bool bags_read(struct bags *bags, const char *data, const char *vocab);
void bags_fini(struct bags *bags);

/* Sorts the documents by part, those of a part in their order, where parts[i] < n_parts is that of document i. Then the parts
 * are divided into n_groups of as many parts each. */
bool bags_arrange(struct bags *bags, const uint32_t *parts, uint32_t n_parts, uint32_t n_groups);

/* The number in the file of the document at a position; and the other way. */
static inline uint32_t bags_number(const struct bags *bags, uint32_t position)
{
    return bags->numbers != NULL ? bags->numbers[position] : position;
}

static inline uint32_t bags_position(const struct bags *bags, uint32_t number)
{
    return bags->positions != NULL ? bags->positions[number] : number;
}

/* Frees the pairs; names and lengths of documents stay. */
void bags_forget(struct bags *bags);

static inline uint64_t bags_length(const struct bags *bags, uint32_t document)
{
    return bags->first_token[document + 1] - bags->first_token[document];
}

#endif
