/*
 * backup_take - takes batches of the nodes whose backup this one is, and takes over (backup.h).
 */
#include "core/backup_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "core/counting.h"
#include "core/defect.h"
#include "core/rounds.h"
#include "core/technique.h"
#include "store/rows.h"
#include "wire/bytes.h"

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
    uint32_t n, bytes;
    const uint8_t *rows;
};

static bool read_section(struct reader *reader, struct section *section)
{
    const uint8_t *head = read_bytes(reader, SECTION_BYTES);
    if (!head)
        return false;
    *section = (struct section){
        .number = get_u16(head), .n = get_u32(head + 4), .bytes = get_u32(head + 8)};
    section->rows = read_bytes(reader, (uint64_t)section->n * section->bytes);
    return !reader->is_broken;
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

/* Counts the rows of a section, by arc; false when memory runs out or they make no sense. */
static bool expect_section(struct core_table *table, uint32_t shard, uint32_t from,
                           const struct section *section)
{
    struct table_backup *backup = table->backup;
    if (section->bytes != backup_row_bytes(table))
        return false;
    for (uint32_t i = 0; i < section->n; i++) {
        const uint64_t key = get_u64(section->rows + (size_t)i * section->bytes);
        if (key > table->store.last_key || store_shard(&table->store, key) != shard)
            return false;
        const uint32_t arc = backup_arc(backup, key);
        struct kept_rows *kept = view_home(backup->core->view, arc) == from
                                     ? backup_need_kept(backup, shard, arc)
                                     : NULL;
        if (!kept)
            return false;
        kept->n_expected++;
    }
    return true;
}

static void keep_rows(struct core_table *table, uint32_t shard, const struct section *section)
{
    struct table_backup *backup = table->backup;
    const uint32_t n = defect(DEFECT_BATCH_HALF_APPLIED) ? (section->n + 1) / 2 : section->n;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *row = section->rows + (size_t)i * section->bytes;
        kept_put(kept_find(backup->shards[shard].kept, backup_arc(backup, get_u64(row))), row);
    }
}

enum step { CHECKING, APPLYING };

/* Goes through sections: first checks them, then, when nothing can fail any more, applies them. */
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
            keep_rows(table, server->shard, &section);
        else if (!expect_section(table, server->shard, from, &section))
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
            records_put(&backup->records, &record, numbers);
        else if (!records_reserve(&backup->records, &record))
            return REFUSED;
    }
    return reader->is_broken ? REFUSED : SERVED;
}

/* An arc of which this node has all rows now, in the tables that it has open. */
static bool complete_arc(struct backup *backup, uint32_t arc, enum step step)
{
    bool has_memory = true;
    const uint32_t shard = backup_shard(backup);
    for (size_t i = 0; has_memory && i < TERN_MAX_TABLES; i++) {
        struct core_table *table = backup_table(backup->service->server.core, i, shard);
        struct kept_rows *kept = table ? backup_need_kept(table->backup, shard, arc) : NULL;
        has_memory = !table || kept;
        if (kept && step == APPLYING)
            kept->is_complete = true;
    }
    return has_memory;
}

static enum served go_through_arcs(struct backup *backup, uint32_t from, struct reader *reader,
                                   enum step step)
{
    const struct view *view = backup->service->server.core->view;
    for (uint32_t n = read_u32(reader); n > 0; n--) {
        const uint32_t arc = read_u32(reader);
        if (reader->is_broken || !view_has(view, arc) || view_home(view, arc) != from ||
            !complete_arc(backup, arc, step))
            return REFUSED;
    }
    return reader->is_broken ? REFUSED : SERVED;
}

/* Whether a section is of the same table as one of the n before it, whose tables are noted. There is one of a table. */
static bool is_repeated(const struct section *section, uint16_t *numbers, uint32_t n)
{
    bool is_repeated = n >= TERN_MAX_TABLES;
    for (uint32_t i = 0; !is_repeated && i < n; i++)
        is_repeated = numbers[i] == section->number;
    if (!is_repeated)
        numbers[n] = section->number;
    return is_repeated;
}

