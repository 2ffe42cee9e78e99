/*
 * backup_driver - sends the batches of a shard to the nodes that have its backups (core/backup.h).
 *
 * A thread per shard, once a table with backups is open. It sends a batch as soon as others wait for one, and otherwise every
 * few milliseconds what this node's workers have changed. It takes the shard's lock to make a batch and to note that it is
 * confirmed, and holds no lock while it waits for another node.
 */
#ifndef NODE_BACKUP_DRIVER_H
#define NODE_BACKUP_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/lock.h"
#include "base/status.h"

struct shard;

struct backup_driver {
    struct shard *shard;
    pthread_t thread;
    atomic_bool is_running;
    struct lock lock; /* of the following */
    pthread_cond_t wanted_now, confirmed;
    bool wanted; /* a batch is waited for */
};

void backup_driver_init(struct backup_driver *driver, struct shard *shard);

/* Starts the thread unless it runs. */
enum tern_status backup_driver_start(struct backup_driver *driver);

/* Ends it, after peers.stop is set. */
void backup_driver_fini(struct backup_driver *driver);

/* A batch is wanted. Any thread. */
void backup_driver_hurry(struct backup_driver *driver);

/* Waits until everything that was written at this node before is at the nodes with the backups, which have all rows. */
enum tern_status backup_driver_flush(struct backup_driver *driver);

#endif
