/* check - see check.h. */
#include "sim/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/rows.h"

enum { N_COUNTS = LAST_VALUES, MAX_LENGTH = TERN_SIM_MAX_NODES * 2 * WINDOW };

bool check_init(struct check *check, uint32_t n_nodes, uint32_t n_workers, bool are_backed,
                uint64_t seed)
{
    *check = (struct check){.n_workers = n_workers};
    tables_choose(&check->tables, n_nodes, n_workers, are_backed, seed);
    const size_t n_tallies = (size_t)N_COUNTS * KEYS * check->tables.length;
    check->tallies = calloc(n_tallies, sizeof *check->tallies);
    check->seen = calloc(n_workers * n_tallies, sizeof *check->seen);
    check->seen_values = calloc((size_t)n_workers * KEYS, sizeof *check->seen_values);
    check->gone = calloc(n_workers, sizeof *check->gone);
    check->swept = calloc((size_t)KEYS * check->tables.length, sizeof *check->swept);
    if (check->tables.recovers)
        check->saved = calloc(N_SIM_TABLES, sizeof *check->saved);
    return (check->saved || !check->tables.recovers) && check->tallies && check->swept &&
           check->seen && check->seen_values && check->gone;
}

void check_fini(struct check *check)
{
    for (int table = 0; table < N_SIM_TABLES; table++)
        for (uint32_t i = 0; i < KEYS; i++) {
            free(check->promises[table][i].all);
            free(check->saved ? check->saved[table][i].row : NULL);
            free(check->saved ? check->saved[table][i].started : NULL);
        }
    free(check->saved);
    free(check->tallies);
    free(check->seen);
    free(check->seen_values);
    free(check->gone);
    free(check->swept);
}

void check_that(struct check *check, bool holds, const char *format, ...)
{
    check->n_checks++;
    if (holds || check->n_violations++)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(check->violation, sizeof check->violation, format, arguments);
    va_end(arguments);
}

/* What the elements of a row were before anybody wrote to them. */
static void initial_row(const struct check *check, enum sim_table table, uint32_t index,
                        int64_t *row)
{
    struct tern_table_options options = tables_options(&check->tables, table);
    init_value(&options.init, options.type, table_key(table, index), options.length, row);
}

static struct tally *tallies_of(struct check *check, enum sim_table table, uint32_t index)
{
    return &check->tallies[((size_t)table * KEYS + index) * check->tables.length];
}

static uint32_t *seen_by(struct check *check, uint32_t worker, enum sim_table table, uint32_t index)
{
    return &check
                ->seen[(((size_t)worker * N_COUNTS + table) * KEYS + index) * check->tables.length];
}

static int64_t *seen_value_by(struct check *check, uint32_t worker, uint32_t index)
{
    return &check->seen_values[(size_t)worker * KEYS + index];
}

/* What rows of a key had that were removed; NULL: none was. */
static const int64_t *swept_of(const struct check *check, enum sim_table table, uint32_t index)
{
    return table == SPARSE_COUNTS && check->tables.has_sweeps
               ? &check->swept[(size_t)index * check->tables.length]
               : NULL;
}

static bool is_sketch(const struct check *check, enum sim_table table)
{
    return table == SPARSE_COUNTS && check->tables.is_sketch;
}

static bool is_own(const struct operation *operation, uint32_t element)
{
    return element / WINDOW == operation->worker;
}

/* ---- Writes ----------------------------------------------------------------------------------- */

/* To which an operation adds 1. */
static uint32_t element_of(const struct check *check, const struct operation *operation)
{
    return is_sketch(check, operation->table)
               ? 0
               : operation->worker * WINDOW + operation->number % WINDOW;
}

void check_fill(const struct check *check, const struct operation *operation)
{
    const uint32_t element = element_of(check, operation);
    const uint32_t length = tables_length(&check->tables, operation->table);
    const double weight = tables_weight(element);
    for (size_t i = 0; i < operation->n; i++)
        for (uint32_t e = 0; e < length; e++)
            operation->values[i * length + e] = e == element;
    for (size_t i = 0; tables_real(&check->tables, operation->table) && i < operation->n; i++)
        memcpy(&operation->values[i * length + element], &weight, sizeof weight);
}

/* How often 1 was added to an element of a row; a number that no additions give is -1. */
static int64_t count_in(const struct check *check, enum sim_table table, const int64_t *row,
                        const int64_t *initial, uint32_t element)
{
    double real;
    if (!tables_real(&check->tables, table))
        return (int64_t)((uint64_t)row[element] - (uint64_t)initial[element]);
    memcpy(&real, &row[element], sizeof real);
    real /= tables_weight(element);
    return real >= 0 && real < UINT32_MAX && real == floor(real) ? (int64_t)real : -1;
}

