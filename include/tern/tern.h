/*
 * tern.h - the public interface of Tern, a parameter manager for large sparse models.
 *
 * Objects
 *
 *   node    this process's part of the parameter space. Open one, usually at program start.
 *   table   parameters of one shape under one name: a value of `length` elements for each key.
 *   worker  one thread's access to the tables of a node, with a clock that counts its steps.
 *
 * Threads
 *
 *   Any thread may use a node and its tables at any time. A worker belongs to one thread at a time;
 *   open one per thread. Tables and workers may be opened and closed while other threads work, but
 *   no other thread may be using the handle that is being closed.
 *
 * Ownership
 *
 *   A handle belongs to the program until the program closes it. Names and option structs are
 *   copied. A call uses its arrays until it returns; calls that end in `_start` use them until the
 *   operation is reported finished.
 *
 * Errors
 *
 *   Every call that can fail returns a status. If it is not TERN_OK, tern_error() returns a
 *   sentence that names what was wrong. A call does all or nothing: after a failure parameters are
 *   as before, and outputs are untouched. Exceptions:
 *
 *   - the value array of a failed pull and the row array of a failed pin have unspecified content;
 *   - a write that runs out of memory may leave new entries in a sparse table, with their initial
 *     value;
 *   - a push to a table with `admit`, or a write to one with a rule of eviction, that runs out of
 *     memory may have been done for some keys;
 *   - in a cluster, a write that fails at another node (TERN_PEER, TERN_NO_MEMORY, TERN_CLOSED) may
 *     have been done here and at the nodes that did not fail.
 *
 *   NULL, a closed handle, a handle of another kind and a handle of another node are reported, not
 *   followed. A closed handle stays recognizable until a thousand more have been closed.
 *
 * Processes
 *
 *   The library prints nothing, installs no signal handler, and never ends the process; its threads
 *   block all signals. A forked child cannot use its parent's handles: every call with one fails
 *   there with TERN_CLOSED. The child may open a node of its own that is in no cluster.
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
    TERN_NO_MEMORY, /* memory, or the table's own limit, is exhausted */
    TERN_LIMIT,     /* a limit stated in this header is reached */
    TERN_BUSY,      /* the object is in use and cannot be closed yet */
    TERN_CONFLICT,  /* the entries of a range are not those the caller saw */
    TERN_PEER,      /* another node cannot be reached, has died, has left or does not answer */
    TERN_NETWORK,   /* this node's own network: a bad address, a port in use, certificates */
    TERN_LATE,      /* another worker is so far behind that a bounded read cannot be made yet */
    TERN_INTERRUPTED, /* the program's own check has ended a wait (tern_set_interrupt) */
};

/* The sentence of this thread's last failed call; "" if there was none. Valid until the thread's
 * next failure. */
TERN_API const char *tern_error(void);

/* Sets the sentence, cut after 511 characters, and returns `status`. For libraries that are built on
 * Tern, so that tern_error() also explains their failures. NULL is an empty sentence. */
TERN_API enum tern_status tern_fail(enum tern_status status, const char *sentence);

/*
 * Lets a program end calls of this thread that wait, as Ctrl-C should. While a call waits for other
 * nodes, workers or tasks, it calls `check` about every 50 ms; when that returns true, the call
 * fails with TERN_INTERRUPTED. NULL: no check, as at first. The check belongs to the calling
 * thread, and must not call Tern.
 *
 * An interrupted write may have been done or not, at each node it concerns, and the worker's other
 * operations under way may fail likewise. The worker and the node can be used further; but other
 * nodes still count an interrupted barrier, reduction or broadcast as called.
 */
typedef bool tern_interrupt_function(void *context);
TERN_API void tern_set_interrupt(tern_interrupt_function *check, void *context);

/* The name of a status, such as "TERN_RANGE". */
TERN_API const char *tern_status_name(enum tern_status status);

/* "0.1.0", and the instruction set chosen for this machine: "scalar", "avx2", "avx512" or "neon".
 * The environment variable TERN_KERNEL overrides the choice; tern_node_open refuses a name that
 * this machine does not have. */
TERN_API const char *tern_version(void);
TERN_API const char *tern_kernel_name(void);

/* ---- Node ------------------------------------------------------------------------------------ */

struct tern_node_options {
    size_t struct_size; /* sizeof(struct tern_node_options) */
    /* A cluster inside this process, for tests and for programs that have no launcher: the nodes
     * that are opened under the same name, 1 to 48 visible characters, are its nodes, whatever the
     * environment says. Open, use and close each in threads of its own, because opening waits for
     * all others. NULL: no such cluster, and the next two members are ignored. */
    const char *group;
    uint32_t node, n_nodes; /* number of this node, from 0, and number of nodes */
};

/*
 * Opens a node. `options` may be NULL for the defaults.
 *
 * A process that was started by `tern run`, mpirun, srun or torchrun joins the others; README lists the variables
 * that it reads. The call returns when all nodes have joined, and fails if they have not within the deadline for joining
 * (TERN_JOIN_DEADLINE, 300 s, because hosts may start one after the other); with TERN_NOTICES=stderr the library says
 * meanwhile which nodes are missing. A node that the others refuse fails within TERN_DEADLINE (10 s). Without a launcher
 * the node is single and opens no socket. The limit of open files is raised as far as the system allows, because each
 * worker has a connection to each shard of each node that it asks.
 */
TERN_API enum tern_status tern_node_open(const struct tern_node_options *options,
                                         struct tern_node **node);

/* Closes a node and its tables. TERN_BUSY while workers are open. In a cluster the call returns
 * when all other nodes have also called it, because until then they may use this node's rows and
 * run tasks here. A node that died is reported as TERN_PEER; this node is closed all the same. */
TERN_API enum tern_status tern_node_close(struct tern_node *node);

/* Leaves a running job: the others go on without this node, which is closed. Nobody's call fails, and every push of this node's
 * workers is kept, as is every push to its rows. The next node has its rows from then on; until then this one serves them, and any
 * k others may die without loss (k: the tables' backups). Takes as long as the copies of its rows do, and up to half of TERN_DEADLINE
 * if the others do nothing meanwhile. Barriers and sums are about those that are present, from the next one on that
 * this node has not come to.
 *
 * All tables of the job must have backups, and between nodes that share no memory none `recover` (else
 * TERN_INVALID); node 0 cannot leave before the others. TERN_BUSY while workers
 * are open, or a checkpoint is being written. Tasks that others submit here are run until nothing is left to run; those that come
 * later fail. Others should not open a table meanwhile that this node has not opened. After a failure the node is open, as before. A
 * node that is single is closed. */
TERN_API enum tern_status tern_node_leave(struct tern_node *node);

/* The number of this node, from 0, and the number of nodes. Either pointer may be NULL. */
TERN_API enum tern_status tern_node_self(struct tern_node *node, uint32_t *index, uint32_t *count);

/* ---- Table ----------------------------------------------------------------------------------- */

enum tern_index {
    TERN_DENSE = 0, /* keys 0 .. n_keys-1; every key exists from the start */
    /* Any 64-bit key. An entry exists once it has been written or pinned, or once it has been read
     * and its initializer is not TERN_INIT_ZERO. Moving or replicating a key may also create its
     * entry, with the initial value. */
    TERN_SPARSE,
    /* Any 64-bit key, in memory of a fixed size: a key has no row, but counters that it shares with
     * others. See Sketches below. */
    TERN_SKETCH,
};

enum tern_type {
    TERN_F32 = 0,
    TERN_F64,
    TERN_I32, /* integer addition wraps around */
    TERN_I64,
};

/* The value of a key before anything was written to it. It depends on `seed` and the key alone,
 * never on the order of accesses, so all runs and all nodes agree on it. */
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
 * copy of the row is, one call at a time per row, with the per-row state that it asks for. The
 * layout of the state is the updater's own, and pulls never copy it. An all-zero struct
 * tern_updater means addition. The functions below make the updaters that come with Tern; a program
 * may fill in its own. `name` and `parameters` identify an updater when a table is opened twice, so
 * give different behaviour a different name.
 */
struct tern_updater;

/* Applies `update` to `value` (both `length` elements of `type`) and `state`; must not call Tern.
 */
typedef void tern_update_function(const struct tern_updater *updater, enum tern_type type,
                                  size_t length, void *value, void *state, const void *update);

