/*
 * node - the objects behind the public handles. Included by the files of node/ only.
 *
 * node.c opens and closes nodes, worker.c workers, table.c tables (table_options.c checks their options, table_stats.c
 * adds up their figures). access.c has pull, push and set, ticket.c their asynchronous forms, pin.c the direct use of
 * rows; range.c has the calls on ranges, intent.c those on intents, sample.c those on samples, task.c those on tasks,
 * explain.c tern_why and traces, sketch.c sketches, checkpoint*.c checkpoints (checkpoint.h), and together.c what all nodes do
 * at once. In a cluster, shard.c serves other nodes and remote.c asks them, unless all are on one host and have the
 * table in shared memory (member.c).
 *
 * A node's lock guards its lists of tables, workers and distributions. The calls on keys never take
 * it: a worker counts what it does in memory of its own.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include <pthread.h>
#include <stddef.h>

#include "base/handle.h"
#include "base/keymap.h"
#include "base/lock.h"
#include "core/order.h"
#include "core/technique.h"
#include "node/engine.h"
#include "node/remote.h"
#include "store/rows.h"

enum { BLOCK_KEYS = 1024 }; /* keys handed to the store at once */

/* Keys a worker has used of one table. Written by its thread alone, read by anybody. */
struct counts {
    _Atomic uint64_t pulled, pushed, set, pinned, remote, remote_bytes;
    /* Of tables with bounded reads: the time waited for others, and how far behind the values were. */
    _Atomic uint64_t waited_ns, ages[TERN_CLOCK_STEPS];
};

/* What a worker needs room for; freed when it is closed. */
struct workspace {
    struct counts counts[TERN_MAX_TABLES];
    uint64_t noted[TERN_MAX_TABLES]; /* of tables with ages: by the last pull here (core/age.h) */
    uint32_t missed[BLOCK_KEYS];
    uint64_t keys[BLOCK_KEYS];
    struct entry *entries[BLOCK_KEYS];
    _Atomic bool
        is_changing; /* exclusive.h; here, because no other worker's memory is in the same line */
    /* The positions of those keys of a call that are at other nodes. */
    uint32_t *away;
    size_t n_away, max_away;
    uint64_t
        *gathered; /* keys of an intent that are in one shard; under the worker's intents_lock */
    size_t max_gathered;
    struct order order;                    /* of its operations on a key */
    struct keymap pins[TERN_MAX_TABLES];   /* how often the worker has pinned rows */
    struct unseen unseen[TERN_MAX_TABLES]; /* of tables bounded by value (admit.c) */
};

struct tern_node {
    struct handle handle;
    struct lock lock;
    struct tern_table *tables[TERN_MAX_TABLES];
    struct tern_worker *workers; /* a list */
    struct tern_dist *dists[TERN_MAX_DISTS];
    uint64_t n_workers_opened; /* so far: names random streams */
    uint64_t hash_seed;        /* of its tables' indexes: a secret */

    /* In a cluster. */
    struct engine *engine; /* NULL: a single node */
    struct view *views[3]; /* engine.h; NULL: a single node */
    struct lock control_lock;
    struct remote
        control; /* for calls to the coordinator that all make at once; under control_lock */
    struct remote opening; /* for opening tables, which must not wait behind them; under lock */
    uint64_t n_barriers, n_reductions, n_broadcasts;
    struct generation *generations; /* a list */
    struct member member;

    struct tasks *tasks;              /* tasks.h */
    struct checkpointing *checkpoint; /* that is being written (checkpoint.h); NULL: none */
    struct written *written;          /* by the last one of changes; NULL: there was none */

    /* How far the workers have come, for tables with bounded reads (admit.c). */
    uint64_t deadline_ns;
    atomic_bool
        has_clocks; /* there is, or was, such a table: from then on workers tell their clocks */
    atomic_bool has_ages; /* there is, or was, a table with evict_age */
    struct lock clocks_lock;
    pthread_cond_t clocks_change; /* on the monotonic clock */
    struct worker_clocks clocks;
    _Atomic uint64_t min_clock; /* the lowest of them, for readers without the lock */
};

static inline const struct view *node_view(const struct tern_node *node)
{
    return node->engine ? node->engine->core.view : &view_alone;
}

