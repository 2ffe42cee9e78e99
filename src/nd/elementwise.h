/*
 * elementwise - programs of elementwise operators, carried out in blocks that stay in the first cache.
 *
 * A program has registers: first its inputs, then the result of each step. A block of ELEMENTWISE_BLOCK elements goes
 * through all steps before the next block begins, so that results between steps never reach memory. A single operator is
 * a program of one step; since a step is the operator's own body, fusion does not change a bit of any result.
 *
 * Inputs broadcast: they have a stride, in elements, for each dimension of the output, 0 where they are repeated. A
 * program allocates nothing when it runs; any thread may run it.
 */
#ifndef ND_ELEMENTWISE_H
#define ND_ELEMENTWISE_H

#include "nd/op.h"

enum {
    ELEMENTWISE_BLOCK = 512,
    PROGRAM_MAX_INPUTS = 12,
    PROGRAM_MAX_STEPS = 20,
    PROGRAM_BUFFERS = PROGRAM_MAX_INPUTS + PROGRAM_MAX_STEPS,
};

struct step {
    const struct op *op;
    struct attributes attributes;
    enum tern_nd_type type, out_type;
    uint8_t n_inputs;
    uint8_t in[3]; /* registers */
};

struct program {
    unsigned n_inputs, n_steps;
    uint32_t inputs[PROGRAM_MAX_INPUTS]; /* nodes of the graph */
    struct step steps[PROGRAM_MAX_STEPS];
};

/* An operand in memory: where its first element is, and the strides along the dimensions of the output. */
struct operand {
    char *data;
    enum tern_nd_type type;
    int64_t strides[SPEC_DIMS];
};

/* The strides of an array of shape `own`, with strides `strides` (NULL: no gaps), along a shape to which it broadcasts. */
void elementwise_strides(const struct spec *own, const int64_t *strides, const struct spec *shape,
                         int64_t *along);

/* The output may be one of the inputs that have its strides. */
void elementwise_run(const struct program *program, const struct spec *shape,
                     const struct operand *inputs, const struct operand *out, uint64_t step);

#endif