static void write_count(struct check *check, const struct operation *operation, size_t i)
{
    const uint32_t element = element_of(check, operation);
    struct tally *tally = &tallies_of(check, operation->table, operation->indexes[i])[element];
    tally->started++;
    tally->last_op = operation->number;
    if (tables_bounded(&check->tables, operation->table))
        check_that(check,
                   promise_note(&check->promises[operation->table][operation->indexes[i]], element,
                                operation->clock),
                   "no memory for what was promised");
}

/* How often an operation adds to a key. */
static int64_t additions_to(const struct operation *operation, uint32_t index)
{
    int64_t n = 0;
    for (size_t i = 0; i < operation->n; i++)
        n += operation->indexes[i] == index;
    return n;
}

/* The updates of a worker that a node does not show, with the one that begins: at most the bound, or that one alone. */
static void check_unseen(struct check *check, const struct operation *operation, uint32_t node,
                         uint32_t index, double bound)
{
    int64_t row[MAX_LENGTH], initial[MAX_LENGTH];
    if (!promise_shown(check->limited[node], table_key(operation->table, index), row))
        return;
    const struct tally *tallies = tallies_of(check, operation->table, index);
    initial_row(check, operation->table, index, initial);
    for (uint32_t e = operation->worker * WINDOW; e < (operation->worker + 1) * WINDOW; e++) {
        const int64_t own = e == element_of(check, operation) ? additions_to(operation, index) : 0;
        const int64_t unseen = tallies[e].started - (row[e] - initial[e]);
        check_that(check, (double)unseen <= bound || unseen <= own,
                   "operation %" PRIu32 " of worker %" PRIu32 " begins while node %" PRIu32
                   " has not seen %" PRId64 " of its additions to element %" PRIu32
                   " of key %" PRIu32 " of table '%s', more than %g",
                   operation->number, operation->worker, node, unseen, e, index,
                   table_name(operation->table), bound);
    }
}

/* When a worker begins to write to a table that is bounded by value. */
static void check_all_unseen(struct check *check, const struct operation *operation)
{
    const struct policy *policy = &check->tables.policies[operation->table];
    if (policy->bound != BOUND_VALUE || check->restarted)
        return;
    double bound =
        policy->shrinks ? policy->value / sqrt(1 + (double)operation->clock) : policy->value;
    for (uint32_t node = 0; node < check->n_workers / 2 && !check->gone[operation->worker]; node++)
        for (uint32_t i = 0; check->limited[node] && !check->gone[2 * node] && i < KEYS; i++)
            check_unseen(check, operation, node, i, bound);
}

static void write_value(struct check *check, const struct operation *operation, size_t i, bool set)
{
    struct value *value = &check->values[operation->indexes[i]];
    int64_t now = set ? (value->started / SET_STEP + 1) * SET_STEP : value->started + 1;
    int64_t *row = operation->values + i * check->tables.last_length;
    for (uint32_t e = 0; e < check->tables.last_length; e++)
        row[e] = set ? now : 1;
    value->started = now;
    operation->bounds[i] = now;
}

void check_write(struct check *check, const struct operation *operation, bool set)
{
    for (size_t i = 0; i < operation->n; i++) {
        if (operation->table == LAST_VALUES)
            write_value(check, operation, i, set);
        else
            write_count(check, operation, i);
    }
    check_all_unseen(check, operation);
}

void check_written(struct check *check, const struct operation *operation, bool confirmed)
{
    const uint32_t element = element_of(check, operation);
    confirmed &= !check->gone[operation->worker];
    for (size_t i = 0; i < operation->n; i++) {
        struct value *value = &check->values[operation->indexes[i]];
        bool at_main = confirmed && operation->copies[i] == USED_MAIN;
        if (operation->table != LAST_VALUES) {
            struct tally *tally =
                &tallies_of(check, operation->table, operation->indexes[i])[element];
            tally->confirmed += at_main;
            tally->safe += at_main && operation->was_away[i];
        } else if (!confirmed)
            value->unknown = true;
        else if (at_main && value->confirmed < operation->bounds[i])
            value->confirmed = operation->bounds[i];
    }
}

/* ---- Crashes ---------------------------------------------------------------------------------- */

