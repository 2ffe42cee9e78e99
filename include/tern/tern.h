/*
 * tern.h - the public interface of Tern, a parameter manager for large sparse models.
 *
 * The objects
 *
 *   node    this process's part of the parameter space. Open one, usually at program start.
 *   table   parameters of one shape under one name: a value of `length` elements for each key.
 *   worker  one thread's access to the tables of a node, with a clock that counts its steps.
 *
 * Threads
 *
 *   A node and its tables may be used by any thread at any time. A worker belongs to one thread at
 *   a time; open one per thread. Opening and closing tables and workers is safe beside other
 *   threads' work, except that nobody may be using the very handle that is being closed.
 *
 * Ownership
 *
 *   A handle belongs to the program until it closes it. Names and option structs are copied.
 *   Arrays given to a call are used until the call returns, or, for the calls that end in `_start`,
 *   until the operation is reported finished.
 *
 * Errors
 *
 *   Every call that can fail returns a status. When it is not TERN_OK, tern_error() gives a sentence
 *   that names what was wrong; outputs are untouched unless stated otherwise (the value array of a
 *   failed pull, or the row array of a failed pin, has unspecified content), and parameters are as
 *   they were before the call: a call does all or nothing. (A write that fails for want of memory may
 *   leave entries that were new to a sparse table, with their initial value. In a cluster, a write
 *   that fails with TERN_PEER may have been done at the nodes that did answer.) NULL, a closed handle,
 *   a handle of another kind and a handle of another node are all reported, not followed: closed
 *   handles stay recognisable until a thousand more have been closed.
 *
 * The library prints nothing, installs no signal handler and never ends the process.
 */
#ifndef TERN_H
#define TERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_VERSION_MAJOR 0
#define TERN_VERSION_MINOR 1
#define TERN_VERSION_PATCH 0

#if defined(__GNUC__)
#define TERN_API __attribute__((visibility("default")))
#else
#define TERN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct tern_node;
struct tern_table;
struct tern_worker;

/* ---- Status ---------------------------------------------------------------------------------- */

enum tern_status {
    TERN_OK = 0,
    TERN_INVALID,   /* an argument makes no sense: NULL, zero length, unknown name, NaN parameter */
    TERN_RANGE,     /* a key is outside the table's key space */
    TERN_CLOSED,    /* the handle was closed */
    TERN_MISMATCH,  /* a table exists with another shape, or handles belong to different nodes */
    TERN_NO_MEMORY, /* memory, or the table's own limit of it, is used up */
    TERN_LIMIT,     /* a limit stated in this header is reached */
    TERN_BUSY,      /* the object is in use and cannot be closed yet */
    TERN_CONFLICT,  /* the entries of a range are not those the caller saw */
    TERN_PEER,      /* another node cannot be reached, has died, has left or does not answer */
    TERN_NETWORK,   /* this node's own network: a bad address, a port in use, certificates */
};

/* The sentence for the last failed call of this thread; "" when there was none. Valid until the
 * thread's next failure. */
TERN_API const char *tern_error(void);

/* The name of a status, such as "TERN_RANGE". */
TERN_API const char *tern_status_name(enum tern_status status);

/* "0.1.0", and the instruction set chosen for this machine: "scalar", "avx2", "avx512" or "neon".
 * The environment variable TERN_KERNEL overrides the choice when the machine has what it names. */
TERN_API const char *tern_version(void);
TERN_API const char *tern_kernel_name(void);

/* ---- Node ------------------------------------------------------------------------------------ */

struct tern_node_options {
    size_t struct_size; /* sizeof(struct tern_node_options) */
};

/*
 * Opens a node. `options` may be NULL for the defaults.
 *
 * A process started by `tern run`, mpirun, srun or torchrun joins the others (README tells which
 * variables it reads); the call returns when all are there, and fails within the deadline
 * (TERN_DEADLINE, 10 s) when they are not. Otherwise the node is alone and opens no socket.
 */
TERN_API enum tern_status tern_node_open(const struct tern_node_options *options,
                                         struct tern_node **node);

/* Closes a node and its tables. TERN_BUSY while workers are open. In a cluster the call returns when
 * all other nodes have called it, too, because until then they may use this node's rows; a node that
 * died is reported as TERN_PEER, and this one is closed all the same. */
TERN_API enum tern_status tern_node_close(struct tern_node *node);

/* This node's number, from 0, and the number of nodes. Either pointer may be NULL. */
TERN_API enum tern_status tern_node_self(struct tern_node *node, uint32_t *index, uint32_t *count);

