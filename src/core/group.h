/*
 * group - the coordinator: the members of the cluster, and what all nodes do together.
 *
 * It lives in node 0. Every member asks it by requests (wire/frame.h): JOIN, TABLE, BARRIER, REDUCE,
 * BROADCAST, PING, BYE. Requests that need others are *held*: the caller keeps the request and tries
 * it again when group_request or group_tick says that something has changed. All requests are
 * idempotent, so trying again, or sending again after a broken connection, changes nothing: a barrier
 * is "I am at number n", a reduction "this is my part of number n".
 *
 * Barriers, reductions and broadcasts are numbered by each member from 1, each kind by itself. The
 * result of a reduction or broadcast is kept until every living member has asked for a later one. A
 * broadcast is answered as soon as its root was here; a root is held when it is two ahead of others.
 *
 * A member that was silent for the deadline is dead, for good; one that said BYE has left. A request that waits for a dead or
 * gone member fails with a sentence that names it. But if tables were opened and all of them have backups, the others go on
 * without a dead member: the cluster gets a view with the next epoch, the answers to PING contain it, and barriers and sums
 * wait only for the nodes in it. Nothing that the dead member says counts from then on. If nobody has called group_tick for
 * half the deadline, all deadlines begin anew: a coordinator that was not listening cannot tell which member is dead.
 *
 * A member may leave alone, before the others, if they could go on without it. Its BYE says so, and is held. The cluster gets a view in
 * which it is leaving (view.h). Members say by PING in which epoch all backups of their rows are complete. When all have said that of
 * the present one, the next view is without the member, and its BYE is answered. One leaves at a time.
 *
 * Pure: time comes in, replies go out. etcd can take this file's place.
 */
#ifndef CORE_GROUP_H
#define CORE_GROUP_H

#include "base/buffer.h"
#include "core/view.h"
#include "wire/frame.h"

struct group;

enum served {
    SERVED, /* the reply was appended */
    HELD,   /* not yet: keep the request and try it again after a change */
    REFUSED /* not a request that can be answered; tern_error() says why: close the connection */
};

/* A group of the nodes of a view; NULL, with a sentence, when memory runs out. `now_ns` starts everybody's deadline for
 * joining. */
struct group *group_new(const struct view *view, uint64_t deadline_ns, uint64_t now_ns);
void group_free(struct group *group);

/* Sets how many shards (core.h) each node has, which is told to those who join; 1 unless set. */
void group_set_shards(struct group *group, uint32_t n_shards);

/* Sets how long members may take to join; the deadline unless set. */
void group_set_join_deadline(struct group *group, uint64_t deadline_ns);

/* Handles a request of member `from`, whose body check was looked at. *changed is set to true if held
 * requests of others may now be served, and else left alone. The reply, a whole frame with the
 * request's number, is appended to `out`. It does not count as hearing of the member, since a request
 * may be tried again long after it came: see group_heard. */
enum served group_request(struct group *group, uint32_t from, const struct frame *request,
                          const uint8_t *body, uint64_t now_ns, struct buffer *out, bool *changed);

/* Notes that something was heard of a member: any frame that comes in counts. Members that wait for
 * an answer must be heard of too; the deadline begins when all have joined. */
void group_heard(struct group *group, uint32_t node, uint64_t now_ns);

/* The process of a member has ended: the others go on without it at once, if they can. True if they do now. */
bool group_ended(struct group *group, uint64_t node);

/* Looks for members that have died or did not join in time; true if somebody newly did, so that held
 * requests may be answered now. */
bool group_tick(struct group *group, uint64_t now_ns);

enum { GROUP_LIST_BYTES = 256 };

/* Lists the members that have not joined, as "node 1 and node 3", or writes "" when all have or some are given up. */
void group_list_absent(const struct group *group, char text[GROUP_LIST_BYTES]);

/* Whether a process has joined as this node. */
bool group_has_joined(const struct group *group, uint32_t node, uint64_t incarnation);

/* Whether all members have said BYE or are dead. */
bool group_is_over(const struct group *group);

/* Whether also all that said BYE have said that they know: nobody will ask again. */
bool group_end_is_known(const struct group *group);

#endif
