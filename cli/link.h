/*
 * link - simulated hosts on this host: a network namespace for each node, joined by links of a chosen rate and
 * delay.
 *
 * Each namespace has loopback and one TUN device. A process, the relay, reads the packets that leave a device and
 * writes each to its destination when a real link would have delivered it: packets leave a host one after
 * the other at the rate of its link, take the delay, and enter the other host at the same rate. The relay does not
 * read from a host whose link is behind, so that host sees a full queue, as with a real link.
 *
 * The network consists of descriptors and processes only, and disappears with them.
 */
#ifndef CLI_LINK_H
#define CLI_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { LINK_MAX_HOSTS = 64 };

/* Where node 0 listens. */
#define LINK_COORDINATOR "10.211.0.1:7420"

struct link_speed {
    double ns_per_byte; /* each way */
    uint64_t delay_ns;  /* from one host to the other */
};

/* Of "RATE" or "RATE,DELAY", such as 1gbit, 100mbit,0.5ms; false after a complaint. */
bool link_parse(const char *text, struct link_speed *speed);

struct links {
    size_t n_hosts;
    int namespaces[LINK_MAX_HOSTS];
    pid_t relay; /* 0: there are no links */
};

/* Makes the hosts; false after an error message, and then there is nothing to close. Needs root. */
bool links_open(struct links *links, size_t n_hosts, const struct link_speed *speed);

/* Moves this process to a host. A node opened there needs no certificates, since nobody else is on these links.
 * False, with errno, if it cannot. */
bool links_enter(const struct links *links, size_t host);

/* Ends the links, if there are any. */
void links_close(struct links *links);

#endif
