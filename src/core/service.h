/*
 * service - the rules by which a shard serves the lanes of other nodes: which connection speaks for a lane, which
 * lanes are served, which requests are held and when they are tried again.
 *
 *  1. A connection begins with HELLO, which names the lane. A lane has one connection at a time: a newer one closes the
 *     older, so that nothing left in the older is executed after what comes on the newer.
 *  2. A process other than the one that joined as its node is served nothing but JOIN. Until a process is known to have
 *     joined it is a guest, and its lanes end with their connections, so guests cost no memory once they are gone. A
 *     lane of a process that has joined is remembered across connections, before anything of it is executed.
 *  3. A request that cannot be answered yet is held, and with it all that follows on its connection. Held requests are
 *     tried again after every change: a request that let others go on, a table opened, a round over, a death.
 *  4. Every quarter of the deadline a HOLD tells those that wait for a good reason: for a table to be opened here, for others to
 *     join, or for anything while this node's own requests wait so elsewhere (peers.h).
 *  5. A lane is for an arc (view.h). One for an arc of another node is refused until this node has taken that over.
 *  6. Everything that comes on a member's connection tells the coordinator that it lives.
 *
 * A driver has the connections: it authenticates callers, bounds the number of guests and how long they stay, cuts frames
 * and gives them to the service, keeps the frame of a held request at the head of its connection, and sends the service's
 * answers. A service belongs to one thread at a time.
 */
#ifndef CORE_SERVICE_H
#define CORE_SERVICE_H

#include "base/keymap.h"
#include "core/backup.h"
#include "core/io.h"
#include "core/peers.h"
#include "core/server.h"

/* Who calls, as the first frame of a connection says. */
struct hello {
    uint32_t node, shard;
    uint64_t incarnation;
    uint64_t lane;
};

struct known_lane;

/* A connection of another node's lane; the driver's struct begins with it. Zeroed before its first use. */
struct session {
    struct session *next, *before; /* among those of its service, the newest first */
    struct known_lane *known;      /* NULL before HELLO */
    bool held;                     /* the frame at the head waits for others, */
    bool awaits_table;             /* namely for a table to be opened here */
    struct frame request;          /* that is held */
    uint64_t told_ns;              /* when its sender was last told so, or it began */
};

struct service {
    struct server server;
    struct backup backup; /* of the shard's rows */
    struct peers *peers;
    const struct io *io;
    void *driver;
    struct session *sessions;
    struct session *cursor; /* the next one of a loop in which sessions may end */
    struct known_lane **lanes;
    size_t n_lanes, max_lanes;
    struct keymap lane_slots; /* 1 + their places among these, by node, incarnation and number */
    bool changed;             /* held requests are to be tried again */
};

/* `group` is the coordinator's, in its first shard, else NULL; it is freed with the service, also if this fails. */
enum tern_status service_init(struct service *service, struct core *core, uint32_t shard,
                              struct peers *peers, struct group *group, const struct io *io,
                              void *driver);

/* The driver has removed all sessions. */
void service_fini(struct service *service);

void service_add(struct service *service, struct session *session);

/* The connection is over. */
void service_remove(struct service *service, struct session *session);

/* Handles the last frame of a caller's handshake. REFUSED: the sentence was appended to `out`. HELD: the session is for
 * another shard, which `may_come` or to which the driver gives it. `status` is the failure of the handshake, if any, whose
 * sentence is told. */
enum served service_greet(struct service *service, struct session *session, enum tern_status status,
                          const struct hello *hello, const struct frame *frame, bool may_come,
                          struct buffer *out);

/* Whether a session that was greeted is a guest's. */
bool service_is_guest(const struct session *session);

/* Remembers the lane of a guest from now on if its process has joined. False when memory runs out. */
bool service_admit(struct service *service, struct session *session);

/* Handles a request. SERVED: it was answered, in `out` and in server.kept. HELD: the frame stays at the head. */
enum served service_request(struct service *service, struct session *session,
                            const struct frame *request, const uint8_t *body, struct buffer *out);

/* Bytes have come from a session's node. */
void service_heard(struct service *service, const struct session *session);

/* Looks for dead nodes, tries held requests again if anything has changed, and hurries rounds. After every event. */
void service_settle(struct service *service);

/* Something has changed for which requests are held: a table was opened, or a round is over. */
void service_retry(struct service *service);

/* The node leaves and opens no further table: those that wait for one are told with the next service_settle. */
void service_leave(struct service *service);

/* Tells those that wait for a good reason. To be called every quarter of the deadline or more often. */
void service_tell_held(struct service *service);

/* Whether a member of another node is connected. */
bool service_has_others(const struct service *service);

/* Whether a session is the one that speaks for its lane, whose state is *lane. */
bool service_is_current(const struct session *session, const struct server_lane **lane);

/* The lanes that are remembered, one after the other; *at is 0 at first. NULL: there are no more. */
struct server_lane *service_next_lane(const struct service *service, size_t *at, uint64_t *id);

/* The lane of a client whose requests another node has executed until now; NULL when memory runs out. */
struct server_lane *service_adopt_lane(struct service *service, const struct hello *hello);

/* What is remembered of a lane of the process that joined as a node; NULL if it has not called. */
const struct server_lane *service_lane(const struct service *service, uint32_t node, uint64_t id);

#endif