/* Sets the state of a row whose value was just initialized or set. */
typedef void tern_reset_function(const struct tern_updater *updater, enum tern_type type,
                                 size_t length, const void *value, void *state);

/* Returns what is wrong with an updater's parameters for a table of `type`, or NULL if nothing is.
 */
typedef const char *tern_check_function(const struct tern_updater *updater, enum tern_type type);

#define TERN_UPDATER_PARAMETERS 5

struct tern_updater {
    const char *name;           /* at most 31 characters; NULL for addition */
    uint32_t state_per_element; /* state elements of the table's type for each value element */
    uint32_t state_per_row;     /* state elements of the table's type in addition, per row */
    tern_update_function *apply;
    tern_reset_function *reset; /* NULL: the state starts as zero */
    tern_check_function *check; /* called when a table is opened; NULL: anything goes */
    double parameters[TERN_UPDATER_PARAMETERS];
    void *context;            /* for the program's own updaters; Tern does not touch it */
    bool asks_age;            /* `apply` calls tern_update_age(); policy `static` only */
    uint32_t length_multiple; /* the length of a row must be a multiple of it; 0: any length */
};

/*
 * The age of an update (docs/tables.md#the-age-of-an-update). A node counts the pushes that it has
 * applied to a table whose updater asks for ages: calls of tern_push by its own workers, and requests
 * of others. A worker notes the count of a node when it pulls from it, and its pushes carry the
 * note. `t` is the number of this push, from 1. `delay` is how many pushes were applied between the
 * worker's last pull from the node and this push; 0 if it never pulled.
 */
struct tern_age {
    uint64_t t, delay;
};

/* The age of the update that `apply` of an updater with `asks_age` is called for. To be called there
 * and nowhere else. */
TERN_API struct tern_age tern_update_age(void);

/* The updaters of Tern, for f32 and f64 tables; g is the pushed gradient, w the row. State starts
 * at 0 unless stated otherwise. Parameters must be finite; rates, epsilons and alpha above 0; decay
 * and the betas of adam in [0, 1); the others not negative; ftrl's beta + l2 above 0.
 *
 *   sgd       w -= rate * g
 *   momentum  m = decay * m + g;  w -= rate * m
 *   adagrad   s += g*g;  w -= rate * g / (sqrt(s) + epsilon)
 *   asyncadagrad      as adagrad; the delays of its updates are in the statistics
 *   adadelay          s += g*g * t/(t+d);  w -= rate * g / (sqrt(s * (t+d)/t) + epsilon), where t and
 *                     d are the age of the update (Li's thesis, chapter 8)
 *   adaptiverevision  a row is n weights w and n sums of gradients G; a push is n gradients g and the
 *                     n sums H that were pulled with the weights. b = G-H is what was applied
 *                     meanwhile:  z += g*g + 2*g*b;  r = rate / (sqrt(y) + epsilon);  y = max(y, z);
 *                     w += b*r - (b+g) * rate / (sqrt(y) + epsilon);  G += g
 *                     (McMahan and Streeter, 2014). The length is even
 *   adam      m = beta1*m + (1-beta1)*g;  v = beta2*v + (1-beta2)*g*g;  t += 1 (per row);
 *             w -= rate * (m / (1-beta1^t)) / (sqrt(v / (1-beta2^t)) + epsilon)
 *   ftrl      s = (sqrt(n+g*g) - sqrt(n)) / alpha;  z += g - s*w;  n += g*g;
 *             w = |z| <= l1 ? 0 : -(z - sign(z)*l1) / ((beta + sqrt(n)) / alpha + l2)
 *             (z starts as the value that yields the row's present w, so nothing is lost) */
TERN_API struct tern_updater tern_updater_sgd(double rate);
TERN_API struct tern_updater tern_updater_momentum(double rate, double decay);
TERN_API struct tern_updater tern_updater_adagrad(double rate, double epsilon);
TERN_API struct tern_updater tern_updater_asyncadagrad(double rate, double epsilon);
TERN_API struct tern_updater tern_updater_adadelay(double rate, double epsilon);
TERN_API struct tern_updater tern_updater_adaptiverevision(double rate, double epsilon);
TERN_API struct tern_updater tern_updater_adam(double rate, double beta1, double beta2,
                                               double epsilon);
TERN_API struct tern_updater tern_updater_ftrl(double alpha, double beta, double l1, double l2);

#define TERN_MAX_TABLES 256                     /* open at one time, per node */
#define TERN_MAX_NAME 63                        /* characters of a table's name */
#define TERN_MAX_VALUE_BYTES (1 << 24)          /* bytes of one value with its updater's state */
#define TERN_MAX_ROWS (UINT64_C(1) << 32)       /* rows of one table on one node */
#define TERN_MAX_DENSE_KEYS (UINT64_C(1) << 40) /* n_keys of a dense table over all nodes */
#define TERN_MAX_ADMIT 65534
#define TERN_MAX_BACKUPS 3
#define TERN_MAX_EXPECTED_KEYS (UINT64_C(1) << 40)
#define TERN_MIN_EVICT_BYTES (1 << 20) /* with evict_at_limit: one slab of rows */

/*
 * The homes of keys, chosen by the program; `tern partition` computes them from training data. The home of keys[i] is node
 * homes[i]; a key may be named once. Keys that are not named have the home that they would have without a placement. Node
 * replica_nodes[i] has a replica of replica_keys[i] for good under the policy graph:S, which weighs updates of keys[i] by
 * frequencies[i]; all other policies ignore both. All nodes give the same placement, in any order. The arrays are copied.
 */
struct tern_placement {
    const uint64_t *keys;
    const uint32_t *homes;
    size_t n_keys;
    const uint64_t *replica_keys;
    const uint32_t *replica_nodes;
    size_t n_replicas;
    /* How often each of `keys` is used; a key that is not named counts as used once. NULL: all are used as often. */
    const uint64_t *frequencies;
};

#define TERN_MAX_SKETCH_DEPTH 16
#define TERN_MAX_SKETCH_WIDTH (UINT64_C(1) << 40)
#define TERN_MAX_SKETCH_COUNTERS (1 << 24)

/* The size of a TERN_SKETCH: width and depth, or what they should achieve. */
struct tern_sketch {
    uint64_t width;        /* cells of a row; 0: e / epsilon */
    uint32_t depth;        /* rows, at most TERN_MAX_SKETCH_DEPTH; 0: ln(1 / delta) */
    uint32_t counters;     /* for tern_top, at each node: 40 to 60 bytes each; 0: none */
    double epsilon, delta; /* between 0 and 1; 0 where width or depth is given */
    bool conservative;     /* raise only counters that are too low: lower estimates, slower */
    uint64_t seed; /* of the hash that gives keys their cells; 0: one that nobody can foresee */
};

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
    uint64_t memory_limit_bytes; /* per process; 0: what the machine has */
    const uint64_t *replicated;  /* policy "multi": keys that every node has; copied */
    size_t n_replicated;
    const uint64_t *frequencies; /* or, if dense, n_keys access counts to choose them by. With
                                    rare_staleness_ms: to choose the hot keys. Policy graph:S, dense: n_keys access counts that updates are weighed by, unless
                                    `placement` has frequencies; copied */
    const char *filters;         /* of messages; NULL: none. See Filters below; copied */
    /* Decides which changes of copies wait; NULL: filters alone. See Filters below. */
    bool (*is_significant)(void *context, uint64_t key, const void *value, const void *sent);
    void *significant_context;
    const char *policy; /* how a cluster manages the keys; NULL: "adaptive" */
    /* Sparse: a key gets a row when it has been counted more than `admit` times (tern_count); at
     * most TERN_MAX_ADMIT. 0: when it is first used. */
    uint32_t admit;
    uint64_t expected_keys; /* with `admit`: the different keys that are counted at a node; 0: 2^20.
                               Counting takes 2 bytes for each, whatever comes */
    /* Sparse: rules by which rows leave. See Eviction below. */
    uint32_t evict_age;        /* rows that were not pushed in so many clocks; 0: never */
    bool evict_at_limit;       /* those pushed longest ago, when memory_limit_bytes is reached */
    uint64_t evict_floor;      /* the rules leave a node at least so many rows */
    uint32_t staleness_ms;     /* age that replicas may have; 0: 10. See Freshness below */
    uint32_t max_rounds_per_s; /* rounds of management in a second; 0: as many as are needed */
    const struct tern_placement *placement; /* homes of keys; NULL: Tern's own. For any policy;
                                               where main copies move, they begin there */
    struct tern_sketch sketch;              /* of a TERN_SKETCH */
    double
        hot_factor; /* policy `multi`: a key is replicated everywhere if it is used more than this
                          many times as often as the average; 0: 100 */
    uint32_t
        backups; /* deaths of nodes at the same moment that each row outlives; 0 to 3. See Backups */
    const char
        *recover; /* with `backups`: a checkpoint, or a folder of checkpoints of which the newest
                            counts. Keys that are lost are as in it again. See Backups; copied */
    bool
        scatter; /* dense: the keys' homes are dealt out to the nodes one by one, not as a range for
                     each: for keys in the order of their frequency, of which the first node would have
                     all frequent ones. Tasks of a range are cut as without it. Not with `backups` */
    /* Policy "adaptive", with `frequencies`: the age of replicas of keys that are not hot; 0:
     * staleness_ms. See Freshness below. */
    uint32_t rare_staleness_ms;
};

