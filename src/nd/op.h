/*
 * op - what an operator is: one struct. The graph, its passes and the engine know operators by this struct alone.
 *
 * An operator has one output and up to OP_MAX_INPUTS inputs. It says
 *
 *   types      to which types its inputs are converted first; the graph inserts the casts
 *   infer      the type and shape of the output; it may fill in shapes of inputs that are not known yet
 *   forward    the computation, on arrays without gaps; or, if the operator is elementwise,
 *   body       the computation on a block of elements, from which fusion makes chains (elementwise.h)
 *   gradient   new nodes that compute the gradients of its inputs
 *   overwrites bit i: the output may use the memory of input i (elementwise operators: any input of the same size)
 *
 * Attributes are the constants of a node: at most 3 lists of integers, 4 integers, 2 numbers. Each operator names those
 * that it has, in the order in which they fill these slots. Pure data and pure functions.
 */
#ifndef ND_OP_H
#define ND_OP_H

#include "base/text.h"
#include "nd/spec.h"

struct graph;

enum { OP_MAX_INPUTS = 16, OP_MAX_ATTRIBUTES = 8 };

struct attributes {
    struct list {
        int32_t n; /* -1: not given */
        int64_t at[SPEC_DIMS];
    } lists[3];
    int64_t integers[4];
    double numbers[2];
};

enum attribute_kind {
    ATTRIBUTE_NONE,
    ATTRIBUTE_LIST,
    ATTRIBUTE_INTEGER,
    ATTRIBUTE_NUMBER,
    ATTRIBUTE_TYPE
};

/* The i-th attribute of its kind fills the i-th slot of that kind; a type fills an integer. */
struct attribute {
    const char *name;
    enum attribute_kind kind;
    double usual;  /* the default of an integer, a number or a type */
    bool required; /* there is no default */
};

enum op_types {
    TYPES_ANY,    /* inputs stay as they are */
    TYPES_SAME,   /* the type that holds all of them */
    TYPES_REAL,   /* likewise, but f64 instead of integers */
    TYPES_WHERE,  /* u8, then as TYPES_SAME */
    TYPES_INDEX,  /* any, then i64, then as the first */
    TYPES_LABEL,  /* real, then i64, then as the first */
    TYPES_I64,    /* i64 */
    TYPES_LOOKUP, /* i64, then real, by default f32 */
};

/* A block of elements. Arrays overlap fully or not at all, so that a body may run in place. */
struct block {
    const struct attributes *attributes;
    enum tern_nd_type type, out_type; /* of the last input, and of the output */
    size_t n;
    uint64_t first; /* the number of the first element */
    uint64_t step;  /* the run of the graph, for random numbers */
    const void *in[3];
    void *out;
};
typedef void op_body(const struct block *block);

struct tensor {
    struct spec spec;
    void *data;
};

/* One run of an operator that is not elementwise. */
struct call {
    const struct attributes *attributes;
    unsigned n_inputs;
    const struct tensor *in;
    struct tensor out;
    void *
        scratch; /* for each of n_parts as many bytes as op->scratch_bytes said, rounded up to 64 */
    unsigned n_parts; /* into which the operator may divide its work (nd_engine_parts) */
    size_t part_bytes;
};

/* The gradient of `node`: `out` is the gradient of its output. Fills in[i], or leaves it at GRAPH_NONE where there is none. */
typedef enum tern_status op_gradient(struct graph *graph, uint32_t node, uint32_t out,
                                     uint32_t *in);

struct op {
    const char *name;
    int8_t n_inputs;   /* -1: one or more */
    int8_t label;      /* number of the input that is no parameter but a label; 0: none */
    int8_t statistics; /* number of the input that follows the moments of input 0; 0: none */
    unsigned ones;     /* bit i: a parameter that is input i begins as ones */
    enum op_types types;
    const char *input_names[4];
    struct attribute attributes[OP_MAX_ATTRIBUTES];
    enum tern_status (*infer)(const struct attributes *attributes, struct spec *in, unsigned n,
                              struct spec *out);
    enum tern_status (*forward)(const struct call *call);
    size_t (*scratch_bytes)(const struct attributes *attributes, const struct spec *in,
                            const struct spec *out);
    op_body *body;
    op_gradient *gradient; /* NULL: the operator is constant almost everywhere, or has no inputs */
    unsigned overwrites;
    bool completes; /* infer fills in the shapes of inputs that are not known */
    bool divides;   /* needs its scratch once for each part of its work */
    bool is_random; /* two equal nodes differ, and each run differs */
};

/* The operator of this name; fails with TERN_INVALID if there is none. */
enum tern_status op_find(const char *name, const struct op **op);

/* All operators, in the order of their names; NULL ends the list. */
const struct op *const *op_list(void);

/* Reads "axis=0,1 keepdims=1"; NULL or "" gives the defaults. Fails with a sentence that names operator and attribute. */
enum tern_status op_read_attributes(const struct op *op, const char *text,
                                    struct attributes *attributes);

/* Writes what is not the default in the same form. */
void op_print_attributes(const struct op *op, const struct attributes *attributes,
                         struct text *out);

/* The slot of the k-th attribute of an operator: the how manieth of its kind it is. */
unsigned op_slot(const struct op *op, unsigned k);

void op_default_attributes(const struct op *op, struct attributes *attributes);

/* The types to which the inputs are converted. */
void op_input_types(const struct op *op, const struct spec *in, unsigned n,
                    enum tern_nd_type *types);

/* Infers the output of an operator whose inputs have their types already. A failure's sentence begins with the operator. */
enum tern_status op_infer(const struct op *op, const struct attributes *attributes, struct spec *in,
                          unsigned n, struct spec *out);

/* An axis counted from the end becomes one counted from the front. */
enum tern_status op_axis(int64_t axis, int n_dims, int64_t *result);

/* The operators that gradients and the graph itself use. */
extern const struct op op_add, op_subtract, op_multiply, op_divide, op_negative, op_exp, op_log,
    op_sqrt, op_square, op_sin, op_cos, op_power, op_sign, op_where, op_greater, op_greater_equal,
    op_less, op_less_equal, op_equal, op_logical_and, op_sigmoid, op_copy, op_cast, op_constant,
    op_full, op_dropout, op_sum, op_sum_to, op_mean, op_max, op_broadcast_to, op_reshape,
    op_transpose, op_slice, op_unslice, op_concat, op_dot, op_take, op_untake, op_embedding,
    op_one_hot, op_softmax, op_log_softmax, op_softmax_output_gradient, op_convolution,
    op_convolution_data, op_convolution_weight, op_pool, op_pool_gradient, op_moments,
    op_batch_norm_sums;

#endif
