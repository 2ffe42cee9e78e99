/*
 * exchange - what a node asks the others about one table in a round (sync.h): for news of replicas
 * (core/replica.h), about keys that come and go (core/manager.h), or about bounds (core/bounded.h).
 *
 * All nodes concerned are asked at once; when all have answered, those to whom there is more to say, or of whom
 * there is more to hear, are asked again. The exchanges of a round run side by side on the same lanes. The caller
 * holds the lock of the rounds.
 */
#ifndef NODE_EXCHANGE_H
#define NODE_EXCHANGE_H

#include "core/core.h"
#include "node/remote.h"

struct question; /* to one node */

struct exchange {
    struct engine *engine;
    struct remote *remote;
    struct question *questions; /* by node */
    uint16_t number;            /* of the table that is asked about */
    int pass;                   /* of asking */
    bool runs;                  /* questions are under way */
    bool busy;                  /* something was exchanged since it began */
};

/* NULL when memory is used up. */
struct exchange *exchange_new(struct engine *engine, struct remote *remote);

/* Questions under way are given up. */
void exchange_free(struct exchange *exchange);

/* Begins with the questions about a table; there may be none. They are queued: the caller sees to it that they are
 * sent (remote.h). */
enum tern_status exchange_begin(struct exchange *exchange, struct core_table *table);

/* Goes on if all have answered. `table` is NULL if it was closed since. Before a request was sent, owners may have
 * collected what had changed as long as `lag_ns` ago. */
enum tern_status exchange_step(struct exchange *exchange, struct core_table *table,
                               uint64_t lag_ns);

/* Finds a node that has not answered since a time; false if there is none. */
bool exchange_find_silent(const struct exchange *exchange, uint64_t since_ns, uint32_t *node);

#endif
