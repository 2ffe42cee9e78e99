/*
 * group_internal - what the parts of the coordinator share: group.c (members and tables: joins, leaves and deaths)
 * and collective.c (what all nodes do together). Included by these alone.
 */
#ifndef CORE_GROUP_INTERNAL_H
#define CORE_GROUP_INTERNAL_H

#include "base/keymap.h"
#include "core/defect.h"
#include "core/group.h"

enum {
    MAX_ADDRESS_BYTES = 247,
    MAX_SHAPE_BYTES = 512,
    MAX_SENTENCE_BYTES = 512,
    N_SLOTS = 2,
};

enum state {
    ABSENT,  /* has not joined yet */
    MISSING, /* did not join in time */
    JOINED,
    LEFT,     /* said BYE */
    DEAD,     /* nothing was heard of it for the deadline */
    GIVEN_UP, /* the same, and the others go on without it */
    PARTED,   /* it asked to leave alone, and the others go on without it */
};

enum sequence { REDUCTIONS, BROADCASTS, N_SEQUENCES };

struct group_member {
    enum state state;
    bool knows_end; /* it has heard that all have left */
    uint64_t incarnation;
    uint64_t host; /* as it says; not looked into here */
    uint64_t heard_ns;
    uint64_t formed;  /* the latest epoch in which it said that its backups were complete */
    uint64_t arrived; /* the latest barrier */
    uint64_t asked[N_SEQUENCES]; /* the latest number */
    uint8_t address_bytes;
    char address[MAX_ADDRESS_BYTES];
};

/* A table's name and shape, as the first to open it gave them, and how many of this name were before it: who
 * has closed one and opens it again gets another. */
struct known_table {
    uint32_t opener;
    uint64_t generation;
    /* By host, the number of the memory that its nodes share (node/member.h); 0: each has its own. */
    struct {
        uint64_t host, number;
    } * segments;
    size_t n_segments;
    uint16_t backups;
    size_t shape_bytes;
    char name[TERN_MAX_NAME + 1];
    uint8_t shape[MAX_SHAPE_BYTES];
};

/* One number of a sequence. */
struct slot {
    uint64_t number;         /* 0: free */
    uint32_t opener;         /* who asked first, with these: */
    uint64_t what;           /*   the type of the elements, or the root */
    uint32_t bytes;          /*   of a reduction's part; a broadcast's are the root's */
    enum tern_status failed; /* TERN_OK: it has not */
    char sentence[MAX_SENTENCE_BYTES];
    uint32_t next;   /* the parts of all nodes before it are folded */
    uint8_t **parts; /* by node, of reductions alone; NULL: not given, or folded */
    uint8_t *result; /* the sum so far, or the root's bytes */
};

/* What all nodes have done together so far. */
struct collectives {
    uint64_t passed; /* the latest barrier that all have passed */
    struct slot slots[N_SEQUENCES][N_SLOTS];
};

struct group {
    const struct view *view; /* with which it began: all nodes */
    struct view
        *present; /* without those that are gone; NULL: there are none, and none is leaving */
    uint32_t n_shards;
    uint64_t deadline_ns, join_deadline_ns;
    uint64_t began_ns;
    uint64_t ticked_ns;
    uint32_t n_joined;
    uint32_t n_dead;            /* MISSING or DEAD */
    uint32_t n_without_backups; /* tables */
    size_t n_tables, room_for_tables;
    struct known_table **tables; /* by number */
    struct keymap numbers;       /* 1 + theirs, by name and turn (table_key) */
    struct collectives collectives;
    struct group_member members[];
};

/* A request in hand. */
struct call {
    struct group *group;
    uint32_t from;
    struct group_member *member; /* whose it is */
    const struct frame *request;
    const uint8_t *payload;
    uint32_t bytes; /* of the payload */
    uint64_t now_ns;
    struct buffer *out;
    bool *changed;
};

static inline bool member_is_dead(const struct group_member *member)
{
    return member->state == MISSING || member->state == DEAD;
}

/* Whether nobody waits for the member any more. */
static inline bool member_is_gone(const struct group_member *member)
{
    return member->state == GIVEN_UP || (member->state == PARTED && !defect(DEFECT_PARTED_AWAITED));
}

static inline uint32_t group_epoch(const struct group *group)
{
    return view_epoch(group->present ? group->present : group->view);
}

/* Whether the member may still do something. */
static inline bool member_is_open(const struct group_member *member)
{
    return member->state == ABSENT || member->state == JOINED;
}

/* Why the group is not whole; `context` begins the sentence. */
enum tern_status group_fail_dead(const struct group *group, const char *context);

/* A member has left before something that needs all. */
enum tern_status group_fail_left(const struct call *call, const char *context, uint32_t node);

/* Answers the request in hand: with a frame, with a sentence, or with the failure that was just stated by fail(). */
enum served group_answer(const struct call *call, enum frame_kind kind, uint64_t field,
                         const void *payload, size_t bytes);
enum served group_answer_sentence(const struct call *call, enum tern_status status,
                                  const char *sentence);
enum served group_answer_failure(const struct call *call, enum tern_status status);

/* Notes which barrier all have passed now; true if that is a later one. */
bool group_note_passed(struct group *group);

bool collectives_init(struct collectives *collectives, uint32_t capacity);
void collectives_free(struct collectives *collectives, uint32_t capacity);

enum served group_barrier(const struct call *call);
enum served group_reduce(const struct call *call);
enum served group_broadcast(const struct call *call);

#endif
