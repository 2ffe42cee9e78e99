/*
 * large - memory for large arrays that a program reads and writes here and there: in huge pages where the system gives them to
 * programs that ask (/sys/kernel/mm/transparent_hugepage/enabled is `madvise`), so that it has fewer pages to make and to find.
 */
#ifndef TASKS_LARGE_H
#define TASKS_LARGE_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LARGE_PAGE = 2 << 20 };

/* As malloc(); free() gives it back. */
static inline void *large_alloc(size_t n, size_t each)
{
    const size_t bytes = n * each, whole = (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    if (bytes < LARGE_PAGE || whole < bytes || bytes / each != n)
        return bytes / each == n ? malloc(bytes) : NULL;
    void *at = aligned_alloc(LARGE_PAGE, whole);
    if (at != NULL)
        (void)madvise(at, whole, MADV_HUGEPAGE);
    return at;
}

/* As calloc(). */
static inline void *large_zeros(size_t n, size_t each)
{
    void *at = large_alloc(n, each);
    return at != NULL ? memset(at, 0, n * each) : NULL;
}

#endif
