/*
 * corpus - makes text to learn word vectors from, of text that is made for people.
 *
 * What is left are the letters a to z, in lower case; all else separates words.
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
