/*
 * bounded - a table whose reads are bounded: by clocks (SSP and ESSP) or by value (VAP).
 *
 * The main copy of a key stays at its home. Every node makes a replica of the keys it uses, which begins
 * as the key's initial value, so that a push need not fetch anything: it adds to the replica, and what
 * differs from the *base*, the value last got from the home, is sent there. Hence the updates of a
 * clock to a key travel as one, and a worker sees its own at once.
 *
 * Everything travels in questions and answers; a node asks each other node one question at a time. A question
 * carries the changes made here to rows at home there, the keys whose present value is wanted, how far this
 * node's workers have come, and how far this node has come as a home. The answer carries the values that were wanted
 * and how far that home has come. With REFRESH_EACH_CLOCK a home's questions also carry the rows that have changed
 * since the receiver got them. A value that comes replaces the base: value = theirs + (value - base). That neither
 * loses nor repeats an update if it is known what of the node's own changes is in `theirs`:
 *
 *  - An answer has all that its question and earlier ones carried, and nothing is sent before it has come.
 *  - Rows in a question may cross the receiver's last question. They say how many of its questions the home had
 *    served, so the receiver adds the changes in its last question, which it keeps, if that was not among them. The answer
 *    to that question says how many questions with rows there were by then: until they have all come, nothing is asked.
 *  - The first value of a key comes in the answer to the question that wants it, later ones with the clock only. If one of
 *    those is faster, the answer's is dropped.
 *
 *  1. Before a node says that its workers have come to clock t, it has sent everything they changed before.
 *  2. A home's *table clock* T for a node is the lowest that the other nodes have said: every update of a
 *     clock below T, of all their workers, is merged here. It is announced, with the worker that holds it
 *     back. (What a node's own workers did is in its replicas at once, so for them it need not wait.)
 *  3. A worker at clock c with bound s may read when all homes have announced T >= c - s, all workers of its
 *     node have come to c - s, and the replica is that recent. With REFRESH_ON_DEMAND each replica has an
 *     age, the T of the answer that brought it; one that is too old is fetched anew. With REFRESH_EACH_CLOCK
 *     the home knows which nodes have a replica: the question that tells them a new T carries whatever has changed,
 *     or the last of several questions, if the rows are many. So all replicas of keys of one home are as recent as the
 *     last T that it has told in a question. In either case a key is fetched before it is first read.
 *  4. A node that said its workers rest comes back at a clock no home has passed: it says some clock, by
 *     which all homes stop, and continues at the highest T that any of them has told anybody.
 *
 * By value (BOUND_VALUE): a home counts what it merges, and sends what has changed at once. An answer says that the
 * rows of its question have come; what all holders of replicas have got is *stable*. A node takes its changes in *epochs*: an epoch is seen
 * when all of it is stable, and the next begins then. A worker adds up the size of its updates by epoch, and
 * makes an update when those that are not seen do not exceed the bound together with it.
 *
 * With backups at other nodes (backup.h) the rows of a home are in its batches, and nothing of clocks is: when a node is given up,
 * those that are left say it all anew (bounded_view.c).
 *
 *  5. A home tells a clock when the nodes with the backups have all that its table clock promises: what other nodes and its own workers
 *     have changed goes with the next batch, and what nodes have said counts when that is confirmed. The same holds for *stable*.
 *  6. A view that replaces another begins an *era*, the same for all homes. No home has heard of any clock in it, no node of any
 *     home. A question tells under which view it was made: clocks in an earlier one do not count. A node moves what it had to tell to a
 *     dead home to the one that has the keys now, before it says its clock to that. So clocks count again when every node has
 *     told all. None goes back: nodes say what they said before or more, and dead ones have no clock any more.
 *  7. A question under way to a dead home is answered by the one that has its keys now: only what it has changed is taken, once, as the
 *     records say. Nothing is asked of that home before, so no value that comes lacks what is under way.
 *  8. The node that takes over adds what its replicas have and the backup's rows lack. With REFRESH_ON_DEMAND replicas at other nodes are
 *     as recent as before, because what they show below the clocks that were told is in the backups (5). With
 *     REFRESH_EACH_CLOCK they are not read any more, and fetched again: nobody would send them what changes.
 *  9. What is stable does not grow before all nodes have come to the era, for a node that has not may still read an older replica.
 * 10. A worker that comes back (4) waits for all homes of the new era. What a dead home told at most, those that heard it tell on.
 *
 * Pure. Used by one thread at a time, except for what says otherwise: the caller locks.
 */
