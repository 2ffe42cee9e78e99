/*
 * store - arrays by key that the nodes of a job share (thesis, 4.4): the KVStore on Tern's tables.
 *
 * A key's value is some rows of 4 KiB of a sparse table. A row's key is made of the hash of the name and the row's number.
 *
 *   sequential  pushes are added up in a second table. The first pull after pushes settles them: when all nodes have come so
 *               far, one node per key, chosen by the hash, merges the sum into the value and takes it off the sums; then
 *               everybody waits for that
 *   bounded     pushes are added to the values, which have bounded reads; the first pull after pushes advances the clock
 *   eventual    pushes are added to the values, of which every host has a copy
 *
 * Two levels: processes of one host share the rows of their tables, so their pushes are added up in memory; what leaves a
 * host is the change of its rows.
 *
 * Each call is an operation of the engine. It reads or writes the array and the key's variable; settling writes those of all
 * keys that were pushed. So a gradient leaves while earlier layers compute, and a layer may compute when its own
 * parameters have come. Operations that communicate run one after the other, which is why all of them may use the
 * store's worker and its rows. Those that wait for all nodes also write `collectives`: all nodes make such calls in one order,
 * whatever the number of stores.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nd/array.h"
#include "nd/elementwise.h"

enum { ROW = 1024, NAME = 64, ROW_BITS = 24, TABLE_NAME = 40, MAX_DELAY = 1000 };

struct key {
    char name[NAME];
    uint64_t hash;
    struct spec spec;
    size_t n_rows;
    bool is_pushed; /* since the last time that the store was settled */
    struct variable variable;
    struct key *next;
};

/* A push, a pull, or the first value of a key. */
struct access {
    struct operation operation;
    struct link links[3];
    struct tern_store *store;
    struct key *key;
    struct storage *storage; /* of the array */
    struct operand array;
};

struct settling {
    struct operation operation;
    struct tern_store *store;
    struct key **keys;
    uint32_t n_keys;
    struct link links[];
};

static struct variable collectives;

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
    atomic_uint n_left; /* operations that have not ended */
};

#define CHECK(store)                                                 \
    do {                                                             \
        const struct handle *given = (const struct handle *)(store); \
        if (!handle_is(given, HANDLE_STORE))                         \
            return handle_refuse(given, HANDLE_STORE);               \
    } while (0)

/* ---- Opening ------------------------------------------------------------------------------------- */

static enum tern_status open_table(struct tern_store *store, const char *suffix,
                                   struct tern_table **table)
{
    char name[TERN_MAX_NAME + 1], policy[32] = "replicate";
    if (store->options.bounded)
        snprintf(policy, sizeof policy, "ssp:%u", store->options.delay);
    else if (store->options.backups)
        snprintf(policy, sizeof policy, "static");
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .index = TERN_SPARSE,
                                         .type = TERN_F32,
                                         .length = ROW,
                                         .policy = policy,
                                         .backups = store->options.backups};
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
        nd_engine_forget(&key->variable);
        free(key);
    }
    free(store->rows);
    free(store->row_keys);
    return status;
}

static bool is_sequential(const struct tern_store *store)
{
    return !store->options.eventual && !store->options.bounded;
}