static void read_sections(struct reader *reader)
{
    struct section section;
    uint16_t tables[TERN_MAX_TABLES];
    const uint32_t n = read_u32(reader);
    for (uint32_t i = 0; i < n && read_section(reader, &section); i++)
        reader->is_broken |= is_repeated(&section, tables, i);
}

static struct reader begin_reading(const struct staged *staged)
{
    const uint8_t *bytes = buffer_head(&staged->bytes);
    return (struct reader){.at = bytes, .end = bytes + buffer_size(&staged->bytes)};
}

/* Whether a batch has what it announces, whatever that is. */
static bool is_whole(const struct staged *staged)
{
    struct reader reader = begin_reading(staged);
    struct record record;
    const uint8_t *numbers;
    read_sections(&reader);
    for (uint32_t n = read_u32(&reader); n > 0 && read_record(&reader, &record, &numbers); n--)
        ;
    if (reader.at != reader.end) {
        read_sections(&reader);
        const uint32_t n = read_u32(&reader);
        (void)read_bytes(&reader, (uint64_t)n * sizeof(uint32_t));
    }
    return !reader.is_broken && reader.at == reader.end;
}

static enum served go_through(struct backup *backup, const struct staged *staged, enum step step)
{
    struct reader reader = begin_reading(staged);
    enum served served = go_through_sections(backup, staged->from, &reader, step);
    if (served == SERVED)
        served = go_through_records(backup, staged->from, &reader, step);
    if (served != SERVED || reader.at == reader.end)
        return served;
    served = go_through_sections(backup, staged->from, &reader, step);
    return served == SERVED ? go_through_arcs(backup, staged->from, &reader, step) : served;
}

enum bookkeeping { FORGET_EXPECTED, RESERVE_EXPECTED, FORGET_LAST };

/* Does something for the copies of all arcs of a node; false when memory runs out. */
static bool for_arcs_of(const struct backup *backup, uint32_t from, enum bookkeeping what)
{
    const struct core *core = backup->service->server.core;
    const uint32_t shard = backup_shard(backup);
    bool has_memory = true;
    for (size_t i = 0; has_memory && i < TERN_MAX_TABLES; i++) {
        struct core_table *table = backup_table(core, i, shard);
        struct kept_rows *kept = table ? table->backup->shards[shard].kept : NULL;
        for (; has_memory && kept; kept = kept->next) {
            if (view_home(core->view, kept->arc) != from)
                continue;
            if (what == FORGET_EXPECTED)
                kept->n_expected = 0;
            else if (what == FORGET_LAST)
                kept->n_last = 0;
            else
                has_memory = kept_reserve(kept, backup_row_bytes(table));
        }
    }
    return has_memory;
}

static enum served apply(struct backup *backup, const struct staged *staged)
{
    if (!buffer_size(&staged->bytes) || !is_whole(staged))
        return REFUSED;
    (void)for_arcs_of(backup, staged->from, FORGET_EXPECTED);
    const enum served served = go_through(backup, staged, CHECKING);
    if (served != SERVED)
        return served;
    if (!for_arcs_of(backup, staged->from, RESERVE_EXPECTED))
        return REFUSED;
    (void)for_arcs_of(backup, staged->from, FORGET_LAST);
    return go_through(backup, staged, APPLYING);
}

/* Where parts of a batch of a node are: where they were before, or where those of one are that sends none any more. */
static struct staged *find_staged(struct backup *backup, uint32_t from)
{
    const struct core *core = backup->service->server.core;
    struct staged *found = NULL;
    for (int i = 0; i < BACKUP_MAX_PEERS; i++) {
        struct staged *staged = &backup->staged[i];
        if (staged->from == from && staged->bytes.bytes)
            return staged;
        if (!staged->bytes.bytes ||
            !view_is_backup(core->view, staged->from, TERN_MAX_BACKUPS, core->node))
            found = staged;
    }
    if (found)
        found->bytes.end = found->bytes.begin;
    if (found)
        found->from = from;
    return found;
}

