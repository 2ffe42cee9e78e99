/*
 * access - what the files of the calls on keys share: access.c (pull, push and set, and the part that is done at this
 * node), away.c (the part at other nodes), ticket.c (operations started now and waited for later) and pin.c (rows used in
 * place). Included by these only.
 */
#ifndef NODE_ACCESS_H
#define NODE_ACCESS_H

#include "node/node.h"

/* Names the first key that is outside a dense table. */
enum tern_status access_refuse_key(const struct store *store, const uint64_t *keys, size_t n);

/* Keys of a dense table are below 2^40 (TERN_MAX_DENSE_KEYS), so a key is outside exactly if the top bit
 * of the key itself or of the difference to the last one is set: no comparison, two keys at a time. */
static inline enum tern_status access_check_keys(const struct store *store, const uint64_t *keys,
                                                 size_t n)
{
    if (store->index != TERN_DENSE)
        return TERN_OK;
    uint64_t last_key = store->last_key, outside = 0;
    for (size_t i = 0; i < n; i++)
        outside |= (last_key - keys[i]) | keys[i];
    return outside >> 63 ? access_refuse_key(store, keys, n) : TERN_OK;
}

/* Fails if a table needs all nodes or processes and one of them is dead: a shared row may be torn, and the copies of
 * `replicate` would no longer be exchanged. */
enum tern_status access_check_all(const struct tern_worker *worker, const struct tern_table *table);

/* store_reserve or store_reserve_all. */
typedef enum tern_status reserve_function(struct store *store, const uint64_t *keys, size_t n,
                                          struct entry **entries);

/* Makes the rows of keys at home here. */
enum tern_status access_reserve_rows(struct tern_worker *worker, struct store *store,
                                     const uint64_t *keys, size_t n, reserve_function *reserve);

/* Does an operation here, in a sketch (sketch.c). */
enum tern_status access_sketch(struct tern_worker *worker, struct tern_table *table,
                               enum frame_kind kind, const uint64_t *keys, size_t n, void *values);

/* Notes that the key at `position` of a call is at another node. */
enum tern_status access_add_away(struct workspace *space, size_t position);

/* Begins an operation, when its turn has come: does what can be done of it here, and notes the positions of the other keys
 * in the workspace. */
enum tern_status access_begin(struct tern_worker *worker, struct tern_table *table,
                              enum frame_kind kind, const uint64_t *keys, size_t n, void *values);

/* The same of a pull, without a bounded table's wait. */
enum tern_status access_pull_here(struct tern_worker *worker, struct tern_table *table,
                                  const uint64_t *keys, size_t n, char *values);

/* Counts the keys of an operation, and those of them that are at other nodes. */
void access_count(struct tern_worker *worker, const struct tern_table *table, enum frame_kind kind,
                  size_t n);

/* Takes a turn before an operation that is long beside looking at the clock: keys that have arrived are then
 * found here, and whoever waits for this node does not wait for the end of the worker's step. */
static inline void access_drive(struct tern_worker *worker, size_t n)
{
    enum { MANY = 64 };
    if (n >= MANY)
        worker_drive(worker);
}

/* ---- Other nodes (away.c) ---- */

/* Starts the part of an operation on n keys that concerns those noted in the workspace; its outcome, when it is done. */
enum tern_status away_start(struct tern_worker *worker, const struct tern_table *table,
                            enum frame_kind kind, const uint64_t *keys, size_t n, void *values,
                            struct op *op);

/* The same; `present` is NULL but for a pull that asks which keys have rows. */
enum tern_status away_start_present(struct tern_worker *worker, const struct tern_table *table,
                                    enum frame_kind kind, const uint64_t *keys, size_t n,
                                    void *values, bool *present, struct op *op);
enum tern_status away_end(struct tern_worker *worker, struct op *op);

/* Waits until a worker whose write was done at another node will see what it wrote. */
enum tern_status away_catch_up(struct tern_worker *worker, const struct op *op);

/* Before a set: what the worker has pushed to replicas of these keys goes to the main copies. */
enum tern_status away_send_ahead(struct tern_worker *worker, struct tern_table *table,
                                 const uint64_t *keys, size_t n);

/* ---- Keys on their way here (localize.c) ---- */

/* Waits until the keys are here, or no further one comes; and whether it is so. */
enum tern_status localize_wait(const struct tern_table *table, struct localization *localization);
bool localize_is_done(const struct tern_table *table, struct localization *localization);

/* ---- Operations under way (ticket.c) ---- */

/* Puts a localization under the worker's next ticket. */
enum tern_status ticket_add_localization(struct tern_worker *worker, struct tern_table *table,
                                         const struct localization *localization);

/* Waits for those that an operation on these keys must not overtake. */
enum tern_status ticket_wait_for_turn(struct tern_worker *worker, const struct tern_table *table,
                                      const uint64_t *keys, size_t n);

#endif
