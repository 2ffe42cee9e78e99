/*
 * technique - answers, for one table, the questions that a parameter manager is asked per key: where its main copy is,
 * which nodes have replicas, how these are refreshed, and what a read may return.
 *
 * A technique is a struct of functions. Everything outside the techniques reaches a table's mechanism through it, and
 * nothing outside asks which one a table has. technique_open is the one place that chooses: node/ and sim/ both call it.
 *
 *   fixed.c     a key stays at its home, and there is no other copy: `static`
 *   replica.c   every node has every key, and owners tell its changes: `replicate`
 *   doubling.c  the same by all-reduce: `replicate-doubling`
 *   everywhere.c  the same for tables with backups at other nodes: homes tell its changes, as in `managed`
 *   cached.c    fixed, with a small read-through cache: the example of HACKING.md
 *   managed.c   keys move to, and replicas are made at, nodes that want them: `adaptive`, `relocate`, `multi` and the
 *               ablations (manager.c is the side that wants keys, share.c the side that owns them)
 *   graph.c     fixed, with replicas that a placement lists, so many updates old at most: `graph` (graph_home.c: main copies)
 *   bounded.c   nodes have replicas whose age or error is bounded: `ssp`, `essp`, `vap` (bounded_home.c: main copies)
 *   clocked.c   the same policies where all rows are in one memory: workers wait for each other's clocks alone
 *
 * A function that is NULL has nothing to do. The functions are pure. The caller holds the lock of the shard that it
 * names, except where the text says that any thread may call.
 */
#ifndef CORE_TECHNIQUE_H
#define CORE_TECHNIQUE_H

#include "base/buffer.h"
#include "base/text.h"
#include "core/admit.h"
#include "core/intents.h"
#include "core/trace.h"

/* Where a table's rows may be; this is all that the store must know. */
enum rows {
    ROWS_AT_HOME,    /* each at its home */
    ROWS_EVERYWHERE, /* at every node that uses them, beside their home */
    ROWS_MOVE,       /* anywhere: they come and go */
};

/* What makes a node want keys. */
enum wanted_by {
    BY_INTENT,   /* tern_intent */
    BY_LOCALIZE, /* tern_localize */
    BY_MISS,     /* a read that had to ask another node */
};

/* How a table is opened. */
struct technique_setup {
    const char *name; /* of the table, for sentences */
    const struct tern_table_options *options;
    bool is_whole; /* this node, or the memory that its processes share, has all rows */
    struct board
        *board;     /* of that memory, where processes tell their clocks; NULL: there is none */
    bool is_member; /* the table is that of a member of several processes, as whom it is opened, */
    bool is_follower;          /* of which this one is not the leader (follower.h) */
    uint32_t generation;       /* tells tables apart that have the same place in turn */
    size_t round_bytes;        /* aimed at for a message of a round; 0: as is best */
    uint64_t (*time_ns)(void); /* of day, for traces; NULL: there is none */
};

struct bell;
struct board;
struct counting;

/* A range of keys with the same answer. */
struct key_range {
    uint64_t begin, n_keys;
};

/* A peer's answer to a question of a round. */
struct round_answer {
    const struct buffer *sent; /* the body of the question */
    const struct frame *frame;
    const uint8_t *body;
    uint64_t sent_ns; /* when the question was sent */
    uint64_t now_ns;
};

/* A peer's question to this node. */
struct round_question {
    uint32_t from;
    const struct frame *frame;
    const uint8_t *body; /* aligned to 8 bytes */
    struct buffer *out;  /* the answer is appended to it */
    /* It was put to a node that was given up: what it tells is taken, and it gets FRAME_TAKEN for an answer. For what this node
     * tells the peer goes with the answers to questions that were put to this one, in their order. */
    bool was_for_another;
    bool wants_round; /* set if this node now has something to say in a round of its own */
    /* Set to the keys of main copies that the question has changed, where the table has backups. */
    const uint64_t *written;
    size_t n_written;
};

