/*
 * target - see target.h.
 *
 * The cells are filled by two sweeps side by side (after Huebschle-Schneider and Sanders, "Parallel
 * weighted random sampling", 2019). Weights are scaled to a mean of 1, the size of a cell. A light key,
 * below 1, leaves room in its own cell. One sweep goes through the light keys, the other through the
 * heavy ones, and the heavy key at hand fills the cells of light keys until what is left of it fits
 * into its own cell, whose room the next heavy key takes. All that must be remembered is what is left
 * of one key. Rounding may leave a cell too many or too few at the very end; no light key, which may
 * have weight 0, gets more than its own from that.
 */
#include "core/target.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/pages.h"
#include "core/defect.h"

enum { DRAW_BLOCK = 128 }; /* keys whose cells are fetched side by side */

/* ---- Descriptions ------------------------------------------------------------------------------ */

static enum tern_status check_range(const struct tern_target *from, const char *table,
                                    uint64_t last_key)
{
    if (from->begin >= from->end)
        return fail(TERN_INVALID,
                    "table '%s': a target from %" PRIu64 " to before %" PRIu64 " has no keys",
                    table, from->begin, from->end);
    if (!from->keys && from->end - 1 > last_key)
        return fail(TERN_RANGE,
                    "key %" PRIu64 " of a target is outside table '%s' of %" PRIu64 " keys",
                    from->end - 1, table, last_key + 1);
    for (uint64_t i = from->begin; from->keys && i < from->end; i++)
        if (from->keys[i] > last_key)
            return fail(TERN_RANGE,
                        "key %" PRIu64 " at position %" PRIu64
                        " of a target is outside table '%s' of %" PRIu64 " keys",
                        from->keys[i], i, table, last_key + 1);
    return TERN_OK;
}

static enum tern_status check_arrays(const struct tern_target *from, const char *table)
{
    const bool weighted = from->kind == TERN_TARGET_WEIGHTS,
               counted = from->kind == TERN_TARGET_COUNTS;
    if (weighted && !from->weights)
        return fail(TERN_INVALID, "table '%s': the weights of a target are NULL", table);
    if (counted && !from->counts)
        return fail(TERN_INVALID, "table '%s': the counts of a target are NULL", table);
    if ((weighted || counted) && from->end - from->begin > TERN_MAX_WEIGHTS)
        return fail(TERN_LIMIT,
                    "table '%s': a target with weights for %" PRIu64 " keys is above the limit of "
                    "2^32 - 1",
                    table, from->end - from->begin);
    return TERN_OK;
}

static enum tern_status check(const struct tern_target *from, const char *table, uint64_t last_key)
{
    if (from->struct_size != sizeof *from)
        return fail(TERN_INVALID,
                    "table '%s': tern_target.struct_size is %zu; set it to sizeof, which is %zu",
                    table, from->struct_size, sizeof *from);
    if ((unsigned)from->kind > TERN_TARGET_FUNCTION)
        return fail(TERN_INVALID, "table '%s': kind %d of a target is unknown", table,
                    (int)from->kind);
    if (from->pool_keys > TERN_MAX_POOL_KEYS || from->pool_uses > TERN_MAX_POOL_USES)
        return fail(TERN_LIMIT,
                    "table '%s': a pool of %" PRIu32 " keys used %" PRIu32
                    " times is above the limits of %d and %d",
                    table, from->pool_keys, from->pool_uses, TERN_MAX_POOL_KEYS,
                    TERN_MAX_POOL_USES);
    if (from->kind != TERN_TARGET_FUNCTION) {
        enum tern_status status = check_range(from, table, last_key);
        return status ? status : check_arrays(from, table);
    }
    if (!from->function)
        return fail(TERN_INVALID, "table '%s': the function of a target is NULL", table);
    return TERN_OK;
}

/* ---- Weights ----------------------------------------------------------------------------------- */

/* The weights of a description, brought to a mean of 1. */
struct weights {
    const double *weights;
    const uint64_t *counts; /* unless weights are given */
    uint64_t n;
    uint64_t largest; /* the position of the largest: heavy, whatever rounding makes of it */
    double scale;
};