/* How many tables of a name were closed here. All nodes count alike, so that a table that is opened again is
 * the same new one for all of them, whoever still has the old one. */
struct generation {
    struct generation *next;
    uint64_t n_closed;
    char name[TERN_MAX_NAME + 1];
};

struct tern_table {
    struct handle handle;
    struct tern_node *node;
    uint32_t id; /* its place in node->tables and in every workspace */
    /* Keys below it, alone in a call, go straight to their rows: none where reads are bounded, or a process was lost. */
    _Atomic uint64_t n_straight;
    uint64_t n_open;
    uint32_t n_dists; /* open on it */
    bool is_admitted; /* the technique admits each operation first (admit.h) */
    bool is_counted;  /* its rows count their updates (core/counting.h) */
    bool is_special;  /* it is admitted, counted, a sketch or has ages: access takes the long way */
    _Atomic uint64_t n_under_way; /* operations that were started and not waited for */
    struct policy policy;
    struct tern_table_options options; /* with which it was opened */
    char updater_name[32];
    uint64_t placement_digest; /* placed_digest of its placement, */
    struct placed *placed;     /* and the homes it gives; NULL: it has none, or all rows are here */
    struct generation *generation; /* in a cluster */
    struct table_segment *segment; /* that it is in; NULL: in this process's own memory */
    struct counts ended;           /* by workers that are closed */
    char *recover;                 /* checkpoints for keys that are lost; NULL: there are none */
    _Atomic uint64_t n_recovered;  /* such keys */
    struct core_table core;
};

static inline struct tern_table *table_around(struct core_table *core)
{
    return (struct tern_table *)((char *)core - offsetof(struct tern_table, core));
}

/* As whom this node has a table's keys (core.h); in a cluster only. */
static inline const struct core *table_core(const struct tern_table *table)
{
    return core_for(&table->node->engine->core, &table->core);
}

/* Whether this memory has all keys of a table. */
static inline bool table_is_whole(const struct tern_table *table)
{
    return !table->node->engine || (table->segment && !table->core.member);
}

/* The part of a table's memory that this process is to go through, where all that have it do so together. */
/* `recover` of a table's backup (core/backup.h): from the checkpoints of table->recover. */
bool recover_lost(struct core_table *table, uint32_t arc, uint32_t shard);

struct rows_share table_share(const struct tern_table *table);

/* Whether every call on the table needs all nodes: its rows may be torn, or its copies differ for good, once one is lost. */
bool table_needs_all(const struct tern_table *table);

/* Keys that were asked for and are to come here (localize.c). */
struct localization {
    const uint64_t *keys; /* the program's */
    size_t n;
    size_t n_away;  /* the fewest so far, */
    uint64_t round; /* since this round; */
    uint64_t
        sweep; /* where another process has the manager: and since this sweep of it (core/follower.h) */
};

/* An operation under way whose start was reported to the program. */
struct pending {
    struct pending *next, *before; /* of the list; only `next` while it is free */
    uint64_t ticket;
    struct tern_table *table;
    bool is_counted;                  /* its keys are among those under way */
    struct localization localization; /* if it is one: it has keys then, and no `op` */
    struct op op;
};

struct tern_worker {
    struct handle handle;
    struct tern_node *node;
    struct tern_worker *next;
    struct workspace *space;
    _Atomic uint64_t clock; /* it alone writes */
    uint64_t last_ticket;
    uint64_t n_pins;                           /* of all tables */
    uint64_t number;                           /* by the order of opening on this node, from 0 */
    struct sampling *sampling;                 /* its samples (sample.c); NULL: none so far */
    struct remote *remote;                     /* NULL: a single node */
    struct intents *intents[STORE_MAX_SHARDS]; /* the same, by shard */
    struct lock intents_lock; /* of adding to them: any thread may, until the worker closes */
    bool takes_intents;       /* under intents_lock */
    uint64_t n_localized;     /* calls of tern_localize */
    uint64_t drive_ns;        /* when it takes its next turn at the rounds */
    uint32_t clock_index;     /* its clock in node->clocks; what it is there is admit.c's */
    uint64_t clock_ahead;     /* what that is ahead of `clock` */
    bool rests, is_limited;   /* it holds nobody back; it has pushed to tables bounded by value */
    double update_size;       /* of the update that is under way (admit.c) */
    uint64_t opened_ns;
    _Atomic uint64_t waited_ns;             /* for bounded tables */
    struct pending *pending, *last_pending; /* a list, oldest first */
    struct pending *free_pending;           /* a list */
    struct caller *caller;                  /* its tasks (tasks.h); NULL: none so far */
    _Atomic bool is_exclusive;              /* exclusive.h */
    bool
        is_pool_thread; /* Tern's own, for functions (task_pool.c); it does not keep the node open */
};

