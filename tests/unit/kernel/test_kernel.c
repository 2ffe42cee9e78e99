/*
 * Every set of loops gives the bits of the scalar one, touches nothing beside its rows, and copies
 * whole elements from memory that is being written. TERN_KERNEL picks a set.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/fixed.h"
#include "kernel/kernel.h"
#include "kernel/racy.h"

enum { GUARD_BYTES = 64, MAX_BYTES = 1 << 16 };

/* A block of memory for data at any offset, with a pattern on both sides of the data. */
struct block {
    _Alignas(64) unsigned char bytes[GUARD_BYTES + MAX_BYTES + 2 * GUARD_BYTES];
};

static struct block value[2], state[2], update, before;

static uint64_t random_state = 1;

static uint64_t random_u64(void)
{
    uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Of either sign, every fifth one zero; the others from the smallest to numbers whose square is
 * still finite. */
static double random_real(enum tern_type type)
{
    static const double f32_scales[] = {1, 1, 1e-3, 1e-20, 1e-42, 1e3, 1e17};
    static const double f64_scales[] = {1, 1, 1e-3, 1e-160, 1e-310, 1e3, 1e150};
    const uint64_t bits = random_u64();
    if (bits % 5 == 0)
        return 0;
    const double scale = (type == TERN_F32 ? f32_scales : f64_scales)[bits / 5 % 7];
    return scale * ((double)(random_u64() >> 11) * 0x1p-52 - 1);
}

static size_t size_of(enum tern_type type)
{
    return type == TERN_F32 || type == TERN_I32 ? 4 : 8;
}

static void put(enum tern_type type, unsigned char *to, double x)
{
    const float f32 = (float)x;
    const uint64_t bits = random_u64();
    if (type == TERN_F32)
        memcpy(to, &f32, sizeof f32);
    else if (type == TERN_F64)
        memcpy(to, &x, sizeof x);
    else
        memcpy(to, &bits, size_of(type));
}

static unsigned char *fill(struct block *block, enum tern_type type, size_t offset, size_t n)
{
    memset(block->bytes, 0xa5, sizeof block->bytes);
    unsigned char *data = block->bytes + GUARD_BYTES + offset * size_of(type);
    for (size_t i = 0; i < n; i++)
        put(type, data + i * size_of(type), random_real(type));
    return data;
}

static void check_guards(const struct block *block, const unsigned char *data, size_t bytes)
{
    const size_t begin = (size_t)(data - block->bytes);
    for (size_t i = begin - GUARD_BYTES; i < begin; i++)
        assert_int_equal(block->bytes[i], 0xa5);
    for (size_t i = begin + bytes; i < begin + bytes + GUARD_BYTES; i++)
        assert_int_equal(block->bytes[i], 0xa5);
}

static const size_t lengths_beyond_70[] = {127, 128, 129, 130, 512, 1000};

static size_t next_length(size_t n)
{
    if (n < 70)
        return n + 1;
    for (size_t i = 0; i < sizeof lengths_beyond_70 / sizeof lengths_beyond_70[0]; i++)
        if (n < lengths_beyond_70[i])
            return lengths_beyond_70[i];
    return SIZE_MAX;
}

static void check_add(const struct kernel *set, enum tern_type type, size_t offset, size_t n)
{
    const size_t bytes = n * size_of(type);
    unsigned char *expected = fill(&value[0], type, offset, n);
    value[1] = value[0];
    unsigned char *got = value[1].bytes + (expected - value[0].bytes);
    const unsigned char *from = fill(&update, type, offset, n);
    before = update;
    kernel_at(0)->add[type](expected, from, n);
    set->add[type](got, from, n);
    assert_memory_equal(&value[1], &value[0], sizeof value[0]);
    assert_memory_equal(&update, &before, sizeof update);
    check_guards(&value[1], got, bytes);
}

static void test_add(void **unused)
{
    (void)unused;
    size_t n_checked = 0;
    for (size_t k = 0; kernel_at(k); k++)
        for (enum tern_type type = TERN_F32; type <= TERN_I64; type++)
            for (size_t n = 0; n != SIZE_MAX; n = next_length(n))
                for (size_t offset = 0; offset < 2; offset++, n_checked++)
                    check_add(kernel_at(k), type, offset, n);
    assert_true(n_checked >= 4 * 77 * 2);
}

static void test_add_is_a_sum(void **unused)
{
    (void)unused;
    for (size_t k = 0; kernel_at(k); k++) {
        float f32[] = {1.5f, -2};
        double f64[] = {1.5, -2};
        int32_t i32[] = {INT32_MAX, INT32_MIN, -7};
        int64_t i64[] = {INT64_MAX, INT64_MIN, -7};
        kernel_at(k)->add[TERN_F32](f32, (float[]){0.25f, 2}, 2);
        kernel_at(k)->add[TERN_F64](f64, (double[]){0.25, 2}, 2);
        kernel_at(k)->add[TERN_I32](i32, (int32_t[]){1, -1, 9}, 3);
        kernel_at(k)->add[TERN_I64](i64, (int64_t[]){1, -1, 9}, 3);
        assert_memory_equal(f32, ((float[]){1.75f, 0}), sizeof f32);
        assert_memory_equal(f64, ((double[]){1.75, 0}), sizeof f64);
        assert_memory_equal(i32, ((int32_t[]){INT32_MIN, INT32_MAX, 2}), sizeof i32);
        assert_memory_equal(i64, ((int64_t[]){INT64_MIN, INT64_MAX, 2}), sizeof i64);
    }
}

/* What replicas exchange: `take` and `rebase` beside the scalar loops, values and bases with guards. */
static void check_exchange(const struct kernel *set, enum tern_type type, size_t offset, size_t n)
{
    const size_t bytes = n * size_of(type);
    static struct block delta[2];
    unsigned char *rows[2], *bases[2], *deltas[2];
    rows[0] = fill(&value[0], type, offset, n);
    bases[0] = fill(&state[0], type, offset, n);
    deltas[0] = fill(&delta[0], type, offset, n);
    const unsigned char *theirs = fill(&update, type, offset, n);
    value[1] = value[0];
    state[1] = state[0];
    delta[1] = delta[0];
    rows[1] = value[1].bytes + (rows[0] - value[0].bytes);
    bases[1] = state[1].bytes + (bases[0] - state[0].bytes);
    deltas[1] = delta[1].bytes + (deltas[0] - delta[0].bytes);
    kernel_at(0)->rebase[type](rows[0], bases[0], theirs, n);
    set->rebase[type](rows[1], bases[1], theirs, n);
    bool any = kernel_at(0)->take[type](deltas[0], bases[0], rows[0], n);
    assert_int_equal(set->take[type](deltas[1], bases[1], rows[1], n), any);
    assert_memory_equal(&value[1], &value[0], sizeof value[0]);
    assert_memory_equal(&state[1], &state[0], sizeof state[0]);
    assert_memory_equal(&delta[1], &delta[0], sizeof delta[0]);
    check_guards(&delta[1], deltas[1], bytes);
    assert_memory_equal(bases[1], rows[1], bytes);
    assert_false(set->take[type](deltas[1], bases[1], rows[1], n));
}

static void test_exchange(void **unused)
{
    (void)unused;
    for (size_t k = 0; kernel_at(k); k++)
        for (enum tern_type type = TERN_F32; type <= TERN_I64; type++)
            for (size_t n = 0; n != SIZE_MAX; n = next_length(n))
                for (size_t offset = 0; offset < 2; offset++)
                    check_exchange(kernel_at(k), type, offset, n);
}

static void test_exchange_keeps_both_changes(void **unused)
{
    (void)unused;
    for (size_t k = 0; kernel_at(k); k++) {
        float row[] = {5, 7, 1}, base[] = {4, 7, -1}, delta[3];
        kernel_at(k)->rebase[TERN_F32](row, base, (float[]){10, 20, 30}, 3);
        assert_memory_equal(row, ((float[]){11, 20, 32}), sizeof row);
        assert_memory_equal(base, ((float[]){10, 20, 30}), sizeof base);
        assert_true(kernel_at(k)->take[TERN_F32](delta, base, row, 3));
        assert_memory_equal(delta, ((float[]){1, 0, 2}), sizeof delta);
        assert_memory_equal(base, row, sizeof base);
    }
}

/* How a loop's state looks: arrays of the row's length that start signed, then arrays that are
 * sums of squares, then single elements. */
struct loop {
    size_t member;
    size_t n_signed;
    size_t n_squares;
    size_t n_single;
    double parameters[TERN_UPDATER_PARAMETERS];
};

static const struct loop loops[] = {
    {offsetof(struct kernel, sgd), 0, 0, 0, {0.1}},
    {offsetof(struct kernel, momentum), 1, 0, 0, {0.1, 0.9}},
    {offsetof(struct kernel, adagrad), 0, 1, 0, {0.1, 1e-10}},
    {offsetof(struct kernel, adam), 1, 1, 1, {0.01, 0.9, 0.999, 1e-8}},
    {offsetof(struct kernel, ftrl), 1, 1, 0, {0.05, 1, 0.5, 0.1}},
    {offsetof(struct kernel, ftrl), 1, 1, 0, {0.05, 1, 0, 0}},
};

static kernel_update *function_of(const struct kernel *set, const struct loop *loop,
                                  enum tern_type type)
{
    kernel_update *const *functions =
        (kernel_update *const *)(const void *)((const char *)set + loop->member);
    return functions[type];
}

static void check_loop(const struct kernel *set, const struct loop *loop, enum tern_type type,
                       size_t offset, size_t n)
{
    const size_t size = size_of(type);
    const size_t n_state = (loop->n_signed + loop->n_squares) * n + loop->n_single;
    unsigned char *expected = fill(&value[0], type, offset, n);
    unsigned char *expected_state = fill(&state[0], type, offset, n_state);
    for (size_t i = loop->n_signed * n; i < n_state - loop->n_single; i++)
        put(type, expected_state + i * size, fabs(random_real(type)));
    for (size_t i = n_state - loop->n_single; i < n_state; i++)
        put(type, expected_state + i * size, (double)(random_u64() % 1000));
    value[1] = value[0];
    state[1] = state[0];
    unsigned char *got = value[1].bytes + (expected - value[0].bytes);
    unsigned char *got_state = state[1].bytes + (expected_state - state[0].bytes);
    for (int step = 0; step < 2; step++) {
        const unsigned char *from = fill(&update, type, offset, n);
        before = update;
        function_of(kernel_at(0), loop, type)(loop->parameters, n, expected, expected_state, from);
        function_of(set, loop, type)(loop->parameters, n, got, got_state, from);
        assert_memory_equal(&value[1], &value[0], sizeof value[0]);
        assert_memory_equal(&state[1], &state[0], sizeof state[0]);
        assert_memory_equal(&update, &before, sizeof update);
    }
    check_guards(&value[1], got, n * size);
    check_guards(&state[1], got_state, n_state * size);
}

static void test_updates(void **unused)
{
    (void)unused;
    size_t n_checked = 0;
    for (size_t k = 0; kernel_at(k); k++)
        for (size_t l = 0; l < sizeof loops / sizeof loops[0]; l++)
            for (enum tern_type type = TERN_F32; type <= TERN_F64; type++)
                for (size_t n = 0; n != SIZE_MAX; n = next_length(n))
                    for (size_t offset = 0; offset < 2; offset++, n_checked++)
                        check_loop(kernel_at(k), &loops[l], type, offset, n);
    assert_true(n_checked >= 6 * 2 * 77 * 2);
}

/* The racy copies, as far as this machine can run them. */
/* Fixed point: every set rounds to the same steps, at any place, and has the same bytes. */
static void check_fixed(size_t set, int wide, size_t offset, size_t n)
{
    static int32_t steps[2][MAX_BYTES / 4];
    const struct fixed *const both[2] = {fixed_at(0), fixed_at(set)};
    const enum tern_type type = wide ? TERN_F64 : TERN_F32;
    const size_t bytes = n * size_of(type);
    unsigned char *const from = update.bytes + GUARD_BYTES + offset;
    const double whole = 3 << 13; /* steps of 8 bits, and so of 16 and 24 bits */
    for (size_t i = 0; i < n; i++)
        put(type, from + i * size_of(type),
            i % 7 ? (double)(random_u64() >> 40) / 9.0 - 9e5 : whole);
    const double widths[3] = {0x1p-21, 0x1p-13, 0x1p-5}, back[2] = {0x1p-4, 0x1p1};
    assert_true(both[0]->largest[wide](from, n) == both[1]->largest[wide](from, n));
    for (int width = 0; width < 3; width++) {
        const double scale[2] = {widths[width], 0x1p8};
        unsigned char *out[2];
        for (int s = 0; s < 2; s++) {
            out[s] = value[s].bytes + GUARD_BYTES;
            memset(value[s].bytes, 0x55, sizeof value[s].bytes);
            both[s]->round[wide][width](from, n, scale, 12345, 67, out[s]);
        }
        assert_memory_equal(out[0], out[1], n * (size_t)(width + 1));
        for (size_t i = FIXED_SLACK; i < GUARD_BYTES; i++)
            assert_int_equal(out[1][n * (size_t)(width + 1) + i], 0x55);
        for (int s = 0; s < 2; s++)
            both[s]->unpack[width](out[0], n, steps[s]);
        assert_memory_equal(steps[0], steps[1], n * sizeof steps[0][0]);
        for (size_t i = 0; i < n; i++) {
            float f;
            double x;
            memcpy(&f, from + i * sizeof f, sizeof f);
            memcpy(&x, from + i * size_of(type), size_of(type));
            const double exact = (wide ? x : (double)f) * scale[0] * scale[1];
            assert_true(fabs(steps[0][i] - exact) < 1 + 1e-9);
        }
        for (size_t i = 0; i < n; i += 7)
            assert_true(steps[0][i] == whole * scale[0] * scale[1]);
    }
    for (int s = 0; s < 2; s++)
        both[s]->unround[wide](steps[0], n, back, state[s].bytes + GUARD_BYTES + offset);
    assert_memory_equal(state[0].bytes + GUARD_BYTES + offset,
                        state[1].bytes + GUARD_BYTES + offset, bytes);
}

static void test_fixed(void **unused)
{
    (void)unused;
    for (size_t set = 0; fixed_at(set); set++)
        for (int wide = 0; wide < 2; wide++)
            for (size_t offset = 0; offset < 9; offset += 3)
                for (size_t n = 1; n < 300; n += n < 70 ? 1 : 37)
                    check_fixed(set, wide, offset, n);
}

static void copy_16(char *to, const char *from, size_t bytes)
{
    racy_copy_16(to, from, bytes);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void copy_32(char *to, const char *from, size_t bytes)
{
    racy_copy_32(to, from, bytes);
}

__attribute__((target("avx512f"))) static void copy_64(char *to, const char *from, size_t bytes)
{
    racy_copy_64(to, from, bytes);
}
#endif

static void copy_racy(const struct kernel *set, void *to, const void *from, size_t bytes)
{
#if defined(__x86_64__)
    if (set->vector_bytes == 64) {
        copy_64(to, from, bytes);
        return;
    }
    if (set->vector_bytes == 32) {
        copy_32(to, from, bytes);
        return;
    }
#endif
    assert_int_equal(set->vector_bytes, 16);
    copy_16(to, from, bytes);
}

static void check_copy(const struct kernel *set, size_t to_offset, size_t from_offset, size_t bytes)
{
    memset(value[0].bytes, 0xa5, GUARD_BYTES + to_offset + bytes + GUARD_BYTES);
    unsigned char *to = value[0].bytes + GUARD_BYTES + to_offset;
    unsigned char *from = value[1].bytes + GUARD_BYTES + from_offset;
    for (size_t i = 0; i < bytes; i++)
        from[i] = (unsigned char)random_u64();
    copy_racy(set, to, from, bytes);
    assert_memory_equal(to, from, bytes);
    check_guards(&value[0], to, bytes);
}

static void test_copy(void **unused)
{
    (void)unused;
    static const size_t offsets[] = {0, 1, 4, 8, 20, 63};
    static const size_t beyond_300[] = {512, 516, 1000, 2048, 4100, MAX_BYTES};
    for (size_t k = 0; kernel_at(k); k++) {
        for (size_t t = 0; t < sizeof offsets / sizeof offsets[0]; t++) {
            for (size_t f = 0; f < sizeof offsets / sizeof offsets[0]; f++) {
                for (size_t bytes = 4; bytes <= 300; bytes += 4)
                    check_copy(kernel_at(k), offsets[t], offsets[f], bytes);
                for (size_t i = 0; i < sizeof beyond_300 / sizeof beyond_300[0]; i++)
                    check_copy(kernel_at(k), offsets[t], offsets[f], beyond_300[i]);
            }
        }
    }
}

/* A row that one thread fills with one number and then with another, element by element. */
enum { RACY_ELEMENTS = 150 };

static struct {
    _Alignas(64) _Atomic uint32_t narrow[RACY_ELEMENTS];
    _Alignas(64) _Atomic uint64_t wide[RACY_ELEMENTS];
    atomic_bool stop;
} racy;

static const uint64_t numbers[2] = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)};

