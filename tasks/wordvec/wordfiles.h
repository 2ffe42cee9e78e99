/*
 * wordfiles - word vectors as files of a folder.
 *
 *   model.txt     what the model is and how it was trained (modelfile.h)
 *   words.npy     the vectors; words.txt has the words, line by line
 *   contexts.npy  the vectors by which words are predicted, needed to go on training
 *   words.vec     if asked for, the vectors in word2vec's text format
 *   words.bin     the same in its binary format
 */
#ifndef TASKS_WORDVEC_WORDFILES_H
#define TASKS_WORDVEC_WORDFILES_H

#include "common/names.h"
#include "common/params.h"

/* Formats of vectors beside .npy. */
enum { WORDFILES_TEXT = 1, WORDFILES_BINARY = 2 };

struct wordfiles {
    size_t dim;
    int formats;
    const struct names *names;
    const struct params *params; /* keys as in excerpt.h */
    struct tern_worker *worker;
    const char *settings; /* for model.txt (modelfile.h) */
};

bool wordfiles_write(const struct wordfiles *files, const char *folder, int64_t n_epochs);

/* Sets the rows as they were written; the words must be the same, in the same order. */
bool wordfiles_read(const struct wordfiles *files, const char *folder, int64_t *n_epochs);

#endif