void check_safe(struct check *check, uint32_t worker)
{
    for (int table = 0; !check->gone[worker] && table < N_COUNTS; table++)
        for (uint32_t i = 0; i < KEYS; i++)
            for (uint32_t e = worker * WINDOW; e < (worker + 1) * WINDOW; e++) {
                struct tally *tally = &tallies_of(check, (enum sim_table)table, i)[e];
                tally->safe = tally->confirmed = tally->started;
            }
}

void check_gone(struct check *check, uint32_t worker)
{
    check->gone[worker] = true;
    for (int table = 0; table < N_COUNTS; table++)
        for (uint32_t i = 0; i < KEYS; i++)
            for (uint32_t e = worker * WINDOW; e < (worker + 1) * WINDOW; e++) {
                struct tally *tally = &tallies_of(check, (enum sim_table)table, i)[e];
                tally->confirmed = tally->safe;
            }
    for (uint32_t i = worker; i < KEYS; i += check->n_workers)
        check->values[i].unknown = true;
}

/* ---- Reads ------------------------------------------------------------------------------------ */

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Whether a pull must return all that its worker has done to an element, and no more. */
static bool is_exact(const struct check *check, const struct operation *operation, size_t i,
                     uint32_t element)
{
    bool gathered =
        tables_updated(&check->tables, operation->table) && operation->copies[i] != USED_MAIN;
    return is_own(operation, element) && !check->lenient && !gathered &&
           !tables_forgets(&check->tables, operation->table);
}

static int64_t least_count(const struct check *check, const struct operation *operation, size_t i,
                           const struct tally *tally, uint32_t element, uint32_t seen)
{
    if (is_exact(check, operation, i, element))
        return tally->started;
    if (tables_tracked(&check->tables, operation->table))
        return check->tables.are_backed ? 0 : seen;
    if (operation->copies[i] == USED_MAIN)
        return check->tables.are_backed ? tally->confirmed : most(tally->confirmed, seen);
    /* What an updater has made of a push may be too new for a replica. */
    if (tables_counted(&check->tables, operation->table))
        return 0;
    return is_own(operation, element) && !check->lenient ? tally->confirmed : 0;
}

/* What a read at another node must show is safe: a home has told the clock. */
static void note_told(struct check *check, const struct operation *operation, struct tally *tallies,
                      const int64_t *promised)
{
    enum { PER_NODE = 2 }; /* workers */
    for (uint32_t e = 0; e < check->tables.length; e++) {
        const uint32_t writer = e / WINDOW;
        if (!check->gone[writer] && !check->gone[operation->worker] &&
            writer / PER_NODE != operation->worker / PER_NODE)
            tallies[e].safe = (uint32_t)most(tallies[e].safe, promised[e]);
    }
}

static void bound_counts(struct check *check, const struct operation *operation, size_t i)
{
    struct tally *tallies = tallies_of(check, operation->table, operation->indexes[i]);
    const uint32_t *seen =
        seen_by(check, operation->worker, operation->table, operation->indexes[i]);
    const uint32_t length = tables_length(&check->tables, operation->table);
    int64_t *bounds = operation->bounds + i * length;
    int64_t promised[MAX_LENGTH] = {0};
    if (tables_bounded(&check->tables, operation->table) && !check->restarted)
        promise_count(&check->promises[operation->table][operation->indexes[i]],
                      &check->tables.policies[operation->table], operation->clock,
                      check->tables.length, promised);
    if (tables_bounded(&check->tables, operation->table) && check->tables.are_backed)
        note_told(check, operation, tallies, promised);
    for (uint32_t e = 0; e < length; e++)
        bounds[e] = most(least_count(check, operation, i, &tallies[e], e, seen[e]), promised[e]);
}

static int64_t least_value(struct check *check, const struct operation *operation, size_t i)
{
    const uint32_t index = operation->indexes[i];
    const struct value *value = &check->values[index];
    if (check_writer(check, index) == operation->worker && !check->lenient)
        return value->started;
    if (check->tables.are_backed)
        return operation->copies[i] == USED_MAIN ? value->confirmed : 0;
    return operation->copies[i] == USED_MAIN
               ? most(value->confirmed, *seen_value_by(check, operation->worker, index))
               : 0;
}

void check_read(struct check *check, const struct operation *operation)
{
    for (size_t i = 0; i < operation->n; i++) {
        if (operation->table == LAST_VALUES)
            operation->bounds[i] = least_value(check, operation, i);
        else
            bound_counts(check, operation, i);
    }
}

