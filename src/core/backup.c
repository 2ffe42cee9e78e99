/*
 * backup - see backup.h. This file makes batches; backup_take.c takes them, and takes over.
 *
 * The payload of a batch, cut into frames of BATCH_FRAME_BYTES:
 *
 *     u32 count of sections, then each:   u16 table, u16 0, u32 count of rows, u32 bytes of a row
 *                                         the rows: u64 key, value, updater state, and u64 count of updates if the
 *                                         table counts them (counting.h)
 *     u32 count of records, then each:    u32 node, u32 arc, u64 incarnation, u64 lane, u64 executed, u32 count of void numbers
 *                                         u64 void numbers (server.h)
 *     and, for a node that is to have copies of all rows of some arcs, some of these rows:
 *     u32 count of sections, then each as above
 *     u32 count of arcs that are complete now, u32 each
 */
#include "core/backup_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/counting.h"
#include "core/defect.h"
#include "core/technique.h"
#include "store/rows.h"
#include "wire/bytes.h"

enum { PIECE_BYTES = 512 << 10 };

size_t backup_row_bytes(const struct core_table *table)
{
    const struct store *store = &table->store;
    const size_t count_bytes = table->technique->counting ? sizeof(uint64_t) : 0;
    return sizeof(uint64_t) + store->value_bytes + rows_state_bytes(store) + count_bytes;
}

uint32_t backup_arc(const struct table_backup *table, uint64_t key)
{
    if (table->placed)
        return placed_home(table->placed, key);
    return table->index == TERN_DENSE ? range_home(table->core->view, key, table->n_keys)
                                      : ring_home(table->core->view, key);
}

/* ---- Beginning and end -------------------------------------------------------------------------- */

bool backup_init(struct backup *backup, struct service *service)
{
    const uint32_t n = view_capacity(service->server.core->view);
    *backup = (struct backup){.service = service,
                              .is_formed = true,
                              .piece_bytes = PIECE_BYTES,
                              .lacks = calloc(n, sizeof *backup->lacks),
                              .copies = calloc(n, sizeof *backup->copies)};
    service->server.core->backups[service->server.shard] = backup;
    return backup->lacks && backup->copies;
}

void backup_fini(struct backup *backup)
{
    buffer_free(&backup->batch);
    for (int i = 0; i < BACKUP_MAX_PEERS; i++)
        buffer_free(&backup->staged[i].bytes);
    records_fini(&backup->records);
    free(backup->lacks);
    free(backup->copies);
}

struct kept_rows *backup_need_kept(struct table_backup *table, uint32_t shard, uint32_t arc)
{
    enum { FEW_SHARDS = 4 }; /* with more the index by key is larger than a map */
    const struct core *core = table->core;
    struct kept_shape shape = {0};
    if (table->index == TERN_DENSE && !table->placed && core_shards(core) <= FEW_SHARDS) {
        shape.first = range_begin(core->view, arc, table->n_keys);
        shape.n_direct = range_end(core->view, arc, table->n_keys) - shape.first;
    }
    return kept_need(&table->shards[shard].kept, arc, &shape);
}

/* In the first view nothing can have been answered for a table before its backups had opened it: the copies begin complete. */
static bool begin_complete(struct table_backup *table, uint32_t n_backups)
{
    const struct core *core = table->core;
    bool has_memory = true;
    for (uint32_t arc = 0; !core->view->before && arc < view_capacity(core->view); arc++) {
        if (!view_is_backup(core->view, arc, n_backups, core->node))
            continue;
        for (uint32_t i = 0; has_memory && i < core_shards(core); i++) {
            struct kept_rows *kept = backup_need_kept(table, i, arc);
            has_memory = kept;
            if (kept)
                kept->is_complete = true;
        }
    }
    return has_memory;
}

struct table_backup *backup_new(struct core *core, const struct tern_table_options *options,
                                const struct placed *placed)
{
    struct table_backup *table = calloc(1, sizeof *table);
    atomic_bool *is_lost = calloc(view_capacity(core->view), sizeof *is_lost);
    if (!table || !is_lost) {
        free(table);
        free(is_lost);
        return NULL;
    }
    *table = (struct table_backup){.core = core,
                                   .index = options->index,
                                   .n_keys = options->n_keys,
                                   .placed = placed,
                                   .is_lost = is_lost};
    atomic_store_explicit(&core->n_backups, options->backups, memory_order_relaxed);
    if (begin_complete(table, options->backups))
        return table;
    backup_free(table);
    return NULL;
}

