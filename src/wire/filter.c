/* filter - see filter.h. */
#include "wire/filter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lz4.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

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
    const size_t coded = rounding->bits / 8;
    rounding->loops->round[rounding->type == TERN_F64][coded - 1](
        from, n, rounding->scale, rounding->seed, (uint32_t)rounding->at, out);
    rounding->at += n;
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

enum { GROUP = 8 }; /* rows whose bits are in a byte */

static bool has_row(const uint8_t *bits, size_t i)
{
    return bits[i / GROUP] >> i % GROUP & 1;
}

/* The bits of GROUP rows that are not zeros. */
INLINE unsigned mark_group(const uint8_t *rows, size_t n, size_t row_bytes)
{
    unsigned group = 0;
    for (size_t k = 0; k < n; k++)
        group |= (unsigned)!is_zero(rows + k * row_bytes, row_bytes) << k;
    return group;
}

#ifdef __SSE2__
/* For four numbers of 4 bytes: all bits set where a number is zero. For 8 bytes, a number is zero if both halves are. */
INLINE __m128i zeros_of_4(const uint8_t *rows, size_t row_bytes)
{
    const __m128i first = _mm_loadu_si128((const void *)rows), zero = _mm_setzero_si128();
    if (row_bytes == 4)
        return _mm_cmpeq_epi32(first, zero);
    const __m128 low = _mm_castsi128_ps(first);
    const __m128 high = _mm_castsi128_ps(_mm_loadu_si128((const void *)(rows + 16)));
    const __m128 halves[2] = {_mm_shuffle_ps(low, high, 0x88), _mm_shuffle_ps(low, high, 0xdd)};
    return _mm_cmpeq_epi32(_mm_castps_si128(_mm_or_ps(halves[0], halves[1])), zero);
}

INLINE __m128i zeros_of_8(const uint8_t *rows, size_t row_bytes)
{
    return _mm_packs_epi32(zeros_of_4(rows, row_bytes),
                           zeros_of_4(rows + 4 * row_bytes, row_bytes));
}

/* The bits of two groups. */
INLINE unsigned mark_numbers(const uint8_t *rows, size_t row_bytes)
{
    const __m128i zeros =
        _mm_packs_epi16(zeros_of_8(rows, row_bytes), zeros_of_8(rows + 8 * row_bytes, row_bytes));
    return ~(unsigned)_mm_movemask_epi8(zeros);
}
#else
INLINE unsigned mark_numbers(const uint8_t *rows, size_t row_bytes)
{
    return mark_group(rows, GROUP, row_bytes) |
           mark_group(rows + GROUP * row_bytes, GROUP, row_bytes) << GROUP;
}
#endif

/* Sets the bits of rows that are not zeros, and clears the others. */
INLINE void mark_rows_of(const uint8_t *rows, size_t n, size_t row_bytes, uint8_t *bits)
{
    size_t i = 0;
    for (; row_bytes <= 8 && n - i >= 2 * GROUP; i += 2 * GROUP)
        put_u16(bits + i / GROUP, (uint16_t)mark_numbers(rows + i * row_bytes, row_bytes));
    for (; i < n; i += GROUP)
        bits[i / GROUP] =
            (uint8_t)mark_group(rows + i * row_bytes, n - i < GROUP ? n - i : GROUP, row_bytes);
}

/* Each of these has a loop of its own for rows of one number. */
static void mark_rows(const uint8_t *rows, size_t n, size_t row_bytes, uint8_t *bits)
{
    if (row_bytes == 4)
        mark_rows_of(rows, n, 4, bits);
    else if (row_bytes == 8)
        mark_rows_of(rows, n, 8, bits);
    else
        mark_rows_of(rows, n, row_bytes, bits);
}

static size_t count_bits(const uint8_t *bits, size_t n_bytes)
{
    uint64_t word;
    size_t n = 0, i = 0;
    for (; n_bytes - i >= sizeof word; i += sizeof word) {
        memcpy(&word, bits + i, sizeof word);
        n += (size_t)__builtin_popcountll(word);
    }
    for (; i < n_bytes; i++)
        n += (size_t)__builtin_popcount(bits[i]);
    return n;
}

/* Brings the rows that are sent together; where they end. `bits` begins with those of the first. */
INLINE uint8_t *gather_numbers(const uint8_t *from, size_t n, size_t row_bytes, const uint8_t *bits,
                               uint8_t *out)
{
    for (size_t i = 0; i < n; i += GROUP, bits++, from += GROUP * row_bytes) {
        if (*bits == UINT8_MAX) {
            memcpy(out, from, GROUP * row_bytes);
            out += GROUP * row_bytes;
            continue;
        }
        const size_t most = n - i < GROUP ? n - i : GROUP;
        for (size_t k = 0; *bits && k < most; k++) {
            copy_row(out, from + k * row_bytes, row_bytes); /* what is zeros is overwritten */
            out += (*bits >> k & 1U) * row_bytes;
        }
    }
    return out;
}