static enum tern_status open_store(struct tern_store *store)
{
    enum tern_status status = TERN_OK;
    store->node = store->options.node;
    if (!store->node) {
        status = tern_node_open(NULL, &store->node);
        store->owns_node = !status;
    }
    if (!status)
        status = tern_node_self(store->node, &store->self, &store->n_nodes);
    if (!status)
        status = open_table(store, "values", &store->values);
    if (!status && is_sequential(store))
        status = open_table(store, "sums", &store->sums);
    if (!status)
        status = tern_worker_open(store->node, &store->worker);
    /* All workers must be there before the first clock advances. */
    return status || !store->options.bounded ? status : tern_barrier(store->node);
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
    if (options &&
        !(options->eventual || options->bounded ? options->rate >= 0 : options->rate == 0))
        return fail(TERN_INVALID,
                    "the rate of an eventual or bounded store is not negative; a sequential one "
                    "merges by its function");
    if (options &&
        ((options->eventual && options->bounded) || (options->delay && !options->bounded) ||
         options->delay > MAX_DELAY || (options->backups && options->bounded)))
        return fail(TERN_INVALID,
                    "a store is sequential, eventual or bounded, and a bounded one has a delay of "
                    "0 to %d and no backups",
                    MAX_DELAY);
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
    enum tern_status first = TERN_OK, status;
    nd_engine_wait_for(&store->n_left);
    for (struct key *key = store->keys; key && !first; key = key->next)
        first = nd_engine_wait_idle(&key->variable);
    char sentence[STATUS_SENTENCE_BYTES];
    snprintf(sentence, sizeof sentence, "%s", first ? tern_error() : "");
    /* Others may still pull, and need not wait for this one's clock. */
    status = store->options.bounded ? tern_worker_rest(store->worker) : TERN_OK;
    if (!status)
        status = tern_barrier(store->node);
    if (status)
        (void)destroy(store);
    else
        status = destroy(store);
    handle_close(&store->handle);
    return first ? fail(first, "%s", sentence) : status;
}

enum tern_status tern_store_wait(struct tern_store *store)
{
    CHECK(store);
    nd_engine_wait_for(&store->n_left);
    enum tern_status status = TERN_OK;
    for (struct key *key = store->keys; key && !status; key = key->next)
        status = nd_engine_wait_idle(&key->variable);
    return status;
}

