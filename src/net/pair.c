/*
 * pair - two connected ends inside this process: a socket pair, so that poll sees it as it sees the
 * others and two threads may hold the two ends.
 *
 * Nodes of one process find each other by name, "here:NAME". A *door* is such a name with a pipe: whoever
 * connects makes a pair, keeps one end and writes the descriptor of the other to the pipe, where the
 * listener reads it. Doors are few and opened rarely: a list under one lock.
 */
#include "net/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"

/* The system doubles the figure to have room for its own records, which are large beside small
 * writes, and has a limit of its own that only the privileged pass. */
static void set_room(int fd, size_t capacity)
{
    int n = capacity < INT_MAX / 2 ? (int)capacity : INT_MAX / 2;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &n, sizeof n) != 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof n);
}

enum tern_status stream_pair(size_t capacity, struct stream *ends[2])
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        return fail(TERN_NETWORK, "a pair of streams cannot be made: %s", strerror(errno));
    struct stream *made[2];
    for (int i = 0; i < 2; i++) {
        set_room(fds[i], capacity);
        made[i] = stream_new(NULL, &socket_ops, fds[i]);
        if (made[i] == NULL)
            continue;
        made[i]->established = true;
        snprintf(made[i]->peer, sizeof made[i]->peer, "this process");
    }
    if (made[0] == NULL || made[1] == NULL) {
        stream_close(made[0]);
        stream_close(made[1]);
        return fail(TERN_NO_MEMORY, "no memory for a pair of streams");
    }
    ends[0] = made[0];
    ends[1] = made[1];
    return TERN_OK;
}

/* ---- Doors ------------------------------------------------------------------------------------ */

enum { DOOR_ROOM_BYTES = 1 << 20 }; /* as Unix sockets have */

struct door {
    struct door *next;
    int listen_fd, connect_fd; /* the ends of its pipe */
    char name[ADDRESS_TEXT_BYTES];
};

static struct lock doors_lock = LOCK_INITIALIZER(RANK_PROCESS);
static struct door *doors; /* a list */

bool door_is_meant(const char *address)
{
    return address != NULL && strncmp(address, "here:", strlen("here:")) == 0;
}

/* The place in the list of the door with this name, or of the end. The caller holds the lock. */
static struct door **find_door(const char *name)
{
    struct door **link = &doors;
    while (*link != NULL && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

/* Hangs a door, unless there is one of its name. */
static bool hang(struct door *door)
{
    lock_take(&doors_lock);
    struct door **link = find_door(door->name);
    bool is_free = *link == NULL;
    if (is_free)
        *link = door;
    lock_release(&doors_lock);
    return is_free;
}

static void free_door(struct door *door)
{
    close(door->listen_fd);
    close(door->connect_fd);
    free(door);
}

enum tern_status door_open(const char *name, struct door **door)
{
    struct door *made = calloc(1, sizeof *made);
    int ends[2];
    if (made == NULL)
        return fail(TERN_NO_MEMORY, "no memory to listen at %s", name);
    if (strlen(name) >= sizeof made->name || pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
        const char *why =
            strlen(name) >= sizeof made->name ? "the name is too long" : strerror(errno);
        free(made);
        return fail(TERN_NETWORK, "cannot listen at %s: %s", name, why);
    }
    made->listen_fd = ends[0];
    made->connect_fd = ends[1];
    strcpy(made->name, name);
    if (!hang(made)) {
        free_door(made);
        return fail(TERN_NETWORK, "cannot listen at %s: another node of this process does", name);
    }
    *door = made;
    return TERN_OK;
}

void door_close(struct door *door)
{
    lock_take(&doors_lock);
    *find_door(door->name) = door->next;
    lock_release(&doors_lock);
    struct stream *waiting;
    while ((waiting = door_answer(door, NULL)) != NULL)
        stream_close(waiting);
    free_door(door);
}

int door_fd(const struct door *door)
{
    return door->listen_fd;
}

/* Hands an end to whoever listens; NULL, or why it was not taken. */
static const char *hand_over(const char *name, int fd)
{
    lock_take(&doors_lock);
    const struct door *door = *find_door(name);
    const char *why = NULL;
    if (door == NULL)
        why = "nobody listens there";
    else if (write(door->connect_fd, &fd, sizeof fd) != (ssize_t)sizeof fd)
        why = "too many others are waiting there";
    lock_release(&doors_lock);
    return why;
}

enum tern_status door_connect(struct net *net, const char *name, struct stream **stream)
{
    struct stream *ends[2];
    enum tern_status status = stream_pair(DOOR_ROOM_BYTES, ends);
    if (status != TERN_OK)
        return status;
    ends[0]->net = net;
    snprintf(ends[0]->peer, sizeof ends[0]->peer, "%s", name);
    int fd = ends[1]->fd;
    const char *why = hand_over(name, fd);
    if (why != NULL) {
        stream_close(ends[1]);
        stream_fail(ends[0], "refused the connection: %s", why);
    } else {
        free(ends[1]); /* its descriptor is the listener's now */
    }
    *stream = ends[0];
    return TERN_OK;
}

struct stream *door_answer(const struct door *door, struct net *net)
{
    int fd;
    if (read(door->listen_fd, &fd, sizeof fd) != (ssize_t)sizeof fd)
        return NULL;
    struct stream *stream = stream_new(net, &socket_ops, fd);
    if (stream == NULL)
        return NULL;
    stream->accepted = stream->established = true;
    snprintf(stream->peer, sizeof stream->peer, "%s", door->name);
    return stream;
}
