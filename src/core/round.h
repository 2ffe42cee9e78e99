/*
 * round - one round of a shard, for the tables whose technique needs rounds. It looks at the intents of its workers,
 * collects changes, asks all nodes concerned about all tables at once (exchange.h), and continues until all have answered
 * and nothing is left to send.
 *
 * Pure. The caller decides when a round begins, locks as technique.h says, and sends what is queued on the lanes.
 */
#ifndef CORE_ROUND_H
#define CORE_ROUND_H

#include "core/exchange.h"
#include "core/intents.h"

struct round {
    struct core *core;
    struct client *client; /* of the shard whose round it is */
    unsigned max_passes;   /* of asking about a table in one round */
    /* By the places of tables; NULL: there was none so far. */
    struct exchange *exchanges[TERN_MAX_TABLES];
    uint32_t n_slots;        /* that were in use */
    bool runs;               /* one is under way */
    enum tern_status status; /* of this round: the first failure, */
    char sentence[160];      /* and its sentence, for another thread may end the round */
    bool busy;               /* something was exchanged in it */
    bool left_over;          /* something must go into another one, */
    bool awaits;             /* or goes on when others have done their part */
    bool intends;            /* workers have open intents, or replicas are kept */
    uint64_t ahead_ns; /* how long before their start intents are signalled; UINT64_MAX: none */
    bool holds_rows;   /* it leaves tables alone whose rows move (rounds_hold) */
    /* Sweeps through what owners have to tell (sweep.h): one may take several rounds. */
    bool sweeps;
    uint64_t n_sweeps_begun, n_sweeps; /* n_sweeps: the last one that is over */
};

void round_init(struct round *round, struct core *core, struct client *client, unsigned max_passes);

/* After the client has given up what was asked. */
void round_fini(struct round *round);

/* Begins a round: looks at the intents of the workers, a list, of which those are freed whose worker is closed, and acts
 * on those that a worker may reach within horizon_ns. With `holds_rows` it asks nothing about tables whose rows move. */
void round_begin(struct round *round, struct intents **list, uint64_t now_ns, uint64_t horizon_ns,
                 bool holds_rows);

/* How often the tables of the shard need rounds: replicas may be max_age_ns old, and least_ns is to be between rounds. */
struct round_need {
    uint64_t max_age_ns, least_ns;
    bool follows; /* what is wanted is told to a leader, whose round follows (follower.h) */
};
struct round_need round_need(const struct round *round);

/* Collects what was changed in rows that have copies, for this round and those that follow: of all tables, or of those
 * whose copies would become too old. True if there are such tables. */
bool round_collect(struct round *round, const struct pace *pace, uint64_t now_ns, bool all);

/* Collects nothing before a time. */
void round_put_off(struct round *round, uint64_t until_ns);

/* Asks about all tables. `clock` is how far the workers were before. */
void round_ask(struct round *round, struct node_clock clock, uint64_t now_ns);

/* Whether answers have come that are to be taken. */
bool round_has_answers(const struct round *round);

/* Takes the answers that have come, and asks again where there is more. */
void round_step(struct round *round, uint64_t now_ns);

/* Whether it has nothing under way, or has failed: it is to be ended. */
bool round_is_over(const struct round *round);
void round_end(struct round *round);

/* Notes a failure, if it is one and the first, whose sentence is set: this round is the last. */
void round_fail(struct round *round, enum tern_status status);

/* Whether there are tables that need rounds. */
bool round_is_needed(const struct round *round);

/* Whether there is something to ask about a table, or any if it is NULL, of a node that has still to open it. */
bool round_waits_for_table(const struct round *round, const struct core_table *table);

/* Whether other processes of this host wait for rounds of this one (follower.h). */
bool round_is_awaited(const struct round *round);

/* Finds a node that was asked before a time and has not answered; false if there is none. */
bool round_find_silent(const struct round *round, uint64_t before_ns, uint32_t *node);

/* The questions under way to a node that is given up, whose arc falls to this one, are answered by what is known: those with
 * numbers up to `executed` were executed. Then, when the lane has failed, they are over. */
void round_settle_questions(struct round *round, uint32_t peer, uint64_t executed);
void round_drop_questions(struct round *round, uint32_t peer);

#endif
