/*
 * host - which processes of a cluster are on the same host, and the Unix socket through which these reach each other where
 * nodes of other hosts come over TCP.
 *
 * Two processes are on one host, for Tern, if they can share memory: the same boot of the same machine, the same network
 * namespace, and the same folder of the same user (user_folder.h), which the sockets are in. TERN_HOST divides the processes of
 * a host further, as tests do.
 */
#ifndef NODE_HOST_H
#define NODE_HOST_H

#include "node/launch.h"

/* The identity of this process's host; 0: it is like no other, because it shares no memory. */
uint64_t host_identity(const struct launch *launch);

/* Where a node of the same host is reached: the address of its Unix socket. False: the path is too long. */
bool host_address(const struct launch *launch, uint32_t node, size_t size, char *address);

#endif
