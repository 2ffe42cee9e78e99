/*
 * engine - runs operations in parallel, as soon as the variables that they name allow it. It knows no operators.
 *
 * An operation names the variables that it reads and the ones that it writes. Each variable has a queue: an operation may
 * run when, at each of its variables, all earlier writers have ended and, if it writes, all earlier readers too. So the
 * outcome is that of the order in which operations were submitted, whatever the number of threads.
 *
 * The engine has no operation of its own in memory: links and operations belong to the submitter, stay in place until
 * `run` has returned and the operation has ended, and may then be submitted again. A thread that waits runs operations
 * meanwhile; with one thread nothing else does. `run` may not wait for the engine.
 *
 * Operations that communicate, which mostly wait for other nodes, run one at a time in a thread of their own, in the order
 * in which they become ready, so that no computation waits behind them. They alone may wait for others in `run`: for those
 * that compute.
 *
 * Failure: when `run` fails, the variables that the operation writes fail with its sentence and name. An operation that
 * reads or writes a failed variable does not run and fails alike, unless it overwrites it without reading. A wait for a
 * variable returns its failure. A write that succeeds ends it.
 *
 * Any thread may call these at any time. Every wait ends: operations are finite, and those that wait for other nodes have
 * deadlines of their own.
 */
#ifndef ND_ENGINE_H
#define ND_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tern/tern.h"

struct failure;
struct operation;

struct variable {
    struct link *head, *tail; /* of the links that have not been granted */
    uint32_t n_reading, n_pending_writes;
    bool is_written;
    struct failure *failure;
};

struct link {
    struct variable *variable;
    struct operation *operation;
    struct link *next;
    bool writes;
    bool keeps; /* writes, but part of what was there stays */
};

struct operation {
    enum tern_status (*run)(void *context);
    void (*ended)(void *context); /* the operation is the submitter's again */
    void *context;
    const char *name;
    bool communicates;
    struct link *links; /* no variable twice */
    uint32_t n_links;
    uint32_t n_missing;
    struct operation *next;
};

void nd_engine_submit(struct operation *operation);

/*
 * An operation may divide its work: runs part(context, 0) .. part(context, n - 1), in any order, on the calling thread and on
 * threads that have nothing else to do, and returns when all have ended. Parts wait for nothing and do not fail.
 * nd_engine_split says into how many parts work of this size is worth dividing, if each has at least `least` of it.
 */
enum { ENGINE_PARTS = 16 };
void nd_engine_parts(unsigned n, void (*part)(void *context, unsigned i), void *context);
unsigned nd_engine_split(int64_t work, int64_t least);

/* Where the i-th of n parts of so many things begins. */
static inline int64_t nd_engine_begin(int64_t count, unsigned n, unsigned i)
{
    return count * i / n;
}

/* Waits until everything that writes the variable has ended; then returns its failure. */
enum tern_status nd_engine_wait(struct variable *variable);

/* Likewise, and until everything that reads it has ended. */
enum tern_status nd_engine_wait_idle(struct variable *variable);

/* Waits until nothing that was submitted is left. Failures stay where they are. */
void nd_engine_wait_all(void);

/* Waits until *left is 0; the `ended` of operations decrease it. */
void nd_engine_wait_for(const atomic_uint *left);

/* Forgets the failure of a variable that nothing uses any more. */
void nd_engine_forget(struct variable *variable);

/* The threads that run operations, the waiting one included; at least 1. At first TERN_THREADS or the number of cores.
 * Setting it waits until the engine is idle. */
enum tern_status nd_engine_set_threads(unsigned n);
unsigned nd_engine_threads(void);

/* Operations that have ended since the start. */
uint64_t nd_engine_count(void);

#endif