void backup_free(struct table_backup *table)
{
    if (!table)
        return;
    for (uint32_t i = 0; i < STORE_MAX_SHARDS; i++) {
        while (table->shards[i].kept)
            backup_drop_kept(table, i, table->shards[i].kept->arc);
        buffer_free(&table->shards[i].urgent);
    }
    free(table->is_lost);
    free(table);
}

bool backup_has(const void *context, uint64_t key)
{
    const struct table_backup *table = context;
    const uint32_t arc = backup_arc(table, key);
    return view_home(table->core->view, arc) == table->core->node &&
           !atomic_load_explicit(&table->is_lost[arc], memory_order_relaxed);
}

enum tern_status backup_check_lost(const struct core_table *table, const uint64_t *keys, size_t n)
{
    const struct table_backup *backup = table->backup;
    if (!backup || !atomic_load_explicit(&backup->any_lost, memory_order_relaxed))
        return TERN_OK;
    for (size_t i = 0; i < n; i++) {
        const uint32_t arc = backup_arc(backup, keys[i]);
        if (!atomic_load_explicit(&backup->is_lost[arc], memory_order_relaxed))
            continue;
        const struct view *view = backup->core->view;
        const uint64_t n_lost =
            backup->index == TERN_DENSE && !backup->placed
                ? range_end(view, arc, backup->n_keys) - range_begin(view, arc, backup->n_keys)
                : 0;
        if (n_lost)
            return fail(TERN_PEER,
                        "%" PRIu64 " keys of table '%s' are lost, key %" PRIu64
                        " among them: those of node %" PRIu32
                        ", which was given up, as were the nodes with their backups",
                        n_lost, table->store.name, keys[i], arc);
        return fail(TERN_PEER,
                    "key %" PRIu64 " of table '%s' is lost, as all that were at node %" PRIu32
                    ", which was given up, as were the nodes with their backups",
                    keys[i], table->store.name, arc);
    }
    return TERN_OK;
}

/* ---- Peers -------------------------------------------------------------------------------------- */

void backup_note(struct backup *backup, struct server_lane *lane)
{
    lane->is_changed = true;
    lane->batch = backup->n_made + 1;
}

/* What is under way goes to the peers that there are now, from its beginning on, without what was copied to others. New peers get
 * all records, and answer of which arcs they have no copies. In the first view they have all. */
void backup_form(struct backup *backup, bool anew)
{
    const struct core *core = backup->service->server.core;
    const uint32_t n_before = backup->n_peers;
    uint32_t before[BACKUP_MAX_PEERS];
    memcpy(before, backup->peers, sizeof before);
    backup->n_wanted = atomic_load_explicit(&core->n_backups, memory_order_relaxed);
    backup->n_peers = view_backups(core->view, core->node, backup->n_wanted, backup->peers);
    if (n_before == backup->n_peers && !anew &&
        !memcmp(before, backup->peers, n_before * sizeof *before))
        return;
    backup->is_copying = backup->is_sending = false;
    backup->copies_to = 0;
    memset(backup->lacks, 0, view_capacity(core->view));
    backup->announces = core->view->before;
    backup->is_formed = !backup->n_peers || !backup->announces;
    backup->at = 0;
    backup->n_sent = 0;
    if (backup->is_under_way)
        backup->batch.end = backup->batch.begin + backup->copy_at;
    size_t at = 0;
    uint64_t id;
    for (struct server_lane *lane; (lane = service_next_lane(backup->service, &at, &id)) != NULL;)
        if (lane->batch)
            backup_note(backup, lane);
}

/* How many backups there are to be is known when the first table is opened. */
static void find_peers(struct backup *backup)
{
    const struct core *core = backup->service->server.core;
    if (backup->n_wanted != atomic_load_explicit(&core->n_backups, memory_order_relaxed))
        backup_form(backup, false);
}

/* ---- What is to be sent ------------------------------------------------------------------------- */

void backup_note_write(struct backup *backup, struct core_table *table, struct server_lane *lane,
                       const uint64_t *keys, size_t n)
{
    backup_note(backup, lane);
    struct buffer *urgent = &table->backup->shards[backup_shard(backup)].urgent;
    if (!buffer_append(urgent, keys, n * sizeof *keys))
        backup->sweeps_all = true;
}

