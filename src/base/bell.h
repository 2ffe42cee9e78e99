/*
 * bell - wakes threads of several processes that wait for a change in memory they share.
 *
 * A thread that waits reads the bell, looks whether what it waits for is there, and waits until the bell has rung since it
 * read it. A thread that changes something rings the bell afterwards. So no ring is missed. A bell of zeros is ready.
 */
#ifndef BASE_BELL_H
#define BASE_BELL_H

#include <stdatomic.h>
#include <stdint.h>

struct bell {
    _Atomic uint32_t n_rings;
    _Atomic uint32_t n_waiting; /* without any, ringing makes no system call */
};

static inline uint32_t bell_read(struct bell *bell)
{
    return atomic_load(&bell->n_rings);
}

void bell_ring(struct bell *bell);

/* Returns when the bell has rung since it read `seen`, after `most_ns` at the latest, or earlier. */
void bell_wait(struct bell *bell, uint32_t seen, uint64_t most_ns);

#endif
