/*
 * feature_names - names of features in the weights.txt of a model.
 *
 * Tables know keys; the names that were hashed to them are in the data alone. So when a model is complete, one pass over the
 * files of examples finds names for the keys that have weights, and weights.txt gets them: a line of it is a key and
 * numbers, and then, behind a tab, the name. Memory is that of the names of the model, not of the data. Of several names
 * with one key the first one found counts.
 *
 * Called by the main thread of node 0.
 */
#ifndef TASKS_FEATURE_NAMES_H
#define TASKS_FEATURE_NAMES_H

#include "common/examples.h"

struct feature_name {
    uint64_t key;
    char *text; /* NULL: not known */
};

/* All zero is empty. */
struct feature_names {
    size_t n, capacity;
    struct feature_name *at; /* by key */
};

void feature_names_fini(struct feature_names *names);

/* Takes the names that a model has which training goes on with: new data need not have all its features. */
bool feature_names_load(struct feature_names *names, const char *folder);

/* Adds to the weights.txt of a model the names that are known, or found in the examples of these files by n_threads threads.
 * Does nothing where keys are the names (libsvm, libffm), and reads no pipes. */
bool feature_names_complete(struct feature_names *names, const char *folder, const char *data,
                            const struct examples_options *reading, size_t n_threads);

/* Cuts the name off a line of weights.txt; "" if it has none. */
const char *feature_names_cut(char *line);

#endif
