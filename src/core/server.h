/*
 * server - the answering side: executes the requests of other nodes' lanes on this node's tables.
 *
 * Requests of a lane are executed in the order of their numbers. The server remembers, per lane, the
 * number of the last one executed: a request sent again with a number at or below it is answered, but
 * a write is not executed twice. A lane belongs to one process; another incarnation starts it anew.
 *
 * A request that cannot be executed yet, because this node has not opened the table or because others
 * must come first (group.h), is held: it stays with its caller and is tried again.
 */
#ifndef CORE_SERVER_H
#define CORE_SERVER_H

#include "core/core.h"
#include "core/group.h"

/* What a server remembers of one lane, across connections. */
struct server_lane {
    uint32_t node;        /* the client's */
    uint64_t incarnation; /* of the client's process */
    uint64_t executed;
    /* The last writes that failed, and so had no effect: sent again, they are tried again. */
    uint64_t failed[8];
    uint32_t n_failed;
    struct buffer sync; /* the answer to request sync_number, a SYNC; see server.c */
    uint64_t sync_number;
};

struct server {
    struct core *core;
    struct group *group; /* at node 0; NULL elsewhere */
    uint64_t *keys;      /* room for the keys of one request */
    uint32_t *missed;
    struct entry **entries;
    struct buffer values; /* aligned ones */
};

enum tern_status server_init(struct server *server, struct core *core, struct group *group);
void server_fini(struct server *server);

/* Handles one request. SERVED: the reply was appended to `out`. *changed is set to true if held
 * requests may be tried again. */
enum served server_request(struct server *server, struct server_lane *lane,
                           const struct frame *request, const uint8_t *body, uint64_t now_ns,
                           struct buffer *out, bool *changed);

#endif
