/* manifest - see manifest.h. */
#include "wire/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/json.h"
#include "wire/part.h"

#define FORMAT "checkpoint 1"

const char manifest_no_memory[] = "there is no memory for it";

void manifest_free(struct manifest *manifest)
{
    free(manifest->parts);
    free(manifest->clocks);
    *manifest = (struct manifest){0};
}

/* Makes room for one more item in an array whose capacity is the power of two from n on. */
static bool make_room(void **items, size_t n, size_t item_bytes)
{
    if (n & (n - 1))
        return true;
    void *grown = realloc(*items, (n ? 2 * n : 1) * item_bytes);
    if (grown)
        *items = grown;
    return grown;
}

bool manifest_add_part(struct manifest *manifest, const struct manifest_part *part)
{
    if (!make_room((void **)&manifest->parts, manifest->n_parts, sizeof *part))
        return false;
    manifest->parts[manifest->n_parts++] = *part;
    return true;
}

bool manifest_add_clock(struct manifest *manifest, uint32_t node, uint64_t clock)
{
    if (!make_room((void **)&manifest->clocks, manifest->n_clocks, sizeof *manifest->clocks))
        return false;
    manifest->clocks[manifest->n_clocks++] = (struct manifest_clock){node, clock};
    return true;
}

void manifest_file_name(const struct manifest_part *part, char name[MANIFEST_FILE_BYTES])
{
    if (part->table == MANIFEST_NOTES)
        snprintf(name, MANIFEST_FILE_BYTES, "notes-%" PRIu32 ".safetensors", part->node);
    else
        snprintf(name, MANIFEST_FILE_BYTES, "part-%" PRIu32 "-%" PRIu32 ".safetensors", part->node,
                 part->number);
}

size_t manifest_find(const struct manifest *manifest, const char *name)
{
    size_t i = 0;
    while (i < manifest->n_tables && strcmp(manifest->tables[i].name, name) != 0)
        i++;
    return i;
}

/* ---- Writing ------------------------------------------------------------------------------------ */

static bool put_clocks(const struct manifest *manifest, struct buffer *out)
{
    bool ok = json_put(out, ",\n \"clocks\": [");
    for (uint32_t node = 0; ok && node < manifest->n_nodes; node++) {
        const char *before = "";
        ok = json_put(out, "%s[", node ? ", " : "");
        for (size_t i = 0; ok && i < manifest->n_clocks; i++)
            if (manifest->clocks[i].node == node) {
                ok = json_put(out, "%s%" PRIu64, before, manifest->clocks[i].clock);
                before = ", ";
            }
        ok = ok && json_put(out, "]");
    }
    return ok && json_put(out, "]");
}

static bool put_table(const struct manifest_table *table, struct buffer *out)
{
    return json_put(out, "\n  {\"name\": ") && json_put_string(out, table->name) &&
           json_put(out,
                    ", \"index\": \"%s\", \"type\": \"%s\", \"keys\": %" PRIu64
                    ", \"length\": %" PRIu64 ", \"updater\": ",
                    table->index == TERN_DENSE    ? "dense"
                    : table->index == TERN_SKETCH ? "sketch"
                                                  : "sparse",
                    part_type_name(part_type_of(table->type)), table->n_keys, table->length) &&
           json_put_string(out, table->updater) &&
           json_put(out, ", \"state\": %" PRIu64 ", \"rows\": %" PRIu64 "}", table->n_state,
                    table->n_rows);
}

static bool put_part(const struct manifest *manifest, const struct manifest_part *part,
                     struct buffer *out)
{
    char name[MANIFEST_FILE_BYTES];
    manifest_file_name(part, name);
    bool ok = json_put(out, "\n  {\"file\": \"%s\"", name);
    if (part->table != MANIFEST_NOTES)
        ok = ok && json_put(out, ", \"table\": ") &&
             json_put_string(out, manifest->tables[part->table].name);
    ok = ok && json_put(out, ", \"rows\": %" PRIu64, part->n_rows);
    if (part->table != MANIFEST_NOTES && !part->has_keys)
        ok = ok && json_put(out, ", \"first\": %" PRIu64, part->first_key);
    if (part->layer)
        ok = ok && json_put(out, ", \"layer\": %" PRIu32, part->layer);
    return ok && json_put(out, ", \"bytes\": %" PRIu64 ", \"xxh3\": \"%016" PRIx64 "\"}",
                          part->bytes, part->hash);
}

