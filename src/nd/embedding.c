/* embedding - see embedding.h, and the public calls on embeddings. */
#include "nd/embedding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "base/status.h"

/* ---- Opening ------------------------------------------------------------------------------------- */

static enum tern_status open_table(struct tern_embedding *e,
                                   const struct tern_embedding_options *options)
{
    const double rate = options->rate > 0 ? options->rate : 0.05;
    const struct tern_table_options table = {
        .struct_size = sizeof table,
        .index = options->n_rows ? TERN_DENSE : TERN_SPARSE,
        .type = TERN_F32,
        .n_keys = options->n_rows,
        .length = options->length,
        .init = {.kind = options->deviation > 0 ? TERN_INIT_NORMAL : TERN_INIT_ZERO,
                 .seed = options->seed,
                 .b = options->deviation},
        .updater = tern_updater_adagrad(rate, 1e-8)};
    e->length = options->length;
    e->n_rows = options->n_rows;
    return tern_table_open(e->node, options->name, &table, &e->table);
}

/* Closes what is open; the first failure. */
static enum tern_status destroy(struct tern_embedding *e)
{
    enum tern_status status = TERN_OK, next;
    if (e->worker)
        status = tern_worker_close(e->worker);
    if (e->table && (next = tern_table_close(e->table)) && !status)
        status = next;
    if (e->owns_node && (next = tern_node_close(e->node)) && !status)
        status = next;
    nd_engine_forget(&e->variable);
    return status;
}

static enum tern_status check_options(const struct tern_embedding_options *options)
{
    if (!options || options->struct_size != sizeof *options || !options->name || !options->length ||
        !(options->rate >= 0) || !(options->deviation >= 0))
        return fail(TERN_INVALID,
                    "the options of an embedding need their struct_size, a name, a length of at "
                    "least 1, and numbers that are not negative");
    return TERN_OK;
}

enum tern_status tern_embedding_open(const struct tern_embedding_options *options,
                                     struct tern_embedding **embedding)
{
    enum tern_status status =
        embedding ? check_options(options) : fail(TERN_INVALID, "the result is NULL");
    if (status)
        return status;
    struct tern_embedding *made = calloc(1, sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "there is no memory for an embedding");
    made->node = options->node;
    if (!made->node) {
        status = tern_node_open(NULL, &made->node);
        made->owns_node = !status;
    }
    if (!status)
        status = open_table(made, options);
    if (!status)
        status = tern_worker_open(made->node, &made->worker);
    if (status) {
        char sentence[STATUS_SENTENCE_BYTES];
        snprintf(sentence, sizeof sentence, "%s", tern_error());
        (void)destroy(made);
        free(made);
        return fail(status, "%s", sentence);
    }
    handle_init(&made->handle, HANDLE_EMBEDDING);
    *embedding = made;
    return TERN_OK;
}

enum tern_status tern_embedding_close(struct tern_embedding *embedding)
{
    EMBEDDING_CHECK(embedding);
    if (atomic_load(&embedding->n_modules))
        return fail(TERN_BUSY, "%u modules use the embedding; close them first",
                    atomic_load(&embedding->n_modules));
    enum tern_status status = destroy(embedding);
    handle_close(&embedding->handle);
    return status;
}

enum tern_status tern_embedding_accesses(struct tern_embedding *embedding, uint64_t *all,
                                         uint64_t *remote)
{
    EMBEDDING_CHECK(embedding);
    if (!all || !remote)
        return fail(TERN_INVALID, "a result is NULL");
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    enum tern_status status = nd_engine_wait_idle(&embedding->variable);
    if (!status)
        status = tern_table_get_stats(embedding->table, &stats);
    if (status)
        return status;
    *all = stats.pulled_keys + stats.pushed_keys;
    *remote = stats.remote_keys;
    return TERN_OK;
}

enum tern_status embedding_intend(struct tern_embedding *embedding, const int64_t *ids, size_t n,
                                  uint64_t ahead)
{
    const uint64_t start = embedding->n_steps + 1 + ahead;
    /* Wrong ids are told by the pull. */
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (embedding->n_rows && (uint64_t)ids[i] >= embedding->n_rows))
            return TERN_OK;
    return tern_intent(embedding->worker, embedding->table, (const uint64_t *)ids, n, start,
                       start + 1);
}

/* ---- Lookups ------------------------------------------------------------------------------------- */

