/*
 * group - see group.h.
 *
 * Every answer is a function of what members have said so far, and of facts that do not change back: a
 * dead member stays dead, one that has left does not return, a barrier once passed is passed. So a
 * request that is tried again is either still held or gets the answer it always gets.
 *
 * Reductions and broadcasts share a mechanism. The numbers of each form a *sequence*, of which at most
 * N_SLOTS numbers are kept: a number takes a slot when the first member asks for it and gives it back
 * when every living member has asked for a later one. A member that runs ahead of the others by more
 * is held; so memory is bounded whatever members send. A member that skips a number cannot be waited
 * for: who waits for it is told.
 *
 * A sum is folded in the order of node numbers as parts arrive, so it has the same bits in every run
 * and only the parts that came before their turn are kept.
 *
 * Invariants
 *   1. state goes ABSENT -> JOINED -> LEFT or DEAD, or ABSENT -> MISSING.
 *   2. n_joined counts the members that ever joined; the roster is complete when it is n_nodes.
 *   3. passed <= arrived of every member; it no longer grows once somebody is dead.
 *   4. a slot has parts of nodes >= n_folded only; result is the sum of those below.
 *   5. a slot is complete or failed, not both, and stays so until it is given back.
 */
#include "core/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keymap.h"
#include "core/defect.h"
#include "core/reply.h"
#include "kernel/kernel.h"
#include "wire/bytes.h"

enum {
    MAX_ADDRESS_BYTES = 255,
    MAX_SHAPE_BYTES = 512,
    MAX_COLLECTIVE_BYTES = 1 << 20,
    MAX_SENTENCE_BYTES = 512,
    ROSTER_ENTRY_BYTES = 8 + 2, /* without the address */
    N_SLOTS = 2,
    N_NAMED = 8, /* nodes a sentence lists before it only counts them */
};

_Static_assert((uint64_t)GROUP_MAX_NODES *(ROSTER_ENTRY_BYTES + MAX_ADDRESS_BYTES) <=
                   FRAME_MAX_BODY_BYTES,
               "the largest roster fits a frame");

enum state {
    ABSENT,  /* has not joined yet */
    MISSING, /* did not join in time */
    JOINED,
    LEFT, /* said BYE */
    DEAD, /* nothing was heard of it for the deadline */
};

enum sequence { REDUCTIONS, BROADCASTS, N_SEQUENCES };

static const char *const sequence_names[N_SEQUENCES] = {"reduction", "broadcast"};

struct member {
    enum state state;
    uint64_t incarnation;
    uint64_t heard_ns;
    uint64_t arrived;            /* the latest barrier */
    uint64_t asked[N_SEQUENCES]; /* the latest number */
    uint8_t address_bytes;
    char address[MAX_ADDRESS_BYTES];
};

/* A table's name and shape, as the first to open it gave them, and how many of this name were before it: who
 * has closed one and opens it again gets another. */
struct known_table {
    uint32_t opener;
    uint64_t turn;
    uint64_t piece; /* the name of memory in which all are to have it (node/neighbours.h); 0: each has its own */
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
    uint32_t n_folded;
    uint8_t **parts; /* by node, of reductions alone; NULL: not given, or folded */
    uint8_t *result; /* the sum so far, or the root's bytes */
};

struct group {
    uint32_t n_nodes, n_shards;
    uint32_t epoch;
    uint64_t deadline_ns;
    uint64_t began_ns;
    uint64_t ticked_ns;
    uint32_t n_joined;
    uint32_t n_dead; /* MISSING or DEAD */
    uint64_t passed; /* the latest barrier that all have passed */
    size_t n_tables, room_for_tables;
    struct known_table **tables; /* by number */
    struct keymap numbers;       /* 1 + theirs, by name and turn (table_key) */
    struct slot slots[N_SEQUENCES][N_SLOTS];
    struct member members[];
};

/* A request in hand. */
struct call {
    struct group *group;
    uint32_t from;
    struct member *member; /* whose it is */
    const struct frame *request;
    const uint8_t *payload;
    uint32_t bytes; /* of the payload */
    uint64_t now_ns;
    struct buffer *out;
    bool *changed;
};

/* ---- The group ------------------------------------------------------------------------------- */

