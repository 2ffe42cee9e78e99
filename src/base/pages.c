/* pages - see pages.h. */
#include "base/pages.h"

#include <inttypes.h>
#include <limits.h>
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

/* Maps one huge page more than needed and returns what lies outside the aligned part. */
static char *map_aligned(size_t bytes)
{
    char *start = bytes > SIZE_MAX - HUGE_PAGE_BYTES ? NULL : map(bytes + HUGE_PAGE_BYTES);
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
    return start + before;
}

/* As pages_new; the first `small` bytes do not ask for huge pages. */
static void *new_pages(size_t bytes, size_t small)
{
    if (bytes <= HEAP_BYTES)
        return take_from_heap(bytes);
    if (bytes < HUGE_PAGE_BYTES + small || !huge_pages_wanted())
        return map(bytes);
    char *pages = map_aligned(bytes);
    if (pages)
        pages_ask_huge(pages + small, bytes - small);
    return pages;
}

void *pages_new(size_t bytes)
{
    return new_pages(bytes, 0);
}

void *pages_new_growing(size_t bytes)
{
    return new_pages(bytes, HUGE_PAGE_BYTES);
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

void pages_drop_shared(void *memory, size_t bytes)
{
    advise(memory, bytes, MADV_REMOVE);
}

/* The number in a file, or UINT64_MAX. */
static uint64_t read_limit(const char *path)
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

/* Whether a list with commas has a word. */
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    while (strncmp(list, word, length) || (list[length] && list[length] != ',')) {
        list += strcspn(list, ",");
        if (!*list++)
            return false;
    }
    return true;
}

/* The lowest limit of a control group and all those that it is in: the files of that name in `path` below `root` and in
 * the folders above it. Inside a container the path may be one of the host's, and then only the root is there. */
static uint64_t lowest_limit(const char *root, char *path, const char *file)
{
    uint64_t lowest = UINT64_MAX;
    for (bool more = true; more;) {
        char name[PATH_MAX];
        snprintf(name, sizeof name, "%s%s/%s", root, path, file);
        const uint64_t limit = read_limit(name);
        lowest = limit < lowest ? limit : lowest;
        char *last = strrchr(path, '/');
        more = last != NULL;
        if (last)
            *last = '\0';
    }
    return lowest;
}

uint64_t pages_group_limit(const char *groups, const char *root)
{
    uint64_t lowest = UINT64_MAX;
    FILE *file = fopen(groups, "re");
    char line[PATH_MAX], v1_root[PATH_MAX];
    snprintf(v1_root, sizeof v1_root, "%s/memory", root);
    while (file && fgets(line, sizeof line, file)) {
        /* NUMBER:CONTROLLERS:PATH, where version 2 is number 0 without controllers. */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'),
             *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        uint64_t limit = UINT64_MAX;
        if (!strcmp(line, "0:"))
            limit = lowest_limit(root, path, "memory.max");
        else if (has_word(controllers + 1, "memory"))
            limit = lowest_limit(v1_root, path, "memory.limit_in_bytes");
        lowest = limit < lowest ? limit : lowest;
    }
    if (file)
        fclose(file);
    return lowest;
}

uint64_t pages_machine_bytes(void)
{
    static _Atomic uint64_t known; /* 0: not yet */
    uint64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes)
        return bytes;
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t group = pages_group_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    bytes = group < machine ? group : machine;
    atomic_store_explicit(&known, bytes, memory_order_relaxed);
    return bytes;
}