/* Finds the different ids, in the order of their first places. */
static enum tern_status find_unique(struct lookup *lookup)
{
    memset(lookup->slots, 0, lookup->n_slots * sizeof *lookup->slots);
    lookup->n_unique = 0;
    for (size_t i = 0; i < lookup->n; i++) {
        const int64_t id = lookup->ids[i];
        if (id < 0 || (lookup->embedding->n_rows && (uint64_t)id >= lookup->embedding->n_rows))
            return fail(TERN_RANGE, "id %lld at place %zu is not in 0 .. %lld", (long long)id, i,
                        lookup->embedding->n_rows ? (long long)lookup->embedding->n_rows - 1
                                                  : (long long)INT64_MAX);
        size_t slot = hash_u64((uint64_t)id) & (lookup->n_slots - 1);
        while (lookup->slots[slot] && lookup->keys[lookup->slots[slot] - 1] != (uint64_t)id)
            slot = (slot + 1) & (lookup->n_slots - 1);
        if (!lookup->slots[slot]) {
            lookup->keys[lookup->n_unique++] = (uint64_t)id;
            lookup->slots[slot] = (uint32_t)lookup->n_unique;
        }
        lookup->place[i] = lookup->slots[slot] - 1;
    }
    return TERN_OK;
}

static enum tern_status run_pull(void *context)
{
    struct lookup *lookup = context;
    const size_t length = lookup->embedding->length;
    enum tern_status status = find_unique(lookup);
    if (!status && lookup->is_step)
        status = tern_worker_advance(lookup->embedding->worker, NULL);
    if (!status)
        status = tern_pull(lookup->embedding->worker, lookup->embedding->table, lookup->keys,
                           lookup->n_unique, lookup->rows);
    for (size_t i = 0; i < lookup->n && !status; i++)
        memcpy(lookup->out + i * length, lookup->rows + lookup->place[i] * length,
               length * sizeof *lookup->out);
    return status;
}

static enum tern_status run_push(void *context)
{
    struct lookup *lookup = context;
    const size_t length = lookup->embedding->length;
    const float scale = (float)lookup->scale;
    memset(lookup->rows, 0, lookup->n_unique * length * sizeof *lookup->rows);
    for (size_t i = 0; i < lookup->n; i++)
        for (size_t k = 0; k < length; k++)
            lookup->rows[lookup->place[i] * length + k] += scale * lookup->gradient[i * length + k];
    return tern_push(lookup->embedding->worker, lookup->embedding->table, lookup->keys,
                     lookup->n_unique, lookup->rows);
}

static void ended(void *context)
{
    atomic_fetch_sub(&((struct lookup *)context)->left, 1);
}

enum tern_status lookup_init(struct lookup *lookup, struct tern_embedding *embedding,
                             const char *name, struct storage *ids, size_t n, struct storage *out,
                             struct storage *gradient)
{
    size_t n_slots = 2;
    while (n_slots < 2 * n)
        n_slots *= 2;
    *lookup = (struct lookup){.embedding = embedding,
                              .ids = ids->data,
                              .n = n,
                              .out = out->data,
                              .gradient = gradient ? gradient->data : NULL,
                              .keys = calloc(n, sizeof(uint64_t)),
                              .place = calloc(n, sizeof(uint32_t)),
                              .slots = calloc(n_slots, sizeof(uint32_t)),
                              .n_slots = n_slots,
                              .rows = calloc(n * embedding->length, sizeof(float))};
    atomic_fetch_add(&embedding->n_modules, 1);
    if (!lookup->keys || !lookup->place || !lookup->slots || !lookup->rows)
        return fail(TERN_NO_MEMORY, "there is no memory for the %zu rows of a batch", n);
    lookup->pull_links[0] = (struct link){.variable = &ids->variable};
    lookup->pull_links[1] = (struct link){.variable = &out->variable, .writes = true};
    lookup->pull_links[2] = (struct link){.variable = &embedding->variable, .writes = true};
    lookup->pull = (struct operation){.run = run_pull,
                                      .ended = ended,
                                      .context = lookup,
                                      .name = name,
                                      .links = lookup->pull_links,
                                      .n_links = 3};
    lookup->push_links[0] = (struct link){.variable = &out->variable};
    lookup->push_links[1] = (struct link){.variable = &embedding->variable, .writes = true};
    if (gradient)
        lookup->push_links[2] = (struct link){.variable = &gradient->variable};
    lookup->push = (struct operation){.run = run_push,
                                      .ended = ended,
                                      .context = lookup,
                                      .name = name,
                                      .links = lookup->push_links,
                                      .n_links = 3};
    return TERN_OK;
}

void lookup_fini(struct lookup *lookup)
{
    if (!lookup->embedding)
        return;
    nd_engine_wait_for(&lookup->left);
    atomic_fetch_sub(&lookup->embedding->n_modules, 1);
    free(lookup->keys);
    free(lookup->place);
    free(lookup->slots);
    free(lookup->rows);
}

static void submit(struct lookup *lookup, struct operation *operation)
{
    atomic_store(&lookup->left, 1);
    nd_engine_submit(operation);
}

void lookup_pull(struct lookup *lookup, bool is_step)
{
    nd_engine_wait_for(&lookup->left);
    lookup->embedding->n_steps += is_step;
    lookup->is_step = is_step;
    submit(lookup, &lookup->pull);
}

void lookup_push(struct lookup *lookup, double scale)
{
    nd_engine_wait_for(&lookup->left);
    lookup->scale = scale;
    submit(lookup, &lookup->push);
}
