/*
 * progress - how far an epoch or an evaluation is: worker threads count, the thread that waits for them
 * draws.
 *
 * On a terminal there is a bar with the rate of the whole job, the loss and the time that is left until the
 * job ends; otherwise nothing but the row that each epoch ends with. All of it goes to standard error.
 */
#ifndef TASKS_PROGRESS_H
#define TASKS_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one thread has done; it alone writes. */
struct progress_slot {
    _Alignas(64) _Atomic uint64_t n_examples;
    _Atomic double loss;
};

/* What is counted: an epoch, or an evaluation. */
struct progress_phase {
    char title[48];   /* "epoch 3/20" */
    const char *unit; /* "triples" */
    uint64_t n_total; /* of this node */
    double n_all;     /* of all nodes; 0: nobody knows what the others do */
    double n_later;   /* phases as long as this one that follow it; below 0: nobody knows */
    double later_s;   /* further seconds after this phase, such as evaluations take */
    double
        time_limit_s; /* when training ends in any case, on the clock of seconds_now(); 0: none */
};

struct progress {
    bool show_bar;
    bool bar_is_shown;
    size_t n_threads;
    struct progress_slot *slots;
    struct progress_phase phase;
    uint64_t n_phases; /* that have begun: the same at all nodes */
    double started_s;
    /* How much other nodes have done; NULL: there are none. */
    double (*others)(void *context);
    void *context;
};

/* Seconds of a clock that only goes on. */
double seconds_now(void);

/* The CPU time that all threads of this process have taken. */
double seconds_of_cpu(void);

bool progress_init(struct progress *progress, size_t n_threads, bool show_bar);
void progress_fini(struct progress *progress);

/* Begins a phase: sets all counts to 0. */
void progress_begin(struct progress *progress, const struct progress_phase *phase);

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

/* What all threads of this node have done so far. */
void progress_sum(const struct progress *progress, uint64_t *n_examples, double *loss);

/* Draws the bar again; draws it for the last time and removes it, so that short work shows one as well; removes it. */
void progress_draw(struct progress *progress);
void progress_end(struct progress *progress);
void progress_erase(struct progress *progress);

/* "45 s", "3 min 20 s", "2 h 5 min". */
void print_duration(double seconds, char *text, size_t size);

#endif
