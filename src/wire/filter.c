/* filter - see filter.h. */
#include "wire/filter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lz4.h>

#include "base/rand.h"
#include "wire/bytes.h"

enum form { FORM_ZEROS = 1, FORM_FIXED = 2, FORMS = 3, FORM_LZ4 = 4 };

enum { LZ4_HEAD_BYTES = 5, LZ4_LEAST = 64 }; /* shorter messages are not compressed */

/* ---- Names --------------------------------------------------------------------------------------- */

static bool is_real(enum tern_type type)
{
    return type == TERN_F32 || type == TERN_F64;
}

static size_t element_bytes(enum tern_type type)
{
    return type == TERN_F32 || type == TERN_I32 ? 4 : 8;
}

static bool is_name(const char *text, size_t n, const char *name)
{
    return n == strlen(name) && memcmp(text, name, n) == 0;
}

/* Reads the share of rows that is pushed. */
static const char *parse_skip(const char *text, size_t n, enum tern_type type,
                              struct filters *filters)
{
    char number[24] = "", *end;
    if (filters->skip > 0)
        return "is named twice";
    if (!is_real(type))
        return "is for f32 and f64: whole numbers are never left out";
    memcpy(number, text, n < sizeof number ? n : 0);
    filters->skip = strtod(number, &end);
    return end != number && !*end && filters->skip > 0 && filters->skip <= 1
               ? NULL
               : "has no share of rows above 0 and at most 1, such as skip:0.5";
}

/* Reads one name of n characters; a sentence's end if it is wrong, else NULL. */
static const char *parse_one(const char *text, size_t n, enum tern_type type,
                             struct filters *filters)
{
    static const char fixed[] = "fixed:", skip[] = "skip:";
    bool *const flag = is_name(text, n, "keys")    ? &filters->keys
                       : is_name(text, n, "zeros") ? &filters->zeros
                       : is_name(text, n, "lz4")   ? &filters->lz4
                                                   : NULL;
    if (flag) {
        const bool again = *flag;
        *flag = true;
        return again ? "is named twice" : NULL;
    }
    if (n > sizeof skip - 1 && memcmp(text, skip, sizeof skip - 1) == 0)
        return parse_skip(text + sizeof skip - 1, n - (sizeof skip - 1), type, filters);
    if (n < sizeof fixed - 1 || memcmp(text, fixed, sizeof fixed - 1) != 0)
        return "is unknown; there are: keys, zeros, fixed:8, fixed:16, fixed:24, skip:Q, lz4";
    if (filters->fixed_bits)
        return "is named twice";
    if (!is_real(type))
        return "is for f32 and f64: whole numbers are never rounded";
    text += sizeof fixed - 1;
    n -= sizeof fixed - 1;
    filters->fixed_bits = is_name(text, n, "8")    ? 8
                          : is_name(text, n, "16") ? 16
                          : is_name(text, n, "24") ? 24
                                                   : 0;
    return filters->fixed_bits ? NULL : "is not one of fixed:8, fixed:16 and fixed:24";
}

enum tern_status filters_parse(const char *table, const char *text, enum tern_type type,
                               struct filters *filters)
{
    struct filters parsed = {0};
    while (text && *text) {
        const size_t n = strcspn(text, ",");
        const char *wrong = parse_one(text, n, type, &parsed);
        if (!wrong && text[n] == ',' && !text[n + 1])
            wrong = "is followed by a comma and nothing else";
        if (wrong)
            return fail(TERN_INVALID, "table '%s': filter '%.*s' %s", table, (int)(n < 40 ? n : 40),
                        text, wrong);
        text += n + (text[n] == ',');
    }
    parsed.zeros |= parsed.skip > 0;
    *filters = parsed;
    return TERN_OK;
}

void filters_text(const struct filters *filters, char text[FILTERS_TEXT_BYTES])
{
    char skip[24] = "";
    if (filters->skip > 0)
        snprintf(skip, sizeof skip, ",skip:%.9g", filters->skip);
    snprintf(text, FILTERS_TEXT_BYTES, "%s%s%s%.0d%s%s", filters->keys ? ",keys" : "",
             filters->zeros ? ",zeros" : "", filters->fixed_bits ? ",fixed:" : "",
             (int)filters->fixed_bits, skip, filters->lz4 ? ",lz4" : "");
    if (text[0])
        memmove(text, text + 1, strlen(text));
}

void filter_count(struct filter_counts *counts, const struct filter_saved *saved)
{
    atomic_fetch_add_explicit(&counts->keys, saved->keys, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->zeros, saved->zeros, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->fixed, saved->fixed, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->lz4, saved->lz4, memory_order_relaxed);
}

/* ---- Elements ------------------------------------------------------------------------------------ */

static double get_real(const uint8_t *at, enum tern_type type)
{
    float f;
    double d;
    if (type == TERN_F64) {
        memcpy(&d, at, sizeof d);
        return d;
    }
    memcpy(&f, at, sizeof f);
    return (double)f;
}

