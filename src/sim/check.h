/*
 * check - what workers have done, and therefore what they may see.
 *
 * In the *counting* tables, which are all but the last, every worker has WINDOW elements of each row to
 * itself; its operation number c adds 1 to element c % WINDOW of them, once for each key. So each
 * element counts few known operations, and what is lost or done twice can be named. In the last table
 * each key has one worker that writes it: a set raises the value to the next multiple of SET_STEP, a
 * push adds 1, so values only grow and tell how many operations they have seen.
 *
 * Of each element is known how many operations on it were started and how many were confirmed by its
 * main copy. A pull from a main copy must return at least what was confirmed when it was started, at
 * least what the worker itself had started or has seen of main copies (a lane keeps order); and at most
 * what was started when it ended. In the worker's own elements it must be exact, unless the lane was
 * resumed in between: a pull that is sent again may see what was started after it. Operations on managed
 * tables take turns, so there it is exact in any case.
 *
 * Where reads are bounded, a replica shows what is promised (promise.h). Elsewhere
 * a replica shows what this node's workers did at once, and what others did at some time. Where an
 * updater is to do it at the main copy, what was done to the replica is also shown at some time. In the
 * end, after the last rounds, all replicas show everything.
 *
 * Where tables have backups and a process crashes, what its workers had done is there if it was safe. Others may have seen more
 * of it; so there nobody is promised to see what somebody has seen. Nothing else may be lost, and nothing may fail.
 *
 * SPARSE_COUNTS is another table in every run. Where it admits keys, the first pushes to a key are dropped, exactly as many
 * as it says. Where nodes sweep it, a row and what was in those of the key that were removed add up to what was pushed. Where it
 * is a sketch, all workers add to the one element that its rows have, which is exact, because few keys do not meet.
 *
 * Once a process is restarted or a deadline passes, operations may fail with a sentence; from then on
 * what failed counts as started and not as confirmed. Until then nothing may fail.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "sim/promise.h"
#include "tern/sim.h"

enum { SET_STEP = 1000 };

struct tally {
    uint32_t started, confirmed;
    uint32_t safe;    /* confirmed by another node, or flushed: these survive the worker's own */
    uint32_t last_op; /* the worker's latest operation on it */
};

struct value {
    int64_t started, confirmed;
    bool unknown; /* an operation on it has failed */
};

/* A key in the checkpoint, where tables recover from one what is lost. */
struct saved {
    int64_t *row; /* and state; NULL: it had no row */
    size_t value_bytes;
    uint32_t *started; /* by element, when it was saved or lost; NULL: it was not */
};

struct check {
    uint32_t n_workers;
    struct tables tables;
    bool lenient;                  /* operations may fail now */
    bool lost[N_SIM_TABLES][KEYS]; /* of tables that stay at home: that node was restarted */
    struct tally *tallies;         /* [N_COUNTS][KEYS][length] */
    int64_t *swept;                /* [KEYS][length]: of rows of SPARSE_COUNTS that were removed */
    uint32_t *seen;                /* [n_workers][N_COUNTS][KEYS][length] */
    struct promise promises[N_SIM_TABLES][KEYS]; /* of bounded tables */
    bool restarted;                              /* a process was: what it had not sent is lost */
    const struct core_table *limited[TERN_SIM_MAX_NODES]; /* LIMITED_COUNTS at each node, if open */
    const struct core_table *graphs[TERN_SIM_MAX_NODES];  /* GRAPH_COUNTS, likewise */
    const struct core_table *sparse[TERN_SIM_MAX_NODES];  /* SPARSE_COUNTS, likewise */
    struct value values[KEYS];
    int64_t *seen_values;        /* [n_workers][KEYS] */
    struct saved (*saved)[KEYS]; /* by table; NULL: nothing is saved */
    bool *gone;                  /* by worker: its process has crashed or was given up */
    uint64_t n_checks, n_violations;
    char violation[256];
};

/* False when memory runs out. The seed chooses the tables. */
bool check_init(struct check *check, uint32_t n_nodes, uint32_t n_workers, bool are_backed,
                uint64_t seed);
void check_fini(struct check *check);

/* The worker that alone writes a key of LAST_VALUES. */
static inline uint32_t check_writer(const struct check *check, uint32_t index)
{
    return index % check->n_workers;
}

/* What an operation on a key is done to: known when it begins for keys that are here, and when it ends
 * for the others. */
enum used_copy {
    USED_MAIN,
    USED_REPLICA,
    USED_EITHER, /* it came here meanwhile, and may have been a replica */
};

/* An operation of a worker, as far as it matters here. */
struct operation {
    uint32_t worker, number;
    uint64_t clock; /* the worker's, for bounded tables */
    enum sim_table table;
    size_t n;
    const uint32_t *indexes; /* of its keys */
    int64_t *values;         /* what is written, or was read: n rows */
    int64_t *bounds;         /* of a pull: what it must return at least, n rows (LAST_VALUES: n) */
    enum used_copy *copies;  /* by key */
    uint64_t *mains;      /* of a pull of GRAPH_COUNTS: the updates that main copies had, by key */
    uint32_t n_gone;      /* likewise: workers that had died */
    const bool *was_away; /* by key: another node did it */
};

/* The values of an operation that adds to counts. */
void check_fill(const struct check *check, const struct operation *operation);

/* A push or set begins: fills in the values to write and notes them as started. */
void check_write(struct check *check, const struct operation *operation, bool set);
/* It has ended, confirmed or failed. */
void check_written(struct check *check, const struct operation *operation, bool confirmed);

/* A row of SPARSE_COUNTS is removed with this value. */
void check_swept(struct check *check, uint32_t index, const void *value);

/* A pull begins: fills in the bounds. */
void check_read(struct check *check, const struct operation *operation);
/* It has ended well: `resumed` says for each key whether its lane was resumed in between. */
void check_seen(struct check *check, const struct operation *operation, const bool *resumed);

/* A checkpoint is taken of a key whose main copy is in this store, unless something is under way to it. */
void check_save(struct check *check, enum sim_table table, uint32_t index, struct store *store);
/* A key is lost, and gets the row of the checkpoint in this store, if there is one. */
void check_recover(struct check *check, enum sim_table table, uint32_t index, struct store *store);

/* What a node has under a key when all that was done is everywhere. */
struct stored {
    uint32_t node;
    enum sim_table table;
    uint32_t index;
    bool is_main;
    const int64_t *row;
    const int64_t *state; /* of an updater, beside a main copy; else NULL */
};
void check_stored(struct check *check, const struct stored *stored);

/* A worker has flushed: the main copy of a key, whose row this is, if it has one, has all that it has written. */
void check_flushed(struct check *check, uint32_t worker, enum sim_table table, uint32_t index,
                   const int64_t *row);

/* All that a worker has done is at two nodes. */
void check_safe(struct check *check, uint32_t worker);

/* The process of a worker has crashed, or will be given up: what it did, and was not safe, may be lost. */
void check_gone(struct check *check, uint32_t worker);

/* Notes a comparison; and when it is not as it must be, keeps the first sentence. */
__attribute__((format(printf, 3, 4))) void check_that(struct check *check, bool holds,
                                                      const char *format, ...);

#endif
