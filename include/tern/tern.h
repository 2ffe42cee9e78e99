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
 *   that fails at another node, with TERN_PEER, TERN_NO_MEMORY or TERN_CLOSED, may have been done here and
 *   at the nodes that did not fail.) NULL, a closed handle,
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
    TERN_LATE,      /* another worker is so far behind that a bounded read cannot be made yet */
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
    /* A cluster inside this process, for tests and for programs that have no launcher: the nodes that
     * are opened here under the same name, 1 to 48 visible characters, are its nodes, whatever the
     * environment says. Each is opened, used and closed by threads of its own, since opening waits for
     * all others. NULL: none, and what follows does not count. */
    const char *group;
    uint32_t node, n_nodes; /* this one's number, from 0, and how many there are */
};

/*
 * Opens a node. `options` may be NULL for the defaults.
 *
 * A process started by `tern run`, mpirun, srun or torchrun joins the others (README tells which
 * variables it reads); the call returns when all are there, and fails within the deadline
 * (TERN_DEADLINE, 10 s) when they are not. Each worker has a connection to each shard of each node that it
 * asks; so the process's limit of open files is raised as far as the system allows. Otherwise the node is alone and
 * opens no socket.
 */
TERN_API enum tern_status tern_node_open(const struct tern_node_options *options,
                                         struct tern_node **node);

/* Closes a node and its tables. TERN_BUSY while workers are open. In a cluster the call returns when
 * all other nodes have called it, too, because until then they may use this node's rows, and have their
 * tasks run here; a node that died is reported as TERN_PEER, and this one is closed all the same. */
TERN_API enum tern_status tern_node_close(struct tern_node *node);

/* This node's number, from 0, and the number of nodes. Either pointer may be NULL. */
TERN_API enum tern_status tern_node_self(struct tern_node *node, uint32_t *index, uint32_t *count);

/* ---- Table ----------------------------------------------------------------------------------- */

enum tern_index {
    TERN_DENSE = 0, /* keys 0 .. n_keys-1; every key exists from the start */
    TERN_SPARSE,    /* any 64-bit key; an entry exists once it has been written or pinned, or once it
                       has been read and its initialiser is not TERN_INIT_ZERO. Where keys move or are
                       copied, that may also make the entry: it has its initial value then */
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
    uint64_t memory_limit_bytes; /* 0: what the machine has; per node, so nodes that share a table grant more */
    const uint64_t *replicated;  /* policy "multi": the keys that every node has; copied */
    size_t n_replicated;
    const uint64_t *frequencies; /* or, of a dense table, n_keys counts of accesses, to choose them by */
    const char *policy;          /* how a cluster manages the keys; NULL: "adaptive" */
};

/*
 * The policies. All but `static` and `replicate` move or copy keys to where they are about to be used;
 * an updater runs at the main copy, and what is pushed to a replica is gathered and applied there.
 *
 *   adaptive    (default) acts on tern_intent: a key moves to the node that alone wants it, and is
 *               copied to each node while several do. A pull of a replica sees what this node has pushed
 *               and what has arrived; tern_quiesce makes all agree. Where all nodes are on one host, that is,
 *               meet at Unix sockets, no key moves or is copied: the table is in memory that all of them
 *               share, what one pushes is there for all at once, and intent is not needed. It then lasts as
 *               long as any node has it open, and who opens it later finds what it holds. When a node
 *               dies, calls on it fail as soon as that is known, since a row may be half written.
 *   static      each key is at its home node, for good: a classic parameter server.
 *   replicate   every node has every key; pulls and pushes are local, and the copies exchange their
 *               changes in continuous rounds: through the key's home, or among 32 nodes and more, if there
 *               is no updater, by an all-reduce, which ends for all when a node closes the table: then the
 *               copies stay as they are. (Open all tables before the first tern_flush: see README, what is
 *               missing.) A set acts as the push of the difference; with an updater it is done at the
 *               home, and waits for a round.
 *   relocate    keys move where tern_localize asks for them, and are never copied.
 *   multi       as relocate, but some keys are copied to every node for good: those listed in
 *               `replicated`; or those used more than 100 times as often as the average, by the counts
 *               in `frequencies` or, without either, by a sample of what is localized at each node.
 *
 * Policies with bounded reads; docs/staleness.md. Each key is at its home, and every node has a replica of
 * the keys it uses. For tables that are added to (no updater); a set acts as the push of the difference.
 * What a worker has pushed it sees at once. Every node opens a worker, and all workers before the first of
 * them advances; tern_worker_rest is for those that have nothing to do.
 *
 *   ssp:S       a pull at clock c sees every update that any worker has pushed at a clock up to c - S - 1,
 *               and waits for those that have not come. A replica is fetched anew when it is too old.
 *   bsp         the same as ssp:0: nobody reads before all have finished the clock before.
 *   essp:S      the same promise; but replicas get what was changed as the table's clock advances, so
 *               what is read is usually much newer, and waits are shorter.
 *   vap:V       a push, set or advance waits while the sum of the worker's updates that some node which
 *               uses the keys has not got may exceed V in some element. V/sqrt: V / sqrt(1 + clock).
 *
 * A wait ends with TERN_LATE after the deadline (TERN_DEADLINE, 10 s), with a sentence that names the
 * worker or node that holds everybody back; nothing has changed then, and the call may be repeated.
 * Rows of such tables cannot be pinned, and sparse ones have no ranges.
 *
 * For comparison: `adaptive-apart` is the same without sharing memory; and without that, `adaptive-replicate` never
 * moves a key, `adaptive-relocate` never copies one, and `adaptive-at-once` acts on every intent as soon as it is
 * signalled; `replicate-owners` and `replicate-doubling` go one way whatever the number of nodes.
 */

