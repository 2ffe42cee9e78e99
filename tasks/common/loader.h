/*
 * loader - prepares a worker's batches ahead of their use, so that intent is signalled in time.
 *
 * The batches of a worker are one stream without end: batch i is used while the worker's clock is i.
 * When batch i is taken, all batches up to i + ahead have been prepared, and `prepare` has said by
 * params_intend(..., i, i + 1) which rows it needs. The loader works in the worker's thread, so there
 * is nothing to wait for. Epochs follow each other in the stream, and the first batches of an epoch
 * are known while the last of the one before are used.
 */
#ifndef TASKS_LOADER_H
#define TASKS_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills in the batch `clock` of the stream; called for 0, 1, 2 ... in this order. */
typedef bool loader_prepare(void *context, void *batch, uint64_t clock);

struct loader {
    loader_prepare *prepare;
    void *context;
    char *ring;
    size_t batch_bytes;
    size_t n_ring; /* 1 + how far ahead batches are prepared */
    uint64_t n_prepared, n_taken;
};

/* `ring` is an array of ahead + 1 batches of `batch_bytes`, which stays the caller's. */
void loader_init(struct loader *loader, void *ring, size_t batch_bytes, size_t ahead,
                 loader_prepare *prepare, void *context);

/* Prepares as many batches ahead as there is room for. Called before the first epoch, it gives Tern the
 * time to bring the first rows here; loader_next() does it otherwise. */
bool loader_fill(struct loader *loader);

/* The next batch, valid until the next call; NULL after task_fail(). */
void *loader_next(struct loader *loader);

#endif
