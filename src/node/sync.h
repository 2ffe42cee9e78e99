/*
 * sync - the thread that runs a node's rounds of replicas (core/replica.h), for as long as there are
 * tables with replicas.
 *
 * A round asks all owners at once, and the next begins when all have answered. When nothing changes
 * the pauses between rounds grow to SYNC_IDLE_MS, so that an idle cluster costs next to nothing.
 */
#ifndef NODE_SYNC_H
#define NODE_SYNC_H

#include <pthread.h>

#include "base/status.h"

struct engine;

struct sync {
    struct engine *engine;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;  /* held during a round; a table is removed under it */
    pthread_cond_t change; /* on the monotonic clock: a round is wanted, or one has ended */
    bool stop, wanted;
    uint64_t n_rounds;        /* ended without anything left over */
    enum tern_status trouble; /* of the last round, with its sentence */
    char sentence[160];
};

void sync_init(struct sync *sync, struct engine *engine);
void sync_fini(struct sync *sync);

/* Starts the thread unless it runs. */
enum tern_status sync_start(struct sync *sync);

/* Waits until two further rounds have ended: everything this node had changed before is then at its
 * owners, and everything its owners had got before is here. */
enum tern_status sync_wait(struct sync *sync);

#endif