static void *write_numbers(void *unused)
{
    for (size_t round = 0; !atomic_load(&racy.stop); round++) {
        for (size_t i = 0; i < RACY_ELEMENTS; i++) {
            atomic_store_explicit(&racy.narrow[i], (uint32_t)numbers[round % 2],
                                  memory_order_relaxed);
            atomic_store_explicit(&racy.wide[i], numbers[round % 2], memory_order_relaxed);
        }
    }
    return unused;
}

static void check_whole_elements(const struct kernel *set, size_t begin, size_t n)
{
    uint32_t narrow[RACY_ELEMENTS];
    uint64_t wide[RACY_ELEMENTS];
    copy_racy(set, narrow, (const void *)&racy.narrow[begin], n * sizeof narrow[0]);
    copy_racy(set, wide, (const void *)&racy.wide[begin], n * sizeof wide[0]);
    for (size_t i = 0; i < n; i++) {
        assert_true(narrow[i] == (uint32_t)numbers[0] || narrow[i] == (uint32_t)numbers[1]);
        assert_true(wide[i] == numbers[0] || wide[i] == numbers[1]);
    }
}

static void test_copy_sees_whole_elements(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < RACY_ELEMENTS; i++) {
        atomic_store(&racy.narrow[i], (uint32_t)numbers[0]);
        atomic_store(&racy.wide[i], numbers[0]);
    }
    atomic_store(&racy.stop, false);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_numbers, NULL), 0);
    for (size_t k = 0; kernel_at(k); k++)
        for (size_t round = 0; round < 200; round++)
            for (size_t n = 1; n <= 140; n++)
                check_whole_elements(kernel_at(k), (n + round) % 8, n);
    atomic_store(&racy.stop, true);
    pthread_join(writer, NULL);
}

