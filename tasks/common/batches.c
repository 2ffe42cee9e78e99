/* batches - epochs over files of examples. See batches.h. */
#include "common/batches.h"

#include <stdlib.h>

/* What a thread needs: two lists of examples, one in use and one ahead. */
struct batch_reader {
    struct examples lists[2];
    struct examples_chunk chunk;
    bool at_end;
    uint64_t
        n_batches; /* that intent was signalled for: the worker's clock when the next one is used */
};

bool batches_open(struct batches *batches, struct train *train,
                  const struct examples_options *reading, size_t n_batch,
                  const struct batches_task *task)
{
    *batches = (struct batches){.train = train,
                                .reading = *reading,
                                .n_batch = n_batch,
                                .task = *task,
                                .readers = calloc(train->n_threads, sizeof *batches->readers)};
    return batches->readers != NULL || task_fail_memory("the workers");
}

void batches_close(struct batches *batches)
{
    for (size_t i = 0; batches->readers != NULL && i < batches->train->n_threads; i++) {
        examples_fini(&batches->readers[i].lists[0]);
        examples_fini(&batches->readers[i].lists[1]);
        examples_chunk_fini(&batches->readers[i].chunk);
    }
    free(batches->readers);
    if (batches->is_open)
        examples_close(&batches->source);
}

bool batches_begin(struct batches *batches)
{
    if (batches->is_open)
        examples_close(&batches->source);
    batches->is_open =
        examples_open(&batches->source, batches->train->options->data, &batches->reading);
    return batches->is_open;
}

static size_t batch_end(const struct batches *batches, const struct examples *list, size_t first)
{
    return batches->task.gathers || list->n - first < batches->n_batch ? list->n
                                                                       : first + batches->n_batch;
}

/* Signals intent for all batches of a list. */
static bool intend(struct batches *batches, size_t thread, const struct examples *list)
{
    struct batch_reader *reader = &batches->readers[thread];
    bool ok = true;
    for (size_t first = 0, end; ok && first < list->n; first = end) {
        end = batch_end(batches, list, first);
        const size_t from = list->start[first], n = list->start[end] - from;
        ok = batches->task.intend(batches->task.context, thread, list->keys + from, n,
                                  reader->n_batches++);
    }
    return ok;
}

/* Reads the next chunk into a list, or as many as a batch needs; it stays empty at the end. */
static bool read_ahead(struct batches *batches, size_t thread, struct examples *list)
{
    struct batch_reader *reader = &batches->readers[thread];
    examples_clear(list);
    const size_t n_wanted = batches->task.gathers ? batches->n_batch : 1;
    while (!reader->at_end && list->n < n_wanted) {
        if (!examples_take(&batches->source, &reader->chunk) ||
            !examples_parse(&batches->source, &reader->chunk, list))
            return false;
        reader->at_end = reader->chunk.n_bytes == 0;
        if (batches->task.thin != NULL)
            batches->task.thin(batches->task.context, list, reader->chunk.number);
    }
    return batches->train->n_nodes == 1 || list->n == 0 || intend(batches, thread, list);
}

/* Learns from all batches of a list; *go_on becomes false when the epoch should end. */
static bool learn_list(struct batches *batches, size_t thread, const struct examples *list,
                       bool *go_on)
{
    bool ok = true;
    for (size_t first = 0, end; ok && *go_on && first < list->n; first = end) {
        double loss = 0;
        end = batch_end(batches, list, first);
        ok = batches->task.learn(batches->task.context, thread, list, first, end, &loss);
        *go_on = train_done(batches->train, thread, end - first, loss);
    }
    return ok;
}

bool batches_epoch(struct batches *batches, size_t thread)
{
    struct batch_reader *reader = &batches->readers[thread];
    struct tern_worker *worker = train_worker(batches->train, thread);
    bool go_on = true;
    reader->at_end = false;
    if (worker != NULL)
        (void)tern_worker_clock(worker, &reader->n_batches);
    size_t current = 0;
    bool ok = read_ahead(batches, thread, &reader->lists[current]);
    while (ok && go_on && reader->lists[current].n > 0) {
        ok = read_ahead(batches, thread, &reader->lists[1 - current]) &&
             learn_list(batches, thread, &reader->lists[current], &go_on);
        current = 1 - current;
    }
    return ok;
}

/* ---- Visiting -------------------------------------------------------------------------------- */

struct visit {
    struct examples_source source;
    examples_visitor *visit;
    void *context;
};

/* Visits chunks as long as there are any. */
static bool visit_chunks(void *context, size_t thread)
{
    struct visit *visit = context;
    struct examples list = {0};
    struct examples_chunk chunk = {0};
    bool ok = true;
    do {
        examples_clear(&list);
        ok = examples_take(&visit->source, &chunk) &&
             examples_parse(&visit->source, &chunk, &list) &&
             visit->visit(visit->context, thread, &list);
    } while (ok && chunk.n_bytes > 0);
    examples_fini(&list);
    examples_chunk_fini(&chunk);
    return ok;
}

bool examples_visit(const char *paths, const struct examples_options *options, size_t n_threads,
                    examples_visitor *function, void *context)
{
    struct visit visit = {.visit = function, .context = context};
    if (!examples_open(&visit.source, paths, options))
        return false;
    bool ok = team_run(n_threads, visit_chunks, NULL, &visit);
    examples_close(&visit.source);
    return ok;
}
