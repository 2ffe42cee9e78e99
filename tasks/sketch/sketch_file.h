/*
 * sketch_file - the file of a sketch, which `tern sketch` writes and reads. Numbers are little-endian.
 *
 *   bytes     content
 *   8         "TERNSKE1"
 *   8         width: cells of a row, 1 to 2^40
 *   8         seed of the hash that gives keys their cells, not 0
 *   8         the sum of all counts, below 2^63
 *   4         depth: rows, 1 to 16
 *   4         1: conservative update; 0: not
 *   8         h, the number of heaviest keys that follow
 *   8         t, the bytes of their names
 *   8         0
 *   8 * width * depth   cells, row by row, each at most the sum of all counts
 *   32 * h    heaviest keys, heaviest first: key, count, largest error of the count, bytes of the name
 *   t         the names, one after the other; a key that is its own name has none
 *   8         XXH3 (64 bits) of everything before
 *
 * sketch_decode takes any bytes. What it accepts has the size that its header says, cells and counts between 0 and the sum, errors
 * that are at most their counts, and names without blanks or control characters. The file is written beside its name, brought to the
 * disk and renamed.
 */
#ifndef TASKS_SKETCH_FILE_H
#define TASKS_SKETCH_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SKETCH_HEADER_BYTES = 64, SKETCH_HEAVY_BYTES = 32, SKETCH_CHECKSUM_BYTES = 8 };

/* What sketches must have in common to be merged. */
struct sketch_shape {
    uint64_t width, seed;
    uint32_t depth;
    bool is_conservative;
};

struct sketch_heavy {
    uint64_t key;
    int64_t count, error;
    const char *name; /* name_bytes of it, without a NUL; none if the key is its own name */
    size_t name_bytes;
};

/* A file in memory, as it was decoded. */
struct sketch_view {
    struct sketch_shape shape;
    int64_t sum;
    const uint8_t *cells; /* at any address */
    const uint8_t *heavy, *names;
    size_t n_heavy, names_bytes;
};

uint64_t sketch_n_cells(const struct sketch_shape *shape);

/* NULL, or what is wrong with the bytes. */
const char *sketch_decode(const uint8_t *bytes, size_t n, struct sketch_view *view);

/* Copies n cells from `first` on. */
void sketch_view_cells(const struct sketch_view *view, uint64_t first, size_t n, int64_t *cells);

/* Copies the heaviest keys, to room for n_heavy of them. Names stay in the file's memory. */
void sketch_view_heavy(const struct sketch_view *view, struct sketch_heavy *heavy);

/* Reads and decodes a file; *bytes is to be freed in any case. */
bool sketch_read_file(const char *path, uint8_t **bytes, struct sketch_view *view);

/* A file that is being written: header, cells, heaviest keys, in this order. */
struct sketch_writer {
    void *hash; /* the state of XXH3 */
    void *file; /* FILE */
    char *path, *temporary;
    int error; /* errno of the first write that failed */
};

/* Makes the temporary file, before any work is done for it. End it with one of the other two. */
bool sketch_writer_open(struct sketch_writer *writer, const char *path);
bool sketch_writer_commit(struct sketch_writer *writer);
void sketch_writer_discard(struct sketch_writer *writer);

void sketch_write_header(struct sketch_writer *writer, const struct sketch_shape *shape,
                         int64_t sum, const struct sketch_heavy *heavy, size_t n_heavy);
void sketch_write_cells(struct sketch_writer *writer, const int64_t *cells, size_t n);
void sketch_write_heavy(struct sketch_writer *writer, const struct sketch_heavy *heavy, size_t n);

#endif
