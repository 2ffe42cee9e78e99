/*
 * pair - two connected ends inside this process: a socket pair, so that poll sees it as it sees the
 * others and two threads may hold the two ends.
 */
#include "net/transport.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
