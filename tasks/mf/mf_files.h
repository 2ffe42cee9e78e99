/*
 * mf_files - a factorization as files of a folder.
 *
 *   model.txt           what the model is and how it was trained (modelfile.h)
 *   users.npy           the factors of the users, one row each; users.txt has their names, line by line
 *   users_biases.npy    two columns: the bias, and AdaGrad's sum of it
 *   users_sums.npy      AdaGrad's sums of the factors, needed to go on training
 *   users.vec users.bin if asked for, the factors in word2vec's text and binary formats
 *   items...            the same of the items
 */
#ifndef TASKS_MF_MF_FILES_H
#define TASKS_MF_MF_FILES_H

#include "common/names.h"
#include "common/params.h"

/* Formats of vectors beside .npy. */
enum { MF_FILES_TEXT = 1, MF_FILES_BINARY = 2 };

struct mf_info {
    uint64_t rank, n_epochs, n_users, n_items;
    double mean, low, high; /* of the training ratings */
    double scale;           /* a rating is mean + scale * (biases + product of the factors) */
    uint64_t seed;          /* by which ratings were drawn for the test */
    double penalty;
    double test_share; /* of the ratings; 0: none; below 0: an earlier version, which did not say */
};

/* All users, or all items. */
struct mf_side {
    const char *kind; /* "users" or "items" */
    const struct names *names;
    const struct params *params;
    const uint32_t *key_of; /* by the number of the name; NULL: the number is the key */
};

/* `settings` is for model.txt (modelfile.h). */
bool mf_files_write(const char *folder, const struct mf_info *info, const char *settings,
                    int formats, const struct mf_side sides[2], struct tern_worker *worker);

bool mf_files_read_info(const char *folder, struct mf_info *info);

/* Sets the rows as they were written; the names must be the same, in the same order. */
bool mf_files_read_side(const char *folder, size_t rank, const struct mf_side *side,
                        struct tern_worker *worker);

#endif