struct group *group_new(uint32_t n_nodes, uint32_t epoch, uint64_t deadline_ns, uint64_t now_ns)
{
    if (n_nodes == 0 || n_nodes > GROUP_MAX_NODES) {
        fail(TERN_LIMIT, "a group of %" PRIu32 " nodes: 1 to %d are possible", n_nodes,
             GROUP_MAX_NODES);
        return NULL;
    }
    struct group *group = calloc(1, sizeof *group + n_nodes * sizeof group->members[0]);
    if (!group)
        goto no_memory;
    group->n_nodes = n_nodes;
    group->n_shards = 1;
    group->epoch = epoch;
    group->deadline_ns = deadline_ns;
    group->began_ns = now_ns;
    group->ticked_ns = now_ns;
    for (int i = 0; i < N_SLOTS; i++) {
        struct slot *slot = &group->slots[REDUCTIONS][i];
        slot->parts = calloc(n_nodes, sizeof slot->parts[0]);
        if (!slot->parts)
            goto no_memory;
    }
    return group;

no_memory:
    group_free(group);
    fail(TERN_NO_MEMORY, "no memory for a group of %" PRIu32 " nodes", n_nodes);
    return NULL;
}

static void slot_empty(struct group *group, struct slot *slot)
{
    for (uint32_t i = 0; slot->parts && i < group->n_nodes; i++) {
        free(slot->parts[i]);
        slot->parts[i] = NULL;
    }
    free(slot->result);
    slot->result = NULL;
    slot->n_folded = 0;
}

void group_free(struct group *group)
{
    if (!group)
        return;
    for (int which = 0; which < N_SEQUENCES; which++) {
        for (int i = 0; i < N_SLOTS; i++) {
            slot_empty(group, &group->slots[which][i]);
            free(group->slots[which][i].parts);
        }
    }
    for (size_t i = 0; i < group->n_tables; i++)
        free(group->tables[i]);
    free(group->tables);
    keymap_free(&group->numbers);
    free(group);
}

static bool is_dead(const struct member *member)
{
    return member->state == MISSING || member->state == DEAD;
}

/* Whether the member may still do something. */
static bool is_open(const struct member *member)
{
    return member->state == ABSENT || member->state == JOINED;
}

static uint64_t elapsed(uint64_t since_ns, uint64_t now_ns)
{
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

/* Starts the deadline of every member anew. */
static void hear_all(struct group *group, uint64_t now_ns)
{
    for (uint32_t i = 0; i < group->n_nodes; i++)
        group->members[i].heard_ns = now_ns;
}

void group_heard(struct group *group, uint32_t node, uint64_t now_ns)
{
    if (node < group->n_nodes && group->members[node].heard_ns < now_ns)
        group->members[node].heard_ns = now_ns;
}

/* Gives up the members in state `from` that were not heard of since the deadline. */
static bool give_up(struct group *group, enum state from, enum state to, uint64_t now_ns)
{
    const uint32_t n_before = group->n_dead;
    for (uint32_t i = 0; i < group->n_nodes; i++) {
        struct member *member = &group->members[i];
        const uint64_t since_ns = from == ABSENT ? group->began_ns : member->heard_ns;
        if (member->state != from || elapsed(since_ns, now_ns) < group->deadline_ns)
            continue;
        member->state = to;
        group->n_dead++;
    }
    return group->n_dead > n_before;
}

/* Before everybody has joined, or is known to be missing, nobody has to be heard of: members wait. A
 * coordinator that did not run for long, on a machine that was busy or asleep, has heard of nobody for
 * that reason alone. */
bool group_tick(struct group *group, uint64_t now_ns)
{
    if (elapsed(group->ticked_ns, now_ns) > group->deadline_ns / 2)
        hear_all(group, now_ns);
    group->ticked_ns = now_ns;
    const bool settled = group->n_joined == group->n_nodes || group->n_dead > 0;
    if (settled)
        return give_up(group, JOINED, DEAD, now_ns);
    if (!give_up(group, ABSENT, MISSING, now_ns))
        return false;
    hear_all(group, now_ns);
    return true;
}

bool group_is_over(const struct group *group)
{
    for (uint32_t i = 0; i < group->n_nodes; i++)
        if (is_open(&group->members[i]))
            return false;
    return true;
}

/* ---- Sentences and answers ------------------------------------------------------------------- */

static uint32_t count_in(const struct group *group, enum state state)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < group->n_nodes; i++)
        n += group->members[i].state == state;
    return n;
}

/* Lists the members in a state: "node 1, node 2 and node 3". */
static void list_in(const struct group *group, enum state state, char text[MAX_SENTENCE_BYTES / 2])
{
    const uint32_t n = count_in(group, state);
    const uint32_t n_named = n <= N_NAMED ? n : N_NAMED;
    int at = 0;
    uint32_t n_listed = 0;
    for (uint32_t i = 0; i < group->n_nodes && n_listed < n_named; i++) {
        if (group->members[i].state != state)
            continue;
        const char *joint = n_listed == 0 ? "" : n_listed + 1 == n ? " and " : ", ";
        at +=
            snprintf(text + at, (size_t)(MAX_SENTENCE_BYTES / 2 - at), "%snode %" PRIu32, joint, i);
        n_listed++;
    }
    if (n > n_named)
        snprintf(text + at, (size_t)(MAX_SENTENCE_BYTES / 2 - at), " and %" PRIu32 " more",
                 n - n_named);
}

