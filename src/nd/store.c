/*
 * store - arrays by key that the nodes of a job share (thesis, 4.4): the KVStore on Tern's tables.
 *
 * A key's value is some rows of 4 KiB of a sparse table, so that a large value is spread over all nodes. A row's key is made
 * of the hash of the name and the row's number. A sequential store has a second table, in which pushes are added up. The first
 * pull after pushes settles them: behind a barrier, for each key one node, chosen by the hash, merges the sum into the
 * value and clears the sum; then another barrier lets everybody pull. In an eventual store, pushes go to the values, where
 * the table's updater merges them.
 *
 * Two levels: processes of one host share the rows of both tables, so their pushes are added up in memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/handle.h"
#include "nd/spec.h"

enum { ROW = 1024, NAME = 64, ROW_BITS = 24, TABLE_NAME = 40 };

struct key {
    char name[NAME];
    uint64_t hash;
    struct spec spec;
    size_t n_rows;
    bool is_pushed; /* since the last time that the store was settled */
    struct key *next;
};

struct tern_store {
    struct handle handle;
    struct tern_store_options options;
    struct tern_node *node;
    bool owns_node, is_pushed;
    uint32_t self, n_nodes;
    struct tern_worker *worker;
    struct tern_table *values, *sums; /* the second only of a sequential store */
    tern_store_function *function;
    void *context;
    struct key *keys,
        **last;  /* a list in the order of their first use, which is the same at all nodes */
    float *rows; /* room for the rows of one key, and their keys */
    uint64_t *row_keys;
    size_t capacity;
};

#define CHECK(store)                                                 \
    do {                                                             \
        const struct handle *given = (const struct handle *)(store); \
        if (!handle_is(given, HANDLE_STORE))                         \
            return handle_refuse(given, HANDLE_STORE);               \
    } while (0)

/* ---- Opening ------------------------------------------------------------------------------------- */

static enum tern_status open_table(struct tern_store *store, const char *suffix,
                                   const struct tern_updater *updater, struct tern_table **table)
{
    char name[TERN_MAX_NAME + 1];
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .index = TERN_SPARSE,
                                         .type = TERN_F32,
                                         .length = ROW,
                                         .updater = *updater,
                                         .policy = "static"};
    snprintf(name, sizeof name, "%s.%s", store->options.name, suffix);
    return tern_table_open(store->node, name, &options, table);
}

/* Closes what is open; the first failure. */
static enum tern_status destroy(struct tern_store *store)
{
    enum tern_status status = TERN_OK, next;
    if (store->worker)
        status = tern_worker_close(store->worker);
    if (store->sums && (next = tern_table_close(store->sums)) && !status)
        status = next;
    if (store->values && (next = tern_table_close(store->values)) && !status)
        status = next;
    if (store->owns_node && (next = tern_node_close(store->node)) && !status)
        status = next;
    while (store->keys) {
        struct key *key = store->keys;
        store->keys = key->next;
        free(key);
    }
    free(store->rows);
    free(store->row_keys);
    return status;
}

static enum tern_status open_store(struct tern_store *store)
{
    const struct tern_updater addition = {0}, descent = tern_updater_sgd(store->options.rate);
    enum tern_status status = TERN_OK;
    store->node = store->options.node;
    if (!store->node) {
        status = tern_node_open(NULL, &store->node);
        store->owns_node = !status;
    }
    if (!status)
        status = tern_node_self(store->node, &store->self, &store->n_nodes);
    if (!status)
        status = open_table(store, "values", store->options.rate > 0 ? &descent : &addition,
                            &store->values);
    if (!status && !store->options.eventual)
        status = open_table(store, "sums", &addition, &store->sums);
    return status ? status : tern_worker_open(store->node, &store->worker);
}

enum tern_status tern_store_open(const struct tern_store_options *options,
                                 struct tern_store **store)
{
    if (!store || (options && options->struct_size != sizeof *options) ||
        (options && options->name && (!options->name[0] || strlen(options->name) > TABLE_NAME)))
        return fail(
            TERN_INVALID,
            "the result is NULL, struct_size is not that of the options, or the name of the "
            "store is empty or has more than %d characters",
            TABLE_NAME);
    if (options && !(options->eventual ? options->rate >= 0 : options->rate == 0))
        return fail(TERN_INVALID, "the rate of an eventual store is not negative; a sequential one "
                                  "merges by its function");
    struct tern_store *made = calloc(1, sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "there is no memory for a store");
    if (options)
        made->options = *options;
    if (!made->options.name)
        made->options.name = "store";
    made->last = &made->keys;
    enum tern_status status = open_store(made);
    if (status) {
        char sentence[STATUS_SENTENCE_BYTES];
        snprintf(sentence, sizeof sentence, "%s", tern_error());
        (void)destroy(made);
        free(made);
        return fail(status, "%s", sentence);
    }
    made->options.name = NULL;
    handle_init(&made->handle, HANDLE_STORE);
    *store = made;
    return TERN_OK;
}