void check_swept(struct check *check, uint32_t index, const void *value)
{
    const int64_t *row = value;
    for (uint32_t e = 0; e < check->tables.length; e++)
        check->swept[(size_t)index * check->tables.length + e] += row[e];
}

/* Lowers what an element must have by what rows had that were removed, and by pushes that were dropped, of which *dropped are
 * left. */
static int64_t forgive(int64_t least, int64_t count, const int64_t *swept, uint32_t element,
                       int64_t *dropped)
{
    least -= swept ? swept[element] : 0;
    const int64_t lacks = least > count ? least - count : 0;
    const int64_t forgiven = lacks < *dropped ? lacks : *dropped;
    *dropped -= forgiven;
    return least - forgiven;
}

static void seen_counts(struct check *check, const struct operation *operation, size_t i,
                        bool exact)
{
    const uint32_t index = operation->indexes[i];
    const struct tally *tallies = tallies_of(check, operation->table, index);
    uint32_t *seen = seen_by(check, operation->worker, operation->table, index);
    int64_t initial[MAX_LENGTH];
    const uint32_t length = tables_length(&check->tables, operation->table);
    const int64_t *swept = swept_of(check, operation->table, index);
    int64_t dropped = tables_dropped(&check->tables, operation->table);
    initial_row(check, operation->table, index, initial);
    for (uint32_t e = 0; e < length; e++) {
        const size_t at = i * length + e;
        const int64_t count =
            count_in(check, operation->table, operation->values + i * length, initial, e);
        const bool own = is_exact(check, operation, i, e);
        int64_t least = own || operation->copies[i] != USED_EITHER ? operation->bounds[at] : 0;
        if (check->gone[e / WINDOW] && least > tallies[e].confirmed)
            least = tallies[e].confirmed;
        least = forgive(least, count, swept, e, &dropped);
        const int64_t greatest = own && exact ? operation->bounds[at] : tallies[e].started;
        check_that(check, count >= least && count <= greatest,
                   "operation %" PRIu32 " of worker %" PRIu32 " read %" PRId64
                   " additions in element %" PRIu32 " of key %" PRIu32
                   " of table '%s', not %" PRId64 " to %" PRId64 "; worker %" PRIu32
                   " wrote there last in its operation %" PRIu32,
                   operation->number, operation->worker, count, e, index,
                   table_name(operation->table), least, greatest, e / WINDOW, tallies[e].last_op);
        bool grows =
            operation->copies[i] == USED_MAIN || tables_tracked(&check->tables, operation->table);
        if (grows && count > seen[e] && count <= tallies[e].started)
            seen[e] = (uint32_t)count;
    }
}

static bool is_uniform(const int64_t *row, size_t n)
{
    int64_t differs = 0;
    for (size_t i = 1; i < n; i++)
        differs |= row[i] ^ row[0];
    return differs == 0;
}

static void seen_value(struct check *check, const struct operation *operation, size_t i, bool exact)
{
    const uint32_t index = operation->indexes[i];
    const struct value *value = &check->values[index];
    int64_t *seen = seen_value_by(check, operation->worker, index);
    const int64_t *row = operation->values + i * check->tables.last_length;
    bool own = check_writer(check, index) == operation->worker, strict = own && !check->lenient;
    const int64_t least = strict || operation->copies[i] != USED_EITHER ? operation->bounds[i] : 0;
    const int64_t greatest = strict && exact ? operation->bounds[i] : value->started;
    check_that(check,
               is_uniform(row, check->tables.last_length) && row[0] >= least && row[0] <= greatest,
               "operation %" PRIu32 " of worker %" PRIu32 " read %" PRId64 "%s from key %" PRIu32
               " of table '%s', not %" PRId64 " to %" PRId64,
               operation->number, operation->worker, row[0],
               is_uniform(row, check->tables.last_length) ? "" : " and others", index,
               table_name(operation->table), least, greatest);
    if (operation->copies[i] == USED_MAIN && row[0] > *seen)
        *seen = row[0];
}

void check_seen(struct check *check, const struct operation *operation, const bool *resumed)
{
    for (size_t i = 0; i < operation->n; i++) {
        const uint32_t index = operation->indexes[i];
        /* What is rounded is right again when everything is told and heard. */
        if (check->lost[operation->table][index] || tables_real(&check->tables, operation->table))
            continue;
        if (operation->table != LAST_VALUES)
            seen_counts(check, operation, i, !resumed[i]);
        else if (!check->values[index].unknown)
            seen_value(check, operation, i, !resumed[i]);
    }
}

