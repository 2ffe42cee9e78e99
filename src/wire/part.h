/*
 * part - the header of one file of a checkpoint, which is in the safetensors format:
 *
 *   u64 header bytes   JSON, padded with blanks to a multiple of 8   data of the tensors, one after the other
 *
 * The JSON names each tensor with its type, its shape and its place in the data. A part of a table has `values`, a matrix
 * with a row for each key; `state` if the updater keeps any; and `keys` unless the keys follow each other. The part of a
 * node's notes has a tensor of bytes for each.
 *
 * part_decode takes any bytes. What it accepts has known types, shapes whose sizes do not overflow, and tensors that fill
 * the data in their order without overlap or gap. Pure functions on bytes.
 */
#ifndef WIRE_PART_H
#define WIRE_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "tern/tern.h"

enum { PART_MAX_HEADER_BYTES = 1 << 20 };

enum part_type { PART_F32, PART_F64, PART_I32, PART_I64, PART_U64, PART_U8 };

/* A tensor of one or two dimensions. */
struct part_tensor {
    char name[TERN_MAX_NAME + 1];
    enum part_type type;
    uint64_t n_rows, n_columns; /* n_columns 0: one dimension */
    uint64_t begin, bytes;      /* its place in the data */
};

struct part {
    size_t n;
    struct part_tensor tensors[TERN_MAX_NOTES];
};

/* The name of a type in headers and manifests, such as "F32", and back; false if there is none. */
const char *part_type_name(enum part_type type);
bool part_type_find(const char *name, enum part_type *type);

/* The type of a table's elements. */
enum part_type part_type_of(enum tern_type type);

/* Adds a tensor behind the others; the caller keeps n below TERN_MAX_NOTES. Returns its place in the data. */
uint64_t part_add(struct part *part, const char *name, enum part_type type, uint64_t n_rows,
                  uint64_t n_columns);

/* The bytes of all tensors. */
uint64_t part_data_bytes(const struct part *part);

/* Appends the header with its length, so that the data begins at a multiple of 8; false when memory runs out. */
bool part_encode(const struct part *part, struct buffer *out);

/* Reads the JSON of a header in front of so many bytes of data. NULL, or what is wrong with it. */
const char *part_decode(const char *text, size_t n, uint64_t data_bytes, struct part *part);

/* The tensor of a name; NULL if there is none. */
const struct part_tensor *part_find(const struct part *part, const char *name);

#endif
