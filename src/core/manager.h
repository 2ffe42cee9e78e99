/*
 * manager - the keys of a managed table, or of one shard of it (core.h): which nodes want which key, where it is, and
 * what nodes tell each other.
 *
 * The life of a key (AdaPM, Sections 4.1 and B). Its main copy is at its *owner*, at first its home.
 * A node that begins to want a key asks the owner. The owner decides: if nobody else wants the key, its
 * main copy moves to the node; otherwise it stays, and the node gets a replica for as long as it wants
 * the key. Replicas are kept alike through the owner. All this travels in rounds: a request to each
 * owner concerned, and its answer, each with everything that is pending.
 *
 * The node's side, per key:
 *
 *  1. It counts its active intents. On the change from none to some it asks the owner, unless it is the
 *     owner; on the change back it tells the owner so, if the owner knows that it wanted the key.
 *  2. What was changed in a replica is sent as a delta, which is taken as sent under the row's latch;
 *     if the receiver turns out not to be the owner, the delta is taken back and sent elsewhere.
 *  3. A replica ends when the owner has confirmed the end and everything changed in it; until then it can
 *     be read and written, so a worker always sees its own pushes.
 *     Filters may round a delta or let it wait (sifter.h), but not the last one of a replica that ends.
 *
 * The owner's side, per key that others want: the set of nodes that want it, and the set of those that
 * have not got the present value. This *share* exists only while somebody else wants the key, and while
 * it does the row is ENTRY_SHARED, so that local changes are marked.
 *
 *  4. A key moves only if exactly one node wants it and the owner does not (or on tern_localize).
 *  5. A key moves only in an answer. The server keeps an answer until the next request of that lane
 *     shows that it has arrived (server.h), and sends the same bytes when asked again: no move is lost
 *     or repeated.
 *  6. Each move raises the key's number (location.h); the old owner tells the home where the key went.
 *     A node that is asked for a key it does not own says where it believes it is. It always knows
 *     a node that had the key later than itself, so a request that follows arrives.
 *
 * Pure. A manager is used by one thread at a time: the caller locks.
 */
#ifndef CORE_MANAGER_H
#define CORE_MANAGER_H

#include "core/technique.h"

struct manager;

/* What a manager has done so far. */
struct manager_counts {
    uint64_t rounds;
    uint64_t moved_here, moved_away;        /* main copies */
    uint64_t replicas_made, replicas_ended; /* here */
    uint64_t values_sent, values_received;  /* of replicas, new ones among them */
    uint64_t deltas_sent, deltas_received;
    uint64_t redirected; /* asks and deltas that met a node that was not the owner */
    uint64_t bytes_sent, bytes_received; /* of requests and answers of rounds, at this node */
    uint64_t messages;
    /* How old replicas were when their next value came, by powers of two of 0.1 ms. */
    uint64_t staleness[TERN_STALENESS_STEPS];
    double staleness_ns_sum;
};

/* The manager of a shard; NULL when memory runs out. `first` is that of shard 0, which what is kept by key belongs to, or
 * NULL for that one. */
struct manager *manager_new(struct core *core, struct store *store, const struct policy *policy,
                            uint32_t shard, const struct manager *first);
void manager_free(struct manager *manager);

/* Its table has filters, whose rows they are; before anything is wanted. False when memory runs out. */
bool manager_filter(struct manager *manager, struct core_table *table);

/* Whether the rounds from now on leave nothing out and round nothing. */
void manager_be_exact(struct manager *manager, bool is_exact);

const struct manager_counts *manager_counts(const struct manager *manager);

/* What has happened to the keys here (trace.h). The clock in it is for the caller to set. */
struct trace *manager_trace(struct manager *manager);

/* ---- The node's side --------------------------------------------------------------------------- */

/* Intents for n keys of the shard begin or end. A failure for want of memory is kept for manager_take. */
void manager_want(struct manager *manager, const uint64_t *keys, size_t n);
void manager_unwant(struct manager *manager, const uint64_t *keys, size_t n);

/* The n keys are to move here, once. */
void manager_fetch(struct manager *manager, const uint64_t *keys, size_t n);

/* Begins a round. If is_due, or if owners had more to tell in the last one, changes are exchanged: those made here since
 * the last time are collected and sent, and owners are asked for news. Else the round is brief. */
