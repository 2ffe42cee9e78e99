/*
 * lda_files - a topic model as files of a folder.
 *
 *   model.txt         what the model is and how it was trained (modelfile.h)
 *   words.npy         how often each word has each topic, a row per word; words.txt has the words
 *   documents.npy     how many words of each document have each topic, a row per document
 *   topics.txt        the most frequent words of each topic, a line per topic
 *   assignments.npy   the topic of each occurrence of a word, in the order of part.h; needed to go on
 */
#ifndef TASKS_LDA_LDA_FILES_H
#define TASKS_LDA_LDA_FILES_H

#include "lda/bags.h"
#include "lda/counts.h"

struct lda_info {
    uint64_t n_topics, n_epochs, n_documents, n_words, n_tokens;
    double alpha, beta;
};

struct lda_model {
    struct lda_info info;
    const struct bags *bags;
    const struct counts *rows; /* of words */
    struct tern_worker *worker;
    const uint16_t *assignments;
    size_t n_top;
    const char *settings; /* for model.txt (modelfile.h) */
};

bool lda_files_write(const char *folder, const struct lda_model *model);

bool lda_files_read_info(const char *folder, struct lda_info *info);

/* Reads the topics of n tokens from the token `first` on. */
bool lda_files_read_assignments(const char *folder, const struct lda_info *info, uint64_t first,
                                uint64_t n, uint16_t *topics);

#endif