bool backup_is_safe(struct backup *backup, const struct server_lane *lane)
{
    find_peers(backup);
    return !backup->n_peers || lane->batch <= backup->n_confirmed || defect(DEFECT_ANSWERED_UNSAFE);
}

uint64_t backup_hurry(struct backup *backup)
{
    const struct service *service = backup->service;
    if (service->io && service->io->send_batch)
        service->io->send_batch(service->driver);
    return backup->n_made + 1;
}

bool backup_has_confirmed(struct backup *backup, uint64_t batch)
{
    find_peers(backup);
    return !backup->n_peers || batch <= backup->n_confirmed;
}

/* What is marked where the present sweep has been goes with the next one. */
uint64_t backup_last(const struct backup *backup)
{
    const bool has_begun = backup->sweep.table || backup->sweep.slot;
    return backup->n_sweeps + 1 + has_begun;
}

bool backup_is_flushed(struct backup *backup, uint64_t sweep)
{
    find_peers(backup);
    return !backup->n_peers || (backup->n_swept >= sweep && backup->is_formed);
}

uint32_t backup_formed(struct service *const *services, uint32_t n_services)
{
    for (uint32_t i = 0; i < n_services; i++)
        if (!backup_is_flushed(&services[i]->backup, 0))
            return 0;
    return view_epoch(services[0]->server.core->view);
}

/* ---- Making batches ----------------------------------------------------------------------------- */

/* A batch that is made. */
struct maker {
    struct backup *backup;
    struct buffer *out;
    struct core_table *table; /* of the section in hand, */
    struct store *store;      /* and its store */
    size_t left;              /* bytes that a sweep, or a copy, may still add */
    uint32_t n_sections, n_rows;
    size_t section_at;
};

/* Whether the main copy of a key is here, whose entry has `word`. A row may have been made just before its home came here. */
static bool is_main(const struct store *store, uint64_t key, uint64_t word)
{
    return store->home.rows_everywhere ? entry_has_row(word) && store_tracks_main(store, key)
                                       : entry_is_main(word);
}

/* Appends the row in a slot, if there is one and it is of this shard; false when memory runs out. */
static bool add_row(struct maker *maker, uint32_t slot)
{
    struct store *store = maker->store;
    const uint64_t key = store_key_of(store, slot);
    struct entry *entry;
    if (store_shard(store, key) != backup_shard(maker->backup))
        return true;
    const uint64_t word = store_look(store, key, &entry);
    if (!is_main(store, key, word) || entry_slot(word) != slot)
        return true;
    const struct counting *counting = maker->table->technique->counting;
    const size_t n = backup_row_bytes(maker->table);
    uint8_t *to = buffer_reserve(maker->out, n);
    if (!to)
        return false;
    put_u64(to, key);
    char *value = (char *)to + sizeof key;
    if (counting)
        put_u64(to + n - sizeof key,
                counting->copy(maker->table, key, value, value + store->value_bytes));
    else
        (void)rows_copy(store, &key, 1, value, value + store->value_bytes);
    if (defect(DEFECT_STATE_NOT_BACKED))
        memset(value + store->value_bytes, 0, rows_state_bytes(store));
    maker->out->end += n;
    maker->left -= n < maker->left ? n : maker->left;
    maker->n_rows++;
    return true;
}

/* Appends the rows that others have written, and takes their marks: one that has none was appended before. */
static bool add_urgent(struct maker *maker, const struct buffer *urgent)
{
    struct store *store = maker->store;
    struct marks *marks = store_marks_for_backups(store, backup_shard(maker->backup));
    const size_t n = buffer_size(urgent) / sizeof(uint64_t), left = maker->left;
    const uint64_t *keys = (const uint64_t *)(const void *)buffer_head(urgent);
    bool added = true;
    for (size_t i = 0; added && i < n; i++) {
        struct entry *entry;
        const uint64_t word = store_look(store, keys[i], &entry);
        if (is_main(store, keys[i], word) && marks_drop(marks, entry_slot(word)))
            added = add_row(maker, entry_slot(word));
    }
    maker->left = left;
    return added;
}

