/* tile - see tile.h. */
#include "nd/tile.h"

#include <stdatomic.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* ---- Programs as code ---------------------------------------------------------------------------- */

/* An instruction for an operator, and the one for swapped operands; 0: there is none. */
struct meaning {
    const struct op *op;
    uint8_t what, swapped;
};

extern const struct op op_maximum, op_minimum, op_absolute, op_relu, op_reciprocal,
    op_stop_gradient;

static const struct meaning meanings[] = {
    {&op_add, TILE_ADD, TILE_ADD},
    {&op_subtract, TILE_SUBTRACT, TILE_SUBTRACT_FROM},
    {&op_multiply, TILE_MULTIPLY, TILE_MULTIPLY},
    {&op_divide, TILE_DIVIDE, TILE_DIVIDE_INTO},
    {&op_maximum, TILE_MAXIMUM, 0},
    {&op_minimum, TILE_MINIMUM, 0},
    {&op_negative, TILE_NEGATIVE, 0},
    {&op_absolute, TILE_ABSOLUTE, 0},
    {&op_square, TILE_SQUARE, 0},
    {&op_relu, TILE_RELU, 0},
    {&op_reciprocal, TILE_RECIPROCAL, 0},
    {&op_copy, TILE_NOTHING, 0},
    {&op_stop_gradient, TILE_NOTHING, 0},
};

static const struct meaning *find_meaning(const struct op *op)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].op == op)
            return &meanings[i];
    return NULL;
}

static void emit(struct tile_code *code, unsigned what, unsigned at)
{
    code->code[code->n++] = (struct tile_instruction){(uint8_t)what, (uint8_t)at};
}

/* The last step that computes something; n_steps if there is none. */
static unsigned last_step(const struct program *program)
{
    const unsigned last = program->n_steps - 1;
    return program->steps[last].op == &op_constant ? program->n_steps : last;
}

/* A step's instruction, where the accumulator holds register `held`. */
static void emit_step(const struct program *program, unsigned s, unsigned held,
                      struct tile_code *code)
{
    const struct step *step = &program->steps[s];
    const struct meaning *meaning = find_meaning(step->op);
    if (step->n_inputs == 2 && step->in[1] == held && step->in[0] != held && meaning->swapped) {
        emit(code, meaning->swapped, step->in[0]);
        return;
    }
    if (step->in[0] != held)
        emit(code, TILE_LOAD, step->in[0]);
    emit(code, meaning->what, step->in[step->n_inputs - 1]);
}

/* Whether a step's value is read from memory: by a later step than `next`, or by that one in a way that emit_step loads. */
static bool is_stored(const struct program *program, unsigned value, unsigned next)
{
    const struct step *step = &program->steps[next];
    const bool takes_left = step->in[0] == value;
    const bool swaps = !takes_left && find_meaning(step->op)->swapped;
    bool stored = step->n_inputs == 2 && step->in[1] == value && !swaps;
    for (unsigned s = next + 1; s < program->n_steps && !stored; s++)
        for (unsigned i = 0; i < program->steps[s].n_inputs; i++)
            stored = stored || program->steps[s].in[i] == value;
    return stored;
}

bool tile_compile(const struct program *program, struct tile_options options,
                  struct tile_code *code)
{
    const unsigned last = last_step(program);
    code->n = 0;
    code->type = program->steps[program->n_steps - 1].out_type;
    if (last == program->n_steps || !spec_is_real(code->type))
        return false;
    unsigned held = PROGRAM_BUFFERS;
    for (unsigned i = 0; i < program->n_inputs; i++)
        if (options.prefetch >> i & 1)
            emit(code, TILE_PREFETCH, i);
    for (unsigned s = 0; s < program->n_steps; s++) {
        const struct step *step = &program->steps[s];
        const bool is_constant = step->op == &op_constant;
        if (step->out_type != code->type || (!is_constant && step->type != code->type) ||
            (!is_constant && !find_meaning(step->op)))
            return false;
        if (is_constant)
            continue;
        if (held != PROGRAM_BUFFERS && is_stored(program, held, s))
            emit(code, TILE_STORE, held);
        emit_step(program, s, held, code);
        held = program->n_inputs + s;
    }
    emit(code, options.streams ? TILE_STREAM : TILE_STORE, held);
    emit(code, TILE_END, held);
    return true;
}

/* ---- Interpreters -------------------------------------------------------------------------------- */

/* One per type and length of vectors; 16 bytes are what every processor has. */
#ifdef __x86_64__
#define VECTOR 64
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))
#define STREAM(to, from) _mm512_stream_ps((float *)(to), (__m512)(from))
#define REAL float
#define BITS int32_t
#define NAME(x) x##_f32_64
#include "nd/tile_body.h"
#define REAL double
#define BITS int64_t
#define NAME(x) x##_f64_64
#include "nd/tile_body.h"
#undef VECTOR
#undef TARGET
#undef STREAM

#define VECTOR 32
#define TARGET __attribute__((target("avx2")))
#define STREAM(to, from) _mm256_stream_ps((float *)(to), (__m256)(from))
#define REAL float
#define BITS int32_t
#define NAME(x) x##_f32_32
#include "nd/tile_body.h"
#define REAL double
#define BITS int64_t
#define NAME(x) x##_f64_32
#include "nd/tile_body.h"
#undef VECTOR
#undef TARGET
#undef STREAM
#define STREAM(to, from) _mm_stream_ps((float *)(to), (__m128)(from))
#else
#define STREAM(to, from) *(to) = (from)
#endif

#define VECTOR 16
#define TARGET
#define REAL float
#define BITS int32_t
#define NAME(x) x##_f32_16
#include "nd/tile_body.h"
#define REAL double
#define BITS int64_t
#define NAME(x) x##_f64_16
#include "nd/tile_body.h"

typedef void run_tiles(const struct tile_code *code, const void *const *registers, size_t bytes);

static atomic_size_t most_bytes = 64;

void tile_limit(size_t vector_bytes)
{
    atomic_store(&most_bytes, vector_bytes);
}

static size_t vector_bytes(void)
{
    const size_t most = atomic_load_explicit(&most_bytes, memory_order_relaxed); /* tile_limit */
    (void)most;
#ifdef __x86_64__
    if (most >= 64 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return 64;
    if (most >= 32 && __builtin_cpu_supports("avx2"))
        return 32;
#endif
    return 16;
}

static run_tiles *choose(size_t vector, bool is_f32)
{
#ifdef __x86_64__
    if (vector == 64)
        return is_f32 ? run_f32_64 : run_f64_64;
    if (vector == 32)
        return is_f32 ? run_f32_32 : run_f64_32;
#endif
    (void)vector;
    return is_f32 ? run_f32_16 : run_f64_16;
}

size_t tile_run(const struct tile_code *code, const void *const *registers, size_t n)
{
    const size_t vector = vector_bytes(), tile = TILE_VECTORS * vector;
    const size_t bytes = n * spec_type_bytes(code->type) / tile * tile;
    if (bytes)
        choose(vector, code->type == TERN_ND_F32)(code, registers, bytes);
    return bytes / spec_type_bytes(code->type);
}

bool tile_can_stream(const void *address)
{
#ifdef __x86_64__
    return (uintptr_t)address % 64 == 0;
#else
    (void)address;
    return false;
#endif
}

void tile_fence(void)
{
#ifdef __x86_64__
    _mm_sfence();
#endif
}
