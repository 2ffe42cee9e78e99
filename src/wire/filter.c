/* filter - see filter.h. */
#include "wire/filter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lz4.h>

#include "base/rand.h"
#include "kernel/fixed.h"
#include "wire/bytes.h"

enum form { FORM_ZEROS = 1, FORM_FIXED = 2, FORMS = 3, FORM_LZ4 = 4 };

#define INLINE static inline __attribute__((always_inline))

enum { BLOCK = 256 };                        /* elements that are rounded together */
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

/* Reads the least change that does not wait. */
static const char *parse_significant(const char *text, size_t n, struct filters *filters)
{
    static const char per_round[] = "/t";
    char number[24] = "", *end;
    if (filters->significant > 0)
        return "is named twice";
    memcpy(number, text, n < sizeof number ? n : 0);
    filters->significant = strtod(number, &end);
    filters->decays = strcmp(end, per_round) == 0;
    return end != number && (!*end || filters->decays) && filters->significant > 0 &&
                   isfinite(filters->significant)
               ? NULL
               : "has no change above 0, such as significant:0.01 or significant:0.01/t";
}

/* Reads one name of n characters; a sentence's end if it is wrong, else NULL. */
static const char *parse_one(const char *text, size_t n, enum tern_type type,
                             struct filters *filters)
{
    static const char fixed[] = "fixed:", skip[] = "skip:", significant[] = "significant:";
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
    if (n > sizeof significant - 1 && memcmp(text, significant, sizeof significant - 1) == 0)
        return parse_significant(text + sizeof significant - 1, n - (sizeof significant - 1),
                                 filters);
    if (n < sizeof fixed - 1 || memcmp(text, fixed, sizeof fixed - 1) != 0)
        return "is unknown; there are: keys, zeros, fixed:8, fixed:16, fixed:24, skip:Q, "
               "significant:X, significant:X/t, lz4";
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
    char skip[24] = "", significant[40] = "";
    if (filters->skip > 0)
        snprintf(skip, sizeof skip, ",skip:%.9g", filters->skip);
    if (filters->significant > 0)
        snprintf(significant, sizeof significant, ",significant:%.9g%s", filters->significant,
                 filters->decays ? "/t" : "");
    snprintf(text, FILTERS_TEXT_BYTES, "%s%s%s%.0d%s%s%s", filters->keys ? ",keys" : "",
             filters->zeros ? ",zeros" : "", filters->fixed_bits ? ",fixed:" : "",
             (int)filters->fixed_bits, skip, significant, filters->lz4 ? ",lz4" : "");
    if (text[0])
        memmove(text, text + 1, strlen(text));
}