/* Appends rows that were marked, from the place of the sweep on. */
static bool add_swept(struct maker *maker)
{
    struct backup *backup = maker->backup;
    struct marks *marks = store_marks_for_backups(maker->store, backup_shard(backup));
    const size_t end = store_mark_words(maker->store);
    size_t word = backup->sweep.slot;
    while (maker->left || backup->sweeps_all) {
        const uint64_t bits = marks_take(marks, &word, end);
        if (!bits) {
            backup->sweep = (struct backup_place){.table = backup->sweep.table + 1};
            return true;
        }
        for (uint64_t left = bits; left; left &= left - 1) {
            if (add_row(maker, (uint32_t)(word * 64) + (uint32_t)__builtin_ctzll(left)))
                continue;
            marks_put(marks, word, left);
            return false;
        }
        backup->sweep.slot = ++word;
    }
    return true;
}

/* Appends rows of the arcs that are copied, from the place of the copy on. */
static bool add_copied(struct maker *maker, const struct table_backup *table)
{
    struct backup *backup = maker->backup;
    const uint64_t end = atomic_load_explicit(&maker->store->next_slot, memory_order_relaxed);
    while (maker->left && backup->copied.slot < end) {
        const uint32_t slot = (uint32_t)backup->copied.slot;
        if (backup->copies[backup_arc(table, store_key_of(maker->store, slot))] &&
            !add_row(maker, slot))
            return false;
        backup->copied.slot++;
    }
    if (backup->copied.slot >= end)
        backup->copied = (struct backup_place){.table = backup->copied.table + 1};
    return true;
}

static bool begin_section(struct maker *maker, struct core_table *table)
{
    maker->table = table;
    maker->store = &table->store;
    maker->section_at = buffer_size(maker->out);
    maker->n_rows = 0;
    if (!buffer_reserve(maker->out, SECTION_BYTES))
        return false;
    maker->out->end += SECTION_BYTES;
    return true;
}

/* An empty section is left out, unless the peers are to open the table. */
static void end_section(struct maker *maker, const struct core_table *table, bool announces)
{
    uint8_t *head = buffer_head(maker->out) + maker->section_at;
    if (!maker->n_rows && !announces) {
        maker->out->end = maker->out->begin + maker->section_at;
        return;
    }
    put_u16(head, table->number);
    put_u16(head + 2, 0);
    put_u32(head + 4, maker->n_rows);
    put_u32(head + 8, (uint32_t)backup_row_bytes(table));
    maker->n_sections++;
}

static bool reserve_count(struct buffer *out, size_t *at)
{
    *at = buffer_size(out);
    if (!buffer_reserve(out, sizeof(uint32_t)))
        return false;
    out->end += sizeof(uint32_t);
    return true;
}

/* Appends what was changed. */
static bool add_changed(struct backup *backup, struct buffer *out)
{
    const uint32_t shard = backup_shard(backup);
    struct maker maker = {.backup = backup, .out = out, .left = backup->piece_bytes};
    size_t count_at;
    bool fits = reserve_count(out, &count_at);
    for (size_t i = 0; fits && i < TERN_MAX_TABLES; i++) {
        struct core_table *table = backup_table(backup->service->server.core, i, shard);
        const bool is_swept = backup->sweep.table == i;
        if (!table && is_swept)
            backup->sweep = (struct backup_place){.table = i + 1};
        if (!table)
            continue;
        fits = begin_section(&maker, table) &&
               add_urgent(&maker, &table->backup->shards[shard].urgent) &&
               (!is_swept || add_swept(&maker));
        if (fits)
            end_section(&maker, table, backup->announces);
    }
    if (fits)
        put_u32(buffer_head(out) + count_at, maker.n_sections);
    return fits;
}

/* Appends rows that are copied, and at their end the arcs that are complete then. */
static bool add_copies(struct backup *backup, struct buffer *out)
{
    const struct core *core = backup->service->server.core;
    struct maker maker = {.backup = backup, .out = out, .left = backup->piece_bytes};
    size_t count_at;
    bool fits = reserve_count(out, &count_at);
    while (fits && maker.left && backup->copied.table < TERN_MAX_TABLES) {
        struct core_table *table = backup_table(core, backup->copied.table, backup_shard(backup));
        if (!table) {
            backup->copied = (struct backup_place){.table = backup->copied.table + 1};
            continue;
        }
        fits = begin_section(&maker, table) && add_copied(&maker, table->backup);
        if (fits)
            end_section(&maker, table, false);
    }
    if (fits)
        put_u32(buffer_head(out) + count_at, maker.n_sections);
    fits = fits && reserve_count(out, &count_at);
    uint32_t n = 0;
    const bool is_over = backup->copied.table == TERN_MAX_TABLES;
    for (uint32_t arc = 0; fits && is_over && arc < view_capacity(core->view); arc++) {
        if (!backup->copies[arc])
            continue;
        uint8_t *to = buffer_reserve(out, sizeof arc);
        fits = to;
        if (fits)
            put_u32(to, arc);
        out->end += fits ? sizeof arc : 0;
        n++;
    }
    if (fits)
        put_u32(buffer_head(out) + count_at, n);
    return fits;
}

