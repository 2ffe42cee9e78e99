/*
 * bow - makes bags of words of text: the files docword.txt and vocab.txt that 'tern train lda' reads.
 *
 * A word is a run of at least three of the letters a to z, in lower case. Words that occur in too few
 * documents, or in too many, tell nothing about topics and are left out.
 */
#ifndef TASKS_LDA_BOW_H
#define TASKS_LDA_BOW_H

#include <stdbool.h>
#include <stdint.h>

struct bow_options {
    /* A file: each line is a document. A folder: each file in it, and in the folders below, is one; they
     * are listed in documents.txt. */
    const char *from;
    int64_t min_documents; /* that a word occurs in, at least */
    double max_share;      /* of the documents that a word occurs in, at most */
};

bool bow_make(const struct bow_options *options, const char *folder);

#endif
