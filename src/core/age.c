/* age - see age.h. */
#include "core/age.h"

#include "update/age.h"

uint64_t age_note(const struct core_table *table)
{
    return 1 + atomic_load_explicit(&table->store.counts->n_pushes, memory_order_acquire);
}

static uint64_t step_of(uint64_t delay)
{
    const uint64_t step = delay ? 64 - (uint64_t)__builtin_clzll(delay) : 0;
    return step < TERN_DELAY_STEPS ? step : TERN_DELAY_STEPS - 1;
}

void age_begin(struct core_table *table, uint64_t note)
{
    struct age_counts *counts = &table->ages;
    struct tern_age age = {.t = 1 + atomic_fetch_add_explicit(&table->store.counts->n_pushes, 1,
                                                              memory_order_acq_rel)};
    /* A note of the future is none. */
    age.delay = note && note <= age.t ? age.t - note : 0;
    atomic_fetch_add_explicit(&counts->n, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->sum, age.delay, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->delays[step_of(age.delay)], 1, memory_order_relaxed);
    update_set_age(age);
}