static bool add_record(struct buffer *out, const struct backup *backup, struct server_lane *lane,
                       uint64_t id)
{
    uint8_t *to = buffer_reserve(out, RECORD_BYTES + 8 * lane->n_void);
    if (!to)
        return false;
    const uint32_t arc = lane_arc(id, backup_self(backup));
    put_u32(to, lane->node);
    put_u32(to + 4, arc);
    put_u64(to + 8, lane->incarnation);
    put_u64(to + 16, lane_plain(id));
    put_u64(to + 24, lane->executed);
    put_u32(to + 32, (uint32_t)lane->n_void);
    for (size_t i = 0; i < lane->n_void; i++)
        put_u64(to + RECORD_BYTES + 8 * i, lane->void_numbers[i]);
    out->end += RECORD_BYTES + 8 * lane->n_void;
    lane->is_changed = false;
    return true;
}

static bool add_records(struct backup *backup, struct buffer *out, uint32_t *n)
{
    size_t at = 0, count_at;
    uint64_t id;
    *n = 0;
    if (!reserve_count(out, &count_at))
        return false;
    for (struct server_lane *lane; (lane = service_next_lane(backup->service, &at, &id)) != NULL;) {
        if (!lane->is_changed || defect(DEFECT_RECORD_FORGOTTEN))
            continue;
        if (!add_record(out, backup, lane, id))
            return false;
        ++*n;
    }
    put_u32(buffer_head(out) + count_at, *n);
    return true;
}

/* Without memory for a batch there is none: all is marked again. */
static void unmake(struct backup *backup)
{
    const struct core *core = backup->service->server.core;
    const uint32_t shard = backup_shard(backup);
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table = backup_table(core, i, shard);
        const uint64_t end =
            table ? atomic_load_explicit(&table->store.next_slot, memory_order_relaxed) : 0;
        for (uint32_t slot = 0; slot < end; slot++)
            if (store_shard(&table->store, store_key_of(&table->store, slot)) == shard)
                store_mark(&table->store, slot);
    }
    backup->sweep = backup->copied = (struct backup_place){0};
    size_t at = 0;
    uint64_t id;
    for (struct server_lane *lane; (lane = service_next_lane(backup->service, &at, &id)) != NULL;)
        lane->is_changed = lane->batch != 0;
}

static void forget_urgent(const struct backup *backup)
{
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table =
            backup_table(backup->service->server.core, i, backup_shard(backup));
        if (table) {
            struct buffer *urgent = &table->backup->shards[backup_shard(backup)].urgent;
            urgent->begin = urgent->end = 0;
        }
    }
}

/* Begins to copy what some peers lack. */
static void begin_copy(struct backup *backup)
{
    backup->copies_to = 0;
    for (uint32_t arc = 0; arc < view_capacity(backup->service->server.core->view); arc++) {
        backup->copies[arc] = backup->lacks[arc];
        backup->copies_to |= backup->lacks[arc];
    }
    backup->is_copying = backup->copies_to && !defect(DEFECT_COPY_SKIPPED);
    backup->copied = (struct backup_place){0};
}

/* Makes the next batch; false if there is nothing to tell, or when memory runs out. */
static bool make_batch(struct backup *backup)
{
    struct buffer *out = &backup->batch;
    uint32_t n_records;
    out->begin = out->end = 0;
    if (!backup->is_copying)
        begin_copy(backup);
    if (backup->sweeps_all)
        backup->sweep = (struct backup_place){0};
    bool fits = add_changed(backup, out) && add_records(backup, out, &n_records);
    backup->copy_at = buffer_size(out);
    if (fits && backup->is_copying)
        fits = add_copies(backup, out);
    if (!fits) {
        unmake(backup);
        return false;
    }
    forget_urgent(backup);
    backup->n_made++;
    backup->sweeps_all = false;
    if (backup->sweep.table == TERN_MAX_TABLES) {
        backup->sweep = (struct backup_place){0};
        backup->n_sweeps++;
    }
    if (get_u32(buffer_head(out)) || n_records || backup->is_copying)
        return true;
    backup->n_confirmed = backup->n_made;
    backup->n_swept = backup->n_sweeps;
    return false;
}

