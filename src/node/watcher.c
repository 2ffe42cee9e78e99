/* watcher - see watcher.h. */
#include "node/watcher.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "node/node.h"
#include "store/undo.h"

enum {
    LOOK_MS =
        20, /* how often it looks while a name is missing, or the end of a process is not told */
};

#define MS UINT64_C(1000000)

/* ---- Names -------------------------------------------------------------------------------------- */

void watcher_sign(struct watched_name *name)
{
    uint32_t missing = NAME_MISSING;
    if (!process_self(&name->name))
        name->name = (struct process_name){0}; /* of which nobody will know what became */
    (void)atomic_compare_exchange_strong_explicit(&name->state, &missing, NAME_WRITTEN,
                                                  memory_order_release, memory_order_relaxed);
}

void watcher_part(struct watched_name *name, bool leaves)
{
    uint32_t state = leaves ? NAME_WRITTEN : NAME_LEFT;
    (void)atomic_compare_exchange_strong_explicit(&name->state, &state,
                                                  leaves ? NAME_LEFT : NAME_WRITTEN,
                                                  memory_order_release, memory_order_relaxed);
}

bool watcher_has_signed(const struct watched_name *name)
{
    return atomic_load_explicit(&name->state, memory_order_relaxed) == NAME_WRITTEN;
}

/* Takes the descriptor of a process that has written its name. */
static void find(struct watched *process, const struct watched_name *name)
{
    if (atomic_load_explicit(&name->state, memory_order_acquire) != NAME_WRITTEN)
        return;
    switch (process_find(&name->name, &process->fd)) {
    case PROCESS_LIVES:
        break;
    case PROCESS_GONE:
        process->is_gone = true;
        process->gone_ns = clock_now_ns();
        break;
    case PROCESS_UNKNOWN:
        process->is_unknown = true;
    }
}

/* Looks for the names that are still missing, and bars those of processes that were given up. False: some may still come. */
static bool look_for_names(struct watcher *watcher)
{
    struct engine *engine = watcher->engine;
    struct member *member = watcher->member;
    bool has_all = true;
    lock_take(&member->lock);
    view_each (i, engine->views[0]) {
        struct watched *process = &watcher->processes[i];
        const bool is_present = view_is_present(watcher->view, i);
        for (struct table_segment *segment = member->segments; segment; segment = segment->next) {
            if (!segment->names || i == engine->core.node)
                continue;
            uint32_t missing = NAME_MISSING;
            if (!is_present)
                (void)atomic_compare_exchange_strong(&segment->names[i].state, &missing,
                                                     NAME_BARRED);
            if (process->fd < 0 && !process->is_gone && !process->is_unknown)
                find(process, &segment->names[i]);
        }
        has_all &= i == engine->core.node || !is_present || process->fd >= 0 || process->is_gone ||
                   process->is_unknown;
    }
    lock_release(&member->lock);
    return has_all;
}

/* ---- Processes that are gone -------------------------------------------------------------------- */

/* Each table with backups in the memory of this host. */
static void mend(struct watcher *watcher, uint32_t node, bool is_lost)
{
    struct engine *engine = watcher->engine;
    size_t n = 0;
    engine_lock(engine);
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table =
            atomic_load_explicit(&engine->core.tables[i], memory_order_acquire);
        if (!table || !table->store.gates)
            continue;
        if (is_lost)
            watch_lose(table->store.watch, node + 1);
        else
            n += undo_mend(&table->store, node);
    }
    engine_unlock(engine);
    if (n)
        log_line("node %" PRIu32 " has ended; what it was doing behind %zu gates was taken back",
                 node, n);
}

/* Says that a process has ended, until there is a view without it; not for ever, because it may have left in good order. */
static void tell(struct watcher *watcher, uint32_t node)
{
    struct peers *peers = &watcher->engine->peers;
    struct watched *process = &watcher->processes[node];
    process->is_told = !view_is_present(watcher->view, node) ||
                       clock_now_ns() > process->gone_ns + 2 * peers->deadline_ns;
    if (process->is_told)
        return;
    atomic_store_explicit(&peers->unserved, node + 1, memory_order_relaxed);
    engine_fetch_view(watcher->engine);
}

/* Whether a process has said that it leaves. */
static bool has_left(struct watcher *watcher, uint32_t node)
{
    struct member *member = watcher->member;
    bool has_left = false;
    lock_take(&member->lock);
    for (struct table_segment *segment = member->segments; segment; segment = segment->next)
        has_left |= segment->names && atomic_load_explicit(&segment->names[node].state,
                                                           memory_order_acquire) == NAME_LEFT;
    lock_release(&member->lock);
    return has_left;
}

