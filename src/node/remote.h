/*
 * remote - the lanes of one thread over sockets: the thread writes its requests itself and waits for the answers itself,
 * so a remote access costs one round trip and no thread switch.
 *
 * When lanes connect, resume and give up is decided in core/lanes.h; this file is its driver. A remote belongs to one
 * thread at a time.
 */
#ifndef NODE_REMOTE_H
#define NODE_REMOTE_H

#include "core/lanes.h"
#include "node/connection.h"
#include "node/engine.h"

struct remote {
    struct engine *engine;
    struct client client;
    struct lanes lanes;
    uint32_t lane;
    struct connection *connections; /* one for each lane of the client */
    struct pollfd *polls;
    int wake_fd; /* ends remote_wait_for_any when it is readable; -1: none. Not for one that drives */
    bool
        drives; /* a worker's, of a node with managed tables: it drives the engine while it waits */
    bool reads; /* what has come is read when lanes advance */
    uint64_t look_ns; /* after which the lanes are to be looked at */
};

/* Connections to all shards of other nodes, or to a single one of each. */
enum tern_status remote_init(struct remote *remote, struct engine *engine);
enum tern_status remote_init_shard(struct remote *remote, struct engine *engine, uint32_t shard);
void remote_fini(struct remote *remote);

/* Whether a node's first shard has ever sent anything, a refusal included. */
bool remote_was_answered(const struct remote *remote, uint32_t node);

/* Sends what is queued for a node unless other requests are under way and little is queued: requests
 * that follow each other closely then travel together. */
void remote_nudge(struct remote *remote, struct lane *lane);

/* Waits until something can be sent or received, or the time is over. */
void remote_wait_for_any(struct remote *remote, int timeout_ms);

/* The same, or until another node asks this one, for a caller that then sees to that. */
void remote_wait_driving(struct remote *remote, int timeout_ms);

/* Carries on with everything that is under way, without waiting; fails what waits for a node that is
 * dead or does not answer. */
void remote_progress(struct remote *remote);

/* Waits until the operation is done. `patient`: it may take long for a good reason, as a barrier does; then only
 * the death of a node ends it. */
void remote_wait(struct remote *remote, struct op *op, bool patient);

/* The address at which a node was reached; NULL while it is not connected. */
const char *remote_address(const struct remote *remote, uint32_t node);

#endif