static size_t n_sets(void)
{
    size_t n = 0;
    while (kernel_at(n))
        n++;
    return n;
}

static void test_sets(void **unused)
{
    (void)unused;
    assert_string_equal(kernel_at(0)->name, "scalar");
    for (size_t i = 0; i < n_sets(); i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(kernel_at(i)->name, kernel_at(j)->name);
    assert_null(kernel_at(SIZE_MAX));
}

/* The index of the set that a new process chooses; kernel_get() chooses once per process. */
static size_t chosen_with(const char *name)
{
    const pid_t child = fork();
    if (child == 0) {
        if (name)
            setenv("TERN_KERNEL", name, 1);
        else
            unsetenv("TERN_KERNEL");
        size_t i = 0;
        while (kernel_at(i) && kernel_get() != kernel_at(i))
            i++;
        const bool named = strcmp(tern_kernel_name(), kernel_get()->name) == 0;
        _exit(named ? (int)i : 255);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (size_t)WEXITSTATUS(status);
}

static void test_environment(void **unused)
{
    (void)unused;
    const size_t best = n_sets() - 1;
    assert_int_equal(chosen_with(NULL), best);
    assert_int_equal(chosen_with(""), best);
    assert_int_equal(chosen_with("SCALAR"), best);
    assert_int_equal(chosen_with("of another planet"), best);
#if defined(__aarch64__)
    assert_int_equal(chosen_with("avx2"), best);
#else
    assert_int_equal(chosen_with("neon"), best);
#endif
    for (size_t i = 0; i <= best; i++)
        assert_int_equal(chosen_with(kernel_at(i)->name), i);
}

static void *get(void *unused)
{
    (void)unused;
    return (void *)(uintptr_t)kernel_get();
}

static void test_threads_agree(void **unused)
{
    (void)unused;
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, get, NULL), 0);
    for (size_t i = 0; i < 4; i++) {
        void *got = NULL;
        pthread_join(threads[i], &got);
        assert_ptr_equal(got, kernel_get());
    }
}

int main(void)
{
    /* test_environment forks a process that has not chosen yet, so it comes before kernel_get(). */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_threads_agree),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_add_is_a_sum),
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_exchange_keeps_both_changes),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_copy_sees_whole_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