/* A request that is held comes again: what it has is staged once. The first frame of a batch replaces what there is; a batch
 * that is sent in part when the view changes may go on. */
enum served backup_take(struct backup *backup, uint32_t from, const struct frame *request,
                        const uint8_t *body)
{
    const struct view *view = backup->service->server.core->view;
    const uint64_t begin = request->fields.batch.begin;
    const bool may_send = view_is_backup(view, from, TERN_MAX_BACKUPS, backup_self(backup));
    struct staged *staged = may_send ? find_staged(backup, from) : NULL;
    if (!staged) {
        fail(TERN_PEER,
             "node %" PRIu32 " sent a BATCH to node %" PRIu32 ", which is not its backup", from,
             backup_self(backup));
        return REFUSED;
    }
    struct buffer *bytes = &staged->bytes;
    if (begin > buffer_size(bytes)) {
        fail(TERN_PEER, "a BATCH of node %" PRIu32 " begins with a later part", from);
        return REFUSED;
    }
    bytes->end = bytes->begin + begin;
    if (!buffer_append(bytes, body, request->body_bytes))
        return REFUSED;
    if (!request->fields.batch.is_last)
        return SERVED;
    const enum served served = apply(backup, staged);
    if (served == SERVED)
        backup->n_taken += buffer_size(bytes);
    if (served == REFUSED)
        fail(TERN_PEER, "a BATCH of node %" PRIu32 " cannot be taken", from);
    if (served != HELD && buffer_size(bytes) > KEEP_BYTES)
        buffer_free(bytes);
    else if (served != HELD)
        bytes->begin = bytes->end = 0;
    return served;
}

bool backup_tell_lacks(const struct backup *backup, uint32_t from, struct buffer *out)
{
    const struct core *core = backup->service->server.core;
    const uint32_t shard = backup_shard(backup);
    bool has_memory = true;
    for (uint32_t arc = 0; has_memory && arc < view_capacity(core->view); arc++) {
        bool lacks = false;
        for (size_t i = 0; view_home(core->view, arc) == from && i < TERN_MAX_TABLES; i++) {
            const struct core_table *table = backup_table(core, i, shard);
            const struct kept_rows *kept =
                table ? kept_find(table->backup->shards[shard].kept, arc) : NULL;
            lacks |= table && (!kept || !kept->is_complete);
        }
        uint8_t bytes[sizeof arc];
        put_u32(bytes, arc);
        has_memory = !lacks || buffer_append(out, bytes, sizeof bytes);
    }
    return has_memory;
}

/* ---- Another view ------------------------------------------------------------------------------- */

/* Whether an arc falls to this node. */
static bool falls_here(const struct core *core, const struct view *next, uint32_t arc)
{
    return view_home(next, arc) == core->node && view_home(core->view, arc) != core->node;
}

/* Whether there may be a replica of a key that is at home elsewhere. */
static bool has_replicas(const struct store *store)
{
    return store->home.rows_move || store->home.rows_everywhere;
}

/* Puts the copy of a row into the store; its mark is taken from `marks`, if that is not NULL, but for what was changed in a
 * replica. False when memory runs out. */
static bool adopt_row(struct core_table *table, struct marks *marks, const char *row)
{
    struct store *store = &table->store;
    const struct counting *counting = table->technique->counting;
    const uint64_t key = get_u64((const uint8_t *)row);
    const char *value = row + sizeof key;
    struct entry *entry;
    if (store->home.rows_everywhere && store_create(store, key))
        return false;
    if (has_replicas(store))
        return store_adopt(store, key, value, value + store->value_bytes);
    if (counting &&
        !counting->adopt(table, key,
                         get_u64((const uint8_t *)row + backup_row_bytes(table) - sizeof key)))
        return false;
    if (rows_put(store, key, value, value + store->value_bytes, false))
        return false;
    if (marks)
        (void)marks_drop(marks, entry_slot(store_look(store, key, &entry)));
    return true;
}

