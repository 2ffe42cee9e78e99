/*
 * pages - large zeroed memory straight from the system.
 *
 * A reservation costs address space; a page costs memory once it is touched. Reservations of at least
 * one huge page are aligned to it and ask for transparent huge pages, because a random access to a
 * row otherwise pays a TLB miss on top of the cache miss (figures in docs/decisions/003). The
 * environment variable TERN_HUGE_PAGES=off declines both. Small ones come from the heap.
 */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>
#include <stdint.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

/* Zeroed memory, at least 4 KiB aligned; NULL when the system refuses. */
void *pages_new(size_t bytes);

/* The same where perhaps a small part in front is all that will be used: that takes no more than its own pages. */
void *pages_new_growing(size_t bytes);

void pages_free(void *pages, size_t bytes);

/* Asks for huge pages for mapped memory, unless they are declined. */
void pages_ask_huge(void *pages, size_t bytes);

/* Gives the memory of all whole pages back but keeps the addresses valid: they read as zero from now on. */
void pages_drop(void *pages, size_t bytes);

/* The same for memory that processes have in common (segment.h). */
void pages_drop_shared(void *memory, size_t bytes);

/* Bytes of memory this machine, or the container the process is in, has. */
uint64_t pages_machine_bytes(void);

/* The memory limit of the control groups, of version 1 or 2, that the file `groups` (/proc/self/cgroup) names, which are
 * below the folder `root`; UINT64_MAX if there is none. */
uint64_t pages_group_limit(const char *groups, const char *root);

#endif
