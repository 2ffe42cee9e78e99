/*
 * batches - epochs over files of examples that are read as a stream, in small batches.
 *
 * Threads take chunks of the files as they finish others (examples.h). A thread parses a chunk ahead of the one that it
 * learns from; where there are several nodes, it signals intent for the batches of that chunk, so that their rows
 * have come when the worker's clock reaches them. Every batch is one clock.
 *
 * batches_begin() is called by one thread before an epoch; batches_epoch() then by all threads.
 */
#ifndef TASKS_BATCHES_H
#define TASKS_BATCHES_H

#include "common/examples.h"
#include "common/train.h"

/* What a model does with batches. `context` is the model's own. */
struct batches_task {
    void *context;
    bool gathers; /* a batch has all examples of several chunks, at least n_batch; without `thin` */
    /* Changes a list after it was read, by the number of its chunk. NULL: it stays as it is. */
    void (*thin)(void *context, struct examples *list, uint64_t chunk);
    /* Says that n keys will be used at a clock; called where there are several nodes. */
    bool (*intend)(void *context, size_t thread, const uint64_t *keys, size_t n, uint64_t clock);
    /* Learns from the examples first .. end - 1; *loss is their sum of losses. */
    bool (*learn)(void *context, size_t thread, const struct examples *list, size_t first,
                  size_t end, double *loss);
};

struct batches {
    struct train *train;
    struct examples_options reading;
    size_t n_batch; /* examples of a batch */
    struct batches_task task;
    struct examples_source source; /* of this epoch */
    bool is_open;                  /* `source` is */
    struct batch_reader *readers;  /* by thread */
};

/* batches_close() is due in any case. */
bool batches_open(struct batches *batches, struct train *train,
                  const struct examples_options *reading, size_t n_batch,
                  const struct batches_task *task);
void batches_close(struct batches *batches);
bool batches_begin(struct batches *batches);
bool batches_epoch(struct batches *batches, size_t thread);

/* Chooses the part of the files that falls to this node, one of as many as there are nodes. If a node was given up, the
 * part is read from the next epoch on. */
static inline void batches_deal(const struct train *train, struct examples_options *reading)
{
    reading->part = train->rank;
    reading->n_parts = train->n_present;
}

/* Reads files by n_threads threads, and calls `visit` with each list that was read. */
typedef bool examples_visitor(void *context, size_t thread, const struct examples *list);
bool examples_visit(const char *paths, const struct examples_options *options, size_t n_threads,
                    examples_visitor *visit, void *context);

#endif
