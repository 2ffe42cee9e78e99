/* table_options - checks of a table's name and options, by themselves and against a table that is open. See node.h. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/technique.h"
#include "node/node.h"
#include "store/evict.h"

enum tern_status table_check_name(const char *name)
{
    if (!name)
        return fail(TERN_INVALID, "the table's name is NULL");
    size_t length = strnlen(name, TERN_MAX_NAME + 1);
    if (length == 0)
        return fail(TERN_INVALID, "the table's name is empty");
    if (length > TERN_MAX_NAME)
        return fail(TERN_LIMIT, "the table's name '%.20s...' is longer than %d characters", name,
                    TERN_MAX_NAME);
    return TERN_OK;
}

static enum tern_status check_updater(const char *name, const struct tern_updater *updater,
                                      enum tern_type type, uint32_t length)
{
    if (!updater->apply) {
        if (updater->name || updater->state_per_element || updater->state_per_row)
            return fail(TERN_INVALID, "table '%s': updater '%s' has no apply function", name,
                        updater->name ? updater->name : "");
        return TERN_OK;
    }
    if (!updater->name || !updater->name[0] || strnlen(updater->name, 32) > 31)
        return fail(TERN_INVALID, "table '%s': updater.name must have 1 to 31 characters", name);
    if (updater->length_multiple && length % updater->length_multiple)
        return fail(TERN_INVALID,
                    "table '%s': the length of rows with updater '%s' is a multiple of %" PRIu32
                    ", not %" PRIu32,
                    name, updater->name, updater->length_multiple, length);
    const char *wrong = updater->check ? updater->check(updater, type) : NULL;
    if (wrong)
        return fail(TERN_INVALID, "table '%s': updater '%s': %s", name, updater->name, wrong);
    return TERN_OK;
}

/* The bytes of one value with its updater's state. */
static enum tern_status check_size(const char *name, const struct tern_table_options *options)
{
    const struct tern_updater *updater = &options->updater;
    double elements = (double)options->length * (1 + (double)updater->state_per_element) +
                      (double)updater->state_per_row;
    if (elements * (double)type_bytes(options->type) > TERN_MAX_VALUE_BYTES)
        return fail(TERN_LIMIT,
                    "table '%s': a value of %" PRIu32 " elements takes more than %d bytes with its "
                    "updater's state",
                    name, options->length, TERN_MAX_VALUE_BYTES);
    return TERN_OK;
}

/* The policy asked for, and what goes with it. */
static enum tern_status check_policy(const char *name, const struct tern_table_options *options)
{
    struct policy policy;
    if (!policy_find(options->policy, &policy) && policy_takes_number(options->policy))
        return fail(
            TERN_INVALID,
            "table '%s': policy '%.40s' needs a number behind a colon, as in ssp:2, essp:2, "
            "vap:0.5 and graph:100",
            name, options->policy);
    if (!policy_find(options->policy, &policy))
        return fail(TERN_INVALID, "table '%s': there is no policy '%.40s'; there are: %s", name,
                    options->policy, policy_names());
    return technique_check(&policy, name, options);
}

/* What `admit` and `expected_keys` say. */
static enum tern_status check_admission(const char *name, const struct tern_table_options *options)
{
    struct policy policy;
    if (!options->admit)
        return options->expected_keys
                   ? fail(TERN_INVALID, "table '%s': expected_keys is for tables with `admit`",
                          name)
                   : TERN_OK;
    if (options->index != TERN_SPARSE)
        return fail(TERN_INVALID,
                    "table '%s': `admit` is for sparse tables; every key of a dense one has a row",
                    name);
    if (options->admit > ADMISSION_MOST)
        return fail(TERN_LIMIT, "table '%s': `admit` is %" PRIu32 "; at most %d is possible", name,
                    options->admit, ADMISSION_MOST);
    if (options->expected_keys > TERN_MAX_EXPECTED_KEYS)
        return fail(TERN_LIMIT, "table '%s': expected_keys %" PRIu64 " is above the limit of 2^40",
                    name, options->expected_keys);
    if (policy_find(options->policy, &policy) &&
        technique_find(&policy, false)->rows == ROWS_EVERYWHERE)
        return fail(TERN_INVALID,
                    "table '%s': `admit` cannot be combined with policy '%s', under which every "
                    "node makes rows of its own",
                    name, policy.name);
    return TERN_OK;
}

