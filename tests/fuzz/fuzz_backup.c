/*
 * Whatever a peer sends as a batch, the node with the backup refuses it or keeps it: nothing is read or written out of place,
 * and when it takes over it has no row but those of batches it kept.
 *
 * The input is a byte that chooses the index, and a list of steps at node 1 of three.
 */
#include "fuzz/steps.h"

#include "core/service.h"
#include "core/technique.h"

enum { NUMBER = 5, HOME = 0, BACKUP = 1 };

struct site {
    struct core core;
    struct view *view;
    struct peers peers;
    struct service service;
    struct policy policy;
    struct core_table table;
    bool has_kept; /* a batch was kept */
};

static uint64_t now_ns(void *driver)
{
    (void)driver;
    return 1;
}

static const struct io no_io = {.now_ns = now_ns};

static void site_open(struct site *site, bool sparse)
{
    struct tern_table_options options = table_options(sparse);
    options.policy = "static";
    options.backups = 1;
    options.updater = tern_updater_adagrad(0.1, 0);
    options.type = TERN_F32;
    *site = (struct site){.core = {.node = BACKUP, .n_shards = 1, .incarnation = BACKUP + 1}};
    site->core.view = site->view = view_new(1, FUZZ_NODES, NULL);
    require(site->view);
    require(peers_init(&site->peers, site->core.view, 1000) == TERN_OK);
    for (uint32_t i = 0; i < FUZZ_NODES; i++)
        site->peers.incarnations[i] = i + 1;
    require(service_init(&site->service, &site->core, 0, &site->peers, NULL, &no_io, site) ==
            TERN_OK);
    require(policy_find("static", &site->policy));
    struct core_table *table = &site->table;
    table->policy = &site->policy;
    table->number = NUMBER;
    table->backup = backup_new(&site->core, &options, NULL);
    require(table->backup);
    const struct store_home home =
        technique_home(&site->core, &site->policy, &options, NULL, table->backup);
    require(store_init(&table->store, "fuzz", &options, &home) == TERN_OK);
    const struct technique_setup setup = {.name = "fuzz", .options = &options};
    require(technique_open(&site->core, table, &setup));
    site->core.tables[NUMBER] = table;
}

static void site_close(struct site *site)
{
    technique_close(&site->table);
    store_fini(&site->table.store);
    backup_free(site->table.backup);
    service_fini(&site->service);
    peers_fini(&site->peers);
    view_free(site->view);
}

/* ---- Steps --------------------------------------------------------------------------------------- */

/* The next part of a batch; `begins` says that it is the first. */
static void take(struct site *site, uint32_t from, bool begins, bool is_last, const uint8_t *bytes,
                 size_t n)
{
    struct backup *backup = &site->service.backup;
    size_t n_staged = 0;
    for (int i = 0; !begins && i < BACKUP_MAX_PEERS; i++)
        n_staged += backup->staged[i].from == from ? buffer_size(&backup->staged[i].bytes) : 0;
    const struct frame frame = {
        .kind = FRAME_BATCH, .body_bytes = (uint32_t)n, .fields.batch = {n_staged, is_last}};
    const bool may_send = view_is_backup(site->view, from, TERN_MAX_BACKUPS, BACKUP);
    const enum served served = backup_take(backup, from, &frame, bytes);
    require(may_send || served == REFUSED);
    site->has_kept |= served == SERVED && is_last;
}

/* Another view, as bytes: whatever it is, this node goes on. */
static void change(struct site *site, const uint8_t *bytes, size_t n)
{
    struct service *services[] = {&site->service};
    struct view *next = view_read(site->view, bytes, n);
    if (!next)
        return;
    const uint64_t n_rows = store_rows(&site->table.store);
    backup_change_view(&site->core, services, 1, next);
    site->view = next;
    require(site->has_kept || store_rows(&site->table.store) == n_rows);
}

/* What this node tells its own backups, which answer something. */
static void tell(struct site *site, const uint8_t *bytes, size_t n)
{
    struct slice payload;
    uint32_t peer;
    uint64_t begin;
    bool is_last;
    if (backup_next(&site->service.backup, &peer, &payload, &begin, &is_last))
        (void)backup_confirm(&site->service.backup, bytes, n);
}

static void push(struct site *site, const uint8_t *bytes, size_t n)
{
    const float update[FUZZ_LENGTH] = {1, -1};
    uint64_t keys[FUZZ_MOST];
    struct store *store = &site->table.store;
    n = keys_in(bytes, n, keys);
    for (size_t i = 0; i < n; i++)
        if (store_is_home(store, keys[i]))
            require(store_create(store, keys[i]) == TERN_OK &&
                    store_push_one(store, keys[i], update));
}

static void step(struct site *site, unsigned what, const uint8_t *bytes, size_t n)
{
    if (what < 4)
        take(site, HOME, what & 1, what & 2, bytes, n);
    else if (what == 4)
        take(site, 2, true, true, bytes, n);
    else if (what == 5)
        change(site, bytes, n);
    else if (what == 6)
        tell(site, bytes, n);
    else
        push(site, bytes, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct site site;
    site_open(&site, data[0] & 1);
    take_steps(&site, data + 1, size - 1, step);
    site_close(&site);
    return 0;
}