/*
 * The policies. An updater runs at the main copy; updates that are pushed to a replica are gathered
 * and applied there.
 *
 *   adaptive    (default) acts on tern_intent: a key moves to the node that alone wants it, and is
 *               replicated to each node while several want it. A pull of a replica sees this node's
 *               own pushes and what has arrived from others; tern_quiesce makes all replicas agree.
 *   static      each key stays at its home node: a classic parameter server.
 *   replicate   every node has every key. Pulls and pushes are local, and the copies exchange their
 *               changes in continuous rounds through the key's home. With 32 nodes or more and no
 *               updater they use an all-reduce, which ends for all nodes when one of them closes
 *               the table; the copies then stay as they are. A set acts as the push of the
 *               difference; with an updater it is done at the home, and waits for a round.
 *   relocate    keys move where tern_localize asks for them, and are never replicated.
 *   multi       like relocate, but some keys are replicated to every node for good: those listed in
 *               `replicated`; or those used more than `hot_factor` times as often as the average,
 *               by the counts in `frequencies` or, without either, by a sample of what each node
 *               localizes.
 *
 * If all processes of a job are on one host, they share the memory of their tables, whatever the
 * policy: no key moves, each push is visible to all at once, and intent is not needed. Such a table
 * lasts as long as any process has it open. Once a process is known to be lost, calls on the table
 * fail, because a row may be torn, unless it has backups. If a job spans several hosts, the processes of each host share
 * their tables alike, and keys move between hosts; but not tables with bounded reads, admission or
 * backups, `cached` ones and sketches. One process of each host manages the rows for all, and has
 * the figures of management in its statistics. TERN_SHARE=0 makes each process keep its own rows.
 *
 * Backups (docs/survive.md): if tables were opened and all have `backups` = k, as many, the job
 * continues when nodes other than node 0 are given up: calls of the others take longer and do not
 * fail, barriers and sums are about the nodes that are left, and each push of these nodes counts
 * exactly once. In a table that all processes of a job share, of any policy, the others take back what
 * a dead one was in the middle of, however many die; a process that was given up while it lives is
 * killed, and a push is safe when the call returns. Otherwise main copies stay at their homes, under any
 * policy: nodes have replicas, no key moves, and `relocate` is as `static`. Each row, with its updater's
 * state, is at k + 1 nodes if there are as many, and the next node has the keys of a dead one. When a push or set is
 * safe then, so that the death of k nodes does not undo it:
 *
 *   of a key at another node    when the call, or tern_wait or tern_test for its ticket, returns
 *   of a key at this node       when tern_flush, tern_quiesce or tern_checkpoint_start returns
 *   of a replica at this node   likewise
 *   in a pinned row             as a push to it, once it is unpinned
 *   where reads are bounded     when its home announces the push's clock, or at tern_flush or
 *                               tern_quiesce: before a read at another node must show it
 *
 * A pull may see a push that is not safe yet. After a death the rows are copied to another node while
 * work goes on; tern_flush waits until all that this node has to copy is there. If more than k nodes
 * die before that, keys are lost, and calls on them fail; but with `recover` these keys alone are as in
 * the newest checkpoint again, calls go on, and tern_table_stats counts them. A node that was given up while it lives
 * has no effect on the others any more, and its calls fail.
 *
 * Policies with bounded reads (docs/staleness.md): each key stays at its home, and every node has a
 * replica of the keys it uses. They have no updater; a set acts as the push of the difference. A
 * worker sees its own pushes at once. Every node opens a worker, and all workers are opened before
 * the first of them advances; a worker that has nothing to do calls tern_worker_rest.
 *
 *   ssp:S       a pull at clock c sees every update that any worker pushed at a clock up to c - S -
 *               1, and waits for those that have not arrived. A replica that is too old is fetched
 *               again.
 *   bsp         ssp:0: nobody reads before all have finished the previous clock.
 *   essp:S      the same promise, but replicas are refreshed as the table's clock advances, so that
 *               values are usually much newer and waits are shorter.
 *   vap:V       a push, set or advance waits while the sum of the worker's updates that have not
 *               reached every node that uses the keys, itself included, may exceed V in some
 *               element; a set, or a push that exceeds V alone, waits until all others have. V/sqrt:
 *               V / sqrt(1 + clock).
 *
 * A wait ends with TERN_LATE after two deadlines (TERN_DEADLINE, 10 s), with a sentence that names
 * the slowest worker or node, and after one if a node is known to be dead; nothing has changed
 * then, and the call may be repeated. Rows of such tables cannot be pinned; a range of a sparse one
 * has the keys that some node has used.
 *
 * Replicas by a placement (docs/tasks/partition.md#policy-graphs):
 *
 *   graph:S     each key stays at its home, and the nodes that the table's placement lists have
 *               replicas of it. A push or set is done at the home, with the call; updaters run
 *               there. A pull of a replica returns a value that lacks at most S of the updates that
 *               the main copy had when the pull began. Of the keys of one pull, no replica that
 *               lacks any is more than S updates behind another key: of keys with `frequencies`
 *               p >= q, an update of the first counts q / p. Without an updater a worker sees its
 *               own pushes at once. graph:0 reads like static. With graph:inf a replica is fetched
 *               once, and again after tern_quiesce. Rows of such tables cannot be pinned, and they
 *               admit no keys.
 *
 * For comparison: `adaptive-replicate` never moves a key, `adaptive-relocate` never replicates one,
 * and `adaptive-at-once` acts on every intent as soon as it is signalled. `replicate-owners` and
 * `replicate-doubling` use one way for any number of nodes. `cached` is `static` with a small cache.
 */

/*
 * Filters (docs/filters.md), such as "zeros,fixed:8", make pulls, pushes and sets that go to other
 * nodes shorter. All nodes must name the same filters. Where a node has a copy of a key, filters lose
 * nothing: what they leave out or round off is part of the next change, and tern_flush and
 * tern_quiesce send it exactly. Main copies that move, sets and integers are never changed. The rounds
 * of `ssp`, `essp`, `vap`, `bsp` and `replicate-doubling` take zeros and lz4 alone.
 *
 *   keys        a list of keys that a worker has sent to the node before costs 16 bytes.
 *   zeros       a value of zeros costs one bit.
 *   skip:Q      f32 and f64 only: a value is pushed with probability Q, divided by Q, so that its mean is
 *               what was pushed. Includes zeros.
 *   lz4         what the other filters have made is compressed.
 *   fixed:B     f32 and f64 only: elements that are pushed or pulled have B = 8, 16 or 24 bits. The
 *               largest of a message sets the scale; each number is rounded at random, so that its
 *               mean is the number itself. A set is never rounded.
 *   significant:X, significant:X/t
 *               the change of a copy waits until one of its elements is at least X, or X / t in the
 *               t-th round of the node. Pushes to keys that have no copy here do not wait.
 *
 * is_significant, a function of the program, is asked in each round about each changed copy that the
 * filters do not hold back: the key, the value as it is here, and the value that was sent last, with
 * `length` elements each; with an updater, the sum of what was pushed since, and zeros. False: the
 * change waits until the key changes again, or until a flush. Tern's own threads call it, under locks:
 * it must return soon and not call Tern. Each node may have its own.
 */

