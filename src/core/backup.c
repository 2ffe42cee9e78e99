/*
 * backup - see backup.h.
 *
 * The payload of a batch, cut into frames of BATCH_FRAME_BYTES:
 *
 *     u32 count of sections, then each:   u16 table, u16 flags of the copy: 1 complete, 2 begun anew,
 *                                         u32 count of rows, u32 bytes of a row
 *                                         the rows: u64 key, value, updater state
 *     u32 count of records, then each:    u32 node, u32 arc, u64 incarnation, u64 lane, u64 executed, u32 count of void numbers
 *                                         u64 void numbers (server.h)
 *
 * What a node keeps for another is rows behind each other and a map from keys to their places: it is written in batches and read
 * once.
 */
#include "core/backup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/defect.h"
#include "core/service.h"
#include "store/rows.h"
#include "wire/bytes.h"

enum {
    COPY_BYTES = 1 << 20, /* of rows that a batch has beside those that were changed */
    KEEP_BYTES = 4 << 20, /* buffers of longer batches are freed */
    SECTION_BYTES = 12,   /* without its rows */
    RECORD_BYTES = 36,    /* without its void numbers */
    COPY_COMPLETE = 1,
    COPY_ANEW = 2,
};

/* The copies of the rows of an arc. */
struct kept_rows {
    struct kept_rows *next;
    uint32_t arc;
    bool is_complete;
    struct keymap places; /* 1 + theirs, by key */
    char *rows;           /* key, value, state */
    size_t n, max;
};

/* What is known of a lane. */
struct record {
    uint32_t node, arc;
    uint64_t incarnation, lane;
    uint64_t executed;
    uint64_t *void_numbers;
    uint32_t n_void, max_void;
};

static void restart(struct backup *backup);

static size_t row_bytes(const struct store *store)
{
    return sizeof(uint64_t) + store->value_bytes + rows_state_bytes(store);
}

static uint32_t arc_of(const struct table_backup *table, uint64_t key)
{
    return table->index == TERN_DENSE ? range_home(table->core->view, key, table->n_keys)
                                      : ring_home(table->core->view, key);
}

/* The i-th open table with backups that has this shard; NULL: none. */
static struct core_table *table_at(const struct core *core, size_t i, uint32_t shard)
{
    struct core_table *table = atomic_load_explicit(&core->tables[i], memory_order_acquire);
    return table && table->backup && shard < table->store.n_shards ? table : NULL;
}

/* ---- Beginning and end -------------------------------------------------------------------------- */

void backup_init(struct backup *backup, struct service *service)
{
    const struct core *core = service->server.core;
    *backup = (struct backup){.service = service, .peer = view_backup(core->view, core->node)};
}

static void free_kept(struct kept_rows *kept)
{
    keymap_free(&kept->places);
    free(kept->rows);
    free(kept);
}

void backup_fini(struct backup *backup)
{
    buffer_free(&backup->batch);
    buffer_free(&backup->staged);
    for (size_t i = 0; i < backup->n_records; i++)
        free(backup->records[i].void_numbers);
    free(backup->records);
}

static struct kept_rows *find_kept(const struct table_backup *table, uint32_t shard, uint32_t arc)
{
    struct kept_rows *kept = table->shards[shard].kept;
    while (kept && kept->arc != arc)
        kept = kept->next;
    return kept;
}

/* The copies of an arc, made if there are none; NULL when memory runs out. */
static struct kept_rows *need_kept(struct table_backup *table, uint32_t shard, uint32_t arc)
{
    struct kept_rows *kept = find_kept(table, shard, arc);
    if (kept || !(kept = calloc(1, sizeof *kept)))
        return kept;
    kept->arc = arc;
    kept->next = table->shards[shard].kept;
    table->shards[shard].kept = kept;
    return kept;
}