static void put_real(uint8_t *at, enum tern_type type, double value)
{
    const float f = (float)value;
    if (type == TERN_F64)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &f, sizeof f);
}

static bool is_zero(const uint8_t *row, size_t bytes)
{
    return !row[0] && memcmp(row, row + 1, bytes - 1) == 0;
}

/* The binary logarithm of the step; false if there is none, since an element is not finite or all are zero. */
static bool find_step(const uint8_t *rows, enum tern_type type, size_t n_elements, unsigned bits,
                      int *log2_step)
{
    double largest = 0;
    for (size_t i = 0; i < n_elements; i++) {
        const double x = fabs(get_real(rows + i * element_bytes(type), type));
        if (!isfinite(x))
            return false;
        if (x > largest)
            largest = x;
    }
    if (largest == 0)
        return false;
    /* largest < 2^e, so at most 2^(bits - 1) steps; one less unless it is rounded up to as many. */
    int e;
    (void)frexp(largest, &e);
    e -= (int)bits - 1;
    const double most = ldexp(1, (int)bits - 1) - 1;
    if (ldexp(largest, -e) > most)
        e++;
    const int least = type == TERN_F32 ? -149 : -1074;
    *log2_step = e < least ? least : e;
    return true;
}

/* A whole number whose mean is x. */
static int32_t round_at_random(double x, uint64_t seed, uint64_t i)
{
    const double low = floor(x);
    return (int32_t)low + (rand_unit(rand_at(seed, i)) < x - low);
}

/* ---- Rows ---------------------------------------------------------------------------------------- */

/* Appends the elements of a row as whole numbers of steps; `at` is the number of the first. */
static uint8_t *put_fixed(const uint8_t *row, const struct filter_shape *shape, unsigned bits,
                          double scale, uint64_t seed, uint64_t at, uint8_t *out)
{
    for (size_t i = 0; i < shape->length; i++) {
        const double x = get_real(row + i * element_bytes(shape->type), shape->type) * scale;
        const uint32_t z = (uint32_t)round_at_random(x, seed, at + i);
        for (unsigned shift = 0; shift < bits; shift += 8)
            *out++ = (uint8_t)(z >> shift);
    }
    return out;
}

static const uint8_t *get_fixed(const uint8_t *in, const struct filter_shape *shape, unsigned bits,
                                double step, uint8_t *row)
{
    for (size_t i = 0; i < shape->length; i++) {
        uint32_t z = 0;
        for (unsigned shift = 0; shift < bits; shift += 8)
            z |= (uint32_t)*in++ << shift;
        const int32_t signed_z = (int32_t)(z << (32 - bits)) >> (32 - bits);
        put_real(row + i * element_bytes(shape->type), shape->type, signed_z * step);
    }
    return in;
}

static size_t count_zeros(const uint8_t *rows, size_t n, size_t row_bytes)
{
    size_t n_zero = 0;
    for (size_t i = 0; i < n; i++)
        n_zero += is_zero(rows + i * row_bytes, row_bytes);
    return n_zero;
}

size_t filter_scratch_bytes(const struct filters *filters, size_t n, size_t row_bytes)
{
    return filters->lz4 ? (size_t)LZ4_COMPRESSBOUND(filter_max_bytes(n, row_bytes)) : 0;
}

void filter_skip(const struct filters *filters, const struct filter_shape *shape, void *rows,
                 size_t n, uint64_t seed)
{
    const size_t bytes = element_bytes(shape->type), row_bytes = shape->length * bytes;
    uint8_t *row = rows;
    for (size_t i = 0; filters->skip > 0 && i < n; i++, row += row_bytes) {
        const bool sent = rand_unit(rand_at(~seed, i)) < filters->skip;
        for (size_t k = 0; sent && k < row_bytes; k += bytes)
            put_real(row + k, shape->type, get_real(row + k, shape->type) / filters->skip);
        if (!sent)
            memset(row, 0, row_bytes);
    }
}

static size_t encode_rows(const struct filters *filters, const struct filter_shape *shape,
                          const void *rows, size_t n, uint64_t seed, uint8_t *out,
                          struct filter_saved *saved)
{
    const uint8_t *from = rows, *const begin = out;
    const size_t row_bytes = shape->length * element_bytes(shape->type), n_bits = (n + 7) / 8;
    const size_t n_zero = filters->zeros ? count_zeros(from, n, row_bytes) : 0;
    int log2_step = 0;
    const bool fixed = filters->fixed_bits && find_step(from, shape->type, n * shape->length,
                                                        filters->fixed_bits, &log2_step);
    const size_t coded = fixed ? shape->length * filters->fixed_bits / 8 : row_bytes;
    const bool zeros = n_zero * coded > n_bits;
    *out++ = (uint8_t)((zeros ? FORM_ZEROS : 0) | (fixed ? FORM_FIXED : 0));
    uint8_t *const bits = out;
    out += zeros ? n_bits : 0;
    memset(bits, 0, (size_t)(out - bits));
    if (fixed) {
        put_u16(out, (uint16_t)log2_step);
        out += 2;
        saved->fixed += (n - (zeros ? n_zero : 0)) * (row_bytes - coded);
    }
    for (size_t i = 0; i < n; i++, from += row_bytes) {
        if (zeros && is_zero(from, row_bytes))
            continue;
        if (zeros)
            bits[i / 8] |= (uint8_t)(1 << i % 8);
        if (fixed) {
            out = put_fixed(from, shape, filters->fixed_bits, ldexp(1, -log2_step), seed,
                            i * shape->length, out);
        } else {
            memcpy(out, from, row_bytes);
            out += row_bytes;
        }
    }
    saved->zeros += zeros ? n_zero * row_bytes - n_bits : 0;
    return (size_t)(out - begin);
}

