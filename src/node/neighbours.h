/*
 * neighbours - the nodes of one host, and the tables that they have in common.
 *
 * If all nodes of a cluster are on one host, a table whose policy says so (NEIGHBOURS_SHARE) is in memory that all of them
 * have (store/common.h): a *piece*. The first node to open the table makes it and tells the coordinator its name along with
 * the shape; who opens the table later is told that name and attaches the same piece. So a table takes no longer to open,
 * and no node waits for another.
 *
 * A piece ends with the last node that has it. So a node that closes a table, or fails to open it, keeps the piece for
 * those that have not had it yet, until all have, or the node is closed.
 *
 * Any thread may call anything here.
 */
#ifndef NODE_NEIGHBOURS_H
#define NODE_NEIGHBOURS_H

#include <pthread.h>

#include "base/status.h"
#include "store/common.h"

struct tern_table;

enum { MOST_STUCK = 1024 }; /* latches looked after at a time: each thread holds one at most, and an area */

struct piece {
    struct piece *next;
    struct common *memory;
    uint64_t name;
    struct tern_table *table; /* that is in it; NULL: it is not open here */
    /* After a node has died: latches that were held when it was looked for them. */
    bool looks;
    struct stuck stuck[MOST_STUCK];
    size_t n_stuck;
};

struct neighbours {
    pthread_mutex_t lock;
    struct piece *pieces; /* a list */
    uint32_t n_nodes;
};

void neighbours_init(struct neighbours *neighbours, uint32_t n_nodes);
void neighbours_fini(struct neighbours *neighbours);

/* Makes a piece for a table that may be the first to be opened; NULL if there is no memory for one. */
struct piece *neighbours_offer(struct neighbours *neighbours,
                               const struct tern_table_options *options);

/* Takes the piece with the name that the coordinator has told, `offered` or another one's; *piece is NULL if the first
 * node to open the table could make none: the name is 0 then. `offered` is used up. */
enum tern_status neighbours_take(struct neighbours *neighbours, struct piece *offered, uint64_t name,
                                 const struct tern_table_options *options, struct piece **piece);

/* The table in a piece, which may be NULL, is open now; and is not any more. */
void neighbours_use(struct neighbours *neighbours, struct piece *piece, struct tern_table *table);
void neighbours_leave(struct neighbours *neighbours, struct piece *piece);

/* When a node has died: notes the latches that are held, and has all accesses look (engine_check_dead); and frees those of
 * the latches noted that are still held. */
void neighbours_find_stuck(struct neighbours *neighbours);
void neighbours_free_stuck(struct neighbours *neighbours);

#endif
