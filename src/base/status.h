/*
 * status - how a failure is reported inside the library.
 *
 * The function that detects a failure calls fail() once, with the sentence a user will read, and
 * returns its status; everybody above hands the status on untouched. The sentence is kept per thread
 * until the next failure. Success costs nothing.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "tern/tern.h"

enum { STATUS_SENTENCE_BYTES = 512 }; /* the longest, with the 0 at the end */

/* Keeps the sentence for tern_error() and returns `status`. */
enum tern_status fail(enum tern_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* Between these, failures of this thread are nobody's but the code's in between: a connection that is made again, another
 * node's request that is refused. Their sentences are kept aside, so that tern_error() afterwards is what it was. */
void status_aside(void);
void status_back(void);

#endif
