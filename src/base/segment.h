/*
 * segment - zeroed memory that several processes of one host have in common.
 *
 * A segment is known by a name, a number that fits into a message: who has it and belongs to the same user can attach
 * the memory. It has no file, and ends when the last process that has it lets it go or dies, be it by kill -9. (System V
 * shared memory, marked for removal from the beginning, which Linux still lets others attach.)
 *
 * The system may use huge pages for it, if it was told to: /sys/kernel/mm/transparent_hugepage/shmem_enabled.
 */
#ifndef BASE_SEGMENT_H
#define BASE_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Makes a segment, and its name, which is not 0. */
enum tern_status segment_new(size_t bytes, void **memory, uint64_t *name);

/* Attaches a segment of that size, made by this process or another. */
enum tern_status segment_attach(uint64_t name, size_t bytes, void **memory);

void segment_free(void *memory);

#endif
