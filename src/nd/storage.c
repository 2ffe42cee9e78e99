/* storage - see storage.h. */
#include "nd/storage.h"

#include <stdlib.h>

#include "base/status.h"

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
    void *data = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!data)
        return fail(TERN_NO_MEMORY, "there is no memory for an array of %zu bytes", bytes);
    enum tern_status status = make(data, storage);
    if (status)
        free(data);
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
        free(storage->data);
    free(storage);
}
