/*
 * modelfile - model.txt, the description of a saved model, and the names of its other files.
 *
 *   task kge           the first line: the command `tern train kge` has written it
 *   epochs 20          lines of a name and a value, which the task reads again
 *   rate 0.2           further ones, which tell people how the model was trained: the options
 *
 * A reader ignores names that it does not know. Models of earlier versions lack the first line.
 */
#ifndef TASKS_MODELFILE_H
#define TASKS_MODELFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/names.h"

struct outputs;

enum model_kind {
    MODEL_WHOLE,  /* uint64_t */
    MODEL_REAL,   /* double */
    MODEL_CHOICE, /* int: the position among `choices` */
};

/* A line that the task reads and writes. */
struct model_line {
    const char *name;
    enum model_kind kind;
    void *value;
    bool is_optional;           /* models of earlier versions lack it; then *value stays as it is */
    const char *const *choices; /* NULL past the last */
};

/* Writes model.txt. `settings` are further lines, of which those that repeat a name are left out; NULL:
 * none. */
bool modelfile_write(struct outputs *outputs, const char *task, const struct model_line *lines,
                     size_t n, const char *settings);

bool modelfile_read(const char *folder, const char *task, const struct model_line *lines, size_t n);

/* The path of a file of a model, to be freed; NULL after task_fail(). */
char *model_path(const char *folder, const char *stem, const char *ending);

/* Reads the names in STEM.txt, of which there must be n. names_fini() is due in any case. */
bool model_read_names(const char *folder, const char *stem, uint64_t n, struct names *names);

/* Whether STEM.txt has these names in this order: those of `source`, such as "another graph" if not. */
bool model_check_names(const char *folder, const char *stem, const struct names *names,
                       const char *source);

/* Opens STEM followed by an ending, .npy for vectors, which must have this shape. */
struct npy;
bool model_open_vectors(const char *folder, const char *stem, const char *ending, uint64_t n_rows,
                        uint64_t n_columns, struct npy *npy);

/* Reads one row of it. */
bool model_read_vector(const char *folder, const char *stem, const char *ending, uint64_t n_rows,
                       uint64_t n_columns, uint64_t row, float *vector);

/* The number of a name; names similar ones if there is none. */
bool model_find_name(const char *folder, const char *stem, const struct names *names,
                     const char *name, uint32_t *number);

#endif
