/*
 * member - one memory: the processes of one host that map the same tables.
 *
 * The processes of a host are one member, unless TERN_SHARE=0. Their tables are in shared memory then (store/shared.h). If all
 * processes of a cluster are on one host, every technique is local by itself; else one of them is the leader and exchanges rows
 * with other hosts for all (core/follower.h).
 *
 * The first process of a member to open a table makes its segment (base/segment.h) and tells the coordinator the number along
 * with the shape. Those that open the table later are told that number and get the segment from its maker. So a table takes no
 * longer to open, and no process waits for another to open it.
 *
 * A segment ends with the last process that has it. So a process that closes a table, or fails to open it, keeps the segment
 * for those that have not had it yet, until all have, or the node is closed.
 *
 * Any thread may call anything here.
 */
#ifndef NODE_MEMBER_H
#define NODE_MEMBER_H

#include "base/lock.h"
#include "base/segment.h"
#include "base/status.h"
#include "core/board.h"
#include "node/watcher.h"
#include "store/shared.h"

struct engine;

/* The memory of a shared-memory table. */
struct table_segment {
    struct table_segment *next;
    struct segment *segment;
    struct shared_table *shared; /* at its begin */
    struct board *board;         /* behind it: the clocks of the processes */
    struct watched_name
        *names;   /* of a table with backups, behind that: of the processes, by node; else NULL */
    bool is_open; /* the table is, here */
};

struct member {
    struct lock lock;
    struct table_segment *segments; /* a list */
    uint32_t n_processes;
    uint64_t deadline_ns;
};

void member_init(struct member *member, uint32_t n_processes, uint64_t deadline_ns);
void member_fini(struct member *member);

/* Makes the segment of a table that may be the first to be opened; NULL if there is no memory for one. */
struct table_segment *member_offer(struct member *member, uint32_t node,
                                   const struct tern_table_options *options,
                                   const struct store_home *home);

/* Takes the segment with the number that the coordinator has told, `offered` or another process's; *segment is NULL if the
 * first process to open the table could make none: the number is 0 then. `offered` is consumed. */
enum tern_status member_take(struct member *member, struct table_segment *offered, uint64_t number,
                             const struct engine *engine, const struct tern_table_options *options,
                             const struct store_home *home, struct table_segment **segment);

/* The table in a segment, which may be NULL, is open now; and is not any more. */
void member_use(struct member *member, struct table_segment *segment);
void member_leave(struct member *member, struct table_segment *segment);

/* This process leaves and writes to none of its tables any more; or it does, after all. */
void member_part(struct member *member, uint32_t node, bool leaves);

/* A node was lost. Waits for its latches end, and from now on all calls on tables of which every call needs all nodes fail
 * (access.c). */
void member_lose(struct engine *engine, uint32_t node);

#endif
