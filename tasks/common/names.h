/*
 * names - strings numbered 0, 1, 2 ... in the order of their first occurrence, found again by a hash table.
 *
 * A string is kept until names_fini(), followed by a NUL. Many threads may read as long as no thread adds.
 */
#ifndef TASKS_NAMES_H
#define TASKS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAMES_NONE UINT32_MAX

/* All zero is an empty set. */
struct names {
    uint32_t n;
    uint32_t capacity; /* of `start` */
    uint64_t *start;   /* where in `text` a string begins */
    char *text;
    size_t text_bytes, text_capacity;
    uint32_t *slots;  /* numbers by hash, NAMES_NONE where free; at most half are taken */
    uint32_t n_slots; /* a power of two, or 0 */
};

void names_fini(struct names *names);

/* The number of a string, which is new when it was not there yet. */
bool names_add(struct names *names, const char *text, size_t length, uint32_t *number);

/* The number of a string, or NAMES_NONE. */
uint32_t names_find(const struct names *names, const char *text, size_t length);

const char *names_at(const struct names *names, uint32_t number);

/* A number that tells other names, or the same in another order, apart from these. */
uint64_t names_digest(const struct names *names, uint64_t seed);

/* Adds the lines of a file, each a new name. */
bool names_read(struct names *names, const char *path);

/* What keeps a name from being written as a line and read back as it was: "a NUL character" or "a carriage
 * return (CR)", which would be taken for a part of the line's end; or NULL. */
const char *names_flaw(const char *name, size_t length);

#endif