/* How a table stands at the end of a round. */
struct round_end {
    bool left_over; /* something must go into another round, */
    bool awaits;    /* or goes on when others have done their part */
    bool sweeps;    /* not all has come that others had to tell (sweep.h) */
    bool intends;   /* replicas are kept */
};

/* Where a key that others ask for is. */
enum whereabouts {
    KEY_HERE,    /* the main copy is here */
    KEY_UNKNOWN, /* not here, but it may be on its way: known when the present round is over */
    KEY_AWAY,
};

enum copy {
    COPY_NONE,
    COPY_REPLICA,
    COPY_MAIN, /* also that of a key at home here that was never used: its row is made when it is */
};

struct technique {
    enum rows rows;
    /* A round of one node needs all others: a node whose own rounds have failed says so to those who ask. */
    bool is_collective;
    /* The bodies of its rounds are sections (wire/section.h): they are packed when they are sent, and unpacked before
     * `answer` and `absorb` see them. */
    bool sends_sections;
    /* Rows count their updates, and reads of replicas are checked against them; NULL: they do not (counting.h). */
    const struct counting *counting;
    bool sends_keys; /* the frames of its rounds carry keys of their own, beside the payload */

    /* ---- A table's state; open and close are called by technique_open and technique_close ---- */

    /* Whether the options fit the technique; any thread. */
    enum tern_status (*check)(const struct policy *policy, const char *name,
                              const struct tern_table_options *options);
    /* Makes table->state; false when memory runs out. */
    bool (*open)(struct core *core, struct core_table *table, const struct technique_setup *setup);
    void (*close)(struct core_table *table);

    /* ---- Keys ---- */

    /* The node to ask for a key that is not here, and the range of keys around it with the same answer. Any thread. */
    uint32_t (*where)(const struct core *core, const struct core_table *table, uint64_t key,
                      struct key_range *range);
    /* How it is acted on that keys are wanted here. Any thread. */
    enum intent_kind (*intent)(const struct policy *policy, enum wanted_by by);
    /* Intents for n keys of the shard begin or end; the n keys are to move here, once. */
    void (*want)(struct core_table *table, uint32_t shard, const uint64_t *keys, size_t n);
    void (*unwant)(struct core_table *table, uint32_t shard, const uint64_t *keys, size_t n);
    void (*localize)(struct core_table *table, uint32_t shard, const uint64_t *keys, size_t n);
    /* Keys were localized. Up to `most` keys that this node should want for good from now on. Under the lock of the first
     * shard. */
    size_t (*learn)(struct core_table *table, const uint64_t *keys, size_t n, uint64_t *wanted,
                    size_t most);
    /* Whether one of n keys of the shard has a replica here that its owner does not know of, and so does not refresh. */
    bool (*has_unregistered)(const struct core_table *table, uint32_t shard, const uint64_t *keys,
                             size_t n);

    /* ---- What workers wait for (admit.h); a technique with `admit` has all of these but those that say otherwise ---- */

    /* How far the node's workers are, whenever that changes; and the bell to ring then. NULL: rounds tell it. The caller
     * calls it once at a time. */
    struct bell *(*told)(const struct core_table *table, struct node_clock clock);
    /* What rings when another process has come further; or NULL. Any thread. */
    struct bell *(*bell)(const struct core_table *table);
    /* Whether a read may be made. Else access->stale has the keys that should be fetched, which is none while newer values
     * cannot be had. Any thread. */
    bool (*admit)(const struct core_table *table, struct access *access);
    /* Asks for these keys. NULL: there are never any. */
    enum tern_status (*fetch)(struct core_table *table, const struct access *access);
    /* The size of an update, as far as it is bounded: of a push or, if `updates` is NULL, a set. Any thread. */
    double (*size)(const struct core_table *table, const uint64_t *keys, size_t n,
                   const void *updates);
    /* Whether a worker at `clock` may make an update of this size; or advance, which has none. */
    bool (*admit_update)(const struct core_table *table, const struct unseen *unseen,
                         uint64_t clock, double size);
    /* It was made. Any thread. */
    void (*updated)(const struct core_table *table, struct unseen *unseen, double size);
    /* Whether all homes wait for this node's workers; *clock is raised to the highest that one has come to. */
    bool (*awaits_workers)(const struct core_table *table, uint64_t *clock);
    /* Whether a node has still to open the table; NULL: rounds find out. */
    bool (*awaits_opening)(const struct core_table *table);
    /* All nodes' changes are at their homes: no older replica is read from now on. NULL: there are no replicas. */
    void (*settle)(struct core_table *table);
    /* Finds out, in the next rounds, who holds a table back (NULL: that is known at any time); and fails with a sentence
     * that names it. `now` is how far this node's workers are. */
    void (*inquire)(struct core_table *table);
    enum tern_status (*blame)(const struct core *core, struct core_table *table,
                              const struct access *access, struct node_clock now, double seconds);

