/*
 * server - the answering side of a shard: executes the requests of other nodes' lanes on this node's tables.
 *
 * Requests of a lane are executed in the order of their numbers. The server remembers, per lane, the
 * number of the last one executed: a request sent again with a number at or below it is answered, but
 * a write is not executed twice. A lane belongs to one process; another incarnation starts it anew.
 *
 * A request for keys of which some are not here is answered MOVED and has no effect: sent again, it is
 * tried again, until the client says, by the number of its first unanswered request (`second`), that it
 * has got the answer. A key that this node has asked for, or has a replica of, may be on its way: the request
 * is held until the node's present round is over, and then decided.
 *
 * A request that names a list of keys (wire/lists.h) that is not known is answered FORGOTTEN and has no effect; later ones of
 * its lane are ignored until it comes again with its list, as they do behind it.
 *
 * A write to a table with backups is executed, and then held until the nodes with the backups have it too (backup.h).
 *
 * A request under an older view than this node's, or of a node that was given up, has no effect and is answered OUTDATED. One
 * under a later view is held until this node has that.
 *
 * A ROUND with FRAME_OPEN_PROBE as its step asks whether this node has opened the table, and is answered at once.
 *
 * A request that cannot be executed yet, because this node has not opened the table or because others
 * must come first (group.h), is held: it stays with its caller and is tried again. A node that asked for a table
 * gets a HOLD now and then while it waits rightly. It gets an error if it waits in vain: the table was closed, or this node
 * leaves without having opened it.
 */
#ifndef CORE_SERVER_H
#define CORE_SERVER_H

#include "core/core.h"
#include "core/group.h"
#include "wire/lists.h"

struct backup;

/* What a server remembers of one lane, across connections. */
struct server_lane {
    uint32_t node;        /* the client's */
    uint32_t arc;         /* that it is for */
    uint64_t incarnation; /* of the client's process */
    uint64_t executed;
    /* Requests that had no effect, because they failed or were answered MOVED: sent again, they are tried
     * again. Ascending; forgotten when the client says that it has got the answers. */
    uint64_t *void_numbers;
    size_t n_void, max_void;
    /* A request that is held because a key may be on its way here, and the round it waits for. */
    uint64_t held_number, held_round;
    struct key_lists lists; /* of keys that the client has sent, */
    uint64_t
        awaits_list; /* and the request that comes again with its list, before any other; 0: none */
    struct kept_answer *kept; /* to rounds, one for each table; see server.c */
    size_t n_kept;
    uint64_t
        batch; /* that has its last write to a table with backups (backup.h); 0: there was none */
    bool is_changed; /* the next batch has a record of it */
};

/* A lane is named by a number of its client's, below 2^32, and the arc (view.h) that it is for. */
static inline uint64_t lane_with_arc(uint64_t lane, uint32_t arc)
{
    return lane | ((uint64_t)arc + 1) << 32;
}

static inline uint64_t lane_plain(uint64_t id)
{
    return id & UINT32_MAX;
}

/* The arc, which is the called node's own unless it is named. */
static inline uint32_t lane_arc(uint64_t id, uint32_t called)
{
    return id >> 32 ? (uint32_t)(id >> 32) - 1 : called;
}

/* The last answer to a ROUND about a table. */
struct kept_answer {
    uint16_t table;
    uint64_t number; /* of the request */
    struct buffer bytes;
};

/* Where TASK and FINISHED go: what they do is done by threads, and so is not the core's. `body` is that of
 * the request, which has no keys. TERN_NO_MEMORY: the request is to be sent again. A request that comes twice has the
 * effect of one. */
struct task_port {
    void *context;
    enum tern_status (*take)(void *context, uint32_t from, const struct frame *request,
                             const uint8_t *body);
};

struct server {
    struct core *core;
    uint32_t shard;      /* 0 unless set */
    struct group *group; /* at node 0, in shard 0; NULL elsewhere */
    uint64_t *keys;      /* room for the keys of one request */
    uint32_t *missed;
    struct entry **entries;
    struct buffer values;           /* aligned ones */
    struct buffer answer, packed;   /* to a round: as the technique makes it, and as it is sent */
    bool is_leaving;                /* the node is being closed: it opens no further table */
    bool holds_for_round;           /* a request is held until a round is over */
    bool holds_for_table;           /* the last request is held until its table is open */
    enum tern_status rounds_status; /* what ended this node's rounds, if it is a failure, */
    const char *why_no_rounds;      /* and its sentence */
    bool wants_round; /* a request gave this node something to say: a round is to begin soon */
    /* Whether kept answers may be left in `kept`, to be sent behind `out`, instead of being copied there;
     * kept.n is then to be set to 0. They stay in place until the lane's next request. */
    bool sends_kept;
    struct slice kept;
    uint32_t lists_most;   /* lists of keys that are kept for a lane; 0: as many as may be */
    struct backup *backup; /* of the shard's rows (backup.h) */
    bool wants_batch; /* a request changed rows that have backups: a batch is to be sent soon */
    bool is_outdated; /* a request came under a later view than this node's */
    struct task_port tasks; /* take is NULL: not yet, such requests are held */
};

enum tern_status server_init(struct server *server, struct core *core, struct group *group);
void server_fini(struct server *server);

void server_lane_fini(struct server_lane *lane);

/* Whether a table that is not open here may be opened yet. */
bool server_may_open(const struct server *server, uint16_t table);

/* The answer that is kept about a table; NULL: none. */
struct kept_answer *server_lane_kept(const struct server_lane *lane, uint16_t table);

/* Handles one request. SERVED: the reply was appended to `out`. *changed is set to true if held
 * requests may be tried again. */
enum served server_request(struct server *server, struct server_lane *lane,
                           const struct frame *request, const uint8_t *body, uint64_t now_ns,
                           struct buffer *out, bool *changed);

#endif
