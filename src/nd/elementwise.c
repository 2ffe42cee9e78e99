/* elementwise - see elementwise.h. */
#include "nd/elementwise.h"

#include <string.h>

#include "nd/engine.h"
#include "nd/tile.h"

enum {
    PART_ELEMENTS = 1 << 16, /* the least of a part, times steps */
    TILE_ELEMENTS = 1 << 10, /* fewer are not worth code */
    LARGE_BYTES = 1 << 25,   /* more than one core's share of any last cache */
};

void elementwise_strides(const struct spec *own, const int64_t *strides, const struct spec *shape,
                         int64_t *along)
{
    int64_t dense[SPEC_DIMS];
    spec_strides(own, dense);
    const int extra = shape->n_dims - own->n_dims;
    for (int i = 0; i < shape->n_dims; i++)
        along[i] =
            i < extra || own->dims[i - extra] == 1 ? 0 : (strides ? strides : dense)[i - extra];
}

/* How an operand lies in memory, seen along the output's elements. */
enum layout { LAYOUT_DENSE, LAYOUT_SINGLE, LAYOUT_STRIDED };

static enum layout layout_of(const struct spec *shape, const int64_t *strides)
{
    int64_t dense[SPEC_DIMS];
    spec_strides(shape, dense);
    bool is_dense = true, is_single = true;
    for (int i = 0; i < shape->n_dims; i++) {
        if (shape->dims[i] == 1)
            continue;
        is_dense = is_dense && strides[i] == dense[i];
        is_single = is_single && strides[i] == 0;
    }
    return is_dense ? LAYOUT_DENSE : is_single ? LAYOUT_SINGLE : LAYOUT_STRIDED;
}

#define MOVE(T)                                              \
    {                                                        \
        const T *source = (const T *)from, first = *source;  \
        T *target = (T *)to;                                 \
        for (int64_t i = 0; i < n && !from_stride; i++)      \
            target[i * to_stride] = first;                   \
        for (int64_t i = 0; i < n && from_stride; i++)       \
            target[i * to_stride] = source[i * from_stride]; \
        return;                                              \
    }

static void move(size_t bytes, const char *from, int64_t from_stride, char *to, int64_t to_stride,
                 int64_t n)
{
    switch (bytes) {
    case 1:
        MOVE(uint8_t)
    case 4:
        MOVE(uint32_t)
    default:
        MOVE(uint64_t)
    }
}

/* Copies elements first .. first + n - 1 between an operand and a buffer without gaps. */
static void move_strided(const struct spec *shape, const struct operand *operand, size_t first,
                         size_t n, char *buffer, bool is_load)
{
    const size_t bytes = spec_type_bytes(operand->type);
    const int inner = shape->n_dims - 1;
    while (n) {
        size_t rest = first;
        int64_t offset = 0, column = 0, width = 1, stride = 0;
        for (int d = inner; d >= 0; d--) {
            const int64_t at = (int64_t)(rest % (size_t)shape->dims[d]);
            rest /= (size_t)shape->dims[d];
            offset += at * operand->strides[d];
            if (d == inner) {
                column = at;
                width = shape->dims[d];
                stride = operand->strides[d];
            }
        }
        const int64_t run = width - column < (int64_t)n ? width - column : (int64_t)n;
        char *place = operand->data + offset * (int64_t)bytes;
        if (is_load)
            move(bytes, place, stride, buffer, 1, run);
        else
            move(bytes, buffer, 1, place, stride, run);
        buffer += (size_t)run * bytes;
        first += (size_t)run;
        n -= (size_t)run;
    }
}

/* The buffer of each register; a step may have that of an input which no later step reads. */
struct buffers {
    _Alignas(64) uint64_t bytes[PROGRAM_BUFFERS][ELEMENTWISE_BLOCK];
};

/* Whether a register is a constant: it is computed once, before the first block. A program of one constant computes that. */
static bool is_constant(const struct program *program, unsigned at)
{
    return at >= program->n_inputs && at + 1 < program->n_inputs + program->n_steps &&
           program->steps[at - program->n_inputs].op == &op_constant;
}