/* Puts the copies of an arc into the store; false if they are not complete and nobody can recover the others, or when memory runs
 * out. Peers may lack the rows of the last batch that came of the arc, and have all others: only those are marked. If some are
 * recovered, peers have none that count. What replicas have that are newer than a checkpoint is in no order with it: tables
 * with replicas recover nothing. */
static bool adopt_rows(struct core_table *table, uint32_t arc, uint32_t shard,
                       const struct kept_rows *kept)
{
    struct store *store = &table->store;
    struct marks *marks = store_marks_for_backups(store, shard);
    const bool is_complete = kept && kept->is_complete;
    bool adopted = is_complete ||
                   (table->backup->recover && !has_replicas(store) &&
                    (defect(DEFECT_RECOVERS_NOTHING) || table->backup->recover(table, arc, shard)));
    for (size_t i = 0; adopted && kept && i < kept->n; i++)
        adopted = adopt_row(table, is_complete ? marks : NULL, kept_row(kept, i));
    struct buffer *urgent = &table->backup->shards[shard].urgent;
    for (size_t i = 0; adopted && kept && i < kept->n_last && !defect(DEFECT_LAST_BATCH_KEPT);
         i++) {
        const uint64_t key = get_u64((const uint8_t *)kept_row(kept, kept->last[i]));
        struct entry *entry;
        marks_add(marks, entry_slot(store_look(store, key, &entry)));
        adopted = buffer_append(urgent, &key, sizeof key);
    }
    return adopted;
}

/* Keys of an arc that a node has a replica of, or has asked for, and that have no copy because nobody wrote to them. */
struct unused {
    struct core_table *table;
    uint32_t arc;
    struct buffer keys;
    bool has_memory;
};

static void note_unused(void *context, uint64_t key, uint64_t word)
{
    struct unused *unused = context;
    const bool is_away = entry_state(word) == ENTRY_REPLICA || entry_state(word) == ENTRY_ELSEWHERE;
    if (unused->has_memory && is_away && backup_arc(unused->table->backup, key) == unused->arc)
        unused->has_memory = buffer_append(&unused->keys, &key, sizeof key);
}

static void find_unused(struct unused *unused)
{
    struct store *store = &unused->table->store;
    struct entry *entry;
    if (store->index == TERN_SPARSE) {
        store_visit(store, note_unused, unused);
        return;
    }
    for (uint64_t key = 0; key < store->n_keys; key++)
        note_unused(unused, key, store_look(store, key, &entry));
}

/* Their main copies are here, with their initial values; false when memory runs out. */
static bool adopt_unused(struct core_table *table, uint32_t arc)
{
    struct store *store = &table->store;
    struct unused unused = {.table = table, .arc = arc, .has_memory = true};
    const size_t state_bytes = rows_state_bytes(store);
    char *row = aligned_alloc(64, (store->value_bytes + state_bytes + 127) / 64 * 64);
    find_unused(&unused);
    const uint64_t *keys = (const uint64_t *)(const void *)buffer_head(&unused.keys);
    const size_t n = buffer_size(&unused.keys) / sizeof *keys;
    bool adopted = row && unused.has_memory;
    for (size_t i = 0; adopted && i < n && !defect(DEFECT_REPLICA_LEFT); i++) {
        char *state = row + store->value_bytes;
        rows_initial(store, keys[i], row, state_bytes ? state : NULL);
        adopted = store_adopt(store, keys[i], row, state);
    }
    free(row);
    buffer_free(&unused.keys);
    return adopted;
}

