/*
 * collective - what all nodes do together: barriers, sums and broadcasts, as the coordinator answers them (group.h).
 *
 * A barrier is a number that every member says it has reached. Reductions and broadcasts share a mechanism. The numbers of
 * each form a *sequence*, of which at most N_SLOTS numbers are kept: a number takes a slot when the first member asks for it
 * and gives it back when every living member has asked for a later one. A member that runs further ahead of the others
 * is held, so memory is bounded whatever members send. A member that skips a number cannot be waited for: requests that
 * wait for it fail.
 *
 * A sum is folded in the order of node numbers as parts arrive, so it has the same bits in every run, and only the parts that
 * came before their turn are kept.
 *
 * Invariants
 *   1. passed <= arrived of every member that is not given up; it no longer grows once a member is dead.
 *   2. a slot has parts of `next` and later nodes only; result is the sum of those before.
 *   3. a slot is complete or failed, not both, and stays so until it is given back.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/defect.h"
#include "core/group_internal.h"
#include "kernel/kernel.h"

enum { MAX_COLLECTIVE_BYTES = 1 << 20 };

static const char *const sequence_names[N_SEQUENCES] = {"reduction", "broadcast"};

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
    return group_answer_failure(call, fail(TERN_INVALID, "%s of node %" PRIu32 " has the number 0",
                                           frame_kind_name(call->request->kind), call->from));
}

bool group_note_passed(struct group *group)
{
    uint64_t passed = UINT64_MAX;
    if (group->n_dead > 0)
        return false;
    view_each (i, group->view) {
        if ((i == view_first(group->view) && defect(DEFECT_BARRIER_EARLY)) ||
            member_is_gone(&group->members[i]))
            continue;
        if (passed > group->members[i].arrived)
            passed = group->members[i].arrived;
    }
    const bool is_later = passed > group->collectives.passed;
    group->collectives.passed = passed;
    return is_later;
}

/* Notes that a member is at a barrier, and which one all have passed then. */
static void arrive(const struct call *call)
{
    struct group *group = call->group;
    if (call->member->arrived >= call->request->fields.collective.number)
        return;
    call->member->arrived = call->request->fields.collective.number;
    if (group_note_passed(group))
        *call->changed = true;
}

enum served group_barrier(const struct call *call)
{
    const struct group *group = call->group;
    const uint64_t number = call->request->fields.collective.number;
    if (number == 0)
        return answer_zero(call);
    if (call->member->state == LEFT && number > call->member->arrived)
        return refuse_after_bye(call);
    arrive(call);
    if (number <= group->collectives.passed)
        return group_answer(call, FRAME_DONE, 0, NULL, 0);
    char context[40];
    snprintf(context, sizeof context, "barrier %" PRIu64 ": ", number);
    if (group->n_dead > 0)
        return group_answer_failure(call, group_fail_dead(group, context));
    view_each (i, group->view)
        if (group->members[i].state == LEFT && group->members[i].arrived < number)
            return group_answer_failure(call, group_fail_left(call, context, i));
    return HELD;
}

/* ---- Slots of reductions and broadcasts ------------------------------------------------------ */

static void slot_empty(struct slot *slot, uint32_t capacity)
{
    for (uint32_t i = 0; slot->parts && i < capacity; i++) {
        free(slot->parts[i]);
        slot->parts[i] = NULL;
    }
    free(slot->result);
    slot->result = NULL;
}

bool collectives_init(struct collectives *collectives, uint32_t capacity)
{
    for (int i = 0; i < N_SLOTS; i++) {
        struct slot *slot = &collectives->slots[REDUCTIONS][i];
        slot->parts = calloc(capacity, sizeof slot->parts[0]);
        if (!slot->parts)
            return false;
    }
    return true;
}

void collectives_free(struct collectives *collectives, uint32_t capacity)
{
    for (int which = 0; which < N_SEQUENCES; which++) {
        for (int i = 0; i < N_SLOTS; i++) {
            slot_empty(&collectives->slots[which][i], capacity);
            free(collectives->slots[which][i].parts);
        }
    }
}

/* Whether all who can still ask have asked for a later number. */
static bool slot_is_past(const struct group *group, enum sequence which, const struct slot *slot)
{
    view_each (i, group->view)
        if (member_is_open(&group->members[i]) && group->members[i].asked[which] <= slot->number)
            return false;
    return true;
}