/* Opens the table `name`, creating it when it is new. Opening it again with the same options gives
 * the same table once more, to be closed once more; other options are a TERN_MISMATCH. In a cluster
 * every node opens it, with the same options; other nodes' requests wait until it has. A table that was
 * closed and is opened again is a new one, of any shape: again the same for all nodes that do so. A cluster
 * can open 65536 in its life, a node have TERN_MAX_TABLES at a time. */
TERN_API enum tern_status tern_table_open(struct tern_node *node, const char *name,
                                          const struct tern_table_options *options,
                                          struct tern_table **table);

/* Closes one opening of a table. The last one ends the table and its parameters, if nodes share it the last of all
 * nodes; it is TERN_BUSY while rows are pinned, operations that were started have not been waited for, or
 * distributions on it are open. */
TERN_API enum tern_status tern_table_close(struct tern_table *table);

/* ---- Worker ---------------------------------------------------------------------------------- */

TERN_API enum tern_status tern_worker_open(struct tern_node *node, struct tern_worker **worker);

/* Closes a worker and ends its samples. TERN_BUSY while it holds pinned rows or its tasks run. */
TERN_API enum tern_status tern_worker_close(struct tern_worker *worker);

/* The worker's clock starts at 0; it is the time scale for statements about the future. Advancing
 * says: one step (batch, sample, ...) is done. `clock` may be NULL. */
TERN_API enum tern_status tern_worker_advance(struct tern_worker *worker, uint64_t *clock);
TERN_API enum tern_status tern_worker_clock(struct tern_worker *worker, uint64_t *clock);

/* Says that the worker has nothing to do for now: until its next push or set to a table with bounded reads, or its
 * next advance, nobody waits for it. Others may go on meanwhile as far as they like; when the worker comes
 * back it counts as being where they are, whatever tern_worker_clock says. */
TERN_API enum tern_status tern_worker_rest(struct tern_worker *worker);

/* ---- Intent ---------------------------------------------------------------------------------- */

/*
 * Says that this worker will use the n keys while start <= its clock < end. The data loader calls it
 * for batches to come; Tern then has the keys at this node, moved or copied, just before the worker's
 * clock reaches `start`. It is a hint: optional, cheap, any number of them, overlapping or repeated.
 * Keys without intent are reached all the same, at their node. Intents end when the clock reaches
 * `end`; an `end` that has passed, or equals `start`, has no effect, a `start` that has passed means
 * now. start > end is TERN_INVALID; a key outside a dense table TERN_RANGE, and then none counts.
 * Tables whose policy does not act on intent, and nodes that are alone, ignore it. A worker may close
 * with intents open: they end. A table may be closed while its keys travel: other nodes get TERN_CLOSED
 * when they need rows that were there. Keys for which there is no memory here are not brought; they are
 * used where they are.
 */
