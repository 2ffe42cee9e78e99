/* host - see host.h. */
#include "node/host.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/hash.h"
#include "net/address.h"
#include "node/user_folder.h"

enum { TEXT_BYTES = 64 };

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        hash = hash_u64(hash ^ at[i]);
    return hash;
}

/* The boot of this machine; false if the system does not tell. */
static bool mix_boot(uint64_t *hash)
{
    char text[TEXT_BYTES];
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    if (n > 0)
        *hash = mix(*hash, text, (size_t)n);
    return n > 0;
}

static bool mix_file(uint64_t *hash, const char *path)
{
    struct stat about;
    if (stat(path, &about))
        return false;
    *hash = hash_u64(*hash ^ about.st_dev);
    *hash = hash_u64(*hash ^ about.st_ino);
    return true;
}

uint64_t host_identity(const struct launch *launch)
{
    char folder[sizeof launch->listen];
    if (!launch->shares)
        return 0;
    uint64_t hash = mix(1, launch->host, strlen(launch->host));
    /* A node that reaches the coordinator's Unix socket is on its host. */
    if (!address_is_unix(launch->listen) &&
        (!user_folder_path(sizeof folder, folder) || user_folder_make() || !mix_boot(&hash) ||
         !mix_file(&hash, "/proc/self/ns/net") || !mix_file(&hash, folder)))
        return 0;
    return hash ? hash : 1;
}

bool host_address(const struct launch *launch, uint32_t node, size_t size, char *address)
{
    char folder[sizeof launch->listen];
    const uint64_t job = mix(mix(1, launch->token, strlen(launch->token)), launch->coordinator,
                             strlen(launch->coordinator));
    if (!user_folder_path(sizeof folder, folder))
        return false;
    const int n =
        snprintf(address, size, "unix:%s/host-%016" PRIx64 ".%" PRIu32, folder, job, node);
    return n > 0 && (size_t)n < size &&
           (size_t)n - strlen("unix:") < sizeof((struct sockaddr_un *)NULL)->sun_path;
}