static struct slot *slot_find(struct group *group, enum sequence which, uint64_t number)
{
    for (int i = 0; i < N_SLOTS; i++)
        if (group->collectives.slots[which][i].number == number)
            return &group->collectives.slots[which][i];
    return NULL;
}

/* Opens a slot for the number in hand; NULL while others need all of them. */
static struct slot *slot_open(const struct call *call, enum sequence which)
{
    for (int i = 0; i < N_SLOTS; i++) {
        struct slot *slot = &call->group->collectives.slots[which][i];
        if (slot->number != 0 && !slot_is_past(call->group, which, slot))
            continue;
        slot_empty(slot, view_capacity(call->group->view));
        slot->next = view_first(call->group->view);
        slot->number = call->request->fields.collective.number;
        slot->opener = call->from;
        slot->what = call->request->fields.collective.detail;
        slot->bytes = call->bytes;
        slot->failed = TERN_OK;
        return slot;
    }
    return NULL;
}

static bool slot_is_complete(const struct group *group, enum sequence which,
                             const struct slot *slot)
{
    return which == REDUCTIONS
               ? slot->next + defect(DEFECT_REDUCE_EARLY) >= view_capacity(group->view)
               : slot->result != NULL;
}

static bool slot_is_decided(const struct group *group, enum sequence which, const struct slot *slot)
{
    return slot->failed != TERN_OK || slot_is_complete(group, which, slot);
}

/* Makes the failure just stated by fail() everybody's answer. */
static void slot_fail(const struct call *call, struct slot *slot, enum tern_status status)
{
    slot_empty(slot, view_capacity(call->group->view));
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
        const struct slot *other = &group->collectives.slots[which][i];
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
    const uint64_t number = call->request->fields.collective.number;
    const uint64_t asked = call->member->asked[which];
    if (number < asked || call->member->state == LEFT)
        return fail(TERN_INVALID, "%s %" PRIu64 " is past: node %" PRIu32 " was at %" PRIu64,
                    sequence_names[which], number, call->from, asked);
    view_each (i, group->view)
        if (group->members[i].asked[which] > number)
            return fail(TERN_MISMATCH, "%s %" PRIu64 ": node %" PRIu32 " has gone on to %" PRIu64,
                        sequence_names[which], number, i, group->members[i].asked[which]);
    return TERN_OK;
}

/* Finds the slot of the number in hand, or opens one; NULL if there is none, and then the request has
 * been dealt with as *served says. */
static struct slot *slot_enter(const struct call *call, enum sequence which, enum served *served)
{
    const uint64_t number = call->request->fields.collective.number;
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
        *served = group_answer_failure(call, status);
        return NULL;
    }
    *served = HELD;
    return slot_open(call, which);
}

/* A member whose contribution is awaited: fails the slot if it cannot come any more. */
static void slot_await(const struct call *call, enum sequence which, struct slot *slot,
                       uint32_t node)
{
    const struct group_member *member = &call->group->members[node];
    char context[40];
    snprintf(context, sizeof context, "%s %" PRIu64 ": ", sequence_names[which], slot->number);
    if (member_is_dead(member))
        slot_fail(call, slot, group_fail_dead(call->group, context));
    else if (member_is_gone(member) && which == BROADCASTS)
        slot_fail(call, slot,
                  fail(TERN_PEER, "%snode %" PRIu32 ", its root, was given up", context, node));
    else if (member_is_gone(member))
        return;
    else if (member->asked[which] > slot->number)
        slot_fail(call, slot,
                  fail(TERN_MISMATCH, "%snode %" PRIu32 " has gone on to %" PRIu64, context, node,
                       member->asked[which]));
    else if (member->state == LEFT)
        slot_fail(call, slot, group_fail_left(call, context, node));
}

static enum served slot_answer(const struct call *call, enum sequence which,
                               const struct slot *slot)
{
    if (slot->failed != TERN_OK)
        return group_answer_sentence(call, slot->failed, slot->sentence);
    if (!slot_is_complete(call->group, which, slot))
        return HELD;
    return group_answer(call, FRAME_VALUES, 0, slot->result, slot->bytes);
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
    return fail(
        TERN_NO_MEMORY,
        "%s %" PRIu64 ": no memory at the coordinator for %" PRIu32 " bytes of node %" PRIu32,
        sequence_names[which], call->request->fields.collective.number, call->bytes, call->from);
}

