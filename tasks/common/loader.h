/*
 * loader - prepares a worker's batches ahead of their use, so that intent is signalled in time.
 *
 * The batches of a worker are one stream without end: batch i is used while the worker's clock is i.
 * Before a batch is taken, the batches that follow it are prepared as far as the look-ahead reaches, and
 * `prepare` has called params_intend(..., i, i + 1) for the rows of batch i. The look-ahead is a time, because Tern
 * needs time, not batches, to bring rows: the loader measures how long a batch takes and prepares as many as fill that
 * time. It works in the worker's thread, so there is nothing to wait for. Epochs follow each other in
 * the stream: the first batches of an epoch are prepared while the last of the one before are used.
 *
 * How far a loader is ahead depends on the machine's speed, so `prepare` must not share a random stream
 * with what uses the batches: the same seed would give other results.
 */
#ifndef TASKS_LOADER_H
#define TASKS_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The batches of a task. */
struct loader_batches {
    size_t bytes;                             /* of the struct of a batch, which is zeroed */
    bool (*init)(void *context, void *batch); /* NULL: there is nothing to do */
    void (*fini)(void *batch);                /* NULL: likewise */
    /* Fills in the batch `clock` of the stream; called for 0, 1, 2 ... in this order. */
    bool (*prepare)(void *context, void *batch, uint64_t clock);
};

struct loader {
    struct loader_batches batches;
    void *context;
    double (*now)(void); /* seconds_now(), but in tests */
    double ahead_s;      /* the look-ahead */
    double batch_s;      /* how long a batch takes, on average; 0: not known yet */
    double taken_s;      /* when the last one was taken */
    void **ring;         /* batch i is at ring[i % n_ring]; NULL: not made yet */
    size_t n_ring;
    uint64_t n_prepared, n_taken;
};

/* With ahead_s = 0 a batch is prepared when it is taken. loader_fini() is due in any case. */
bool loader_init(struct loader *loader, const struct loader_batches *batches, void *context,
                 double ahead_s);
void loader_fini(struct loader *loader);

/* Prepares as many batches as the look-ahead wants. Called before the first epoch, it gives Tern the time to
 * bring the first rows; loader_next() does it otherwise. */
bool loader_fill(struct loader *loader);

/* The stream has changed: the batches that were not taken yet are prepared anew when they are needed. `drop` is called with
 * each as it was before; it may be NULL. */
bool loader_renew(struct loader *loader, bool (*drop)(void *context, void *batch));

/* The next batch, valid until the next call; NULL after task_fail(). */
void *loader_next(struct loader *loader);

#endif
