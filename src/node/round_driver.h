/*
 * round_driver - drives the rounds of a shard: which thread takes their steps, and who waits for them. core/rounds.h
 * decides when rounds begin.
 *
 * Rounds are driven by whoever comes by (engine.h): a step does what can be done without waiting. The
 * thread that is started here drives them while no worker does.
 */
#ifndef NODE_ROUND_DRIVER_H
#define NODE_ROUND_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/lock.h"
#include "base/status.h"

struct core_table;
struct rounding; /* the rounds and their connections */
struct shard;

struct round_driver {
    struct shard *shard;
    struct rounding *rounding; /* NULL: not started */
    pthread_t thread;
    bool has_thread;
    atomic_bool is_running; /* there are rounds to be driven */
    struct lock lock;       /* of the rounds' state; a table is removed under it */
    /* The thread's pause between rounds. */
    struct lock nap_lock;
    pthread_cond_t nap_end; /* on the monotonic clock */
    bool stop, wanted;      /* under nap_lock */
    atomic_int naps;        /* enum nap */
};

void round_driver_init(struct round_driver *driver, struct shard *shard);
void round_driver_fini(struct round_driver *driver);

/* Starts the rounds unless they run. */
enum tern_status round_driver_start(struct round_driver *driver);

/* Takes a step, unless somebody else does at this moment. */
void round_driver_drive(struct round_driver *driver, uint64_t now_ns);

/* Keeps everybody from taking a step: for whoever removes what rounds use. It does not wait for the end of a
 * round, which may have to wait for another node's program. */
void round_driver_lock(struct round_driver *driver);
void round_driver_unlock(struct round_driver *driver);

/* Lets the next round begin now or, if it is not urgent, soon. Costs one load while a round is under way. */
void round_driver_poke(struct round_driver *driver, bool is_urgent);

/* Lets the next round begin as soon as the present one is over. */
void round_driver_hurry(struct round_driver *driver);

/* Drives the node for a moment on behalf of a worker that waits for what rounds bring, since `since_ns`;
 * waits a little if there is nothing to do. Fails if there will be no further round. */
enum tern_status round_driver_help(struct round_driver *driver, uint64_t since_ns);

/* The rounds; NULL: there are none yet. */
struct rounds *round_driver_get(const struct round_driver *driver);

/* The number of rounds that have ended. */
uint64_t round_driver_rounds(const struct round_driver *driver);

/* Waits until two further rounds have ended and left nothing over: everything this node had changed
 * before, of the keys in the shard, is then at its owners. */
enum tern_status round_driver_wait(struct round_driver *driver);

/* Waits until everything is here that owners had to tell this node when it was called. */
enum tern_status round_driver_wait_changes(struct round_driver *driver);

/* Lets rounds say that this node closes a table (technique.h), if they have to. */
void round_driver_retire(struct round_driver *driver, struct core_table *table);

/* Holds rows where they are (rounds.h, rule 6): returns when the round is over that ran before. To be released, whatever
 * the status. */
enum tern_status round_driver_hold(struct round_driver *driver);
void round_driver_release(struct round_driver *driver);

#endif