static enum tern_status fail_size(const struct call *call, enum sequence which)
{
    return fail(TERN_LIMIT,
                "%s %" PRIu64 ": node %" PRIu32 " gives %" PRIu32 " bytes; at most %d are possible",
                sequence_names[which], call->request->fields.collective.number, call->from,
                call->bytes, MAX_COLLECTIVE_BYTES);
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
    const uint64_t type = call->request->fields.reduce.type;
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

/* Adds the parts whose turn it is to the sum. A member that was given up has none, unless it came before. */
static void fold(const struct group *group, struct slot *slot)
{
    const struct view *view = group->view;
    for (; slot->next < view_capacity(view); slot->next = view_next(view, slot->next)) {
        uint8_t *part = slot->parts[slot->next];
        if (!part && !member_is_gone(&group->members[slot->next]))
            return;
        slot->parts[slot->next] = NULL;
        if (!part)
            continue;
        if (!slot->result) {
            slot->result = part;
            continue;
        }
        kernel_get()->add[slot->what](slot->result, part, slot->bytes / type_bytes(slot->what));
        free(part);
    }
}

static bool has_given(const struct slot *slot, uint32_t node)
{
    return node < slot->next || slot->parts[node];
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

/* Goes on where a member is waited for that was given up meanwhile. */
static void fold_without_gone(const struct call *call, struct slot *slot)
{
    if (slot->failed != TERN_OK || slot_is_complete(call->group, REDUCTIONS, slot) ||
        !member_is_gone(&call->group->members[slot->next]))
        return;
    fold(call->group, slot);
    *call->changed |= slot_is_complete(call->group, REDUCTIONS, slot);
}

enum served group_reduce(const struct call *call)
{
    enum served served = HELD;
    struct slot *slot = slot_enter(call, REDUCTIONS, &served);
    if (!slot)
        return served;
    if (slot->failed == TERN_OK && !has_given(slot, call->from))
        give_part(call, slot);
    fold_without_gone(call, slot);
    view_each_while (i, call->group->view, slot->failed == TERN_OK)
        if (!has_given(slot, i))
            slot_await(call, REDUCTIONS, slot, i);
    return slot_answer(call, REDUCTIONS, slot);
}

/* ---- BROADCAST ------------------------------------------------------------------------------- */

static enum tern_status check_broadcast(const struct call *call)
{
    const uint64_t root = call->request->fields.broadcast.root;
    if (!view_has(call->group->view, root))
        return fail(TERN_INVALID,
                    "broadcast %" PRIu64 ": node %" PRIu32 " names node %" PRIu64
                    " as its root, of %" PRIu32 " nodes",
                    call->request->fields.collective.number, call->from, root,
                    view_n_nodes(call->group->view));
    if (root != call->from && call->bytes != 0)
        return fail(TERN_INVALID,
                    "broadcast %" PRIu64 ": node %" PRIu32
                    " gives bytes, its root is node %" PRIu64,
                    call->request->fields.collective.number, call->from, root);
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

/* Nodes wait for the root only. If two nodes name different roots, the broadcast fails for all,
 * unless the root's bytes are out already. */
enum served group_broadcast(const struct call *call)
{
    enum tern_status status = check_broadcast(call);
    if (status != TERN_OK)
        return group_answer_failure(call, status);
    enum served served = HELD;
    struct slot *slot = slot_enter(call, BROADCASTS, &served);
    if (!slot)
        return served;
    const uint64_t root = call->request->fields.broadcast.root;
    const bool open = !slot_is_decided(call->group, BROADCASTS, slot);
    if (slot->failed == TERN_OK && slot->what != root) {
        status = fail(TERN_MISMATCH,
                      "broadcast %" PRIu64 ": its root is node %" PRIu64 " for node %" PRIu32
                      ", node %" PRIu64 " for node %" PRIu32,
                      slot->number, root, call->from, slot->what, slot->opener);
        if (!open)
            return group_answer_failure(call, status);
        slot_fail(call, slot, status);
    } else if (open && root == call->from) {
        give_root(call, slot);
    } else if (open) {
        slot_await(call, BROADCASTS, slot, (uint32_t)root);
    }
    return slot_answer(call, BROADCASTS, slot);
}
