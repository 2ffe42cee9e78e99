/*
 * Whatever a peer sends, as a request or as an answer, a manager refuses it or deals with it: nothing is
 * read or written out of place, no slot has two uses, and a refused request changes nothing.
 *
 * The input is a byte that chooses policy and index, and a list of steps at node 0 of three.
 */
#include "fuzz/steps.h"

#include "core/manager_internal.h"
#include "core/policy.h"

struct site {
    struct core core;
    struct store store;
    struct policy policy;
    struct manager *manager;
};

static void site_open(struct site *site, const char *policy, bool sparse)
{
    const struct tern_table_options options = table_options(sparse);
    const struct store_home home = {.end = range_end(view_of(FUZZ_NODES), 0, options.n_keys),
                                    .has = is_home_of,
                                    .context = &site->core,
                                    .rows_move = true};
    site->core = (struct core){.view = view_of(FUZZ_NODES)};
    require(store_init(&site->store, "fuzz", &options, &home) == TERN_OK);
    require(policy_find(policy, &site->policy));
    site->manager = manager_new(&site->core, &site->store, &site->policy, 0, NULL);
    require(site->manager);
}

static void site_close(struct site *site)
{
    manager_free(site->manager);
    store_fini(&site->store);
}

/* ---- What must hold ------------------------------------------------------------------------------ */

static void use_slot(const struct site *site, uint8_t *used, uint64_t slot)
{
    require(slot < site->store.next_slot && slot < 4096);
    require(!(used[slot / 8] >> slot % 8 & 1));
    used[slot / 8] |= (uint8_t)(1 << slot % 8);
}

/* Each slot is that of one row, or set aside, or free. */
static void check_slots(const struct site *site)
{
    const struct manager *manager = site->manager;
    uint8_t used[4096 / 8] = {0};
    for (uint64_t key = 0; key < FUZZ_KEYS; key++) {
        struct entry *entry;
        uint64_t word = store_look(&site->store, key, &entry);
        require(!(word & ENTRY_LATCHED));
        if (entry_in_slabs(word))
            use_slot(site, used, entry_slot(word));
    }
    for (size_t i = 0; i < manager->spares.n; i++)
        use_slot(site, used, manager->spares.keys[i]);
    for (size_t i = 0; i < manager->pool.n; i++)
        use_slot(site, used, manager->pool.keys[i]);
    for (uint32_t next = site->store.counts->first_free; next;) {
        use_slot(site, used, next - 1);
        memcpy(&next, slabs_at(&site->store.rows, next - 1), sizeof next);
    }
}

/* A copy of what a request can change, to compare. */
struct image {
    uint64_t words[FUZZ_KEYS];
    int64_t values[FUZZ_KEYS][FUZZ_LENGTH];
    uint32_t n_shares;
};

static void take_image(const struct site *site, void *to)
{
    struct image *image = to;
    memset(image, 0, sizeof *image);
    for (uint64_t key = 0; key < FUZZ_KEYS; key++) {
        struct entry *entry;
        image->words[key] = store_look(&site->store, key, &entry);
        store_pull_one(&site->store, key, image->values[key]);
    }
    image->n_shares = site->manager->n_shares;
}

/* ---- Steps --------------------------------------------------------------------------------------- */

static enum tern_status serve(struct site *site, uint32_t from, const struct frame *request,
                              const uint8_t *body, struct buffer *out)
{
    return manager_serve(site->manager, from, request, body, out);
}

static const struct serving serving = {serve, take_image, sizeof(struct image)};

/* Asks a peer, which answers with these bytes. */
static void ask(struct site *site, uint32_t peer, const uint8_t *body, size_t bytes)
{
    const struct frame answer = {
        .kind = FRAME_ROUND_REPLY, .number = 1, .body_bytes = (uint32_t)bytes};
    struct buffer sent = {0};
    bool more;
    require(manager_take(site->manager) == TERN_OK);
    if (manager_has_request(site->manager, peer)) {
        require(manager_request(site->manager, peer, &sent) == TERN_OK);
        (void)manager_answer(site->manager, peer, &sent, &answer, body, &more);
    }
    buffer_free(&sent);
    manager_round_ended(site->manager);
}

static void act(struct site *site, unsigned what, const uint8_t *bytes, size_t n)
{
    uint64_t keys[FUZZ_MOST];
    const int64_t update[FUZZ_LENGTH] = {1, -1};
    n = keys_in(bytes, n, keys);
    if (what == 4)
        manager_want(site->manager, keys, n);
    else if (what == 5)
        manager_unwant(site->manager, keys, n);
    else if (what == 6)
        manager_fetch(site->manager, keys, n);
    for (size_t i = 0; what == 7 && i < n; i++)
        store_push_one(&site->store, keys[i], update);
}

static void step(struct site *site, unsigned what, const uint8_t *bytes, size_t n)
{
    if (what < 2)
        check_serving(site, &serving, 1 + what, bytes, n);
    else if (what < 4)
        ask(site, what - 1, bytes, n);
    else
        act(site, what, bytes, n);
    check_slots(site);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const policies[] = {"adaptive", "adaptive-relocate", "adaptive-replicate",
                                           "relocate"};
    if (size < 1)
        return 0;
    struct site site;
    site_open(&site, data[0] & 8 ? "multi" : policies[data[0] % 4], data[0] & 4);
    take_steps(&site, data + 1, size - 1, step);
    site_close(&site);
    return 0;
}