/* The parts of tables, or the notes. */
static bool put_parts(const struct manifest *manifest, bool notes, struct buffer *out)
{
    const char *before = "";
    bool ok = json_put(out, ",\n \"%s\": [", notes ? "notes" : "parts");
    for (size_t i = 0; ok && i < manifest->n_parts; i++) {
        const struct manifest_part *part = &manifest->parts[i];
        if ((part->table == MANIFEST_NOTES) != notes)
            continue;
        ok = json_put(out, "%s", before) && put_part(manifest, part, out);
        before = ",";
    }
    return ok && json_put(out, "]");
}

bool manifest_encode(const struct manifest *manifest, struct buffer *out)
{
    bool ok = json_put(out, "{\"tern\": \"" FORMAT "\", \"nodes\": %" PRIu32, manifest->n_nodes) &&
              put_clocks(manifest, out) && json_put(out, ",\n \"tables\": [");
    for (size_t i = 0; ok && i < manifest->n_tables; i++)
        ok = json_put(out, "%s", i ? "," : "") && put_table(&manifest->tables[i], out);
    return ok && json_put(out, "]") && put_parts(manifest, false, out) &&
           put_parts(manifest, true, out) && json_put(out, "}\n");
}

/* ---- Reading ------------------------------------------------------------------------------------ */

static bool take_format(struct json *json)
{
    char text[32];
    return json_string(json, text, sizeof text) &&
           (!strcmp(text, FORMAT) || json_refuse(json, "it is of another version of the format"));
}

static bool take_nodes(struct json *json, struct manifest *manifest)
{
    uint64_t n;
    if (!json_number(json, &n))
        return false;
    if (!n || n > MANIFEST_MAX_NODES)
        return json_refuse(json, "the number of nodes is out of range");
    manifest->n_nodes = (uint32_t)n;
    return true;
}

static bool take_clocks(struct json *json, struct manifest *manifest)
{
    size_t n_nodes = 0;
    if (!json_open(json, '['))
        return false;
    while (json_next(json, ']', &n_nodes)) {
        size_t n = 0;
        uint64_t clock;
        if (n_nodes > manifest->n_nodes)
            return json_refuse(json, "there are clocks of more nodes than took part");
        if (!json_open(json, '['))
            return false;
        while (json_next(json, ']', &n) && json_number(json, &clock))
            if (!manifest_add_clock(manifest, (uint32_t)n_nodes - 1, clock))
                return json_refuse(json, manifest_no_memory);
    }
    return !json->wrong;
}

static bool take_index(struct json *json, enum tern_index *index)
{
    char text[16];
    if (!json_string(json, text, sizeof text))
        return false;
    *index = !strcmp(text, "sparse")   ? TERN_SPARSE
             : !strcmp(text, "sketch") ? TERN_SKETCH
                                       : TERN_DENSE;
    return *index != TERN_DENSE || !strcmp(text, "dense") ||
           json_refuse(json, "a table has an unknown index");
}

static bool take_type(struct json *json, enum tern_type *type)
{
    char text[16];
    if (!json_string(json, text, sizeof text))
        return false;
    for (int i = TERN_F32; i <= TERN_I64; i++)
        if (!strcmp(text, part_type_name(part_type_of((enum tern_type)i)))) {
            *type = (enum tern_type)i;
            return true;
        }
    return json_refuse(json, "a table has an unknown type");
}

static bool take_table_member(struct json *json, const char *name, struct manifest_table *table)
{
    return !strcmp(name, "name")      ? json_string(json, table->name, sizeof table->name)
           : !strcmp(name, "index")   ? take_index(json, &table->index)
           : !strcmp(name, "type")    ? take_type(json, &table->type)
           : !strcmp(name, "keys")    ? json_number(json, &table->n_keys)
           : !strcmp(name, "length")  ? json_number(json, &table->length)
           : !strcmp(name, "updater") ? json_string(json, table->updater, sizeof table->updater)
           : !strcmp(name, "state")   ? json_number(json, &table->n_state)
           : !strcmp(name, "rows")    ? json_number(json, &table->n_rows)
                                      : json_skip(json);
}

static bool check_table(struct json *json, const struct manifest_table *table)
{
    if (!table->name[0] || !table->updater[0])
        return json_refuse(json, "a table has no name or no updater");
    if (!table->length || table->length > TERN_MAX_VALUE_BYTES ||
        table->n_state > TERN_MAX_VALUE_BYTES)
        return json_refuse(json, "a table has an impossible length");
    if (table->n_keys > TERN_MAX_DENSE_KEYS || (table->index == TERN_DENSE) != (table->n_keys > 0))
        return json_refuse(json, "a table has an impossible number of keys");
    return true;
}

