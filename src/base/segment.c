/* segment - see segment.h. */
#include "base/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/pages.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* Those that were made here. */
static struct lock lock = LOCK_INITIALIZER(RANK_PROCESS);
static struct segment *made_here;

static enum tern_status refuse(int error)
{
    return fail(TERN_NO_MEMORY, "memory that the processes of this host share cannot be had: %s",
                strerror(error));
}

static size_t whole_pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Maps a descriptor where huge pages may begin; NULL with errno. */
static void *map(int fd, size_t bytes)
{
    const size_t used = whole_pages(bytes);
    char *room = mmap(NULL, used + HUGE_PAGE_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    const size_t before = -(uintptr_t)room % HUGE_PAGE_BYTES;
    void *memory = mmap(room + before, used, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
    const int error = errno;
    const bool failed = memory == MAP_FAILED;
    if (before)
        munmap(room, before);
    munmap(room + before + (failed ? 0 : used), HUGE_PAGE_BYTES - before + (failed ? used : 0));
    errno = error;
    if (failed)
        return NULL;
    pages_ask_huge(memory, used);
    madvise(memory, used, MADV_DONTDUMP); /* most of it may be room that is never used */
    return memory;
}

static uint64_t make_number(uint16_t maker)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        number = clock_now_ns();
    return (uint64_t)maker << 48 | number >> 16 | 1;
}

/* A segment on a descriptor, which it owns; NULL with errno. */
static struct segment *open_on(int fd, size_t bytes, uint64_t number)
{
    struct segment *segment = calloc(1, sizeof *segment);
    if (!segment)
        return NULL;
    *segment =
        (struct segment){.memory = map(fd, bytes), .bytes = bytes, .number = number, .fd = fd};
    if (segment->memory)
        return segment;
    const int error = errno;
    free(segment);
    errno = error;
    return NULL;
}

enum tern_status segment_new(size_t bytes, uint16_t maker, struct segment **segment)
{
    if (bytes > (size_t)PTRDIFF_MAX - HUGE_PAGE_BYTES)
        return refuse(ENOMEM);
    int fd = memfd_create("tern table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return refuse(errno);
    struct segment *made = NULL;
    if (!ftruncate(fd, (off_t)whole_pages(bytes)) && !fcntl(fd, F_ADD_SEALS, SEALS))
        made = open_on(fd, bytes, make_number(maker));
    if (!made) {
        const int error = errno;
        close(fd);
        return refuse(error);
    }
    lock_take(&lock);
    made->next = made_here;
    made_here = made;
    lock_release(&lock);
    *segment = made;
    return TERN_OK;
}

/* Whether a descriptor that came is of memory as it should be: a memfd of this user's that nobody can cut short. */
static enum tern_status check(int fd, size_t bytes)
{
    struct stat about;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &about))
        return fail(TERN_NO_MEMORY, "what another process sent as shared memory is none");
    if (about.st_uid != geteuid())
        return fail(TERN_NO_MEMORY, "shared memory that came belongs to another user (uid %u)",
                    (unsigned)about.st_uid);
    if ((uint64_t)about.st_size != whole_pages(bytes))
        return fail(
            TERN_NO_MEMORY,
            "memory that the processes of this host share has %zu bytes, not %zu: has one of them "
            "less memory than others?",
            (size_t)about.st_size, whole_pages(bytes));
    return TERN_OK;
}

enum tern_status segment_map(int fd, size_t bytes, uint64_t number, struct segment **segment)
{
    enum tern_status status = check(fd, bytes);
    struct segment *made = status ? NULL : open_on(fd, bytes, number);
    if (!status && !made)
        status = refuse(errno);
    close(fd);
    if (status)
        return status;
    made->fd = -1;
    *segment = made;
    return TERN_OK;
}

int segment_descriptor(uint64_t number)
{
    lock_take(&lock);
    const struct segment *found = made_here;
    while (found && found->number != number)
        found = found->next;
    int fd = found ? fcntl(found->fd, F_DUPFD_CLOEXEC, 0) : -1;
    lock_release(&lock);
    return fd;
}

void segment_close(struct segment *segment)
{
    if (!segment)
        return;
    if (segment->fd >= 0) {
        lock_take(&lock);
        struct segment **at = &made_here;
        while (*at != segment)
            at = &(*at)->next;
        *at = segment->next;
        lock_release(&lock);
        close(segment->fd);
    }
    munmap(segment->memory, whole_pages(segment->bytes));
    free(segment);
}
