/*
 * fm_files - a factorization machine as files of a folder.
 *
 *   model.txt        what the model is
 *   weights.txt      lines of a key, a weight and, if the feature has an embedding in use, its numbers: those of the
 *                    first tier, then of the second ... The intercept's key is written as a word. Features without
 *                    weight and embedding are left out.
 *   embeddings.npy   the embeddings alone, in the order of weights.txt; 0 where a feature lacks a tier
 */
#ifndef TASKS_FM_FM_FILES_H
#define TASKS_FM_FM_FILES_H

#include "fm/fm.h"

struct fm_info {
    uint64_t n_epochs, n_weights, n_embeddings, n_entries, hash_bits, n_grams;
    uint64_t n_tiers, n_dims[FM_MAX_TIERS];
    int loss, format; /* of loss_names and examples_formats */
};

/* A feature of a model. */
struct fm_feature {
    uint64_t key;
    float weight;
    size_t n_tiers;       /* that it has */
    const float *vectors; /* of these, one behind the other */
};

/* Calls `sink` with every feature of a model, in ascending order of keys. It is called twice. */
typedef bool fm_sink(void *context, const struct fm_feature *feature);
typedef bool fm_source(void *context, fm_sink *sink, void *sink_context);

/* The dimensions of the first n tiers together. */
size_t fm_info_dims(const struct fm_info *info, size_t n);

bool fm_files_write(const char *folder, const struct fm_info *info, const char *settings,
                    fm_source *source, void *context);
bool fm_files_read_info(const char *folder, struct fm_info *info);
bool fm_files_read(const char *folder, const struct fm_info *info, fm_sink *sink, void *context);

#endif