/* What the rules of eviction say; where rows can leave is checked when the table is opened. */
static enum tern_status check_eviction(const char *name, const struct tern_table_options *options)
{
    if (!evict_has_rule(options))
        return TERN_OK;
    if (options->index != TERN_SPARSE)
        return fail(TERN_INVALID,
                    "table '%s': evict_age, evict_at_limit and evict_floor are for sparse tables",
                    name);
    if (options->evict_age > INT32_MAX)
        return fail(TERN_LIMIT, "table '%s': evict_age is %" PRIu32 "; at most %d is possible",
                    name, options->evict_age, INT32_MAX);
    if (options->evict_at_limit && !options->memory_limit_bytes)
        return fail(TERN_INVALID, "table '%s': evict_at_limit needs memory_limit_bytes", name);
    if (options->evict_at_limit && options->memory_limit_bytes < TERN_MIN_EVICT_BYTES)
        return fail(TERN_INVALID,
                    "table '%s': memory_limit_bytes %" PRIu64
                    " is below one slab of rows, %d bytes, which evict_at_limit needs",
                    name, options->memory_limit_bytes, TERN_MIN_EVICT_BYTES);
    return TERN_OK;
}

/* Whether a share of a sketch's error makes sense, unless the size is given. */
static bool is_share(double share)
{
    return share > 0 && share < 1;
}

/* What the options of a sketch say about its size. */
static enum tern_status check_sketch_size(const char *name, const struct tern_sketch *sketch)
{
    if (!sketch->width && !is_share(sketch->epsilon))
        return fail(TERN_INVALID,
                    "table '%s': sketch.epsilon is %g; without a width it must be above 0 and "
                    "below 1",
                    name, sketch->epsilon);
    if (!sketch->depth && !is_share(sketch->delta))
        return fail(
            TERN_INVALID,
            "table '%s': sketch.delta is %g; without a depth it must be above 0 and below 1", name,
            sketch->delta);
    if ((sketch->width && sketch->epsilon != 0) || (sketch->depth && sketch->delta != 0))
        return fail(
            TERN_INVALID,
            "table '%s': give the sketch a width or epsilon, and a depth or delta, not both", name);
    if ((sketch->width ? (double)sketch->width : exp(1) / sketch->epsilon) >
            (double)TERN_MAX_SKETCH_WIDTH ||
        sketch->counters > TERN_MAX_SKETCH_COUNTERS)
        return fail(TERN_LIMIT,
                    "table '%s': a sketch has at most 2^40 cells in a row and %d counters", name,
                    TERN_MAX_SKETCH_COUNTERS);
    if (sketch_depth(sketch) > TERN_MAX_SKETCH_DEPTH)
        return fail(TERN_LIMIT, "table '%s': a sketch has at most %d rows, not %" PRIu32, name,
                    TERN_MAX_SKETCH_DEPTH, sketch_depth(sketch));
    return TERN_OK;
}

/* What is said of a sketch, in the options of one or of another table. */
static enum tern_status check_sketch(const char *name, const struct tern_table_options *options)
{
    const struct tern_sketch *sketch = &options->sketch;
    if (options->index != TERN_SKETCH)
        return sketch->width || sketch->depth || sketch->counters || sketch->epsilon != 0 ||
                       sketch->delta != 0 || sketch->conservative || sketch->seed
                   ? fail(TERN_INVALID, "table '%s': `sketch` is for tables with index TERN_SKETCH",
                          name)
                   : TERN_OK;
    if ((options->type != TERN_I32 && options->type != TERN_I64) || options->length != 1)
        return fail(TERN_INVALID, "table '%s': a sketch has type i32 or i64 and length 1", name);
    if (options->updater.apply || options->init.kind != TERN_INIT_ZERO)
        return fail(TERN_INVALID,
                    "table '%s': a sketch adds, and begins with 0; it has neither "
                    "updater nor initializer",
                    name);
    return check_sketch_size(name, sketch);
}