/* Replaces coded rows by their compressed form, if that is shorter; their bytes. */
static size_t compress(uint8_t *coded, size_t bytes, uint8_t *scratch, struct filter_saved *saved)
{
    const int most = (int)bytes - LZ4_HEAD_BYTES - 1;
    const int n = LZ4_compress_default((const char *)coded, (char *)scratch, (int)bytes, most);
    if (n <= 0)
        return bytes;
    coded[0] = FORM_LZ4;
    put_u32(coded + 1, (uint32_t)bytes);
    memcpy(coded + LZ4_HEAD_BYTES, scratch, (size_t)n);
    saved->lz4 += bytes - LZ4_HEAD_BYTES - (size_t)n;
    return LZ4_HEAD_BYTES + (size_t)n;
}

size_t filter_encode(const struct filters *filters, const struct filter_shape *shape,
                     const void *rows, size_t n, uint64_t seed, uint8_t *out, uint8_t *scratch,
                     struct filter_saved *saved)
{
    const size_t bytes = encode_rows(filters, shape, rows, n, seed, out, saved);
    return filters->lz4 && bytes >= LZ4_LEAST && bytes <= LZ4_MAX_INPUT_SIZE
               ? compress(out, bytes, scratch, saved)
               : bytes;
}

/* How many of n rows follow; the bits of rows that are not there must be 0. */
static bool count_rows(const uint8_t *bits, size_t n, size_t *n_rows)
{
    *n_rows = 0;
    for (size_t i = 0; i < (n + 7) / 8; i++)
        *n_rows += (size_t)__builtin_popcount(bits[i]);
    return n % 8 == 0 || bits[n / 8] >> n % 8 == 0;
}

static bool decode_rows(const struct filters *filters, const struct filter_shape *shape,
                        const uint8_t *in, size_t bytes, size_t n, void *rows)
{
    const uint8_t *const end = in + bytes;
    const size_t row_bytes = shape->length * element_bytes(shape->type);
    if (!bytes || *in > FORMS || (*in & FORM_ZEROS && !filters->zeros) ||
        (*in & FORM_FIXED && !filters->fixed_bits))
        return false;
    const bool zeros = *in & FORM_ZEROS, fixed = *in & FORM_FIXED;
    const size_t head = 1 + (zeros ? (n + 7) / 8 : 0) + (fixed ? 2U : 0);
    const uint8_t *bits = in + 1;
    size_t n_rows = n;
    if (head > bytes || (zeros && !count_rows(bits, n, &n_rows)))
        return false;
    const size_t coded = fixed ? shape->length * filters->fixed_bits / 8 : row_bytes;
    if (n_rows && (bytes - head) / n_rows < coded)
        return false;
    in += head;
    const double step = fixed ? ldexp(1, (int16_t)get_u16(in - 2)) : 0;
    uint8_t *row = rows;
    for (size_t i = 0; i < n; i++, row += row_bytes) {
        if (zeros && !(bits[i / 8] >> i % 8 & 1)) {
            memset(row, 0, row_bytes);
        } else if (fixed) {
            in = get_fixed(in, shape, filters->fixed_bits, step, row);
        } else {
            memcpy(row, in, row_bytes);
            in += row_bytes;
        }
    }
    return in == end;
}

bool filter_decode(const struct filters *filters, const struct filter_shape *shape,
                   const uint8_t *in, size_t bytes, size_t n, uint8_t *scratch, void *rows)
{
    if (!filters->lz4 || !bytes || *in != FORM_LZ4)
        return decode_rows(filters, shape, in, bytes, n, rows);
    const size_t most = filter_max_bytes(n, shape->length * element_bytes(shape->type));
    if (bytes < LZ4_HEAD_BYTES || bytes > LZ4_MAX_INPUT_SIZE)
        return false;
    const size_t plain = get_u32(in + 1);
    return plain <= most &&
           LZ4_decompress_safe((const char *)in + LZ4_HEAD_BYTES, (char *)scratch,
                               (int)(bytes - LZ4_HEAD_BYTES), (int)plain) == (int)plain &&
           decode_rows(filters, shape, scratch, plain, n, rows);
}