TERN_API enum tern_status tern_intent(struct tern_worker *worker, struct tern_table *table,
                                      const uint64_t *keys, size_t n, uint64_t start, uint64_t end);

/*
 * Moves the n keys to this node, for tables of the policies `relocate` and `multi`, and returns when they
 * are here; others ignore it. A key that is pinned, or that every node has a replica of, stays.
 */
TERN_API enum tern_status tern_localize(struct tern_worker *worker, struct tern_table *table,
                                        const uint64_t *keys, size_t n);

/* Returns when everything this worker has pushed and set so far is at the main copies. (So far it may be
 * in replicas here, and under way.) All its operations under way are waited for. */
TERN_API enum tern_status tern_flush(struct tern_worker *worker);

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
 * pins are counted, and each worker ends as many as it began. A row stays where it is while it is pinned.
 *
 * In a cluster the rows must be here (tern_intent and tern_localize bring them), or the pin is TERN_INVALID: as
 * main copies or, in a table without updater, as replicas, in which what was written counts as the push of
 * the difference when the row is unpinned.
 */
TERN_API enum tern_status tern_pin(struct tern_worker *worker, struct tern_table *table,
                                   const uint64_t *keys, size_t n, void **rows);
TERN_API enum tern_status tern_unpin(struct tern_worker *worker, struct tern_table *table,
                                     const uint64_t *keys, size_t n);

/* ---- Sampling -------------------------------------------------------------------------------- */

/*
 * Sampling asks for some keys of a distribution instead of given ones, as negative sampling does, and
 * leaves it to Tern to choose, within a promise of quality, keys that are cheap to reach from here.
 *
 *   tern_dist_open       names what is drawn from, the target, and the promise, the conformity
 *   tern_sample_prepare  says how many keys will be wanted; Tern begins to bring them here
 *   tern_sample_pull     hands them out with their values, in one part or several
 *
 * Updates go to the keys as usual, with tern_push. A distribution may be used by any thread, a sample
 * by the worker that prepared it. Nodes open distributions each for itself.
 */
struct tern_dist;

/* What a worker's samples promise (NuPS, SIGMOD 2022, Section 4.1). Each level includes those below;
 * each next one is cheaper. */
enum tern_conformity {
    TERN_CONFORM = 0, /* samples follow the target and are independent of each other */
    TERN_BOUNDED,     /* each follows the target and depends on none but the last U * G of its worker:
                         G keys are drawn and used U times each, in fresh random orders. Workers are
                         independent of each other, on one node or several */
    TERN_LONG_TERM,   /* frequencies follow the target in the long run: as before, but a key that is
                         not here yet is put off to the end of its sample, once */
    TERN_NON_CONFORM, /* keys of the target that are at this node now; no promise how often. When none
                         is known to be here, one that is elsewhere */
};

enum tern_target_kind {
    TERN_TARGET_UNIFORM = 0, /* every key alike */
    TERN_TARGET_WEIGHTS,     /* a key as often as its weight says; 8 bytes of memory per key */
    TERN_TARGET_COUNTS,      /* the same with count^0.75, as word2vec draws its negatives */
    TERN_TARGET_FUNCTION,    /* what `function` draws */
};

/* Makes a key of 64 random bits. Who needs more bits makes them from these. The key should depend on
 * the arguments alone. Called by any worker at any time; it must not call Tern. */
typedef uint64_t tern_draw_function(void *context, uint64_t random);

#define TERN_MAX_DISTS 256 /* distributions open at one time, per node */
#define TERN_MAX_SAMPLES (1 << 20) /* samples open at one time, per worker */
#define TERN_MAX_WEIGHTS ((UINT64_C(1) << 32) - 1) /* keys of a target with weights or counts */
#define TERN_MAX_POOL_KEYS (1 << 16)
#define TERN_MAX_POOL_USES (1 << 16)

/* What is drawn from. Zero is the default of every member but struct_size and those that its kind
 * needs. Arrays are copied, or made into what is needed of them. */
