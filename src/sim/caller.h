/*
 * caller - the client side of lanes in the simulation: what node/remote.c does with sockets.
 *
 * The rules are remote.c's: connect at first use, HELLO, then requests once welcomed; a connection
 * that breaks is made again after RETRY and all that is unanswered is sent again; a node that gives no
 * sign for the deadline, is known to be dead or was restarted fails what waits for it. A WELCOME alone
 * is no sign: a server that refuses every request welcomes each new connection. What waits for keys that
 * come to this node is tried again and again, up to the deadline.
 */
#ifndef SIM_CALLER_H
#define SIM_CALLER_H

#include "core/client.h"
#include "net/sim.h"
#include "sim/cutter.h"

/* What an end belongs to; first in `struct line` and `struct incoming`. */
struct holder {
    struct caller *caller; /* NULL: it is an incoming connection */
};

/* The connection of one lane. */
struct line {
    struct holder holder;
    struct lane *lane;
    struct sim_end *end; /* NULL: none */
    struct cutter cutter;
    bool welcomed;
    bool waits; /* for answers, when last looked at */
    uint64_t heard_ns, retry_ns;
    uint64_t incarnation; /* of the process that welcomed; 0: none yet */
    uint64_t n_resumed;   /* connections that were given up */
};

struct caller {
    struct sim *sim;
    struct client client;
    uint32_t id;  /* of its lanes */
    uint64_t tag; /* of its timer */
    uint64_t deadline_ns;
    const uint32_t *dead;   /* 1 + a node known to be dead; 0: none */
    uint64_t *n_redirected; /* counts answers MOVED */
    bool patient;           /* answers may rightly take long */
    uint64_t tick_ns;       /* when the timer comes; 0: it is not set */
    uint64_t local_ns;      /* since when keys are waited for that come to this node; 0: none are */
    bool waits;             /* for an answer, when it was last pumped */
    struct line *lines;     /* of the client's lanes */
};

/* For all shards of other nodes, or for a single one of each. */
enum tern_status caller_init(struct caller *caller, struct sim *sim, struct core *core);
enum tern_status caller_init_shard(struct caller *caller, struct sim *sim, struct core *core,
                                   uint32_t shard);
void caller_fini(struct caller *caller);

/* Appends the first frame of a connection. */
bool caller_hello(const struct core *core, uint32_t lane, uint32_t shard, struct buffer *out);

/* Reads it; false if it is not one. */
bool caller_read_hello(const struct frame *frame, const uint8_t *body, uint32_t n_nodes,
                       uint32_t *node);

/* Does what can be done here, sends what waits to be sent, and sees to it that the timer is set while
 * something waits. */
void caller_pump(struct caller *caller);

void caller_bytes(struct line *line, const uint8_t *bytes, size_t n);
void caller_closed(struct line *line);
void caller_tick(struct caller *caller);

#endif
