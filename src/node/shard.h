/*
 * shard - one of the parts that a node looks after its keys in (core/core.h): it serves what other nodes ask about the
 * keys in it, and runs the rounds about them (sync.h). Shards take no common lock.
 *
 * Threads: a shard is *driven* by whoever comes by, under a try-lock (engine.h). Its service thread drives it when no
 * worker has for DRIVEN_MS, or at once where there are tables with bounded reads, whose news others wait for; it sleeps
 * in epoll while there is nothing to do.
 *
 * New connections come to the first shard. When they have said which one they are for, it gives them to that.
 *
 * The lock is held by who handles requests, by the rounds while they use the managers of tables, and by whoever adds or
 * removes a table or a worker's intents. Who needs several shards' locks takes them in the order of their numbers.
 */
#ifndef NODE_SHARD_H
#define NODE_SHARD_H

#include <pthread.h>

#include "base/keymap.h"
#include "core/intents.h"
#include "core/server.h"
#include "node/sync.h"

struct engine;
struct incoming;

struct shard {
    struct engine *engine;
    uint32_t number;
    pthread_mutex_t lock;
    struct server server;
    struct incoming *incoming; /* a list, */
    struct incoming **by_fd;   /* and by descriptor; NULL: none has this one */
    size_t n_by_fd, n_strangers;
    uint64_t looked_ns;        /* when all connections were last looked at */
    struct known_lane **lanes; /* what is remembered across connections */
    size_t n_lanes, max_lanes;
    struct keymap lane_places; /* 1 + their places among these, by node, incarnation and number */
    int epoll_fd, wake_fd;
    pthread_t service;
    bool has_service;
    _Atomic uint64_t driven_ns; /* when a worker last drove, or tried to */
    struct sync sync;
    struct intents *intents; /* of this node's workers; a list, under the lock */
};

void shard_init(struct shard *shard, struct engine *engine, uint32_t number);

/* Begins to serve. `group` is of the coordinator's first shard, which frees it, or NULL. */
enum tern_status shard_start(struct shard *shard, struct group *group);

/* Ends the service thread, after engine->stop is set. */
void shard_stop(struct shard *shard);

/* Frees everything. The rounds must have ended (sync_fini). */
void shard_end(struct shard *shard);

/* Serves what has come, and carries on with the rounds, without waiting; nothing if others do it at this
 * moment. To be called by workers, `now_ns` being the time. */
void shard_drive(struct shard *shard, uint64_t now_ns);

/* Whether workers have driven lately, so that the threads leave it to them. */
bool shard_is_driven(const struct shard *shard, uint64_t now_ns);

/* Lets held requests be tried again. */
void shard_wake(struct shard *shard);

/* Whether other nodes are connected. */
bool shard_has_others(struct shard *shard);

#endif
