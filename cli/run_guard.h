/*
 * run_guard - a process that clears up after `tern run`, however that ends.
 *
 * The guard waits at the end of a pipe that only `tern run` holds. When the pipe closes, because
 * tern run has finished or was killed, the guard kills what is left of the process groups it was
 * told of and removes the folder of the nodes' sockets. It is in a session of its own, so that what
 * is meant for tern run's terminal or group does not reach it.
 */
#ifndef CLI_RUN_GUARD_H
#define CLI_RUN_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

enum { RUN_MAX_NODES = 1024 };

struct guard {
    pid_t pid;
    int fd;
};

/* Starts the guard of `folder`, or of none when it is "". SIGINT, SIGTERM and SIGHUP are blocked and
 * SIGPIPE is ignored already. False, with errno, when there can be none; the folder is gone then. */
bool guard_start(struct guard *guard, const char *folder);

/* Tells of a process group to be killed at the end; at most RUN_MAX_NODES. */
void guard_add(const struct guard *guard, pid_t group);

/* All have ended of themselves: none of the groups is to be killed. */
void guard_forget(const struct guard *guard);

/* Lets the guard do its work and waits until it is done. */
void guard_finish(struct guard *guard);

#endif