    /* ---- Requests of other nodes ---- */

    /* Where a key that others ask for is: at *location as far as is known; KEY_UNKNOWN may change when a round later
     * than *round ends. */
    enum whereabouts (*find)(struct core_table *table, uint32_t shard, uint64_t key,
                             uint32_t *location, uint64_t *round);
    /* Node `by` has written to main copies here; `again`: it did so before. True if replicas that `by` has may be older
     * than what it wrote. */
    bool (*wrote)(struct core_table *table, uint32_t shard, uint32_t by, const uint64_t *keys,
                  size_t n, bool again);

    /* ---- One round ---- */

    void (*begin_sweep)(struct core_table *table, uint32_t shard);
    /* At the beginning of every round: whether somebody waits for everything to be told or heard, so that nothing is left out
     * or rounded (sifter.h). */
    void (*be_exact)(struct core_table *table, uint32_t shard, bool is_awaited);
    /* At the beginning of every round. A technique that spends bytes only where they buy freshness has `collect`: if
     * is_due, this round exchanges what was changed with owners, else it is only about keys that come and go; is_awaited:
     * somebody waits for that. `begin` collects what was changed in every round; `clock` is how far the node's workers were
     * before. */
    enum tern_status (*collect)(struct core_table *table, uint32_t shard, bool is_due,
                                bool is_awaited);
    enum tern_status (*begin)(struct core_table *table, uint32_t shard, struct node_clock clock,
                              uint64_t now_ns);
    /* Whether there is a reason to ask a peer. */
    bool (*has_question)(const struct core_table *table, uint32_t shard, uint32_t peer,
                         uint64_t now_ns);
    /* The question to a peer: its body, which stays until the answer is there, and the fields of the frame that it needs;
     * `a` is 0 in one that says nothing. *more: not all fitted. */
    enum tern_status (*ask)(struct core_table *table, uint32_t shard, uint32_t peer,
                            uint64_t now_ns, struct buffer *body, struct frame *frame, bool *more);
    /* Takes the answer. *more: the peer has more to tell, and should be asked again in this round. */
    enum tern_status (*absorb)(struct core_table *table, uint32_t shard, uint32_t peer,
                               const struct round_answer *answer, bool *more);
    /* Whether there is something to say to a peer after an answer has come, not only to hear. */
    bool (*has_todo)(const struct core_table *table, uint32_t shard, uint32_t peer);
    /* Whether the round can go on before all questions are answered (any thread), and going on. */
    bool (*can_go_on)(const struct core_table *table);
    enum tern_status (*go_on)(struct core_table *table, uint64_t now_ns);
    /* Answers a peer's question. */
    enum tern_status (*answer)(struct core_table *table, uint32_t shard,
                               struct round_question *question);
    /* A question to a node that is given up has no answer that counts (backup.h): `sent` is its body. `was_taken`: what it told
     * was taken, and is in the backups; otherwise nothing was, and the node's keys fall to this one. */
    void (*unanswered)(struct core_table *table, uint32_t shard, uint32_t peer,
                       const struct buffer *sent, bool was_taken);
    /* This node is about to take over an arc (view.h): what is set aside for rows of its keys is given back. */
    void (*make_room)(struct core_table *table, uint32_t shard, uint32_t arc);
    /* The view has replaced `before`, and this node has taken over what falls to it. */
    void (*change_view)(struct core_table *table, uint32_t shard, const struct view *before);
    /* Batches were confirmed, or there are none to wait for (backup.h). True if a round is to tell something now. */
    bool (*confirmed)(struct core_table *table, uint32_t shard);
    /* The round is over. */
    void (*end)(struct core_table *table, uint32_t shard, struct round_end *end);
    /* A peer has closed the table: there is nothing more to say to it. */
    void (*peer_closed)(struct core_table *table, uint32_t shard, uint32_t peer);