struct tern_target {
    size_t struct_size; /* sizeof(struct tern_target) */
    enum tern_target_kind kind;
    uint64_t begin, end;    /* the keys: begin .. end-1; not for functions */
    const uint64_t *keys;   /* not NULL: begin and end are positions in this array of keys; then each
                               key takes 8 bytes of memory more */
    const double *weights;  /* the i-th for the i-th key; finite, not negative, not all 0. One below
                               2^-32 of the mean counts as 0 */
    const uint64_t *counts; /* likewise, not all 0 */
    tern_draw_function *function;
    void *context;
    uint64_t seed;      /* the same seed, and the same order of opening distributions and workers, give
                           the same keys on the same node, as far as they do not depend on what is here */
    uint32_t pool_keys; /* G and U of TERN_BOUNDED and TERN_LONG_TERM; 0: 250 and 16 */
    uint32_t pool_uses;
};

/* Opens a distribution over keys of a table, which stays open until the distribution is closed. */
TERN_API enum tern_status tern_dist_open(struct tern_table *table, const struct tern_target *target,
                                         enum tern_conformity conformity, struct tern_dist **dist);

/* TERN_BUSY while samples of it are open. */
TERN_API enum tern_status tern_dist_close(struct tern_dist *dist);

/*
 * Begins a sample of n keys, at least one, and returns at once; its number, for this worker, goes to
 * *sample. Call it some steps ahead, as with tern_intent, so that keys have arrived when they are
 * pulled; the worker's clock, which must then be advanced, tells Tern how long they are needed.
 */
TERN_API enum tern_status tern_sample_prepare(struct tern_worker *worker, struct tern_dist *dist,
                                              size_t n, uint64_t *sample);

/*
 * Hands out the next n keys of a sample and their values, or the keys alone if `values` is NULL. More
 * than are left is TERN_INVALID. A sample is over when its last key has been handed out; its number is
 * TERN_CLOSED then. After a failure `keys` and `values` have unspecified content, and the same number
 * of keys as before is left.
 */
TERN_API enum tern_status tern_sample_pull(struct tern_worker *worker, uint64_t sample, size_t n,
                                           uint64_t *keys, void *values);

/* Gives up what is left of a sample. */
TERN_API enum tern_status tern_sample_end(struct tern_worker *worker, uint64_t sample);

/* ---- Tasks ----------------------------------------------------------------------------------- */

/*
 * Functions of the program that are run at a node or a group of nodes, where the parameters or the data
 * are, and the order in which they run (M. Li, thesis, 3.2).
 *
 *   tern_function_register  gives a function its name, at this node
 *   tern_task_submit        has it run at some nodes, and returns at once
 *   tern_task_wait          waits until it has finished; tern_task_test asks
 *   tern_task_delay         says how far a worker's tasks may run ahead of each other
 *   tern_task_progress      tells how far nodes have come with a range of keys
 *
 * Order. The tasks of a worker are numbered from 1. Task t starts, at whichever node, when
 *
 *   - all tasks of its worker up to t - delay - 1 have finished. A delay of 0, as it is at first, runs
 *     them one after the other (sequential), TERN_EVENTUAL all at once, and others are between;
 *   - and all tasks it lists in `after` have finished.
 *
 * Otherwise tasks run beside each other, at each node on up to TERN_MAX_TASK_THREADS threads of Tern's own.
 * A task has finished when its function has returned at all nodes it was sent to, and whatever that
 * function submitted has finished, too; whether with success or not. A program that is not to go on after
 * a failure waits before it submits more. Tasks see what was pushed before if that was waited for.
 *
 * Each task runs once at each of its nodes, also when connections break. When a node dies, its tasks fail
 * (TERN_PEER); whether they ran is then not known.
 */
#define TERN_EVENTUAL UINT64_MAX       /* a delay without bound */
#define TERN_ALL_NODES UINT32_MAX      /* for tern_task_progress */
#define TERN_MAX_FUNCTIONS 256         /* registered at a node */
#define TERN_MAX_TASKS 1024            /* of a worker, not finished or failed and not waited for */
#define TERN_MAX_TASK_BYTES (1 << 20)  /* of an argument; of a result; 64 of them may wait at a node */
#define TERN_MAX_TASK_THREADS 16       /* of a node */
#define TERN_MAX_TASK_DEPTH 240        /* functions of a node that wait for tasks they have submitted */

