/* pages - see pages.h. */
#include "base/pages.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool huge_pages_wanted(void)
{
    const char *choice = getenv("TERN_HUGE_PAGES");
    return !choice || strcmp(choice, "off") != 0;
}

static void *map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

/* Few bytes are taken from the heap: to map and unmap a page takes longer than to clear it. */
enum { HEAP_BYTES = 64 << 10 };

static void *take_from_heap(size_t bytes)
{
    enum { ALIGNMENT = 4096 };
    void *pages = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    return pages ? memset(pages, 0, bytes) : NULL;
}

void *pages_new(size_t bytes)
{
    if (bytes <= HEAP_BYTES)
        return take_from_heap(bytes);
    if (bytes < HUGE_PAGE_BYTES || !huge_pages_wanted())
        return map(bytes);
    if (bytes > SIZE_MAX - HUGE_PAGE_BYTES)
        return NULL;

    /* Map one huge page more than needed and return what lies outside the aligned part. */
    char *start = map(bytes + HUGE_PAGE_BYTES);
    if (!start)
        return NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used = (bytes + page - 1) / page * page;
    size_t before = -(uintptr_t)start % HUGE_PAGE_BYTES;
    size_t after = (bytes + HUGE_PAGE_BYTES + page - 1) / page * page - before - used;
    if (before)
        munmap(start, before);
    if (after)
        munmap(start + before + used, after);
    pages_ask_huge(start + before, used);
    return start + before;
}

void pages_ask_huge(void *pages, size_t bytes)
{
    if (huge_pages_wanted())
        madvise(pages, bytes, MADV_HUGEPAGE);
}

void pages_free(void *pages, size_t bytes)
{
    if (bytes <= HEAP_BYTES)
        free(pages);
    else if (pages)
        munmap(pages, bytes);
}

static void advise(void *pages, size_t bytes, int advice)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)pages + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)pages + bytes) / page * page;
    if (begin < end)
        madvise((void *)begin, end - begin, advice);
}

void pages_drop(void *pages, size_t bytes)
{
    advise(pages, bytes, MADV_DONTNEED);
}

void pages_drop_common(void *memory, size_t bytes)
{
    advise(memory, bytes, MADV_REMOVE);
}

/* The memory limit of the control group at `path`, or UINT64_MAX. */
static uint64_t group_limit(const char *path)
{
    uint64_t limit = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (!file)
        return limit;
    if (fscanf(file, "%" SCNu64, &limit) != 1)
        limit = UINT64_MAX;
    fclose(file);
    return limit;
}

uint64_t pages_machine_bytes(void)
{
    static _Atomic uint64_t known; /* 0: not yet */
    uint64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes)
        return bytes;
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t group = group_limit("/sys/fs/cgroup/memory.max");
    bytes = group < machine ? group : machine;
    atomic_store_explicit(&known, bytes, memory_order_relaxed);
    return bytes;
}
