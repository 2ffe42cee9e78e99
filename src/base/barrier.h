/*
 * barrier - a memory barrier in all threads of the process at once.
 *
 * Two threads each write one place and then read the other's. With a full barrier in between at least one
 * of them sees what the other has written. Where one of the two is rare it can have the barriers of both:
 * the other then needs none, only that the compiler keeps the order (membarrier(2)).
 */
#ifndef BASE_BARRIER_H
#define BASE_BARRIER_H

#include <stdbool.h>

/* To be called once before the other; false if the system has no such barrier. */
bool barrier_prepare(void);

/* False if the system refuses it by now. */
bool barrier_everywhere(void);

#endif
