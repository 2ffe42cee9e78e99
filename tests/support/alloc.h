/*
 * alloc - counts the allocations of the code under test, and makes chosen ones fail.
 *
 * The linker's --wrap sends every malloc, calloc, realloc, aligned_alloc and mmap of the objects of a
 * test program, library and test alike, through alloc.c; those of shared libraries (libc, cmocka) are
 * neither seen nor touched. A failing one returns NULL or MAP_FAILED with errno ENOMEM. All of it may
 * be used from any thread.
 */
#ifndef SUPPORT_ALLOC_H
#define SUPPORT_ALLOC_H

#include <stdint.h>

/* Allocations asked for since the program started, failed ones included. */
uint64_t alloc_count(void);

/* The n-th allocation from now fails, and only that one; 0 disarms. */
void alloc_fail_at(uint64_t n);

/* The n-th allocation from now fails, and every one after it until the next call; 0 disarms. */
void alloc_fail_from(uint64_t n);

#endif