/*
 * Freshness, under policies whose replicas are refreshed in rounds and not bounded by clocks (adaptive, relocate, multi
 * and the policies for comparison): each node sends what it has changed in its replicas, and asks for what others have
 * changed, so often that a value is staleness_ms old when the next one arrives. More bytes buy fresher replicas. It is
 * an aim and not a promise: a node that is slow, or a network that is full, makes replicas older. What was reached is in
 * staleness_ms_mean and staleness_ms_p99 of struct tern_table_stats.
 *
 * max_rounds_per_s makes rounds rarer than intents and staleness_ms ask for: keys then arrive earlier than they are
 * needed, or too late if intent is signalled too late for that. Rounds concern all tables of a node, so the highest
 * limit counts, and only if every table has one.
 *
 * rare_staleness_ms saves bytes where few keys make most of the updates and most keys make few, as words do: what is changed in
 * keys that are used at most hot_factor (100) times as often as the average, by `frequencies`, is exchanged only so often. A
 * flush or tern_quiesce still exchanges everything. It is counted in whole times of staleness_ms, and less than two change nothing.
 * Where memory is shared it has no effect.
 *
 * Other policies refuse all three.
 */

/* Opens the table `name`, creating it if it is new. Opening it again with the same options returns
 * the same table, to be closed once more; other options are TERN_MISMATCH. In a cluster every node
 * opens the table with the same options; requests of other nodes wait until it has. A table that
 * was closed and is opened again is a new one, of any shape. A cluster can open 65536 tables in its
 * life, a node TERN_MAX_TABLES at a time. */
TERN_API enum tern_status tern_table_open(struct tern_node *node, const char *name,
                                          const struct tern_table_options *options,
                                          struct tern_table **table);

/* Closes one opening of a table. The last close ends the table and its parameters; if processes
 * share the table, the last close of all processes does. TERN_BUSY while rows are pinned, started
 * operations have not been waited for, or distributions on it are open. */
TERN_API enum tern_status tern_table_close(struct tern_table *table);

/* ---- Worker ---------------------------------------------------------------------------------- */

TERN_API enum tern_status tern_worker_open(struct tern_node *node, struct tern_worker **worker);

/* Closes a worker and ends its samples. TERN_BUSY while it has pinned rows or running tasks. */
TERN_API enum tern_status tern_worker_close(struct tern_worker *worker);

/* A worker's clock starts at 0 and counts its steps (batches, samples, ...); intents and bounds
 * refer to it. Advancing it says that a step is done. `clock` may be NULL. */
TERN_API enum tern_status tern_worker_advance(struct tern_worker *worker, uint64_t *clock);
TERN_API enum tern_status tern_worker_clock(struct tern_worker *worker, uint64_t *clock);

/* The worker has nothing to do for now. Until its next advance, or its next push or set to a table
 * with bounded reads, no other worker waits for it. When it comes back, it counts as being at the
 * clock that the others have reached meanwhile, whatever tern_worker_clock says. */
TERN_API enum tern_status tern_worker_rest(struct tern_worker *worker);

/* ---- Intent ---------------------------------------------------------------------------------- */

/*
 * This worker will use the n keys while start <= its clock < end. The data loader calls it for
 * future batches. Tern makes the keys local, by moving or replicating them, just before the
 * worker's clock reaches `start`. Intent is an optional, cheap hint; intents may overlap and
 * repeat. Keys without intent are accessed at the node where they are.
 *
 * An intent ends when the clock reaches `end`, or with its worker. If `end` has passed or equals
 * `start`, the call has no effect; if `start` has passed, the intent begins now. start > end is
 * TERN_INVALID. A key outside a dense table is TERN_RANGE, and then none of the keys counts. Single
 * nodes, and tables whose policy does not act on intent, ignore it. If memory runs out here, keys
 * stay where they are and are used there. If a table is closed while its keys are on their way,
 * other nodes get TERN_CLOSED when they need those rows.
 *
 * Any thread may call tern_intent and tern_worker_clock for any worker, for instance a loader thread
 * that reads batches ahead, while the worker's own thread makes other calls or closes the worker.
 * Once it is closed, they return TERN_CLOSED. The table must stay open during the call.
 */
TERN_API enum tern_status tern_intent(struct tern_worker *worker, struct tern_table *table,
                                      const uint64_t *keys, size_t n, uint64_t start, uint64_t end);

/*
 * Moves the n keys to this node and returns when they are here; for policies `relocate` and
 * `multi`, others ignore it. A key that is pinned, or of which every node has a replica, stays
 * where it is.
 */
TERN_API enum tern_status tern_localize(struct tern_worker *worker, struct tern_table *table,
                                        const uint64_t *keys, size_t n);

/*
 * Starts the same and returns at once; call it some steps before the keys are used. With a ticket,
 * tern_wait returns when the keys are here, tern_test says whether they are, and `keys` must stay in
 * place until then. A key that another node has asked for meanwhile may have left again; neither
 * call waits for it for long. If `ticket` is NULL there is nothing to wait for, and `keys` may be
 * used again at once.
 */
TERN_API enum tern_status tern_localize_start(struct tern_worker *worker, struct tern_table *table,
                                              const uint64_t *keys, size_t n, uint64_t *ticket);

/* Waits for all pending operations of this worker, and until everything that it has pushed and set
 * has reached the main copies. (Until then it may be in replicas here, or in flight.) */
TERN_API enum tern_status tern_flush(struct tern_worker *worker);

/* ---- Access ---------------------------------------------------------------------------------- */

/*
 * pull   reads the values of n keys.
 * push   gives n updates to the table's updater, which adds them by default.
 * set    replaces n values and resets their updater state.
 *
 * The i-th value is at values + i * length elements. A key may occur several times in `keys`: each
 * push counts, each pull returns the value, and the last of several sets stays. A value is read and
 * written as a whole: a pull never sees half of a push. If n is 0, the arrays may be NULL.
 */
TERN_API enum tern_status tern_pull(struct tern_worker *worker, struct tern_table *table,
                                    const uint64_t *keys, size_t n, void *values);
TERN_API enum tern_status tern_push(struct tern_worker *worker, struct tern_table *table,
                                    const uint64_t *keys, size_t n, const void *updates);
TERN_API enum tern_status tern_set(struct tern_worker *worker, struct tern_table *table,
                                   const uint64_t *keys, size_t n, const void *values);

/*
 * Reads those of n keys that are local, and sends and waits for nothing. is_local[i] says whether
 * the i-th key was read; the values of other keys are left as they are. n_local gets the number of
 * keys read. Either may be NULL. A key is local if its main copy or a replica is here; under bounded
 * reads, if the replica is recent enough for this worker to read it now. A key for which this worker
 * has an operation under way at another node is not local: the read would overtake it. Sketches are
 * refused with TERN_INVALID.
 */
TERN_API enum tern_status tern_pull_if_local(struct tern_worker *worker, struct tern_table *table,
                                             const uint64_t *keys, size_t n, void *values,
                                             bool *is_local, size_t *n_local);

/*
 * Pull, push and set, started now and finished later. `ticket` identifies the operation for this
 * worker. Keys and values must stay in place until tern_test sets `done` or tern_wait has returned.
 * Operations of one worker on one key take effect in the order in which they were started. The
 * start returns a failure that is known at once, with no ticket; tern_test or tern_wait returns a
 * later one, once. Waiting for a ticket again has no effect.
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
 * Admission: rows for the keys that have earned one, in a sparse table with `admit = r`.
 *
 * A key that has been counted at most r times has no row. It reads as zeros, whatever the
 * initializer. A push counts it once and is dropped; the push that makes the count exceed r gives
 * the key its row, with the initial value, and is applied. tern_count counts without pushing; a
 * tern_set or tern_pin gives a key its row at once. Intent for a key without a row has no effect.
 *
 * A key is never late. It may be early, because keys share counters: if there are no more keys than
 * expected, this concerns less than 1 % of the rows (docs/tables.md). Keys are counted where
 * they are at home, and the counters are part of memory_bytes. Policies under which every node makes
 * rows of its own (replicate, bounded reads) refuse `admit`.
 *
 * count         key i was used counts[i] times; `counts` NULL: once each. Keys that have a row are
 *               left alone. TERN_INVALID in a table without `admit`.
 * pull_present  is a pull that also sets present[i] to whether key i has a row. It makes no row, and
 *               reads zeros where there is none, in any sparse table; an absent key costs one bit of
 *               the answer of another node. In a dense table every key is present.
 */