void filter_count(struct filter_counts *counts, const struct filter_saved *saved)
{
    atomic_fetch_add_explicit(&counts->keys, saved->keys, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->zeros, saved->zeros, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->fixed, saved->fixed, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->lz4, saved->lz4, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->waited, saved->waited, memory_order_relaxed);
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

INLINE bool is_zero(const uint8_t *row, size_t bytes)
{
    uint32_t word;
    uint64_t words;
    if (bytes == sizeof word)
        return memcpy(&word, row, sizeof word), word == 0;
    if (bytes == sizeof words)
        return memcpy(&words, row, sizeof words), words == 0;
    return !row[0] && memcmp(row, row + 1, bytes - 1) == 0;
}

/* The binary logarithm of the step; false if there is none, since an element is not finite or all are zero. */
static bool find_step(const uint8_t *rows, enum tern_type type, size_t n_elements, unsigned bits,
                      int *log2_step)
{
    const double largest = fixed_get()->largest[type == TERN_F64](rows, n_elements);
    if (largest == 0 || !isfinite(largest))
        return false;
    /* largest < 2^e, so at most 2^(bits - 1) steps; one less unless it is rounded up to as many. */
    int e;
    (void)frexp(largest, &e);
    e -= (int)bits - 1;
    const double most = ldexp(1, (int)bits - 1) - 1;
    if (ldexp(largest, -e) > most)
        e++;
    /* Below, the number of steps in 1 would not be finite. */
    enum { LEAST_F32 = -149, LEAST_F64 = -1000 };
    if (type == TERN_F64 && e < LEAST_F64)
        return false;
    *log2_step = type == TERN_F32 && e < LEAST_F32 ? LEAST_F32 : e;
    return true;
}

/* ---- Whole numbers of steps ---------------------------------------------------------------------- */

/* How rows are rounded. */
struct rounding {
    const struct fixed *loops;
    enum tern_type type;
    unsigned bits;
    double scale[2]; /* their product is 1 / step, or the step */
    uint32_t seed;
    size_t at; /* elements so far */
};

static struct rounding rounding_to(const struct filters *filters, enum tern_type type,
                                   int log2_scale, uint64_t seed)
{
    return (struct rounding){
        .loops = fixed_get(),
        .type = type,
        .bits = filters->fixed_bits,
        .scale = {ldexp(1, log2_scale / 2), ldexp(1, log2_scale - log2_scale / 2)},
        .seed = (uint32_t)rand_at(seed, 0)};
}

/* Appends n elements as whole numbers of steps. */
static uint8_t *put_elements(struct rounding *rounding, const uint8_t *from, size_t n, uint8_t *out)
{
    const size_t bytes = element_bytes(rounding->type), coded = rounding->bits / 8;
    int32_t steps[BLOCK];
    for (size_t done = 0, most; done < n; done += most, rounding->at += most) {
        most = n - done < BLOCK ? n - done : BLOCK;
        rounding->loops->round[rounding->type == TERN_F64](from + done * bytes, most,
                                                           rounding->scale, rounding->seed,
                                                           (uint32_t)rounding->at, steps);
        rounding->loops->pack[coded - 1](steps, most, out + done * coded);
    }
    return out + n * coded;
}

static const uint8_t *get_elements(const struct rounding *rounding, const uint8_t *in, size_t n,
                                   uint8_t *to)
{
    const size_t bytes = element_bytes(rounding->type), coded = rounding->bits / 8;
    int32_t steps[BLOCK];
    for (size_t done = 0, most; done < n; done += most) {
        most = n - done < BLOCK ? n - done : BLOCK;
        rounding->loops->unpack[coded - 1](in + done * coded, most, steps);
        rounding->loops->unround[rounding->type == TERN_F64](steps, most, rounding->scale,
                                                             to + done * bytes);
    }
    return in + n * coded;
}

/* ---- Rows ---------------------------------------------------------------------------------------- */

INLINE void copy_row(uint8_t *to, const uint8_t *from, size_t bytes)
{
    if (bytes == sizeof(uint32_t))
        memcpy(to, from, sizeof(uint32_t));
    else if (bytes == sizeof(uint64_t))
        memcpy(to, from, sizeof(uint64_t));
    else
        memcpy(to, from, bytes);
}

/* Brings the rows of [begin, end) that are not zeros together, and sets their bits; where they end. */
INLINE uint8_t *gather_rows(const uint8_t *rows, size_t begin, size_t end, size_t row_bytes,
                            uint8_t *bits, uint8_t *out)
{
    const uint8_t *from = rows + begin * row_bytes;
    for (size_t i = begin; i < end; i++, from += row_bytes) {
        const unsigned sent = !is_zero(from, row_bytes);
        copy_row(out, from, row_bytes); /* what is zeros is overwritten by the next one */
        bits[i / 8] |= (uint8_t)(sent << i % 8);
        out += sent ? row_bytes : 0;
    }
    return out;
}

/* The inverse. */
INLINE void scatter_rows(const uint8_t *in, size_t begin, size_t end, size_t row_bytes,
                         const uint8_t *bits, uint8_t *rows)
{
    uint8_t *to = rows + begin * row_bytes;
    for (size_t i = begin; i < end; i++, to += row_bytes) {
        if (bits[i / 8] >> i % 8 & 1) {
            copy_row(to, in, row_bytes);
            in += row_bytes;
        } else {
            memset(to, 0, row_bytes);
        }
    }
}

INLINE size_t count_zeros_of(const uint8_t *rows, size_t n, size_t row_bytes)
{
    size_t n_zero = 0;
    for (size_t i = 0; i < n; i++)
        n_zero += is_zero(rows + i * row_bytes, row_bytes);
    return n_zero;
}

/* Each of these has a loop of its own for rows of one number. */
static size_t count_zeros(const uint8_t *rows, size_t n, size_t row_bytes)
{
    return row_bytes == 4   ? count_zeros_of(rows, n, 4)
           : row_bytes == 8 ? count_zeros_of(rows, n, 8)
                            : count_zeros_of(rows, n, row_bytes);
}

static uint8_t *gather(const uint8_t *rows, size_t begin, size_t end, size_t row_bytes,
                       uint8_t *bits, uint8_t *out)
{
    return row_bytes == 4   ? gather_rows(rows, begin, end, 4, bits, out)
           : row_bytes == 8 ? gather_rows(rows, begin, end, 8, bits, out)
                            : gather_rows(rows, begin, end, row_bytes, bits, out);
}

static void scatter(const uint8_t *in, size_t begin, size_t end, size_t row_bytes,
                    const uint8_t *bits, uint8_t *rows)
{
    if (row_bytes == 4)
        scatter_rows(in, begin, end, 4, bits, rows);
    else if (row_bytes == 8)
        scatter_rows(in, begin, end, 8, bits, rows);
    else
        scatter_rows(in, begin, end, row_bytes, bits, rows);
}

/* Rounds the rows that are not zeros: those of a block together, if they fit. */
static uint8_t *put_sparse(struct rounding *rounding, const uint8_t *rows, size_t n, size_t length,
                           uint8_t *bits, uint8_t *out)
{
    uint8_t block[BLOCK * sizeof(double)];
    const size_t element = element_bytes(rounding->type), row_bytes = length * element;
    const size_t most = length < BLOCK ? BLOCK / length : 1;
    for (size_t i = 0, next; i < n; i = next) {
        next = n - i < most ? n : i + most;
        if (length <= BLOCK) {
            const uint8_t *end = gather(rows, i, next, row_bytes, bits, block);
            out = put_elements(rounding, block, (size_t)(end - block) / element, out);
        } else if (!is_zero(rows + i * row_bytes, row_bytes)) {
            bits[i / 8] |= (uint8_t)(1 << i % 8);
            out = put_elements(rounding, rows + i * row_bytes, length, out);
        }
    }
    return out;
}

static bool has_row(const uint8_t *bits, size_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

/* The inverse. */
static const uint8_t *get_sparse(const struct rounding *rounding, const uint8_t *in, size_t n,
                                 size_t length, const uint8_t *bits, uint8_t *rows)
{
    uint8_t block[BLOCK * sizeof(double)];
    const size_t row_bytes = length * element_bytes(rounding->type);
    const size_t most = length < BLOCK ? BLOCK / length : 1;
    for (size_t i = 0, next; i < n; i = next) {
        size_t n_sent = 0;
        next = n - i < most ? n : i + most;
        for (size_t k = i; k < next; k++)
            n_sent += has_row(bits, k);
        if (length <= BLOCK) {
            in = get_elements(rounding, in, n_sent * length, block);
            scatter(block, i, next, row_bytes, bits, rows);
        } else if (n_sent) {
            in = get_elements(rounding, in, length, rows + i * row_bytes);
        } else {
            memset(rows + i * row_bytes, 0, row_bytes);
        }
    }
    return in;
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

/* Rounds elements by coding and decoding them; with `to` NULL they stay as they are, and the answer is whether they are
 * whole numbers of steps. */
static bool round_elements(const struct filters *filters, enum tern_type type, int log2_step,
                           uint64_t seed, const uint8_t *from, size_t n, uint8_t *to)
{
    uint8_t coded[BLOCK * 3 + FIXED_SLACK], block[BLOCK * sizeof(double)];
    const size_t bytes = element_bytes(type);
    struct rounding rounding = rounding_to(filters, type, -log2_step, seed);
    const struct rounding back = rounding_to(filters, type, log2_step, 0);
    bool same = true;
    for (size_t done = 0, most; same && done < n; done += most) {
        most = n - done < BLOCK ? n - done : BLOCK;
        put_elements(&rounding, from + done * bytes, most, coded);
        get_elements(&back, coded, most, block);
        if (to)
            memcpy(to + done * bytes, block, most * bytes);
        else
            same = memcmp(from + done * bytes, block, most * bytes) == 0;
    }
    return same;
}

bool filter_round(const struct filters *filters, const struct filter_shape *shape, void *rows,
                  size_t n, uint64_t seed)
{
    int log2_step;
    if (!filters->fixed_bits ||
        !find_step(rows, shape->type, n * shape->length, filters->fixed_bits, &log2_step))
        return false;
    round_elements(filters, shape->type, log2_step, seed, rows, n * shape->length, rows);
    return true;
}

bool filter_is_significant(const struct filter_shape *shape, const void *row, double least)
{
    const uint8_t *from = row;
    int64_t whole;
    int32_t half;
    bool is_less = true;
    for (size_t i = 0; i < shape->length && is_less; i++) {
        const uint8_t *at = from + i * element_bytes(shape->type);
        if (shape->type == TERN_I64)
            memcpy(&whole, at, sizeof whole), is_less = fabs((double)whole) < least;
        else if (shape->type == TERN_I32)
            memcpy(&half, at, sizeof half), is_less = fabs((double)half) < least;
        else
            is_less = fabs(get_real(at, shape->type)) < least;
    }
    return !is_less;
}

/* How rows are coded. */
struct coding {
    bool fixed, zeros;
    int log2_step;
    size_t n_zero, row_bytes, coded_bytes; /* a row has so many bytes, and has them coded */
};

/* `exact`: fixed point must change nothing. */
static struct coding choose_coding(const struct filters *filters, const struct filter_shape *shape,
                                   const uint8_t *rows, size_t n, bool exact)
{
    struct coding coding = {.row_bytes = shape->length * element_bytes(shape->type)};
    coding.n_zero = filters->zeros ? count_zeros(rows, n, coding.row_bytes) : 0;
    coding.fixed = filters->fixed_bits && find_step(rows, shape->type, n * shape->length,
                                                    filters->fixed_bits, &coding.log2_step);
    if (coding.fixed && exact)
        coding.fixed = round_elements(filters, shape->type, coding.log2_step, 0, rows,
                                      n * shape->length, NULL);
    coding.coded_bytes = coding.fixed ? shape->length * filters->fixed_bits / 8 : coding.row_bytes;
    coding.zeros = coding.n_zero * coding.coded_bytes > (n + 7) / 8;
    return coding;
}

static size_t encode_rows(const struct filters *filters, const struct filter_shape *shape,
                          const void *rows, size_t n, const struct coding *coding, uint64_t seed,
                          uint8_t *out, struct filter_saved *saved)
{
    const uint8_t *from = rows, *const begin = out;
    const size_t row_bytes = coding->row_bytes, n_bits = (n + 7) / 8;
    const bool zeros = coding->zeros, fixed = coding->fixed;
    *out++ = (uint8_t)((zeros ? FORM_ZEROS : 0) | (fixed ? FORM_FIXED : 0));
    uint8_t *const bits = out;
    out += zeros ? n_bits : 0;
    memset(bits, 0, (size_t)(out - bits));
    if (fixed) {
        put_u16(out, (uint16_t)coding->log2_step);
        out += 2;
        saved->fixed += (n - (zeros ? coding->n_zero : 0)) * (row_bytes - coding->coded_bytes);
    }
    struct rounding rounding = rounding_to(filters, shape->type, -coding->log2_step, seed);
    if (fixed && zeros) {
        out = put_sparse(&rounding, from, n, shape->length, bits, out);
    } else if (fixed) {
        out = put_elements(&rounding, from, n * shape->length, out);
    } else if (zeros) {
        out = gather(from, 0, n, row_bytes, bits, out);
    } else {
        memcpy(out, from, n * row_bytes);
        out += n * row_bytes;
    }
    saved->zeros += zeros ? coding->n_zero * row_bytes - n_bits : 0;
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

static size_t encode(const struct filters *filters, const struct filter_shape *shape,
                     const void *rows, size_t n, bool exact, uint64_t seed, uint8_t *out,
                     uint8_t *scratch, struct filter_saved *saved)
{
    const struct coding coding = choose_coding(filters, shape, rows, n, exact);
    const size_t bytes = encode_rows(filters, shape, rows, n, &coding, seed, out, saved);
    return filters->lz4 && bytes >= LZ4_LEAST && bytes <= LZ4_MAX_INPUT_SIZE
               ? compress(out, bytes, scratch, saved)
               : bytes;
}

size_t filter_encode(const struct filters *filters, const struct filter_shape *shape,
                     const void *rows, size_t n, uint64_t seed, uint8_t *out, uint8_t *scratch,
                     struct filter_saved *saved)
{
    return encode(filters, shape, rows, n, false, seed, out, scratch, saved);
}

size_t filter_encode_exact(const struct filters *filters, const struct filter_shape *shape,
                           const void *rows, size_t n, uint8_t *out, uint8_t *scratch,
                           struct filter_saved *saved)
{
    return encode(filters, shape, rows, n, true, 0, out, scratch, saved);
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
    const int log2_step = fixed ? (int16_t)get_u16(in - 2) : 0;
    const struct rounding rounding = rounding_to(filters, shape->type, log2_step, 0);
    if (in + n_rows * coded != end)
        return false;
    if (fixed && zeros)
        get_sparse(&rounding, in, n, shape->length, bits, rows);
    else if (fixed)
        get_elements(&rounding, in, n * shape->length, rows);
    else if (zeros)
        scatter(in, 0, n, row_bytes, bits, rows);
    else if (n)
        memcpy(rows, in, n * row_bytes);
    return true;
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