/* ---- Flushes ---------------------------------------------------------------------------------- */

void check_flushed(struct check *check, uint32_t worker, enum sim_table table, uint32_t index,
                   const int64_t *row)
{
    int64_t initial[MAX_LENGTH];
    if (check->saved && check->lost[table][index])
        return;
    if (table == LAST_VALUES) {
        const int64_t value = row ? row[0] : 0, written = check->values[index].started;
        check_that(check, check_writer(check, index) != worker || value >= written,
                   "worker %" PRIu32 " has flushed, and key %" PRIu32 " of table '%s' is %" PRId64
                   ", not %" PRId64,
                   worker, index, table_name(table), value, written);
        return;
    }
    if (is_sketch(check, table))
        return; /* what others have added to the element may still be under way */
    const struct tally *tallies = tallies_of(check, table, index);
    const int64_t *swept = swept_of(check, table, index);
    int64_t dropped = tables_dropped(&check->tables, table);
    initial_row(check, table, index, initial);
    for (uint32_t e = worker * WINDOW; e < (worker + 1) * WINDOW; e++) {
        const int64_t count = row ? count_in(check, table, row, initial, e) : 0;
        check_that(check, count >= forgive(tallies[e].started, count, swept, e, &dropped),
                   "worker %" PRIu32 " has flushed, and the main copy of key %" PRIu32
                   " of table '%s' has %" PRId64 " of its %" PRIu32
                   " additions to element %" PRIu32,
                   worker, index, table_name(table), count, tallies[e].started, e);
    }
}

/* ---- A checkpoint ------------------------------------------------------------------------------- */

/* Whether all that was started on a key is confirmed: nobody will send it again. */
static bool is_settled(struct check *check, enum sim_table table, uint32_t index)
{
    const struct value *value = &check->values[index];
    const struct tally *tallies = table == LAST_VALUES ? NULL : tallies_of(check, table, index);
    bool settled = tallies || value->started == value->confirmed;
    for (uint32_t e = 0; tallies && e < tables_length(&check->tables, table); e++)
        settled &= check->gone[e / WINDOW] || tallies[e].started == tallies[e].confirmed;
    return settled;
}

/* What was started until now is in the row of the checkpoint, or is lost. */
static void note_started(struct check *check, enum sim_table table, uint32_t index)
{
    struct saved *saved = &check->saved[table][index];
    const uint32_t length = table == LAST_VALUES ? 0 : tables_length(&check->tables, table);
    if (!saved->started)
        saved->started = malloc((length + 1) * sizeof *saved->started);
    check_that(check, saved->started, "no memory for a checkpoint");
    for (uint32_t e = 0; saved->started && e < length; e++)
        saved->started[e] = tallies_of(check, table, index)[e].started;
}

void check_save(struct check *check, enum sim_table table, uint32_t index, struct store *store)
{
    struct saved *saved = &check->saved[table][index];
    const uint64_t key = table_key(table, index);
    struct entry *entry;
    if (!is_settled(check, table, index) || !entry_has_row(store_look(store, key, &entry)))
        return;
    if (!saved->row)
        saved->row = malloc(store->value_bytes + rows_state_bytes(store));
    saved->value_bytes = store->value_bytes;
    check_that(check, saved->row, "no memory for a checkpoint");
    if (saved->row)
        (void)rows_copy(store, &key, 1, (char *)saved->row,
                        (char *)saved->row + store->value_bytes);
    note_started(check, table, index);
}

void check_recover(struct check *check, enum sim_table table, uint32_t index, struct store *store)
{
    struct saved *saved = &check->saved[table][index];
    check->lost[table][index] = true;
    note_started(check, table, index);
    if (saved->row)
        check_that(check,
                   !rows_put(store, table_key(table, index), saved->row,
                             (char *)saved->row + saved->value_bytes, false),
                   "%s", tern_error());
}

