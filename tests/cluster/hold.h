/* hold - how the programs of tests/cluster end when a call fails that must not, or something does not hold. */
#ifndef CLUSTER_HOLD_H
#define CLUSTER_HOLD_H

#include <stdio.h>
#include <stdlib.h>

#include <tern/tern.h>

static inline void check(enum tern_status status)
{
    if (status != TERN_OK) {
        fprintf(stderr, "%s: %s\n", tern_status_name(status), tern_error());
        exit(1);
    }
}

#define hold(condition)                                                            \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "line %d: does not hold: %s\n", __LINE__, #condition); \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

#endif