enum tern_status tern_store_close(struct tern_store *store)
{
    CHECK(store);
    /* Others may still pull. */
    enum tern_status first = tern_barrier(store->node), status = destroy(store);
    handle_close(&store->handle);
    return first ? first : status;
}

enum tern_status tern_store_set_function(struct tern_store *store, tern_store_function *function,
                                         void *context)
{
    CHECK(store);
    if (store->options.eventual)
        return fail(TERN_INVALID,
                    "an eventual store merges by its rate, which is given when it is opened");
    store->function = function;
    store->context = context;
    return TERN_OK;
}

/* ---- Rows ---------------------------------------------------------------------------------------- */

static uint64_t hash_name(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    return hash >> ROW_BITS << ROW_BITS;
}

/* Makes room for the rows of a key, and writes their keys. */
static enum tern_status prepare(struct tern_store *store, const struct key *key)
{
    if (key->n_rows > store->capacity) {
        float *rows = realloc(store->rows, key->n_rows * ROW * sizeof *rows);
        store->rows = rows ? rows : store->rows;
        uint64_t *keys = realloc(store->row_keys, key->n_rows * sizeof *keys);
        store->row_keys = keys ? keys : store->row_keys;
        if (!rows || !keys)
            return fail(TERN_NO_MEMORY, "there is no memory for the %zu rows of the key '%s'",
                        key->n_rows, key->name);
        store->capacity = key->n_rows;
    }
    for (size_t i = 0; i < key->n_rows; i++)
        store->row_keys[i] = key->hash + i;
    return TERN_OK;
}

/* Between an array and the rows. */
static enum tern_status read_array(struct tern_store *store, const struct key *key,
                                   struct tern_array *array)
{
    enum tern_status status = prepare(store, key);
    if (status)
        return status;
    memset(store->rows + (key->n_rows - 1) * ROW, 0, ROW * sizeof *store->rows);
    return tern_array_read(array, store->rows, spec_bytes(&key->spec));
}

static enum tern_status array_of_rows(struct tern_store *store, const struct key *key,
                                      struct tern_array **array)
{
    struct tern_nd_shape shape = {.type = key->spec.type, .n_dims = key->spec.n_dims};
    memcpy(shape.dims, key->spec.dims, sizeof shape.dims);
    return tern_array_new(&shape, store->rows, array);
}

/* The value of a table's rows as a new array. */
static enum tern_status pull_array(struct tern_store *store, const struct key *key,
                                   struct tern_table *table, struct tern_array **array)
{
    enum tern_status status = prepare(store, key);
    if (!status)
        status = tern_pull(store->worker, table, store->row_keys, key->n_rows, store->rows);
    return status ? status : array_of_rows(store, key, array);
}

/* ---- Merging ------------------------------------------------------------------------------------- */

/* By default the sum is added. */
static enum tern_status merge(struct tern_store *store, const struct key *key,
                              struct tern_array *sum, struct tern_array *value)
{
    if (store->function) {
        store->function(store->context, key->name, sum, value);
        return TERN_OK;
    }
    struct tern_array *next;
    enum tern_status status =
        tern_array_apply("add", NULL, (struct tern_array *[]){value, sum}, 2, &next);
    if (status)
        return status;
    status = tern_array_assign(value, next);
    (void)tern_array_close(next);
    return status;
}

static enum tern_status settle_key(struct tern_store *store, const struct key *key)
{
    struct tern_array *sum = NULL, *value = NULL;
    enum tern_status status = pull_array(store, key, store->sums, &sum);
    if (!status)
        status = pull_array(store, key, store->values, &value);
    if (!status)
        status = merge(store, key, sum, value);
    if (!status)
        status = read_array(store, key, value);
    if (!status)
        status = tern_set(store->worker, store->values, store->row_keys, key->n_rows, store->rows);
    if (!status) {
        memset(store->rows, 0, key->n_rows * ROW * sizeof *store->rows);
        status = tern_set(store->worker, store->sums, store->row_keys, key->n_rows, store->rows);
    }
    if (sum)
        (void)tern_array_close(sum);
    if (value)
        (void)tern_array_close(value);
    return status;
}

