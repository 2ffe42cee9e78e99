/* address - see address.h. */
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char local_prefix[] = "unix:";

bool address_is_unix(const char *text)
{
    return !strncmp(text, local_prefix, sizeof local_prefix - 1);
}

static enum tern_status find_local(const char *text, struct address *found)
{
    const char *path = text + sizeof local_prefix - 1;
    size_t n_path = strlen(path);
    if (n_path == 0)
        return fail(TERN_NETWORK, "the address '%s' has no path after unix:", text);
    if (n_path >= sizeof found->local.sun_path)
        return fail(
            TERN_NETWORK,
            "the path of '%.40s...' has %zu characters; a socket's path may have at most %zu", text,
            n_path, sizeof found->local.sun_path - 1);
    *found = (struct address){.n_bytes = sizeof found->local};
    found->local.sun_family = AF_UNIX;
    memcpy(found->local.sun_path, path, n_path + 1);
    return TERN_OK;
}

/* "host:port" or "[v6]:port" in its parts. */
struct parts {
    char host[256];
    const char *port;
    bool bracketed;
};

static enum tern_status split(const char *text, struct parts *parts)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL)
        return fail(TERN_NETWORK, "the address '%s' has no port; write host:port", text);
    const char *host = text;
    size_t n_host = (size_t)(colon - text);
    parts->port = colon + 1;
    parts->bracketed = text[0] == '[';
    if (parts->bracketed) {
        if (n_host < 3 || colon[-1] != ']')
            return fail(TERN_NETWORK, "the address '%s' is not of the form [v6]:port", text);
        host++;
        n_host -= 2;
    } else if (memchr(text, ':', n_host) != NULL) {
        return fail(TERN_NETWORK, "the address '%s' has several colons; write [v6]:port", text);
    }
    if (n_host == 0)
        return fail(
            TERN_NETWORK,
            "the address '%s' has no host; 127.0.0.1 is this machine for itself, 0.0.0.0 this "
            "machine for everybody",
            text);
    if (n_host >= sizeof parts->host)
        return fail(TERN_NETWORK, "the host of '%.40s...' is longer than %zu characters", text,
                    sizeof parts->host - 1);
    memcpy(parts->host, host, n_host);
    parts->host[n_host] = '\0';
    return TERN_OK;
}

static enum tern_status check_port(const char *text, const char *port, bool to_listen)
{
    unsigned number = 0;
    size_t n_digits = strspn(port, "0123456789");
    if (n_digits == 0 || n_digits > 5 || port[n_digits] != '\0' ||
        sscanf(port, "%5u", &number) != 1 || number > 65535)
        return fail(TERN_NETWORK, "the port of '%s' is not a number from 0 to 65535", text);
    if (number == 0 && !to_listen)
        return fail(TERN_NETWORK, "the address '%s' has port 0, which nobody can be reached at",
                    text);
    return TERN_OK;
}

enum tern_status address_find(const char *text, bool to_listen,
                              struct address found[ADDRESS_FOUND_MAX], int *n_found)
{
    if (text == NULL || text[0] == '\0')
        return fail(TERN_NETWORK, "the address is empty; write host:port or unix:/path");
    enum tern_status status;
    if (address_is_unix(text)) {
        status = find_local(text, &found[0]);
        if (status == TERN_OK)
            *n_found = 1;
        return status;
    }
    struct parts parts;
    status = split(text, &parts);
    if (status == TERN_OK)
        status = check_port(text, parts.port, to_listen);
    if (status != TERN_OK)
        return status;

    struct addrinfo hints = {
        .ai_family = parts.bracketed ? AF_INET6 : AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | (parts.bracketed ? AI_NUMERICHOST : 0),
    };
    struct addrinfo *list = NULL;
    int error = getaddrinfo(parts.host, parts.port, &hints, &list);
    if (error != 0)
        return fail(TERN_NETWORK, "the host of '%s' cannot be found: %s", text,
                    error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    int n = 0;
    for (struct addrinfo *at = list; at != NULL && n < ADDRESS_FOUND_MAX; at = at->ai_next) {
        if (at->ai_family != AF_INET && at->ai_family != AF_INET6)
            continue;
        found[n] = (struct address){.n_bytes = at->ai_addrlen};
        memcpy(&found[n].any, at->ai_addr, at->ai_addrlen);
        n++;
    }
    freeaddrinfo(list);
    if (n == 0)
        return fail(TERN_NETWORK, "the host of '%s' has no internet address", text);
    *n_found = n;
    return TERN_OK;
}

bool address_is_local(const struct address *address)
{
    switch (address->any.sa_family) {
    case AF_UNIX:
        return true;
    case AF_INET:
        return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
    case AF_INET6:
        if (IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr))
            return address->v6.sin6_addr.s6_addr[12] == 127;
        return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
    default:
        return false;
    }
}

bool address_is_wildcard(const struct address *address)
{
    if (address->any.sa_family == AF_INET)
        return address->v4.sin_addr.s_addr == htonl(INADDR_ANY);
    return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
}

uint64_t address_source(const struct address *address)
{
    uint64_t network = 0;
    const uint8_t *v6 = address->v6.sin6_addr.s6_addr;
    if (address->any.sa_family == AF_INET)
        return 1 + (uint64_t)ntohl(address->v4.sin_addr.s_addr);
    if (address->any.sa_family != AF_INET6)
        return 0;
    for (int i = 0; i < 8; i++)
        network = network << 8 | v6[IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr) ? 8 + i : i];
    return IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr) ? 1 + (network & UINT32_MAX) : network;
}

/* A UDP socket that is connected tells without sending anything. */
bool address_towards(const struct address *peer, struct address *own)
{
    int fd = socket(peer->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    struct address found = {.n_bytes = sizeof found.v6};
    bool known = connect(fd, &peer->any, peer->n_bytes) == 0 &&
                 getsockname(fd, &found.any, &found.n_bytes) == 0;
    close(fd);
    if (found.any.sa_family == AF_INET6)
        found.v6.sin6_port = 0;
    else
        found.v4.sin_port = 0;
    if (known)
        *own = found;
    return known;
}

void address_text(const struct address *address, char text[ADDRESS_TEXT_BYTES])
{
    char host[INET6_ADDRSTRLEN + 24];
    switch (address->any.sa_family) {
    case AF_UNIX:
        snprintf(text, ADDRESS_TEXT_BYTES, "%s%s", local_prefix, address->local.sun_path);
        return;
    case AF_INET:
        inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof host);
        snprintf(text, ADDRESS_TEXT_BYTES, "%s:%u", host, ntohs(address->v4.sin_port));
        return;
    case AF_INET6:
        if (IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr)) {
            inet_ntop(AF_INET, &address->v6.sin6_addr.s6_addr[12], host, sizeof host);
            snprintf(text, ADDRESS_TEXT_BYTES, "%s:%u", host, ntohs(address->v6.sin6_port));
            return;
        }
        /* getnameinfo, unlike inet_ntop, writes the interface of a link-local address. */
        if (getnameinfo(&address->any, address->n_bytes, host, sizeof host, NULL, 0,
                        NI_NUMERICHOST) != 0)
            snprintf(host, sizeof host, "?");
        snprintf(text, ADDRESS_TEXT_BYTES, "[%s]:%u", host, ntohs(address->v6.sin6_port));
        return;
    default:
        snprintf(text, ADDRESS_TEXT_BYTES, "an unknown place");
    }
}
