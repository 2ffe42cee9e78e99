/* segment - see segment.h. */
#include "base/segment.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <unistd.h>

#include "base/pages.h"

/* What a segment begins with. Numbers of segments that have ended are given out again; the word tells one from
 * another. */
struct head {
    uint32_t word;
};

enum { HEAD_BYTES = 4096 }; /* what is behind it is aligned to a page */

static enum tern_status refuse(int error)
{
    return fail(TERN_NO_MEMORY, "memory that the nodes of this host share cannot be had: %s",
                strerror(error));
}

/* Attaches a segment where huge pages may begin; NULL with errno. */
static struct head *attach(int id, size_t bytes)
{
    char *room = mmap(NULL, bytes + HUGE_PAGE_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t used = (bytes + page - 1) / page * page, before = -(uintptr_t)room % HUGE_PAGE_BYTES;
    void *memory = shmat(id, room + before, SHM_REMAP);
    const int error = errno;
    const bool failed = memory == (void *)-1;
    munmap(room, failed ? bytes + HUGE_PAGE_BYTES : before);
    errno = error;
    if (failed)
        return NULL;
    munmap(room + before + used, HUGE_PAGE_BYTES - before);
    pages_ask_huge(memory, used);
    madvise(memory, used, MADV_DONTDUMP); /* most of it may be room that is never used */
    return memory;
}

static uint64_t name_of(int id, uint32_t word)
{
    return (uint64_t)word << 32 | (uint32_t)id;
}

enum tern_status segment_new(size_t bytes, void **memory, uint64_t *name)
{
    uint32_t word = 0;
    if (getrandom(&word, sizeof word, 0) != (ssize_t)sizeof word || !word)
        word = (uint32_t)getpid() | 1;
    if (bytes > SIZE_MAX - HEAD_BYTES - HUGE_PAGE_BYTES)
        return refuse(ENOMEM);
    int id = shmget(IPC_PRIVATE, bytes + HEAD_BYTES, IPC_CREAT | SHM_NORESERVE | 0600);
    if (id < 0)
        return refuse(errno);
    struct head *head = attach(id, bytes + HEAD_BYTES);
    const int error = errno;
    shmctl(id, IPC_RMID, NULL);
    if (!head)
        return refuse(error);
    head->word = word;
    *memory = (char *)head + HEAD_BYTES;
    *name = name_of(id, word);
    return TERN_OK;
}

enum tern_status segment_attach(uint64_t name, size_t bytes, void **memory)
{
    const int id = (int)(uint32_t)name;
    struct shmid_ds facts;
    if (shmctl(id, IPC_STAT, &facts))
        return refuse(errno);
    if (facts.shm_segsz != bytes + HEAD_BYTES)
        return fail(TERN_NO_MEMORY,
                    "memory that the nodes of this host share has %zu bytes, not %zu: has one of them "
                    "less memory than others?",
                    (size_t)facts.shm_segsz, bytes + HEAD_BYTES);
    struct head *head = attach(id, bytes + HEAD_BYTES);
    if (!head)
        return refuse(errno);
    if (head->word != (uint32_t)(name >> 32)) {
        shmdt(head);
        return refuse(EIDRM);
    }
    *memory = (char *)head + HEAD_BYTES;
    return TERN_OK;
}

void segment_free(void *memory)
{
    if (memory)
        shmdt((char *)memory - HEAD_BYTES);
}