TERN_API enum tern_status tern_count(struct tern_worker *worker, struct tern_table *table,
                                     const uint64_t *keys, size_t n, const uint32_t *counts);
TERN_API enum tern_status tern_pull_present(struct tern_worker *worker, struct tern_table *table,
                                            const uint64_t *keys, size_t n, void *values,
                                            bool *present);

/*
 * Eviction: rows leave a sparse table again. A removed key is a new key: it reads as its initial
 * value, and a push makes a new row in memory that is used again. (With `admit` its count is not
 * forgotten: it has a row again from its next push on.) Rows that are pinned, of which other nodes
 * have replicas, or for which the node with the main copy has an active intent, stay until they are
 * not.
 *
 * sweep  calls function(context, key, value) for the main copies at this node, or in memory that
 *        processes share, and removes those for which it returns true; *n is their number. A row that
 *        was there all the time and need not stay is visited at least once. The function is called in the calling thread with a copy
 *        of the value, and may use the table. If the row is written before it is removed, the function
 *        is asked again; a row that is written again and again stays. Any worker may sweep, also
 *        several at a time; in a cluster each node sweeps its own rows.
 *
 * Two rules remove rows by themselves, until evict_floor rows are left (replicas do not count):
 *
 *   evict_age = T   rows that were not pushed, set or unpinned in the last T clocks. The table's clock
 *                   is the highest that a worker of this node, or of those that share the table, has
 *                   reached. The worker that reaches it looks for such rows in tern_worker_advance:
 *                   after every T / 8 + 1 clocks.
 *   evict_at_limit  when memory_limit_bytes, at least TERN_MIN_EVICT_BYTES, is reached, rows that were
 *                   pushed longest ago make room for a new one; that is not exact (docs/tables.md).
 *                   Without it, or if no row may go, the call is TERN_NO_MEMORY.
 *
 * Reads do not keep a row, and in a table with a rule they make none. A table with a rule also uses
 * the index's memory of removed keys again, which costs its pulls a few instructions; without one, a
 * removed key keeps about 20 bytes. tern_push_range refuses a table with a rule, and one whose rows
 * were swept, since equal numbers of entries need not be equal entries.
 *
 * At several nodes a table with a rule keeps its main copies at their homes, also under `adaptive` and
 * its relatives: a node that wants a key gets a replica, also if no other node wants it, and each
 * process has rows of its own. tern_sweep needs a table with a rule there (evict_floor = 1 is one),
 * unless the policy is `static`. `relocate`, `replicate`, `graph` and bounded reads refuse rules.
 */
typedef bool tern_sweep_function(void *context, uint64_t key, const void *value);
TERN_API enum tern_status tern_sweep(struct tern_worker *worker, struct tern_table *table,
                                     tern_sweep_function *function, void *context, uint64_t *n);

/*
 * Sketches: counts of any number of keys in memory of a fixed size, in a table with index
 * TERN_SKETCH, type i32 or i64 and length 1.
 *
 * A push adds counts, which must not be negative. A pull gives estimates, which are never too low. An
 * estimate exceeds the true count by more than epsilon times the sum of all counts with a
 * probability of at most delta (CountMin). Counters stop at the largest number of their type. Every
 * key can be pulled. A sketch has no updater and no initializer. Its policy is `static`; at a single
 * node, and in memory that processes share, any policy without bounded reads. The counters of a key
 * are at its home, so that a count travels once. tern_set, tern_pin, tern_pull_present, ranges and
 * checkpoints of changes refuse a sketch; other checkpoints have it if it has a seed. Restored on another
 * number of nodes, or in shared memory, each has the cells of all: estimates are not too low, and within
 * the bound, but sums of cells over nodes count them once for each node.
 *
 * top  gives the k heaviest keys of all nodes, heaviest first: *n of them, fewer if there are no
 *      more. counts[i] is at least the true count, and exceeds it by at most errors[i]
 *      (space-saving); `errors` may be NULL. TERN_INVALID in a table without `sketch.counters`.
 *
 * Cells can be saved and added, for instance to merge sketches of equal width, depth and seed (which must
 * not be 0 then). Cell row * width + i is the i-th of its row.
 *
 * read_cells  copies n cells from `first` on as they are at this node, or in the memory that it shares. The
 *             sums over all nodes (tern_all_reduce) are the sketch of everything that was counted.
 * add_cells   adds to n cells from `first` on at this node, also to those of keys that are at home elsewhere,
 *             where no pull finds it: add to a table of a single node. None may be negative. tern_top does
 *             not learn of it. Counting with conservative update meanwhile may miss what is added.
 */
TERN_API enum tern_status tern_top(struct tern_worker *worker, struct tern_table *table, size_t k,
                                   uint64_t *keys, int64_t *counts, int64_t *errors, size_t *n);
TERN_API enum tern_status tern_sketch_read_cells(struct tern_worker *worker,
                                                 struct tern_table *table, uint64_t first, size_t n,
                                                 int64_t *cells);
TERN_API enum tern_status tern_sketch_add_cells(struct tern_worker *worker,
                                                struct tern_table *table, uint64_t first, size_t n,
                                                const int64_t *cells);

/*
 * Reads the existing entries with begin <= key < end in ascending order of their keys: at most
 * `capacity` of them; *n is their number. If *n equals capacity there may be more; continue from
 * keys[*n - 1] + 1. In a dense table every key exists, and `end` is at most n_keys. With `values`
 * NULL, only keys are returned. A sparse table scans its whole index if the range is wider than its
 * number of entries, so ask for many entries at a time. (The key UINT64_MAX is in no range.)
 */
TERN_API enum tern_status tern_pull_range(struct tern_worker *worker, struct tern_table *table,
                                          uint64_t begin, uint64_t end, size_t capacity,
                                          uint64_t *keys, void *values, size_t *n);

/*
 * Pushes one update to every existing entry with begin <= key < end: the i-th of n updates goes to
 * the i-th entry in ascending order of keys, as tern_pull_range returned them. If there are not
 * exactly n such entries (new ones have appeared), nothing changes: TERN_CONFLICT.
 */
TERN_API enum tern_status tern_push_range(struct tern_worker *worker, struct tern_table *table,
                                          uint64_t begin, uint64_t end, size_t n,
                                          const void *updates);

/*
 * Pins the rows of n keys and returns a pointer to each: `length` elements that the program may
 * read and write in place until it unpins them with the same keys. This is Hogwild: no latch, no
 * updater, no order. A write may be lost to another writer of the same element, and a concurrent
 * pull may see part of it. A row may be pinned many times, by many workers; pins are counted, and
 * each worker ends as many as it began. A pinned row does not move.
 *
 * In a cluster the rows must be local (use tern_intent or tern_localize), otherwise the pin is
 * TERN_INVALID: main copies or, in a table without an updater, replicas. What was written to a
 * replica counts as the push of the difference when the row is unpinned.
 */
TERN_API enum tern_status tern_pin(struct tern_worker *worker, struct tern_table *table,
                                   const uint64_t *keys, size_t n, void **rows);
TERN_API enum tern_status tern_unpin(struct tern_worker *worker, struct tern_table *table,
                                     const uint64_t *keys, size_t n);

/* ---- Sampling -------------------------------------------------------------------------------- */

/*
 * A program that samples, as negative sampling does, asks for some keys of a distribution. Tern
 * chooses keys that are cheap to access from this node, within a promised quality.
 *
 *   tern_dist_open       sets the distribution to draw from (the target) and the promise (the
 *                        conformity)
 *   tern_sample_prepare  says how many keys will be needed; Tern begins to make them local
 *   tern_sample_pull     returns them with their values, in one part or several
 *
 * Updates are pushed as usual, with tern_push. Any thread may use a distribution; a sample belongs
 * to the worker that prepared it. Each node opens its own distributions.
 */
struct tern_dist;

/* What a worker's samples promise (NuPS, SIGMOD 2022, Section 4.1). Each level includes those
 * below; each next one is cheaper. */
