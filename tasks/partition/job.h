/*
 * job - one partitioning, as its workers share it: which worker does which block, and how they reach the tables.
 *
 * The rows are cut into blocks. Worker w of n takes the blocks w, w + n, w + 2n ...; while it works on one, the next is
 * loaded and its keys are known to Tern by intent.
 */
#ifndef TASKS_PARTITION_JOB_H
#define TASKS_PARTITION_JOB_H

#include "partition/partition.h"

enum { NO_PART = UINT16_MAX }; /* the part of a row without entries, until it gets one */

struct job {
    struct train *train;
    const struct partition_options *options;
    const struct granules *granules;
    uint32_t n_parts;
    uint16_t
        *parts; /* by row number; at each node those of its own blocks until they are gathered */
    size_t n_blocks;
    struct block
        *blocks; /* those of this node, if they are kept; NULL: they are loaded when needed */
    struct tern_table *sets;           /* assign.h */
    struct tern_table *counts, *loads; /* improve.h */
    uint64_t n_passes, n_moved;
};

/* One thread of a job. */
struct job_worker {
    struct job *job;
    struct tern_worker *worker;
    size_t thread;
    void *own; /* of the function that works on blocks */
};

/* Threads of all nodes. */
size_t job_workers(const struct job *job);

/* Decides into how many blocks the rows are cut, and loads those of this node if all data are in memory. */
bool job_make_blocks(struct job *job);
void job_fini(struct job *job);

/* Lends a block, loading it unless it is kept. */
bool job_lend_block(const struct job *job, size_t number, struct block *block);
void job_return_block(const struct job *job, struct block *block);

typedef bool block_function(struct job_worker *worker, const struct block *block);

/* Calls `work` for each block of this thread's worker, which will use the block's keys of `table`. */
bool job_for_blocks(struct job_worker *worker, struct tern_table *table, block_function *work);

/* Opens a table: sparse unless n_keys is given; pushes add unless `apply` is given. */
bool job_open_table(const struct job *job, const char *name, enum tern_type type, uint64_t n_keys,
                    size_t length, tern_update_function *apply, struct tern_table **table);

/* Closes a table that all nodes have finished with, so that its memory serves what comes next; NULL: there is none. */
bool job_close_table(struct tern_table **table);

/* Accesses the values of n keys, not too many at once. */
typedef enum tern_status access_function(struct tern_worker *worker, struct tern_table *table,
                                         const uint64_t *keys, size_t n, void *values);
bool job_access(access_function *access, struct tern_worker *worker, struct tern_table *table,
                const uint64_t *keys, size_t n, void *values, size_t value_bytes);

/* tern_push and tern_set as access functions. */
enum tern_status job_push(struct tern_worker *worker, struct tern_table *table,
                          const uint64_t *keys, size_t n, void *values);
enum tern_status job_set(struct tern_worker *worker, struct tern_table *table, const uint64_t *keys,
                         size_t n, void *values);

/* Processor time of this process, in seconds. */
double job_cpu_seconds(void);

#endif