static enum tern_status check_recovery(const char *name, const struct tern_table_options *options)
{
    if (!options->recover || options->backups)
        return TERN_OK;
    return fail(TERN_INVALID, "table '%s': `recover` is for tables with `backups`", name);
}

enum tern_status table_check_options(const char *name, const struct tern_table_options *options)
{
    if (!options)
        return fail(TERN_INVALID, "table '%s': the options are NULL", name);
    if (options->struct_size != sizeof *options)
        return fail(
            TERN_INVALID,
            "table '%s': tern_table_options.struct_size is %zu; set it to sizeof, which is %zu",
            name, options->struct_size, sizeof *options);
    if ((unsigned)options->index > TERN_SKETCH)
        return fail(TERN_INVALID, "table '%s': index %d is unknown", name, (int)options->index);
    if ((unsigned)options->type > TERN_I64)
        return fail(TERN_INVALID, "table '%s': type %d is unknown", name, (int)options->type);
    if (!options->length)
        return fail(TERN_INVALID, "table '%s': length is 0", name);
    if (options->index == TERN_DENSE && !options->n_keys)
        return fail(TERN_INVALID, "table '%s': a dense table needs n_keys", name);
    if (options->index != TERN_DENSE && options->n_keys)
        return fail(TERN_INVALID,
                    "table '%s': n_keys of a table that is not dense must be 0, not %" PRIu64, name,
                    options->n_keys);
    if (options->n_keys > TERN_MAX_DENSE_KEYS)
        return fail(TERN_LIMIT, "table '%s': n_keys %" PRIu64 " is above the limit of 2^40", name,
                    options->n_keys);
    struct filters filters;
    enum tern_status status = check_policy(name, options);
    if (!status)
        status = filters_parse(name, options->filters, options->type, &filters);
    if (!status && options->index == TERN_SKETCH && filters_rows(&filters))
        status =
            fail(TERN_INVALID, "table '%s': a sketch has no rows that filters could shorten", name);
    if (!status)
        status = check_admission(name, options);
    if (!status)
        status = check_eviction(name, options);
    if (!status)
        status = check_sketch(name, options);
    if (!status)
        status = check_recovery(name, options);
    if (!status)
        status = check_size(name, options);
    if (!status)
        status = check_updater(name, &options->updater, options->type, options->length);
    if (!status)
        status = init_check(&options->init, options->type, name);
    return status;
}

static bool same_init(const struct tern_init *a, const struct tern_init *b)
{
    return a->kind == b->kind && a->seed == b->seed && a->a == b->a && a->b == b->b &&
           a->function == b->function && a->context == b->context;
}

static bool same_updater(const struct tern_updater *a, const struct tern_updater *b)
{
    return !a->name == !b->name && (!a->name || !strcmp(a->name, b->name)) &&
           a->apply == b->apply && a->state_per_element == b->state_per_element &&
           a->state_per_row == b->state_per_row &&
           !memcmp(a->parameters, b->parameters, sizeof a->parameters) && a->context == b->context;
}

static bool same_freshness(const struct tern_table_options *a, const struct tern_table_options *b)
{
    return a->staleness_ms == b->staleness_ms && a->rare_staleness_ms == b->rare_staleness_ms &&
           a->max_rounds_per_s == b->max_rounds_per_s;
}