/* What a function is given, and gives back. */
struct tern_task {
    struct tern_worker *worker; /* of this node and thread, to pull and push with, and to submit tasks;
                                   the function does not close it and leaves no row pinned */
    uint32_t caller;            /* the node that submitted the task */
    uint64_t id;                /* its number there */
    uint64_t begin, end;        /* its keys: begin <= key < end */
    const void *argument;       /* aligned as memory of malloc */
    size_t argument_bytes;
    void *result;               /* aligned likewise; zeros at first */
    size_t result_room;         /* as many bytes as the caller has room for */
    size_t result_bytes;        /* 0; the function sets how many it has written */
    char trouble[160];          /* "": when it fails, the sentence is tern_error() */
};

/* A function. What it returns is the status of its task; a status of its own choice, with a sentence in
 * `trouble`, is as good as one of Tern's. It must not close the node, nor wait for a task that waits for
 * its own. */
typedef enum tern_status tern_task_function(void *context, struct tern_task *task);

/* Makes a function known at this node under a name of 1 to TERN_MAX_NAME characters, for good. Register
 * at every node, then pass a barrier, then submit: a task for a function that its node does not know
 * fails with TERN_INVALID. A name that is taken is TERN_MISMATCH. */
TERN_API enum tern_status tern_function_register(struct tern_node *node, const char *name,
                                                 tern_task_function *function, void *context);

enum tern_group {
    TERN_GROUP_ALL = 0, /* every node */
    TERN_GROUP_OTHERS,  /* every node but this one */
    TERN_GROUP_LISTED,  /* those in `nodes` */
};

/* What is to be run where. Zero is the default of every member but struct_size and function. Names,
 * arguments and lists are copied; results and their sizes are written until the task has finished. */
struct tern_task_options {
    size_t struct_size; /* sizeof(struct tern_task_options) */
    const char *function;
    enum tern_group group;
    const uint32_t *nodes; /* TERN_GROUP_LISTED: node numbers, none twice */
    size_t n_nodes;
    uint64_t begin, end;      /* the keys it is about; both 0: all */
    struct tern_table *table; /* dense. Not NULL: each node gets the part of the range that is at home
                                 with it, and a node without one gets no task */
    const void *argument;
    size_t argument_bytes;
    const uint64_t *after; /* earlier tasks of this worker */
    size_t n_after;
    void *results;         /* that of node i at i * result_bytes; room for all nodes of the cluster */
    size_t result_bytes;   /* at most, of one node */
    size_t *result_sizes;  /* of each node of the cluster; may be NULL */
};

/* Submits a task and gives its number, for this worker. TERN_LIMIT when TERN_MAX_TASKS are under way (wait for
 * some), or when TERN_MAX_TASK_DEPTH functions wait. A task that has finished counts until all earlier ones have
 * at its nodes, because progress is told in their order. */
TERN_API enum tern_status tern_task_submit(struct tern_worker *worker,
                                           const struct tern_task_options *options, uint64_t *id);

/* Waits until a task has finished, for at most timeout_ms, then TERN_BUSY; it goes on and may be waited
 * for again. With 0 the wait is as long as its nodes live. Returns how the task ended: the failure of
 * one of its nodes, once; after that, and for tasks that succeeded, TERN_OK. The number 0 waits for all
 * tasks of the worker and returns the first failure that was not reported. */
TERN_API enum tern_status tern_task_wait(struct tern_worker *worker, uint64_t id,
                                         uint32_t timeout_ms);
TERN_API enum tern_status tern_task_test(struct tern_worker *worker, uint64_t id, bool *done);

/* Sets the delay for all tasks of this worker that have not started, and those to come. */
TERN_API enum tern_status tern_task_delay(struct tern_worker *worker, uint64_t delay);

/* Tells up to which of this worker's tasks a node has worked on the keys begin <= key < end: each of them
 * was in the range of task *id or a later one that succeeded there, and all before have finished there.
 * 0: not all keys yet. TERN_ALL_NODES asks for the least of all nodes. `begin` and `end` may both be 0: all
 * keys. The answer is known here, it takes no message. When tasks cut the keys into more than 2000 ranges, a
 * node may be further than it says. */
TERN_API enum tern_status tern_task_progress(struct tern_worker *worker, uint32_t node,
                                             uint64_t begin, uint64_t end, uint64_t *id);

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

