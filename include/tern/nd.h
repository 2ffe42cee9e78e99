/*
 * nd.h - arrays, graphs and training for dense models, on Tern's tables. Link with -lternnd.
 *
 * Objects
 *
 *   array     numbers of one type in up to 8 dimensions, as in numpy
 *   symbol    an expression with free variables: a model
 *   module    a symbol bound to shapes, with parameters, gradients and memory: it computes and learns
 *   iterator  batches of rows of data and labels
 *   store     arrays by key that the nodes of a job share, in Tern's tables
 *   embedding a Tern table whose rows are the weights of `embedding` nodes
 *
 * Operators have names and attributes: tern_array_apply("sum", "axis=0 keepdims=1", &x, 1, &y). docs/nd.md lists them.
 *
 * Lazy
 *
 *   A call on arrays returns at once. It adds a node to the graph of pending calls, which is carried out when a value is
 *   read or when it has 256 nodes; then chains of elementwise operators run as one loop, and a result that no array refers
 *   to any more never has memory. The outcome is always that of the program's order.
 *
 * Errors
 *
 *   As in tern.h: a status, and a sentence from tern_error(). A shape that does not fit is reported by the call itself. A
 *   failure during the computation, such as an index out of range, is reported by the first call that waits for a value
 *   which depends on it; the sentence begins with the operator.
 *
 * Threads
 *
 *   Any thread may use any array. Two threads must not write one array, or write and read it, at the same time. The engine
 *   has TERN_THREADS threads, by default one per core; a thread that waits is one of them.
 */
#ifndef TERN_ND_H
#define TERN_ND_H

#include <tern/tern.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_ND_MAX_DIMS 8

enum tern_nd_type {
    TERN_ND_F32 = 0,
    TERN_ND_F64,
    TERN_ND_I32, /* integers wrap around */
    TERN_ND_I64,
    TERN_ND_U8, /* also the type of truth values: 0 or 1 */
};
#define TERN_ND_TYPES 5

struct tern_array;
struct tern_symbol;
struct tern_module;
struct tern_iterator;
struct tern_store;
struct tern_embedding;

/* A dimension is at least 1; no dimension: a single number. */
struct tern_nd_shape {
    enum tern_nd_type type;
    int32_t n_dims;
    int64_t dims[TERN_ND_MAX_DIMS];
};

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* An array with a copy of `data`, row by row without gaps; NULL: zeros. */
TERN_API enum tern_status tern_array_new(const struct tern_nd_shape *shape, const void *data,
                                         struct tern_array **array);

/* An array in memory of the program, without a copy. `strides`, in elements, may be NULL: no gaps. The memory must stay,
 * and must not be written while calls are pending, until `release` is called, at a time and in a thread of Tern's choice,
 * or, if it is NULL, until the array, its views and all calls with them have ended. */
TERN_API enum tern_status tern_array_wrap(const struct tern_nd_shape *shape, const int64_t *strides,
                                          void *data, void (*release)(void *context), void *context,
                                          struct tern_array **array);

TERN_API enum tern_status tern_array_close(struct tern_array *array);

TERN_API enum tern_status tern_array_shape(struct tern_array *array, struct tern_nd_shape *shape);

/* Applies an operator. `attributes`, such as "axis=0 keepdims=1", may be NULL. Inputs broadcast and are promoted to a
 * common type as in numpy. *out is set only on success. */
TERN_API enum tern_status tern_array_apply(const char *operator_name, const char *attributes,
                                           struct tern_array *const *inputs, size_t n_inputs,
                                           struct tern_array **out);

/* Writes `source`, broadcast and converted, into `array` and what shares its memory. */
TERN_API enum tern_status tern_array_assign(struct tern_array *array, struct tern_array *source);

/* Views share the memory of `array`. A slice gives, for the first n dimensions, begin, end and step (at least 1; NULL: 1).
 * `axes` NULL: all in reverse. A reshape needs an array without gaps; one dimension may be -1. */
TERN_API enum tern_status tern_array_slice(struct tern_array *array, uint32_t n,
                                           const int64_t *begin, const int64_t *end,
                                           const int64_t *step, struct tern_array **view);
TERN_API enum tern_status tern_array_transpose(struct tern_array *array, const int64_t *axes,
                                               struct tern_array **view);
