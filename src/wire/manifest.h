/*
 * manifest - what a checkpoint consists of: the file manifest.json, which is written last.
 *
 *   {"tern": "checkpoint 1", "nodes": 2, "clocks": [[7, 7], [6, 7]],
 *    "tables": [{"name": "w", "index": "dense", "type": "F32", "keys": 100, "length": 8, "updater": "adagrad",
 *                "state": 8, "rows": 100}],
 *    "parts": [{"file": "part-0-0.safetensors", "table": "w", "rows": 50, "first": 0, "bytes": 3256,
 *               "xxh3": "0123456789abcdef"}, ...],
 *    "notes": [{"file": "notes-0.safetensors", "rows": 2, "bytes": 200, "xxh3": "..."}, ...]}
 *
 * "clocks" has the clocks of each node's workers. "first" is the first of the part's keys, which follow each other; a part
 * without it has them in a tensor. A part may have a "layer", a number above 0: its rows replace those of lower layers, and
 * "rows" of the table is then the number of its keys. Files are numbered by the node that wrote them; a name that is not made from these
 * numbers is refused, so no name leads out of the folder. Each node writes a manifest of its own parts, and manifest_merge
 * makes one of all.
 *
 * manifest_decode takes any bytes. Pure functions on bytes, apart from memory.
 */
#ifndef WIRE_MANIFEST_H
#define WIRE_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "tern/tern.h"

enum {
    MANIFEST_FILE_BYTES = 64, /* of a file's name */
    MANIFEST_NOTES = TERN_MAX_TABLES,
    MANIFEST_MAX_NODES = 1 << 16,
};

struct manifest_table {
    char name[TERN_MAX_NAME + 1];
    char updater[32]; /* "add" if there is none */
    enum tern_index index;
    enum tern_type type;
    uint64_t n_keys;          /* dense: the key space */
    uint64_t length, n_state; /* elements of a value, and of a row's state */
    uint64_t n_rows;          /* of all parts */
};

struct manifest_part {
    uint32_t table; /* its place in the list; MANIFEST_NOTES: none, these are notes */
    uint32_t node, number;
    bool has_keys;
    uint32_t layer;     /* its rows replace those of the same keys in lower layers */
    uint64_t first_key; /* without keys of its own */
    uint64_t n_rows, bytes, hash;
};

struct manifest_clock {
    uint32_t node;
    uint64_t clock;
};

struct manifest {
    uint32_t n_nodes;
    size_t n_tables, n_parts, n_clocks;
    struct manifest_table tables[TERN_MAX_TABLES];
    struct manifest_part *parts; /* in the order of nodes and numbers, notes behind the rest */
    struct manifest_clock *clocks;
};

void manifest_free(struct manifest *manifest);

/* Add one; false when memory runs out. */
bool manifest_add_part(struct manifest *manifest, const struct manifest_part *part);
bool manifest_add_clock(struct manifest *manifest, uint32_t node, uint64_t clock);

void manifest_file_name(const struct manifest_part *part, char name[MANIFEST_FILE_BYTES]);

bool manifest_encode(const struct manifest *manifest, struct buffer *out);

/* What is wrong when memory runs out. */
extern const char manifest_no_memory[];

/* NULL, or what is wrong; the manifest is then empty. `manifest` need not be set before. */
const char *manifest_decode(const char *text, size_t n, struct manifest *manifest);

/* Adds what another node has, which must have the same tables. NULL, or what is wrong. */
const char *manifest_merge(struct manifest *all, const struct manifest *more);

/* The place of the table of a name; n_tables if there is none. */
size_t manifest_find(const struct manifest *manifest, const char *name);

#endif