static bool same_sketch(const struct tern_sketch *a, const struct tern_sketch *b)
{
    return a->width == b->width && a->depth == b->depth && a->counters == b->counters &&
           a->epsilon == b->epsilon && a->delta == b->delta && a->conservative == b->conservative &&
           a->seed == b->seed;
}

enum tern_status table_check_same(const struct tern_table *table,
                                  const struct tern_table_options *now)
{
    const struct tern_table_options *then = &table->options;
    const char *name = table->core.store.name;
    static const char *const index_names[] = {"dense", "sparse", "sketch"};
    if (then->index != now->index)
        return fail(TERN_MISMATCH, "table '%s' is open with another index: %s, not %s", name,
                    index_names[then->index], index_names[now->index]);
    if (then->type != now->type)
        return fail(TERN_MISMATCH, "table '%s' is open with another type: %d, not %d", name,
                    (int)then->type, (int)now->type);
    if (then->length != now->length)
        return fail(TERN_MISMATCH, "table '%s' is open with length %" PRIu32 ", not %" PRIu32, name,
                    then->length, now->length);
    if (then->n_keys != now->n_keys)
        return fail(TERN_MISMATCH, "table '%s' is open with n_keys %" PRIu64 ", not %" PRIu64, name,
                    then->n_keys, now->n_keys);
    if (!same_init(&then->init, &now->init))
        return fail(TERN_MISMATCH, "table '%s' is open with another init", name);
    if (!same_updater(&then->updater, &now->updater))
        return fail(TERN_MISMATCH, "table '%s' is open with another updater: '%s'", name,
                    then->updater.name ? then->updater.name : "add");
    struct policy policy;
    if (!policy_find(now->policy, &policy) || strcmp(policy.name, table->policy.name) != 0)
        return fail(TERN_MISMATCH, "table '%s' is open with policy '%s'", name, table->policy.name);
    if (then->admit != now->admit || then->expected_keys != now->expected_keys)
        return fail(TERN_MISMATCH,
                    "table '%s' is open with admit %" PRIu32 " and expected_keys %" PRIu64, name,
                    then->admit, then->expected_keys);
    if (then->evict_age != now->evict_age || then->evict_at_limit != now->evict_at_limit ||
        then->evict_floor != now->evict_floor)
        return fail(TERN_MISMATCH,
                    "table '%s' is open with evict_age %" PRIu32 ", evict_at_limit %d and "
                    "evict_floor %" PRIu64,
                    name, then->evict_age, (int)then->evict_at_limit, then->evict_floor);
    if (then->backups != now->backups)
        return fail(TERN_MISMATCH, "table '%s' is open with backups %" PRIu32, name, then->backups);
    if (!same_sketch(&then->sketch, &now->sketch))
        return fail(TERN_MISMATCH, "table '%s' is open as a sketch of another size", name);
    if (!same_freshness(then, now))
        return fail(TERN_MISMATCH,
                    "table '%s' is open with staleness_ms %" PRIu32 ", rare_staleness_ms %" PRIu32
                    " and max_rounds_per_s %" PRIu32,
                    name, then->staleness_ms, then->rare_staleness_ms, then->max_rounds_per_s);
    if (table->placement_digest != placed_digest(now))
        return fail(TERN_MISMATCH, "table '%s' is open with another placement", name);
    struct filters filters;
    char filters_then[FILTERS_TEXT_BYTES], filters_now[FILTERS_TEXT_BYTES] = "";
    filters_text(&table->core.filters, filters_then);
    if (!filters_parse(name, now->filters, now->type, &filters))
        filters_text(&filters, filters_now);
    if (strcmp(filters_then, filters_now) != 0)
        return fail(TERN_MISMATCH, "table '%s' is open with filters '%s'", name, filters_then);
    if (then->memory_limit_bytes != now->memory_limit_bytes)
        return fail(TERN_MISMATCH, "table '%s' is open with memory_limit_bytes %" PRIu64, name,
                    then->memory_limit_bytes);
    return TERN_OK;
}
