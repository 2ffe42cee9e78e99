/*
 * worker - one worker of a simulated node: random pulls, pushes and sets, some waited for at once and
 * some left under way, on one key or many, some of them keys of samples (sample_check.h), and intents for keys
 * to come (plans.h). core/order.h has the order of its operations on a key, bounds.h how it waits for bounded tables.
 */
#ifndef SIM_WORKER_H
#define SIM_WORKER_H

#include "core/admit.h"
#include "core/order.h"
#include "sim/caller.h"
#include "sim/sample_check.h"

enum { MAX_KEYS = 24, SLOTS = 4 };

/* An operation that waits for its turn, is under way, or catches up. */
struct slot {
    bool used;
    bool started;
    enum frame_kind kind;
    struct open_sample
        *drawn; /* the sample that its keys are of, to which they return if it fails; or NULL */
    struct op op;
    struct operation operation;
    uint32_t indexes[MAX_KEYS];
    uint64_t keys[MAX_KEYS];
    enum used_copy copies[MAX_KEYS];
    uint64_t mains[MAX_KEYS];
    uint64_t resumed[MAX_KEYS]; /* link.n_resumed of the key's lane at the start */
    uint32_t away[MAX_KEYS];    /* positions of the keys that were not here */
    size_t n_away;
    bool was_away[MAX_KEYS];  /* whether each key was one of them */
    bool was_local;           /* some of those keys may have been used here after all */
    struct catch_up catch_up; /* of a write that is done: */
    struct awaited awaited;   /* the sweeps that it waits for */
    struct wait wait;         /* for a bounded table to be ready */
    uint32_t stale[MAX_KEYS];
};

struct worker {
    struct sim_node *sim_node;
    struct caller caller;
    struct order order;
    struct plans plans;
    struct sample_check samples;
    uint32_t index;  /* among those of all nodes */
    uint64_t stream; /* from which those of its samples are made */
    uint64_t n_opened;
    uint64_t tag; /* of the timer between operations */
    uint32_t n_left, n_started;
    uint32_t clock_index; /* its clock in sim_node->clocks, for bounded tables (bounds.h) */
    uint64_t clock;
    bool rests;                            /* it holds nobody back */
    struct wait returning;                 /* its wait to come back */
    struct unseen unseen[TERN_MAX_TABLES]; /* its updates of bounded tables */
    bool resting;                          /* that timer is set */
    struct slot *waits_for;                /* NULL: goes on */
    struct slot slots[SLOTS];
    struct {
        enum sim_table table;
        size_t n;
        uint32_t indexes[MAX_KEYS];
    } again; /* keys that it pulls or pushes now and then, with filters; n is 0: none */
};

/* It is opened, and its clock is 0; it is closed, whatever it still intended. */
enum tern_status worker_open(struct worker *worker);
void worker_close(struct worker *worker);

/* Lets it do n more operations. */
void worker_begin(struct worker *worker, uint32_t n);

/* Goes on as far as it can now. True if all operations have ended. */
bool worker_run(struct worker *worker);

/* Its process is gone: what was under way stays unconfirmed. Frees everything. */
void worker_fini(struct worker *worker);

#endif
