/*
 * sim - a simulated network: byte streams between nodes of one thread, on virtual time, from one seed.
 *
 * A connection is two ends. Bytes written to one are cut at arbitrary places and come out at the
 * other in order, each piece after a delay of its own. The owner of the network takes one event after
 * another with sim_next(), which moves the time; whatever it does about it happens at that instant.
 *
 *  1. Within one direction of a connection the order of bytes is kept; between connections it is not.
 *  2. A broken connection loses a random tail of what is under way in each direction, and each end is
 *     told at a time of its own; until then it writes into nothing.
 *  3. A paused node gets no event; a link that is cut carries nothing. What would have come, comes
 *     when that ends.
 *  4. Everything follows from the seed and the calls: no address, clock or uninitialised byte counts.
 *     sim_trace() is a hash of all that happened, the same for every compiler.
 *
 * A network belongs to one thread. Ends live until sim_free().
 */
#ifndef NET_SIM_H
#define NET_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;

struct sim_end {
    uint32_t node; /* where it is */
    bool open;     /* false once it was closed here, or its SIM_CLOSED was taken */
    void *owner;   /* the user's */
};

enum sim_what {
    SIM_ACCEPTED, /* a connection has come to `node`: `end` */
    SIM_BYTES,    /* `bytes` have come to `end` */
    SIM_CLOSED,   /* the connection of `end` is over */
    SIM_TIMER,    /* set by sim_timer */
};

struct sim_event {
    enum sim_what what;
    uint32_t node;
    struct sim_end *end;
    const uint8_t *bytes; /* until the next event is taken */
    size_t n_bytes;
    uint64_t tag;
};

enum sim_fault { SIM_DELAY, SIM_BREAK, SIM_PAUSE, SIM_PARTITION, SIM_FAULTS };

/* NULL when memory runs out. */
struct sim *sim_new(uint64_t seed, uint32_t n_nodes);
void sim_free(struct sim *sim);

uint64_t sim_now_ns(const struct sim *sim);
uint64_t sim_n_events(const struct sim *sim);

/* A random number, from the seed. */
uint64_t sim_random(struct sim *sim);

/* The next event, at its time; false if none is left or memory ran out. */
bool sim_next(struct sim *sim, struct sim_event *event);

/* Opens a connection: this end may be written to at once. NULL when memory runs out. */
struct sim_end *sim_connect(struct sim *sim, uint32_t from, uint32_t to);
void sim_write(struct sim *sim, struct sim_end *end, const void *bytes, size_t n);

/* Closes this end. What it has written still arrives, or a part of it, and then the other is told. */
void sim_close(struct sim *sim, struct sim_end *end);

/* Closes all ends of a node and forgets its timers: its process is gone. What it has written last may
 * come late, when its successor has called already. */
void sim_kill(struct sim *sim, uint32_t node);

/* The process of a node that was killed has no successor, and others can see that: nobody listens there. */
void sim_silence(struct sim *sim, uint32_t node);

/* Whether somebody listens at node `to`, as far as node `from` can see: some links that are cut refuse connections, as a
 * firewall does. */
bool sim_listens(const struct sim *sim, uint32_t from, uint32_t to);

/* No link that is cut does from now on. */
void sim_never_refuse(struct sim *sim);

/* An event for the node after `after_ns`. */
void sim_timer(struct sim *sim, uint32_t node, uint64_t after_ns, uint64_t tag);

/* A fault of a kind, of random place and of at most `longest_ns`. A link or node that is hit already
 * is hit for longer. Breaks need a connection; without one nothing happens. */
void sim_strike(struct sim *sim, enum sim_fault fault, uint64_t longest_ns);

/* Cuts both directions between two nodes for `for_ns` from now. */
void sim_cut(struct sim *sim, uint32_t a, uint32_t b, uint64_t for_ns);

/* A node stands still for so long. */
void sim_pause(struct sim *sim, uint32_t node, uint64_t for_ns);

/* How often a fault had an effect: connections broken, pieces and events held up. */
uint64_t sim_n_fired(const struct sim *sim, enum sim_fault fault);

/* When the last pause, cut or slow link ends. */
uint64_t sim_healed_ns(const struct sim *sim);

/* The hash so far; and something of the user's to add to it. */
uint64_t sim_trace(const struct sim *sim);
void sim_note(struct sim *sim, uint64_t what);

#endif
