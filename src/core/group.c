/*
 * group - see group.h. This file has the members and the tables they open; collective.c what all do together.
 *
 * Every answer is a function of what members have said so far, and of facts that do not change back: a
 * dead member stays dead, one that has left does not return, a barrier once passed is passed. So a
 * request that is tried again is either still held or gets the answer it always gets.
 *
 * Invariants
 *   1. state goes ABSENT -> JOINED -> LEFT, DEAD, GIVEN_UP or PARTED, or ABSENT -> MISSING.
 *   2. n_joined counts the members that ever joined; the roster is complete when it is all of the view.
 */
#include "core/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/defect.h"
#include "core/group_internal.h"
#include "core/reply.h"
#include "wire/bytes.h"

enum {
    ROSTER_ENTRY_BYTES = 8 + 8 + 2, /* without the address */
    N_NAMED = 8,                    /* nodes a sentence lists before it only counts them */
};

_Static_assert((uint64_t)VIEW_MAX_NODES *(ROSTER_ENTRY_BYTES + MAX_ADDRESS_BYTES) <=
                   FRAME_MAX_BODY_BYTES,
               "the largest roster fits a frame");

/* ---- The group ------------------------------------------------------------------------------- */

struct group *group_new(const struct view *view, uint64_t deadline_ns, uint64_t now_ns)
{
    const uint32_t capacity = view_capacity(view);
    struct group *group = calloc(1, sizeof *group + capacity * sizeof group->members[0]);
    if (!group)
        goto no_memory;
    group->view = view;
    group->n_shards = 1;
    group->deadline_ns = group->join_deadline_ns = deadline_ns;
    group->began_ns = now_ns;
    group->ticked_ns = now_ns;
    if (collectives_init(&group->collectives, capacity))
        return group;

no_memory:
    group_free(group);
    fail(TERN_NO_MEMORY, "no memory for a group of %" PRIu32 " nodes", view_n_nodes(view));
    return NULL;
}

static void free_table(struct known_table *table)
{
    free(table->segments);
    free(table);
}

void group_free(struct group *group)
{
    if (!group)
        return;
    collectives_free(&group->collectives, view_capacity(group->view));
    view_free(group->present);
    for (size_t i = 0; i < group->n_tables; i++)
        free_table(group->tables[i]);
    free(group->tables);
    keymap_free(&group->numbers);
    free(group);
}