/* The node that merges, and gives the first value of, a key. */
static bool is_mine(const struct tern_store *store, const struct key *key)
{
    return (key->hash >> ROW_BITS) % store->n_nodes == store->self;
}

/* All nodes, since all have pushed the same keys. */
static enum tern_status settle(struct tern_store *store)
{
    if (!store->is_pushed)
        return TERN_OK;
    enum tern_status status = tern_barrier(store->node);
    for (struct key *key = store->keys; key && !status; key = key->next) {
        if (key->is_pushed && is_mine(store, key))
            status = settle_key(store, key);
        key->is_pushed = false;
    }
    store->is_pushed = false;
    return status ? status : tern_barrier(store->node);
}

/* ---- Keys ---------------------------------------------------------------------------------------- */

static struct key *find(struct tern_store *store, const char *name)
{
    for (struct key *key = store->keys; key; key = key->next)
        if (!strcmp(key->name, name))
            return key;
    return NULL;
}

static enum tern_status new_key(struct tern_store *store, const char *name, const struct spec *spec,
                                struct key **key)
{
    struct key *made = calloc(1, sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "there is no memory for a key");
    strcpy(made->name, name);
    made->hash = hash_name(name);
    made->spec = *spec;
    made->n_rows = (spec_count(spec) - 1) / ROW + 1;
    for (struct key *other = store->keys; other; other = other->next) {
        if (other->hash == made->hash) {
            free(made);
            return fail(TERN_CONFLICT, "the keys '%s' and '%s' have the same hash", name,
                        other->name);
        }
    }
    if (made->n_rows >> ROW_BITS) {
        free(made);
        return fail(TERN_LIMIT, "the value of the key '%s' is too large", name);
    }
    *store->last = made;
    store->last = &made->next;
    *key = made;
    return TERN_OK;
}

/* The key of a call with this array. A new one gets the array's value, from node 0, if it is pulled. */
static enum tern_status key_of(struct tern_store *store, const char *name, struct tern_array *array,
                               bool is_pull, struct key **key)
{
    struct tern_nd_shape shape;
    if (!name || !name[0] || strlen(name) >= NAME)
        return fail(TERN_INVALID, "a key has 1 to %d characters", NAME - 1);
    enum tern_status status = tern_array_shape(array, &shape);
    if (status)
        return status;
    struct spec spec = {.type = shape.type, .n_dims = shape.n_dims};
    memcpy(spec.dims, shape.dims, sizeof spec.dims);
    if (spec.type != TERN_ND_F32)
        return fail(TERN_INVALID, "the key '%s': a store has values of type f32, not %s", name,
                    spec_type_name(spec.type));
    *key = find(store, name);
    if (*key && !spec_same_shape(&(*key)->spec, &spec)) {
        char had[SPEC_TEXT], has[SPEC_TEXT];
        return fail(TERN_MISMATCH, "the key '%s' has the shape %s, not %s", name,
                    spec_print(&(*key)->spec, had), spec_print(&spec, has));
    }
    if (*key)
        return TERN_OK;
    status = new_key(store, name, &spec, key);
    if (status || !is_pull)
        return status;
    if (!store->self) {
        status = read_array(store, *key, array);
        if (!status)
            status = tern_set(store->worker, store->values, store->row_keys, (*key)->n_rows,
                              store->rows);
    }
    return status ? status : tern_barrier(store->node);
}

enum tern_status tern_store_push(struct tern_store *store, const char *name,
                                 struct tern_array *array)
{
    CHECK(store);
    struct key *key;
    enum tern_status status = key_of(store, name, array, false, &key);
    if (!status)
        status = read_array(store, key, array);
    if (!status)
        status = tern_push(store->worker, store->options.eventual ? store->values : store->sums,
                           store->row_keys, key->n_rows, store->rows);
    if (!status && !store->options.eventual)
        key->is_pushed = store->is_pushed = true;
    return status;
}

enum tern_status tern_store_pull(struct tern_store *store, const char *name,
                                 struct tern_array *array)
{
    CHECK(store);
    struct key *key;
    struct tern_array *value;
    enum tern_status status = key_of(store, name, array, true, &key);
    if (!status)
        status = settle(store);
    if (!status)
        status = pull_array(store, key, store->values, &value);
    if (status)
        return status;
    status = tern_array_assign(array, value);
    (void)tern_array_close(value);
    return status;
}
