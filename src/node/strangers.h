/*
 * strangers - connections whose handshake is not over, and which of them makes room for a new one.
 *
 * Anybody can open connections, so their number is bounded. When there are too many, a new one takes the place of an
 * old one, and the choice must not let those who open many push out those who open few:
 *
 *   1. nobody is chosen before it has had STRANGER_MIN_MS for its handshake;
 *   2. the source (stream_source) with the most strangers gives one up;
 *   3. among its strangers, one that has come least far does;
 *   4. among those, chance decides, so that nobody can arrange to be last.
 *
 * A handshake takes a few milliseconds, so a caller whose host has fewer strangers than others always completes it, and
 * one that shares its host with attackers completes it in one of few attempts.
 *
 * Belongs to a shard, under its lock.
 */
#ifndef NODE_STRANGERS_H
#define NODE_STRANGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STRANGERS_MAX = 1024,
    STRANGER_MIN_MS = 100,
};

/* How far a handshake has come. */
enum stage {
    STAGE_SILENT,     /* no byte has come */
    STAGE_HEARD,      /* some have */
    STAGE_CHALLENGED, /* HELLO has come, and with TLS a certificate of the authority */
    STAGE_PROVED,     /* the caller has the token */
};

struct stranger {
    struct stranger *next, *before;
    uint64_t source;
    uint64_t since_ns;
    enum stage stage;
};

struct strangers {
    struct stranger *first;
    size_t n;
    uint64_t n_chosen; /* seeds chance */
};

void strangers_add(struct strangers *strangers, struct stranger *stranger);
void strangers_remove(struct strangers *strangers, struct stranger *stranger);

/* The one that makes room; NULL while all are too young. */
struct stranger *strangers_choose(struct strangers *strangers, uint64_t now_ns);

#endif