/* Why the group is not whole; `context` begins the sentence. */
static enum tern_status fail_dead(const struct group *group, const char *context)
{
    const double deadline_s = (double)group->deadline_ns * 1e-9;
    const uint32_t n_missing = count_in(group, MISSING);
    char who[MAX_SENTENCE_BYTES / 2] = "";
    if (n_missing > 0) {
        list_in(group, MISSING, who);
        return fail(TERN_PEER, "%s%s %s not joined within %g s", context, who,
                    n_missing == 1 ? "has" : "have", deadline_s);
    }
    list_in(group, DEAD, who);
    return fail(TERN_PEER, "%snothing was heard of %s for %g s", context, who, deadline_s);
}

/* A member has left before something that needs all. It may have done so because another one had died, which
 * is not certain here yet: who was not heard of for longer than it should take is named, too. */
static enum tern_status fail_left(const struct call *call, const char *context, uint32_t node)
{
    const struct group *group = call->group;
    uint64_t most_ns = group->deadline_ns / 2;
    uint32_t silent = group->n_nodes;
    for (uint32_t i = 0; i < group->n_nodes; i++) {
        const uint64_t silence_ns = elapsed(group->members[i].heard_ns, call->now_ns);
        if (group->members[i].state != JOINED || silence_ns <= most_ns)
            continue;
        most_ns = silence_ns;
        silent = i;
    }
    if (silent == group->n_nodes)
        return fail(TERN_PEER, "%snode %" PRIu32 " has left before it", context, node);
    return fail(TERN_PEER,
                "%snode %" PRIu32 " has left before it, and nothing was heard of node %" PRIu32
                " for %.1f s",
                context, node, silent, (double)most_ns * 1e-9);
}

/* The last resort of every answer: without memory even for an ERROR the connection is given up, and
 * the request comes again with the next one. */
static enum served refuse_for_memory(const struct call *call)
{
    fail(TERN_NO_MEMORY, "no memory to answer %s of node %" PRIu32,
         frame_kind_name(call->request->kind), call->from);
    return REFUSED;
}

static enum served answer_sentence(const struct call *call, enum tern_status status,
                                   const char *sentence)
{
    return reply_error(call->out, call->request, call->group->epoch, status, sentence)
               ? SERVED
               : refuse_for_memory(call);
}

/* Answers with the failure that was just stated by fail(). */
static enum served answer_failure(const struct call *call, enum tern_status status)
{
    return answer_sentence(call, status, tern_error());
}

static enum served answer_no_memory(const struct call *call)
{
    return answer_failure(call, fail(TERN_NO_MEMORY,
                                     "no memory at the coordinator for %s of node "
                                     "%" PRIu32,
                                     frame_kind_name(call->request->kind), call->from));
}

static enum served answer(const struct call *call, enum frame_kind kind, uint64_t a,
                          const void *payload, size_t bytes)
{
    return reply_append(call->out, call->request, call->group->epoch, kind, a, payload, bytes)
               ? SERVED
               : answer_no_memory(call);
}

void group_set_shards(struct group *group, uint32_t n_shards)
{
    group->n_shards = n_shards;
}

/* ---- JOIN ------------------------------------------------------------------------------------ */

static enum served answer_roster(const struct call *call)
{
    const struct group *group = call->group;
    size_t bytes = (size_t)group->n_nodes * ROSTER_ENTRY_BYTES;
    for (uint32_t i = 0; i < group->n_nodes; i++)
        bytes += group->members[i].address_bytes;
    uint8_t *at = reply_reserve(call->out, bytes);
    if (!at)
        return answer_no_memory(call);
    for (uint32_t i = 0; i < group->n_nodes; i++) {
        const struct member *member = &group->members[i];
        put_u64(at, member->incarnation);
        put_u16(at + 8, member->address_bytes);
        memcpy(at + ROSTER_ENTRY_BYTES, member->address, member->address_bytes);
        at += ROSTER_ENTRY_BYTES + member->address_bytes;
    }
    struct frame frame = reply_frame(call->request, group->epoch, FRAME_ROSTER);
    frame.a = group->epoch;
    frame.b = group->n_shards;
    frame.body_bytes = (uint32_t)bytes;
    reply_commit(call->out, &frame);
    return SERVED;
}

