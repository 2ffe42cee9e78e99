/*
 * handle - what makes a wrong, closed or inherited handle an error instead of a crash.
 *
 * Every object given to the program begins with a struct handle that says what it is. Closing marks it
 * and puts its memory into a queue of the last HANDLE_KEPT closed ones; only what falls out at the
 * far end is freed. Objects therefore keep their large parts elsewhere and free those at once.
 *
 * A process that was forked has its parent's objects without the threads that serve them, and shares sockets and
 * memory with it. So all handles that are open when a process forks are marked in the child, and every call with one
 * is refused there. The check is the one that every call makes anyway.
 *
 * Any thread may call these at any time.
 */
#ifndef BASE_HANDLE_H
#define BASE_HANDLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/status.h"

enum { HANDLE_KEPT = 1024 };

enum handle_kind {
    HANDLE_NODE = 0x4e524554, /* "TERN" and its successors: not what stray memory holds */
    HANDLE_TABLE,
    HANDLE_WORKER,
    HANDLE_DIST,
    HANDLE_CHECKPOINT,
    HANDLE_ARRAY,
    HANDLE_SYMBOL,
    HANDLE_MODULE,
    HANDLE_ITERATOR,
    HANDLE_STORE,
    HANDLE_EMBEDDING,
    HANDLE_CLOSED,
    HANDLE_FORKED, /* opened by the process that this one was forked from */
};

struct handle {
    _Atomic uint32_t kind;
    struct handle *next, *before; /* of the list of open ones */
};

/* Opens a handle. It must be closed, not freed, from then on. */
void handle_init(struct handle *handle, enum handle_kind kind);

/* Whether `handle` is an open one of this kind: the check of the fast path. */
static inline bool handle_is(const struct handle *handle, enum handle_kind kind)
{
    return handle && atomic_load_explicit(&handle->kind, memory_order_relaxed) == kind;
}

/* The failure when it is not. */
enum tern_status handle_refuse(const struct handle *handle, enum handle_kind kind);

/* Whether this process was forked while handles were open. */
bool handle_was_forked(void);

/* Marks the handle closed and frees its memory when enough others have been closed after it. */
void handle_close(struct handle *handle);

#endif