/* In the first view nothing can have been answered for a table before its backup had opened it: the copy begins complete. */
struct table_backup *backup_new(struct core *core, const struct tern_table_options *options)
{
    const uint32_t n = view_capacity(core->view);
    struct table_backup *table = calloc(1, sizeof *table);
    atomic_bool *is_lost = calloc(n, sizeof *is_lost);
    bool has_memory = table && is_lost;
    if (has_memory)
        *table = (struct table_backup){
            .core = core, .index = options->index, .n_keys = options->n_keys, .is_lost = is_lost};
    /* All rows that there will be are marked: the first batch has them and says that they are all. */
    for (int i = 0; has_memory && i < STORE_MAX_SHARDS; i++)
        table->shards[i].n_copied = UINT64_MAX;
    const bool is_first = has_memory && !core->view->before;
    for (uint32_t arc = 0; is_first && has_memory && arc < n; arc++) {
        if (view_backup(core->view, arc) != core->node)
            continue;
        for (uint32_t i = 0; has_memory && i < core_shards(core); i++) {
            struct kept_rows *kept = need_kept(table, i, arc);
            has_memory = kept;
            if (kept)
                kept->is_complete = true;
        }
    }
    if (has_memory)
        return table;
    free(table ? NULL : is_lost);
    backup_free(table);
    return NULL;
}

void backup_free(struct table_backup *table)
{
    if (!table)
        return;
    for (int i = 0; i < STORE_MAX_SHARDS; i++)
        for (struct kept_rows *kept = table->shards[i].kept, *next; kept; kept = next) {
            next = kept->next;
            free_kept(kept);
        }
    free(table->is_lost);
    free(table);
}

bool backup_has(const void *context, uint64_t key)
{
    const struct table_backup *table = context;
    const uint32_t arc = arc_of(table, key);
    return view_home(table->core->view, arc) == table->core->node &&
           !atomic_load_explicit(&table->is_lost[arc], memory_order_relaxed);
}

