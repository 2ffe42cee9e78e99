/*
 * io - what the rules of core/ ask of the world: send to a lane, arm a timer, wake a worker, read the clock.
 *
 * node/ implements it with sockets, threads and epoll, sim/ with a heap of events. A driver calls the rules when
 * something has happened (bytes have come, a connection has broken, a timer is over); the rules decide what follows and
 * ask for it here. No rule is in a driver.
 */
#ifndef CORE_IO_H
#define CORE_IO_H

#include <stdint.h>

#include "base/status.h"
#include "core/worker_clocks.h"

struct frame;
struct lane;
struct session;

struct io {
    uint64_t (*now_ns)(void *driver);
    /* Begins a connection to the lane's node; HELLO is on its way. A failure has its sentence; TERN_PEER: nobody
     * listens there. */
    enum tern_status (*connect)(void *driver, struct lane *lane);
    void (*disconnect)(void *driver, struct lane *lane);
    /* Sends what may be sent on the lane (lane_send), and takes what has come; a connection that breaks meanwhile is
     * reported (lanes_broke). */
    void (*advance)(void *driver, struct lane *lane);
    /* Has the rules called again (lanes_look) after this time at the latest; UINT64_MAX: nothing waits. */
    void (*arm)(void *driver, uint64_t after_ns);

    /* Of a service (service.h): sends a frame without body, tries the frame at the head of a connection again, and closes
     * a connection, which removes its session. The first two may also close it. */
    void (*say)(void *driver, struct session *session, const struct frame *frame);
    void (*retry)(void *driver, struct session *session);
    void (*close)(void *driver, struct session *session);
    /* A request gave this node something to say: a round is to begin soon. */
    void (*hurry)(void *driver);

    /* Rows with backups were changed by others: a batch is to be sent soon (backup.h). NULL where there are none. */
    void (*send_batch)(void *driver);
    /* Another node has a later view than this one: a PING is to be sent soon (pulse.h). Also of lanes. NULL where views do not
     * change. */
    void (*fetch_view)(void *driver);

    /* Of rounds (rounds.h): nobody else uses the managers of tables between these; requests that are held are tried again
     * soon; how far the node's workers are. */
    void (*enter)(void *driver);
    void (*leave)(void *driver);
    void (*wake)(void *driver);
    struct node_clock (*clock)(void *driver);

    /* Of a worker (order.h, admit.h): nobody else uses the managers of a shard, or the rounds of the first one, between
     * these. */
    void (*enter_shard)(void *driver, uint32_t shard);
    void (*leave_shard)(void *driver, uint32_t shard);
    void (*enter_rounds)(void *driver);
    void (*leave_rounds)(void *driver);
    /* Of a worker of bounded tables (admit.h): says how far it is, or CLOCK_RESTS, and returns whether the node's clock has
     * changed; and the node's clock alone, of `clock`. */
    bool (*tell)(void *driver, uint64_t clock);
    uint64_t (*min_clock)(void *driver);
};

#endif
