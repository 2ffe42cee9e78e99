/*
 * examples - reads examples for models of sparse features: a label, a weight, and pairs of a key and a value.
 *
 *   libsvm   label[:weight] [qid:N] index:value ... # comment     (also the format of libfm)
 *   libffm   label[:weight] field:index:value ...
 *   vw       [label [importance]] ['tag]|namespace[:scale] name[:value] ... |namespace ...
 *   csv,tsv  a heading, then a row per example: a label, numeric columns, and columns of categories
 *   criteo   label, 13 counts, 26 categories; separated by tabs, without a heading
 *
 * Keys are 64-bit numbers: an index as it is written, and a hash of a name. The same text gives the same key
 * everywhere, so that nodes need not agree on names. A feature may be repeated in an example; its values add up. Names are
 * forgotten once they are hashed, unless a namer asks for them: NAMESPACE^NAME of vw, COLUMN or COLUMN=TEXT of columns.
 *
 * A source hands out chunks, which are some lines of a file; examples_parse() turns a chunk into examples. Many
 * threads may take chunks from one source at the same time, and parse them without a lock, so a slow thread holds
 * nobody up. Memory is bounded by the chunks that are in use, whatever the size of the files. Files may be gzip or zstd,
 * or pipes. With n_parts, chunk i belongs to part i % n_parts and the source skips the chunks of others: each node
 * of a job parses its share.
 */
#ifndef TASKS_EXAMPLES_H
#define TASKS_EXAMPLES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/input.h"
#include "common/placement.h"

enum examples_format {
    EXAMPLES_DETECT, /* by the first line */
    EXAMPLES_LIBSVM,
    EXAMPLES_LIBFFM,
    EXAMPLES_VW,
    EXAMPLES_CSV,
    EXAMPLES_TSV,
    EXAMPLES_CRITEO,
};

/* The names of the formats, in their order, "detect" first; NULL past the last. */
extern const char *const examples_formats[];

/* Is told the key of a feature and the name that the text has for it, each time it occurs; by any thread. */
typedef bool examples_namer(void *context, uint64_t key, const char *name, size_t length);

/* All zero: everything that all files hold, in the format of the first line. Lists are separated by commas. */
struct examples_options {
    enum examples_format format;
    uint32_t hash_bits;   /* of a key that are kept; 0: all 64 */
    uint32_t n_grams;     /* vw: also runs of up to so many names of a namespace; 0 and 1: none */
    uint64_t first_index; /* libsvm, libffm: a lower index is refused */
    const char
        *label; /* csv, tsv: the column of the label; NULL: "label", in any case, if there is one */
    const char *weight;     /* csv, tsv: the column of the weight; NULL: all weigh 1 */
    const char *numeric;    /* csv, tsv: columns of numbers; the others are categories */
    const char *ignore;     /* csv, tsv: columns that are no features */
    uint64_t constant;      /* a key that every example has with the value 1; 0: none */
    bool needs_labels;      /* an example without a label is a failure */
    bool needs_features;    /* an example without a feature is a failure */
    bool is_binary;         /* labels must be -1, 0 or 1, and 0 becomes -1 */
    uint32_t part, n_parts; /* n_parts 0: there are no parts */
    const struct placement *
        placement; /* libsvm: not chunks but rows are dealt out, those of its node `part` are read; or NULL */
    examples_namer *namer; /* of vw, csv, tsv and criteo; or NULL */
    void *namer_context;
};

/* Examples one behind the other. All zero is an empty list. */
struct examples {
    size_t n, capacity;
    float *labels; /* NAN where the text has none */
    float *weights;
    size_t *start; /* the features of example i: start[i] .. start[i + 1] - 1 */
    size_t n_features, feature_capacity;
    uint64_t *keys;
    float *values;
    uint32_t *
        fields; /* libffm: the field; csv, tsv, criteo: the column; vw: the first byte of the namespace; or 0 */
};

/* Lines of one file. All zero is an empty chunk. */
struct examples_chunk {
    const char *path; /* valid as long as the source */
    uint64_t first_line;
    uint64_t first_row;                    /* examples of the source before this chunk */
    uint64_t number;                       /* of the chunk in its source */
    const struct example_columns *columns; /* of the file */
    enum examples_format format;
    char *text; /* each line ends with LF */
    size_t n_bytes, capacity;
};

struct examples_source {
    struct examples_options options;
    enum examples_format format; /* once it is known */
    char **paths;
    struct example_columns **columns; /* by path; NULL: the file has no heading */
    size_t n_paths, n_opened;
    pthread_mutex_t lock; /* of all that follows */
    struct input input;
    bool is_open; /* `input` is */
    bool has_failed;
    uint64_t n_chunks;
    uint64_t n_rows; /* lines with examples in the chunks so far */
};

/* `paths` are files, separated by commas. examples_close() is due after success alone. */
bool examples_open(struct examples_source *source, const char *paths,
                   const struct examples_options *options);
void examples_close(struct examples_source *source);

/* Hands out the next chunk of this part; chunk->n_bytes is 0 at the end. An empty file is a failure. */
bool examples_take(struct examples_source *source, struct examples_chunk *chunk);
void examples_chunk_fini(struct examples_chunk *chunk);

/* Appends the examples of a chunk. A failure names file, line and reason, and leaves `examples` with some of them. */
bool examples_parse(const struct examples_source *source, const struct examples_chunk *chunk,
                    struct examples *examples);
void examples_clear(struct examples *examples);
void examples_fini(struct examples *examples);

/* All examples of this part, read by n_threads threads: thread i appends to lists[i]. Which thread reads which
 * chunk depends on luck. */
bool examples_read_all(struct examples_source *source, size_t n_threads, struct examples *lists);

/* The key of a name, as the formats make it: of a namespace or column (seed 0), and of a name within it. */
uint64_t examples_hash(const char *text, size_t length, uint64_t seed);

#endif