static void join_first(const struct call *call)
{
    struct group *group = call->group;
    struct member *member = call->member;
    member->state = JOINED;
    member->incarnation = call->request->a;
    member->address_bytes = (uint8_t)call->bytes;
    if (call->bytes)
        memcpy(member->address, call->payload, call->bytes);
    if (++group->n_joined == group->n_nodes) {
        hear_all(group, call->now_ns);
        *call->changed = true;
    }
}

static enum served join(const struct call *call)
{
    const struct group *group = call->group;
    if (call->bytes > MAX_ADDRESS_BYTES)
        return answer_failure(call, fail(TERN_INVALID,
                                         "the address of node %" PRIu32 " has %" PRIu32
                                         " bytes; at most %d are possible",
                                         call->from, call->bytes, MAX_ADDRESS_BYTES));
    if (call->member->state == ABSENT)
        join_first(call);
    if (call->member->state != MISSING && call->member->incarnation != call->request->a &&
        !defect(DEFECT_JOIN_TWICE)) {
        enum tern_status status =
            fail(TERN_PEER, "node %" PRIu32 " has joined already as another process", call->from);
        /* When all have left it belongs to the next cluster here, whose coordinator is still to come: it tries
         * again. */
        return group_is_over(group) ? REFUSED : answer_failure(call, status);
    }
    if (group->n_joined + defect(DEFECT_JOIN_EARLY) >= group->n_nodes &&
        call->member->state != DEAD)
        return answer_roster(call);
    return group->n_dead > 0 ? answer_failure(call, fail_dead(group, "")) : HELD;
}

/* ---- TABLE ----------------------------------------------------------------------------------- */

static bool is_same_table(const struct known_table *one, const struct known_table *other)
{
    return one->turn == other->turn && !strcmp(one->name, other->name);
}

/* The key of a table in `numbers`: a hash, or if another table has that the next number, and so on. */
static uint64_t table_key(const struct group *group, const struct known_table *table)
{
    uint64_t key = hash_u64(table->turn);
    for (const char *c = table->name; *c; c++)
        key = hash_u64(key ^ (unsigned char)*c);
    for (uint32_t number; (number = keymap_get(&group->numbers, key)) != 0; key++)
        if (is_same_table(group->tables[number - 1], table))
            break;
    return key;
}

/* Reads the name and the shape out of a payload. */
static enum tern_status read_table(const struct call *call, struct known_table *table)
{
    const size_t name_bytes = call->bytes < 2 ? 0 : get_u16(call->payload);
    if (call->bytes < 2 || name_bytes > call->bytes - 2)
        return fail(TERN_INVALID, "TABLE of node %" PRIu32 " is shorter than the name it announces",
                    call->from);
    const size_t shape_bytes = call->bytes - 2 - name_bytes;
    if (name_bytes == 0 || memchr(call->payload + 2, 0, name_bytes))
        return fail(TERN_INVALID, "TABLE of node %" PRIu32 " has an empty name, or zeros in it",
                    call->from);
    if (name_bytes > TERN_MAX_NAME || shape_bytes > MAX_SHAPE_BYTES)
        return fail(TERN_LIMIT,
                    "TABLE of node %" PRIu32
                    " has a name of %zu bytes and a shape of %zu; at most %d and %d are possible",
                    call->from, name_bytes, shape_bytes, TERN_MAX_NAME, MAX_SHAPE_BYTES);
    table->opener = call->from;
    table->turn = call->request->a;
    table->piece = call->request->b;
    memcpy(table->name, call->payload + 2, name_bytes);
    table->name[name_bytes] = 0;
    table->shape_bytes = shape_bytes;
    memcpy(table->shape, call->payload + 2 + name_bytes, shape_bytes);
    return TERN_OK;
}

static bool make_room_for_table(struct group *group)
{
    if (!keymap_reserve(&group->numbers, 1))
        return false;
    if (group->n_tables < group->room_for_tables)
        return true;
    size_t n = group->room_for_tables ? 2 * group->room_for_tables : 16;
    struct known_table **tables = realloc(group->tables, n * sizeof *tables);
    if (!tables)
        return false;
    group->tables = tables;
    group->room_for_tables = n;
    return true;
}

