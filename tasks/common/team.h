/*
 * team - threads that do one thing together, while the one that waits for them looks after progress.
 */
#ifndef TASKS_TEAM_H
#define TASKS_TEAM_H

#include <stdbool.h>
#include <stddef.h>

/* What each thread does; `thread` counts from 0. False after task_fail(). */
typedef bool team_function(void *context, size_t thread);

/*
 * Runs `work` in n_threads threads and returns when all have ended: false, with the sentence of the
 * thread that failed first, when one did. `tick`, unless NULL, is called five times a second meanwhile,
 * by the calling thread and with the same context; it also gets to know whether a thread has failed,
 * so that it can stop the others.
 */
bool team_run(size_t n_threads, team_function *work, void (*tick)(void *context, bool failed),
              void *context);

#endif
