/* handle - see handle.h. */
#include "base/handle.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle *closed[HANDLE_KEPT];
static size_t n_closed;

static const char *kind_name(uint32_t kind)
{
    switch (kind) {
    case HANDLE_NODE:
        return "node";
    case HANDLE_TABLE:
        return "table";
    case HANDLE_WORKER:
        return "worker";
    case HANDLE_DIST:
        return "distribution";
    default:
        return "handle";
    }
}

enum tern_status handle_refuse(const struct handle *handle, enum handle_kind kind)
{
    const char *wanted = kind_name(kind);
    if (!handle)
        return fail(TERN_INVALID, "the %s is NULL", wanted);
    uint32_t found = atomic_load_explicit(&handle->kind, memory_order_relaxed);
    if (found == HANDLE_CLOSED)
        return fail(TERN_CLOSED, "the %s was closed before this call", wanted);
    return fail(TERN_INVALID, "a %s is needed here, but a %s was given", wanted, kind_name(found));
}

void handle_close(struct handle *handle)
{
    atomic_store_explicit(&handle->kind, HANDLE_CLOSED, memory_order_relaxed);
    pthread_mutex_lock(&lock);
    struct handle **place = &closed[n_closed++ % HANDLE_KEPT];
    struct handle *oldest = *place;
    *place = handle;
    pthread_mutex_unlock(&lock);
    free(oldest);
}