TERN_API enum tern_status tern_array_reshape(struct tern_array *array, uint32_t n_dims,
                                             const int64_t *dims, struct tern_array **view);

/* Waits for the value; then *data is its first element, and strides[i], in elements, its step along dimension i. Valid
 * until the array is closed. Until the next call that writes the array, the program may read and write there. */
TERN_API enum tern_status tern_array_data(struct tern_array *array, void **data, int64_t *strides);

/* Waits and copies the value, row by row, into `bytes` bytes, which must be its size. */
TERN_API enum tern_status tern_array_read(struct tern_array *array, void *data, size_t bytes);

/* Waits until everything pending has been carried out. */
TERN_API enum tern_status tern_array_wait_all(void);

/* Reads a file, which may be compressed by gzip: "idx" (MNIST's format), "npy" (numpy's, little-endian, in C's order), or
 * "csv" (rows of numbers and perhaps a heading; f32). libsvm: "label index:value ..." per line, indices from 1; a matrix
 * and its labels, both f32. cifar: a binary file of CIFAR-10; images (n x 3 x 32 x 32) and labels, both u8. */
TERN_API enum tern_status tern_array_load(const char *path, const char *format,
                                          struct tern_array **array);
TERN_API enum tern_status tern_array_load_libsvm(const char *path, struct tern_array **data,
                                                 struct tern_array **labels);
TERN_API enum tern_status tern_array_load_cifar(const char *path, struct tern_array **data,
                                                struct tern_array **labels);

/* ---- Symbols --------------------------------------------------------------------------------- */

/* A free variable. Names have 1 to 63 characters: letters, digits, '_', '.', '-'. */
TERN_API enum tern_status tern_symbol_variable(const char *name, struct tern_symbol **symbol);

/* Applies an operator to symbols. Inputs that are left out at the end become variables: "fully_connected" of one symbol
 * under the name "fc1" gets "fc1_weight" and "fc1_bias". `name` NULL: a name is made of the operator and a number. */
TERN_API enum tern_status tern_symbol_apply(const char *operator_name, const char *attributes,
                                            const char *name, struct tern_symbol *const *inputs,
                                            size_t n_inputs, struct tern_symbol **symbol);

TERN_API enum tern_status tern_symbol_close(struct tern_symbol *symbol);

/* The i-th variable below the symbol, in the order of their use; *name is NULL if there are no more. Valid until the symbol
 * is closed. */
TERN_API enum tern_status tern_symbol_argument(struct tern_symbol *symbol, size_t i,
                                               const char **name);

/* The symbol as JSON text, which C and Python load; *text is to be freed with free(). Shapes that do not fit, unknown
 * operators and wrong text are told when it is loaded or bound, with the nodes' names. */
TERN_API enum tern_status tern_symbol_save(struct tern_symbol *symbol, char **text);
TERN_API enum tern_status tern_symbol_load(const char *text, size_t n, struct tern_symbol **symbol);

/* Infers the shape of a variable, or of the symbol itself if `name` is NULL, from the shapes of n variables. */
TERN_API enum tern_status tern_symbol_infer(struct tern_symbol *symbol, size_t n,
                                            const char *const *names,
                                            const struct tern_nd_shape *shapes, const char *name,
                                            struct tern_nd_shape *shape);

struct tern_nd_plan {
    size_t struct_size;       /* set by the caller: sizeof(struct tern_nd_plan) */
    uint32_t n_nodes;         /* of the graph, with gradients */
    uint64_t parameter_bytes; /* without their gradients */
    uint64_t planned_bytes;   /* the arena, for all values between inputs, parameters and outputs */
    uint64_t separate_bytes;  /* one piece of memory per such value */
    uint64_t alive_bytes;     /* the most that are needed at a time, in the order of the graph */
    double seconds; /* of the processor, that the shapes, gradients, fusion and plan took */
};

/* Plans what tern_module_bind would, and allocates none of the values. All names are inputs. */
TERN_API enum tern_status tern_symbol_plan(struct tern_symbol *symbol, size_t n,
                                           const char *const *names,
                                           const struct tern_nd_shape *shapes, bool predicting,
                                           struct tern_nd_plan *plan);

/* ---- Modules --------------------------------------------------------------------------------- */