enum tern_status tern_store_set_function(struct tern_store *store, tern_store_function *function,
                                         void *context)
{
    CHECK(store);
    if (!is_sequential(store))
        return fail(TERN_INVALID, "%s store merges by its rate, which is given when it is opened",
                    store->options.eventual ? "an eventual" : "a bounded");
    nd_engine_wait_for(&store->n_left);
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

/* Copies the elements of a key from one place to another; those in the rows have no gaps. */
static void copy_elements(const struct key *key, const struct operand *from,
                          const struct operand *to)
{
    const struct program copy = {
        .n_inputs = 1,
        .n_steps = 1,
        .steps = {
            {.op = &op_copy, .type = key->spec.type, .out_type = key->spec.type, .n_inputs = 1}}};
    elementwise_run(&copy, &key->spec, from, to, 0);
}

static struct operand rows_of(const struct tern_store *store, const struct key *key)
{
    struct operand rows = {.data = (char *)store->rows, .type = key->spec.type};
    spec_strides(&key->spec, rows.strides);
    return rows;
}

/* Makes room for the rows, with zeros behind the last element. */
static enum tern_status begin_rows(struct tern_store *store, const struct key *key)
{
    enum tern_status status = prepare(store, key);
    if (!status)
        memset(store->rows + (key->n_rows - 1) * ROW, 0, ROW * sizeof *store->rows);
    return status;
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
    if (store->function)
        return store->function(store->context, key->name, sum, value);
    struct tern_array *next;
    enum tern_status status =
        tern_array_apply("add", NULL, (struct tern_array *[]){value, sum}, 2, &next);
    if (status)
        return status;
    status = tern_array_assign(value, next);
    (void)tern_array_close(next);
    return status;
}

/* Takes what was pulled off the sums again: what is pushed from now on is of the next round. */
static enum tern_status clear_sum(struct tern_store *store, const struct key *key)
{
    for (size_t i = 0; i < key->n_rows * ROW; i++)
        store->rows[i] = -store->rows[i];
    return tern_push(store->worker, store->sums, store->row_keys, key->n_rows, store->rows);
}

static enum tern_status settle_key(struct tern_store *store, const struct key *key)
{
    struct tern_array *sum = NULL, *value = NULL;
    enum tern_status status = pull_array(store, key, store->sums, &sum);
    if (!status)
        status = clear_sum(store, key);
    if (!status)
        status = pull_array(store, key, store->values, &value);
    if (!status)
        status = merge(store, key, sum, value);
    if (!status)
        status = begin_rows(store, key);
    if (!status)
        status = tern_array_read(value, store->rows, spec_bytes(&key->spec));
    if (!status)
        status = tern_set(store->worker, store->values, store->row_keys, key->n_rows, store->rows);
    if (sum)
        (void)tern_array_close(sum);
    if (value)
        (void)tern_array_close(value);
    return status;
}

/* Which nodes are there; *alive gets an array to be freed. Without backups all are. */
static enum tern_status find_alive(struct tern_store *store, int32_t **alive)
{
    *alive = calloc(store->n_nodes, sizeof **alive);
    if (!*alive)
        return fail(TERN_NO_MEMORY, "there is no memory to merge");
    (*alive)[store->self] = 1;
    if (store->options.backups)
        return tern_all_reduce(store->node, TERN_I32, store->n_nodes, *alive);
    for (uint32_t i = 0; i < store->n_nodes; i++)
        (*alive)[i] = 1;
    return TERN_OK;
}

/* Whether this node merges a key: the first one that is there from the one that its hash names on. */
static bool is_mine(const struct tern_store *store, const struct key *key, const int32_t *alive)
{
    uint32_t node = (uint32_t)((key->hash >> ROW_BITS) % store->n_nodes);
    while (!alive[node])
        node = (node + 1) % store->n_nodes;
    return node == store->self;
}

/* All nodes, since all have pushed the same keys. */
static enum tern_status run_settling(void *context)
{
    const struct settling *settling = context;
    struct tern_store *store = settling->store;
    if (store->options.bounded)
        return tern_worker_advance(store->worker, NULL);
    int32_t *alive = NULL;
    enum tern_status status = tern_quiesce(store->node);
    if (!status)
        status = find_alive(store, &alive);
    for (uint32_t i = 0; i < settling->n_keys && !status; i++)
        if (is_mine(store, settling->keys[i], alive))
            status = settle_key(store, settling->keys[i]);
    free(alive);
    return status ? status : tern_quiesce(store->node);
}

static void settling_ended(void *context)
{
    struct settling *settling = context;
    atomic_fetch_sub(&settling->store->n_left, 1);
    free(settling->keys);
    free(settling);
}

/* Submits the settling of what was pushed. */
static enum tern_status settle(struct tern_store *store)
{
    uint32_t n = 0;
    if (!store->is_pushed || store->options.eventual)
        return TERN_OK;
    for (struct key *key = store->keys; key; key = key->next)
        n += key->is_pushed;
    struct settling *settling = calloc(1, sizeof *settling + (n + (size_t)1) * sizeof(struct link));
    struct key **keys = calloc(n, sizeof *keys);
    if (!settling || !keys) {
        free(settling);
        free(keys);
        return fail(TERN_NO_MEMORY, "there is no memory to merge %u keys", n);
    }
    *settling = (struct settling){.store = store, .keys = keys};
    settling->links[n] = (struct link){.variable = &collectives, .writes = true};
    for (struct key *key = store->keys; key; key = key->next) {
        if (!key->is_pushed)
            continue;
        key->is_pushed = false;
        settling->links[settling->n_keys] =
            (struct link){.variable = &key->variable, .writes = true, .keeps = true};
        keys[settling->n_keys++] = key;
    }
    store->is_pushed = false;
    settling->operation = (struct operation){.run = run_settling,
                                             .ended = settling_ended,
                                             .context = settling,
                                             .name = "store",
                                             .communicates = true,
                                             .links = settling->links,
                                             .n_links = n + 1};
    atomic_fetch_add(&store->n_left, 1);
    nd_engine_submit(&settling->operation);
    return TERN_OK;
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

/* The key of a call with this array, and whether it is new. */
static enum tern_status key_of(struct tern_store *store, const char *name, struct tern_array *array,
                               struct key **key, bool *is_new)
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
    *is_new = !*key;
    if (*key && !spec_same_shape(&(*key)->spec, &spec)) {
        char had[SPEC_TEXT], has[SPEC_TEXT];
        return fail(TERN_MISMATCH, "the key '%s' has the shape %s, not %s", name,
                    spec_print(&(*key)->spec, had), spec_print(&spec, has));
    }
    return *key ? TERN_OK : new_key(store, name, &spec, key);
}

/* ---- Operations ---------------------------------------------------------------------------------- */

/* Node 0 gives the first value, and all wait for it. */
static enum tern_status run_first(void *context)
{
    const struct access *access = context;
    struct tern_store *store = access->store;
    enum tern_status status = TERN_OK;
    if (!store->self) {
        status = begin_rows(store, access->key);
        if (status)
            return status;
        const struct operand rows = rows_of(store, access->key);
        copy_elements(access->key, &access->array, &rows);
        status = tern_set(store->worker, store->values, store->row_keys, access->key->n_rows,
                          store->rows);
        if (!status)
            status = tern_flush(store->worker);
    }
    if (status)
        return status;
    return store->options.bounded ? tern_barrier(store->node) : tern_quiesce(store->node);
}

static enum tern_status run_push(void *context)
{
    const struct access *access = context;
    struct tern_store *store = access->store;
    const float rate = (float)store->options.rate;
    enum tern_status status = begin_rows(store, access->key);
    if (status)
        return status;
    const struct operand rows = rows_of(store, access->key);
    copy_elements(access->key, &access->array, &rows);
    for (size_t i = 0; i < access->key->n_rows * ROW && rate > 0; i++)
        store->rows[i] *= -rate;
    return tern_push(store->worker, is_sequential(store) ? store->sums : store->values,
                     store->row_keys, access->key->n_rows, store->rows);
}

static enum tern_status run_pull(void *context)
{
    const struct access *access = context;
    struct tern_store *store = access->store;
    enum tern_status status = prepare(store, access->key);
    if (!status)
        status = tern_pull(store->worker, store->values, store->row_keys, access->key->n_rows,
                           store->rows);
    if (status)
        return status;
    const struct operand rows = rows_of(store, access->key);
    copy_elements(access->key, &rows, &access->array);
    return TERN_OK;
}

static void access_ended(void *context)
{
    struct access *access = context;
    atomic_uint *n_left = &access->store->n_left;
    storage_drop(access->storage);
    free(access);
    atomic_fetch_sub(n_left, 1);
}

/* Submits an access of a key. Pulls write the array and read the key; the other two do the opposite. */
static enum tern_status submit(struct tern_store *store, struct key *key, struct tern_array *array,
                               enum tern_status (*run)(void *context))
{
    const bool is_pull = run == run_pull;
    struct access *access = calloc(1, sizeof *access);
    if (!access)
        return fail(TERN_NO_MEMORY, "there is no memory for a push or a pull");
    *access = (struct access){.store = store, .key = key};
    enum tern_status status = array_operand(array, is_pull, &access->array, &access->storage);
    if (status) {
        free(access);
        return status;
    }
    /* A view is part of its storage. */
    access->links[0] = (struct link){.variable = &access->storage->variable,
                                     .writes = is_pull,
                                     .keeps = is_pull && array->node->has_strides};
    access->links[1] =
        (struct link){.variable = &key->variable, .writes = !is_pull, .keeps = !is_pull};
    access->links[2] = (struct link){.variable = &collectives, .writes = true};
    access->operation = (struct operation){.run = run,
                                           .ended = access_ended,
                                           .context = access,
                                           .name = key->name,
                                           .communicates = true,
                                           .links = access->links,
                                           .n_links = run == run_first ? 3 : 2};
    atomic_fetch_add(&store->n_left, 1);
    nd_engine_submit(&access->operation);
    return TERN_OK;
}

enum tern_status tern_store_push(struct tern_store *store, const char *name,
                                 struct tern_array *array)
{
    CHECK(store);
    struct key *key;
    bool is_new;
    enum tern_status status = key_of(store, name, array, &key, &is_new);
    if (!status)
        status = submit(store, key, array, run_push);
    if (!status)
        key->is_pushed = store->is_pushed = true;
    return status;
}

enum tern_status tern_store_pull(struct tern_store *store, const char *name,
                                 struct tern_array *array)
{
    CHECK(store);
    struct key *key;
    bool is_new;
    enum tern_status status = key_of(store, name, array, &key, &is_new);
    if (!status && is_new)
        status = submit(store, key, array, run_first);
    if (!status)
        status = settle(store);
    return status ? status : submit(store, key, array, run_pull);
}
