/*
 * sentence - error messages of tasks.
 *
 * The function that detects a failure calls task_fail() once, with a sentence that names the cause. It returns false, and
 * all callers return false in turn. The sentence belongs to the thread. A team (team.h) copies it from a thread that failed
 * to the one that waits for it.
 */
#ifndef TASKS_SENTENCE_H
#define TASKS_SENTENCE_H

#include <stdbool.h>

/* Keeps the sentence for this thread; returns false. */
bool task_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same with what tern_error() says, after `doing`. */
bool task_fail_tern(const char *doing);

/* The same for an allocation that failed; `what` is what there is no memory for. */
bool task_fail_memory(const char *what);

/* The sentence of this thread's last failure. */
const char *task_error(void);

#endif
