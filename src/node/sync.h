/*
 * sync - when a shard runs its rounds (core/round.h), who takes their steps, and who waits for them, for as long as
 * there are tables that need rounds.
 *
 * The next round begins at once while there is something to do; when nothing changes the pauses grow, so that
 * an idle cluster costs next to nothing.
 *
 * Rounds are driven by whoever comes by (engine.h): a step does what can be done without waiting. The
 * thread that is started here drives them while no worker does.
 */
#ifndef NODE_SYNC_H
#define NODE_SYNC_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/status.h"

struct shard;
struct rounds; /* the state of the rounds */

struct sync {
    struct shard *shard;
    struct rounds *rounds; /* NULL: not started */
    pthread_t thread;
    bool has_thread;
    atomic_bool is_running; /* there are rounds to be driven */
    pthread_mutex_t lock;   /* of the rounds' state; a table is removed under it */
    pthread_cond_t change;  /* a round has ended */
    uint64_t n_rounds;      /* ended without anything left over */
    _Atomic uint64_t n_all_rounds; /* ended; under the lock, but read by anybody */
    enum tern_status trouble; /* of the last round: there is no further one */
    /* The pause between rounds. */
    _Atomic uint64_t next_ns; /* when the next round begins; 0: now */
    atomic_bool is_hurried;   /* as soon as the present one is over */
    pthread_mutex_t nap_lock;
    pthread_cond_t nap_end; /* on the monotonic clock */
    bool stop, wanted;      /* under nap_lock */
    atomic_int naps;        /* enum nap */
};

void sync_init(struct sync *sync, struct shard *shard);
void sync_fini(struct sync *sync);

/* Starts the rounds unless they run. */
enum tern_status sync_start(struct sync *sync);

/* Takes a step, unless somebody else does at this moment. */
void sync_drive(struct sync *sync, uint64_t now_ns);

/* Keeps everybody from taking a step: for whoever removes what rounds use. It does not wait for the end of a
 * round, which may have to wait for another node's program. */
void sync_lock(struct sync *sync);
void sync_unlock(struct sync *sync);

/* Lets the next round begin now or, if it is not urgent, soon. Costs one load while a round is under way. */
void sync_poke(struct sync *sync, bool is_urgent);

/* Lets the next round begin as soon as the present one is over. */
void sync_hurry(struct sync *sync);

/* Drives the node for a moment on behalf of a worker that waits for what rounds bring, since `since_ns`;
 * waits a little if there is nothing to do. Fails if there will be no further round. */
enum tern_status sync_help(struct sync *sync, uint64_t since_ns);

/* Fails if there will be no further round. */
enum tern_status sync_status(struct sync *sync);

/* Finds a node that has not answered a question for so long; false if there is none. */
bool sync_find_silent(struct sync *sync, uint64_t silent_ns, uint32_t *node);

/* The number of rounds that have ended. */
uint64_t sync_rounds(const struct sync *sync);

/* Waits until two further rounds have ended and left nothing over: everything this node had changed
 * before, of the keys in the shard, is then at its owners. */
enum tern_status sync_wait(struct sync *sync);

/* Waits until everything is here that owners had to tell this node when it was called. */
enum tern_status sync_wait_news(struct sync *sync);

#endif
