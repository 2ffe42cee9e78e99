/*
 * sketch - counts keys of files in a CountMin sketch, on one node or several of this process; asks such a sketch; merges
 * several. `tern sketch` (cli/sketch.c) is the command, sketch_file.h has the file.
 *
 * A line is a key and, behind blanks or tabs, perhaps a count. A key that is a number below 2^64, without leading zeros, is that number; any other
 * text is hashed (XXH3, 64 bits), and the texts of the heaviest keys are kept.
 *
 * Called by the main thread. All return false after task_fail(), and leave the old file then.
 */
#ifndef TASKS_SKETCH_H
#define TASKS_SKETCH_H

#include "sketch/sketch_file.h"

enum { SKETCH_MAX_NODES = 64 };

struct sketch_job {
    const char *const *inputs; /* "-" is standard input */
    size_t n_inputs;
    struct sketch_shape shape;
    size_t n_nodes; /* at most SKETCH_MAX_NODES, with a thread each */
    size_t n_top;   /* heaviest keys to print; 0: none */
    uint32_t n_counters;
    const char *out; /* NULL: no file */
};

/* Counts the lines of the inputs, and prints the rate on standard error and the heaviest keys on standard output: key, count
 * and largest error. */
bool sketch_count(const struct sketch_job *job);

/* Prints the estimates of keys, or the n_top heaviest keys if that is not 0; with neither, keys are read from standard input. */
bool sketch_query(const char *path, const char *const *keys, size_t n_keys, size_t n_top);

/* Adds sketches of one shape. */
bool sketch_merge(const char *const *paths, size_t n, const char *out);

#endif
