/*
 * The all-reduce that keeps a table alike of which every node has every key: after enough rounds all have the sum of all
 * that was pushed, to the bit, for any number of nodes and in whatever order messages come; and parts that make no sense
 * are refused.
 */
#include "core/doubling.h" /* before cmocka, whose macro fail() would hide the function */
#include "wire/section.h"

#include "base/rand.h"
#include "support/check.h"
#include "support/view.h"

enum { MAX_NODES = 9, N_KEYS = 100, LENGTH = 3, LETTERS = 64, STEPS = 300 };

struct member {
    struct core core;
    struct policy policy;
    struct store store;
    struct doubling *doubling;
    bool is_asking[MAX_NODES]; /* a part is under way to that node */
};

/* A part on its way. */
struct message {
    uint32_t from, to;
    struct frame frame;
    struct buffer body;
};

struct cluster {
    struct member members[MAX_NODES];
    uint32_t n;
    struct message messages[LETTERS];
    size_t n_letters;
    uint64_t n_random;
};

static uint64_t below(struct cluster *cluster, uint64_t n)
{
    return rand_below(rand_at(7, cluster->n_random++), n);
}

static bool is_at_home(const void *context, uint64_t key)
{
    const struct core *core = context;
    return ring_home(core->view, key) == core->node;
}

static struct cluster *cluster_new(uint32_t n, enum tern_index index, enum tern_type type)
{
    struct cluster *cluster = array_of(1, sizeof *cluster);
    cluster->n = n;
    for (uint32_t i = 0; i < n; i++) {
        struct member *member = &cluster->members[i];
        struct tern_table_options options =
            shape(index, type, index == TERN_DENSE ? N_KEYS : 0, LENGTH);
        member->core = (struct core){.node = i, .view = view_of(n)};
        assert_true(policy_find("replicate-doubling", &member->policy));
        struct store_home home = {.rows_everywhere = true,
                                  .has = is_at_home,
                                  .context = &member->core,
                                  .end = options.n_keys,
                                  .main_begin = range_begin(member->core.view, i, options.n_keys),
                                  .main_end = range_end(member->core.view, i, options.n_keys)};
        ok(store_init(&member->store, "rows", &options, &home));
        assert_true(doubling_is_for(&member->core, &member->store, &member->policy));
        member->doubling = doubling_new(&member->core, &member->store);
        assert_non_null(member->doubling);
    }
    return cluster;
}

static void cluster_free(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->n; i++) {
        struct member *member = &cluster->members[i];
        doubling_free(member->doubling);
        store_fini(&member->store);
    }
    for (size_t i = 0; i < LETTERS; i++)
        buffer_free(&cluster->messages[i].body);
    free(cluster);
}

/* Goes on at a node, and sends what it has for another one. */
static void go_on(struct cluster *cluster, uint32_t from)
{
    struct member *member = &cluster->members[from];
    uint32_t to;
    ok(doubling_go_on(member->doubling));
    while (doubling_has_request(member->doubling, &to) && !member->is_asking[to]) {
        assert_true(cluster->n_letters < LETTERS);
        struct message *message = &cluster->messages[cluster->n_letters++];
        message->from = from;
        message->to = to;
        message->frame = (struct frame){.kind = FRAME_ROUND, .epoch = 1};
        ok(doubling_request(member->doubling, &message->body, &message->frame.fields.round.number,
                            &message->frame.fields.round.step));
        message->frame.body_bytes = (uint32_t)buffer_size(&message->body);
        member->is_asking[to] = true;
        ok(doubling_go_on(member->doubling));
    }
}

/* Has one of the messages arrive, any of them. */
static void deliver(struct cluster *cluster)
{
    size_t i = below(cluster, cluster->n_letters);
    struct message *message = &cluster->messages[i];
    struct doubling *doubling = cluster->members[message->to].doubling;
    struct buffer out = {0};
    ok(doubling_serve(doubling, message->from, &message->frame, buffer_head(&message->body), &out));
    /* It comes once: the server sees to that. */
    refused(
        doubling_serve(doubling, message->from, &message->frame, buffer_head(&message->body), &out),
        TERN_INVALID, "makes no sense");
    buffer_free(&out);
    cluster->members[message->from].is_asking[message->to] = false;
    struct message last = cluster->messages[--cluster->n_letters];
    cluster->messages[cluster->n_letters] = *message;
    *message = last;
}

