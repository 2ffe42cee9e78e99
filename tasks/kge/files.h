/*
 * files - a model as files of a folder.
 *
 *   model.txt                  what the model is and how it was trained (modelfile.h)
 *   entities.npy relations.npy the vectors; entities.txt and relations.txt have the names, line by line
 *   entities_sums.npy ...      AdaGrad's sums of squares, needed to go on training
 *   entities.vec entities.bin  if asked for, the vectors in word2vec's text and binary formats;
 *   relations.vec ...          the same of relations
 */
#ifndef TASKS_KGE_FILES_H
#define TASKS_KGE_FILES_H

#include "common/params.h"
#include "kge/graph.h"
#include "kge/model.h"

/* Formats of vectors beside .npy. */
enum { FILES_TEXT = 1, FILES_BINARY = 2 };

struct model_info {
    int model; /* enum kge_model */
    uint64_t dim, n_epochs, n_entities, n_relations;
};

/* Vectors and their names; one half of a row are values, the other sums. */
struct model_part {
    const char *kind; /* "entities" or "relations" */
    const struct names *names;
    const struct params *rows;
};

/* `settings` is for model.txt (modelfile.h). */
bool files_write(const char *folder, const struct model_info *info, const char *settings,
                 int formats, const struct model_part parts[2], struct tern_worker *worker);

bool files_read_info(const char *folder, struct model_info *info);

/* Sets the rows as they were written; the names must be the same, in the same order. */
bool files_read_part(const char *folder, const struct model_part *part, struct tern_worker *worker);

#endif
