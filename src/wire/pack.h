/*
 * pack - the sections of a round's message as they travel: without padding, keys and locations as differences.
 *
 * Techniques read and write sections (section.h), whose parts are aligned, item by item. On the wire a section is a list of
 * columns (docs/PROTOCOL.md):
 *
 *   kind and form   count   keys   locations   values   states
 *
 * Filters of the table (filter.h) shorten the values, without changing a bit of them: what is to be rounded or left out was
 * so before (core/sifter.h). What they save is counted.
 *
 * Sections have at least one item. What is packed is never longer than what it was made from, and unpacking gives the same bytes
 * again. Pure functions on bytes; unpacking takes any bytes.
 */
#ifndef WIRE_PACK_H
#define WIRE_PACK_H

#include "base/buffer.h"
#include "base/status.h"
#include "wire/filter.h"

/* What an item of the table has. */
struct pack_shape {
    size_t value_bytes, state_bytes;
    const struct filters *filters; /* NULL: none */
    struct filter_shape rows;      /* with filters, */
    struct filter_counts *counts;  /* which count here when they pack */
};

/* Appends the packed form of sections that were written by section_write; false when memory runs out. */
bool pack_sections(const struct pack_shape *shape, const uint8_t *plain, size_t bytes,
                   struct buffer *out);

/* Appends the sections, at most FRAME_MAX_BODY_BYTES, that were packed; TERN_INVALID with a sentence if the bytes are not
 * packed sections, TERN_NO_MEMORY when memory runs out. What was appended on failure is unspecified. */
enum tern_status unpack_sections(const struct pack_shape *shape, const uint8_t *in, size_t bytes,
                                 struct buffer *out);

#endif
