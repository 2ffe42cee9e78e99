/*
 * interrupt - asks the program whether the call that this thread waits in should end.
 *
 * The program gives a check function per thread (tern_set_interrupt). Every loop that may wait for long calls
 * interrupt_check and ends with its failure. Threads of the library have no check and are never interrupted.
 */
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

#include "base/status.h"

enum {
    INTERRUPT_MS = 50
}; /* between two calls of the check; no wait sleeps longer if there is one */

/* Whether this thread has a check. */
bool interrupt_is_set(void);

/* TERN_INTERRUPTED, with its sentence, when the check says so. Calls the check at most every INTERRUPT_MS. */
enum tern_status interrupt_check(void);

#endif
