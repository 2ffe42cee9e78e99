/*
 * remote - a worker's own connections to other nodes: it writes its requests itself and waits for the
 * answers itself, so a remote access costs one round trip and no change of thread.
 *
 * A connection is made at first use. When it breaks it is made again and what was unanswered is sent
 * again (client.h). A node that gives no sign for the deadline, or is known to be dead, fails
 * everything that waits for it with a sentence that names it. A remote belongs to one thread at a time.
 */
#ifndef NODE_REMOTE_H
#define NODE_REMOTE_H

#include "core/client.h"
#include "node/connection.h"
#include "node/engine.h"

struct peer {
    struct connection connection;
    bool welcomed;
    bool refused;      /* by the answer to HELLO, which `trouble` then keeps */
    bool turned_away;  /* the last connection was ended without a word */
    bool unmade;       /* it could not even be begun here */
    bool met;          /* it has welcomed this node once */
    bool waits;        /* something is unanswered */
    uint64_t heard_ns; /* when something last came, or waiting began */
    uint64_t retry_ns; /* not to connect again before */
    char trouble[160]; /* why the last connection failed */
};

struct remote {
    struct engine *engine;
    struct client client;
    uint32_t lane;
    struct peer *peers; /* one for each lane of the client */
    struct pollfd *polls;
    int wake_fd; /* ends remote_wait_for_any when it is readable; -1: none. Not for one that drives */
    bool drives; /* a worker's, of a node with managed tables: it drives the engine while it waits */
    bool is_pulse; /* it asks the coordinator who is alive: its silence means itself */
    bool local_waits;        /* requests wait for keys that come here */
    uint64_t local_since_ns; /* when they began to */
    uint64_t looked_ns; /* when it last looked for nodes that do not answer */
};

/* Connections to all shards of other nodes, or to a single one of each. */
enum tern_status remote_init(struct remote *remote, struct engine *engine);
enum tern_status remote_init_shard(struct remote *remote, struct engine *engine, uint32_t shard);
void remote_fini(struct remote *remote);

/* Sends what is queued for a node unless other requests are under way and little is queued: requests
 * that follow each other closely then travel together. */
void remote_nudge(struct remote *remote, struct lane *lane);

/* Waits until something can be sent or received, or the time is over. */
void remote_wait_for_any(struct remote *remote, int timeout_ms);

/* The same, or until another node asks this one, for who then sees to that. */
void remote_wait_driving(struct remote *remote, int timeout_ms);

/* Carries on with everything that is under way, without waiting; fails what waits for a node that is
 * dead or does not answer. */
void remote_progress(struct remote *remote);

/* Waits until the operation is done. `patient`: it may rightly take long, as a barrier does; then only
 * the death of a node ends it. */
void remote_wait(struct remote *remote, struct op *op, bool patient);

#endif