#ifndef CORE_BOUNDED_H
#define CORE_BOUNDED_H

#include "core/technique.h"

enum { BOUNDED_STEPS = TERN_CLOCK_STEPS }; /* of the histogram of ages */

/* How far a home has come. */
struct standing {
    uint64_t clock; /* the table clock, as the receiver needs it: of all nodes but that one */
    uint64_t peak;  /* the highest that was told to anybody */
    uint32_t node,
        worker;      /* which holds it back; NO_WORKER: the node has not had one, or all rest */
    uint64_t merges; /* with changes, so far */
    uint64_t stable; /* those that all holders of replicas have got */
    uint32_t own;    /* the slowest of the home's own workers now; NO_WORKER: as above */
};

/* What the exchanges of this node took: those it has asked, and answered. */
struct bounded_counts {
    uint64_t questions, answers;
    uint64_t bytes_sent, bytes_received;
    uint64_t deltas_sent, values_received;
};

struct bounded_peer;

/* What a home has heard, beside what counts: with backups that is later. */
struct heard_clocks {
    uint64_t *clocks; /* by node */
    uint64_t highest; /* as in struct bounded */
    uint64_t merges;
    uint64_t batch; /* which has what they promise; 0: there is none */
};

/* A list of keys. */
struct key_list {
    uint64_t *keys;
    size_t n, max;
};

struct bounded {
    struct core *core;
    struct core_table *table;
    struct store *store;
    const struct policy *policy;
    size_t round_bytes;         /* aimed at for a question or an answer */
    struct bounded_peer *peers; /* by node */
    const struct view *view;

    /* This node's workers, as of the last time that changes were collected. */
    struct node_clock now;
    /* This node as a home. */
    struct min_clock nodes; /* the clocks that nodes have said */
    struct min_clock seen;  /* the merges that holders of replicas have got; others rest */
    uint64_t highest;       /* clock of workers of nodes that rest */
    struct standing standing;
    bool is_inquired; /* by a node that waits: a round is to find out where the workers are now */
    /* With backups: the last that was heard, and what counts when a batch is confirmed. */
    struct heard_clocks last, waiting;
    uint64_t safe_merges;  /* those that the backups have */
    struct key_list taken; /* keys that the last question has changed */
    bool out_of_memory;    /* when a view was changed: the next round fails */
    uint32_t n_unsettled;  /* questions under way to nodes that were given up */
    /* What is known of all homes. */
    struct min_clock valid; /* the clocks to which replicas of their keys are, or can be had */
    uint64_t epoch;         /* of the changes that are not seen; 0: there are none */
    uint64_t n_epochs;

    /* Read by workers at any time. */
    _Atomic uint64_t valid_to; /* the lowest of `valid` */
    _Atomic uint64_t begun;    /* the last epoch whose changes were collected */
    _Atomic uint64_t ended;    /* the last that is seen */

    struct bounded_counts counts;
    struct buffer values; /* room for one, aligned */
};

/* Ages of replicas: 0: it has only this node's updates; t + 1: its home was at clock t; AGE_CURRENT: it is as
 * recent as the table is known to be. */
#define AGE_CURRENT UINT64_MAX

/* The state of a table whose store and policy are set; NULL when memory runs out. */
struct bounded *bounded_new(struct core *core, struct core_table *table);
void bounded_free(struct bounded *bounded);

/* ---- Reading; any thread ------------------------------------------------------------------------ */

/* The table clock that a read at `clock` needs. */
uint64_t bounded_needs(const struct bounded *bounded, uint64_t clock);

/*
 * The positions of those of n keys that a worker at `clock` may not read, to `stale`, which has room for n;
 * `here` is the lowest clock of this node's workers. It
 * returns their number. Of the others it is added to `ages` how far behind they were: in the first
 * place those that lack at most what is of the present clock, and so on; the last has the rest.
 */
