/*
 * kept - what a node keeps for others whose backup it is: copies of the rows of an arc, and records of the lanes that wrote there.
 *
 * It is written in batches and read once, when the arc falls to this node. Rows are behind each other in chunks, so that
 * more of them never move; an index has their places: by key where the keys of an arc follow each other, otherwise a map.
 *
 * Room is made first (kept_reserve, records_reserve); what follows cannot fail. Of one shard, under its lock. Pure.
 */
#ifndef CORE_KEPT_H
#define CORE_KEPT_H

#include "base/keymap.h"

/* The copies of the rows of an arc. */
struct kept_rows {
    struct kept_rows *next;
    uint32_t arc;
    bool is_complete; /* all rows are there */
    uint64_t first;   /* the arc's keys, if there are so many: */
    uint32_t *direct; /* 1 + their places, by key; else NULL, and */
    uint64_t n_direct;
    struct keymap places; /* here */
    char **chunks;        /* of rows: key, value, state */
    size_t n_chunks, max_chunks;
    size_t row_bytes, n_per_chunk;
    size_t n;
    /* Those of the last batch that came from the arc's node, and room for more. */
    uint32_t *last;
    size_t n_last, max_last;
    size_t n_expected; /* in the batch in hand */
};

/* The keys of an arc: n_direct from `first` on, or 0: any. */
struct kept_shape {
    uint64_t first, n_direct;
};

struct kept_rows *kept_find(struct kept_rows *list, uint32_t arc);

/* The copies of an arc, made if there are none; NULL when memory runs out. */
struct kept_rows *kept_need(struct kept_rows **list, uint32_t arc, const struct kept_shape *shape);

/* Ends the copies of an arc, if there are any. */
void kept_drop(struct kept_rows **list, uint32_t arc);

/* Makes room for n_expected rows; all have as many bytes. False when memory runs out. */
bool kept_reserve(struct kept_rows *kept, size_t row_bytes);

/* Keeps a row, for which there is room, in place of the one of its key. */
void kept_put(struct kept_rows *kept, const void *row);

static inline const char *kept_row(const struct kept_rows *kept, size_t place)
{
    return kept->chunks[place / kept->n_per_chunk] + place % kept->n_per_chunk * kept->row_bytes;
}

/* What is known of a lane. */
struct record {
    uint32_t node, arc;
    uint64_t incarnation, lane;
    uint64_t executed;
    uint64_t *void_numbers;
    uint32_t n_void, max_void;
};

struct records {
    struct record *list;
    size_t n, max;
};

/* Makes room for a record: for itself if it is new, and for its void numbers. False when memory runs out. */
bool records_reserve(struct records *records, const struct record *record);

/* Keeps a record, for which there is room; its void numbers are at `numbers`, as they came. */
void records_put(struct records *records, const struct record *record, const uint8_t *numbers);

void records_fini(struct records *records);

#endif
