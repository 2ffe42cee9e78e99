/*
 * replica - tables of which every node has every key: changes travel through the owner, the key's
 * home, in rounds.
 *
 * In a round a node sends each owner the deltas of the replicas it has changed, and gets back the
 * values of the owner's rows that have changed since the last round, by others or by the owner itself.
 * The owner keeps, for each node, a bit per row: "this node has not got the present value".
 *
 *  1. A bit is cleared before the value is read, and set after it was changed; so no change is missed.
 *  2. A delta is taken and its base moved in one step under the row's latch; it is in one request, which
 *     is executed exactly once (server.h). So each change is added once.
 *  3. A node whose own delta was the row's only change is not sent the value: it has it.
 *  4. With an updater a replica keeps what is pushed to it apart, and shows the owner's last value. The
 *     owner applies what came of a round at once, and sends the value back. A set goes to the owner.
 *  5. Filters round what is sent, or let it wait (sifter.h). The owner keeps a second bit per row and node, "this node has a
 *     rounded value", for the time when everything is to be heard exactly.
 *
 * One thread of a node runs its rounds; any number of requests of others may be merged beside it.
 */
#ifndef CORE_REPLICA_H
#define CORE_REPLICA_H

#include "core/technique.h"

struct replication;

/* What the rounds of a table have taken so far at this node. Any thread may read it. */
struct replication_counts {
    _Atomic uint64_t rounds, messages;
    _Atomic uint64_t bytes_sent, bytes_received; /* of requests and answers */
    _Atomic uint64_t deltas_sent, values_received;
};

struct replication *replication_new(struct core *core, struct core_table *table);
void replication_free(struct replication *replication);

const struct replication_counts *replication_counts(const struct replication *replication);

/* Whether the rounds from now on leave nothing out and round nothing. */
void replication_be_exact(struct replication *replication, bool is_exact);

/* For tests: the bytes aimed at for a request or an answer. */
void replication_limit(struct replication *replication, size_t body_bytes);

/* Begins a round: takes what this node has changed, unless some of what was taken before is still to be sent.
 * So no key is taken twice, and all are sent before those that are changed meanwhile. Rows at home here are
 * noted for all others. */
enum tern_status replication_take(struct replication *replication);

/* Makes the body of the request for one owner: keys, then deltas, as much as fits; call it until
 * *more is false. The body replaces what is in `body`; an empty one asks for news only. */
enum tern_status replication_request(struct replication *replication, uint32_t owner,
                                     struct buffer *body, struct frame *frame, bool *more);

/* Takes over the values of an owner's answer. */
enum tern_status replication_answer(struct replication *replication, uint32_t owner,
                                    const struct frame *answer, const uint8_t *body);

/* Begins a sweep (sweep.h), before a round; whether it is over, after one. */
void replication_begin_sweep(struct replication *replication);
bool replication_is_swept(const struct replication *replication);

/* The round is over. True if deltas found no room in it. */
bool replication_round_ended(struct replication *replication);

/* The owner's side: adds the deltas of node `from`, then appends the answer to `out`: keys and values,
 * as many as fit, with what sweep.h needs in a (how much is left) and b (how far it has come). */
enum tern_status replication_merge(struct replication *replication, uint32_t from,
                                   const uint64_t *keys, size_t n, const void *deltas);
/* The same for rows at home here that another node has written by a request of its own. */
void replication_written(struct replication *replication, const uint64_t *keys, size_t n);

/* What tern_why says of a key, and what is here of it: of both ways to keep replicas alike. */
void replication_explain(const struct core *core, const struct core_table *table, uint64_t key,
                         struct text *text);
enum copy replication_copy(const struct core *core, const struct core_table *table, uint64_t key,
                           bool *is_wanted);

bool replication_reply(struct replication *replication, uint32_t to, const struct frame *request,
                       struct buffer *out);

#endif
