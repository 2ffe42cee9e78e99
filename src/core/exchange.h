/*
 * exchange - the questions that a node asks the others about one table in a round, and their answers. The table's
 * technique (technique.h) says what is asked and takes the answers.
 *
 * All nodes concerned are asked at once; when all have answered, those with more to receive or more to
 * send are asked again. A technique may also go on as soon as a part has come. The
 * exchanges of a round run side by side on the same lanes.
 *
 * The first question to a node is whether it has opened the table. Until it has, it is asked nothing else: it would have to
 * hold the question, and all rounds of this node would wait, which the other may need before it opens the table. It is asked
 * again after a pause. A round that falls into the pause, or ends before it can ask more than that, has left the node out, and
 * does not complete a sweep (sweep.h): the node may have opened the table since.
 *
 * Pure. The caller locks as technique.h says; it sends what is queued on the lanes, and keeps the time.
 */
#ifndef CORE_EXCHANGE_H
#define CORE_EXCHANGE_H

#include "core/client.h"
#include "core/worker_clocks.h"

/* The request to one node. */
struct question {
    struct op op;
    struct buffer body;   /* as the technique has written it, and */
    struct buffer packed; /* as it is sent, if that is not the same */
    struct buffer answer;
    bool asked, more;
    bool is_there;    /* the table is open there, or was: all questions are answered */
    bool is_probed;   /* it was asked in this round whether it is */
    bool waits;       /* there is something to ask that was not asked, because it may not be */
    uint64_t sent_ns; /* 0: never */
    uint64_t again_ns, pause_ns; /* when it is asked next whether the table is open */
};

struct exchange {
    struct client *client;
    const struct view
        *view; /* the first: those that are given up later may still have a question to answer */
    struct question *questions; /* by node */
    struct buffer plain;        /* the last answer, unpacked */
    uint16_t number;            /* of the table that is asked about */
    bool is_backed; /* it has backups: a question outlives the node that it was put to (backup.h) */
    unsigned n_passes; /* of asking; at most max_passes in a round */
    unsigned max_passes;
    uint64_t now_ns;     /* the latest time it was told */
    uint64_t collect_ns; /* when what was changed is to be collected next */
    bool runs;           /* questions are under way */
    bool busy;           /* something was exchanged since it began */
    bool probes;   /* nodes are asked again in this round whether they have opened the table */
    bool left_out; /* the round ends without having asked a node what it has to tell */
};

enum tern_status exchange_init(struct exchange *exchange, struct client *client,
                               unsigned max_passes);

/* After the client has given up what was asked. */
void exchange_fini(struct exchange *exchange);

/* Begins to ask about a table; there may be nothing to ask. `clock` is how far the node's workers are. */
enum tern_status exchange_begin(struct exchange *exchange, struct core_table *table,
                                struct node_clock clock, uint64_t now_ns);

/* Whether there is a step to take: all that were asked have answered, or the technique can go on. `table` is NULL if it
 * was closed since. */
bool exchange_is_answered(const struct exchange *exchange, const struct core_table *table);

/* Takes the answers, and asks again if there is more. `table` is NULL if it was closed since. */
enum tern_status exchange_step(struct exchange *exchange, struct core_table *table,
                               uint64_t now_ns);

/* Whether a node was not asked what is to be asked, since it had not opened the table. */
bool exchange_waits(const struct exchange *exchange);

/* Finds a node that was asked before a time and has not answered; false if there is none. */
bool exchange_find_silent(const struct exchange *exchange, uint64_t before_ns, uint32_t *node);

/* A node is given up, and what it had falls to this one: a question under way to it was executed if its number is not above
 * `executed`. And then, when its lane has failed, it is over. */
void exchange_settle_question(struct exchange *exchange, struct core_table *table, uint32_t peer,
                              uint64_t executed);
void exchange_drop_question(struct exchange *exchange, uint32_t peer);

#endif