size_t bounded_check(const struct bounded *bounded, uint64_t clock, uint64_t here,
                     const uint64_t *keys, size_t n, uint32_t *stale, uint32_t ages[BOUNDED_STEPS]);

/* Whether the table clock is known to be what a read at `clock` needs. */
bool bounded_may_read(const struct bounded *bounded, uint64_t clock, uint64_t here);

/* ---- Bounds by value; each worker for itself ---------------------------------------------------- */

enum { BOUNDED_BLOCK = 1024 }; /* keys of one call of bounded_size */

/* The largest change of any element by a push of n keys, at most BOUNDED_BLOCK: not less than it is. */
double bounded_size(const struct store *store, const uint64_t *keys, size_t n, const void *updates);

/* Notes a push that was done. */
void bounded_pushed(struct bounded *bounded, struct unseen *unseen, double size);

/* Whether a worker at `clock` may make an update of this size, or advance, which has none. An update that is larger than
 * the bound is made when there is nothing else that is not seen. */
bool bounded_may_go_on(const struct bounded *bounded, const struct unseen *unseen, uint64_t clock,
                       double size);

/* ---- The node's side ---------------------------------------------------------------------------- */

/* Whether all that was wanted was asked for. */
bool bounded_has_asked(const struct bounded *bounded);

/* Wants the present values of the keys at these positions, unless they come by themselves. */
enum tern_status bounded_want(struct bounded *bounded, const uint64_t *keys,
                              const uint32_t *positions, size_t n);

/* Collects what was changed since the last time, and notes how far this node's workers had come before; does
 * nothing while some of the last time is left over. So a row is noted once, however often it is changed
 * meanwhile, and all of one time is sent however fast the next grows. */
enum tern_status bounded_take(struct bounded *bounded, struct node_clock now);

/* Whether there is a reason to ask a peer. */
bool bounded_has_request(const struct bounded *bounded, uint32_t peer);

/* The body of the question, as much as fits; it replaces what is in `body`. */
enum tern_status bounded_request(struct bounded *bounded, uint32_t peer, struct buffer *body);

enum tern_status bounded_answer(struct bounded *bounded, uint32_t peer, const struct frame *answer,
                                const uint8_t *body);

/* Whether the answer to a question says no more than that what the question told was taken: the node has been given up. */
bool bounded_is_unanswered(const struct bounded *bounded, uint32_t peer,
                           const struct frame *answer);

/* Such a question is over; it was taken, or is undone here. */
enum tern_status bounded_unanswered(struct bounded *bounded, uint32_t peer,
                                    const struct buffer *sent, bool was_taken);

/* The present view has replaced `before`. */
enum tern_status bounded_change_view(struct bounded *bounded, const struct view *before);

/* A peer has closed the table: there is nothing more to say to it or to hear. */
void bounded_forget_peer(struct bounded *bounded, uint32_t peer);

/* Whether something is left over that another round must deal with. */
bool bounded_is_busy(const struct bounded *bounded);

/* All nodes' changes are at their homes: from now on no replica is read that is older. */
void bounded_settle(struct bounded *bounded);

/* Asks all homes how they stand, at the next opportunity. */
void bounded_inquire(struct bounded *bounded);

/* How the home stands that is behind all others, as far as this node knows. */
struct standing bounded_slowest(struct bounded *bounded);

/* Whether all homes wait for this node's workers; none does that was told that they rest. */
bool bounded_is_awaited(const struct bounded *bounded);

/* The highest clock that a home is known to have come to, or was told of this node's workers: those that
 * come back are not behind it. */
uint64_t bounded_highest(const struct bounded *bounded);

/* ---- The home's side ---------------------------------------------------------------------------- */

/* Handles the question of node `from` and appends the answer to `out`. */
enum tern_status bounded_serve(struct bounded *bounded, uint32_t from, const struct frame *request,
                               const uint8_t *body, struct buffer *out);

/* The same of one that was put to a node whose keys are here now: what it tells is taken, and nothing else. */
enum tern_status bounded_serve_other(struct bounded *bounded, uint32_t from,
                                     const struct frame *request, const uint8_t *body,
                                     struct buffer *out);

/* A batch was confirmed, or there may be more that can be waited for: what is in the backups counts. True if there is something to
 * tell then. */
bool bounded_make_safe(struct bounded *bounded);

#endif
