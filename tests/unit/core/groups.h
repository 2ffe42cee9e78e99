/*
 * groups - a coordinator (core/group.h) to ask, and what its answers must be: for its tests.
 *
 * Every request goes through ask(), which checks what holds for all: at most one reply, whole, with the request's number,
 * the epoch and a right body check; a sentence with every failure.
 */
#ifndef CORE_GROUPS_H
#define CORE_GROUPS_H

#include "core/group.h" /* before cmocka, whose macro fail() would hide the function */

#include "support/check.h"
#include "support/view.h"

enum { EPOCH = TEST_EPOCH, SHARDS = 2, MAX_NODES = 9, MIB = 1 << 20 };

#define SECOND UINT64_C(1000000000)
#define DEADLINE (10 * SECOND)
#define BEGIN (1000 * SECOND)

struct scene {
    struct group *group;
    struct buffer out;
    uint64_t now_ns;
    uint64_t number;
};

struct reply {
    enum served served;
    bool changed;
    struct frame frame;  /* if SERVED */
    const char *payload; /* valid until the next one */
};

static inline void scene_open(struct scene *scene, uint32_t n_nodes)
{
    *scene = (struct scene){.now_ns = BEGIN};
    scene->group = group_new(view_of(n_nodes), DEADLINE, BEGIN);
    group_set_shards(scene->group, SHARDS);
    assert_non_null(scene->group);
}

static inline void scene_close(struct scene *scene)
{
    group_free(scene->group);
    buffer_free(&scene->out);
}

static inline void check_reply(struct scene *scene, const struct frame *request,
                               struct reply *reply)
{
    if (reply->served != SERVED) {
        assert_int_equal(buffer_size(&scene->out), 0);
        if (reply->served == REFUSED)
            assert_true(strlen(tern_error()) > 10);
        return;
    }
    assert_true(buffer_size(&scene->out) >= FRAME_HEADER_BYTES);
    ok(frame_decode(buffer_head(&scene->out), &reply->frame));
    const struct frame *frame = &reply->frame;
    const uint8_t *body = buffer_head(&scene->out) + FRAME_HEADER_BYTES;
    assert_int_equal(buffer_size(&scene->out), FRAME_HEADER_BYTES + frame->body_bytes);
    assert_int_equal(frame->number, request->number);
    assert_true(frame->epoch >= EPOCH);
    assert_int_equal(frame->count, 0);
    assert_int_equal(frame->flags, request->flags & FRAME_CHECKED);
    if (frame->flags & FRAME_CHECKED)
        assert_int_equal(frame->body_check, frame_body_check(body, frame->body_bytes));
    if (frame->kind == FRAME_ERROR)
        assert_true(frame->body_bytes > 10);
    reply->payload = (const char *)body;
}

static inline struct reply send(struct scene *scene, uint32_t from, const struct frame *request,
                                const void *payload)
{
    buffer_consume(&scene->out, buffer_size(&scene->out));
    check_forget();
    struct reply reply = {0};
    reply.served = group_request(scene->group, from, request, payload, scene->now_ns, &scene->out,
                                 &reply.changed);
    check_reply(scene, request, &reply);
    return reply;
}

static inline struct reply ask(struct scene *scene, uint32_t from, enum frame_kind kind, uint64_t a,
                               uint64_t b, const void *payload, size_t bytes)
{
    const uint64_t number = ++scene->number;
    const struct frame request = {
        .kind = kind,
        .flags = number % 2 ? FRAME_CHECKED : 0,
        .epoch = EPOCH,
        .number = number,
        .fields.raw = {a, b},
        .body_bytes = (uint32_t)bytes,
    };
    return send(scene, from, &request, payload);
}

static inline struct reply join(struct scene *scene, uint32_t node)
{
    char address[32];
    int bytes = snprintf(address, sizeof address, "10.0.0.%u:%u", node, 7000 + node);
    return ask(scene, node, FRAME_JOIN, 100 + node, 0, address, (size_t)bytes);
}

static inline void join_all(struct scene *scene, uint32_t n_nodes)
{
    scene_open(scene, n_nodes);
    for (uint32_t i = 0; i < n_nodes; i++)
        assert_int_equal(join(scene, i).served, i + 1 < n_nodes ? HELD : SERVED);
}

