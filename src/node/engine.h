/*
 * engine - a node's part in a cluster: the thread that serves other nodes, and the pulse that tells
 * the coordinator that this node lives.
 *
 * Threads: other nodes are served, and rounds are run (sync.h), by whoever comes by: *driving* is a
 * function guarded by a try-lock. Workers drive now and then between their steps, and while they wait,
 * since on a busy machine a thread of our own would have to wait for a core longer than a round takes.
 * The service thread drives when no worker has for DRIVEN_MS, or at once where there are tables with bounded
 * reads, whose news others wait for; it sleeps in epoll while there is nothing to do. The pulse thread
 * sends a PING every quarter of the deadline. Workers have connections of their own (remote.h) for what
 * they ask.
 *
 * The engine's lock is held by the service thread while it handles requests, by the rounds (sync.h)
 * while they use the managers of tables, and by whoever adds or removes a table or a worker's intents.
 */
#ifndef NODE_ENGINE_H
#define NODE_ENGINE_H

#include <pthread.h>

#include "base/keymap.h"
#include "core/intents.h"
#include "core/pace.h"
#include "core/server.h"
#include "net/stream.h"
#include "node/place.h"
#include "node/sync.h"

struct incoming;

struct engine {
    struct place place;
    struct core core;
    struct net *net;
    struct listener *listener;
    char (*addresses)[256]; /* of all nodes, once joined */
    uint64_t *incarnations; /* of all nodes; 0: not known yet */

    pthread_mutex_t lock;
    struct server server;
    struct incoming *incoming; /* a list, */
    struct incoming **by_fd;   /* and by descriptor; NULL: none has this one */
    size_t n_by_fd, n_strangers;
    atomic_bool takes_newcomers; /* false: they wait, because there are too many strangers */
    uint64_t looked_ns;       /* when all connections were last looked at */
    struct known_lane **lanes; /* what is remembered across connections */
    size_t n_lanes, max_lanes;
    struct keymap lane_places; /* 1 + their places among these, by node, incarnation and number */
    int epoll_fd, wake_fd;
    pthread_t service;
    bool has_service;
    atomic_bool stop;
    _Atomic uint64_t driven_ns; /* when a worker last drove, or tried to */
    _Atomic uint64_t held_ns;   /* when another node last said that a request waits for a table */
    _Atomic uint64_t n_refused; /* connections that sent nonsense or were not of this job */

    pthread_t pulse;
    bool has_pulse;
    pthread_mutex_t pulse_lock;
    pthread_cond_t pulse_stop; /* on the monotonic clock */

    struct sync sync;
    atomic_bool is_prompt; /* what comes is dealt with at once, not when a worker looks */
    struct pace *pace;     /* of the node's workers (node/bound.h) */
    pthread_mutex_t *pace_lock;
    struct intents *intents; /* of this node's workers; a list, under the lock */
    uint32_t n_managers;     /* made so far */

    /* Numbers of this node's own lanes. Those not in use any more are used again, because other nodes remember
     * each; there is room for all. Under the lock. */
    uint32_t *spare_lanes;
    uint32_t n_spare_lanes, n_own_lanes;
    /* 1 + the number of a node known to be dead; 0: none. Calls that wait for it fail at once. */
    _Atomic uint32_t dead;
};

/* Joins the cluster: returns when all nodes are there, or fails within the deadline. */
enum tern_status engine_start(struct engine *engine, const struct place *place);

/* Leaves it: returns when all others have left, too, or one has died, which is the status. This node
 * serves them until then. engine_end must follow. */
enum tern_status engine_leave(struct engine *engine);

/* Ends all threads and frees everything. */
void engine_end(struct engine *engine);

/* Serves what has come, and carries on with the rounds, without waiting; nothing if others do it at this
 * moment. To be called by workers, `now_ns` being the time. */
void engine_drive(struct engine *engine, uint64_t now_ns);

/* Whether workers have driven lately, so that the threads leave it to them. */
bool engine_is_driven(const struct engine *engine, uint64_t now_ns);

/* Lets held requests be tried again. */
void engine_wake(struct engine *engine);

/* A number for a lane of this node that no other one has; false when memory is used up. */
bool engine_take_lane(struct engine *engine, uint32_t *lane);
void engine_give_lane(struct engine *engine, uint32_t lane);

/* Makes a call to a node (client.h) on a connection of the caller's and waits for its answer. */
struct remote;
struct op;
enum tern_status engine_call(struct remote *remote, uint32_t node, struct op *op,
                             enum frame_kind kind);

#endif
