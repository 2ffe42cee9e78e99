/*
 * lexicon - named vectors read from a file, to find those that are close to each other.
 *
 * The file is .npy, with the names line by line in a file of the same name that ends in .txt; or
 * word2vec's text or binary format, perhaps compressed. What it is tells the content. Vectors are
 * brought to length 1; one that is zero, or has numbers that are not finite, has no direction and is close to
 * nothing. Of several vectors with the same name the first counts.
 */
#ifndef TASKS_WORDVEC_LEXICON_H
#define TASKS_WORDVEC_LEXICON_H

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

struct neighbour {
    uint32_t word;
    float similarity; /* the cosine */
};

bool lexicon_has_direction(const struct lexicon *lexicon, uint32_t word);

/* The n words that are closest to `word`, closest first, without itself and those whose vectors have no
 * direction; returns how many there are. */
size_t lexicon_nearest(const struct lexicon *lexicon, uint32_t word, size_t n,
                       struct neighbour *neighbours);

#endif
