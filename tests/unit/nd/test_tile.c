/* Programs of elementwise operators as code with values in registers: the same numbers as the operators' bodies. */
#include "support/check.h"
#undef fail

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "nd/tile.h"

extern const struct op op_maximum, op_minimum, op_absolute, op_relu, op_reciprocal,
    op_stop_gradient;

static const struct op *const ops[] = {&op_add,          &op_subtract, &op_multiply, &op_divide,
                                       &op_maximum,      &op_minimum,  &op_negative, &op_absolute,
                                       &op_square,       &op_relu,     &op_copy,     &op_reciprocal,
                                       &op_stop_gradient};
enum { N_OPS = sizeof ops / sizeof *ops, N_INPUTS = 3, LONG = 5003, SHORT = 1000 };

/* Steps that read any values before them; some are constants. */
static struct program random_program(uint64_t seed, enum tern_nd_type type)
{
    struct program program = {.n_inputs = N_INPUTS,
                              .n_steps = 1 + (unsigned)(rand_at(seed, 0) % PROGRAM_MAX_STEPS)};
    for (unsigned s = 0; s < program.n_steps; s++) {
        struct step *step = &program.steps[s];
        const bool is_constant =
            s + 1 < program.n_steps && rand_at(seed, (uint64_t)10 * s + 1) % 8 == 0;
        step->op = is_constant ? &op_constant : ops[rand_at(seed, (uint64_t)10 * s + 2) % N_OPS];
        step->type = step->out_type = type;
        step->n_inputs = (uint8_t)step->op->n_inputs;
        step->attributes.numbers[0] = 0.25 * (double)s;
        for (unsigned i = 0; i < step->n_inputs; i++) {
            const bool is_last = s && rand_at(seed, (uint64_t)10 * s + 3 + i) % 2;
            const unsigned any =
                (unsigned)(rand_at(seed, (uint64_t)10 * s + 5 + i) % (N_INPUTS + s));
            step->in[i] = (uint8_t)(is_last ? N_INPUTS + s - 1 : any);
        }
    }
    return program;
}

/* Numbers with zeros of both signs, infinities and NaN among them. */
static double number_at(uint64_t seed, size_t i)
{
    static const double odd[] = {0, -0.0, (double)INFINITY, -(double)INFINITY, (double)NAN, 1};
    const uint64_t at = rand_at(seed, i);
    return at % 16 < 6 ? odd[at % 16] : 4 * rand_unit(at) - 2;
}

static void *numbers(enum tern_nd_type type, size_t n, uint64_t seed)
{
    void *data = aligned_alloc(64, (n * spec_type_bytes(type) + 63) / 64 * 64);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++) {
        if (type == TERN_ND_F32)
            ((float *)data)[i] = (float)number_at(seed, i);
        else
            ((double *)data)[i] = number_at(seed, i);
    }
    return data;
}

/* Elements begin to end - 1. */
static void run(const struct program *program, enum tern_nd_type type, void *const *in, void *out,
                size_t begin, size_t end)
{
    const struct spec shape = {.type = type, .n_dims = 1, .dims = {(int64_t)(end - begin)}};
    const size_t first = begin * spec_type_bytes(type);
    struct operand operands[N_INPUTS], result = {(char *)out + first, type, {1}};
    for (unsigned i = 0; i < N_INPUTS; i++)
        operands[i] = (struct operand){(char *)in[i] + first, type, {1}};
    elementwise_run(program, &shape, operands, &result, 0);
}

/* NaN has no order and its bits are free. */
static void assert_same(enum tern_nd_type type, const void *a, const void *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = spec_type_bytes(type), at = i * bytes;
        const bool are_nan = type == TERN_ND_F32
                                 ? isnan(((const float *)a)[i]) && isnan(((const float *)b)[i])
                                 : isnan(((const double *)a)[i]) && isnan(((const double *)b)[i]);
        if (!are_nan)
            assert_memory_equal((const char *)a + at, (const char *)b + at, bytes);
    }
}

/* The whole at once, which is long enough for code, and in pieces, which are too short. */
static void check(const struct program *program, enum tern_nd_type type, size_t n, bool in_place)
{
    void *in[N_INPUTS], *whole = numbers(type, n, 9), *pieces = numbers(type, n, 9);
    for (unsigned i = 0; i < N_INPUTS; i++)
        in[i] = numbers(type, n, i + 1);
    for (size_t begin = 0; begin < n; begin += SHORT)
        run(program, type, in, pieces, begin, begin + SHORT < n ? begin + SHORT : n);
    run(program, type, in, in_place ? in[0] : whole, 0, n);
    assert_same(type, in_place ? in[0] : whole, pieces, n);
    for (unsigned i = 0; i < N_INPUTS; i++)
        free(in[i]);
    free(whole);
    free(pieces);
}

static void test_random_programs(void **state)
{
    (void)state;
    unsigned n_code = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        const enum tern_nd_type type = seed % 2 ? TERN_ND_F32 : TERN_ND_F64;
        const struct program program = random_program(hash_u64(seed), type);
        struct tile_code code;
        n_code += tile_compile(&program, (struct tile_options){0}, &code);
        tile_limit((size_t)16 << seed % 3);
        check(&program, type, LONG, seed % 5 == 0);
    }
    tile_limit(64);
    assert_int_equal(n_code, 400);
}

/* So long that inputs are fetched ahead and the result passes by the caches. */
static void test_large_arrays(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 4; seed++) {
        const struct program program = random_program(hash_u64(seed), TERN_ND_F32);
        check(&program, TERN_ND_F32, ((size_t)5 << 20) / 2 + 77, seed == 3);
    }
}

/* Other operators and types have no code. */
static void test_what_has_no_code(void **state)
{
    (void)state;
    struct program program = random_program(1, TERN_ND_F32);
    struct tile_code code;
    program.steps[0].op = &op_exp;
    assert_false(tile_compile(&program, (struct tile_options){0}, &code));
    program = random_program(1, TERN_ND_I32);
    assert_false(tile_compile(&program, (struct tile_options){0}, &code));
    program = (struct program){
        .n_steps = 1,
        .steps = {{.op = &op_constant, .type = TERN_ND_F32, .out_type = TERN_ND_F32}}};
    assert_false(tile_compile(&program, (struct tile_options){0}, &code));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs),
                                       cmocka_unit_test(test_large_arrays),
                                       cmocka_unit_test(test_what_has_no_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