enum tern_conformity {
    TERN_CONFORM = 0, /* samples follow the target and are independent of each other */
    /* Each follows the target and depends only on the last U * G samples of its worker: G keys are
     * drawn and used U times each, in fresh random orders. Workers are independent of each other,
     * on one node or several. */
    TERN_BOUNDED,
    /* Frequencies follow the target in the long run: like TERN_BOUNDED, but a key that is not local
     * yet is postponed to the end of its sample, once. */
    TERN_LONG_TERM,
    /* Keys of the target that are local now, with no promise about frequencies. If none is known to
     * be local, a remote one. */
    TERN_NON_CONFORM,
};

enum tern_target_kind {
    TERN_TARGET_UNIFORM = 0, /* every key alike */
    TERN_TARGET_WEIGHTS,     /* a key as often as its weight says; 8 bytes of memory per key */
    TERN_TARGET_COUNTS,      /* the same with count^0.75, as word2vec draws its negatives */
    TERN_TARGET_FUNCTION,    /* what `function` draws */
};

/* Makes a key from 64 random bits. A function that needs more bits derives them from these. The key
 * should depend on the arguments alone. Any worker may call it at any time; it must not call Tern.
 */
typedef uint64_t tern_draw_function(void *context, uint64_t random);

#define TERN_MAX_DISTS 256                         /* distributions open at one time, per node */
#define TERN_MAX_SAMPLES (1 << 20)                 /* samples open at one time, per worker */
#define TERN_MAX_WEIGHTS ((UINT64_C(1) << 32) - 1) /* keys of a target with weights or counts */
#define TERN_MAX_POOL_KEYS (1 << 16)
#define TERN_MAX_POOL_USES (1 << 16)

/* The distribution to draw from. Zero is the default of every member but struct_size and those that
 * the kind needs. Arrays are copied or converted. */
struct tern_target {
    size_t struct_size; /* sizeof(struct tern_target) */
    enum tern_target_kind kind;
    uint64_t begin, end;    /* the keys: begin .. end-1; not for functions */
    const uint64_t *keys;   /* not NULL: begin and end are positions in this array; takes 8 bytes
                               more per key */
    const double *weights;  /* the i-th for the i-th key; finite, not negative, not all 0. One below
                               2^-32 of the mean counts as 0 */
    const uint64_t *counts; /* likewise, not all 0 */
    tern_draw_function *function;
    void *context;
    /* The same seed, and the same order of opening distributions and workers, give the same keys on
     * the same node, as far as they do not depend on which keys are local. */
    uint64_t seed;
    uint32_t pool_keys; /* G and U of TERN_BOUNDED and TERN_LONG_TERM; 0: 250 and 16 */
    uint32_t pool_uses;
};

/* Opens a distribution over keys of a table, which stays open until the distribution is closed. */
TERN_API enum tern_status tern_dist_open(struct tern_table *table, const struct tern_target *target,
                                         enum tern_conformity conformity, struct tern_dist **dist);

/* TERN_BUSY while samples of it are open. */
TERN_API enum tern_status tern_dist_close(struct tern_dist *dist);

/*
 * Begins a sample of n keys, at least one, and returns at once; *sample is its number for this
 * worker. Call it some steps ahead, like tern_intent, so that the keys have arrived when they are
 * pulled. Advance the worker's clock: it tells Tern how long the keys are needed.
 */
TERN_API enum tern_status tern_sample_prepare(struct tern_worker *worker, struct tern_dist *dist,
                                              size_t n, uint64_t *sample);

/*
 * Returns the next n keys of a sample and their values, or only the keys if `values` is NULL. More
 * than are left is TERN_INVALID. A sample ends when its last key has been returned; its number is
 * TERN_CLOSED then. After a failure `keys` and `values` have unspecified content, and as many keys
 * are left as before.
 */
TERN_API enum tern_status tern_sample_pull(struct tern_worker *worker, uint64_t sample, size_t n,
                                           uint64_t *keys, void *values);

/* Gives up what is left of a sample. */
TERN_API enum tern_status tern_sample_end(struct tern_worker *worker, uint64_t sample);

/* ---- Tasks ----------------------------------------------------------------------------------- */

/*
 * A task runs a function of the program at chosen nodes, where the parameters or the data are (M.
 * Li, thesis, 3.2).
 *
 *   tern_function_register  gives a function its name, at this node
 *   tern_task_submit        runs it at some nodes, and returns at once
 *   tern_task_wait          waits until it has finished; tern_task_test asks
 *   tern_task_delay         sets how far a worker's tasks may run ahead of each other
 *   tern_task_progress      says how far nodes have come with a range of keys
 *
 * Order. The tasks of a worker are numbered from 1. Task t starts, at any node, when
 *
 *   - all tasks of its worker up to t - delay - 1 have finished. A delay of 0, the default, runs
 *     them one after the other (sequential), TERN_EVENTUAL all at once, other delays are in
 *     between;
 *   - and all tasks that it lists in `after` have finished.
 *
 * Otherwise tasks run concurrently, at each node on up to TERN_MAX_TASK_THREADS threads of Tern. A
 * task has finished when its function has returned at all its nodes and everything that the
 * function submitted has finished, successfully or not. A program that must stop after a failure
 * waits before it submits more. A task sees earlier pushes if they were waited for.
 *
 * Each task runs once at each of its nodes, also when connections break. When a node dies, its
 * tasks fail with TERN_PEER; whether they ran is then unknown.
 */
#define TERN_EVENTUAL UINT64_MAX      /* a delay without bound */
#define TERN_ALL_NODES UINT32_MAX     /* for tern_task_progress */
#define TERN_MAX_FUNCTIONS 256        /* registered at a node */
#define TERN_MAX_TASKS 1024           /* of a worker, not finished or failed and not waited for */
#define TERN_MAX_TASK_BYTES (1 << 20) /* of an argument or a result; 64 may wait at a node */
#define TERN_MAX_TASK_THREADS 16      /* of a node */
#define TERN_MAX_TASK_DEPTH 240       /* functions of a node that wait for their own tasks */

/* What a function is given, and gives back. */
struct tern_task {
    struct tern_worker *worker; /* of this node and thread, to pull, push and submit tasks with;
                                   the function does not close it and leaves no row pinned */
    uint32_t caller;            /* the node that submitted the task */
    uint64_t id;                /* its number there */
    uint64_t begin, end;        /* its keys: begin <= key < end */
    const void *argument;       /* aligned as memory of malloc */
    size_t argument_bytes;
    void *result;        /* aligned likewise; zeros at first */
    size_t result_room;  /* as many bytes as the caller has room for */
    size_t result_bytes; /* 0; the function sets how many it has written */
    char trouble[160];   /* "": when it fails, the sentence is tern_error() */
};

/* The function of a task. It returns the task's status: one of Tern's, or its own choice with a
 * sentence in `trouble`. It must not close the node, nor wait for a task that waits for its own. */
typedef enum tern_status tern_task_function(void *context, struct tern_task *task);

/* Registers a function at this node, for good, under a name of 1 to TERN_MAX_NAME characters.
 * Register it at every node, pass a barrier, then submit: a task whose function is unknown at its
 * node fails with TERN_INVALID. A name that is taken is TERN_MISMATCH. */
TERN_API enum tern_status tern_function_register(struct tern_node *node, const char *name,
                                                 tern_task_function *function, void *context);

enum tern_group {
    TERN_GROUP_ALL = 0, /* every node */
    TERN_GROUP_OTHERS,  /* every node but this one */
    TERN_GROUP_LISTED,  /* those in `nodes` */
};

/* What to run, and where. Zero is the default of every member but struct_size and function. Names,
 * arguments and lists are copied; results and their sizes are written until the task has finished.
 */
struct tern_task_options {
    size_t struct_size; /* sizeof(struct tern_task_options) */
    const char *function;
    enum tern_group group;
    const uint32_t *nodes; /* TERN_GROUP_LISTED: node numbers, none twice */
    size_t n_nodes;
    uint64_t begin, end;      /* the keys it is about; both 0: all */
    struct tern_table *table; /* dense. Not NULL: each node gets the part of the range whose home it
                                 is, and a node without one gets no task */
    const void *argument;
    size_t argument_bytes;
    const uint64_t *after; /* earlier tasks of this worker */
    size_t n_after;
    void *results;        /* that of node i at i * result_bytes; room for all nodes */
    size_t result_bytes;  /* at most, of one node */
    size_t *result_sizes; /* of each node of the cluster; may be NULL */
};

