/*
 * check - what the tests of the public API share: checks of a status and its sentence, a node with a
 * worker to stand on, numbers that are the same in every run, and access to elements of any type.
 *
 * ok() and refused() end the test by longjmp: only the thread that runs the test may use them. Other
 * threads use holds(), which counts what did not hold, and the test ends with all_held().
 */
#ifndef SUPPORT_CHECK_H
#define SUPPORT_CHECK_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tern/tern.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#elif __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#if defined(UNDER_TSAN) || defined(UNDER_ASAN)
#define UNDER_SANITIZER 1
#endif

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Checks ---------------------------------------------------------------------------------- */

/* The call succeeds. */
#define ok(call) check_ok((call), #call, __FILE__, __LINE__)

/* The call fails with `status`, and its sentence contains each of the words that follow. */
#define refused(call, status, ...)                                               \
    check_refused((check_forget(), (call)), (status), #call, __FILE__, __LINE__, \
                  (const char *const[]){__VA_ARGS__, NULL})

static inline void check_ok(enum tern_status status, const char *call, const char *file, int line)
{
    if (status == TERN_OK)
        return;
    print_error("%s\n    is %s: %s\n", call, tern_status_name(status), tern_error());
    _fail(file, line);
}

/* Replaces the sentence of an earlier failure, so that it cannot pass for that of the next. */
static inline void check_forget(void)
{
    (void)tern_node_close(NULL);
}

static inline void check_refused(enum tern_status status, enum tern_status wanted, const char *call,
                                 const char *file, int line, const char *const *words)
{
    if (status != wanted) {
        print_error("%s\n    is %s, not %s: %s\n", call, tern_status_name(status),
                    tern_status_name(wanted), status == TERN_OK ? "" : tern_error());
        _fail(file, line);
    }
    for (; *words != NULL; words++) {
        if (strstr(tern_error(), *words) != NULL)
            continue;
        print_error("%s\n    does not name '%s': %s\n", call, *words, tern_error());
        _fail(file, line);
    }
}

static inline atomic_uint_fast64_t *check_broken(void)
{
    static atomic_uint_fast64_t broken;
    return &broken;
}

/* For threads a test starts: notes, and reports the first few times, that a condition is false. */
#define holds(condition) check_holds((condition), #condition, __FILE__, __LINE__)

static inline bool check_holds(bool held, const char *condition, const char *file, int line)
{
    if (!held && atomic_fetch_add(check_broken(), 1) < 5)
        fprintf(stderr, "%s:%d: does not hold: %s (%s)\n", file, line, condition, tern_error());
    return held;
}

static inline void all_held(void)
{
    assert_int_equal(atomic_exchange(check_broken(), 0), 0);
}

/* ---- A node with a worker: setup and teardown of a test, whose state is a struct place -------- */

struct place {
    struct tern_node *node;
    struct tern_worker *worker;
};

static inline int place_open(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    *state = place;
    ok(tern_node_open(NULL, &place->node));
    ok(tern_worker_open(place->node, &place->worker));
    return 0;
}

static inline int place_close(void **state)
{
    struct place *place = *state;
    ok(tern_worker_close(place->worker));
    ok(tern_node_close(place->node));
    free(place);
    return 0;
}

#define placed(test) cmocka_unit_test_setup_teardown(test, place_open, place_close)

/* Options of a plain table; n_keys counts for dense ones alone. */
static inline struct tern_table_options shape(enum tern_index index, enum tern_type type,
                                              uint64_t n_keys, uint32_t length)
{
    return (struct tern_table_options){
        .struct_size = sizeof(struct tern_table_options),
        .index = index,
        .type = type,
        .n_keys = index == TERN_DENSE ? n_keys : 0,
        .length = length,
    };
}

static inline struct tern_table *table_of(struct tern_node *node, const char *name,
                                          struct tern_table_options options)
{
    struct tern_table *table = NULL;
    ok(tern_table_open(node, name, &options, &table));
    assert_non_null(table);
    return table;
}

static inline struct tern_table_stats stats_of(struct tern_table *table)
{
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    ok(tern_table_get_stats(table, &stats));
    return stats;
}

/* ---- Numbers that look random and are the same in every run ---------------------------------- */

struct dice {
    uint64_t state;
};

/* A bijection of 64-bit numbers: distinct numbers give distinct, scattered keys. */
static inline uint64_t scattered(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t dice_roll(struct dice *dice)
{
    return scattered(dice->state += UINT64_C(0x9e3779b97f4a7c15));
}

static inline size_t dice_below(struct dice *dice, size_t n)
{
    return (size_t)(dice_roll(dice) % n);
}

/* Uniform in [0, 1). */
static inline double dice_unit(struct dice *dice)
{
    return (double)(dice_roll(dice) >> 11) * 0x1p-53;
}

/* ---- Memory and elements --------------------------------------------------------------------- */

static inline void *array_of(size_t n, size_t size)
{
    void *array = calloc(n > 0 ? n : 1, size);
    assert_non_null(array);
    return array;
}

/* What the process holds in memory now. */
static inline size_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    size_t pages = 0;
    assert_int_equal(fscanf(file, "%*s %zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static inline size_t element_size(enum tern_type type)
{
    return type == TERN_F32 || type == TERN_I32 ? 4 : 8;
}

static inline const char *type_name(enum tern_type type)
{
    static const char *const names[] = {"f32", "f64", "i32", "i64"};
    return names[type];
}

static inline double element_get(enum tern_type type, const void *values, size_t i)
{
    switch (type) {
    case TERN_F32:
        return (double)((const float *)values)[i];
    case TERN_F64:
        return ((const double *)values)[i];
    case TERN_I32:
        return (double)((const int32_t *)values)[i];
    case TERN_I64:
        break;
    }
    return (double)((const int64_t *)values)[i];
}

static inline void element_put(enum tern_type type, void *values, size_t i, double x)
{
    switch (type) {
    case TERN_F32:
        ((float *)values)[i] = (float)x;
        return;
    case TERN_F64:
        ((double *)values)[i] = x;
        return;
    case TERN_I32:
        ((int32_t *)values)[i] = (int32_t)x;
        return;
    case TERN_I64:
        break;
    }
    ((int64_t *)values)[i] = (int64_t)x;
}

static inline void element_fill(enum tern_type type, void *values, size_t n, double x)
{
    for (size_t i = 0; i < n; i++)
        element_put(type, values, i, x);
}

#endif
