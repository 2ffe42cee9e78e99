/*
 * thread - starting the library's own threads.
 *
 * All of them block every signal, so that a program's signals go to the program's threads: to its handlers, or to its
 * sigwait. Signals of faults stay as they are: they are for the thread that caused them.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/status.h"

/* Starts a thread that blocks all signals. */
enum tern_status thread_start(pthread_t *thread, void *(*run)(void *), void *context);

#endif
