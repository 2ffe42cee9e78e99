/*
 * progress - how far an epoch is, counted by the worker threads and shown by the one that waits.
 *
 * On a terminal there is a bar with rate, loss and remaining time; otherwise nothing but the line each
 * epoch ends with. All of it goes to standard error.
 */
#ifndef TASKS_PROGRESS_H
#define TASKS_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one thread has done in this epoch; it alone writes. */
struct progress_slot {
    _Alignas(64) _Atomic uint64_t n_examples;
    _Atomic double loss;
};

struct progress {
    bool show_bar;
    bool bar_is_shown;
    size_t n_threads;
    struct progress_slot *slots;
    uint64_t n_total; /* examples of the epoch */
    char title[64];   /* "epoch 3 of 20" */
    const char *unit; /* "triples" */
    double started_s;
};

/* Seconds of a clock that only goes on. */
double seconds_now(void);

bool progress_init(struct progress *progress, size_t n_threads, bool show_bar);
void progress_fini(struct progress *progress);

/* Begins an epoch. */
void progress_begin(struct progress *progress, const char *title, const char *unit,
                    uint64_t n_total);

/* `thread` has done n more examples with this sum of losses. */
static inline void progress_add(struct progress *progress, size_t thread, uint64_t n, double loss)
{
    struct progress_slot *slot = &progress->slots[thread];
    atomic_store_explicit(&slot->n_examples,
                          atomic_load_explicit(&slot->n_examples, memory_order_relaxed) + n,
                          memory_order_relaxed);
    atomic_store_explicit(&slot->loss,
                          atomic_load_explicit(&slot->loss, memory_order_relaxed) + loss,
                          memory_order_relaxed);
}

/* What all threads have done so far. */
void progress_sum(const struct progress *progress, uint64_t *n_examples, double *loss);

/* Draws the bar anew; removes it. */
void progress_draw(struct progress *progress);
void progress_erase(struct progress *progress);

#endif
