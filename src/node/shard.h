/*
 * shard - one of the parts that a node looks after its keys in (core/core.h): it serves what other nodes ask about the
 * keys in it, and runs the rounds about them (round_driver.h). Shards take no common lock.
 *
 * Threads: a shard is *driven* by whoever comes by, under a try-lock (engine.h). Its service thread drives it when no
 * worker has for DRIVEN_MS, or at once where there are tables with bounded reads, whose news others wait for; it sleeps
 * in epoll while there is nothing to do.
 *
 * New connections come to the first shard. When a caller has proved itself (hello.h), the first shard gives its
 * connection to the shard that it is for.
 *
 * The lock is held by a thread that handles requests, by the rounds while they use the managers of tables, and by a thread
 * that adds or removes a table or a worker's intents. A thread takes several shards' locks in the order of their numbers.
 */
#ifndef NODE_SHARD_H
#define NODE_SHARD_H

#include <pthread.h>

#include "base/lock.h"
#include "core/intents.h"
#include "core/service.h"
#include "node/backup_driver.h"
#include "node/strangers.h"
#include "node/round_driver.h"

struct engine;
struct incoming;

struct shard {
    struct engine *engine;
    uint32_t number;
    struct lock lock;
    struct service service;
    uint64_t now_ns;         /* when the present events are handled */
    struct incoming **by_fd; /* connections by descriptor; NULL: none has this one */
    size_t n_by_fd, max_strangers;
    struct strangers strangers; /* whose handshake is not over */
    struct strangers guests;    /* who have the token and are not known to have joined */
    uint64_t looked_ns;         /* when all connections were last looked at */
    uint64_t began_ns,
        noted_ns; /* of the coordinator: since when it waits for others, and when to say so next */
    int epoll_fd, wake_fd;
    pthread_t thread;
    bool has_thread;
    _Atomic uint64_t driven_ns; /* when a worker last drove, or tried to */
    struct round_driver round_driver;
    struct backup_driver backup_driver;
    struct intents *intents; /* of this node's workers; a list, under the lock */
};

void shard_init(struct shard *shard, struct engine *engine, uint32_t number);

/* Begins to serve. `group` is of the coordinator's first shard, which frees it, or NULL. */
enum tern_status shard_start(struct shard *shard, struct group *group);

/* Ends the service thread, after peers.stop is set. */
void shard_stop(struct shard *shard);

/* Frees everything. The rounds must have ended (round_driver_fini). */
void shard_end(struct shard *shard);

/* Serves what has come, and carries on with the rounds, without waiting; nothing if others do it at this
 * moment. To be called by workers, `now_ns` being the time. */
void shard_drive(struct shard *shard, uint64_t now_ns);

/* Whether workers have driven lately, so that the threads leave it to them. */
bool shard_is_driven(const struct shard *shard, uint64_t now_ns);

/* Lets held requests be tried again. */
void shard_wake(struct shard *shard);

/* Tries held requests again at once. The caller holds no lock. */
void shard_retry(struct shard *shard);

/* Whether other nodes are connected. */
bool shard_has_others(struct shard *shard);

/* At the coordinator's first shard: whether all nodes know that all have left. */
bool shard_end_is_known(struct shard *shard);

#endif
