/*
 * sketch_lines - lines of keys and counts, handed to threads in blocks.
 *
 * Any thread may take blocks; each belongs to the thread that took it. All lines of a block are of one file.
 */
#ifndef TASKS_SKETCH_LINES_H
#define TASKS_SKETCH_LINES_H

#include <pthread.h>

#include "common/input.h"

enum { SKETCH_BLOCK_LINES = 8192 };

struct sketch_source {
    pthread_mutex_t mutex;
    const char *const *paths;
    size_t n_paths, n_opened;
    struct input input;
    bool is_open, is_stopped;
};

struct sketch_block {
    char *text; /* lines, each followed by a NUL */
    size_t bytes, capacity;
    size_t n;
    size_t begins[SKETCH_BLOCK_LINES + 1]; /* of lines, in the text; the last one is `bytes` */
    const char *path;
    uint64_t first; /* number of the first line */
};

struct sketch_line {
    uint64_t key;
    int64_t count;
    const char *text; /* of a key that was hashed; NULL: the key is a number */
    size_t text_bytes;
};

void sketch_source_init(struct sketch_source *source, const char *const *paths, size_t n);
void sketch_source_fini(struct sketch_source *source);

/* Takes the next lines; block->n is 0 at the end, or when the source was stopped. */
bool sketch_source_take(struct sketch_source *source, struct sketch_block *block);

/* Nobody gets lines from now on. Whether that was called. */
void sketch_source_stop(struct sketch_source *source);
bool sketch_source_is_stopped(struct sketch_source *source);

/* Line i of a block. line->text is NULL and line->count -1 if there is nothing in it. */
bool sketch_parse(const struct sketch_block *block, size_t i, struct sketch_line *line);

/* The key that a text is: the number, if it is one without leading zeros, or else its hash. False if it has a blank or a
 * control character. `text` is followed by a NUL. */
bool sketch_key(const char *text, size_t length, uint64_t *key, bool *is_number);

#endif