/* Submits a task and returns its number for this worker. TERN_LIMIT when TERN_MAX_TASKS are pending
 * (wait for some), or when TERN_MAX_TASK_DEPTH functions wait. A finished task counts until all
 * earlier ones have finished at its nodes, because progress is reported in order. */
TERN_API enum tern_status tern_task_submit(struct tern_worker *worker,
                                           const struct tern_task_options *options, uint64_t *id);

/* Waits until a task has finished. After timeout_ms it returns TERN_BUSY; the task continues and
 * may be waited for again. A timeout of 0 waits as long as the task's nodes live. Returns how the
 * task ended: the failure of one of its nodes, once; after that, and for tasks that succeeded, TERN_OK.
 * id 0 waits for all tasks of the worker and returns the first failure that was not reported yet.
 */
TERN_API enum tern_status tern_task_wait(struct tern_worker *worker, uint64_t id,
                                         uint32_t timeout_ms);
TERN_API enum tern_status tern_task_test(struct tern_worker *worker, uint64_t id, bool *done);

/* Sets the delay for all tasks of this worker that have not started, and those to come. */
TERN_API enum tern_status tern_task_delay(struct tern_worker *worker, uint64_t delay);

/* Says up to which of this worker's tasks a node has worked on the keys begin <= key < end: each
 * key was in the range of task *id, or of a later one, that succeeded there, and all tasks before
 * have finished there. 0: not all keys yet. TERN_ALL_NODES asks for the minimum over all nodes.
 * `begin` and `end` may both be 0: all keys. The answer is known locally and takes no message. If
 * tasks split the keys into more than 2000 ranges, a node may have come further than reported. */
TERN_API enum tern_status tern_task_progress(struct tern_worker *worker, uint32_t node,
                                             uint64_t begin, uint64_t end, uint64_t *id);

/* ---- All nodes at once ------------------------------------------------------------------------
 */

/*
 * Collective calls: every node makes them, in the same order, from one thread. Arrays of any size
 * go through the coordinator, in parts of 1 MiB. A call waits as long as the others work; if a node
 * dies or leaves meanwhile, it fails with a TERN_PEER that names the node. Where all tables have
 * backups, it goes on without a node that died; a broadcast fails if that was its root.
 *
 * barrier     waits for all nodes. Every node then sees every push that was waited for before.
 * quiesce     a barrier after which all replicas agree: every push before it is in every copy.
 * all_reduce  replaces n numbers by their sums over all nodes, added in the order of the nodes, so
 *             that all get the same bits.
 * broadcast   copies the bytes of node `root` to all nodes.
 */
TERN_API enum tern_status tern_barrier(struct tern_node *node);
TERN_API enum tern_status tern_quiesce(struct tern_node *node);
TERN_API enum tern_status tern_all_reduce(struct tern_node *node, enum tern_type type, size_t n,
                                          void *values);
TERN_API enum tern_status tern_broadcast(struct tern_node *node, uint32_t root, size_t bytes,
                                         void *data);

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/*
 * A checkpoint is a folder that holds all tables of a job as they were at one moment. A later job
 * continues from it, on any number of nodes (docs/survive.md).
 *
 *   tern_checkpoint_start    takes the cut, begins to write it, and returns
 *   tern_checkpoint_wait     waits until the checkpoint is on disk under its name
 *   tern_checkpoint_open     opens a checkpoint to read it; no node is needed
 *   tern_checkpoint_restore  gives a table the rows of a checkpoint; _restore_clock sets a clock
 *
 * The cut has, of every table that is open: values and updater state. It also has the clocks of the
 * workers, and notes: bytes that the program gives under a name, such as the state of its random
 * numbers or its position in the data. The cut contains every push and set that was finished
 * at its worker (tern_wait, for those that were started) before its node called
 * tern_checkpoint_start. It contains nothing that a worker begins, at any node, after that call has
 * returned. A row that is written meanwhile is either as before or as after. A program that wants
 * the state between two steps lets its workers wait until the call has returned; then they continue
 * while files are written.
 *
 * The folder has safetensors files and manifest.json, which lists them with their hashes. It is
 * complete or not there: files are written to PATH.new, synced, and renamed. All nodes write to it,
 * so that it must be on a file system that all nodes share.
 */
#define TERN_MAX_NOTES 256 /* of one node, in one checkpoint */

struct tern_checkpoint; /* one that is open for reading */

struct tern_note {
    const char *name; /* 1 to TERN_MAX_NAME characters */
    const void *data;
    size_t bytes;
};

/*
 * Collective calls, like tern_barrier. The start copies this node's rows in memory, which takes as
 * much again until they are written, and copies the notes, which are this node's own. `path` is the
 * same at all nodes and must not exist; the folder above it must. A node has one checkpoint under
 * way at a time (TERN_BUSY). The wait returns the same status at all nodes; after a failure there
 * is no folder `path`. Closing the node gives up a checkpoint that was not waited for. In a job with
 * backups the nodes that are left write checkpoints too; if one is given up meanwhile, both calls may fail
 * with TERN_PEER, and the next checkpoint can succeed.
 */
TERN_API enum tern_status tern_checkpoint_start(struct tern_node *node, const char *path,
                                                const struct tern_note *notes, size_t n_notes);
TERN_API enum tern_status tern_checkpoint_wait(struct tern_node *node);

/*
 * The same for a program that writes one checkpoint after another: rows that are as in its last checkpoint
 * of changes are neither copied nor written again. Every checkpoint is complete by itself, and
 * earlier ones may be removed: the new folder has hard links to files of the one before. Rows that
 * changed are in new files; when files have twice as many rows as the table, or rows have left a
 * table, all of its rows are written again, as they are the first time, and where files
 * cannot be linked. Takes 8 bytes of memory for each row at this node, and 8 for its key if the keys
 * do not follow each other, until the node is closed.
 */
TERN_API enum tern_status tern_checkpoint_start_changes(struct tern_node *node, const char *path,
                                                        const struct tern_note *notes,
                                                        size_t n_notes);

/* Opens a checkpoint for reading: reads its manifest and looks whether all its files are there. */
TERN_API enum tern_status tern_checkpoint_open(const char *path,
                                               struct tern_checkpoint **checkpoint);
TERN_API enum tern_status tern_checkpoint_close(struct tern_checkpoint *checkpoint);

struct tern_checkpoint_info {
    size_t struct_size; /* set by the caller: sizeof(struct tern_checkpoint_info) */
    uint32_t n_nodes;   /* that wrote it */
    size_t n_tables, n_files;
    uint64_t bytes;                       /* of all files but the manifest */
    uint64_t lowest_clock, highest_clock; /* of all workers; 0 without any */
};

/* A table of a checkpoint. Names are valid until the checkpoint is closed. */
struct tern_checkpoint_table {
    size_t struct_size;         /* set by the caller: sizeof(struct tern_checkpoint_table) */
    const char *name, *updater; /* "add": no updater */
    enum tern_index index;
    enum tern_type type;
    uint64_t n_keys; /* dense: the key space */
    uint64_t n_rows;
    uint32_t length, state_length; /* elements of a value, and of its updater's state */
};

TERN_API enum tern_status tern_checkpoint_get_info(struct tern_checkpoint *checkpoint,
                                                   struct tern_checkpoint_info *info);
/* The table of a number from 0 to n_tables - 1. */
TERN_API enum tern_status tern_checkpoint_get_table(struct tern_checkpoint *checkpoint,
                                                    size_t number,
                                                    struct tern_checkpoint_table *table);

/* Reads all files and compares them with their hashes. */
TERN_API enum tern_status tern_checkpoint_verify(struct tern_checkpoint *checkpoint);

/* Reads rows of a table from the one of number `first` on, in the order of the files: at most
 * `capacity` of them; *n is their number, and 0 at the end. `values` and `states` may be NULL. Call
 * tern_checkpoint_verify before, if the files may be damaged. */
TERN_API enum tern_status tern_checkpoint_read(struct tern_checkpoint *checkpoint, size_t table,
                                               uint64_t first, size_t capacity, uint64_t *keys,
                                               void *values, void *states, size_t *n);

