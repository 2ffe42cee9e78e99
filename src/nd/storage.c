/* storage - see storage.h. */
#include "nd/storage.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/status.h"

/*
 * Large pieces of memory that were given back wait here for the next array: the system would zero their pages again, which
 * takes longer than most operators. The one that waits longest goes when the others need its place.
 */
enum { SPARE_PIECES = 4, SPARE_LEAST = 1 << 20, SPARE_MOST = 1 << 26 };
enum { PAGE = 1 << 12, HUGE_PAGE = 1 << 21 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece {
    void *data;
    size_t bytes;
} spare[SPARE_PIECES];
static size_t spare_bytes;

/* Takes a piece out of the list; called with the lock. */
static void *take_piece(unsigned i)
{
    void *data = spare[i].data;
    spare_bytes -= spare[i].bytes;
    for (; i + 1 < SPARE_PIECES; i++)
        spare[i] = spare[i + 1];
    spare[i] = (struct piece){NULL, 0};
    return data;
}

void *storage_memory(size_t bytes)
{
    if (bytes < 2 * HUGE_PAGE)
        return aligned_alloc(64, bytes);
    char *data = aligned_alloc(HUGE_PAGE, (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    if (data)
        (void)madvise(data, bytes / PAGE * PAGE, MADV_HUGEPAGE); /* as numpy; it may not be had */
    return data;
}

static void *new_memory(size_t bytes)
{
    void *data = NULL;
    if (bytes >= SPARE_LEAST && bytes <= SPARE_MOST) {
        pthread_mutex_lock(&lock);
        for (unsigned i = 0; i < SPARE_PIECES && !data; i++)
            if (spare[i].bytes == bytes)
                data = take_piece(i);
        pthread_mutex_unlock(&lock);
    }
    return data ? data : storage_memory(bytes);
}

static void give_memory_back(void *data, size_t bytes)
{
    if (bytes < SPARE_LEAST || bytes > SPARE_MOST) {
        free(data);
        return;
    }
    pthread_mutex_lock(&lock);
    while (spare[0].data && (spare[SPARE_PIECES - 1].data || spare_bytes + bytes > SPARE_MOST))
        free(take_piece(0));
    unsigned i = 0;
    while (spare[i].data)
        i++;
    spare[i] = (struct piece){data, bytes};
    spare_bytes += bytes;
    pthread_mutex_unlock(&lock);
}

static enum tern_status make(void *data, struct storage **storage)
{
    struct storage *made = calloc(1, sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "there is no memory for an array");
    atomic_init(&made->refs, 1);
    made->data = data;
    *storage = made;
    return TERN_OK;
}

static void leave(void *context)
{
    (void)context;
}

enum tern_status storage_new(size_t bytes, struct storage **storage)
{
    const size_t rounded = (bytes + 63) / 64 * 64;
    void *data = new_memory(rounded);
    if (!data)
        return fail(TERN_NO_MEMORY, "there is no memory for an array of %zu bytes", bytes);
    enum tern_status status = make(data, storage);
    if (status)
        free(data);
    else
        (*storage)->bytes = rounded;
    return status;
}

enum tern_status storage_wrap(void *data, void (*release)(void *context), void *context,
                              struct storage **storage)
{
    enum tern_status status = make(data, storage);
    if (status)
        return status;
    (*storage)->release = release ? release : leave;
    (*storage)->context = context;
    atomic_store(&(*storage)->is_exposed, true);
    return TERN_OK;
}

struct storage *storage_keep(struct storage *storage)
{
    if (storage)
        atomic_fetch_add(&storage->refs, 1);
    return storage;
}

void storage_drop(struct storage *storage)
{
    if (!storage || atomic_fetch_sub(&storage->refs, 1) != 1)
        return;
    nd_engine_forget(&storage->variable);
    if (storage->release)
        storage->release(storage->context);
    else
        give_memory_back(storage->data, storage->bytes);
    free(storage);
}
