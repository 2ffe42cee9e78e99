/*
 * corpus - makes training text for word vectors from text that was written for people.
 *
 * Only the letters a to z remain, in lower case; everything else separates words.
 */
#ifndef TASKS_WORDVEC_CORPUS_H
#define TASKS_WORDVEC_CORPUS_H

#include <stdbool.h>

/* Writes the lines of the text `from` (a file, several or a folder) to `folder`/text.txt. Lines that
 * begin with '<', as the marks between the articles of Wikipedia do, are left out. */
bool corpus_from_text(const char *from, const char *folder);

/* Writes the entries of the dictionary GCIDE, whose file gcide.dict.dz is `from`, to
 * `folder`/gcide.txt, a line each. Pronunciations, etymologies and sources are left out. */
bool corpus_from_gcide(const char *from, const char *folder);

#endif
