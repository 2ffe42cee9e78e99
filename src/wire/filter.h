/*
 * filter - how the rows of a table's requests travel: a pure stage between rows and message, named per table.
 *
 *   keys      a list of keys that was sent before on its lane is named by a digest (lists.h); no matter of rows
 *   zeros     a row of zeros costs a bit
 *   fixed:N   elements of f32 and f64 have N = 8, 16 or 24 bits: a whole number of steps (10.23 of li-thesis.txt)
 *
 * The step is a power of two and the smallest of which the largest element has at most 2^(N-1) - 1, so that the sign has
 * its bit. A number between two steps is rounded at random, up with the probability of its distance to the lower one:
 * the mean is the number itself. Rows with an element that is not finite are not rounded, nor is anything where the
 * caller says that rows must stay as they are.
 *
 *   skip:Q    a row of a push is sent with probability Q, divided by Q (6.4): the mean is the row itself. The others are
 *             zeros, so `zeros` is included
 *   lz4       what the others have made is compressed, if that makes it shorter
 *   significant:X, significant:X/t   the change of a copy waits until an element of it has X, or X / t in round t; no
 *             matter of coding (core/sifter.h)
 *
 * In rounds, which know what both sides have, rows are rounded before they are coded (filter_round), and coding changes
 * nothing (filter_encode_exact).
 *
 * Rows are coded as: u8 form; with FORM_ZEROS a bit for each row, whether it follows; with FORM_FIXED i16, the binary
 * logarithm of the step; then the rows that are not left out. Or FORM_LZ4, u32 bytes, and an LZ4 block that has so many bytes
 * of that when it is decompressed. Pure functions; decoding takes any bytes.
 */
#ifndef WIRE_FILTER_H
#define WIRE_FILTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tern/tern.h"

/* The filters of a table; all zero: none. */
struct filters {
    bool keys;
    bool zeros;
    bool lz4;
    uint8_t fixed_bits; /* 0: not rounded */
    double skip;        /* the share of rows that is pushed; 0: all */
    double significant; /* the least element of a change that does not wait; 0: none waits */
    bool decays;        /* `significant` is divided by the number of the round */
};

/* The rows that are coded: `length` elements each. */
struct filter_shape {
    enum tern_type type;
    size_t length;
};

/* Bytes that filters have saved: of one message, and of all. */
struct filter_saved {
    uint64_t keys, zeros, fixed, lz4, waited;
};

struct filter_counts {
    _Atomic uint64_t keys, zeros, fixed, lz4, waited;
};

/* Adds what was saved in a message. Any thread. */
void filter_count(struct filter_counts *counts, const struct filter_saved *saved);

/* Whether rows are coded. */
static inline bool filters_rows(const struct filters *filters)
{
    return filters->zeros || filters->fixed_bits || filters->lz4;
}

/* Reads such as "zeros,fixed:8"; NULL and "" are none. Fails, with a sentence that names the table, if a filter is
 * unknown, named twice, or does not fit the type. */
enum tern_status filters_parse(const char *table, const char *text, enum tern_type type,
                               struct filters *filters);

enum { FILTERS_TEXT_BYTES = 96 };

/* Names filters always in the same way: "keys,zeros,fixed:8,skip:0.5,significant:0.1/t,lz4". */
void filters_text(const struct filters *filters, char text[FILTERS_TEXT_BYTES]);

/* Room that n rows of row_bytes may need. */
static inline size_t filter_max_bytes(size_t n, size_t row_bytes)
{
    return 1 + sizeof(int16_t) +
           (n + 1) * row_bytes; /* a row of zeros may be written behind the last */
}

/* Bytes of scratch that coding or decoding n rows needs. */
size_t filter_scratch_bytes(const struct filters *filters, size_t n, size_t row_bytes);

/* Leaves out rows of a push, and divides the others, as `skip` says. Which ones follows from the seed. */
void filter_skip(const struct filters *filters, const struct filter_shape *shape, void *rows,
                 size_t n, uint64_t seed);

/* Codes n rows, which may lie anywhere; returns the bytes. What is rounded follows from the seed. */
size_t filter_encode(const struct filters *filters, const struct filter_shape *shape,
                     const void *rows, size_t n, uint64_t seed, uint8_t *out, uint8_t *scratch,
                     struct filter_saved *saved);

/* The same without rounding: rows have fixed point only if all elements are whole numbers of its steps. What is decoded
 * has the same bits. */
size_t filter_encode_exact(const struct filters *filters, const struct filter_shape *shape,
                           const void *rows, size_t n, uint8_t *out, uint8_t *scratch,
                           struct filter_saved *saved);

/* Rounds n rows in place to what fixed point can say; false, and they stay as they are, if it cannot. */
bool filter_round(const struct filters *filters, const struct filter_shape *shape, void *rows,
                  size_t n, uint64_t seed);

/* Whether an element of a row is at least `least` away from 0, or is no number. */
bool filter_is_significant(const struct filter_shape *shape, const void *row, double least);

/* Decodes exactly n rows from exactly `bytes`; false, with rows unspecified, if they do not fit. */
bool filter_decode(const struct filters *filters, const struct filter_shape *shape,
                   const uint8_t *in, size_t bytes, size_t n, uint8_t *scratch, void *rows);

#endif
