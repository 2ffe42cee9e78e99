/*
 * lexicon - named vectors read from a file, to find those that are close to each other.
 *
 * The file is .npy, with one name per line in a file of the same name that ends in .txt; or it is in word2vec's text or
 * binary format, perhaps compressed. The reader tells the format by the content. Vectors are scaled to length 1. A vector that
 * is zero, or has numbers that are not finite, has no direction and is close to nothing. Of several vectors with the same
 * name the first counts.
 */
#ifndef TASKS_WORDVEC_LEXICON_H
#define TASKS_WORDVEC_LEXICON_H

#include "common/best.h"
#include "common/names.h"

struct lexicon {
    struct names names;
    size_t dim;
    size_t capacity; /* vectors there is room for */
    float *vectors;
};

/* lexicon_fini() is due in any case. */
bool lexicon_read(struct lexicon *lexicon, const char *path);
void lexicon_fini(struct lexicon *lexicon);

bool lexicon_has_direction(const struct lexicon *lexicon, uint32_t word);

/* A word of a sum, king - man + woman, which is added or subtracted. */
struct term {
    const char *name;
    uint32_t word; /* filled in by lexicon_find() */
    bool is_subtracted;
};

/* Finds the words of a sum. A failure names similar words. */
bool lexicon_find(const struct lexicon *lexicon, const char *path, struct term *terms, size_t n);

/* Offers all words but those of the sum with the cosines of their vectors and the sum, in which each vector has
 * length 1. False after task_fail() when the sum has no direction. */
bool lexicon_nearest(const struct lexicon *lexicon, const struct term *terms, size_t n,
                     struct best *best);

/*
 * The file of vectors of a model folder: words.npy, entities.npy, items.npy, users.npy or relations.npy, the
 * first one that has all words of the sum, or the first one there is. To be freed; NULL after task_fail().
 */
char *lexicon_of_model(const char *folder, const struct term *terms, size_t n);

#endif