/* Lets rounds tell what counts now. */
static void tell_confirmed(struct backup *backup)
{
    const struct service *service = backup->service;
    bool has_news = false;
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table = backup_table(service->server.core, i, backup_shard(backup));
        if (table && table->technique->confirmed)
            has_news |= table->technique->confirmed(table, backup_shard(backup));
    }
    if (has_news)
        service->io->hurry(service->driver);
}

static size_t bytes_for_peer(const struct backup *backup)
{
    const bool is_copied_to = backup->copies_to >> backup->at & 1;
    return is_copied_to ? buffer_size(&backup->batch) : backup->copy_at;
}

bool backup_next(struct backup *backup, uint32_t *peer, struct slice *payload, uint64_t *begin,
                 bool *is_last)
{
    find_peers(backup);
    if (!backup->n_peers)
        return false;
    if (!backup->is_under_way) {
        backup->is_under_way = make_batch(backup);
        backup->at = 0;
        backup->n_sent = 0;
    }
    if (!backup->is_under_way) {
        tell_confirmed(backup);
        return false;
    }
    const size_t left = bytes_for_peer(backup) - backup->n_sent;
    *peer = backup->peers[backup->at];
    *begin = backup->n_sent;
    payload->bytes = buffer_head(&backup->batch) + backup->n_sent;
    payload->n = left < BATCH_FRAME_BYTES ? left : BATCH_FRAME_BYTES;
    *is_last = payload->n == left;
    backup->is_sending = true;
    return true;
}

/* Notes of which arcs the peer has no complete copy. Those that are lost cannot be copied. */
static void note_lacks(struct backup *backup, const uint8_t *arcs, size_t n)
{
    const struct core *core = backup->service->server.core;
    const uint8_t bit = (uint8_t)(1 << backup->at);
    for (uint32_t arc = 0; arc < view_capacity(core->view); arc++)
        backup->lacks[arc] &= (uint8_t)~bit;
    for (size_t i = 0; i + sizeof(uint32_t) <= n; i += sizeof(uint32_t)) {
        const uint32_t arc = get_u32(arcs + i);
        bool is_lost = !view_has(core->view, arc);
        for (size_t t = 0; !is_lost && t < TERN_MAX_TABLES; t++) {
            const struct core_table *table = backup_table(core, t, backup_shard(backup));
            is_lost =
                table && atomic_load_explicit(&table->backup->is_lost[arc], memory_order_relaxed);
        }
        if (!is_lost)
            backup->lacks[arc] |= bit;
    }
}

/* All peers have the batch. */
static void end_batch(struct backup *backup)
{
    bool lacks_some = false;
    const struct view *view = backup->service->server.core->view;
    for (uint32_t arc = 0; !lacks_some && arc < view_capacity(view); arc++)
        lacks_some = backup->lacks[arc];
    if (backup->copied.table == TERN_MAX_TABLES)
        backup->is_copying = false;
    backup->is_formed = !lacks_some;
    backup->announces = false;
    backup->is_under_way = false;
    backup->n_confirmed = backup->n_made;
    backup->n_swept = backup->n_sweeps;
    if (buffer_size(&backup->batch) > KEEP_BYTES)
        buffer_free(&backup->batch);
}

bool backup_confirm(struct backup *backup, const uint8_t *answer, size_t n)
{
    if (!backup->is_sending)
        return false; /* it went to peers of an earlier view */
    backup->is_sending = false;
    const size_t all = bytes_for_peer(backup), left = all - backup->n_sent;
    const size_t n_confirmed = left < BATCH_FRAME_BYTES ? left : BATCH_FRAME_BYTES;
    backup->n_sent += n_confirmed;
    backup->n_bytes += n_confirmed;
    if (backup->n_sent < all)
        return false;
    note_lacks(backup, answer, n);
    backup->n_sent = 0;
    if (++backup->at < backup->n_peers && !defect(DEFECT_CONFIRMED_BY_FIRST))
        return false;
    end_batch(backup);
    tell_confirmed(backup);
    return true;
}
