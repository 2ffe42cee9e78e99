/*
 * address - where a node is found: "host:port", "[v6]:port" or "unix:/path".
 *
 * Any thread may call these. address_find may ask a name server and take as long as that takes.
 */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/status.h"

enum {
    ADDRESS_TEXT_BYTES = 160, /* the longest text of an address, with its 0 */
    ADDRESS_FOUND_MAX = 8,    /* addresses of one name that are looked at */
};

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    };
    socklen_t n_bytes;
};

/* The addresses `text` stands for, best first; at least one on success. Port 0 is for listeners. */
enum tern_status address_find(const char *text, bool to_listen,
                              struct address found[ADDRESS_FOUND_MAX], int *n_found);

/* Whether what is sent there stays on this machine. "All addresses of this machine" does not. */
bool address_is_local(const struct address *address);

bool address_is_wildcard(const struct address *address);

/* The address this machine would send from to `peer`, with port 0; false if it knows no way there. */
bool address_towards(const struct address *peer, struct address *own);

/* The host of an address as a number; see stream_source. */
uint64_t address_source(const struct address *address);

/* Whether an address is a Unix socket's, and so of this host. */
bool address_is_unix(const char *text);

/* The address in numbers, "127.0.0.1:4711", "[::1]:4711" or "unix:/path". */
void address_text(const struct address *address, char text[ADDRESS_TEXT_BYTES]);

#endif