/* Chooses a buffer for each step's result, so that few are in use and stay in the cache. */
static void choose_buffers(const struct program *program, uint8_t *buffer_of)
{
    uint8_t last_use[PROGRAM_BUFFERS] = {0}, free_buffers[PROGRAM_BUFFERS];
    unsigned n_free = 0, n_used = program->n_inputs;
    for (unsigned s = 0; s < program->n_steps; s++)
        for (unsigned i = 0; i < program->steps[s].n_inputs; i++)
            last_use[program->steps[s].in[i]] = (uint8_t)s;
    for (unsigned i = 0; i < program->n_inputs; i++)
        buffer_of[i] = (uint8_t)i;
    for (unsigned s = 0; s < program->n_steps; s++) {
        const unsigned out = program->n_inputs + s;
        const bool reuses = n_free && !is_constant(program, out);
        buffer_of[out] = reuses ? free_buffers[--n_free] : (uint8_t)n_used++;
        for (unsigned i = 0; i < program->steps[s].n_inputs; i++) {
            const uint8_t in = program->steps[s].in[i];
            if (in < program->n_inputs || last_use[in] != s || is_constant(program, in))
                continue;
            free_buffers[n_free++] = buffer_of[in];
            last_use[in] = UINT8_MAX; /* once, if the step reads it twice */
        }
    }
}

/* The steps with constants, or the others. */
static void run_steps(const struct program *program, bool constants, const void **registers,
                      struct block *block)
{
    for (unsigned s = 0; s < program->n_steps; s++) {
        if (is_constant(program, program->n_inputs + s) != constants)
            continue;
        const struct step *step = &program->steps[s];
        block->attributes = &step->attributes;
        block->type = step->type;
        block->out_type = step->out_type;
        for (unsigned i = 0; i < step->n_inputs; i++)
            block->in[i] = registers[step->in[i]];
        block->out = (void *)(uintptr_t)registers[program->n_inputs + s];
        step->op->body(block);
    }
}

/* Whether dimension d and the one in front of it are passed with one stride. */
static bool is_joint(const struct spec *shape, int64_t *strides, int d)
{
    if (shape->dims[d] == 1)
        strides[d] = strides[d - 1];
    return shape->dims[d - 1] == 1 || strides[d - 1] == strides[d] * shape->dims[d];
}

/* Makes dimensions that all operands pass with one stride one: runs become longer. */
static void join_dimensions(struct spec *shape, struct operand *inputs, unsigned n,
                            struct operand *out)
{
    for (int d = shape->n_dims - 1; d > 0; d--) {
        bool joint = is_joint(shape, out->strides, d);
        for (unsigned i = 0; i < n && joint; i++)
            joint = is_joint(shape, inputs[i].strides, d);
        if (!joint)
            continue;
        const size_t rest = (size_t)(shape->n_dims - d) * sizeof(int64_t);
        shape->dims[d - 1] *= shape->dims[d];
        memmove(out->strides + d - 1, out->strides + d, rest);
        for (unsigned i = 0; i < n; i++)
            memmove(inputs[i].strides + d - 1, inputs[i].strides + d, rest);
        memmove(shape->dims + d, shape->dims + d + 1, rest - sizeof(int64_t));
        shape->n_dims--;
    }
}

/* So many elements fill the buffers: more of them if none is larger than 4 bytes. */
static size_t block_of(const struct program *program)
{
    bool is_small = true;
    for (unsigned s = 0; s < program->n_steps; s++)
        is_small = is_small && spec_type_bytes(program->steps[s].type) <= 4 &&
                   spec_type_bytes(program->steps[s].out_type) <= 4;
    return is_small ? 2 * ELEMENTWISE_BLOCK : ELEMENTWISE_BLOCK;
}

/* What all parts of a run share. */
struct passage {
    const struct program *program;
    const struct spec *shape;
    const struct operand *inputs, *out;
    uint64_t step;
    size_t count, most; /* elements, and those of a block */
    unsigned n_parts;
    enum layout layouts[PROGRAM_MAX_INPUTS];
    bool is_direct;
    bool has_code;
    struct tile_code code;
    uint8_t buffer_of[PROGRAM_BUFFERS];
};

/* Whole tiles by code, and the elements behind them by the operators' bodies. */
static void run_code(const struct passage *p, const struct block *block, const void **registers)
{
    const size_t done = tile_run(&p->code, registers, block->n);
    const void *rest[PROGRAM_BUFFERS];
    if (done == block->n)
        return;
    for (unsigned r = 0; r < p->program->n_inputs + p->program->n_steps; r++)
        rest[r] = (const char *)registers[r] + done * spec_type_bytes(p->code.type);
    struct block last = {.first = block->first + done, .n = block->n - done, .step = block->step};
    run_steps(p->program, false, rest, &last);
}

