/*
 * managers - the managers of one table at a few nodes in one process, whose messages the test carries by
 * hand: for tests of core/manager.h.
 *
 * A round of a node is what node/round_driver.c does: what was changed is collected, each peer is asked if there
 * is a reason, and again as long as there is something to say or hear. A test takes it apart to let
 * things happen while a message is under way.
 */
#ifndef CORE_MANAGERS_H
#define CORE_MANAGERS_H

#include "core/manager.h" /* before cmocka, whose macro fail() would hide the function */
#include "core/policy.h"

#include "support/check.h"
#include "support/view.h"

enum { MAX_MEMBERS = 4, MAX_PASSES = 8 };

/* A request under way, and its answer. */
struct question {
    struct buffer body, out;
    struct frame answer;
    bool asked, served, more;
};

struct member {
    struct core core;
    struct store store;
    struct policy policy;
    struct manager *manager;
    struct question questions[MAX_MEMBERS];
};

struct managers {
    struct member *members;
    uint32_t n;
};

static inline bool is_at_home(const void *context, uint64_t key)
{
    const struct member *member = context;
    return ring_home(member->core.view, key) == member->core.node;
}

static inline struct managers managers_new(uint32_t n, const char *policy,
                                           const struct tern_table_options *options)
{
    struct managers all = {.members = array_of(n, sizeof *all.members), .n = n};
    for (uint32_t i = 0; i < n; i++) {
        struct member *member = &all.members[i];
        member->core.node = i;
        member->core.view = view_of(n);
        struct store_home home = {.begin = range_begin(member->core.view, i, options->n_keys),
                                  .end = range_end(member->core.view, i, options->n_keys),
                                  .has = is_at_home,
                                  .context = member,
                                  .rows_move = true};
        ok(store_init(&member->store, "rows", options, &home));
        assert_true(policy_find(policy, &member->policy));
        member->manager = manager_new(&member->core, &member->store, &member->policy, 0, NULL);
        assert_non_null(member->manager);
    }
    return all;
}

static inline void managers_free(struct managers *all)
{
    for (uint32_t i = 0; i < all->n; i++) {
        struct member *member = &all->members[i];
        for (uint32_t k = 0; k < MAX_MEMBERS; k++) {
            buffer_free(&member->questions[k].body);
            buffer_free(&member->questions[k].out);
        }
        manager_free(member->manager);
        store_fini(&member->store);
    }
    free(all->members);
}

static inline void want(struct member *member, uint64_t key)
{
    manager_want(member->manager, &key, 1);
}

static inline void unwant(struct member *member, uint64_t key)
{
    manager_unwant(member->manager, &key, 1);
}

/* ---- Messages ------------------------------------------------------------------------------------ */

/* Makes the request of one node to another; false if it has no reason to ask. */
static inline bool ask_peer(struct managers *all, uint32_t from, uint32_t to)
{
    struct member *member = &all->members[from];
    struct question *question = &member->questions[to];
    assert_false(question->asked);
    if (from == to || !manager_has_request(member->manager, to))
        return false;
    ok(manager_request(member->manager, to, &question->body));
    assert_true(buffer_size(&question->body) <= FRAME_MAX_BODY_BYTES);
    question->asked = true;
    question->served = false;
    return true;
}

static inline struct frame request_frame(const struct buffer *body)
{
    return (struct frame){.kind = FRAME_ROUND,
                          .epoch = TEST_EPOCH,
                          .number = 1,
                          .body_bytes = (uint32_t)buffer_size(body)};
}

/* Lets the other node answer the request that is under way to it. */
static inline void serve_peer(struct managers *all, uint32_t from, uint32_t to)
{
    struct question *question = &all->members[from].questions[to];
    assert_true(question->asked && !question->served);
    struct frame request = request_frame(&question->body);
    question->out.begin = question->out.end = 0;
    ok(manager_serve(all->members[to].manager, from, &request, buffer_head(&question->body),
                     &question->out));
    ok(frame_decode(buffer_head(&question->out), &question->answer));
    assert_int_equal(question->answer.kind, FRAME_ROUND_REPLY);
    assert_int_equal(buffer_size(&question->out), FRAME_HEADER_BYTES + question->answer.body_bytes);
    question->served = true;
}

/* Hands over the answer. */
static inline void hear_peer(struct managers *all, uint32_t from, uint32_t to)
{
    struct member *member = &all->members[from];
    struct question *question = &member->questions[to];
    assert_true(question->served);
    question->asked = question->served = question->more = false;
    ok(manager_answer(member->manager, to, &question->body, &question->answer,
                      buffer_head(&question->out) + FRAME_HEADER_BYTES, &question->more));
}

/* One question of one node to another from begin to end. */
static inline void exchange(struct managers *all, uint32_t from, uint32_t to)
{
    ok(manager_take(all->members[from].manager));
    if (!ask_peer(all, from, to))
        return;
    serve_peer(all, from, to);
    hear_peer(all, from, to);
}

/* A whole round of a node. */
static inline void round_of(struct managers *all, uint32_t from)
{
    struct manager *manager = all->members[from].manager;
    ok(manager_take(manager));
    bool again = true;
    for (int pass = 0; again && pass < MAX_PASSES; pass++) {
        again = false;
        for (uint32_t to = 0; to < all->n; to++) {
            if ((pass && !all->members[from].questions[to].more &&
                 !manager_has_todo(manager, to)) ||
                !ask_peer(all, from, to))
                continue;
            serve_peer(all, from, to);
            hear_peer(all, from, to);
            again = true;
        }
    }
    manager_round_ended(manager);
}

/* Enough rounds of all nodes for everything to be told that is to be told. */
static inline void quiesce(struct managers *all)
{
    for (int i = 0; i < 6; i++)
        for (uint32_t k = 0; k < all->n; k++)
            round_of(all, k);
    for (uint32_t k = 0; k < all->n; k++)
        assert_false(manager_is_busy(all->members[k].manager));
}

/* ---- Rows ---------------------------------------------------------------------------------------- */

static inline enum entry_state state_of(const struct member *member, uint64_t key)
{
    struct entry *entry;
    return entry_state(store_look(&member->store, key, &entry));
}

static inline bool is_main(const struct member *member, uint64_t key)
{
    struct entry *entry;
    return entry_is_main(store_look(&member->store, key, &entry));
}

/* The node that has the main copy; the number of nodes if none has it, which must not be two. */
static inline uint32_t owner_of(const struct managers *all, uint64_t key)
{
    uint32_t owner = all->n;
    for (uint32_t i = 0; i < all->n; i++) {
        if (!is_main(&all->members[i], key))
            continue;
        assert_int_equal(owner, all->n);
        owner = i;
    }
    return owner;
}

#endif
