/*
 * rounds - when a shard runs its rounds (round.h): the round driver's rules.
 *
 *  1. After a round in which something was exchanged, or that left something over, the next begins after a pause that
 *     follows the need (struct pace in timing.h): how long before their start intents are signalled, and how old replicas
 *     may be. While nothing changes the pauses double, so that an idle cluster costs next to nothing: up to IDLE_MS; while
 *     workers have open intents or a node is awaited, up to INTENT_MS; but open intents alone, after QUIET_MS without an
 *     exchange, up to IDLE_MS.
 *  2. A worker that comes by lets the next round begin INTENT_MS after the last while there are intents, because intents
 *     begin and end when a worker advances its clock. A thread that works for nobody waits for the later of the two
 *     times, unless something is left over or awaited.
 *  3. A round that is wanted begins at once; one that is hurried, as soon as the present one is over.
 *  4. What was changed in rows with replicas is exchanged only as often as the table's staleness asks for, and less often
 *     if collecting takes long: a hot key changes in every step, and telling each change to all replicas would cost more
 *     than the steps. The rounds in between are brief: they are about keys that come and go, which so do not wait for the
 *     hot ones. While somebody waits for everything to be told or heard, every round exchanges.
 *  5. When a round is over, requests that were held for its end are tried again.
 *  6. While rows are held, rounds leave tables alone whose rows move: no row is asked for. So once every node holds them
 *     and its round that ran is over, each row has one main copy that stays where it is.
 *  7. A round that fails is the last. One that awaits another node fails when any node is given up: the awaited one may
 *     itself wait for the dead one.
 *
 * Rounds belong to one thread at a time. Between enter and leave (io.h) that thread alone uses the managers of tables.
 */
#ifndef CORE_ROUNDS_H
#define CORE_ROUNDS_H

#include "core/lanes.h"
#include "core/round.h"
#include "core/server.h"

struct rounds {
    struct round round;
    struct lanes *lanes;
    struct server *server;    /* of the shard */
    struct intents **intents; /* of the node's workers; a list */
    const struct io *io;
    void *driver;
    _Atomic uint64_t next_ns; /* when the next round begins; 0: now */
    atomic_bool is_hurried;   /* as soon as the present one is over */
    bool holds_rows;          /* rule 6 */
    uint32_t lane_number;     /* of its client's lanes; the driver sets it */
    struct pace pace;
    uint64_t pause_ns;     /* after the last round, */
    uint64_t ended_ns;     /* which ended then */
    uint64_t due_ns;       /* when the present round was to begin */
    uint64_t exchanged_ns; /* when something was exchanged last */
    unsigned n_flushing;   /* callers that wait until everything is collected and told */
    uint64_t last_sweep;   /* the last one that somebody waits for */
    uint64_t n_begun;
    _Atomic uint64_t n_ended; /* read by anybody */
    uint64_t n_clean;         /* ended without anything left over; */
    uint64_t last_clean;      /* the number of the last of them */
    /* Of the last round: there is no further one, and round.sentence says why. Read by anybody. */
    _Atomic enum tern_status trouble;
};

/* The lanes are those of a client for one shard. */
void rounds_init(struct rounds *rounds, struct lanes *lanes, struct server *server,
                 struct intents **intents, unsigned max_passes, const struct io *io, void *driver);

/* After the client has given up what was asked. */
void rounds_fini(struct rounds *rounds);

/* Does what can be done now, on behalf of a worker or not. True if a round has begun. */
bool rounds_step(struct rounds *rounds, uint64_t now_ns, bool works);

/* When the next round begins, while none is under way. */
uint64_t rounds_next_ns(const struct rounds *rounds, bool works);

/* Lets the next round begin now; or as soon as the present one is over. By any thread. */
void rounds_want(struct rounds *rounds);
void rounds_hurry(struct rounds *rounds);

/* Begins to wait until everything this node has changed before is with the owners: until n_clean is the number returned,
 * and then calls the second. */
uint64_t rounds_begin_flush(struct rounds *rounds);
void rounds_end_flush(struct rounds *rounds);

/* Holds rows where they are, from the round on that ends as number n_ended returned; and lets them go again. */
uint64_t rounds_hold(struct rounds *rounds);
void rounds_release(struct rounds *rounds);

/* The sweep (sweep.h) that brings everything owners have to tell from now on. It is over when round.n_sweeps is that. A
 * caller that waits for it calls the second. */
uint64_t rounds_next_sweep(const struct rounds *rounds);
void rounds_await_sweep(struct rounds *rounds, uint64_t sweep);

/* The arc of a node falls to this one, which has executed its requests on these rounds' lanes up to a number: ends the questions
 * that are under way to it. Under the locks of the rounds and the shard. */
void rounds_end_questions(struct rounds *rounds, uint32_t arc, uint64_t executed);

/* The failure after which there is no further round; TERN_OK: there is one. Any thread. */
enum tern_status rounds_status(const struct rounds *rounds);

#endif