#define TERN_STALENESS_STEPS 20
#define TERN_CLOCK_STEPS 32

struct tern_table_stats {
    size_t struct_size;     /* set by the caller: sizeof(struct tern_table_stats) */
    uint64_t pulled_keys;   /* keys pulled, pushed, set and pinned so far, by all workers */
    uint64_t pushed_keys;
    uint64_t set_keys;
    uint64_t pinned_keys;
    uint64_t remote_keys;   /* of those, keys that were at another node */
    uint64_t remote_bytes;  /* values and keys that went to and fro for them */
    uint64_t rows;          /* rows that occupy memory here, or in a table that all nodes share */
    uint64_t value_bytes;   /* their values alone */
    uint64_t memory_bytes;  /* all the table takes: index, rows and updater state */

    /* What managing its keys took, at this node; zero for tables whose keys stay at home. */
    uint64_t rounds;         /* exchanges with other nodes */
    uint64_t messages;       /* requests made and answered in them */
    uint64_t sent_bytes;     /* of these */
    uint64_t received_bytes;
    uint64_t moved_here;     /* main copies that came, and left */
    uint64_t moved_away;
    uint64_t replicas_made;  /* here */
    uint64_t replicas_ended;
    uint64_t deltas_sent;    /* changes of replicas sent to their owners, and values of replicas got */
    uint64_t values_received;
    uint64_t redirected;     /* messages that met a node which was not the owner any more */
    /* How old the value of a replica may have been when the next one came: mean and 99th percentile in
     * milliseconds, and how often it was at most 0.1, 0.2, 0.4, ... ms. The owner's own changes are taken to
     * have just missed a collection. */
    double staleness_ms_mean, staleness_ms_p99;
    uint64_t staleness_ms[TERN_STALENESS_STEPS];

    /* Of tables with bounded reads, at this node: the time its workers waited for others, and how far behind
     * the keys they pulled were. The i-th counts keys whose value had all updates of clocks below
     * c - i, c being the worker's clock: with i = 0 all there can be. (Published work calls this a clock
     * differential of -1 - i.) The last counts the rest. */
    double waited_s;
    uint64_t clocks_behind[TERN_CLOCK_STEPS];
};

struct tern_worker_stats {
    size_t struct_size; /* set by the caller: sizeof(struct tern_worker_stats) */
    double open_s;      /* seconds since it was opened */
    double waited_s;    /* of these, waiting for others because of bounded tables */
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

TERN_API enum tern_status tern_worker_get_stats(struct tern_worker *worker,
                                                struct tern_worker_stats *stats);

/* ---- Explanation ----------------------------------------------------------------------------- */

#define TERN_WHY_BYTES 2048 /* hold any text of tern_why */

/*
 * Tells in some plain sentences, a line each, how a key is managed, as far as this node knows: its home,
 * where the main copy is and how often it has moved (modulo 65536), at the owner which other nodes want
 * it, the intents of this node that Tern acts on, and what was seen of it last among the 4096 latest
 * moves and replicas of the table here. The text is for people, and may change. What does not fit
 * into `size` bytes, with the 0 at the end, is cut.
 */
TERN_API enum tern_status tern_why(struct tern_table *table, uint64_t key, char *text, size_t size);

/*
 * Records what becomes of n keys at this node, until it is stopped or the table closed: when their main
 * copy, or a replica, comes and goes, and when the node begins and ceases to want them. The record goes to
 * the file PATH.NODE, which is replaced: a line each of the time in nanoseconds of the Unix epoch, the
 * node, the key and a word: main, replica, none; intent, idle. The first lines tell the state at the start.
 * `tern trace PATH.*` draws the files of all nodes. Nodes start and stop on their own; a table has one
 * trace at a time (TERN_BUSY). Of tables whose keys stay where they are only the places are written.
 *
 * Lines are gathered and written at the end of rounds, so a file is complete when it was stopped; what
 * went wrong until then is the status of the stop (of writing: TERN_INVALID, as of a path that
 * cannot be made). To stop where there is no trace does nothing.
 */
TERN_API enum tern_status tern_trace_start(struct tern_table *table, const uint64_t *keys, size_t n,
                                           const char *path);
TERN_API enum tern_status tern_trace_stop(struct tern_table *table);

#ifdef __cplusplus
}
#endif

#endif