static inline double raw_weight(const struct weights *weights, uint64_t i)
{
    if (weights->weights)
        return weights->weights[i];
    double count = (double)weights->counts[i];
    return sqrt(count * sqrt(count));
}

static inline double weight(const struct weights *weights, uint64_t i)
{
    return raw_weight(weights, i) * weights->scale;
}

static inline bool is_heavy(const struct weights *weights, uint64_t i)
{
    return weight(weights, i) >= 1 || i == weights->largest;
}

/* The first position from i on whose key is heavy, or light; n: none. */
static uint64_t next(const struct weights *weights, uint64_t i, bool heavy)
{
    while (i < weights->n && is_heavy(weights, i) != heavy)
        i++;
    return i;
}

/* The sum of the weights in units of the largest, with the rounding errors of the additions added back
 * (Kahan): over 10^8 keys they would amount to a cell. */
static double relative_sum(const struct weights *weights, double largest)
{
    double sum = 0, lost = 0;
    for (uint64_t i = 0; i < weights->n; i++) {
        double term = raw_weight(weights, i) / largest - lost;
        double more = sum + term;
        lost = (more - sum) - term;
        sum = more;
    }
    return sum;
}

/* Finds largest and scale, or what is wrong. */
static enum tern_status measure(struct weights *weights, const struct target *target)
{
    double largest = 0;
    for (uint64_t i = 0; i < weights->n; i++) {
        double w = raw_weight(weights, i);
        if (!(w >= 0) || isinf(w))
            return fail(TERN_INVALID,
                        "table '%s': the weight of key %" PRIu64
                        " is %g; weights are finite and not negative",
                        target->table, target_key(target, i), w);
        if (w > largest) {
            largest = w;
            weights->largest = i;
        }
    }
    if (!(largest > 0))
        return fail(TERN_INVALID, "table '%s': all %" PRIu64 " weights of a target are 0",
                    target->table, weights->n);
    double sum = relative_sum(weights, largest);
    weights->scale = (double)weights->n / sum / largest;
    if (isinf(weights->scale))
        return fail(TERN_INVALID, "table '%s': the largest weight of a target, %g, is too small",
                    target->table, largest);
    return TERN_OK;
}

static struct alias cell(double own, uint64_t other)
{
    uint32_t threshold = own >= 1 ? UINT32_MAX : own > 0 ? (uint32_t)(own * 0x1p32) : 0;
    return (struct alias){.threshold = threshold, .other = (uint32_t)other};
}

static void fill_cells(const struct weights *weights, struct alias *cells)
{
    uint64_t light = next(weights, 0, false), heavy = next(weights, 0, true), last = heavy;
    double left = weight(weights, heavy);
    while (heavy < weights->n) {
        if (left > 1 && light < weights->n) {
            cells[light] = cell(weight(weights, light), heavy);
            left -= 1 - weight(weights, light);
            light = next(weights, light + 1, false);
            continue;
        }
        uint64_t successor = next(weights, heavy + 1, true);
        bool shared = left < 1 && successor < weights->n;
        cells[heavy] = shared ? cell(left, successor) : cell(1, heavy);
        last = heavy;
        heavy = successor;
        if (heavy < weights->n)
            left = weight(weights, heavy) - (shared ? 1 - left : 0);
    }
    for (; light < weights->n; light = next(weights, light + 1, false))
        cells[light] = cell(weight(weights, light), last);
}

static enum tern_status make_cells(struct target *target, const struct tern_target *from)
{
    struct weights weights = {.n = target->n};
    if (from->kind == TERN_TARGET_WEIGHTS)
        weights.weights = from->weights;
    else
        weights.counts = from->counts;
    enum tern_status status = measure(&weights, target);
    if (status)
        return status;
    target->cells = pages_new(target->n * sizeof *target->cells);
    if (!target->cells)
        return fail(TERN_NO_MEMORY, "table '%s': no memory for the %" PRIu64 " weights of a target",
                    target->table, target->n);
    fill_cells(&weights, target->cells);
    return TERN_OK;
}

