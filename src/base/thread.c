/* thread - see thread.h. */
#include "base/thread.h"

#include <signal.h>
#include <string.h>

enum tern_status thread_start(pthread_t *thread, void *(*run)(void *), void *context)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&blocked, faults[i]);
    /* A new thread inherits the mask of the one that starts it. */
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    int failure = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure)
        return fail(TERN_NO_MEMORY, "no thread can be started: %s", strerror(failure));
    return TERN_OK;
}