enum tern_status manager_begin_round(struct manager *manager, bool is_due);

/* Collects what was changed since the last time, for the rounds from now on. */
enum tern_status manager_take(struct manager *manager);

/* Whether there is a reason to ask a peer in this round. */
bool manager_has_request(const struct manager *manager, uint32_t peer);

/* Whether there is something to say to a peer, not only to hear. */
bool manager_has_todo(const struct manager *manager, uint32_t peer);

/* Makes the body of the request to a peer, as much as fits; it replaces what is in `body`, which must
 * stay until the answer is there. */
enum tern_status manager_request(struct manager *manager, uint32_t peer, struct buffer *body);

/* Takes the answer. *more: there is more to say or hear, so ask again in this round. */
enum tern_status manager_answer(struct manager *manager, uint32_t peer, const struct buffer *sent,
                                const struct frame *answer, const uint8_t *body, bool *more);

/* There is no answer that counts (technique.h). */
void manager_unanswered(struct manager *manager, uint32_t peer, const struct buffer *sent,
                        bool was_taken);

/* Gives back the slots that are set aside for keys of an arc that is about to be taken over. */
void manager_make_room(struct manager *manager, const struct table_backup *backup, uint32_t arc);

/* The view has replaced `before`, under which backups were taken over. */
void manager_change_view(struct manager *manager, const struct view *before);

/* The keys of main copies with backups that the last request has changed. */
const uint64_t *manager_merged(const struct manager *manager, size_t *n);

/* An answer has come to what was asked at `sent_ns`: unless the round is brief, notes how old the replicas of the peer's
 * keys have become, which had the values of the answer before. */
void manager_note_staleness(struct manager *manager, uint32_t peer, uint64_t sent_ns,
                            uint64_t now_ns);

/* A peer has closed the table: there is nothing more to say to it. */
void manager_forget_peer(struct manager *manager, uint32_t peer);

/* Begins a sweep (sweep.h), before a round; whether it is over, after one. */
void manager_begin_sweep(struct manager *manager);
bool manager_is_swept(const struct manager *manager);

/* The round is over. */
void manager_round_ended(struct manager *manager);

/* Whether something is left over that another round must deal with: changes, asks, ends. */
bool manager_is_busy(const struct manager *manager);

/* Whether one of n keys has a replica here that its owner does not know of: it is ending, or asked for again,
 * and gets no news until it is gone or known. */
bool manager_has_unregistered(const struct manager *manager, const uint64_t *keys, size_t n);

/* Whether replicas are here, or others have replicas of rows here. */
bool manager_is_sharing(const struct manager *manager);

/* ---- The owner's side -------------------------------------------------------------------------- */

/* Handles the request of node `from` and appends the answer to `out`. */
enum tern_status manager_serve(struct manager *manager, uint32_t from, const struct frame *request,
                               const uint8_t *body, struct buffer *out);

/* Node `by` has written to main copies here: those with replicas must get the new values. (They were
 * also marked; but the writer may wait for the answer to its next round.) True if `by` is one of them: the
 * values it has, or that are on their way to it, may be older than what it wrote. */
bool manager_written(struct manager *manager, uint32_t by, const uint64_t *keys, size_t n);

/* Where a key that others ask for is: at *location, as far as is known. */
enum whereabouts manager_find(struct manager *manager, uint64_t key, uint32_t *location);

/* ---- Explanation -------------------------------------------------------------------------------- */

/* What is known here of one key. */
struct key_facts {
    enum copy copy;       /* here */
    uint32_t home, owner; /* as far as is known */
    uint32_t n_moves;     /* modulo 2^16, as far as is known */
    uint32_t n_intents;   /* active at this node */
    bool is_asked_for;    /* by this node, and not answered yet */
    bool is_ending;       /* this node is telling the owner that it does not want it any more */
    uint32_t n_wanting;   /* other nodes that want it; known to the owner alone */
};
void manager_facts(const struct manager *manager, uint64_t key, struct key_facts *facts);

/* Whether a node wants a key whose main copy is here, and whether it has still to get the present value. */
bool manager_wanted_by(const struct manager *manager, uint64_t key, uint32_t node, bool *is_behind);

#endif
