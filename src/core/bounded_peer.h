/*
 * bounded_peer - what the parts of a bounded table share: bounded.c, the side that has replicas, bounded_home.c, the side that has
 * main copies, and bounded_view.c, what happens when a node is given up. Included by these only.
 */
#ifndef CORE_BOUNDED_PEER_H
#define CORE_BOUNDED_PEER_H

#include "base/keymap.h"
#include "core/bounded.h"
#include "wire/section.h"

#define NOT_SAID (UINT64_MAX - 1) /* a clock that a question does not tell yet */

/* A bit per slot, as far as it was set so far. */
struct slot_bits {
    uint64_t *words;
    size_t n_words;
};

/* Rows whose present values are to be sent. */
struct row_set {
    struct slot_bits bits;
    size_t n;
};

/* The changes in the last question to a home, until the next: rows that the home sends meanwhile may lack them. */
struct sent_changes {
    struct buffer items; /* as in SECTION_DELTAS */
    struct keymap at;    /* the number of the item with a key, from 1; made when it is needed */
};

/* What there is between this node and another. */
struct bounded_peer {
    /* The other as a home. */
    struct key_list changed; /* here; to be sent */
    struct key_list wanted;
    struct standing heard; /* how it stands, as it said last */
    bool holds;            /* replicas of its keys are here, or wanted */
    bool owes;             /* its last answer was not complete */
    bool inquires;         /* it is to be asked in any case */
    bool is_closed;
    struct node_clock said; /* to it */
    bool knows_rest;        /* it may believe that this node's workers rest */
    uint64_t merged;        /* its count when it had merged the last changes sent to it */
    uint64_t target;        /* what it must call stable for the present epoch to be seen */
    bool sends;             /* the question under way has changes, the last ones there were */
    uint64_t n_asked;       /* questions to it */
    bool asks;              /* one is under way */
    uint32_t asked_epoch;   /* the last was made under that view */
    bool greets;            /* it has to hear all of this node under the present view */
    struct sent_changes last;
    uint64_t n_got; /* its questions with rows that have come */
    uint64_t
        n_under; /* there were so many when it answered last: those that have not come may lack the last changes */
    /* This node as the home of the other's replicas. */
    bool is_behind; /* it was not heard of under the present view */
    struct standing told;
    uint32_t slowest;            /* of its workers */
    struct slot_bits registered; /* it has a replica; REFRESH_EACH_CLOCK only */
    struct row_set asked;        /* rows for the answer */
    struct row_set missing;      /* rows that travel with the clock */
    uint64_t n_served;           /* its questions */
    uint64_t n_pushed;           /* questions to it with rows */
    bool pushes;                 /* one of them is under way */
    bool flushes;                /* rows are not to wait for the clock */
    uint64_t pushed;             /* the table clock that it has all rows for, or will have */
};

/*
 * The words of an item of SECTION_CLOCKS: what a standing takes, what a question says in front of it, and what an
 * answer says behind it. QUESTION_LEFT and so on: where.
 */
enum { STANDING_WORDS = 7, QUESTION_WORDS = 7, ANSWER_WORDS = STANDING_WORDS + 1 };
enum {
    QUESTION_CLOCK,
    QUESTION_HIGHEST,
    QUESTION_SLOWEST,
    QUESTION_SERVED,
    QUESTION_LEFT,
    QUESTION_INQUIRES,
    QUESTION_EPOCH, /* of the view under which it was made */
};

uint8_t *standing_write(uint8_t *out, const struct standing *standing);
struct standing standing_read(const uint8_t *in);

static inline bool is_eager(const struct bounded *bounded)
{
    return bounded->policy->refresh == REFRESH_EACH_CLOCK;
}

static inline bool is_by_value(const struct bounded *bounded)
{
    return bounded->policy->bound == BOUND_VALUE;
}

/* The node that has the main copy of a key. */
static inline uint32_t home_of(const struct bounded *bounded, uint64_t key)
{
    return view_home(bounded->view, core_home(bounded->core, bounded->store, key));
}

static inline enum tern_status no_memory_for(const struct bounded *bounded)
{
    return fail(TERN_NO_MEMORY, "no memory for a round of table '%s'", bounded->store->name);
}

/* False when memory runs out. */
bool key_list_add(struct key_list *list, uint64_t key);

/* Bytes of an item with a key and a value. */
static inline size_t row_bytes(const struct bounded *bounded)
{
    return 8 + section_padded(bounded->store->value_bytes);
}

/* How many rows a message has at most. */
static inline size_t rows_per_body(const struct bounded *bounded)
{
    size_t n = bounded->round_bytes / row_bytes(bounded);
    return n < 1 ? 1 : n > FRAME_MAX_KEYS ? FRAME_MAX_KEYS : n;
}

/* ---- bounded.c ----------------------------------------------------------------------------------- */

/* The table clock to which replicas of a home's keys are valid, or can be had. */
void bounded_raise(struct bounded *bounded, uint32_t home, uint64_t clock);

/* Counts the questions that are under way to nodes which were given up. */
void count_unsettled(struct bounded *bounded);

/* Ends the present epoch if all of it is seen. */
void end_epoch(struct bounded *bounded);

/* Where the age of a key's replica is kept; NULL if there is no row. */
_Atomic uint64_t *bounded_age(const struct store *store, uint64_t key);

/* Notes how another node stands as a home. */
void bounded_hear(struct bounded *bounded, uint32_t home, const struct standing *standing);

/* Takes over rows that a home has sent with its clock, when it had served so many questions. */
enum tern_status bounded_take_pushed(struct bounded *bounded, uint32_t home,
                                     const struct section *section, uint64_t n_served);

/* ---- bounded_home.c ------------------------------------------------------------------------------ */

/* The row in `slot`, at home here, was changed by node `by`: all others with a replica are to get it. False
 * when memory runs out. */
bool home_changed(struct bounded *bounded, uint32_t slot, uint32_t by);

/* Some rows were changed. */
void home_merged(struct bounded *bounded);

/* The table clock for a node: of all others. */
uint64_t home_clock_for(const struct bounded *bounded, uint32_t node);

/* How this home stands is told to a node: it is peers[node].told. */
void home_tell(struct bounded *bounded, uint32_t node);

/* Whether a node is to get the rows that it misses now. */
bool home_has_push(const struct bounded *bounded, uint32_t node);

/* Writes the rows of a set, as many as fit in a message, in front of `out`; returns the end. */
uint8_t *home_write_rows(struct bounded *bounded, struct row_set *rows, uint8_t *out);

/* The rows that were sent to a node have come. */
void home_pushed(struct bounded *bounded, uint32_t node);

/* Whether the keys of a section are at home at a node. */
bool are_at_home(const struct bounded *bounded, const struct section *section, uint32_t node);

/* Takes over the changes of another node. */
enum tern_status home_merge(struct bounded *bounded, uint32_t from, const struct section *section);

/* Under a new view nobody was heard of. */
void home_begin_era(struct bounded *bounded);

/* A node has closed the table, or was given up. */
void home_forget(struct bounded *bounded, uint32_t node);

/* A node has said how far its workers are. */
void home_heard(struct bounded *bounded, uint32_t node, const struct node_clock *said);

#endif
