/*
 * trace - the trace files of several nodes (tern_trace_start): what each node had of each key, and when it had
 * intent for it. trace_read.c reads the files, trace_svg.c draws them, trace.c is the command.
 */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What a node may have of a key, and whether it wants it: each has its own bars. */
enum trace_layer { LAYER_MAIN, LAYER_REPLICA, LAYER_INTENT, N_LAYERS };

struct trace_file {
    const char *path;
    uint32_t node;
    uint64_t begin_ns, end_ns; /* the first and the last time in it; without one, begin > end */
    bool is_complete;          /* it has its last line */
};

/* A time during which a layer of a key at a node was on. */
struct span {
    uint64_t key, begin_ns, end_ns;
    uint32_t node;
    enum trace_layer layer;
    bool was_on; /* when the trace began */
};

/* The files by node, the spans by key, node and time. */
struct traces {
    char table[64]; /* the name, without what would not be printed */
    struct trace_file *files;
    size_t n_files;
    uint64_t *keys; /* ascending */
    size_t n_keys;
    struct span *spans;
    size_t n_spans;
    uint64_t begin_ns, end_ns;
};

/* Reads the files; false after a complaint. */
bool traces_read(struct traces *traces, const char *const *paths, size_t n);
void traces_free(struct traces *traces);

/* The spans of a key, with how many there are. */
const struct span *traces_of_key(const struct traces *traces, uint64_t key, size_t *n);

/* Draws the first n_keys keys. */
void traces_draw(const struct traces *traces, size_t n_keys, FILE *out);

#endif
