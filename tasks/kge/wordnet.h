/*
 * wordnet - a knowledge graph from the files of WordNet.
 */
#ifndef TASKS_KGE_WORDNET_H
#define TASKS_KGE_WORDNET_H

#include <stdbool.h>
#include <stdint.h>

/* Reads data.* and index.* in `from` and writes train.txt, valid.txt and test.txt to `folder`; `share` of
 * the triples go to valid, and as many to test. */
bool wordnet_make(const char *from, const char *folder, uint64_t seed, double share);

#endif