static void settle(struct cluster *cluster)
{
    for (bool is_busy = true; is_busy;) {
        is_busy = false;
        for (uint32_t i = 0; i < cluster->n; i++) {
            go_on(cluster, i);
            is_busy |= doubling_is_busy(cluster->members[i].doubling);
        }
        while (cluster->n_letters) {
            deliver(cluster);
            go_on(cluster, (uint32_t)below(cluster, cluster->n));
        }
    }
}

/* All push while the rounds go on. */
static void push_all(struct cluster *cluster, int64_t sums[N_KEYS])
{
    for (int step = 0; step < STEPS; step++) {
        uint32_t node = (uint32_t)below(cluster, cluster->n);
        struct store *store = &cluster->members[node].store;
        uint64_t key = below(cluster, N_KEYS);
        int64_t add = 1 + (int64_t)below(cluster, 5);
        int64_t integers[LENGTH] = {add, -add, 2 * add};
        float floats[LENGTH] = {(float)add * 0.1f, -0.3f, 1e6f};
        sums[key] += add;
        ok(store_create(store, key));
        assert_true(
            store_push_one(store, key, store->type == TERN_I64 ? (void *)integers : floats));
        if (below(cluster, 4) == 0)
            go_on(cluster, node);
        if (cluster->n_letters && below(cluster, 2))
            deliver(cluster);
    }
}

static void all_have_the_sum(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= MAX_NODES; n++)
        for (int kind = 0; kind < 4; kind++) {
            enum tern_type type = kind % 2 ? TERN_I64 : TERN_F32;
            struct cluster *cluster = cluster_new(n, kind / 2 ? TERN_SPARSE : TERN_DENSE, type);
            int64_t sums[N_KEYS] = {0};
            /* With room for a few rows there are many rounds. */
            for (uint32_t i = 0; kind == 1 && i < n; i++)
                doubling_limit(cluster->members[i].doubling, 100);
            push_all(cluster, sums);
            settle(cluster);
            for (uint64_t key = 0; key < N_KEYS; key++) {
                char first[LENGTH * sizeof(int64_t)] = {0}, value[LENGTH * sizeof(int64_t)] = {0};
                bool has = store_pull_one(&cluster->members[0].store, key, first);
                assert_int_equal(has, sums[key] != 0);
                for (uint32_t i = 1; i < n; i++) {
                    assert_int_equal(store_pull_one(&cluster->members[i].store, key, value), has);
                    assert_memory_equal(value, first, sizeof value);
                }
                if (type == TERN_I64)
                    assert_int_equal(((const int64_t *)first)[0], sums[key]);
            }
            cluster_free(cluster);
        }
}

/* Nobody sends anything while nothing changes. */
static void idle_nodes_say_nothing(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(5, TERN_DENSE, TERN_I64);
    for (uint32_t i = 0; i < cluster->n; i++)
        go_on(cluster, i);
    assert_int_equal(cluster->n_letters, 0);
    int64_t sums[N_KEYS] = {0};
    push_all(cluster, sums);
    settle(cluster);
    for (uint32_t i = 0; i < cluster->n; i++) {
        go_on(cluster, i);
        assert_false(doubling_is_busy(cluster->members[i].doubling));
    }
    assert_int_equal(cluster->n_letters, 0);
    cluster_free(cluster);
}