static enum tern_status add_table(struct group *group, const struct known_table *wanted)
{
    if (group->n_tables == FRAME_MAX_TABLES)
        return fail(TERN_LIMIT, "table '%s' would be one too many: %d have been opened",
                    wanted->name, FRAME_MAX_TABLES);
    struct known_table *table = make_room_for_table(group) ? malloc(sizeof *table) : NULL;
    if (!table)
        return fail(TERN_NO_MEMORY, "no memory at the coordinator for table '%s'", wanted->name);
    *table = *wanted;
    uint64_t key = table_key(group, wanted);
    group->tables[group->n_tables++] = table;
    keymap_set(&group->numbers, key, (uint32_t)group->n_tables);
    return TERN_OK;
}

static enum served open_table(const struct call *call)
{
    struct group *group = call->group;
    struct known_table wanted = {0};
    enum tern_status status = read_table(call, &wanted);
    if (status == TERN_OK && !keymap_get(&group->numbers, table_key(group, &wanted)))
        status = add_table(group, &wanted);
    if (status != TERN_OK)
        return answer_failure(call, status);
    const uint32_t number = keymap_get(&group->numbers, table_key(group, &wanted)) - 1;
    const struct known_table *table = group->tables[number];
    if (table->shape_bytes != wanted.shape_bytes ||
        memcmp(table->shape, wanted.shape, wanted.shape_bytes) != 0)
        return answer_failure(call, fail(TERN_MISMATCH,
                                         "table '%s' was opened by node %" PRIu32
                                         " first, with other options than those of node %" PRIu32,
                                         table->name, table->opener, call->from));
    if (!reply_reserve(call->out, 0))
        return answer_no_memory(call);
    struct frame frame = reply_frame(call->request, group->epoch, FRAME_DONE);
    frame.table = (uint16_t)number;
    frame.a = table->piece;
    reply_commit(call->out, &frame);
    return SERVED;
}

/* ---- BARRIER --------------------------------------------------------------------------------- */

static enum served refuse_after_bye(const struct call *call)
{
    fail(TERN_INVALID, "node %" PRIu32 " sent %s after BYE", call->from,
         frame_kind_name(call->request->kind));
    return REFUSED;
}

/* Numbers of barriers and collectives begin with 1. */
static enum served answer_zero(const struct call *call)
{
    return answer_failure(call, fail(TERN_INVALID, "%s of node %" PRIu32 " has the number 0",
                                     frame_kind_name(call->request->kind), call->from));
}

/* Notes that a member is at a barrier, and which one all have passed then. */
static void arrive(const struct call *call)
{
    struct group *group = call->group;
    if (call->member->arrived >= call->request->a)
        return;
    call->member->arrived = call->request->a;
    if (group->n_dead > 0)
        return;
    uint64_t passed = UINT64_MAX;
    for (uint32_t i = defect(DEFECT_BARRIER_EARLY); i < group->n_nodes; i++)
        if (passed > group->members[i].arrived)
            passed = group->members[i].arrived;
    if (passed > group->passed)
        *call->changed = true;
    group->passed = passed;
}

static enum served barrier(const struct call *call)
{
    const struct group *group = call->group;
    const uint64_t number = call->request->a;
    if (number == 0)
        return answer_zero(call);
    if (call->member->state == LEFT && number > call->member->arrived)
        return refuse_after_bye(call);
    arrive(call);
    if (number <= group->passed)
        return answer(call, FRAME_DONE, 0, NULL, 0);
    char context[40];
    snprintf(context, sizeof context, "barrier %" PRIu64 ": ", number);
    if (group->n_dead > 0)
        return answer_failure(call, fail_dead(group, context));
    for (uint32_t i = 0; i < group->n_nodes; i++)
        if (group->members[i].state == LEFT && group->members[i].arrived < number)
            return answer_failure(call, fail_left(call, context, i));
    return HELD;
}

/* ---- Slots of reductions and broadcasts ------------------------------------------------------ */

/* Whether all who can still ask have asked for a later number. */
static bool slot_is_past(const struct group *group, enum sequence which, const struct slot *slot)
{
    for (uint32_t i = 0; i < group->n_nodes; i++)
        if (is_open(&group->members[i]) && group->members[i].asked[which] <= slot->number)
            return false;
    return true;
}

static struct slot *slot_find(struct group *group, enum sequence which, uint64_t number)
{
    for (int i = 0; i < N_SLOTS; i++)
        if (group->slots[which][i].number == number)
            return &group->slots[which][i];
    return NULL;
}

/* Opens a slot for the number in hand; NULL while others need all of them. */
static struct slot *slot_open(const struct call *call, enum sequence which)
{
    for (int i = 0; i < N_SLOTS; i++) {
        struct slot *slot = &call->group->slots[which][i];
        if (slot->number != 0 && !slot_is_past(call->group, which, slot))
            continue;
        slot_empty(call->group, slot);
        slot->number = call->request->a;
        slot->opener = call->from;
        slot->what = call->request->b;
        slot->bytes = call->bytes;
        slot->failed = TERN_OK;
        return slot;
    }
    return NULL;
}

