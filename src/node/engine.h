/*
 * engine - a node's part in a cluster: its shards (shard.h), which serve other nodes and run the rounds, and the pulse
 * that tells the coordinator that this node lives.
 *
 * Threads: any thread of the node may serve other nodes and run rounds: *driving* a shard is a function guarded by a
 * try-lock. Workers drive now and then between their steps, and while they wait, since on a busy machine a thread of
 * our own would have to wait for a core longer than a round takes. The shards' own threads drive when no worker does.
 * The pulse thread sends a PING every quarter of the deadline. Workers have connections of their own (remote.h) for
 * what they ask.
 */
#ifndef NODE_ENGINE_H
#define NODE_ENGINE_H

#include <pthread.h>

#include "base/lock.h"
#include "core/peers.h"
#include "core/worker_clocks.h"
#include "net/stream.h"
#include "node/member.h"
#include "node/launch.h"
#include "node/shard.h"
#include "node/watcher.h"

struct engine {
    struct launch launch;
    struct core core;
    struct core
        member; /* as whom this process has tables of several hosts; its tables are unused */
    struct view **views; /* the node's: while it joins, since then, and of the leaders */
    struct net *net;
    /* Where other nodes connect; and where those of this host do, if that is another place (host.h), or NULL. */
    struct listener *listeners[2];
    uint64_t host;      /* this node's; 0: no process shares memory with it */
    struct peers peers; /* what is known of the other nodes */

    struct shard shards[STORE_MAX_SHARDS]; /* the first is there before this node has joined */
    _Atomic uint32_t n_shards;             /* that are there */
    atomic_bool takes_newcomers; /* false: they wait, because there are too many strangers */
    _Atomic uint64_t n_refused;  /* connections that sent nonsense or were not of this job */

    atomic_bool is_parting; /* it leaves before the others */
    struct watcher watcher;
    pthread_t pulse;
    bool has_pulse;
    struct lock pulse_lock;
    pthread_cond_t pulse_stop; /* on the monotonic clock */
    bool wants_view;           /* a PING is to be sent soon; under the lock */

    atomic_bool is_prompt;        /* what comes is dealt with at once, not when a worker looks */
    struct worker_clocks *clocks; /* of the node's workers (node/admit.h) */
    struct lock *clocks_lock;
    uint32_t n_generations; /* of managers made so far; under the node's lock */

    /* Numbers of this node's own lanes. Those not in use any more are used again, because other nodes remember
     * each; there is room for all. */
    struct lock lane_lock;
    uint32_t *spare_lanes;
    uint32_t n_spare_lanes, n_own_lanes;
};

/* Joins the cluster: returns when all nodes are there, or fails within the deadline. The views that it makes are the caller's to
 * free when the last table is closed, which may be after engine_end. */
enum tern_status engine_start(struct engine *engine, const struct launch *launch,
                              struct view *views[3]);

/* Leaves it: returns when all others have also left, or one has died, which is the status. This node
 * serves them until then. engine_end must follow. */
enum tern_status engine_leave(struct engine *engine);

/* Leaves before the others, once all that this node has is at others, and returns when these go on without it; engine_end must
 * follow. If it fails this node is in the cluster as before. */
enum tern_status engine_part(struct engine *engine);

/* Ends all threads and frees everything. */
void engine_end(struct engine *engine);

/* Drives the shard that nobody has driven for longest. To be called by workers, `now_ns` being the time. */
void engine_drive(struct engine *engine, uint64_t now_ns);

/* Lets held requests be tried again. */
void engine_wake(struct engine *engine);

/* The locks of all shards, and before them those of their rounds: for whoever adds or removes what all use. */
void engine_lock_rounds(struct engine *engine);
void engine_unlock_rounds(struct engine *engine);
void engine_lock(struct engine *engine);
void engine_unlock(struct engine *engine);

/* Has a PING sent soon, whose answer tells the present view. */
void engine_fetch_view(struct engine *engine);

/* Bytes of batches that others have confirmed, and that were taken from others. */
void engine_backup_bytes(struct engine *engine, uint64_t *confirmed, uint64_t *taken);

/* Starts to send backups of all shards unless that has begun. */
enum tern_status engine_start_backups(struct engine *engine);

/* Starts the rounds of all shards unless they run; whether they do. */
enum tern_status engine_start_rounds(struct engine *engine);
bool engine_has_rounds(const struct engine *engine);

/* Waits, shard by shard, as round_driver_wait and round_driver_wait_changes do; the first also as backup_driver_flush does. */
enum tern_status engine_wait(struct engine *engine);
enum tern_status engine_wait_changes(struct engine *engine);

/* Hold rows where they are, and let them go again, as round_driver_hold and round_driver_release do. */
enum tern_status engine_hold(struct engine *engine);
void engine_release(struct engine *engine);

/* A number for a lane of this node that no other one has; false when memory runs out. */
bool engine_take_lane(struct engine *engine, uint32_t *lane);
void engine_give_lane(struct engine *engine, uint32_t lane);

/* Makes a call to a node (client.h) on a connection of the caller's and waits for its answer. */
struct remote;
struct op;
enum tern_status engine_call(struct remote *remote, uint32_t node, struct op *op,
                             enum frame_kind kind);

#endif