static void look_after(struct watcher *watcher, uint32_t node)
{
    struct watched *process = &watcher->processes[node];
    const bool is_present = view_is_present(watcher->view, node);
    const bool is_given_up = !view_is_present(watcher->view, watcher->engine->core.node);
    if (process->fd >= 0 && process_is_gone(process->fd)) {
        close(process->fd);
        process->fd = -1;
        process->is_gone = true;
        process->gone_ns = clock_now_ns();
    }
    if (process->is_gone)
        mend(watcher, node, false);
    if (process->is_gone && !process->is_told)
        tell(watcher, node);
    if (is_present || is_given_up || process->is_gone || process->is_killed ||
        has_left(watcher, node))
        return;
    if (process->fd >= 0)
        process->is_killed = process_kill(process->fd);
    if (process->is_killed)
        log_notice("node %" PRIu32 ", which was given up and shares tables, was killed", node);
    else if (process->fd >= 0 || process->is_unknown)
        mend(watcher, node, true);
}

/* ---- The thread --------------------------------------------------------------------------------- */

static bool is_over(const struct watcher *watcher)
{
    return atomic_load_explicit(&watcher->engine->peers.stop, memory_order_acquire);
}

/* Sleeps until a process is gone, or there is another table or view, or for LOOK_MS. */
static void sleep_until_change(struct watcher *watcher, struct pollfd *polled, bool looks_again)
{
    nfds_t n = 0;
    uint64_t count;
    polled[n++] = (struct pollfd){.fd = watcher->wake_fd, .events = POLLIN};
    for (uint32_t i = 0; i < watcher->n; i++)
        if (watcher->processes[i].fd >= 0)
            polled[n++] = (struct pollfd){.fd = watcher->processes[i].fd, .events = POLLIN};
    (void)poll(polled, n, looks_again ? LOOK_MS : -1);
    if (polled[0].revents)
        (void)!read(watcher->wake_fd, &count, sizeof count);
}

static void *watcher_main(void *context)
{
    struct watcher *watcher = context;
    struct pollfd *polled = calloc(watcher->n + 1, sizeof *polled);
    while (polled && !is_over(watcher)) {
        engine_lock(watcher->engine);
        watcher->view = watcher->engine->core.view;
        engine_unlock(watcher->engine);
        bool looks_again = !look_for_names(watcher);
        view_each (i, watcher->engine->views[0]) {
            if (i == watcher->engine->core.node)
                continue;
            look_after(watcher, i);
            looks_again |= watcher->processes[i].is_gone && !watcher->processes[i].is_told;
        }
        sleep_until_change(watcher, polled, looks_again);
    }
    free(polled);
    return NULL;
}

void watcher_init(struct watcher *watcher, struct engine *engine)
{
    *watcher = (struct watcher){.engine = engine, .wake_fd = -1};
}

enum tern_status watcher_start(struct watcher *watcher, struct member *member)
{
    if (atomic_load_explicit(&watcher->is_running, memory_order_relaxed)) {
        watcher_wake(watcher);
        return TERN_OK;
    }
    const uint32_t n = view_capacity(watcher->engine->views[0]);
    watcher->member = member;
    watcher->n = n;
    watcher->processes = calloc(n, sizeof *watcher->processes);
    watcher->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    enum tern_status status = TERN_OK;
    if (!watcher->processes || watcher->wake_fd < 0)
        status = fail(TERN_NO_MEMORY, "no memory, or no descriptor, to watch the processes of this "
                                      "host");
    for (uint32_t i = 0; !status && i < n; i++)
        watcher->processes[i].fd = -1;
    if (!status)
        status = thread_start(&watcher->thread, watcher_main, watcher);
    if (!status) {
        atomic_store_explicit(&watcher->is_running, true, memory_order_release);
        return TERN_OK;
    }
    free(watcher->processes);
    if (watcher->wake_fd >= 0)
        close(watcher->wake_fd);
    watcher->processes = NULL;
    watcher->wake_fd = -1;
    return status;
}

void watcher_fini(struct watcher *watcher)
{
    if (!atomic_load_explicit(&watcher->is_running, memory_order_acquire))
        return;
    watcher_wake(watcher);
    pthread_join(watcher->thread, NULL);
    for (uint32_t i = 0; i < watcher->n; i++)
        if (watcher->processes[i].fd >= 0)
            close(watcher->processes[i].fd);
    free(watcher->processes);
    close(watcher->wake_fd);
    atomic_store_explicit(&watcher->is_running, false, memory_order_relaxed);
}

void watcher_wake(struct watcher *watcher)
{
    const uint64_t one = 1;
    if (atomic_load_explicit(&watcher->is_running, memory_order_acquire))
        (void)!write(watcher->wake_fd, &one, sizeof one);
}