/* Calls the coordinator; in a cluster only. The answer is in `op` (client.h). */
enum tern_status node_call(struct tern_node *node, struct op *op, enum frame_kind kind);

/* Waits for the worker's operations under way, whatever becomes of them, and forgets them. */
void access_finish_all(struct tern_worker *worker);

/* Ends all pins of a worker. */
void access_unpin_all(struct tern_worker *worker);

/* Ends a table whatever its n_open. The caller holds the node's lock or is the last to know it. */
void table_end(struct tern_table *table);

/* Checks what a table is to be opened with (table_options.c): its name; its options, by themselves; and whether they are
 * those of a table that is open. */
enum tern_status table_check_name(const char *name);
enum tern_status table_check_options(const char *name, const struct tern_table_options *options);
enum tern_status table_check_same(const struct tern_table *table,
                                  const struct tern_table_options *now);

/* Whether a worker may say something about keys of a table. */
enum tern_status intent_check(const struct tern_worker *worker, const struct tern_table *table,
                              const uint64_t *keys, size_t n);

/* How a table acts on it that keys are wanted; INTENT_NONE: not at all. */
enum intent_kind intent_kind_of(const struct tern_table *table, enum wanted_by by);

/* Adds an intent for keys of a table that acts on it to the worker's queues, and lets the rounds look at it. Any thread may
 * call this; TERN_CLOSED once the worker closes. */
enum tern_status intent_add(struct tern_worker *worker, const struct tern_table *table,
                            enum intent_kind kind, const uint64_t *keys, size_t n, uint64_t start,
                            uint64_t end);

/* Ends the samples of a worker that is being closed, and the distributions on a table that is; for the
 * latter the caller holds the node's lock or is the last to know it. */
void sample_end_worker(struct tern_worker *worker);
void sample_end_open(struct tern_worker *worker); /* samples alone, of a worker that stays */
void sample_end_table(struct tern_table *table);

/* Opens a worker, of the program or of the pool. */
enum tern_status node_open_worker(struct tern_node *node, bool is_pool_thread,
                                  struct tern_worker **worker);

/* Ends what a worker that is being closed has of tasks; TERN_BUSY while some are under way. */
enum tern_status tasks_end_worker(struct tern_worker *worker);

/* Takes a turn at serving other nodes and at the rounds (engine.h), unless the last one was just now. Called
 * wherever a program comes by whose step may be long, since others wait for it meanwhile. */
void worker_drive(struct tern_worker *worker);

/* Tells the tables with evict_age that a worker has reached `clock`. */
void evict_advanced(struct tern_worker *worker, uint64_t clock);

/* Forgets what a worker has counted of a table that ends. */
void worker_forget_table(struct tern_worker *worker, uint32_t table);

/* Adds n to a counter of this thread's. */
static inline void count_add(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + n, memory_order_relaxed);
}

/* Adds the counts of one worker, or of ended ones, to a sum. */
void counts_sum(struct counts *sum, const struct counts *more);

/* Whether an access may go on: both handles open, of one node, and no array NULL that is needed. */
static inline bool access_allowed(const struct tern_worker *worker, const struct tern_table *table,
                                  const void *keys, size_t n, const void *values)
{
    return handle_is((const struct handle *)worker, HANDLE_WORKER) &&
           handle_is((const struct handle *)table, HANDLE_TABLE) && worker->node == table->node &&
           (n == 0 || (keys && values));
}

/* The failure when it may not; `what` names the array of values. */
enum tern_status access_refuse(const struct tern_worker *worker, const struct tern_table *table,
                               const void *keys, const void *values, const char *what);

#endif