static bool slot_is_complete(const struct group *group, enum sequence which,
                             const struct slot *slot)
{
    return which == REDUCTIONS ? slot->n_folded + defect(DEFECT_REDUCE_EARLY) >= group->n_nodes
                               : slot->result != NULL;
}

static bool slot_is_decided(const struct group *group, enum sequence which, const struct slot *slot)
{
    return slot->failed != TERN_OK || slot_is_complete(group, which, slot);
}

/* Makes the failure just stated by fail() everybody's answer. */
static void slot_fail(const struct call *call, struct slot *slot, enum tern_status status)
{
    slot_empty(call->group, slot);
    slot->failed = status;
    snprintf(slot->sentence, sizeof slot->sentence, "%s", tern_error());
    *call->changed = true;
}

/* Notes that the member has come to a number. That may end the need for an earlier one, or show that
 * it was skipped. */
static void slot_ask(const struct call *call, enum sequence which, uint64_t number)
{
    const struct group *group = call->group;
    if (call->member->asked[which] >= number)
        return;
    call->member->asked[which] = number;
    for (int i = 0; i < N_SLOTS; i++) {
        const struct slot *other = &group->slots[which][i];
        if (other->number != 0 && other->number < number &&
            (!slot_is_decided(group, which, other) || slot_is_past(group, which, other)))
            *call->changed = true;
    }
}

/* Why a number that has no slot cannot get one, if so. It has lost its slot only if every living member
 * was further, so who comes to it for the first time and finds others further finds that they skipped
 * it. */
static enum tern_status check_number(const struct call *call, enum sequence which)
{
    const struct group *group = call->group;
    const uint64_t number = call->request->a;
    const uint64_t asked = call->member->asked[which];
    if (number < asked || call->member->state == LEFT)
        return fail(TERN_INVALID, "%s %" PRIu64 " is past: node %" PRIu32 " was at %" PRIu64,
                    sequence_names[which], number, call->from, asked);
    for (uint32_t i = 0; i < group->n_nodes; i++)
        if (group->members[i].asked[which] > number)
            return fail(TERN_MISMATCH, "%s %" PRIu64 ": node %" PRIu32 " has gone on to %" PRIu64,
                        sequence_names[which], number, i, group->members[i].asked[which]);
    return TERN_OK;
}

/* Finds the slot of the number in hand, or opens one; NULL if there is none, and then the request has
 * been dealt with as *served says. */
static struct slot *slot_enter(const struct call *call, enum sequence which, enum served *served)
{
    const uint64_t number = call->request->a;
    if (number == 0) {
        *served = answer_zero(call);
        return NULL;
    }
    if (call->member->state == LEFT && number > call->member->asked[which]) {
        *served = refuse_after_bye(call);
        return NULL;
    }
    slot_ask(call, which, number);
    struct slot *slot = slot_find(call->group, which, number);
    if (slot)
        return slot;
    const enum tern_status status = check_number(call, which);
    if (status != TERN_OK) {
        *served = answer_failure(call, status);
        return NULL;
    }
    *served = HELD;
    return slot_open(call, which);
}

/* A member whose contribution is awaited: fails the slot if it cannot come any more. */
static void slot_await(const struct call *call, enum sequence which, struct slot *slot,
                       uint32_t node)
{
    const struct member *member = &call->group->members[node];
    char context[40];
    snprintf(context, sizeof context, "%s %" PRIu64 ": ", sequence_names[which], slot->number);
    if (is_dead(member))
        slot_fail(call, slot, fail_dead(call->group, context));
    else if (member->asked[which] > slot->number)
        slot_fail(call, slot,
                  fail(TERN_MISMATCH, "%snode %" PRIu32 " has gone on to %" PRIu64, context, node,
                       member->asked[which]));
    else if (member->state == LEFT)
        slot_fail(call, slot, fail_left(call, context, node));
}

static enum served slot_answer(const struct call *call, enum sequence which,
                               const struct slot *slot)
{
    if (slot->failed != TERN_OK)
        return answer_sentence(call, slot->failed, slot->sentence);
    if (!slot_is_complete(call->group, which, slot))
        return HELD;
    return answer(call, FRAME_VALUES, 0, slot->result, slot->bytes);
}

/* A copy of the payload in hand; never NULL for want of bytes. */
static uint8_t *copy_payload(const struct call *call)
{
    uint8_t *copy = malloc(call->bytes ? call->bytes : 1);
    if (copy && call->bytes)
        memcpy(copy, call->payload, call->bytes);
    return copy;
}

