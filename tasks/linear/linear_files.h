/*
 * linear_files - a linear model as files of a folder: model.txt, and weights.txt with lines of a key and a weight that is
 * not 0. The intercept's key is written as a word. A name may follow (feature_names.h). keys.npy and weights.npy have the
 * same weights in the same order.
 */
#ifndef TASKS_LINEAR_FILES_H
#define TASKS_LINEAR_FILES_H

#include "linear/linear.h"

struct outfile;

struct linear_info {
    uint64_t n_epochs, n_weights, hash_bits, n_grams;
    double first_violation; /* dbpg: of the optimality condition in the first epoch */
    int loss, format;       /* of loss_names and examples_formats */
};

/* Gives the next weights, at most `capacity`; *n is 0 at the end. */
typedef bool linear_source(void *context, size_t capacity, uint64_t *keys, double *weights,
                           size_t *n);

/* Takes some weights. */
typedef bool linear_sink(void *context, const uint64_t *keys, const double *weights, size_t n);

bool linear_files_write(const char *folder, const struct linear_info *info, const char *settings,
                        linear_source *source, void *context);
bool linear_files_read_info(const char *folder, struct linear_info *info);
bool linear_files_read_weights(const char *folder, linear_sink *sink, void *context);

#endif