static uint64_t elapsed(uint64_t since_ns, uint64_t now_ns)
{
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

/* Starts the deadline of every member anew. */
static void hear_all(struct group *group, uint64_t now_ns)
{
    view_each (i, group->view)
        group->members[i].heard_ns = now_ns;
}

void group_heard(struct group *group, uint32_t node, uint64_t now_ns)
{
    if (view_has(group->view, node) && group->members[node].heard_ns < now_ns)
        group->members[node].heard_ns = now_ns;
}

/* Whether the others can go on without a member: not without the coordinator, nor if keys would be lost. */
static bool can_be_spared(const struct group *group, uint32_t node)
{
    return node != 0 && group->n_tables > 0 && group->n_without_backups == 0 && group->n_dead == 0;
}

/* The view that the next one replaces; NULL, with a sentence, when memory runs out. */
static struct view *need_present(struct group *group)
{
    if (!group->present)
        group->present = view_new(group_epoch(group), view_n_nodes(group->view), NULL);
    return group->present;
}

/* Goes on without a member, whose state is `to` from then on; false when memory runs out. */
static bool spare(struct group *group, uint32_t node, enum state to)
{
    struct view *present = need_present(group);
    struct view *next = present ? view_without(present, group_epoch(group) + 1, &node, 1) : NULL;
    if (!next)
        return false;
    group->present = next;
    group->members[node].state = to;
    (void)group_note_passed(group);
    return true;
}

bool group_ended(struct group *group, uint64_t node)
{
    return view_has(group->view, node) && group->members[node].state == JOINED &&
           can_be_spared(group, (uint32_t)node) && spare(group, (uint32_t)node, GIVEN_UP);
}

/* Gives up the members in state `from` that were not heard of since the deadline. */
static bool give_up(struct group *group, enum state from, enum state to, uint64_t now_ns)
{
    const uint32_t n_before = group->n_dead, epoch = group_epoch(group);
    view_each (i, group->view) {
        struct group_member *member = &group->members[i];
        const uint64_t since_ns = from == ABSENT ? group->began_ns : member->heard_ns;
        const uint64_t limit_ns = from == ABSENT ? group->join_deadline_ns : group->deadline_ns;
        if (member->state != from || elapsed(since_ns, now_ns) < limit_ns)
            continue;
        if (to == DEAD && can_be_spared(group, i) && spare(group, i, GIVEN_UP))
            continue;
        member->state = to;
        group->n_dead++;
    }
    return group->n_dead > n_before || group_epoch(group) > epoch;
}

/* Before everybody has joined, or is known to be missing, nobody has to be heard of: members wait. A
 * coordinator that did not run for long, on a machine that was busy or asleep, has heard of nobody for
 * that reason alone. */
bool group_tick(struct group *group, uint64_t now_ns)
{
    if (elapsed(group->ticked_ns, now_ns) > group->deadline_ns / 2)
        hear_all(group, now_ns);
    group->ticked_ns = now_ns;
    const bool settled = group->n_joined == view_n_nodes(group->view) || group->n_dead > 0;
    if (settled)
        return give_up(group, JOINED, DEAD, now_ns);
    if (!give_up(group, ABSENT, MISSING, now_ns))
        return false;
    hear_all(group, now_ns);
    return true;
}

void group_set_join_deadline(struct group *group, uint64_t deadline_ns)
{
    group->join_deadline_ns = deadline_ns;
}

bool group_has_joined(const struct group *group, uint32_t node, uint64_t incarnation)
{
    return group->members[node].state == JOINED && group->members[node].incarnation == incarnation;
}

bool group_is_over(const struct group *group)
{
    view_each (i, group->view)
        if (member_is_open(&group->members[i]))
            return false;
    return true;
}

bool group_end_is_known(const struct group *group)
{
    view_each (i, group->view)
        if (group->members[i].state == LEFT && !group->members[i].knows_end)
            return false;
    return group_is_over(group);
}

/* ---- Sentences and answers ------------------------------------------------------------------- */

static uint32_t count_in(const struct group *group, enum state state)
{
    uint32_t n = 0;
    view_each (i, group->view)
        n += group->members[i].state == state;
    return n;
}

/* Lists the members in a state: "node 1, node 2 and node 3". */
static void list_in(const struct group *group, enum state state, char text[GROUP_LIST_BYTES])
{
    const uint32_t n = count_in(group, state);
    const uint32_t n_named = n <= N_NAMED ? n : N_NAMED;
    int at = 0;
    uint32_t n_listed = 0;
    view_each_while (i, group->view, n_listed < n_named) {
        if (group->members[i].state != state)
            continue;
        const char *joint = n_listed == 0 ? "" : n_listed + 1 == n ? " and " : ", ";
        at += snprintf(text + at, (size_t)(GROUP_LIST_BYTES - at), "%snode %" PRIu32, joint, i);
        n_listed++;
    }
    if (n > n_named)
        snprintf(text + at, (size_t)(GROUP_LIST_BYTES - at), " and %" PRIu32 " more", n - n_named);
}

void group_list_absent(const struct group *group, char text[GROUP_LIST_BYTES])
{
    text[0] = '\0';
    if (group->n_dead == 0)
        list_in(group, ABSENT, text);
}

/* Why the group is not whole; `context` begins the sentence. */
enum tern_status group_fail_dead(const struct group *group, const char *context)
{
    const double deadline_s = (double)group->deadline_ns * 1e-9;
    const uint32_t n_missing = count_in(group, MISSING);
    char who[GROUP_LIST_BYTES] = "";
    if (n_missing > 0) {
        list_in(group, MISSING, who);
        return fail(TERN_PEER, "%s%s %s not joined within %g s", context, who,
                    n_missing == 1 ? "has" : "have", (double)group->join_deadline_ns * 1e-9);
    }
    list_in(group, DEAD, who);
    return fail(TERN_PEER, "%snothing was heard of %s for %g s", context, who, deadline_s);
}

/* A member has left before something that needs all. It may have done so because another one had died, which
 * is not certain here yet: the sentence also names a node that has been silent for too long. */
enum tern_status group_fail_left(const struct call *call, const char *context, uint32_t node)
{
    const struct group *group = call->group;
    uint64_t most_ns = group->deadline_ns / 2;
    uint32_t silent = view_capacity(group->view);
    view_each (i, group->view) {
        const uint64_t silence_ns = elapsed(group->members[i].heard_ns, call->now_ns);
        if (group->members[i].state != JOINED || silence_ns <= most_ns)
            continue;
        most_ns = silence_ns;
        silent = i;
    }
    if (!view_has(group->view, silent))
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

enum served group_answer_sentence(const struct call *call, enum tern_status status,
                                  const char *sentence)
{
    return reply_error(call->out, call->request, group_epoch(call->group), status, sentence)
               ? SERVED
               : refuse_for_memory(call);
}

/* Answers with the failure that was just stated by fail(). */
enum served group_answer_failure(const struct call *call, enum tern_status status)
{
    return group_answer_sentence(call, status, tern_error());
}

static enum served answer_no_memory(const struct call *call)
{
    return group_answer_failure(call, fail(TERN_NO_MEMORY,
                                           "no memory at the coordinator for %s of node "
                                           "%" PRIu32,
                                           frame_kind_name(call->request->kind), call->from));
}

enum served group_answer(const struct call *call, enum frame_kind kind, uint64_t field,
                         const void *payload, size_t bytes)
{
    return reply_append(call->out, call->request, group_epoch(call->group), kind, field, payload,
                        bytes)
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
    size_t bytes = (size_t)view_n_nodes(group->view) * ROSTER_ENTRY_BYTES;
    view_each (i, group->view)
        bytes += group->members[i].address_bytes;
    uint8_t *at = reply_reserve(call->out, bytes);
    if (!at)
        return answer_no_memory(call);
    view_each (i, group->view) {
        const struct group_member *member = &group->members[i];
        put_u64(at, member->incarnation);
        put_u64(at + 8, member->host);
        put_u16(at + 16, member->address_bytes);
        memcpy(at + ROSTER_ENTRY_BYTES, member->address, member->address_bytes);
        at += ROSTER_ENTRY_BYTES + member->address_bytes;
    }
    struct frame frame = reply_frame(call->request, group_epoch(group), FRAME_ROSTER);
    frame.fields.roster.epoch = group_epoch(group);
    frame.fields.roster.n_shards = group->n_shards;
    frame.body_bytes = (uint32_t)bytes;
    reply_commit(call->out, &frame);
    return SERVED;
}

static void join_first(const struct call *call)
{
    struct group *group = call->group;
    struct group_member *member = call->member;
    member->state = JOINED;
    member->incarnation = call->request->fields.join.incarnation;
    member->host = call->request->fields.join.host;
    member->address_bytes = (uint8_t)call->bytes;
    if (call->bytes)
        memcpy(member->address, call->payload, call->bytes);
    if (++group->n_joined == view_n_nodes(group->view)) {
        hear_all(group, call->now_ns);
        *call->changed = true;
    }
}

/* The last words to a member that the others do without. */
static enum served answer_given_up(const struct call *call)
{
    if (call->member->state == PARTED)
        return group_answer_failure(
            call, fail(TERN_CLOSED, "node %" PRIu32 " has left the job", call->from));
    return group_answer_failure(
        call,
        fail(TERN_PEER,
             "node %" PRIu32 " was given up: nothing was heard of it for %g s, and the others "
             "go on without it",
             call->from, (double)call->group->deadline_ns * 1e-9));
}

static enum served join(const struct call *call)
{
    const struct group *group = call->group;
    if (call->bytes > MAX_ADDRESS_BYTES)
        return group_answer_failure(call, fail(TERN_INVALID,
                                               "the address of node %" PRIu32 " has %" PRIu32
                                               " bytes; at most %d are possible",
                                               call->from, call->bytes, MAX_ADDRESS_BYTES));
    if (call->member->state == ABSENT)
        join_first(call);
    if (call->member->state != MISSING &&
        call->member->incarnation != call->request->fields.join.incarnation &&
        !defect(DEFECT_JOIN_TWICE)) {
        enum tern_status status =
            fail(TERN_PEER, "node %" PRIu32 " has joined already as another process", call->from);
        /* When all have left it belongs to the next cluster here, whose coordinator is still to come: it tries
         * again. */
        return group_is_over(group) ? REFUSED : group_answer_failure(call, status);
    }
    if (group->n_joined + defect(DEFECT_JOIN_EARLY) >= view_n_nodes(group->view) &&
        call->member->state != DEAD && !member_is_gone(call->member))
        return answer_roster(call);
    if (member_is_gone(call->member))
        return answer_given_up(call);
    return group->n_dead > 0 ? group_answer_failure(call, group_fail_dead(group, "")) : HELD;
}

/* ---- TABLE ----------------------------------------------------------------------------------- */

static bool is_same_table(const struct known_table *one, const struct known_table *other)
{
    return one->generation == other->generation && !strcmp(one->name, other->name);
}

/* The key of a table in `numbers`: a hash, or if another table has that the next number, and so on. */
static uint64_t table_key(const struct group *group, const struct known_table *table)
{
    uint64_t key = hash_u64(table->generation);
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
    table->generation = call->request->fields.table.generation;
    table->backups = call->request->table;
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
    if (group->present && wanted->backups == 0)
        return fail(TERN_PEER,
                    "table '%s' has no backups, and cannot be opened after a node was given up",
                    wanted->name);
    for (size_t i = 0; wanted->backups && i < group->n_tables; i++)
        if (group->tables[i]->backups && group->tables[i]->backups != wanted->backups)
            return fail(TERN_MISMATCH,
                        "table '%s' has %u backups, and table '%s' %u: all that have any have as "
                        "many",
                        wanted->name, wanted->backups, group->tables[i]->name,
                        group->tables[i]->backups);
    struct known_table *table = make_room_for_table(group) ? malloc(sizeof *table) : NULL;
    if (!table)
        return fail(TERN_NO_MEMORY, "no memory at the coordinator for table '%s'", wanted->name);
    *table = *wanted;
    group->n_without_backups += table->backups == 0;
    uint64_t key = table_key(group, wanted);
    group->tables[group->n_tables++] = table;
    keymap_set(&group->numbers, key, (uint32_t)group->n_tables);
    return TERN_OK;
}

/* The memory of a table at the host of a node: what the first one there to open it has made. False when memory runs out. */
static bool agree_on_segment(const struct call *call, struct known_table *table, uint64_t *number)
{
    const uint64_t host = call->member->host;
    for (size_t i = 0; i < table->n_segments; i++)
        if (table->segments[i].host == host) {
            *number = table->segments[i].number;
            return true;
        }
    void *grown = realloc(table->segments, (table->n_segments + 1) * sizeof *table->segments);
    if (!grown)
        return false;
    table->segments = grown;
    *number = call->request->fields.table.segment;
    table->segments[table->n_segments].host = host;
    table->segments[table->n_segments++].number = *number;
    return true;
}

static enum served open_table(const struct call *call)
{
    struct group *group = call->group;
    struct known_table wanted = {0};
    enum tern_status status = read_table(call, &wanted);
    if (status == TERN_OK && !keymap_get(&group->numbers, table_key(group, &wanted)))
        status = add_table(group, &wanted);
    if (status != TERN_OK)
        return group_answer_failure(call, status);
    const uint32_t number = keymap_get(&group->numbers, table_key(group, &wanted)) - 1;
    const struct known_table *table = group->tables[number];
    if (table->shape_bytes != wanted.shape_bytes || table->backups != wanted.backups ||
        memcmp(table->shape, wanted.shape, wanted.shape_bytes) != 0)
        return group_answer_failure(call,
                                    fail(TERN_MISMATCH,
                                         "table '%s' was opened by node %" PRIu32
                                         " first, with other options than those of node %" PRIu32,
                                         table->name, table->opener, call->from));
    uint64_t segment;
    if (!agree_on_segment(call, group->tables[number], &segment) || !reply_reserve(call->out, 0))
        return answer_no_memory(call);
    struct frame frame = reply_frame(call->request, group_epoch(group), FRAME_DONE);
    frame.table = (uint16_t)number;
    frame.fields.table_done.segment = segment;
    reply_commit(call->out, &frame);
    return SERVED;
}

/* ---- PING and BYE ---------------------------------------------------------------------------- */

/* When all backups are complete, the others go on without the member that is leaving. */
static bool let_go(struct group *group)
{
    const struct view *present = group->present;
    uint32_t node = 0;
    if (!present || !view_has_leaving(present))
        return false;
    view_each (i, present) {
        if (group->members[i].formed != group_epoch(group) && !defect(DEFECT_LEAVES_EARLY))
            return false;
        node = view_is_leaving(present, i) ? i : node;
    }
    return spare(group, node, PARTED);
}

static enum served ping(const struct call *call)
{
    const struct group *group = call->group;
    uint64_t dead = 0;
    call->member->formed = call->request->fields.ping.formed;
    *call->changed |= let_go(call->group);
    view_each_while (i, group->view, !dead)
        dead = member_is_dead(&group->members[i]) ? (uint64_t)i + 1 : 0;
    struct buffer view = {0};
    if (call->request->epoch < group_epoch(group) && group->present &&
        !view_write(group->present, &view))
        return answer_no_memory(call);
    const enum served served =
        group_answer(call, FRAME_DONE, dead, buffer_head(&view), buffer_size(&view));
    buffer_free(&view);
    return served;
}

/* Why a member cannot leave alone. */
static enum tern_status fail_to_leave(const struct call *call)
{
    const struct group *group = call->group;
    if (group->n_dead > 0)
        return group_fail_dead(group, "");
    if (call->from == 0)
        return fail(TERN_INVALID, "node 0 coordinates the job, and cannot leave before the others");
    if (call->member->state != JOINED)
        return fail(TERN_CLOSED, "node %" PRIu32 " has left the job", call->from);
    for (size_t i = 0; i < group->n_tables; i++)
        if (!group->tables[i]->backups)
            return fail(TERN_INVALID,
                        "node %" PRIu32
                        " cannot leave before the others: table '%s' has no backups",
                        call->from, group->tables[i]->name);
    return fail(TERN_INVALID,
                "node %" PRIu32 " cannot leave before the others: no table was opened yet",
                call->from);
}

/* A member asks to leave alone. */
static enum served leave_alone(const struct call *call)
{
    struct group *group = call->group;
    if (call->member->state == PARTED)
        return group_answer(call, FRAME_DONE, 0, NULL, 0);
    if (call->member->state != JOINED || !can_be_spared(group, call->from))
        return group_answer_failure(call, fail_to_leave(call));
    struct view *present = need_present(group);
    if (present && view_has_leaving(present))
        return HELD;
    struct view *next =
        present ? view_with_leaving(present, group_epoch(group) + 1, call->from) : NULL;
    if (!next)
        return answer_no_memory(call);
    group->present = next;
    return HELD;
}

static enum served bye(const struct call *call)
{
    if (call->request->fields.bye.alone)
        return leave_alone(call);
    if (call->member->state == JOINED) {
        call->member->state = LEFT;
        *call->changed = true;
    }
    if (!group_is_over(call->group))
        return HELD;
    call->member->knows_end |= call->request->fields.bye.is_last != 0;
    if (call->group->n_dead > 0)
        return group_answer_failure(call, group_fail_dead(call->group, ""));
    return group_answer(call, FRAME_DONE, 0, NULL, 0);
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
        return group_barrier(call);
    case FRAME_REDUCE:
        return group_reduce(call);
    case FRAME_BROADCAST:
        return group_broadcast(call);
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
    if (!view_has(group->view, from)) {
        fail(TERN_INVALID, "%s came from node %" PRIu32 ", but the group has %" PRIu32 " nodes",
             kind, from, view_n_nodes(group->view));
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
    const bool is_gone = state == GIVEN_UP || (state == PARTED && request->kind != FRAME_BYE);
    if (request->kind != FRAME_JOIN && request->kind != FRAME_PING && is_gone)
        return answer_given_up(&call);
    if (request->kind != FRAME_JOIN && state == DEAD)
        return group_answer_failure(&call, group_fail_dead(group, "this node was given up: "));
    return dispatch(&call);
}