struct tern_module_options {
    size_t struct_size;  /* sizeof(struct tern_module_options) */
    size_t n_parameters; /* the last so many of the given variables are parameters, not inputs */
    bool predicting; /* no gradients: backward and update are refused, and less memory is used */
    bool unfused, unshared; /* for comparisons: no fusion; no memory plan */
    size_t n_tables;        /* of weights that are in tables: the variables, and their embeddings */
    const char *const *table_names;
    struct tern_embedding *const *tables;
};

/*
 * Binds a symbol: infers all shapes from those of n variables, its inputs, adds the gradients, and allocates all memory.
 * Labels (the second input of softmax_output) are also inputs; all other variables are parameters, zero at first. `options`
 * may be NULL. A module belongs to one thread at a time.
 */
TERN_API enum tern_status tern_module_bind(struct tern_symbol *symbol, size_t n,
                                           const char *const *names,
                                           const struct tern_nd_shape *shapes,
                                           const struct tern_module_options *options,
                                           struct tern_module **module);
TERN_API enum tern_status tern_module_close(struct tern_module *module);

/* Sets all parameters: "zeros", "uniform" (a to b), "normal" (mean a, deviation b), or "xavier" (uniform in
 * +-sqrt(6 / (inputs + outputs)); a and b unused). Biases, parameters of one dimension, become 0 but with "uniform" and
 * "normal"; gamma of batch_norm becomes 1, and its statistics means of 0 and variances of 1, always. The same seed gives
 * the same numbers. */
TERN_API enum tern_status tern_module_init(struct tern_module *module, const char *kind, double a,
                                           double b, uint64_t seed);

/* "sgd" (rate), "momentum" (rate, decay) or "adam" (rate, beta1, beta2, epsilon), such as "rate=0.1 decay=0.9"; what is
 * left out has the usual value (0.01; 0.9; 0.9, 0.999, 1e-8). Gradients are multiplied by `scale` before: 1 / the number of
 * examples in a batch, where the loss sums over them. */
TERN_API enum tern_status tern_module_optimizer(struct tern_module *module, const char *kind,
                                                const char *parameters, double scale);

/* Computes the output from the values of inputs, in the order of `names` in tern_module_bind, then labels in the order of
 * tern_symbol_argument; NULL leaves an input as it is. They are copied. `training` false: dropout passes values on, and batch_norm
 * normalises by its statistics instead of the batch's.
 * backward computes the gradients of the sum of the output's elements (softmax_output: of the cross entropy). update
 * changes the parameters. All three return at once. */
TERN_API enum tern_status tern_module_forward(struct tern_module *module, bool training,
                                              struct tern_array *const *inputs, size_t n);
TERN_API enum tern_status tern_module_backward(struct tern_module *module);
TERN_API enum tern_status tern_module_update(struct tern_module *module);

/* Arrays of the module's own memory, to be closed by the program; valid also after the module. */
TERN_API enum tern_status tern_module_output(struct tern_module *module, struct tern_array **array);
TERN_API enum tern_status tern_module_parameter(struct tern_module *module, const char *name,
                                                struct tern_array **array);
TERN_API enum tern_status tern_module_gradient(struct tern_module *module, const char *name,
                                               struct tern_array **array);

/* The name of the i-th parameter that is learned; *name is NULL if there are no more. The second: of the i-th statistics of
 * batch_norm, which are set, saved and loaded as parameters are, but have no gradients: each forward with training moves
 * them towards those of the batch. */
TERN_API enum tern_status tern_module_name(struct tern_module *module, size_t i, const char **name);
TERN_API enum tern_status tern_module_state(struct tern_module *module, size_t i,
                                            const char **name);

/* Bytes of values between inputs and outputs: the plan's arena, and one piece per value. */
TERN_API enum tern_status tern_module_memory(struct tern_module *module, uint64_t *planned,
                                             uint64_t *separate);

/* Writes and reads all parameters as a safetensors file. Loading demands the same names and shapes; after a failure the
 * parameters are as before. */
TERN_API enum tern_status tern_module_save(struct tern_module *module, const char *path);
TERN_API enum tern_status tern_module_load(struct tern_module *module, const char *path);

/* ---- Iterators ------------------------------------------------------------------------------- */

