/*
 * ratings - a matrix of which some cells are known: the ratings of items (columns) by users (rows).
 *
 * A file has one rating per line: user, item, a number, and perhaps further fields, which are ignored. The first line
 * decides what separates fields: "::" as in MovieLens, a tab, a comma, a semicolon or a blank, in this order of preference.
 * With commas and semicolons a field may be in double quotes, in which "" is one quote. A first line whose third field is
 * not a number is a heading. Users and items may have any names; they are numbered in the order of their first
 * occurrence.
 */
#ifndef TASKS_MF_RATINGS_H
#define TASKS_MF_RATINGS_H

#include "common/names.h"

struct rating {
    uint32_t row, column;
    float value;
};

struct rating_list {
    size_t n, capacity;
    struct rating *at;
};

/* What to do with a rating of the test file whose user or item train lacks. */
enum ratings_unknown {
    RATINGS_REFUSE, /* fail */
    RATINGS_ADD,    /* predict it from what is known: the mean, and the other of the two */
    RATINGS_SKIP,   /* leave it out */
};

struct ratings {
    struct names rows, columns;
    struct rating_list train, test;
    uint32_t n_trained_rows, n_trained_columns; /* those of train; others were added behind */
    size_t n_unknown;   /* ratings of the test file by users, or of items, that train lacks */
    double drawn_share; /* of the ratings, which was drawn for the test; 0: none was */
    /* Of the training ratings: mean, standard deviation, smallest and largest value. */
    double mean, deviation;
    float low, high;
};

struct ratings_source {
    const char *data;  /* a folder with train and perhaps test, or with ratings; or TRAIN[,TEST] */
    double test_share; /* of the ratings, drawn at random, when there is no test file */
    uint64_t seed;     /* of the draw */
    enum ratings_unknown unknown;
};

/* ratings_fini() is due in any case. */
bool ratings_read(struct ratings *ratings, const struct ratings_source *source);
void ratings_fini(struct ratings *ratings);

/* Frees the ratings; names and numbers stay. */
void ratings_forget(struct ratings *ratings);

#endif
