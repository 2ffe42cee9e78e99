/*
 * Whatever a peer sends as its part of an all-reduce, a table of copies refuses it or deals with it: nothing is read or
 * written out of place, no part changes a value before its round ends, and a refused one changes nothing at all.
 *
 * The input is a byte that chooses the node and the index, and a list of steps at this node of three.
 */
#include "fuzz/steps.h"

#include "core/doubling.h"

struct site {
    struct core core;
    struct store store;
    struct doubling *doubling;
};

static void site_open(struct site *site, uint32_t node, bool sparse)
{
    const struct tern_table_options options = table_options(sparse);
    const struct store_home home = {
        .rows_everywhere = true,
        .end = options.n_keys,
        .main_begin = range_begin(view_of(FUZZ_NODES), node, options.n_keys),
        .main_end = range_end(view_of(FUZZ_NODES), node, options.n_keys),
        .has = is_home_of,
        .context = &site->core};
    *site = (struct site){.core = {.node = node, .view = view_of(FUZZ_NODES)}};
    require(store_init(&site->store, "fuzz", &options, &home) == TERN_OK);
    site->doubling = doubling_new(&site->core, &site->store);
    require(site->doubling);
    doubling_limit(site->doubling, 256);
}

static void site_close(struct site *site)
{
    doubling_free(site->doubling);
    store_fini(&site->store);
}

/* A copy of what a part may change, to compare. */
struct image {
    int64_t values[FUZZ_KEYS][FUZZ_LENGTH];
    uint64_t rounds[2][DOUBLING_STEPS];
    struct doubling_counts counts;
};

static void take_image(const struct site *site, struct image *image)
{
    memset(image, 0, sizeof *image);
    for (uint64_t key = 0; key < FUZZ_KEYS; key++)
        store_pull_one(&site->store, key, image->values[key]);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < DOUBLING_STEPS; k++)
            image->rounds[i][k] = site->doubling->parts[i][k].round;
    image->counts = site->doubling->counts;
}

/* A part whose first two bytes say of which round, counted from the last, and step it is. */
static void serve(struct site *site, uint32_t from, const uint8_t *bytes, size_t n)
{
    if (n < 2)
        return;
    const struct frame request = {.kind = FRAME_ROUND,
                                  .number = 1,
                                  .fields.round = {site->doubling->round + bytes[0] - 1,
                                                   bytes[1] == 255 ? DOUBLING_PROBE : bytes[1]},
                                  .body_bytes = (uint32_t)(n - 2)};
    /* The server aligns what it hands over. */
    uint8_t *body = malloc(n);
    struct buffer out = {0};
    struct image before, after;
    require(body);
    memcpy(body, bytes + 2, n - 2);
    take_image(site, &before);
    const enum tern_status status = doubling_serve(site->doubling, from, &request, body, &out);
    take_image(site, &after);
    require(memcmp(before.values, after.values, sizeof after.values) == 0);
    if (status) {
        require(memcmp(&before, &after, sizeof after) == 0);
        require(buffer_size(&out) == 0);
    } else {
        struct frame answer;
        require(frame_decode(buffer_head(&out), &answer) == TERN_OK);
        require(buffer_size(&out) == FRAME_HEADER_BYTES + answer.body_bytes);
    }
    buffer_free(&out);
    free(body);
}

/* Goes on, and sends what is to be sent. */
static void go_on(struct site *site)
{
    struct buffer body = {0};
    uint64_t round, step;
    uint32_t peer;
    require(doubling_go_on(site->doubling) == TERN_OK);
    if (doubling_has_request(site->doubling, &peer)) {
        require(peer < FUZZ_NODES && peer != site->core.node);
        require(doubling_request(site->doubling, &body, &round, &step) == TERN_OK);
        require(round == site->doubling->round && step == site->doubling->step);
    }
    buffer_free(&body);
}

static void push(struct site *site, const uint8_t *bytes, size_t n)
{
    const int64_t update[FUZZ_LENGTH] = {1, -1};
    uint64_t keys[FUZZ_MOST];
    n = keys_in(bytes, n, keys);
    for (size_t i = 0; i < n; i++)
        require(store_create(&site->store, keys[i]) == TERN_OK &&
                store_push_one(&site->store, keys[i], update));
}

static void step(struct site *site, unsigned what, const uint8_t *bytes, size_t n)
{
    if (what < 3)
        serve(site, what, bytes, n);
    else if (what < 6)
        go_on(site);
    else if (what == 6)
        push(site, bytes, n);
    else if (n % 7 == 6)
        doubling_forget_peer(site->doubling);
    else
        require(doubling_awaited(site->doubling) < FUZZ_NODES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct site site;
    site_open(&site, data[0] % FUZZ_NODES, data[0] & 128);
    take_steps(&site, data + 1, size - 1, step);
    site_close(&site);
    return 0;
}