static enum tern_status fail_copy(const struct call *call, enum sequence which)
{
    return fail(TERN_NO_MEMORY,
                "%s %" PRIu64 ": no memory at the coordinator for %" PRIu32
                " bytes of node %" PRIu32,
                sequence_names[which], call->request->a, call->bytes, call->from);
}

static enum tern_status fail_size(const struct call *call, enum sequence which)
{
    return fail(TERN_LIMIT,
                "%s %" PRIu64 ": node %" PRIu32 " gives %" PRIu32 " bytes; at most %d are possible",
                sequence_names[which], call->request->a, call->from, call->bytes,
                MAX_COLLECTIVE_BYTES);
}

/* ---- REDUCE ---------------------------------------------------------------------------------- */

static const char *const type_names[] = {
    [TERN_F32] = "f32", [TERN_F64] = "f64", [TERN_I32] = "i32", [TERN_I64] = "i64"};

static size_t type_bytes(uint64_t type)
{
    return type == TERN_F32 || type == TERN_I32 ? 4 : 8;
}

static enum tern_status check_part(const struct call *call, const struct slot *slot)
{
    const uint64_t type = call->request->b;
    if (type > TERN_I64)
        return fail(TERN_INVALID,
                    "reduction %" PRIu64 ": node %" PRIu32 " gives the unknown type %" PRIu64,
                    slot->number, call->from, type);
    if (call->bytes > MAX_COLLECTIVE_BYTES)
        return fail_size(call, REDUCTIONS);
    if (call->bytes % type_bytes(type) != 0)
        return fail(TERN_INVALID,
                    "reduction %" PRIu64 ": node %" PRIu32 " gives %" PRIu32
                    " bytes, which are no whole elements of %s",
                    slot->number, call->from, call->bytes, type_names[type]);
    if (type != slot->what || call->bytes != slot->bytes)
        return fail(TERN_MISMATCH,
                    "reduction %" PRIu64 ": node %" PRIu32 " gives %" PRIu32
                    " bytes of %s, node %" PRIu32 " %" PRIu32 " of %s",
                    slot->number, call->from, call->bytes, type_names[type], slot->opener,
                    slot->bytes, type_names[slot->what]);
    return TERN_OK;
}

/* Adds the parts whose turn it is to the sum. */
static void fold(const struct group *group, struct slot *slot)
{
    for (; slot->n_folded < group->n_nodes && slot->parts[slot->n_folded]; slot->n_folded++) {
        uint8_t *part = slot->parts[slot->n_folded];
        slot->parts[slot->n_folded] = NULL;
        if (slot->n_folded == 0) {
            slot->result = part;
            continue;
        }
        kernel_get()->add[slot->what](slot->result, part, slot->bytes / type_bytes(slot->what));
        free(part);
    }
}

static bool has_given(const struct slot *slot, uint32_t node)
{
    return node < slot->n_folded || slot->parts[node];
}

static void give_part(const struct call *call, struct slot *slot)
{
    enum tern_status status = check_part(call, slot);
    uint8_t *part = status == TERN_OK ? copy_payload(call) : NULL;
    if (status == TERN_OK && !part)
        status = fail_copy(call, REDUCTIONS);
    if (status != TERN_OK) {
        slot_fail(call, slot, status);
        return;
    }
    slot->parts[call->from] = part;
    fold(call->group, slot);
    if (slot_is_complete(call->group, REDUCTIONS, slot))
        *call->changed = true;
}

static enum served reduce(const struct call *call)
{
    enum served served = HELD;
    struct slot *slot = slot_enter(call, REDUCTIONS, &served);
    if (!slot)
        return served;
    if (slot->failed == TERN_OK && !has_given(slot, call->from))
        give_part(call, slot);
    for (uint32_t i = slot->n_folded; i < call->group->n_nodes && slot->failed == TERN_OK; i++)
        if (!has_given(slot, i))
            slot_await(call, REDUCTIONS, slot, i);
    return slot_answer(call, REDUCTIONS, slot);
}

/* ---- BROADCAST ------------------------------------------------------------------------------- */

static enum tern_status check_broadcast(const struct call *call)
{
    const uint64_t root = call->request->b;
    if (root >= call->group->n_nodes)
        return fail(TERN_INVALID,
                    "broadcast %" PRIu64 ": node %" PRIu32 " names node %" PRIu64
                    " as its root, of %" PRIu32 " nodes",
                    call->request->a, call->from, root, call->group->n_nodes);
    if (root != call->from && call->bytes != 0)
        return fail(TERN_INVALID,
                    "broadcast %" PRIu64 ": node %" PRIu32
                    " gives bytes, its root is node %" PRIu64,
                    call->request->a, call->from, root);
    return TERN_OK;
}