/* ---- Targets ----------------------------------------------------------------------------------- */

static enum tern_status copy_keys(struct target *target, const uint64_t *keys)
{
    target->keys = pages_new(target->n * sizeof *keys);
    if (!target->keys)
        return fail(TERN_NO_MEMORY, "table '%s': no memory for the %" PRIu64 " keys of a target",
                    target->table, target->n);
    memcpy(target->keys, keys, target->n * sizeof *keys);
    return TERN_OK;
}

enum tern_status target_init(struct target *target, const struct tern_target *from,
                             const char *table, uint64_t last_key)
{
    enum tern_status status = check(from, table, last_key);
    if (status)
        return status;
    *target = (struct target){.last_key = last_key, .table = table};
    if (from->kind == TERN_TARGET_FUNCTION) {
        target->function = from->function;
        target->context = from->context;
        return TERN_OK;
    }
    target->begin = from->begin;
    target->n = from->end - from->begin;
    if (from->keys)
        status = copy_keys(target, from->keys + from->begin);
    if (!status && from->kind != TERN_TARGET_UNIFORM)
        status = make_cells(target, from);
    if (status)
        target_fini(target);
    return status;
}

void target_fini(struct target *target)
{
    pages_free(target->keys, target->n * sizeof *target->keys);
    pages_free(target->cells, target->n * sizeof *target->cells);
}

/* ---- Draws ------------------------------------------------------------------------------------- */

static void draw_uniform(const struct target *target, struct stream *stream, uint64_t *positions,
                         size_t n)
{
    const struct stream from = *stream; /* a copy, which the positions cannot overlap */
    const uint64_t n_keys = target->n + (defect(DEFECT_DRAWN_BESIDE) && !target->keys);
    for (size_t i = 0; i < n; i++)
        positions[i] = rand_below(rand_at(from.name, from.at + i), n_keys);
    stream->at += n;
}

/* The cells of a block are fetched side by side, then read. */
static void draw_weighted(const struct target *target, struct stream *stream, uint64_t *positions,
                          size_t n)
{
    const struct alias *cells = target->cells;
    const struct stream from = *stream;
    uint32_t within[DRAW_BLOCK];
    for (size_t i = 0; i < n; i++) {
        unsigned __int128 scaled = (unsigned __int128)rand_at(from.name, from.at + i) * target->n;
        positions[i] = (uint64_t)(scaled >> 64);
        within[i] = (uint32_t)((uint64_t)scaled >> 32);
        __builtin_prefetch(&cells[positions[i]]);
    }
    for (size_t i = 0; i < n; i++) {
        struct alias here = cells[positions[i]];
        positions[i] = within[i] < here.threshold ? positions[i] : here.other;
    }
    stream->at += n;
}

static void turn_into_keys(const struct target *target, uint64_t *positions, size_t n)
{
    if (!target->keys) {
        for (size_t i = 0; i < n; i++)
            positions[i] += target->begin;
        return;
    }
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(&target->keys[positions[i]]);
    for (size_t i = 0; i < n; i++)
        positions[i] = target->keys[positions[i]];
}

static enum tern_status draw_by_function(const struct target *target, struct stream *stream,
                                         uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        keys[i] = target->function(target->context, stream_next(stream));
        if (keys[i] > target->last_key)
            return fail(TERN_RANGE,
                        "the function of a target drew key %" PRIu64
                        ", which is outside table '%s' of %" PRIu64 " keys",
                        keys[i], target->table, target->last_key + 1);
    }
    return TERN_OK;
}

enum tern_status target_draw(const struct target *target, struct stream *stream, uint64_t *keys,
                             size_t n)
{
    if (target->function)
        return draw_by_function(target, stream, keys, n);
    for (size_t done = 0, block; done < n; done += block) {
        block = n - done < DRAW_BLOCK ? n - done : DRAW_BLOCK;
        (target->cells ? draw_weighted : draw_uniform)(target, stream, keys + done, block);
        turn_into_keys(target, keys + done, block);
    }
    return TERN_OK;
}