    /* This node is about to close the table: what others do for it has to end. True while rounds have to say so first. */
    bool (*retire)(struct core_table *table, uint32_t shard);

    /* ---- What is told ---- */

    /* Whether nothing is shared with others or left to say; *n_spare is the number of slots kept for rows to come. */
    bool (*is_idle)(const struct core_table *table, uint32_t shard, size_t *n_spare);

    /* Adds the figures of a shard; staleness_ms_mean is a sum. */
    void (*stats)(const struct core_table *table, uint32_t shard, struct tern_table_stats *stats);
    /* Says how a key is managed, as this node sees it. */
    void (*explain)(const struct core *core, const struct core_table *table, uint64_t key,
                    struct text *text);
    /* What is here of a key, and whether this node has intents for it. */
    enum copy (*copy)(const struct core *core, const struct core_table *table, uint64_t key,
                      bool *is_wanted);
    /* The record of what happens to the keys of a shard; NULL: nothing does. */
    struct trace *(*trace)(const struct core_table *table, uint32_t shard);
};

/* Whether the options of a table fit its policy; any thread. */
enum tern_status technique_check(const struct policy *policy, const char *name,
                                 const struct tern_table_options *options);

/* The technique of a policy; `is_whole`: this node, or the memory it shares, has all rows. */
const struct technique *technique_find(const struct policy *policy, bool is_whole);

/* Where the rows of a table are, for its store. `placed`: the homes that a program chose; `backup`: the table's backups
 * (backup.h). Both must outlive the store, or are NULL. */
struct store_home technique_home(const struct core *core, const struct policy *policy,
                                 const struct tern_table_options *options,
                                 const struct placed *placed, const struct table_backup *backup);

/* Chooses and opens the technique of a table whose store and policy are set; false when memory runs out. */
bool technique_open(struct core *core, struct core_table *table,
                    const struct technique_setup *setup);
void technique_close(struct core_table *table);

/* Whether a table takes part in the rounds of a shard. */
static inline bool technique_has_rounds(const struct core_table *table, uint32_t shard)
{
    return table->technique->ask && shard < table->store.n_shards;
}

/* The home of a key, as `where` of techniques that leave it there, and as every first guess. */
uint32_t technique_where_home(const struct core *core, const struct core_table *table, uint64_t key,
                              struct key_range *range);

/* The same, and how intent is acted on, where keys come and go. */
uint32_t technique_where_managed(const struct core *core, const struct core_table *table,
                                 uint64_t key, struct key_range *range);
enum intent_kind technique_intent_managed(const struct policy *policy, enum wanted_by by);

/* The node to ask for a key that is not here. */
static inline uint32_t technique_where(const struct core *core, const struct core_table *table,
                                       uint64_t key)
{
    struct key_range range;
    return table->technique->where(core, table, key, &range);
}

extern const struct technique technique_fixed;
extern const struct technique technique_managed;
extern const struct technique technique_mirrored;
extern const struct technique technique_doubling;
extern const struct technique technique_bounded;
extern const struct technique technique_clocked;
extern const struct technique technique_graph;
const struct technique *technique_cached(void);
const struct technique *technique_everywhere(void);

#endif