static void give_root(const struct call *call, struct slot *slot)
{
    if (call->bytes > MAX_COLLECTIVE_BYTES) {
        slot_fail(call, slot, fail_size(call, BROADCASTS));
        return;
    }
    slot->bytes = call->bytes;
    slot->result = copy_payload(call);
    if (!slot->result)
        slot_fail(call, slot, fail_copy(call, BROADCASTS));
    *call->changed = true;
}

/* Who waits, waits for the root alone. A second opinion of who that is fails a broadcast for all,
 * unless the root's bytes are out already. */
static enum served broadcast(const struct call *call)
{
    enum tern_status status = check_broadcast(call);
    if (status != TERN_OK)
        return answer_failure(call, status);
    enum served served = HELD;
    struct slot *slot = slot_enter(call, BROADCASTS, &served);
    if (!slot)
        return served;
    const uint64_t root = call->request->b;
    const bool open = !slot_is_decided(call->group, BROADCASTS, slot);
    if (slot->failed == TERN_OK && slot->what != root) {
        status = fail(TERN_MISMATCH,
                      "broadcast %" PRIu64 ": its root is node %" PRIu64 " for node %" PRIu32
                      ", node %" PRIu64 " for node %" PRIu32,
                      slot->number, root, call->from, slot->what, slot->opener);
        if (!open)
            return answer_failure(call, status);
        slot_fail(call, slot, status);
    } else if (open && root == call->from) {
        give_root(call, slot);
    } else if (open) {
        slot_await(call, BROADCASTS, slot, (uint32_t)root);
    }
    return slot_answer(call, BROADCASTS, slot);
}

/* ---- PING and BYE ---------------------------------------------------------------------------- */

static enum served ping(const struct call *call)
{
    const struct group *group = call->group;
    uint32_t node = 0;
    while (node < group->n_nodes && !is_dead(&group->members[node]))
        node++;
    return answer(call, FRAME_DONE, node < group->n_nodes ? (uint64_t)node + 1 : 0, NULL, 0);
}

static enum served bye(const struct call *call)
{
    if (call->member->state == JOINED) {
        call->member->state = LEFT;
        *call->changed = true;
    }
    if (!group_is_over(call->group))
        return HELD;
    if (call->group->n_dead > 0)
        return answer_failure(call, fail_dead(call->group, ""));
    return answer(call, FRAME_DONE, 0, NULL, 0);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static enum served dispatch(const struct call *call)
{
    switch (call->request->kind) {
    case FRAME_JOIN:
        return join(call);
    case FRAME_TABLE:
        return open_table(call);
    case FRAME_BARRIER:
        return barrier(call);
    case FRAME_REDUCE:
        return reduce(call);
    case FRAME_BROADCAST:
        return broadcast(call);
    case FRAME_PING:
        return ping(call);
    case FRAME_BYE:
        return bye(call);
    default:
        fail(TERN_INVALID, "the coordinator does not answer %s, which node %" PRIu32 " sent",
             frame_kind_name(call->request->kind), call->from);
        return REFUSED;
    }
}

enum served group_request(struct group *group, uint32_t from, const struct frame *request,
                          const uint8_t *body, uint64_t now_ns, struct buffer *out, bool *changed)
{
    const char *kind = frame_kind_name(request->kind);
    if (from >= group->n_nodes) {
        fail(TERN_INVALID, "%s came from node %" PRIu32 ", but the group has %" PRIu32 " nodes",
             kind, from, group->n_nodes);
        return REFUSED;
    }
    if (request->count != 0 || request->keys_bytes != 0) {
        fail(TERN_INVALID, "%s of node %" PRIu32 " to the coordinator has keys", kind, from);
        return REFUSED;
    }
    const struct call call = {.group = group,
                              .from = from,
                              .member = &group->members[from],
                              .request = request,
                              .payload = body,
                              .bytes = request->body_bytes,
                              .now_ns = now_ns,
                              .out = out,
                              .changed = changed};
    const enum state state = call.member->state;
    if (request->kind != FRAME_JOIN && (state == ABSENT || state == MISSING)) {
        fail(TERN_INVALID, "node %" PRIu32 " sent %s before it joined", from, kind);
        return REFUSED;
    }
    if (request->kind != FRAME_JOIN && state == DEAD)
        return answer_failure(&call, fail_dead(group, "this node was given up: "));
    return dispatch(&call);
}