/* ---- Table ----------------------------------------------------------------------------------- */

enum tern_index {
    TERN_DENSE = 0, /* keys 0 .. n_keys-1; every key exists from the start */
    TERN_SPARSE,    /* any 64-bit key; an entry exists once it has been written or pinned, or once it
                       has been read and its initialiser is not TERN_INIT_ZERO */
};

enum tern_type {
    TERN_F32 = 0,
    TERN_F64,
    TERN_I32, /* integer addition wraps around */
    TERN_I64,
};

/* The value a key has before anything was written to it. It depends on `seed` and the key alone,
 * never on the order of access, so all runs and all nodes agree on it. */
enum tern_init_kind {
    TERN_INIT_ZERO = 0,
    TERN_INIT_CONSTANT, /* every element is a; integer types: an integer of at most 2^30 (i32) or
                           2^62 (i64) in size */
    TERN_INIT_UNIFORM,  /* uniform in [a, b); integer types: a .. b-1, limits as above */
    TERN_INIT_NORMAL,   /* mean a, standard deviation b; floating types only */
    TERN_INIT_FUNCTION, /* what `function` writes */
};

/* Writes the initial value of `key`: `length` elements. Called at most once per key and node at a
 * time, but from any thread; it must not call Tern. */
typedef void tern_init_function(void *context, uint64_t key, void *value, size_t length);

struct tern_init {
    enum tern_init_kind kind;
    uint64_t seed;
    double a;
    double b;
    tern_init_function *function;
    void *context;
};

/*
 * An updater says what a push does to a row: row = f(row, state, pushed). It runs where the main
 * copy of the row is, one call at a time per row, with the per-row state it asks for, whose layout is
 * its own; pulls never copy the state. An all-zero struct tern_updater means addition. The functions
 * below make the ones that come with Tern; a program may fill in its own. `name` and `parameters`
 * identify an updater when a table is opened twice, so give different behaviour a different name.
 */
struct tern_updater;

/* Applies `update` to `value` (both `length` elements of `type`) and `state`; must not call Tern. */
typedef void tern_update_function(const struct tern_updater *updater, enum tern_type type,
                                  size_t length, void *value, void *state, const void *update);

/* Sets the state of a row that has just got `value` by initialisation or tern_set. */
typedef void tern_reset_function(const struct tern_updater *updater, enum tern_type type,
                                 size_t length, const void *value, void *state);

/* Says what is wrong with an updater's parameters for a table of `type`, or NULL: nothing. */
typedef const char *tern_check_function(const struct tern_updater *updater, enum tern_type type);

#define TERN_UPDATER_PARAMETERS 5

struct tern_updater {
    const char *name;              /* at most 31 characters; NULL for addition */
    uint32_t state_per_element;    /* state elements of the table's type for each value element */
    uint32_t state_per_row;        /* state elements of the table's type in addition, per row */
    tern_update_function *apply;
    tern_reset_function *reset;    /* NULL: the state starts as zero */
    tern_check_function *check;    /* called when a table is opened; NULL: anything goes */
    double parameters[TERN_UPDATER_PARAMETERS];
    void *context;                 /* for the program's own updaters; Tern does not touch it */
};

/* The updaters of Tern, for f32 and f64 tables; g is what is pushed, w the row. State starts as 0
 * unless stated. When the table is opened, parameters must be finite, rates, epsilons and alpha above
 * 0, decay and betas of adam in [0, 1), the others not negative, and ftrl's beta + l2 above 0.
 *
 *   sgd       w -= rate * g
 *   momentum  m = decay * m + g;  w -= rate * m
 *   adagrad   s += g*g;  w -= rate * g / (sqrt(s) + epsilon)
 *   adam      m = beta1*m + (1-beta1)*g;  v = beta2*v + (1-beta2)*g*g;  t += 1 (per row);
 *             w -= rate * (m / (1-beta1^t)) / (sqrt(v / (1-beta2^t)) + epsilon)
 *   ftrl      s = (sqrt(n+g*g) - sqrt(n)) / alpha;  z += g - s*w;  n += g*g;
 *             w = |z| <= l1 ? 0 : -(z - sign(z)*l1) / ((beta + sqrt(n)) / alpha + l2)
 *             (z starts as the value that yields the row's present w, so nothing is lost) */
TERN_API struct tern_updater tern_updater_sgd(double rate);
TERN_API struct tern_updater tern_updater_momentum(double rate, double decay);
TERN_API struct tern_updater tern_updater_adagrad(double rate, double epsilon);
TERN_API struct tern_updater tern_updater_adam(double rate, double beta1, double beta2,
                                               double epsilon);