/* Copies the note of a node that wrote the checkpoint; *bytes is its size. With `data` NULL only the
 * size is returned. TERN_INVALID if there is no such note, TERN_LIMIT if it has more bytes than
 * `capacity`. */
TERN_API enum tern_status tern_checkpoint_get_note(struct tern_checkpoint *checkpoint,
                                                   uint32_t node, const char *name, void *data,
                                                   size_t capacity, size_t *bytes);

/*
 * A collective call: replaces the rows of a table, which has the name, shape and updater of one in
 * the checkpoint, by those of the checkpoint, with their updater state. Index, type, length, n_keys
 * and updater must be the same; policy, parameters of the updater and number of nodes may differ.
 * Rows that the checkpoint does not have stay as they are, so restore into a table that was just
 * opened. No worker may use the table meanwhile. Files are checked against their hashes first. After
 * a failure that is not TERN_INVALID or TERN_MISMATCH some rows may be replaced.
 *
 * The clocks of workers begin at 0, unless the program restores them.
 */
TERN_API enum tern_status tern_checkpoint_restore(struct tern_table *table,
                                                  struct tern_checkpoint *checkpoint);

/*
 * Sets the clock of a worker, which was just opened and has not advanced, to the lowest clock of
 * the checkpoint's workers: all workers of the new job begin where the slowest of the old one was,
 * however many they are. Not collective; each worker that counts on its clock calls it. Signal
 * intent afterwards.
 */
TERN_API enum tern_status tern_checkpoint_restore_clock(struct tern_worker *worker,
                                                        struct tern_checkpoint *checkpoint);

/* ---- Statistics ------------------------------------------------------------------------------ */

#define TERN_STALENESS_STEPS 20
#define TERN_CLOCK_STEPS 32
#define TERN_DELAY_STEPS 32

struct tern_table_stats {
    size_t struct_size;   /* set by the caller: sizeof(struct tern_table_stats) */
    uint64_t pulled_keys; /* keys pulled, pushed, set and pinned so far, by all workers */
    uint64_t pushed_keys;
    uint64_t set_keys;
    uint64_t pinned_keys;
    uint64_t remote_keys;  /* of those, keys that were accessed at another node */
    uint64_t remote_bytes; /* keys and values sent and received for them, before filters */
    /* Bytes that this node sent for accesses to keys of other nodes, with all headers and after
     * filters: its own requests, and its replies to requests of others. */
    uint64_t request_bytes, reply_bytes;
    uint64_t rows;           /* rows that occupy memory, here or shared */
    uint64_t value_bytes;    /* bytes of their values alone */
    uint64_t memory_bytes;   /* bytes of index, rows, updater state and counters */
    uint64_t counted_keys;   /* with `admit`: times that keys without a row were counted here, */
    uint64_t dropped_keys;   /* and pushes to them, which had no other effect */
    uint64_t removed_rows;   /* by sweeps and rules of eviction, here or in shared memory */
    uint64_t recovered_keys; /* that were lost, and that this node has read from a checkpoint */

    /* Bytes that filters saved in what this node sent. */
    uint64_t keys_saved_bytes, zeros_saved_bytes, fixed_saved_bytes, lz4_saved_bytes;
    uint64_t significant_saved_bytes; /* keys and changes, each time that a change waited */

    /* The cost of managing keys, at this node; zero for tables whose keys stay at home. */
    uint64_t rounds;     /* exchanges with other nodes */
    uint64_t messages;   /* requests made and answered in them */
    uint64_t sent_bytes; /* bytes of these */
    uint64_t received_bytes;
    uint64_t moved_here; /* main copies that arrived, and that left */
    uint64_t moved_away;
    uint64_t replicas_made; /* here */
    uint64_t replicas_ended;
    uint64_t deltas_sent; /* changes of replicas sent to owners; values received */
    uint64_t values_received;
    uint64_t redirected; /* requests that reached a node which was not the owner any more */
    /* The age of a replica's value when the next one arrived: mean and 99th percentile in
     * milliseconds, and how often it was at most 0.1, 0.2, 0.4, ... ms. It is an upper bound: the
     * owner's own changes count as if they had just missed a collection. */
    double staleness_ms_mean, staleness_ms_p99;
    uint64_t staleness_ms[TERN_STALENESS_STEPS];

    /* For tables with bounded reads, at this node: how long workers waited for others, and how
     * stale the pulled keys were. clocks_behind[i] counts keys whose value had all updates of
     * clocks below c - i, where c is the worker's clock: i = 0 is the best possible. (Published
     * work calls this a clock differential of -1 - i.) The last element counts the rest. */
    double waited_s;
    uint64_t clocks_behind[TERN_CLOCK_STEPS];

    /* For tables whose updater asks for the age of updates, at this node: pushes applied, the mean of
     * their delays, and how many had a delay of 0, 1, 2 to 3, 4 to 7, ... */
    uint64_t aged_pushes;
    double delay_mean;
    uint64_t delays[TERN_DELAY_STEPS];

    /* Policy graph:S, at this node: how often the home of a key was asked whether the replica here is too old; how often it
     * was, by itself or beside another key of the pull; and how old the values were that pulls of these keys returned.
     * updates_behind[0] counts those that lacked no update, updates_behind[i] those that lacked 2^(i-1) to 2^i - 1. */
    uint64_t checked_keys;
    uint64_t fetched_within;
    uint64_t fetched_between;
    uint64_t updates_behind[TERN_CLOCK_STEPS];
};

struct tern_worker_stats {
    size_t struct_size; /* set by the caller: sizeof(struct tern_worker_stats) */
    double open_s;      /* seconds since it was opened */
    double waited_s;    /* of these, spent waiting for others in bounded tables */
};

struct tern_node_stats {
    size_t struct_size;           /* set by the caller: sizeof(struct tern_node_stats) */
    uint64_t refused_connections; /* malformed, not authenticated, or of another job */
    uint64_t backup_bytes; /* of changed rows that the nodes with the backups have confirmed */
    uint64_t taken_bytes;  /* of the same, that came from the nodes whose backups are here */
};

/* The present counts. While workers run they may be a moment old, never torn. */
TERN_API enum tern_status tern_node_get_stats(struct tern_node *node,
                                              struct tern_node_stats *stats);

TERN_API enum tern_status tern_table_get_stats(struct tern_table *table,
                                               struct tern_table_stats *stats);

/* Bytes of the accesses of another node to keys that this one has: its requests and the replies, with all headers and after
 * filters. Those of this node itself are 0, because they are no messages. */
TERN_API enum tern_status tern_table_get_served(struct tern_table *table, uint32_t node,
                                                uint64_t *bytes);

TERN_API enum tern_status tern_worker_get_stats(struct tern_worker *worker,
                                                struct tern_worker_stats *stats);

/* ---- Explanation ----------------------------------------------------------------------------- */

#define TERN_WHY_BYTES 2048 /* hold any text of tern_why */

/*
 * Explains in a few sentences, one per line, how a key is managed, as far as this node knows: its
 * home; where the main copy is and how often it has moved (modulo 65536); at the owner, which other
 * nodes want it; this node's active intents for it; and its latest events among the table's last
 * 4096 moves and replicas here. The text is for people and may change. It is cut to `size` bytes,
 * including the final 0.
 */
TERN_API enum tern_status tern_why(struct tern_table *table, uint64_t key, char *text, size_t size);

/*
 * Records what happens to n keys at this node, until the trace is stopped or the table closed: when
 * the main copy or a replica arrives and leaves, and when intent begins and ends. The record
 * replaces the file PATH.NODE. Each line has the time in nanoseconds since the Unix epoch, the
 * node, the key and a word: main, replica, none; intent, idle. The first lines are the state at the
 * start. `tern trace PATH.*` draws the files of all nodes. Nodes start and stop independently; a
 * table has one trace at a time (TERN_BUSY). If a table's keys do not move, only their locations
 * are written.
 *
 * Lines are written at the end of rounds, so a file is complete once the trace is stopped. The stop
 * returns what went wrong until then (a file that cannot be written is TERN_INVALID). Stopping
 * without a trace does nothing.
 */
TERN_API enum tern_status tern_trace_start(struct tern_table *table, const uint64_t *keys, size_t n,
                                           const char *path);
TERN_API enum tern_status tern_trace_stop(struct tern_table *table);

#ifdef __cplusplus
}
#endif

#endif
