/*
 * read - reads the rows of a data set and the keys they use.
 *
 *   edges    a row and a key per line, numbers with blanks or a comma between; further columns are left out. A first
 *            line that does not begin with a number, or has a letter in it, is a heading
 *   lists    a row per line: its number, then its keys
 *   graph    METIS' format: a heading, then a vertex per line with its neighbours, from 1; weights are left out
 *   libsvm   an example per line: a label, then index:value pairs; the indices are the keys
 *   words    a row per line of names with blanks between; the keys are 64-bit hashes of the names
 *   triples  a row per line: subject, relation and object with tabs between; subject and object are keys, by their hashes
 *   bags     a row per document: UCI's docword, or lda-c (lda/bags.h); the keys are the numbers of the words, from 0
 *
 * In all of them empty lines and what follows '#' or '%' at the begin of a line are comments, but in `graph` an empty
 * line is a vertex without neighbours, and in `words`, `triples` and `bags` there are none.
 */
#ifndef TASKS_PARTITION_READ_H
#define TASKS_PARTITION_READ_H

#include "partition/granules.h"

enum read_format {
    READ_AUTO,
    READ_EDGES,
    READ_LISTS,
    READ_GRAPH,
    READ_LIBSVM,
    READ_WORDS,
    READ_TRIPLES,
    READ_BAGS
};

/* What a line of the data is to read_lines(): a row's, or one that stands before rows. */
typedef bool read_visitor(void *context, bool is_heading, uint64_t row, const char *line,
                          size_t length);

/* Visits every line that is no comment, of a format in which a line belongs to one row: all but `graph` and docword. */
bool read_lines(const char *data, enum read_format format, read_visitor *visit, void *context);

/* Reads a file, or that of a folder which `tern train` learns from: 'train' (or 'ratings') of edges and triples, 'docword' of bags. With `both_ways` an edge between a and b also makes a a key of row b: an undirected graph. */
bool read_rows(const char *data, enum read_format format, bool both_ways,
               struct granules *granules);

#endif