/* A key that was lost has what the checkpoint had, and what was begun and confirmed since then. */
static void stored_recovered(struct check *check, const struct stored *stored)
{
    const struct saved *saved = &check->saved[stored->table][stored->index];
    int64_t initial[MAX_LENGTH];
    if (stored->table == LAST_VALUES) {
        const int64_t least = saved->row ? saved->row[0] : 0;
        check_that(check,
                   is_uniform(stored->row, check->tables.last_length) && stored->row[0] >= least,
                   "in the end key %" PRIu32 " of table '%s', which was lost, is %" PRId64
                   " at node %" PRIu32 ", and was %" PRId64 " in the checkpoint",
                   stored->index, table_name(stored->table), stored->row[0], stored->node, least);
        return;
    }
    const struct tally *tallies = tallies_of(check, stored->table, stored->index);
    initial_row(check, stored->table, stored->index, initial);
    for (uint32_t e = 0; e < tables_length(&check->tables, stored->table); e++) {
        const int64_t since = (int64_t)tallies[e].confirmed - (int64_t)saved->started[e];
        const int64_t had = saved->row ? count_in(check, stored->table, saved->row, initial, e) : 0;
        const int64_t count = count_in(check, stored->table, stored->row, initial, e);
        check_that(check, count >= most(had, had + since) && count <= tallies[e].started,
                   "in the end node %" PRIu32 " has %" PRId64 " additions in element %" PRIu32
                   " of key %" PRIu32 " of table '%s', which was lost, not %" PRId64 " to %" PRIu32,
                   stored->node, count, e, stored->index, table_name(stored->table),
                   most(had, had + since), tallies[e].started);
    }
}

/* ---- The end ---------------------------------------------------------------------------------- */

static void stored_counts(struct check *check, const struct stored *stored)
{
    const struct tally *tallies = tallies_of(check, stored->table, stored->index);
    const int64_t *swept = swept_of(check, stored->table, stored->index);
    int64_t initial[MAX_LENGTH], started = 0;
    int64_t dropped = tables_dropped(&check->tables, stored->table);
    initial_row(check, stored->table, stored->index, initial);
    for (uint32_t e = 0; e < tables_length(&check->tables, stored->table); e++) {
        const int64_t count = count_in(check, stored->table, stored->row, initial, e);
        const int64_t certain = stored->is_main ? tallies[e].confirmed : 0;
        const int64_t expected =
            check->lenient || check->gone[e / WINDOW] ? certain : tallies[e].started;
        const int64_t least = forgive(expected, count, swept, e, &dropped);
        started += tallies[e].started;
        check_that(check, count >= least && count + (swept ? swept[e] : 0) <= tallies[e].started,
                   "in the end node %" PRIu32 " has %" PRId64 " additions in element %" PRIu32
                   " of key %" PRIu32 " of table '%s', not %" PRId64 " to %" PRIu32
                   "; worker %" PRIu32 " wrote there last in its operation %" PRIu32,
                   stored->node, count, e, stored->index, table_name(stored->table), least,
                   tallies[e].started, e / WINDOW, tallies[e].last_op);
    }
    check_that(check,
               check->lenient || !dropped ||
                   started < tables_dropped(&check->tables, stored->table),
               "in the end %" PRId64 " of the first pushes to key %" PRIu32
               " of table '%s' were not dropped",
               dropped, stored->index, table_name(stored->table));
}

static void stored_value(struct check *check, const struct stored *stored)
{
    const struct value *value = &check->values[stored->index];
    const int64_t certain = stored->is_main ? value->confirmed : 0;
    const int64_t least = check->lenient ? certain : value->started;
    const int64_t *row = stored->row;
    check_that(
        check,
        is_uniform(row, check->tables.last_length) && row[0] <= value->started && row[0] >= least,
        "in the end key %" PRIu32 " of table '%s' is %" PRId64 " at node %" PRIu32 ", not %" PRId64
        " to %" PRId64,
        stored->index, table_name(stored->table), row[0], stored->node, least, value->started);
}

/* The state is the sum of the row (tables.c). */
static void stored_state(struct check *check, const struct stored *stored)
{
    uint64_t sum = 0;
    for (uint32_t e = 0; e < check->tables.length; e++)
        sum += (uint64_t)stored->row[e];
    check_that(check, sum == (uint64_t)*stored->state,
               "in the end node %" PRIu32 " has %" PRIu64 " additions and a state of %" PRId64
               " of key %" PRIu32 " of table '%s'",
               stored->node, sum, *stored->state, stored->index, table_name(stored->table));
}

void check_stored(struct check *check, const struct stored *stored)
{
    const bool is_rounded = check->lenient && tables_real(&check->tables, stored->table);
    const bool is_lost = check->lost[stored->table][stored->index];
    if ((is_lost && !check->saved) || is_rounded)
        return;
    if (is_lost) {
        stored_recovered(check, stored);
        if (stored->state)
            stored_state(check, stored);
        return;
    }
    if (stored->table != LAST_VALUES)
        stored_counts(check, stored);
    else if (!check->values[stored->index].unknown)
        stored_value(check, stored);
    if (stored->state)
        stored_state(check, stored);
}
