/*
 * caller - lanes (core/lanes.h) over the simulated network: their driver on virtual time, as node/remote.c is on sockets.
 */
#ifndef SIM_CALLER_H
#define SIM_CALLER_H

#include "core/lanes.h"
#include "net/sim.h"
#include "wire/cutter.h"

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
};

struct caller {
    struct sim *sim;
    struct client client;
    struct lanes lanes;
    uint32_t id;            /* of its lanes */
    uint64_t tag;           /* of its timer */
    uint64_t *n_redirected; /* counts answers MOVED */
    bool patient;           /* the answer to its call may take long for a good reason */
    uint64_t tick_ns;       /* when the timer comes; 0: it is not set */
    struct line *lines;     /* of the client's lanes */
};

/* For all shards of other nodes, or for a single one of each. */
enum tern_status caller_init(struct caller *caller, struct sim *sim, struct core *core,
                             struct peers *peers);
enum tern_status caller_init_shard(struct caller *caller, struct sim *sim, struct core *core,
                                   struct peers *peers, uint32_t shard);
void caller_fini(struct caller *caller);

/* Appends the first frame of a connection. */
bool caller_hello(const struct core *core, uint64_t lane, uint32_t shard, struct buffer *out);

/* Reads it; false if it is not one. */
bool caller_read_hello(const struct frame *frame, const uint8_t *body, const struct view *view,
                       uint32_t *node);

void caller_bytes(struct line *line, const uint8_t *bytes, size_t n);
void caller_closed(struct line *line);
void caller_tick(struct caller *caller);

#endif
