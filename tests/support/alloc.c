/*
 * alloc - see alloc.h.
 *
 * `asked` numbers the allocations; those numbered first_failing .. last_failing fail. Arming beside
 * running threads is exact only about allocations that start later, which is all a test can want.
 */
#include "support/alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__real_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset);

static atomic_uint_fast64_t asked;
static atomic_uint_fast64_t first_failing = UINT64_MAX;
static atomic_uint_fast64_t last_failing = UINT64_MAX;

uint64_t alloc_count(void)
{
    return atomic_load(&asked);
}

static void arm(uint64_t n, uint64_t n_failing)
{
    atomic_store(&first_failing, UINT64_MAX);
    if (n == 0)
        return;
    uint64_t first = atomic_load(&asked) + n;
    atomic_store(&last_failing,
                 n_failing > UINT64_MAX - first ? UINT64_MAX : first + n_failing - 1);
    atomic_store(&first_failing, first);
}

void alloc_fail_at(uint64_t n)
{
    arm(n, 1);
}

void alloc_fail_from(uint64_t n)
{
    arm(n, UINT64_MAX);
}

static bool refuse(void)
{
    uint64_t number = atomic_fetch_add(&asked, 1) + 1;
    if (number < atomic_load(&first_failing) || number > atomic_load(&last_failing))
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return refuse() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refuse() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return refuse() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return refuse() ? NULL : __real_aligned_alloc(alignment, size);
}

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    return refuse() ? MAP_FAILED : __real_mmap(address, length, protection, flags, file, offset);
}
