/*
 * lanes - the rules by which a client (client.h) reaches other nodes: when a lane connects, sends again and resumes, how
 * long it waits and for whom, and whom its failure names.
 *
 *  1. A lane connects at first use. When its connection breaks, it connects again, at most every RETRY_MS, and sends
 *     everything unanswered again.
 *  2. A lane waits from the moment something is unanswered on it, and is patient from the last sign of its node on. Bytes
 *     are a sign only on a connection that was welcomed: a node that refuses every connection gives none.
 *  3. Patience is the deadline. Towards a node that is connected it is half a deadline longer until a dead node is
 *     known: that node may itself wait for the dead one, which the coordinator finds within the deadline and every node
 *     learns by its next pulse. A pulse itself has the deadline alone.
 *     Some answers may take long for a good reason, such as that to a barrier: for these, a node's silence begins when the
 *     connection breaks.
 *  4. A HOLD is a sign of life, of a request that waits for a good reason, and lets this node's keys on their way take longer.
 *     If the others go on without this node, everything fails.
 *  5. The failure names the node that was given up, if there is one, and else the node that does not answer.
 *  6. A node's silence counts only while the program looks for answers: if nobody has looked for half a deadline, the wait
 *     begins anew.
 *  7. Requests for keys that are on their way to this node wait in the lane `local`, and are tried every LOCAL_MS, with
 *     the patience of a connected node.
 *  8. When another node has taken over an arc, its lane leads there, and its wait begins anew. Until then a lane waits two
 *     deadlines for a node whose keys have backups.
 *  9. If nobody listens at the address of a node that has joined, its process may have ended: the coordinator is told (pulse.h).
 * 10. A process other than the one that joined as its node executes nothing: what waits for the old one fails.
 *
 * Lanes belong to one thread at a time, as their client does.
 */
#ifndef CORE_LANES_H
#define CORE_LANES_H

#include "core/client.h"
#include "core/io.h"
#include "core/peers.h"

/* How the last connection of a lane ended. */
enum breach {
    BREACH_BROKEN,
    BREACH_UNMADE,      /* it could not even be begun here */
    BREACH_TURNED_AWAY, /* the node accepted it and closed it without a word */
    BREACH_UNSERVED,    /* nobody listens at the node's address */
};

/* The connection of one lane. */
struct link {
    bool connected; /* the driver has a connection, */
    bool welcomed;  /* which was welcomed */
    bool met;       /* one was, at some time */
    bool refused;   /* the last was, by the answer to HELLO, which `trouble` keeps */
    bool waits;     /* something is unanswered */
    enum breach breach;
    uint64_t heard_ns;  /* when something last came, or waiting began */
    uint64_t retry_ns;  /* not to connect again before */
    uint64_t n_resumed; /* connections that were given up */
    char trouble[160];  /* why the last connection failed */
};

struct lanes {
    struct client *client;
    struct peers *peers;
    const struct io *io;
    void *driver;
    struct link *links; /* one for each lane of the client */
    bool
        is_pulse; /* it asks the coordinator who is alive: the coordinator's silence means itself */
    uint32_t epoch;          /* of the view that the lanes follow */
    bool waits;              /* something was unanswered when it last advanced */
    bool local_waits;        /* requests wait for keys that come here, */
    uint64_t local_since_ns; /* since then */
    uint64_t looked_ns;      /* when it last looked for nodes that do not answer */
};

/* The client is initialised and outlives its lanes. */
enum tern_status lanes_init(struct lanes *lanes, struct client *client, struct peers *peers,
                            const struct io *io, void *driver);
void lanes_fini(struct lanes *lanes);

static inline struct link *lanes_link(const struct lanes *lanes, const struct lane *lane)
{
    return &lanes->links[lane - lanes->client->lanes];
}

/* Something was queued on a lane: it is advanced. */
void lanes_advance_one(struct lanes *lanes, struct lane *lane);

/* Notes when a lane begins to wait. */
void lanes_note_waiting(struct lanes *lanes, const struct lane *lane);

/* Advances all that wait, and arms the timer. */
void lanes_advance(struct lanes *lanes);

/* Whether the answer to a call may take long for a good reason and something else tells when its node is dead. The answer to JOIN
 * may also take long, but a node that has not joined has no pulse: HOLD is all that it hears of the coordinator. */
bool lanes_is_patient(enum frame_kind kind);

/* Fails what waits for nodes that are dead or have been silent for too long. `patient`: answers may take long for a good reason;
 * then only a death ends the wait for a node that is connected. */
void lanes_look(struct lanes *lanes, bool patient);

/* Fails everything that waits, with this status and tern_error(). Later answers must not meet it: its connections close,
 * and the next ones begin with what the servers have executed by then. */
void lanes_abandon(struct lanes *lanes, enum tern_status status);

/* Bytes have come. */
void lanes_heard(struct lanes *lanes, const struct lane *lane);

/* A frame has come. False: the connection must be given up (lanes_broke). */
bool lanes_take(struct lanes *lanes, struct lane *lane, const struct frame *frame,
                const uint8_t *body);

/* The connection is over, with a sentence. */
void lanes_broke(struct lanes *lanes, struct lane *lane, enum breach breach);

#endif