struct tern_iterator_options {
    size_t struct_size;     /* sizeof(struct tern_iterator_options) */
    uint32_t batch;         /* rows of a batch */
    uint32_t part, n_parts; /* rows part, part + n_parts, ...; n_parts 0: all */
    uint64_t seed;          /* of the order, a new one in each epoch; 0: not shuffled */
    bool
        drop_last; /* the last batch of an epoch, if it is not full; else it is filled up with other rows */
    bool
        flips; /* mirrors half of the images, rows whose last two dimensions are height and width, left to right */
    uint32_t
        crops; /* moves each image by up to so many elements along both, and fills with zeros */
};

/* Iterates over the rows of two arrays of equal length, which must not be written meanwhile. Flips and crops depend on the
 * seed, the epoch and the row alone. */
TERN_API enum tern_status tern_iterator_open(struct tern_array *data, struct tern_array *labels,
                                             const struct tern_iterator_options *options,
                                             struct tern_iterator **iterator);
TERN_API enum tern_status tern_iterator_close(struct tern_iterator *iterator);

/* The next batch, in arrays of the iterator that are valid until the next call, and the number of its rows that are not
 * filling. *n is 0 at the end of an epoch; the call after it begins the next one. */
TERN_API enum tern_status tern_iterator_next(struct tern_iterator *iterator,
                                             struct tern_array **data, struct tern_array **labels,
                                             uint32_t *n);

/* Where the iterator is. An iterator of the same arrays and options that is set there continues with the same batches. */
TERN_API enum tern_status tern_iterator_tell(struct tern_iterator *iterator, uint64_t *epoch,
                                             uint64_t *position);
TERN_API enum tern_status tern_iterator_seek(struct tern_iterator *iterator, uint64_t epoch,
                                             uint64_t position);

/* One epoch of forward, backward and update; the data is the first input, the labels are the second. */
TERN_API enum tern_status tern_module_fit(struct tern_module *module,
                                          struct tern_iterator *iterator);

/* One epoch of predictions: the share of rows whose largest output is the label's, and the mean cross entropy. Either
 * result may be NULL. */
TERN_API enum tern_status tern_module_score(struct tern_module *module,
                                            struct tern_iterator *iterator, double *accuracy,
                                            double *loss);

/* ---- Stores ---------------------------------------------------------------------------------- */

/* Merges the sum of what all nodes pushed into the value of a key. Both arrays belong to Tern; the program changes `value`.
 * Called in a thread of the library; waiting for arrays is allowed, calls on stores are not. What it returns is the outcome of
 * the pull. */
typedef enum tern_status tern_store_function(void *context, const char *key, struct tern_array *sum,
                                             struct tern_array *value);

struct tern_store_options {
    size_t struct_size;     /* sizeof(struct tern_store_options) */
    struct tern_node *node; /* NULL: the store opens one, and the process joins its job (tern.h) */
    const char *name;       /* of its tables, at most 40 characters; NULL: "store" */
    /* Of `eventual` and `bounded` at most one; neither: sequential. The first pull after pushes waits until all nodes have come
     * so far; it sees the sum of all their pushes, merged once by the store's function.
     * eventual: a push is merged at once, other nodes see it some time later, and after the first pull of a key nobody waits
     * for anybody.
     * bounded: likewise, but a pull sees all pushes of all nodes except those of their last `delay` rounds, and waits for them.
     * A round ends at the first pull after pushes. */
    bool eventual, bounded;
    uint32_t delay; /* at most 1000 */
    uint32_t
        backups; /* deaths of nodes, other than node 0, that the store outlives: 0 to 3 (Backups in tern.h). What a dead
                       * node was merging may be left out of one round. Not of a bounded store */
    double
        rate; /* not sequential: a push is the gradient of a step of sgd with this rate; 0: it is added */
};

/*
 * Opens a store. Its values are f32 arrays in a table with rows of 4 KiB. Processes of one host share the rows, so that their
 * pushes are added up in memory and what leaves the host is one sum. Every node opens the store, uses the same keys, and, but in
 * an eventual store, makes the same calls in the same order. Pushes and pulls are operations of the engine: the calls
 * return at once, a pull has happened when its array can be read, and computations that do not need it go on. The program
 * may change an array after it was pushed. No collective call of tern.h and no other store may be in progress in another thread;
 * tern_store_wait comes before such a call. A store belongs to one thread at a time.
 */