static bool take_tables(struct json *json, struct manifest *manifest)
{
    size_t n = 0;
    char name[16];
    if (!json_open(json, '['))
        return false;
    while (json_next(json, ']', &n)) {
        struct manifest_table table = {0};
        size_t n_members = 0;
        if (manifest->n_tables == TERN_MAX_TABLES)
            return json_refuse(json, "there are too many tables");
        if (!json_open(json, '{'))
            return false;
        while (json_next(json, '}', &n_members) && json_name(json, name, sizeof name) &&
               take_table_member(json, name, &table))
            continue;
        if (json->wrong || !check_table(json, &table))
            return false;
        if (manifest_find(manifest, table.name) < manifest->n_tables)
            return json_refuse(json, "two tables have the same name");
        manifest->tables[manifest->n_tables++] = table;
    }
    return !json->wrong;
}

static bool take_hash(struct json *json, uint64_t *hash)
{
    char text[17], *end;
    if (!json_string(json, text, sizeof text))
        return false;
    *hash = strtoull(text, &end, 16);
    return (strspn(text, "0123456789abcdef") == 16 && end == text + 16) ||
           json_refuse(json, "a hash is not 16 hexadecimal digits");
}

/* The numbers of a file name; the name is made again from them and compared. */
static bool take_file(struct json *json, struct manifest_part *part)
{
    char text[MANIFEST_FILE_BYTES], again[MANIFEST_FILE_BYTES];
    if (!json_string(json, text, sizeof text))
        return false;
    if (part->table == MANIFEST_NOTES)
        sscanf(text, "notes-%" SCNu32, &part->node);
    else
        sscanf(text, "part-%" SCNu32 "-%" SCNu32, &part->node, &part->number);
    manifest_file_name(part, again);
    return !strcmp(text, again) || json_refuse(json, "a file has a name that Tern does not give");
}

static bool take_part_table(struct json *json, const struct manifest *manifest,
                            struct manifest_part *part)
{
    char name[TERN_MAX_NAME + 1];
    if (part->table == MANIFEST_NOTES)
        return json_refuse(json, "notes belong to no table");
    if (!json_string(json, name, sizeof name))
        return false;
    part->table = (uint32_t)manifest_find(manifest, name);
    return part->table < manifest->n_tables || json_refuse(json, "a part is of an unknown table");
}

static bool take_first_key(struct json *json, struct manifest_part *part)
{
    if (part->table == MANIFEST_NOTES)
        return json_refuse(json, "notes have no keys");
    part->has_keys = false;
    return json_number(json, &part->first_key);
}

static bool take_layer(struct json *json, struct manifest_part *part)
{
    uint64_t layer;
    if (!json_number(json, &layer))
        return false;
    part->layer = (uint32_t)layer;
    return (part->table != MANIFEST_NOTES && layer && layer <= UINT32_MAX) ||
           json_refuse(json, "a part has an impossible layer");
}

static bool take_part(struct json *json, struct manifest *manifest, bool notes)
{
    /* Until its table is read, a part has an impossible one. */
    struct manifest_part part = {.table = notes ? MANIFEST_NOTES : TERN_MAX_TABLES + 1,
                                 .has_keys = true};
    size_t n = 0;
    char name[16];
    bool ok = json_open(json, '{'), has_file = false, has_hash = false;
    while (ok && json_next(json, '}', &n) && json_name(json, name, sizeof name)) {
        if (!strcmp(name, "file"))
            ok = has_file = take_file(json, &part);
        else if (!strcmp(name, "table"))
            ok = take_part_table(json, manifest, &part);
        else if (!strcmp(name, "rows"))
            ok = json_number(json, &part.n_rows);
        else if (!strcmp(name, "first"))
            ok = take_first_key(json, &part);
        else if (!strcmp(name, "layer"))
            ok = take_layer(json, &part);
        else if (!strcmp(name, "bytes"))
            ok = json_number(json, &part.bytes);
        else if (!strcmp(name, "xxh3"))
            ok = has_hash = take_hash(json, &part.hash);
        else
            ok = json_skip(json);
    }
    if (json->wrong)
        return false;
    if (!has_file || !has_hash || part.table > MANIFEST_NOTES)
        return json_refuse(json, "a part lacks its file, its table or its hash");
    if (part.node >= manifest->n_nodes || part.bytes > INT64_MAX || part.n_rows > part.bytes)
        return json_refuse(json, "a part has an impossible node or size");
    return manifest_add_part(manifest, &part) || json_refuse(json, manifest_no_memory);
}

static bool take_parts(struct json *json, struct manifest *manifest, bool notes)
{
    size_t n = 0;
    if (!json_open(json, '['))
        return false;
    while (json_next(json, ']', &n))
        if (!take_part(json, manifest, notes))
            return false;
    return !json->wrong;
}