enum tern_status backup_check_lost(const struct core_table *table, const uint64_t *keys, size_t n)
{
    const struct table_backup *backup = table->backup;
    if (!backup || !atomic_load_explicit(&backup->any_lost, memory_order_relaxed))
        return TERN_OK;
    for (size_t i = 0; i < n; i++) {
        const uint32_t arc = arc_of(backup, keys[i]);
        if (!atomic_load_explicit(&backup->is_lost[arc], memory_order_relaxed))
            continue;
        const struct view *view = backup->core->view;
        const uint64_t n_lost =
            backup->index == TERN_DENSE
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

/* ---- Making batches ----------------------------------------------------------------------------- */

static uint32_t self(const struct backup *backup)
{
    return backup->service->server.core->node;
}

static uint32_t shard_of(const struct backup *backup)
{
    return backup->service->server.shard;
}

static bool has_peer(const struct backup *backup)
{
    return backup->peer != self(backup);
}

void backup_note(struct backup *backup, struct server_lane *lane)
{
    lane->is_changed = true;
    lane->batch = backup->n_made + 1;
}

/* Whether the next node has all rows of the table. */
static bool has_copy(const struct backup *backup, const struct core_table *table)
{
    const uint32_t shard = shard_of(backup);
    return table->backup->shards[shard].is_copied &&
           table->backup->shards[shard].copied_by <= backup->n_confirmed;
}

bool backup_is_safe(const struct backup *backup, const struct core_table *table,
                    const struct server_lane *lane)
{
    if (!has_peer(backup) || defect(DEFECT_ANSWERED_UNSAFE))
        return true;
    return lane->batch <= backup->n_confirmed && has_copy(backup, table);
}

uint64_t backup_last(const struct backup *backup)
{
    return backup->n_made + 1;
}

static bool is_all_copied(const struct backup *backup)
{
    const struct core *core = backup->service->server.core;
    bool is_copied = true;
    for (size_t i = 0; is_copied && i < TERN_MAX_TABLES; i++) {
        const struct core_table *table = table_at(core, i, shard_of(backup));
        is_copied = !table || has_copy(backup, table);
    }
    return is_copied;
}

bool backup_is_flushed(const struct backup *backup, uint64_t batch)
{
    return !has_peer(backup) || (backup->n_confirmed >= batch && is_all_copied(backup));
}

/* Appends the row in a slot, if there is one and it is of this shard; false when memory runs out. */
static bool add_row(struct buffer *out, struct store *store, uint32_t shard, uint32_t slot,
                    uint32_t *n)
{
    const uint64_t key = store_key_of(store, slot);
    struct entry *entry;
    if (store_shard(store, key) != shard)
        return true;
    const uint64_t word = store_look(store, key, &entry);
    if (!entry_has_row(word) || entry_slot(word) != slot)
        return true;
    uint8_t *to = buffer_reserve(out, row_bytes(store));
    if (!to)
        return false;
    put_u64(to, key);
    char *value = (char *)to + sizeof key;
    (void)rows_copy(store, &key, 1, value, value + store->value_bytes);
    if (defect(DEFECT_STATE_NOT_BACKED))
        memset(value + store->value_bytes, 0, rows_state_bytes(store));
    out->end += row_bytes(store);
    ++*n;
    return true;
}

/* Appends all rows that were marked. What cannot be appended is marked again. */
static bool add_marked(struct buffer *out, struct store *store, uint32_t shard, uint32_t *n)
{
    struct marks *marks = &store->changed[shard];
    const size_t end = store_mark_words(store);
    size_t word = 0;
    for (uint64_t bits; (bits = marks_take(marks, &word, end)) != 0;) {
        for (uint64_t left = bits; left; left &= left - 1) {
            const uint32_t slot = (uint32_t)(word * 64) + (uint32_t)__builtin_ctzll(left);
            if (add_row(out, store, shard, slot, n))
                continue;
            marks_put(marks, word, left);
            return false;
        }
    }
    return true;
}

/* Appends some of the rows that are to be copied. */
static bool add_copied(struct buffer *out, struct store *store, uint32_t shard, uint64_t *n_copied,
                       uint32_t *n)
{
    const uint64_t end = atomic_load_explicit(&store->next_slot, memory_order_relaxed);
    const size_t most = buffer_size(out) + COPY_BYTES;
    while (*n_copied < end && buffer_size(out) < most) {
        if (!add_row(out, store, shard, (uint32_t)*n_copied, n))
            return false;
        ++*n_copied;
    }
    return true;
}

/* Appends the section of a table to a batch, unless there is nothing to tell. */
static bool add_section(struct buffer *out, struct core_table *table, uint32_t shard,
                        uint64_t batch, uint32_t *n_sections)
{
    struct store *store = &table->store;
    const bool was_copied = table->backup->shards[shard].is_copied;
    const bool is_anew = table->backup->shards[shard].is_anew;
    uint64_t *n_copied = &table->backup->shards[shard].n_copied;
    const size_t begin = buffer_size(out);
    uint32_t n = 0;
    if (!buffer_reserve(out, SECTION_BYTES))
        return false;
    out->end += SECTION_BYTES;
    const bool added = add_marked(out, store, shard, &n) &&
                       (was_copied || add_copied(out, store, shard, n_copied, &n));
    const bool completes =
        added && !was_copied &&
        *n_copied >= atomic_load_explicit(&store->next_slot, memory_order_relaxed);
    if (!n && !completes && !is_anew) {
        out->end = out->begin + begin;
        return added;
    }
    uint8_t *head = buffer_head(out) + begin;
    put_u16(head, table->number);
    put_u16(head + 2, (uint16_t)((completes ? COPY_COMPLETE : 0) | (is_anew ? COPY_ANEW : 0)));
    put_u32(head + 4, n);
    put_u32(head + 8, (uint32_t)row_bytes(store));
    table->backup->shards[shard].is_anew = false;
    if (completes) {
        table->backup->shards[shard].is_copied = true;
        table->backup->shards[shard].copied_by = batch;
    }
    ++*n_sections;
    return added;
}

static bool add_record(struct buffer *out, const struct backup *backup, struct server_lane *lane,
                       uint64_t id)
{
    uint8_t *to = buffer_reserve(out, RECORD_BYTES + 8 * lane->n_void);
    if (!to)
        return false;
    const uint32_t arc = lane_arc(id, self(backup));
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

static bool add_records(struct buffer *out, const struct backup *backup, uint32_t *n)
{
    size_t at = 0;
    uint64_t id;
    for (struct server_lane *lane; (lane = service_next_lane(backup->service, &at, &id)) != NULL;) {
        if (!lane->is_changed || defect(DEFECT_RECORD_FORGOTTEN))
            continue;
        if (!add_record(out, backup, lane, id))
            return false;
        ++*n;
    }
    return true;
}

/* Makes the next batch; false if there is nothing to tell. When memory runs out there is none, and everything is to be copied
 * anew: until it is, no write is safe. */
static bool make_batch(struct backup *backup)
{
    const struct core *core = backup->service->server.core;
    const uint32_t shard = shard_of(backup);
    struct buffer *out = &backup->batch;
    uint32_t n_sections = 0, n_records = 0;
    out->begin = out->end = 0;
    bool fits = buffer_reserve(out, sizeof(uint32_t));
    if (fits)
        out->end += sizeof(uint32_t);
    for (size_t i = 0; fits && i < TERN_MAX_TABLES; i++) {
        struct core_table *table = table_at(core, i, shard);
        fits = !table || add_section(out, table, shard, backup->n_made + 1, &n_sections);
    }
    const size_t records_at = buffer_size(out);
    fits = fits && buffer_reserve(out, sizeof(uint32_t));
    if (fits) {
        out->end += sizeof(uint32_t);
        fits = add_records(out, backup, &n_records);
    }
    if (!fits) {
        restart(backup);
        return false;
    }
    put_u32(buffer_head(out), n_sections);
    put_u32(buffer_head(out) + records_at, n_records);
    return n_sections || n_records;
}

/* Begins to copy all rows and records anew. What is marked will be copied anyway. */
static void restart(struct backup *backup)
{
    const struct core *core = backup->service->server.core;
    const uint32_t shard = shard_of(backup);
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table = table_at(core, i, shard);
        if (!table)
            continue;
        size_t word = 0;
        while (marks_take(&table->store.changed[shard], &word, store_mark_words(&table->store)))
            ;
        table->backup->shards[shard].n_copied = 0;
        table->backup->shards[shard].is_copied = false;
        table->backup->shards[shard].is_anew = true;
    }
    size_t at = 0;
    uint64_t id;
    for (struct server_lane *lane; (lane = service_next_lane(backup->service, &at, &id)) != NULL;)
        if (lane->batch)
            backup_note(backup, lane);
    backup->is_under_way = false;
    backup->batch.begin = backup->batch.end = backup->n_sent = 0;
}

bool backup_next(struct backup *backup, struct slice *payload, bool *is_last)
{
    if (!has_peer(backup))
        return false;
    if (!backup->is_under_way) {
        const bool is_some = make_batch(backup);
        backup->n_made++;
        backup->n_sent = 0;
        backup->is_under_way = is_some;
        if (!is_some) {
            backup->n_confirmed = backup->n_made; /* there was nothing to tell */
            return false;
        }
    }
    const size_t left = buffer_size(&backup->batch) - backup->n_sent;
    payload->bytes = buffer_head(&backup->batch) + backup->n_sent;
    payload->n = left < BATCH_FRAME_BYTES ? left : BATCH_FRAME_BYTES;
    *is_last = payload->n == left;
    return true;
}

bool backup_confirm(struct backup *backup)
{
    if (!backup->is_under_way)
        return false;
    const size_t left = buffer_size(&backup->batch) - backup->n_sent;
    const size_t n = left < BATCH_FRAME_BYTES ? left : BATCH_FRAME_BYTES;
    backup->n_sent += n;
    backup->n_bytes += n;
    if (backup->n_sent < buffer_size(&backup->batch))
        return false;
    backup->is_under_way = false;
    backup->n_confirmed = backup->n_made;
    if (buffer_size(&backup->batch) > KEEP_BYTES)
        buffer_free(&backup->batch);
    return true;
}

/* ---- Taking batches ----------------------------------------------------------------------------- */

/* A batch that is read. */
struct reader {
    const uint8_t *at, *end;
    bool is_broken;
};

static const uint8_t *read_bytes(struct reader *reader, uint64_t n)
{
    const uint8_t *at = reader->at;
    reader->is_broken |= (uint64_t)(reader->end - at) < n;
    if (reader->is_broken)
        return NULL;
    reader->at += n;
    return at;
}

static uint32_t read_u32(struct reader *reader)
{
    const uint8_t *at = read_bytes(reader, sizeof(uint32_t));
    return at ? get_u32(at) : 0;
}

struct section {
    uint16_t number;
    bool is_complete, is_anew;
    uint32_t n, bytes;
    const uint8_t *rows;
};

static bool read_section(struct reader *reader, struct section *section)
{
    const uint8_t *head = read_bytes(reader, SECTION_BYTES);
    if (!head)
        return false;
    *section = (struct section){.number = get_u16(head),
                                .is_complete = get_u16(head + 2) & COPY_COMPLETE,
                                .is_anew = get_u16(head + 2) & COPY_ANEW,
                                .n = get_u32(head + 4),
                                .bytes = get_u32(head + 8)};
    section->rows = read_bytes(reader, (uint64_t)section->n * section->bytes);
    return !reader->is_broken;
}

/* Makes room for the arcs of a node whose copy is complete; false when memory runs out. */
static bool reserve_arcs(struct table_backup *backup, uint32_t shard, uint32_t from)
{
    bool has_room = true;
    for (uint32_t arc = 0; has_room && arc < view_capacity(backup->core->view); arc++)
        has_room = view_home(backup->core->view, arc) != from || need_kept(backup, shard, arc);
    return has_room;
}

/* Makes room for the rows of a section; their keys are checked. False when memory runs out or they make no sense. */
static bool reserve_section(struct core_table *table, uint32_t shard, uint32_t from,
                            const struct section *section)
{
    struct table_backup *backup = table->backup;
    if (section->bytes != row_bytes(&table->store) ||
        (section->is_complete && !reserve_arcs(backup, shard, from)))
        return false;
    for (uint32_t i = 0; i < section->n; i++) {
        const uint64_t key = get_u64(section->rows + (size_t)i * section->bytes);
        if (key > table->store.last_key || store_shard(&table->store, key) != shard)
            return false;
        const uint32_t arc = arc_of(backup, key);
        if (view_home(backup->core->view, arc) != from || !need_kept(backup, shard, arc))
            return false;
    }
    for (struct kept_rows *kept = backup->shards[shard].kept; kept; kept = kept->next) {
        if (view_home(backup->core->view, kept->arc) != from)
            continue;
        if (!keymap_reserve(&kept->places, section->n))
            return false;
        if (kept->max - kept->n >= section->n)
            continue;
        const size_t max = kept->max + kept->max / 4 + section->n;
        char *rows = realloc(kept->rows, max * section->bytes);
        if (!rows)
            return false;
        kept->rows = rows;
        kept->max = max;
    }
    return true;
}

static void keep_rows(struct core_table *table, uint32_t shard, uint32_t from,
                      const struct section *section)
{
    struct table_backup *backup = table->backup;
    const uint32_t n = defect(DEFECT_BATCH_HALF_APPLIED) ? (section->n + 1) / 2 : section->n;
    /* Its first batches have records without the rows that they are about. */
    for (struct kept_rows *kept = backup->shards[shard].kept; kept; kept = kept->next)
        if (view_home(backup->core->view, kept->arc) == from)
            kept->is_complete = section->is_complete || (kept->is_complete && !section->is_anew);
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *row = section->rows + (size_t)i * section->bytes;
        const uint64_t key = get_u64(row);
        struct kept_rows *kept = find_kept(backup, shard, arc_of(backup, key));
        uint32_t place = keymap_get(&kept->places, key);
        if (!place) {
            place = (uint32_t)++kept->n;
            keymap_set(&kept->places, key, place);
        }
        memcpy(kept->rows + (size_t)(place - 1) * section->bytes, row, section->bytes);
    }
}

static struct record *find_record(const struct backup *backup, const struct record *like)
{
    for (size_t i = 0; i < backup->n_records; i++) {
        struct record *record = &backup->records[i];
        if (record->lane == like->lane && record->node == like->node && record->arc == like->arc &&
            record->incarnation == like->incarnation)
            return record;
    }
    return NULL;
}

/* Reads a record; its void numbers stay where they are, at *numbers. */
static bool read_record(struct reader *reader, struct record *record, const uint8_t **numbers)
{
    const uint8_t *head = read_bytes(reader, RECORD_BYTES);
    if (!head)
        return false;
    *record = (struct record){.node = get_u32(head),
                              .arc = get_u32(head + 4),
                              .incarnation = get_u64(head + 8),
                              .lane = get_u64(head + 16),
                              .executed = get_u64(head + 24),
                              .n_void = get_u32(head + 32)};
    *numbers = read_bytes(reader, (uint64_t)record->n_void * sizeof(uint64_t));
    return !reader->is_broken;
}

/* Makes room for a record: for itself if it is new, and for its void numbers. */
static bool reserve_record(struct backup *backup, const struct record *record)
{
    struct record *found = find_record(backup, record);
    if (!found) {
        if (backup->n_records == backup->max_records) {
            const size_t max = 2 * backup->max_records + 16;
            struct record *records = realloc(backup->records, max * sizeof *records);
            if (!records)
                return false;
            backup->records = records;
            backup->max_records = max;
        }
        found = &backup->records[backup->n_records++];
        *found = *record;
        found->executed = found->n_void = found->max_void = 0;
    }
    if (record->n_void <= found->max_void)
        return true;
    uint64_t *numbers = realloc(found->void_numbers, record->n_void * sizeof *numbers);
    if (!numbers)
        return false;
    found->void_numbers = numbers;
    found->max_void = record->n_void;
    return true;
}

static void keep_record(struct backup *backup, const struct record *record, const uint8_t *numbers)
{
    struct record *found = find_record(backup, record);
    found->executed = record->executed;
    found->n_void = record->n_void;
    for (uint32_t i = 0; i < record->n_void; i++)
        found->void_numbers[i] = get_u64(numbers + 8 * (size_t)i);
}

enum step { CHECKING, APPLYING };

/* Goes through the sections: first checks them and makes room, then, when nothing can fail any more, applies them. */
static enum served go_through_sections(struct backup *backup, uint32_t from, struct reader *reader,
                                       enum step step)
{
    const struct server *server = &backup->service->server;
    struct section section;
    for (uint32_t n = read_u32(reader); n > 0; n--) {
        if (!read_section(reader, &section))
            return REFUSED;
        struct core_table *table = core_find_table(server->core, section.number);
        if (!table && server_may_open(server, section.number))
            return HELD;
        if (!table)
            continue; /* closed here: nobody will ask for it */
        if (!table->backup || server->shard >= table->store.n_shards)
            return REFUSED;
        if (step == APPLYING)
            keep_rows(table, server->shard, from, &section);
        else if (!reserve_section(table, server->shard, from, &section))
            return REFUSED;
    }
    return reader->is_broken ? REFUSED : SERVED;
}

static enum served go_through_records(struct backup *backup, uint32_t from, struct reader *reader,
                                      enum step step)
{
    const struct view *view = backup->service->server.core->view;
    struct record record;
    const uint8_t *numbers;
    for (uint32_t n = read_u32(reader); n > 0; n--) {
        if (!read_record(reader, &record, &numbers) || !view_has(view, record.node) ||
            !view_has(view, record.arc) || view_home(view, record.arc) != from ||
            record.lane > UINT32_MAX)
            return REFUSED;
        if (step == APPLYING)
            keep_record(backup, &record, numbers);
        else if (!reserve_record(backup, &record))
            return REFUSED;
    }
    return reader->is_broken || reader->at != reader->end ? REFUSED : SERVED;
}

/* Whether a section is of the same table as one of the n before it, whose tables are noted. Room is made for each section by
 * itself, so there may be only one of a table. */
static bool is_repeated(const struct section *section, uint16_t *numbers, uint32_t n)
{
    bool is_repeated = n >= TERN_MAX_TABLES;
    for (uint32_t i = 0; !is_repeated && i < n; i++)
        is_repeated = numbers[i] == section->number;
    if (!is_repeated)
        numbers[n] = section->number;
    return is_repeated;
}

/* Whether a batch has what it announces, whatever that is. */
static bool is_whole(const struct buffer *staged)
{
    const uint8_t *bytes = buffer_head(staged);
    struct reader reader = {.at = bytes, .end = bytes + buffer_size(staged)};
    struct section section;
    struct record record;
    uint16_t tables[TERN_MAX_TABLES];
    const uint8_t *numbers;
    const uint32_t n_sections = read_u32(&reader);
    for (uint32_t i = 0; i < n_sections && read_section(&reader, &section); i++)
        reader.is_broken |= is_repeated(&section, tables, i);
    for (uint32_t n = read_u32(&reader); n > 0 && read_record(&reader, &record, &numbers); n--)
        ;
    return !reader.is_broken && reader.at == reader.end;
}

static enum served go_through(struct backup *backup, uint32_t from, enum step step)
{
    const uint8_t *bytes = buffer_head(&backup->staged);
    struct reader reader = {.at = bytes, .end = bytes + buffer_size(&backup->staged)};
    enum served served = go_through_sections(backup, from, &reader, step);
    return served == SERVED ? go_through_records(backup, from, &reader, step) : served;
}

/* A request that is held comes again: what it has is staged once. The first frame of a batch replaces what there is; a batch
 * that is sent in part when the view changes may go on. */
enum served backup_take(struct backup *backup, uint32_t from, const struct frame *request,
                        const uint8_t *body)
{
    const struct view *view = backup->service->server.core->view;
    const uint64_t begin = request->fields.batch.begin;
    struct buffer *staged = &backup->staged;
    if (view_backup(view, from) != self(backup) || !view_is_present(view, from)) {
        fail(TERN_PEER,
             "node %" PRIu32 " sent a BATCH to node %" PRIu32 ", which is not its backup", from,
             self(backup));
        return REFUSED;
    }
    if (begin > buffer_size(staged)) {
        fail(TERN_PEER, "a BATCH of node %" PRIu32 " begins with a later part", from);
        return REFUSED;
    }
    staged->end = staged->begin + begin;
    if (!buffer_append(staged, body, request->body_bytes))
        return REFUSED;
    if (!request->fields.batch.is_last)
        return SERVED;
    enum served served =
        buffer_size(staged) && is_whole(staged) ? go_through(backup, from, CHECKING) : REFUSED;
    if (served == SERVED)
        served = go_through(backup, from, APPLYING);
    if (served == REFUSED)
        fail(TERN_PEER, "a BATCH of node %" PRIu32 " cannot be taken", from);
    if (served != HELD && buffer_size(staged) > KEEP_BYTES)
        buffer_free(staged);
    else if (served != HELD)
        staged->begin = staged->end = 0;
    return served;
}

/* ---- Another view ------------------------------------------------------------------------------- */

/* Whether an arc falls to this node. */
static bool falls_here(const struct core *core, const struct view *next, uint32_t arc)
{
    return view_home(next, arc) == core->node && view_home(core->view, arc) != core->node;
}

/* Puts the copies of an arc into the store; false if they are not complete, or when memory runs out. */
static bool adopt_rows(struct core_table *table, const struct kept_rows *kept)
{
    struct store *store = &table->store;
    bool adopted = kept && kept->is_complete;
    for (size_t i = 0; adopted && i < kept->n; i++) {
        const char *row = kept->rows + i * row_bytes(store);
        const uint64_t key = get_u64((const uint8_t *)row);
        const char *value = row + sizeof key;
        adopted = !rows_put(store, key, value, value + store->value_bytes, false);
    }
    return adopted;
}

/* Ends the copies of an arc. */
static void drop_kept(struct table_backup *table, uint32_t shard, uint32_t arc)
{
    struct kept_rows **at = &table->shards[shard].kept;
    while (*at && (*at)->arc != arc)
        at = &(*at)->next;
    struct kept_rows *kept = *at;
    if (!kept)
        return;
    *at = kept->next;
    free_kept(kept);
}

static void adopt_arc(struct core_table *table, uint32_t arc)
{
    for (uint32_t shard = 0; shard < table->store.n_shards; shard++) {
        if (!adopt_rows(table, find_kept(table->backup, shard, arc))) {
            atomic_store_explicit(&table->backup->is_lost[arc], true, memory_order_relaxed);
            atomic_store_explicit(&table->backup->any_lost, true, memory_order_relaxed);
            log_notice("the keys of node %" PRIu32 " in table '%s' are lost: it was given up "
                       "before its backup was complete",
                       arc, table->store.name);
        }
        drop_kept(table->backup, shard, arc);
    }
}

/* Continues the lanes of arcs that fall to this node, and forgets what is known of them. */
static void adopt_lanes(struct backup *backup, const struct core *core, const struct view *next)
{
    size_t n = 0;
    for (size_t i = 0; i < backup->n_records; i++) {
        struct record *record = &backup->records[i];
        if (!falls_here(core, next, record->arc)) {
            backup->records[n++] = *record;
            continue;
        }
        const struct hello hello = {.node = record->node,
                                    .incarnation = record->incarnation,
                                    .lane = lane_with_arc(record->lane, record->arc)};
        struct server_lane *lane =
            defect(DEFECT_RECORD_LEFT_BEHIND) ? NULL : service_adopt_lane(backup->service, &hello);
        if (lane) {
            lane->executed = record->executed;
            free(lane->void_numbers);
            lane->void_numbers = record->void_numbers;
            lane->n_void = record->n_void;
            lane->max_void = record->max_void;
            backup_note(backup, lane);
        } else {
            free(record->void_numbers);
        }
    }
    backup->n_records = n;
}

void backup_change_view(struct core *core, struct service *const *services, uint32_t n_services,
                        const struct view *next)
{
    bool takes_over = false;
    for (uint32_t arc = 0; arc < view_capacity(next); arc++) {
        if (!falls_here(core, next, arc))
            continue;
        takes_over = true;
        for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
            struct core_table *table = table_at(core, i, 0);
            if (table)
                adopt_arc(table, arc);
        }
    }
    for (uint32_t i = 0; i < n_services; i++)
        adopt_lanes(&services[i]->backup, core, next);
    core->view = next;
    for (uint32_t i = 0; i < n_services; i++) {
        struct backup *backup = &services[i]->backup;
        const uint32_t peer = view_backup(next, core->node);
        if ((peer != backup->peer || takes_over) && !defect(DEFECT_COPY_SKIPPED))
            restart(backup);
        backup->peer = peer;
    }
}
