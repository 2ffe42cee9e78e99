/*
 * Whatever a peer sends, as a question or as an answer, a table with bounded reads refuses it or deals with it:
 * nothing is read or written out of place, and a refused question changes nothing.
 *
 * The input is a byte that chooses policy and index, and a list of steps at node 0 of three.
 */
#include "fuzz/steps.h"

#include "core/bounded.h"
#include "core/policy.h"

struct site {
    struct core core;
    struct core_table table;
    struct policy policy;
    struct bounded *bounded;
    uint64_t clock; /* of this node's workers */
};

static void site_open(struct site *site, const char *policy, bool sparse)
{
    const struct tern_table_options options = table_options(sparse);
    const struct store_home home = {.rows_everywhere = true,
                                    .end = options.n_keys,
                                    .main_end = range_end(view_of(FUZZ_NODES), 0, options.n_keys),
                                    .has = is_home_of,
                                    .context = &site->core};
    *site = (struct site){.core = {.view = view_of(FUZZ_NODES)}};
    require(store_init(&site->table.store, "fuzz", &options, &home) == TERN_OK);
    require(policy_find(policy, &site->policy));
    site->table.policy = &site->policy;
    site->bounded = bounded_new(&site->core, &site->table);
    require(site->bounded);
    site->bounded->round_bytes = 256;
}

static void site_close(struct site *site)
{
    bounded_free(site->bounded);
    store_fini(&site->table.store);
}

/* ---- What must hold ------------------------------------------------------------------------------ */

/* A copy of what a question can change, to compare. */
struct image {
    int64_t values[FUZZ_KEYS][FUZZ_LENGTH];
    struct standing standing;
    uint64_t highest, valid_to, ended, n_rows;
};

static void take_image(const struct site *site, void *to)
{
    struct image *image = to;
    const struct bounded *bounded = site->bounded;
    memset(image, 0, sizeof *image);
    for (uint64_t key = 0; key < FUZZ_KEYS; key++)
        store_pull_one(&site->table.store, key, image->values[key]);
    memcpy(&image->standing, &bounded->standing, sizeof image->standing);
    image->highest = bounded->highest;
    image->valid_to = atomic_load(&bounded->valid_to);
    image->ended = atomic_load(&bounded->ended);
    image->n_rows = store_rows(&site->table.store);
}

/* ---- Steps --------------------------------------------------------------------------------------- */

static enum tern_status serve(struct site *site, uint32_t from, const struct frame *request,
                              const uint8_t *body, struct buffer *out)
{
    return bounded_serve(site->bounded, from, request, body, out);
}

static const struct serving serving = {serve, take_image, sizeof(struct image)};

/* Asks a peer, which answers with these bytes. */
static void ask(struct site *site, uint32_t peer, const uint8_t *body, size_t bytes)
{
    const struct frame answer = {.kind = FRAME_ROUND_REPLY,
                                 .number = 1,
                                 .fields.round_reply.left = bytes & 1,
                                 .body_bytes = (uint32_t)bytes};
    struct buffer sent = {0};
    if (bounded_has_request(site->bounded, peer)) {
        require(bounded_request(site->bounded, peer, &sent) == TERN_OK);
        (void)bounded_answer(site->bounded, peer, &answer, body);
    }
    buffer_free(&sent);
}

static void push(struct site *site, const uint64_t *keys, size_t n)
{
    const int64_t update[FUZZ_LENGTH] = {1, -1};
    for (size_t i = 0; i < n; i++)
        require(store_create(&site->table.store, keys[i]) == TERN_OK &&
                store_push_one(&site->table.store, keys[i], update));
}

/* Reads what can be read, and wants the rest. */
static void want(struct site *site, const uint64_t *keys, size_t n)
{
    uint32_t stale[FUZZ_MOST], ages[BOUNDED_STEPS] = {0};
    size_t n_stale = bounded_check(site->bounded, site->clock, site->clock, keys, n, stale, ages);
    require(n_stale <= n);
    (void)bounded_want(site->bounded, keys, stale, n_stale);
}

static void act(struct site *site, unsigned what, const uint8_t *bytes, size_t n)
{
    uint64_t keys[FUZZ_MOST];
    n = keys_in(bytes, n, keys);
    if (what == 4) {
        want(site, keys, n);
    } else if (what == 5) {
        push(site, keys, n);
    } else if (what == 6) {
        site->clock += n;
        require(bounded_take(site->bounded,
                             (struct node_clock){.clock = n % 5 ? site->clock : CLOCK_RESTS,
                                                 .highest = site->clock}) == TERN_OK);
    } else if (n % 7 == 6) {
        bounded_forget_peer(site->bounded, 2);
    } else {
        bounded_settle(site->bounded);
        (void)bounded_slowest(site->bounded);
    }
}

static void step(struct site *site, unsigned what, const uint8_t *bytes, size_t n)
{
    if (what < 2)
        check_serving(site, &serving, 1 + what, bytes, n);
    else if (what < 4)
        ask(site, what - 1, bytes, n);
    else
        act(site, what, bytes, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const policies[] = {"bsp", "ssp:3", "essp:1", "vap:2"};
    if (size < 1)
        return 0;
    struct site site;
    site_open(&site, policies[data[0] % 4], data[0] & 4);
    take_steps(&site, data + 1, size - 1, step);
    site_close(&site);
    return 0;
}