/* The inverse. */
INLINE void scatter_numbers(const uint8_t *in, size_t n, size_t row_bytes, const uint8_t *bits,
                            uint8_t *to)
{
    for (size_t i = 0; i < n; i += GROUP, bits++, to += GROUP * row_bytes) {
        if (*bits == UINT8_MAX) {
            memcpy(to, in, GROUP * row_bytes);
            in += GROUP * row_bytes;
            continue;
        }
        memset(to, 0, (n - i < GROUP ? n - i : GROUP) * row_bytes);
        for (unsigned left = *bits; left; left &= left - 1, in += row_bytes)
            copy_row(to + (size_t)__builtin_ctz(left) * row_bytes, in, row_bytes);
    }
}

/* The end of the run of rows from `i` on that are all sent, or all not. */
static size_t run_end(const uint8_t *bits, size_t i, size_t end)
{
    const bool sent = has_row(bits, i);
    do
        i++;
    while (i < end && has_row(bits, i) == sent);
    return i;
}

/* `begin` is a multiple of GROUP where rows have one number. */
static uint8_t *gather(const uint8_t *rows, size_t begin, size_t end, size_t row_bytes,
                       const uint8_t *bits, uint8_t *out)
{
    const uint8_t *const from = rows + begin * row_bytes;
    if (row_bytes == 4)
        return gather_numbers(from, end - begin, 4, bits + begin / GROUP, out);
    if (row_bytes == 8)
        return gather_numbers(from, end - begin, 8, bits + begin / GROUP, out);
    for (size_t i = begin, next; i < end; i = next) {
        next = run_end(bits, i, end);
        const size_t bytes = has_row(bits, i) ? (next - i) * row_bytes : 0;
        memcpy(out, rows + i * row_bytes, bytes);
        out += bytes;
    }
    return out;
}

static void scatter(const uint8_t *in, size_t begin, size_t end, size_t row_bytes,
                    const uint8_t *bits, uint8_t *rows)
{
    uint8_t *const to = rows + begin * row_bytes;
    if (row_bytes == 4)
        return scatter_numbers(in, end - begin, 4, bits + begin / GROUP, to);
    if (row_bytes == 8)
        return scatter_numbers(in, end - begin, 8, bits + begin / GROUP, to);
    for (size_t i = begin, next; i < end; i = next) {
        next = run_end(bits, i, end);
        const size_t bytes = (next - i) * row_bytes;
        if (has_row(bits, i)) {
            memcpy(rows + i * row_bytes, in, bytes);
            in += bytes;
        } else {
            memset(rows + i * row_bytes, 0, bytes);
        }
    }
}

/* Rounds the rows that are not zeros: those of a block together, if they fit. */
static uint8_t *put_sparse(struct rounding *rounding, const uint8_t *rows, size_t n, size_t length,
                           const uint8_t *bits, uint8_t *out)
{
    uint8_t block[BLOCK * sizeof(double)];
    const size_t element = element_bytes(rounding->type), row_bytes = length * element;
    const size_t most = length < BLOCK ? BLOCK / length : 1;
    for (size_t i = 0, next; i < n; i = next) {
        next = n - i < most ? n : i + most;
        if (length <= BLOCK) {
            const uint8_t *end = gather(rows, i, next, row_bytes, bits, block);
            out = put_elements(rounding, block, (size_t)(end - block) / element, out);
        } else if (has_row(bits, i)) {
            out = put_elements(rounding, rows + i * row_bytes, length, out);
        }
    }
    return out;
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

/* `exact`: fixed point must change nothing. The bits of rows come behind the first byte of `out`. */
static struct coding choose_coding(const struct filters *filters, const struct filter_shape *shape,
                                   const uint8_t *rows, size_t n, bool exact, uint8_t *out)
{
    struct coding coding = {.row_bytes = shape->length * element_bytes(shape->type)};
    if (filters->zeros) {
        mark_rows(rows, n, coding.row_bytes, out + 1);
        coding.n_zero = n - count_bits(out + 1, (n + 7) / 8);
    }
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
    const uint8_t *const bits = out;
    out += zeros ? n_bits : 0;
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
    const struct coding coding = choose_coding(filters, shape, rows, n, exact, out);
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
    *n_rows = count_bits(bits, (n + 7) / 8);
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