TERN_API struct tern_updater tern_updater_ftrl(double alpha, double beta, double l1, double l2);

#define TERN_MAX_TABLES 256            /* open at one time, per node */
#define TERN_MAX_NAME 63               /* characters of a table's name */
#define TERN_MAX_VALUE_BYTES (1 << 24) /* bytes of one value with its updater's state */
#define TERN_MAX_ROWS (UINT64_C(1) << 32) /* rows of one table on one node */
#define TERN_MAX_DENSE_KEYS (UINT64_C(1) << 40) /* n_keys of a dense table over all nodes */

/* What a table is. Zero is the default of every member but struct_size, length and, for dense
 * tables, n_keys. */
struct tern_table_options {
    size_t struct_size; /* sizeof(struct tern_table_options) */
    enum tern_index index;
    enum tern_type type;
    uint64_t n_keys; /* dense: the key space. Sparse: must be 0 */
    uint32_t length; /* elements of a value */
    struct tern_init init;
    struct tern_updater updater;
    uint64_t memory_limit_bytes; /* 0: what the machine has; per node */
    const char *policy;          /* how a cluster manages the keys; NULL: "static" */
};

/*
 * The policies:
 *
 *   static     each key is at its home node, for good: a classic parameter server.
 *   replicate  every node has every key; pulls and pushes are local, and the copies exchange their
 *              changes in continuous rounds through the key's home. A pull sees what this node has
 *              pushed and what has arrived; tern_quiesce makes all agree. For tables that are added to
 *              (no updater); a set acts as the push of the difference.
 */

/* Opens the table `name`, creating it when it is new. Opening it again with the same options gives
 * the same table once more, to be closed once more; other options are a TERN_MISMATCH. In a cluster
 * every node opens it, with the same options; other nodes' requests wait until it has. */
TERN_API enum tern_status tern_table_open(struct tern_node *node, const char *name,
                                          const struct tern_table_options *options,
                                          struct tern_table **table);

/* Closes one opening of a table. The last one ends the table and its parameters; it is TERN_BUSY while
 * rows are pinned. */
TERN_API enum tern_status tern_table_close(struct tern_table *table);

/* ---- Worker ---------------------------------------------------------------------------------- */

TERN_API enum tern_status tern_worker_open(struct tern_node *node, struct tern_worker **worker);

/* Closes a worker. TERN_BUSY while it holds pinned rows. */
TERN_API enum tern_status tern_worker_close(struct tern_worker *worker);

/* The worker's clock starts at 0; it is the time scale for statements about the future. Advancing
 * says: one step (batch, sample, ...) is done. `clock` may be NULL. */
TERN_API enum tern_status tern_worker_advance(struct tern_worker *worker, uint64_t *clock);
TERN_API enum tern_status tern_worker_clock(struct tern_worker *worker, uint64_t *clock);

/* ---- Access ---------------------------------------------------------------------------------- */

/*
 * The i-th value is at values + i * length elements. A key may stand several times in `keys`: each
 * push counts, each pull gets the value, of several sets the last one stays. A value is read and
 * written as a whole: a pull never sees half of a push. n may be 0, and the arrays NULL then.
 *
 * pull   reads the values of n keys.
 * push   hands n updates to the table's updater (by default it adds them).
 * set    replaces n values and resets the updater's state for them.
 */
TERN_API enum tern_status tern_pull(struct tern_worker *worker, struct tern_table *table,
                                    const uint64_t *keys, size_t n, void *values);
TERN_API enum tern_status tern_push(struct tern_worker *worker, struct tern_table *table,
                                    const uint64_t *keys, size_t n, const void *updates);
TERN_API enum tern_status tern_set(struct tern_worker *worker, struct tern_table *table,
                                   const uint64_t *keys, size_t n, const void *values);

/*
 * The same, started now and finished later. `ticket` names the operation for this worker; keys and
 * values must stay in place until tern_test says `done` or tern_wait has returned. Operations of one
 * worker on one key take effect in the order they were started. A failure that is known at once is
 * returned by the start, with no ticket; a later one by tern_test or tern_wait, once. A ticket may
 * be waited for again without effect.
 */
TERN_API enum tern_status tern_pull_start(struct tern_worker *worker, struct tern_table *table,
                                          const uint64_t *keys, size_t n, void *values,
                                          uint64_t *ticket);
TERN_API enum tern_status tern_push_start(struct tern_worker *worker, struct tern_table *table,
                                          const uint64_t *keys, size_t n, const void *updates,
                                          uint64_t *ticket);