static void lose_arc(struct core_table *table, uint32_t arc)
{
    atomic_store_explicit(&table->backup->is_lost[arc], true, memory_order_relaxed);
    atomic_store_explicit(&table->backup->any_lost, true, memory_order_relaxed);
    log_notice("the keys of node %" PRIu32 " in table '%s' are lost: it was given up "
               "before its backup was complete",
               arc, table->store.name);
}

static void adopt_arc(struct core_table *table, uint32_t arc, const struct view *next)
{
    const struct technique *technique = table->technique;
    bool adopted = true;
    for (uint32_t i = 0; technique->make_room && i < table->store.n_shards; i++)
        if (!defect(DEFECT_ROOM_KEPT))
            technique->make_room(table, i, arc);
    for (uint32_t shard = 0; shard < table->store.n_shards; shard++) {
        adopted &= adopt_rows(table, arc, shard, kept_find(table->backup->shards[shard].kept, arc));
        backup_drop_kept(table->backup, shard, arc);
    }
    if (adopted && has_replicas(&table->store))
        adopted = adopt_unused(table, arc);
    if (technique->counting)
        technique->counting->take_over(table, arc, view_epoch(next));
    if (!adopted)
        lose_arc(table, arc);
}

/* Continues the lanes of arcs that fall to this node, and forgets what is known of them. */
static void adopt_lanes(struct backup *backup, const struct core *core, const struct view *next)
{
    size_t n = 0;
    for (size_t i = 0; i < backup->records.n; i++) {
        struct record *record = &backup->records.list[i];
        if (!falls_here(core, next, record->arc)) {
            backup->records.list[n++] = *record;
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
    backup->records.n = n;
}

/* How far the node that had an arc has executed the requests of this shard's rounds, as far as the batches say. */
static uint64_t executed_of_rounds(const struct backup *backup, uint32_t arc)
{
    const struct core *core = backup->service->server.core;
    for (size_t i = 0; i < backup->records.n; i++) {
        const struct record *record = &backup->records.list[i];
        if (record->node == core->node && record->arc == arc &&
            record->incarnation == core->incarnation && record->lane == backup->rounds->lane_number)
            return record->executed;
    }
    return 0;
}

/* Ends the questions of this node's rounds that are under way to arcs which fall to it. */
static void end_questions(struct backup *backup, const struct core *core, const struct view *next)
{
    for (uint32_t arc = 0; backup->rounds && arc < view_capacity(next); arc++)
        if (falls_here(core, next, arc))
            rounds_end_questions(backup->rounds, arc, executed_of_rounds(backup, arc));
}

/* Lets the techniques of tables whose rows have replicas know of the present view. */
static void tell_techniques(const struct core *core, const struct view *before)
{
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table = backup_table(core, i, 0);
        for (uint32_t shard = 0; table && table->technique->change_view &&
                                 shard < table->store.n_shards && !defect(DEFECT_WANTS_FORGOTTEN);
             shard++)
            table->technique->change_view(table, shard, before);
    }
}

void backup_change_view(struct core *core, struct service *const *services, uint32_t n_services,
                        const struct view *next)
{
    /* When a node leaves, all copies are looked at once more: then they are as complete as they are said to be. */
    bool forms_anew = view_has_leaving(next);
    const struct view *before = core->view;
    for (uint32_t i = 0; i < n_services; i++)
        end_questions(&services[i]->backup, core, next);
    for (uint32_t arc = 0; arc < view_capacity(next); arc++) {
        if (!falls_here(core, next, arc))
            continue;
        forms_anew = true;
        for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
            struct core_table *table = backup_table(core, i, 0);
            if (table)
                adopt_arc(table, arc, next);
        }
    }
    for (uint32_t i = 0; i < n_services; i++)
        adopt_lanes(&services[i]->backup, core, next);
    core->view = next;
    tell_techniques(core, before);
    for (uint32_t i = 0; i < n_services; i++)
        if (!defect(DEFECT_PEERS_KEPT))
            backup_form(&services[i]->backup, forms_anew);
}
