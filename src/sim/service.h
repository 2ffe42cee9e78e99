/*
 * service - the server side of a shard's lanes in the simulation: what node/shard.c does with sockets.
 *
 * The rules are shard.c's: a connection comes to the first shard and begins with HELLO, and goes to the shard that it
 * asks for; a lane is remembered across connections and has one at a time, the newer one closes the older; a request
 * that cannot be answered yet is held, and with it all that follows on its connection; held requests are tried again
 * after a change. And PROTOCOL.md's: once a node has called as a new incarnation, nothing of the old one is executed.
 */
#ifndef SIM_SERVICE_H
#define SIM_SERVICE_H

#include "core/server.h"
#include "net/sim.h"
#include "sim/caller.h"
#include "sim/check.h"

struct known_lane;

struct incoming {
    struct holder holder;
    struct service *service; /* whose it is */
    struct incoming *next;
    struct sim_end *end;
    struct cutter cutter;
    struct known_lane *known; /* NULL before HELLO */
    bool held;                /* the frame at the head waits for others */
};

struct service {
    struct service *all; /* by shard */
    struct sim *sim;
    struct core *core;
    struct server server;
    struct incoming *incoming; /* a list, the newest first */
    struct known_lane *lanes;  /* a list */
    uint64_t *incarnations;    /* by node: the newest that has called */
    struct check *check;
    struct buffer out; /* answers being made */
};

/* Makes the service of a shard, which is at its place among those of all. */
enum tern_status service_init(struct service *all, uint32_t shard, struct sim *sim,
                              struct core *core, struct group *group, struct check *check);
void service_fini(struct service *service);

/* To the first shard. */
void service_accepted(struct service *service, struct sim_end *end);
void service_bytes(struct incoming *incoming, const uint8_t *bytes, size_t n);
void service_closed(struct incoming *incoming);

/* What is remembered of a lane of another node's present process; NULL if it has not called. */
const struct server_lane *service_lane(const struct service *service, uint32_t node, uint64_t id);

/* Lets the coordinator look for dead nodes. */
void service_tick(struct service *service);

/* Tries held requests again until nothing changes any more. */
void service_retry(struct service *service);

#endif
