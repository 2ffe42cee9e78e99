/*
 * json - reading JSON one value after the other, and writing its strings.
 *
 * A reader walks through text that belongs to the caller and may be anything. The first thing that is wrong is kept as a
 * phrase; from then on every call returns false and reads nothing. Only what Tern's own files use is read into variables:
 * objects, arrays, strings and whole numbers up to 2^64 - 1; json_skip passes over any value.
 *
 * Pure functions on bytes. Nothing is allocated.
 */
#ifndef WIRE_JSON_H
#define WIRE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct json {
    const char *at, *end;
    const char *wrong; /* NULL: nothing so far */
};

/* Notes what is wrong, unless something was before; false. */
bool json_refuse(struct json *json, const char *wrong);

/* Begins an object '{' or an array '['. */
bool json_open(struct json *json, char bracket);

/* Whether another member or element follows; if not, the closing bracket is passed over. `n` counts them; 0 at first. */
bool json_next(struct json *json, char closing, size_t *n);

/* The name of a member with its colon; a string; both with a final 0, and none inside. Too long is wrong. */
bool json_name(struct json *json, char *name, size_t size);
bool json_string(struct json *json, char *text, size_t size);

bool json_number(struct json *json, uint64_t *number);

/* Passes over a value of any kind. */
bool json_skip(struct json *json);

/* Whether nothing but blanks follows. */
bool json_end(struct json *json);

/* Appends a string in quotes; text as by printf. False when memory runs out. */
bool json_put_string(struct buffer *out, const char *text);
bool json_put(struct buffer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