TERN_API enum tern_status tern_store_open(const struct tern_store_options *options,
                                          struct tern_store **store);

/* Waits until all pushes and pulls so far are done; the first failure of one. */
TERN_API enum tern_status tern_store_wait(struct tern_store *store);

/* Waits until all nodes close it. It is closed also when one of them is lost, or a push or a pull failed, which is told. */
TERN_API enum tern_status tern_store_close(struct tern_store *store);

/* What merges the pushes of a sequential store; at first they are added to the value. Called at one node per key. */
TERN_API enum tern_status tern_store_set_function(struct tern_store *store,
                                                  tern_store_function *function, void *context);

/* Keys have 1 to 63 characters. The first pull of a key that no call has named before makes the array of node 0 its value; a
 * first push makes zeros. Later calls must give arrays of the same shape. */
TERN_API enum tern_status tern_store_push(struct tern_store *store, const char *key,
                                          struct tern_array *array);
TERN_API enum tern_status tern_store_pull(struct tern_store *store, const char *key,
                                          struct tern_array *array);

/* ---- Embeddings ------------------------------------------------------------------------------ */

struct tern_embedding_options {
    size_t struct_size; /* sizeof(struct tern_embedding_options) */
    struct tern_node
        *node;        /* NULL: the embedding opens one, and the process joins its job (tern.h) */
    const char *name; /* of the table */
    uint64_t n_rows;  /* ids are below it; 0: any id that is not negative, in a sparse table */
    uint32_t length;  /* of a row */
    double rate;      /* of the adagrad by which rows learn; 0: 0.05 */
    double deviation; /* rows begin as normal numbers with it, drawn by `seed` */
    uint64_t seed;
};

/*
 * Opens a table (policy adaptive) for the weights of `embedding` nodes. A module that is bound with it pulls the rows of the
 * ids in a batch at each forward, and pushes their gradients, summed by id and multiplied by the optimizer's scale, at each
 * update. So only rows that batches name are in memory, on all nodes of the job. Not part of what tern_module_save writes.
 */
TERN_API enum tern_status tern_embedding_open(const struct tern_embedding_options *options,
                                              struct tern_embedding **embedding);

/* TERN_BUSY while modules use it. */
TERN_API enum tern_status tern_embedding_close(struct tern_embedding *embedding);

/* Keys that this process has pulled and pushed so far, and those of them that were at another node. */
TERN_API enum tern_status tern_embedding_accesses(struct tern_embedding *embedding, uint64_t *all,
                                                  uint64_t *remote);

/* From now on tern_iterator_next signals which ids the given columns of the data, of type i64, have in the next `batches`
 * batches of the epoch, so that Tern brings their rows to this node (tern_intent). One step of training per batch. The
 * embedding must stay open. */
TERN_API enum tern_status tern_iterator_look_ahead(struct tern_iterator *iterator,
                                                   struct tern_embedding *embedding, uint32_t first,
                                                   uint32_t n_columns, uint32_t batches);

/* ---- The engine ------------------------------------------------------------------------------ */

/* The threads that compute, the one that waits included: 1 to 256. */
TERN_API enum tern_status tern_nd_set_threads(uint32_t n);

/* For tests and comparisons: whether elementwise chains are fused (true at first). The numbers do not depend on it. */
TERN_API enum tern_status tern_nd_set_fusion(bool on);

/* Whether an operator fails when it makes NaN of numbers that have none; a wait then names the first one that did. Calls that
 * are carried out and modules that are bound meanwhile are not fused. Takes time; false at first. */
TERN_API enum tern_status tern_nd_check_nan(bool on);

/* The names of all operators, in order; NULL if there are no more. */
TERN_API const char *tern_nd_operator(size_t i);

/* What multiplies matrices: "OpenBLAS" or "plain". */
TERN_API const char *tern_nd_gemm(void);

/* What convolves f32: "oneDNN" or "plain". */
TERN_API const char *tern_nd_convolution(void);

/* Operations that the engine has carried out, for tests. */
TERN_API uint64_t tern_nd_operations(void);

#ifdef __cplusplus
}
#endif

#endif
