/*
 * watcher - notices when a process of this host that shares tables with backups with this one is gone, and takes back what it
 * has left half done (store/undo.h).
 *
 * Each process writes its name (base/process.h) into the memory of such a table when it maps it. A thread of every other one
 * takes a descriptor of the process and sleeps until the process is gone. Then it
 *
 *  1. mends the tables, and
 *  2. says to the coordinator, by the next pulse, that the process has ended, until there is a view without it (core/group.h).
 *
 * A process that was given up and is not gone, because it was stopped, is killed; one that has left has said that it writes no more. Until it is gone nothing of it is mended: so
 * it cannot wake up and write. If the system does not say what became of it, the tables are lost, as without backups. A
 * process that was given up before it has written its name cannot do so any more, and so does not get the table.
 *
 * The thread is started with the first such table. It takes the locks of the segments, and of the shards.
 */
#ifndef NODE_WATCHER_H
#define NODE_WATCHER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/process.h"
#include "base/status.h"

struct engine;
struct member;
struct view;

/* In shared memory: the name of a process. */
struct watched_name {
    _Atomic uint32_t state; /* enum watched_state; release and acquire: the name */
    struct process_name name;
};

enum watched_state {
    NAME_MISSING,
    NAME_WRITTEN,
    NAME_LEFT,  /* the process has left: it does not write any more */
    NAME_BARRED /* the process was given up before */
};

/* What is known of a process. */
struct watched {
    int fd;       /* -1: none */
    bool is_gone; /* its tables are to be mended */
    bool is_told; /* there is a view without it, or it need not be told any more */
    bool is_killed, is_unknown;
    uint64_t gone_ns;
};

struct watcher {
    struct engine *engine;
    struct member *member;
    const struct view *view;   /* as of now */
    struct watched *processes; /* by number of node, */
    uint32_t n;                /* below this */
    int wake_fd;
    pthread_t thread;
    atomic_bool is_running;
};

void watcher_init(struct watcher *watcher, struct engine *engine);

/* Starts the thread, or wakes it if it runs: there is another table. The caller holds the node's lock. */
enum tern_status watcher_start(struct watcher *watcher, struct member *member);

/* Ends the thread, after peers.stop is set. */
void watcher_fini(struct watcher *watcher);

/* There is another view. */
void watcher_wake(struct watcher *watcher);

/* Writes this process's name, unless it was given up; and whether that was done. */
void watcher_sign(struct watched_name *name);
/* This process writes no more to a table, since it leaves; or it does, after all. */
void watcher_part(struct watched_name *name, bool leaves);
bool watcher_has_signed(const struct watched_name *name);

#endif
