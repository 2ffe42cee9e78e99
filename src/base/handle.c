/* handle - see handle.h. */
#include "base/handle.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/lock.h"

static struct lock lock = LOCK_INITIALIZER(RANK_PROCESS);
static struct handle *closed[HANDLE_KEPT];
static size_t n_closed;
static struct handle *opened; /* a list */
static bool was_forked;

/* ---- Forking: the lock is held meanwhile, so that the child finds the list whole. ---------------- */

static void before_fork(void)
{
    lock_take(&lock);
}

static void after_fork(void)
{
    lock_release(&lock);
}

static void mark_forked(void)
{
    was_forked |= opened != NULL;
    for (struct handle *handle = opened; handle; handle = handle->next)
        atomic_store_explicit(&handle->kind, HANDLE_FORKED, memory_order_relaxed);
    opened = NULL;
    lock_release(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, mark_forked);
}

bool handle_was_forked(void)
{
    lock_take(&lock);
    bool was = was_forked;
    lock_release(&lock);
    return was;
}

/* -------------------------------------------------------------------------------------------------- */

void handle_init(struct handle *handle, enum handle_kind kind)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    lock_take(&lock);
    atomic_store_explicit(&handle->kind, kind, memory_order_relaxed);
    handle->before = NULL;
    handle->next = opened;
    if (opened)
        opened->before = handle;
    opened = handle;
    lock_release(&lock);
}

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
    case HANDLE_CHECKPOINT:
        return "checkpoint";
    case HANDLE_ARRAY:
        return "array";
    case HANDLE_SYMBOL:
        return "symbol";
    case HANDLE_MODULE:
        return "module";
    case HANDLE_ITERATOR:
        return "iterator";
    case HANDLE_STORE:
        return "store";
    case HANDLE_EMBEDDING:
        return "embedding";
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
    if (found == HANDLE_FORKED)
        return fail(
            TERN_CLOSED,
            "the %s was opened by the process that this one was forked from, and cannot be used "
            "here",
            wanted);
    return fail(TERN_INVALID, "a %s is needed here, but a %s was given", wanted, kind_name(found));
}

void handle_close(struct handle *handle)
{
    lock_take(&lock);
    atomic_store_explicit(&handle->kind, HANDLE_CLOSED, memory_order_relaxed);
    *(handle->before ? &handle->before->next : &opened) = handle->next;
    if (handle->next)
        handle->next->before = handle->before;
    struct handle **kept = &closed[n_closed++ % HANDLE_KEPT];
    struct handle *oldest = *kept;
    *kept = handle;
    lock_release(&lock);
    free(oldest);
}