static void parts_without_sense_are_refused(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(4, TERN_DENSE, TERN_I64);
    struct doubling *doubling = cluster->members[0].doubling;
    enum { ITEM = 8 + LENGTH * sizeof(int64_t) };
    uint64_t body[2 + 2 * ITEM / 8] = {0};
    uint8_t *bytes = (uint8_t *)body;
    section_write(bytes, SECTION_DELTAS, 2, ITEM);
    section_put(bytes + SECTION_HEADER_BYTES, 5);
    section_put(bytes + SECTION_HEADER_BYTES + ITEM, 6);
    const struct frame good = {
        .kind = FRAME_ROUND, .fields.round = {1, 1}, .body_bytes = SECTION_HEADER_BYTES + 2 * ITEM};
    struct buffer out = {0};
    struct frame frame = good;
    frame.fields.round.number = 2; /* of a round that cannot be */
    refused(doubling_serve(doubling, 1, &frame, bytes, &out), TERN_INVALID, "round 2");
    frame.fields.round.number = 0;
    refused(doubling_serve(doubling, 1, &frame, bytes, &out), TERN_INVALID, "no sense");
    frame = good;
    frame.fields.round.step = 99; /* of no step */
    refused(doubling_serve(doubling, 1, &frame, bytes, &out), TERN_INVALID, "no sense");
    refused(doubling_serve(doubling, 2, &good, bytes, &out), TERN_INVALID, "no sense");
    refused(doubling_serve(doubling, 0, &good, bytes, &out), TERN_INVALID, "no sense");
    frame = good;
    frame.body_bytes -= 8; /* cut off */
    refused(doubling_serve(doubling, 1, &frame, bytes, &out), TERN_INVALID, "no sense");
    section_put(bytes + SECTION_HEADER_BYTES, 6); /* keys that are not in order, or outside */
    refused(doubling_serve(doubling, 1, &good, bytes, &out), TERN_INVALID, "no sense");
    section_put(bytes + SECTION_HEADER_BYTES + ITEM, N_KEYS);
    refused(doubling_serve(doubling, 1, &good, bytes, &out), TERN_INVALID, "no sense");
    section_put(bytes + SECTION_HEADER_BYTES + ITEM, 7);
    section_write(bytes, SECTION_ENDS, 2, ITEM);
    refused(doubling_serve(doubling, 1, &good, bytes, &out), TERN_INVALID, "no sense");
    section_write(bytes, SECTION_DELTAS, 2, ITEM);
    ok(doubling_serve(doubling, 1, &good, bytes, &out));
    /* Who waits may ask whether the table is still open. */
    frame = (struct frame){.kind = FRAME_ROUND, .fields.round = {1, DOUBLING_PROBE}};
    ok(doubling_serve(doubling, 2, &frame, NULL, &out));
    doubling_forget_peer(doubling);
    refused(doubling_serve(doubling, 2, &frame, NULL, &out), TERN_CLOSED,
            "has closed table 'rows'");
    assert_false(doubling_is_busy(doubling));
    buffer_free(&out);
    cluster_free(cluster);
}

/* With an updater there must be an owner, and few nodes have few messages anyway. */
static void it_is_for_many_nodes_without_updater(void **state)
{
    (void)state;
    struct store store = {.value_bytes = 16};
    struct core few = {.view = view_of(4)}, many = {.view = view_of(64)};
    struct policy policy;
    assert_true(policy_find("replicate", &policy));
    assert_false(doubling_is_for(&few, &store, &policy));
    assert_true(doubling_is_for(&many, &store, &policy));
    store.value_bytes = 1 << 20; /* of all nodes' rows not one each would fit */
    assert_false(doubling_is_for(&many, &store, &policy));
    store.value_bytes = 16;
    assert_true(policy_find("replicate-owners", &policy));
    assert_false(doubling_is_for(&many, &store, &policy));
    assert_true(policy_find("replicate-doubling", &policy));
    assert_true(doubling_is_for(&few, &store, &policy));
    store.updater = tern_updater_sgd(0.1);
    assert_false(doubling_is_for(&few, &store, &policy));
    assert_true(policy_find("adaptive", &policy));
    assert_false(doubling_is_for(&many, &store, &policy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_have_the_sum),
        cmocka_unit_test(idle_nodes_say_nothing),
        cmocka_unit_test(parts_without_sense_are_refused),
        cmocka_unit_test(it_is_for_many_nodes_without_updater),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