/* Whether the parts are in order, so that none comes twice, and have the rows of their tables; those of several layers may
 * have a row more than once. */
static const char *check_parts(const struct manifest *manifest)
{
    uint64_t n_rows[TERN_MAX_TABLES + 1] = {0};
    bool has_layers[TERN_MAX_TABLES + 1] = {false};
    for (size_t i = 0; i < manifest->n_parts; i++) {
        const struct manifest_part *part = &manifest->parts[i], *before = part - 1;
        bool is_note = part->table == MANIFEST_NOTES;
        bool was_note = i && before->table == MANIFEST_NOTES;
        if (i && (was_note > is_note ||
                  (was_note == is_note &&
                   (before->node > part->node ||
                    (before->node == part->node && before->number >= part->number)))))
            return "parts come twice or out of order";
        if (__builtin_add_overflow(n_rows[part->table], part->n_rows, &n_rows[part->table]))
            return "the parts have more rows than can be";
        has_layers[part->table] |= part->layer > 0;
    }
    for (size_t i = 0; i < manifest->n_tables; i++)
        if (has_layers[i] ? n_rows[i] < manifest->tables[i].n_rows
                          : n_rows[i] != manifest->tables[i].n_rows)
            return "the parts of a table have not as many rows as the table";
    return NULL;
}

/* Members come in the order in which they are written: parts name tables. */
const char *manifest_decode(const char *text, size_t n, struct manifest *manifest)
{
    struct json json = {.at = text, .end = text + n};
    static const char *const order[] = {"tern", "nodes", "clocks", "tables", "parts", "notes"};
    enum { N_MEMBERS = sizeof order / sizeof *order };
    size_t n_members = 0;
    char name[16];
    *manifest = (struct manifest){0};
    json_open(&json, '{');
    while (json_next(&json, '}', &n_members) && json_name(&json, name, sizeof name)) {
        bool expected = n_members <= N_MEMBERS && !strcmp(name, order[n_members - 1]);
        if (!expected)
            json_refuse(&json, "a member is missing, unknown or out of order");
        else if (n_members == 1)
            take_format(&json);
        else if (n_members == 2)
            take_nodes(&json, manifest);
        else if (n_members == 3)
            take_clocks(&json, manifest);
        else if (n_members == 4)
            take_tables(&json, manifest);
        else
            take_parts(&json, manifest, n_members == N_MEMBERS);
    }
    json_end(&json);
    if (!json.wrong && n_members != N_MEMBERS)
        json_refuse(&json, "a member is missing");
    if (!json.wrong)
        json.wrong = check_parts(manifest);
    if (json.wrong)
        manifest_free(manifest);
    return json.wrong;
}

/* ---- Merging ------------------------------------------------------------------------------------ */

static bool is_same_table(const struct manifest_table *a, const struct manifest_table *b)
{
    return !strcmp(a->name, b->name) && !strcmp(a->updater, b->updater) && a->index == b->index &&
           a->type == b->type && a->n_keys == b->n_keys && a->length == b->length &&
           a->n_state == b->n_state;
}

static int compare_parts(const void *a, const void *b)
{
    const struct manifest_part *x = a, *y = b;
    int x_is_note = x->table == MANIFEST_NOTES, y_is_note = y->table == MANIFEST_NOTES;
    if (x_is_note != y_is_note)
        return x_is_note - y_is_note;
    if (x->node != y->node)
        return (x->node > y->node) - (x->node < y->node);
    return (x->number > y->number) - (x->number < y->number);
}

const char *manifest_merge(struct manifest *all, const struct manifest *more)
{
    size_t places[TERN_MAX_TABLES];
    bool ok = true;
    for (size_t i = 0; i < more->n_tables; i++) {
        places[i] = manifest_find(all, more->tables[i].name);
        if (places[i] == all->n_tables || !is_same_table(&all->tables[places[i]], &more->tables[i]))
            return "it has other tables open than node 0";
        all->tables[places[i]].n_rows += more->tables[i].n_rows;
    }
    if (more->n_tables != all->n_tables)
        return "it has other tables open than node 0";
    for (size_t i = 0; ok && i < more->n_parts; i++) {
        struct manifest_part part = more->parts[i];
        if (part.table != MANIFEST_NOTES)
            part.table = (uint32_t)places[part.table];
        ok = manifest_add_part(all, &part);
    }
    for (size_t i = 0; ok && i < more->n_clocks; i++)
        ok = manifest_add_clock(all, more->clocks[i].node, more->clocks[i].clock);
    if (all->n_parts)
        qsort(all->parts, all->n_parts, sizeof *all->parts, compare_parts);
    return ok ? NULL : "there is no memory for its parts";
}