TERN_API enum tern_status tern_set_start(struct tern_worker *worker, struct tern_table *table,
                                         const uint64_t *keys, size_t n, const void *values,
                                         uint64_t *ticket);
TERN_API enum tern_status tern_test(struct tern_worker *worker, uint64_t ticket, bool *done);
TERN_API enum tern_status tern_wait(struct tern_worker *worker, uint64_t ticket);

/*
 * Reads the existing entries with begin <= key < end in ascending order of their keys: at most
 * `capacity` of them, their number in *n. When *n equals capacity there may be more; go on from
 * keys[*n - 1] + 1. In a dense table every key exists, and `end` may be at most n_keys. `values` may
 * be NULL to learn the keys alone. A sparse table looks at its whole index for a range wider than it
 * has entries, so ask for many at a time. (The key UINT64_MAX is in no range.)
 */
TERN_API enum tern_status tern_pull_range(struct tern_worker *worker, struct tern_table *table,
                                          uint64_t begin, uint64_t end, size_t capacity,
                                          uint64_t *keys, void *values, size_t *n);

/*
 * Pushes one update to every existing entry with begin <= key < end: the i-th of n updates goes to
 * the i-th entry in ascending order of keys, as tern_pull_range delivered them. When there are not
 * exactly n such entries (others have appeared since), nothing is changed: TERN_CONFLICT.
 */
TERN_API enum tern_status tern_push_range(struct tern_worker *worker, struct tern_table *table,
                                          uint64_t begin, uint64_t end, size_t n,
                                          const void *updates);

/*
 * Direct use. Pins the rows of n keys and gives a pointer to each: `length` elements that the
 * program may read and write in place until it unpins them with the same keys. This is Hogwild:
 * there is no latch, no updater and no order; a write may be lost to another writer of the same
 * element and a concurrent pull may see part of it. A row may be pinned many times, by many workers;
 * pins are counted, and each worker ends as many as it began.
 */
TERN_API enum tern_status tern_pin(struct tern_worker *worker, struct tern_table *table,
                                   const uint64_t *keys, size_t n, void **rows);
TERN_API enum tern_status tern_unpin(struct tern_worker *worker, struct tern_table *table,
                                     const uint64_t *keys, size_t n);

/* ---- All nodes at once ------------------------------------------------------------------------ */

/*
 * What all nodes do at once: every node makes these calls, in the same order, from one thread each. The
 * arrays are small: at most 1 MiB. The wait is as long as the others work; a node that dies or leaves
 * meanwhile is a TERN_PEER that names it.
 *
 * barrier     waits for all nodes. Every update whose push was waited for before is then seen by all.
 * quiesce     a barrier after which all replicas agree: every push before it is in every copy.
 * all_reduce  replaces n numbers by their sums over all nodes, added in the order of the nodes, so
 *             that all get the same bits.
 * broadcast   copies the bytes of node `root` to all.
 */
TERN_API enum tern_status tern_barrier(struct tern_node *node);
TERN_API enum tern_status tern_quiesce(struct tern_node *node);
TERN_API enum tern_status tern_all_reduce(struct tern_node *node, enum tern_type type, size_t n,
                                          void *values);
TERN_API enum tern_status tern_broadcast(struct tern_node *node, uint32_t root, size_t bytes,
                                         void *data);

/* ---- Statistics ------------------------------------------------------------------------------ */

struct tern_table_stats {
    size_t struct_size;     /* set by the caller: sizeof(struct tern_table_stats) */
    uint64_t pulled_keys;   /* keys pulled, pushed, set and pinned so far, by all workers */
    uint64_t pushed_keys;
    uint64_t set_keys;
    uint64_t pinned_keys;
    uint64_t remote_keys;   /* of those, keys that were at another node */
    uint64_t rows;          /* rows that occupy memory here */
    uint64_t value_bytes;   /* their values alone */
    uint64_t memory_bytes;  /* all the table takes: index, rows and updater state */
};

struct tern_node_stats {
    size_t struct_size;           /* set by the caller: sizeof(struct tern_node_stats) */
    uint64_t refused_connections; /* that sent nonsense, did not authenticate or were of another job */
};

/* Counts as of now; beside running workers they are a moment old, never torn. */
TERN_API enum tern_status tern_node_get_stats(struct tern_node *node,
                                              struct tern_node_stats *stats);

TERN_API enum tern_status tern_table_get_stats(struct tern_table *table,
                                               struct tern_table_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