static void run_block(const struct passage *p, struct block *block, const void **registers,
                      struct buffers *buffers)
{
    const unsigned result = p->program->n_inputs + p->program->n_steps - 1;
    for (unsigned i = 0; i < p->program->n_inputs; i++) {
        const struct operand *input = &p->inputs[i];
        if (p->layouts[i] == LAYOUT_DENSE)
            registers[i] = input->data + block->first * spec_type_bytes(input->type);
        else if (p->layouts[i] == LAYOUT_STRIDED)
            move_strided(p->shape, input, block->first, block->n, (char *)buffers->bytes[i], true);
    }
    if (p->is_direct)
        registers[result] = p->out->data + block->first * spec_type_bytes(p->out->type);
    if (p->has_code)
        run_code(p, block, registers);
    else
        run_steps(p->program, false, registers, block);
    if (!p->is_direct)
        move_strided(p->shape, p->out, block->first, block->n, (char *)(uintptr_t)registers[result],
                     false);
}

/* Some of the blocks. */
static void run_part(void *context, unsigned part)
{
    const struct passage *p = context;
    const int64_t n_blocks = (int64_t)((p->count + p->most - 1) / p->most);
    const size_t begin = (size_t)nd_engine_begin(n_blocks, p->n_parts, part) * p->most,
                 end = (size_t)nd_engine_begin(n_blocks, p->n_parts, part + 1) * p->most;
    struct buffers buffers;
    const void *registers[PROGRAM_BUFFERS];
    for (unsigned r = 0; r < p->program->n_inputs + p->program->n_steps; r++)
        registers[r] = buffers.bytes[p->buffer_of[r]];
    for (unsigned i = 0; i < p->program->n_inputs; i++)
        if (p->layouts[i] == LAYOUT_SINGLE)
            move(spec_type_bytes(p->inputs[i].type), p->inputs[i].data, 0, (char *)buffers.bytes[i],
                 1, (int64_t)(p->count < p->most ? p->count : p->most));
    struct block block = {.step = p->step, .n = p->count < p->most ? p->count : p->most};
    run_steps(p->program, true, registers, &block);
    for (block.first = begin; block.first < end && block.first < p->count; block.first += block.n) {
        block.n = p->count - block.first < p->most ? p->count - block.first : p->most;
        run_block(p, &block, registers, &buffers);
    }
    tile_fence();
}

/* Operands that do not fit into a cache together come from memory, and the result would leave the caches before anybody
 * reads it; so inputs are fetched ahead, and the result passes by the caches, unless it takes the place of an input. */
static struct tile_options tile_options(const struct passage *p)
{
    size_t bytes = p->is_direct ? p->count * spec_type_bytes(p->out->type) : 0;
    struct tile_options options = {.streams = p->is_direct && tile_can_stream(p->out->data)};
    for (unsigned i = 0; i < p->program->n_inputs; i++) {
        if (p->layouts[i] != LAYOUT_DENSE)
            continue;
        bytes += p->count * spec_type_bytes(p->inputs[i].type);
        options.prefetch |= 1U << i;
        options.streams = options.streams && p->inputs[i].data != p->out->data;
    }
    return bytes > LARGE_BYTES ? options : (struct tile_options){0};
}

void elementwise_run(const struct program *program, const struct spec *given,
                     const struct operand *given_inputs, const struct operand *given_out,
                     uint64_t step)
{
    struct spec shape = *given;
    struct operand inputs[PROGRAM_MAX_INPUTS], out = *given_out;
    memcpy(inputs, given_inputs, program->n_inputs * sizeof *inputs);
    join_dimensions(&shape, inputs, program->n_inputs, &out);
    struct passage passage = {.program = program,
                              .shape = &shape,
                              .inputs = inputs,
                              .out = &out,
                              .step = step,
                              .count = spec_count(&shape),
                              .most = block_of(program),
                              .is_direct = layout_of(&shape, out.strides) == LAYOUT_DENSE};
    choose_buffers(program, passage.buffer_of);
    for (unsigned i = 0; i < program->n_inputs; i++)
        passage.layouts[i] = layout_of(&shape, inputs[i].strides);
    passage.has_code = passage.count >= TILE_ELEMENTS &&
                       tile_compile(program, tile_options(&passage), &passage.code);
    passage.n_parts = nd_engine_split((int64_t)passage.count * program->n_steps, PART_ELEMENTS);
    nd_engine_parts(passage.n_parts, run_part, &passage);
}
