/*
 * wordtest - how good word vectors are: analogies, and similarity as people see it.
 *
 * Analogies are given as in questions-words.txt: lines "a b c d" mean that a is to b as c is to d, and
 * lines ": name" begin a section; sections whose names begin with "gram" are syntactic, the others
 * semantic. Of the candidates, the most frequent words, the one that is closest to b - a + c and none of
 * the three shall be d; vectors count with length 1. As in word2vec's own test, questions with a word
 * that is no candidate are left out.
 *
 * Similarity is given by pairs of words with a number that people have agreed on, one pair per line,
 * separated by tabs, blanks or commas. What is measured is Spearman's rank correlation with the cosine
 * of the vectors. Pairs with an unknown word are left out.
 *
 * A word is looked for as it stands, then in lower case.
 */
#ifndef TASKS_WORDVEC_WORDTEST_H
#define TASKS_WORDVEC_WORDTEST_H

#include "common/names.h"
#include "common/train.h"

enum { WORDTEST_MAX_LISTS = 16, WORDTEST_MAX_MEASURES = WORDTEST_MAX_LISTS + 4 };

struct analogy {
    uint32_t words[4]; /* a b c d */
    bool is_syntactic;
};

struct rated_pair {
    uint32_t words[2];
    double rating;
};

struct pair_list {
    char name[32];         /* of the file, without folder and ending */
    char measure_name[64]; /* "similarity_ws_353" */
    size_t n, n_unknown, capacity;
    struct rated_pair *pairs;
};

struct wordtest {
    uint32_t n_candidates;
    bool has_questions;
    size_t n_analogies, n_unknown; /* questions that can be asked, and others */
    struct analogy *analogies;
    size_t analogy_capacity;
    size_t n_lists;
    struct pair_list lists[WORDTEST_MAX_LISTS];
    size_t n_measures; /* what is measured, the decisive one first */
    struct train_measure measures[WORDTEST_MAX_MEASURES];
};

/* `questions` is a file, `similarity` one or several, separated by commas; NULL: none. wordtest_fini()
 * is due in any case. */
bool wordtest_read(struct wordtest *test, const struct names *words, const char *questions,
                   const char *similarity, uint64_t n_candidates);
void wordtest_fini(struct wordtest *test);

static inline bool wordtest_is_empty(const struct wordtest *test)
{
    return !test->has_questions && test->n_lists == 0;
}

/* Called by all nodes, which share the questions. `params` has the vector of word w at key 2w, in the
 * first `dim` numbers. The quality has the values of test->measures: the share of analogies that were
 * answered rightly, of all, semantic and syntactic ones, if there are questions; and the mean correlation and that
 * of each list, if there are lists. */
bool wordtest_run(const struct wordtest *test, struct train *train, const struct params *params,
                  size_t dim, struct train_quality *quality);

/* Spearman's rank correlation; ties have their mean rank. 0 when all of one side are equal. Both arrays
 * are used up. NAN when there is no memory. */
double spearman(double *left, double *right, size_t n);

#endif