static inline struct reply open_table(struct scene *scene, uint32_t from, const char *name,
                                      const void *shape_of, size_t shape_bytes)
{
    uint8_t payload[1024];
    const size_t name_bytes = strlen(name);
    payload[0] = (uint8_t)name_bytes;
    payload[1] = (uint8_t)(name_bytes >> 8);
    memcpy(payload + 2, name, name_bytes);
    memcpy(payload + 2 + name_bytes, shape_of, shape_bytes);
    return ask(scene, from, FRAME_TABLE, 0, 0, payload, 2 + name_bytes + shape_bytes);
}

static inline struct reply barrier(struct scene *scene, uint32_t from, uint64_t number)
{
    return ask(scene, from, FRAME_BARRIER, number, 0, NULL, 0);
}

static inline struct reply bye(struct scene *scene, uint32_t from)
{
    return ask(scene, from, FRAME_BYE, 0, 0, NULL, 0);
}

static inline void assert_held(struct reply reply)
{
    assert_int_equal(reply.served, HELD);
}

static inline void assert_refused(struct reply reply, const char *word)
{
    assert_int_equal(reply.served, REFUSED);
    if (!strstr(tern_error(), word))
        fail_msg("the sentence does not say '%s': %s", word, tern_error());
}

static inline void assert_kind(struct reply reply, enum frame_kind kind)
{
    assert_int_equal(reply.served, SERVED);
    if (reply.frame.kind == FRAME_ERROR && kind != FRAME_ERROR)
        fail_msg("ERROR instead of %s: %.*s", frame_kind_name(kind), (int)reply.frame.body_bytes,
                 reply.payload);
    assert_int_equal(reply.frame.kind, kind);
}

static inline void assert_done(struct reply reply)
{
    assert_kind(reply, FRAME_DONE);
    assert_int_equal(reply.frame.body_bytes, 0);
}

static inline void assert_values(struct reply reply, const void *values, size_t bytes)
{
    assert_kind(reply, FRAME_VALUES);
    assert_int_equal(reply.frame.body_bytes, bytes);
    assert_memory_equal(reply.payload, values, bytes);
}

static inline void assert_error(struct reply reply, enum tern_status status, const char *words)
{
    assert_kind(reply, FRAME_ERROR);
    assert_int_equal(reply.frame.status, status);
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%.*s", (int)reply.frame.body_bytes, reply.payload);
    if (!strstr(sentence, words))
        fail_msg("the sentence does not say '%s': %s", words, sentence);
}

/* Lets time pass in which the members of the mask are heard of and the coordinator looks around. */
static inline bool pass(struct scene *scene, uint64_t ns, unsigned heard)
{
    bool changed = false;
    do {
        const uint64_t step_ns = ns < DEADLINE / 4 ? ns : DEADLINE / 4;
        scene->now_ns += step_ns;
        ns -= step_ns;
        for (uint32_t i = 0; i < MAX_NODES; i++)
            if (heard >> i & 1)
                group_heard(scene->group, i, scene->now_ns);
        changed |= group_tick(scene->group, scene->now_ns);
    } while (ns > 0);
    return changed;
}

/* Node `dead` of n has died. */
static inline void join_and_die(struct scene *scene, uint32_t n_nodes, uint32_t dead)
{
    join_all(scene, n_nodes);
    assert_false(pass(scene, DEADLINE - 1, ~(1u << dead)));
    assert_true(pass(scene, 1, ~(1u << dead)));
}

static inline uint64_t get_le(const char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | (uint8_t)at[i];
    return value;
}

static inline void assert_roster(struct reply reply, uint32_t n_nodes)
{
    assert_kind(reply, FRAME_ROSTER);
    assert_int_equal(reply.frame.fields.roster.epoch, EPOCH);
    assert_int_equal(reply.frame.fields.roster.n_shards, SHARDS);
    const char *at = reply.payload;
    for (uint32_t i = 0; i < n_nodes; i++) {
        char address[32];
        size_t bytes = (size_t)snprintf(address, sizeof address, "10.0.0.%u:%u", i, 7000 + i);
        assert_int_equal(get_le(at, 8), 100 + i);
        assert_int_equal(get_le(at + 8, 8), 0);
        assert_int_equal(get_le(at + 16, 2), bytes);
        assert_memory_equal(at + 18, address, bytes);
        at += 18 + bytes;
    }
    assert_ptr_equal(at, reply.payload + reply.frame.body_bytes);
}

#endif
